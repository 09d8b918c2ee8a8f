//! One exchange after the other: sent with the ids of this server, and compared with the recording.

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
        /// Why we answer otherwise than ADK.
        on_purpose: Option<&'static str>,
    },
    Differs(Vec<Difference>),
    /// Sent all the same; why, and how it was answered.
    NotCompared {
        why: &'static str,
        answered: String,
    },
}

/// What a replay knows so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Replay {
    /// Compares with the recording alone, and not with what we do otherwise on purpose.
    as_recorded: bool,
    ids: Ids,
    calls: Calls,
    /// The session that was created with a blank id.
    blank: Blank,
}

/// What it is called, in the recording and here; some servers give it an id, some refuse it.
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
            self.calls.note(&body, &answer.picture()["body"]);
        }
        Outcome { name: exchange.name.clone(), verdict: self.judge(exchange, answer) }
    }

    /// The request with the ids that this server gave.
    fn live(&mut self, request: &Request) -> Request {
        if let Some(body) = request.body.as_deref().and_then(json) {
            self.calls.explain(&body, &mut self.ids);
        }
        let path = self.ids.rewrite(&request.path);
        let body = request.body.as_ref().map(|body| self.ids.rewrite(body));
        Request { path, body, ..request.clone() }
    }

    fn judge(&mut self, exchange: &Exchange, answer: Result<Answer>) -> Verdict {
        let number = exchange.number();
        if let (rules::BLANK, Some(recorded), Ok(live)) = (number, &exchange.answer, &answer) {
            self.blank = Blank { recorded: id(recorded), live: id(live) };
        }
        let recorded = match (rules::not_compared(number), &exchange.answer) {
            (Some(why), _) => Err(why),
            (None, None) => Err("its answer is withheld"),
            (None, Some(recorded)) => Ok(recorded),
        };
        match (recorded, answer) {
            (Ok(recorded), Ok(came)) => self.compare(number, recorded.picture(), came.picture()),
            (Ok(_), Err(error)) => Verdict::Differs(vec![no_answer(error.as_ref())]),
            (Err(why), Ok(came)) => Verdict::NotCompared { why, answered: came.status.to_string() },
            (Err(why), Err(error)) => Verdict::NotCompared { why, answered: error.to_string() },
        }
    }

    pub(super) fn compare(&mut self, number: &str, mut recorded: Value, mut came: Value) -> Verdict {
        let on_purpose = if self.as_recorded { None } else { rules::on_purpose(number, &mut recorded) };
        without_session(&mut recorded, &self.blank.recorded);
        without_session(&mut came, &self.blank.live);
        printed::join(&mut recorded);
        printed::join(&mut came);
        let differences = compare::differences(number, &mut self.ids, &recorded, &came);
        if differences.is_empty() { Verdict::Same { on_purpose } } else { Verdict::Differs(differences) }
    }
}

/// A list of sessions without the one that was created with a blank id.
fn without_session(picture: &mut Value, id: &str) {
    if let Some(sessions) = picture.get_mut("body").and_then(Value::as_array_mut) {
        sessions.retain(|session| session.get("appName").is_none() || session["id"] != id);
    }
}

fn id(answer: &Answer) -> String {
    answer.picture()["body"]["id"].as_str().unwrap_or_default().to_owned()
}

fn no_answer(why: &dyn Error) -> Difference {
    Difference { at: "/".to_owned(), recorded: None, came: Some(format!("no answer: {why}").into()) }
}

fn json(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok()
}
