//! Replays exchanges: each request is sent with the ids of this server, and its response is compared with the recording.

use super::{
    compare::{self, Difference},
    http::Base,
    ids::{Calls, Ids},
    printed, rules,
    transcript::{Answer, Exchange, Request},
};
use crate::Result;
use serde_json::Value;
use std::error::Error;

#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) name: String,
    pub(super) verdict: Verdict,
}

#[derive(Debug)]
pub(super) enum Verdict {
    Same {
        /// The reason of an intended difference from ADK.
        on_purpose: Option<&'static str>,
    },
    Differs(Vec<Difference>),
    /// Sent but not compared: the reason, and the status or error.
    NotCompared {
        why: &'static str,
        answered: String,
    },
}

/// The state of a replay.
#[derive(Clone, Debug, Default)]
pub(super) struct Replay {
    /// Compares with the recording itself, without the intended differences.
    as_recorded: bool,
    ids: Ids,
    calls: Calls,
    /// The session that was created with a blank id.
    blank: Blank,
}

/// The id of the session in the recording and here; some servers generate an id, others refuse the request.
#[derive(Clone, Debug, Default)]
struct Blank {
    recorded: String,
    live: String,
}

impl Replay {
    pub(super) fn new(as_recorded: bool) -> Self {
        Self { as_recorded, ..Self::default() }
    }

    pub(super) fn step(&mut self, base: &Base, exchange: &Exchange) -> Outcome {
        let answer = base.send(&self.live(&exchange.request));
        let body: Value = exchange.request.body.as_deref().and_then(json).unwrap_or_default();
        if let Ok(answer) = &answer {
            self.calls.record(&body, &answer.snapshot()["body"]);
        }
        Outcome { name: exchange.name.clone(), verdict: self.verdict(exchange, answer) }
    }

    /// The request with the ids of this server.
    fn live(&mut self, request: &Request) -> Request {
        if let Some(body) = request.body.as_deref().and_then(json) {
            self.calls.resolve(&body, &mut self.ids);
        }
        let path = self.ids.rewrite(&request.path);
        let body = request.body.as_ref().map(|body| self.ids.rewrite(body));
        Request { path, body, ..request.clone() }
    }

    fn verdict(&mut self, exchange: &Exchange, answer: Result<Answer>) -> Verdict {
        let number = exchange.number();
        if let (rules::BLANK, Some(recorded), Ok(live)) = (number, &exchange.answer, &answer) {
            self.blank = Blank { recorded: id(recorded), live: id(live) };
        }
        let recorded = match (rules::not_compared(number), &exchange.answer) {
            (Some(why), _) => Err(why),
            (None, None) => Err("its response is withheld"),
            (None, Some(recorded)) => Ok(recorded),
        };
        match (recorded, answer) {
            (Ok(recorded), Ok(live)) => self.compare(number, recorded.snapshot(), live.snapshot()),
            (Ok(_), Err(error)) => Verdict::Differs(vec![no_answer(error.as_ref())]),
            (Err(why), Ok(live)) => Verdict::NotCompared { why, answered: live.status.to_string() },
            (Err(why), Err(error)) => Verdict::NotCompared { why, answered: error.to_string() },
        }
    }

    pub(super) fn compare(&mut self, number: &str, mut recorded: Value, mut live: Value) -> Verdict {
        let on_purpose = if self.as_recorded { None } else { rules::intended(number, &mut recorded) };
        without_session(&mut recorded, &self.blank.recorded);
        without_session(&mut live, &self.blank.live);
        printed::join(&mut recorded);
        printed::join(&mut live);
        let differences = compare::differences(number, &mut self.ids, &recorded, &live);
        if differences.is_empty() { Verdict::Same { on_purpose } } else { Verdict::Differs(differences) }
    }
}

/// Removes the session that was created with a blank id from a list of sessions.
fn without_session(snapshot: &mut Value, id: &str) {
    if let Some(sessions) = snapshot.get_mut("body").and_then(Value::as_array_mut) {
        sessions.retain(|session| session.get("appName").is_none() || session["id"] != id);
    }
}

fn id(answer: &Answer) -> String {
    answer.snapshot()["body"]["id"].as_str().unwrap_or_default().to_owned()
}

fn no_answer(why: &dyn Error) -> Difference {
    Difference { at: "/".to_owned(), recorded: None, live: Some(format!("no response: {why}").into()) }
}

fn json(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok()
}
