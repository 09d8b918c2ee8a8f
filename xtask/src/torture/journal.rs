//! What the clients were told: every acknowledgement, every event, and when. The verification believes this and nothing else.

use super::drill::Situation;
use crate::rig::{locked, places::EventId, script::Kind};
use serde_json::{Value, json};
use std::{sync::Mutex, time::Duration};

/// A moment on the clock of the test, which is the time, or the length of a trace.
pub(super) type Moment = Duration;

/// One server process: its slot, and the how manyth process of that slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ServerName {
    pub(super) slot: usize,
    pub(super) spawn: u64,
}

/// A message and all that its client was told about it.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) session: String,
    pub(super) token: String,
    pub(super) kind: Kind,
    pub(super) key: Option<String>,
    pub(super) first_sent: Moment,
    /// When it was first acknowledged.
    pub(super) accepted: Option<Moment>,
    /// The server that did.
    pub(super) accepted_by: Option<ServerName>,
    /// The run ids that acknowledged it: one for each attempt that was answered.
    pub(super) runs: Vec<String>,
    /// Somebody asked to cancel it.
    pub(super) is_cancelled: bool,
}

/// What one reader saw of one run.
#[derive(Clone, Debug, Default)]
pub(super) struct Reading {
    pub(super) session: String,
    pub(super) run: String,
    pub(super) seen: Vec<Seen>,
    /// The stream was ended by the server: there is nothing more to see.
    pub(super) is_complete: bool,
    /// How the server says that the run failed.
    pub(super) error: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) id: EventId,
    pub(super) what: What,
    pub(super) at: Moment,
    pub(super) server: ServerName,
}

#[derive(Clone, Debug)]
pub(super) enum What {
    Whole(Value),
    /// A partial event, as far as it matters: whose text it extends.
    Piece {
        event: String,
        text: String,
    },
}

impl What {
    pub(super) fn of(event: Value) -> Self {
        if event["partial"] == true {
            let id = event["id"].as_str().unwrap_or_default().to_owned();
            return Self::Piece { event: id, text: text(&event) };
        }
        Self::Whole(event)
    }
}

/// The text of an event.
pub(super) fn text(event: &Value) -> String {
    let parts = event["content"]["parts"].as_array().map(Vec::as_slice).unwrap_or_default();
    parts.iter().filter_map(|part| part["text"].as_str()).collect()
}

impl Reading {
    pub(super) fn new(session: &str, run: &str) -> Self {
        Self { session: session.to_owned(), run: run.to_owned(), ..Self::default() }
    }

    /// The id of the last event, for `Last-Event-ID`.
    pub(super) fn last_id(&self) -> Option<String> {
        let EventId { stored, partial } = &self.seen.last()?.id;
        Some(match partial {
            None => stored.to_string(),
            Some((process, number)) => format!("{stored}-{process}-{number}"),
        })
    }
}

/// Events that a terminal printed.
#[derive(Clone, Debug)]
pub(super) struct Printed {
    pub(super) session: String,
    pub(super) events: Vec<Value>,
}

/// The disk misbehaved from one moment to another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) from: Moment,
    pub(super) to: Option<Moment>,
}

impl Window {
    pub(super) fn overlaps(&self, from: Moment, to: Moment) -> bool {
        self.from <= to && self.to.is_none_or(|end| from <= end)
    }
}

/// A server that was stopped in the middle of a run, and continued after another server had finished the run.
#[derive(Clone, Debug)]
pub(super) struct Stop {
    pub(super) situation: Situation,
    pub(super) session: String,
    /// Of the message whose run it is.
    pub(super) token: String,
    pub(super) run: String,
    pub(super) server: ServerName,
    pub(super) at: Moment,
    /// The events of the session before the server continued; `None` if the run was not done by then.
    pub(super) events: Option<Vec<Value>>,
}

/// What was recorded in one round.
#[derive(Debug, Default)]
pub(super) struct Record {
    pub(super) messages: Vec<Message>,
    pub(super) readings: Vec<Reading>,
    pub(super) printed: Vec<Printed>,
    /// When each server was killed or stopped.
    pub(super) ends: Vec<(ServerName, Moment)>,
    pub(super) windows: Vec<Window>,
    pub(super) stops: Vec<Stop>,
    /// The ids of the calls that held tools have executed, one for each execution.
    pub(super) executions: Vec<String>,
    /// What is wrong whatever the log says.
    pub(super) problems: Vec<String>,
}

/// A record that many threads write.
#[derive(Debug, Default)]
pub(super) struct Journal(Mutex<Record>);

impl Journal {
    pub(super) fn with<T>(&self, write: impl FnOnce(&mut Record) -> T) -> T {
        write(&mut locked(&self.0))
    }

    pub(super) fn problem(&self, problem: String) {
        self.with(|record| record.problems.push(problem));
    }

    pub(super) fn into_record(self) -> Record {
        self.0.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Record {
    /// As lines of JSON, for those who look into a violation.
    pub(super) fn lines(&self) -> String {
        let mut lines: Vec<String> = Vec::new();
        for Message { session, token, key, first_sent, accepted, runs, is_cancelled, .. } in &self.messages {
            let (sent, accepted) = (first_sent.as_secs_f64(), accepted.map(|at| at.as_secs_f64()));
            let line = json!({"message": token, "session": session, "key": key, "sent": sent, "accepted": accepted,
                "runs": runs, "cancelled": is_cancelled});
            lines.push(line.to_string());
        }
        for Reading { session, run, seen, is_complete, error } in &self.readings {
            let seen: Vec<Value> = seen.iter().map(Seen::json).collect();
            let line = json!({"reading": run, "session": session, "complete": is_complete, "error": error, "seen": seen});
            lines.push(line.to_string());
        }
        for Printed { session, events } in &self.printed {
            lines.push(json!({"printed": events, "session": session}).to_string());
        }
        for (ServerName { slot, spawn }, at) in &self.ends {
            lines.push(json!({"end": format!("{slot}/{spawn}"), "at": at.as_secs_f64()}).to_string());
        }
        for window in &self.windows {
            let to = window.to.map(|to| to.as_secs_f64());
            lines.push(json!({"faults": window.from.as_secs_f64(), "to": to}).to_string());
        }
        for Stop { situation, session, run, server: ServerName { slot, spawn }, at, .. } in &self.stops {
            let (server, at) = (format!("{slot}/{spawn}"), at.as_secs_f64());
            let line =
                json!({"stop": situation.name(), "session": session, "run": run, "server": server, "at": at});
            lines.push(line.to_string());
        }
        lines.extend(self.executions.iter().map(|call| json!({"executed": call}).to_string()));
        lines.join("\n") + "\n"
    }
}

impl Seen {
    fn json(&self) -> Value {
        let ServerName { slot, spawn } = self.server;
        let (id, what) = match &self.what {
            What::Whole(event) => (event["id"].clone(), json!(text(event))),
            What::Piece { event, text } => (json!(event), json!({"partial": text})),
        };
        json!([format!("{slot}/{spawn}"), self.at.as_secs_f64(), self.id.stored, id, what])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partial_event_is_kept_as_the_text_that_it_adds() {
        let event = json!({"id": "e", "partial": true, "content": {"parts": [{"text": "a"}, {"text": "b"}]}});
        assert!(matches!(What::of(event), What::Piece { event, text } if event == "e" && text == "ab"));
        assert!(matches!(What::of(json!({"id": "e", "partial": false})), What::Whole(_)));
    }

    #[test]
    fn a_reader_comes_back_to_the_last_event_that_it_saw() {
        let mut reading = Reading::new("s", "r");
        assert_eq!(reading.last_id(), None);
        for id in ["4", "4-ab-2"] {
            let server = ServerName { slot: 0, spawn: 0 };
            let (id, at) = (EventId::parse(id).unwrap(), Moment::ZERO);
            reading.seen.push(Seen { id, what: What::Whole(Value::Null), at, server });
        }
        assert_eq!(reading.last_id().as_deref(), Some("4-ab-2"));
    }

    #[test]
    fn a_window_without_an_end_lasts() {
        let seconds = Duration::from_secs;
        let open = Window { from: seconds(5), to: None };
        assert!(open.overlaps(seconds(9), seconds(10)) && !open.overlaps(seconds(1), seconds(2)));
        let closed = Window { to: Some(seconds(6)), ..open };
        assert!(closed.overlaps(seconds(6), seconds(7)) && !closed.overlaps(seconds(7), seconds(8)));
    }
}
