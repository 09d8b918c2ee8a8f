//! The record of a round: every acknowledgement and every event that clients received, with its time. The verification compares
//! it with the stored state.

use super::failover::StopPoint;
use crate::harness::{event_id::EventId, script::Kind};
use lock::LockExt;
use serde_json::{Value, json};
use std::{sync::Mutex, time::Duration};

/// A time on the clock of the test: the time since the round began, or the length of a trace.
pub(super) type Moment = Duration;

/// One server process: its slot, and its number among the processes of that slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ServerName {
    pub(super) slot: usize,
    pub(super) spawn: u64,
}

/// A message, with the acknowledgements that its client received.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) session: String,
    pub(super) token: String,
    pub(super) kind: Kind,
    pub(super) key: Option<String>,
    pub(super) first_sent: Moment,
    /// Time of the first acknowledgement.
    pub(super) accepted: Option<Moment>,
    /// The server that acknowledged it first.
    pub(super) accepted_by: Option<ServerName>,
    /// The run ids of the acknowledgements: one for each attempt that was answered.
    pub(super) runs: Vec<String>,
    /// A client requested the cancellation of its run.
    pub(super) is_cancelled: bool,
}

/// The events that one reader received of one run.
#[derive(Clone, Debug, Default)]
pub(super) struct Reading {
    pub(super) session: String,
    pub(super) run: String,
    pub(super) seen: Vec<Seen>,
    /// The server ended the stream.
    pub(super) is_complete: bool,
    /// The failure of the run, if the stream reported one.
    pub(super) error: Option<String>,
}

/// The process in the ids of partial events that came without an id.
const UNKNOWN_PROCESS: &str = "unknown";

#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) id: EventId,
    pub(super) body: EventBody,
    pub(super) at: Moment,
    pub(super) server: ServerName,
}

#[derive(Clone, Debug)]
pub(super) enum EventBody {
    Stored(Value),
    /// A partial event: its text, and the id of the event that the text belongs to.
    Partial {
        event: String,
        text: String,
    },
}

impl EventBody {
    pub(super) fn of(event: Value) -> Self {
        if event["partial"] == true {
            let id = event["id"].as_str().unwrap_or_default().to_owned();
            return Self::Partial { event: id, text: text(&event) };
        }
        Self::Stored(event)
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

    /// The id of the next event of `/run_sse`, which sends none. A server that continues the reading does not know the process and
    /// sends the partial events after the last stored one again, as after a restart.
    pub(super) fn next_id(&self, event: &Value) -> EventId {
        let last = self.seen.last().map_or(EventId::stored(0), |seen| seen.id.clone());
        if event["partial"] != true {
            return EventId::stored(last.stored + 1);
        }
        let number = last.partial.map_or(1, |(_, number)| number + 1);
        EventId { stored: last.stored, partial: Some((UNKNOWN_PROCESS.to_owned(), number)) }
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

/// The events that `lango run` printed.
#[derive(Clone, Debug)]
pub(super) struct Printed {
    pub(super) session: String,
    pub(super) events: Vec<Value>,
}

/// A period with injected faults of the disk.
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
    pub(super) point: StopPoint,
    pub(super) session: String,
    /// The token of the message whose run it is.
    pub(super) token: String,
    pub(super) run: String,
    pub(super) server: ServerName,
    pub(super) at: Moment,
    /// The events of the session before the server continued; `None` if the run was not done by then.
    pub(super) events: Option<Vec<Value>>,
}

/// The record of one round.
#[derive(Debug, Default)]
pub(super) struct Record {
    pub(super) messages: Vec<Message>,
    pub(super) readings: Vec<Reading>,
    pub(super) printed: Vec<Printed>,
    /// Kill and stop times of servers.
    pub(super) ends: Vec<(ServerName, Moment)>,
    pub(super) windows: Vec<Window>,
    pub(super) stops: Vec<Stop>,
    /// The ids of the calls that held tools have executed, one for each execution.
    pub(super) executions: Vec<String>,
    /// Violations that were found while the round ran.
    pub(super) problems: Vec<String>,
}

/// A record that is shared between threads.
#[derive(Debug, Default)]
pub(super) struct Journal(Mutex<Record>);

impl Journal {
    pub(super) fn with<T>(&self, write: impl FnOnce(&mut Record) -> T) -> T {
        write(&mut self.0.locked())
    }

    pub(super) fn problem(&self, problem: String) {
        self.with(|record| record.problems.push(problem));
    }

    pub(super) fn into_record(self) -> Record {
        self.0.into_value()
    }
}

impl Record {
    /// The record as lines of JSON, for the evidence of a violation.
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
        for Stop { point, session, run, server: ServerName { slot, spawn }, at, .. } in &self.stops {
            let (server, at) = (format!("{slot}/{spawn}"), at.as_secs_f64());
            let line =
                json!({"stop": point.name(), "session": session, "run": run, "server": server, "at": at});
            lines.push(line.to_string());
        }
        lines.extend(self.executions.iter().map(|call| json!({"executed": call}).to_string()));
        lines.join("\n") + "\n"
    }
}

impl Seen {
    fn json(&self) -> Value {
        let ServerName { slot, spawn } = self.server;
        let (id, body) = match &self.body {
            EventBody::Stored(event) => (event["id"].clone(), json!(text(event))),
            EventBody::Partial { event, text } => (json!(event), json!({"partial": text})),
        };
        json!([format!("{slot}/{spawn}"), self.at.as_secs_f64(), self.id.stored, id, body])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_without_ids_are_numbered_as_the_server_would() {
        let mut reading = Reading::new("s", "r");
        let (partial, whole) = (json!({"id": "e", "partial": true}), json!({"id": "e"}));
        let mut last_ids = Vec::new();
        for event in [&partial, &partial, &whole, &partial, &whole, &whole] {
            let id = reading.next_id(event);
            let (at, server) = (Moment::default(), ServerName { slot: 0, spawn: 0 });
            reading.seen.push(Seen { id, body: EventBody::of(event.clone()), at, server });
            last_ids.push(reading.last_id().unwrap());
        }
        assert_eq!(last_ids, ["0-unknown-1", "0-unknown-2", "1", "1-unknown-1", "2", "3"]);
    }

    #[test]
    fn a_partial_event_is_recorded_as_its_text() {
        let event = json!({"id": "e", "partial": true, "content": {"parts": [{"text": "a"}, {"text": "b"}]}});
        assert!(
            matches!(EventBody::of(event), EventBody::Partial { event, text } if event == "e" && text == "ab")
        );
        assert!(matches!(EventBody::of(json!({"id": "e", "partial": false})), EventBody::Stored(_)));
    }

    #[test]
    fn the_last_event_id_is_that_of_the_last_event_received() {
        let mut reading = Reading::new("s", "r");
        assert_eq!(reading.last_id(), None);
        for id in ["4", "4-ab-2"] {
            let server = ServerName { slot: 0, spawn: 0 };
            let (id, at) = (EventId::parse(id).unwrap(), Moment::ZERO);
            reading.seen.push(Seen { id, body: EventBody::Stored(Value::Null), at, server });
        }
        assert_eq!(reading.last_id().as_deref(), Some("4-ab-2"));
    }

    #[test]
    fn a_window_without_an_end_is_still_open() {
        let seconds = Duration::from_secs;
        let open = Window { from: seconds(5), to: None };
        assert!(open.overlaps(seconds(9), seconds(10)) && !open.overlaps(seconds(1), seconds(2)));
        let closed = Window { to: Some(seconds(6)), ..open };
        assert!(closed.overlaps(seconds(6), seconds(7)) && !closed.overlaps(seconds(7), seconds(8)));
    }
}
