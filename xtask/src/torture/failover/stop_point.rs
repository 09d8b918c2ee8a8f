//! The points at which a failover test stops a server, and how each of them is recognised. Pure functions of what a reader of the run
//! has received and of what is stored.

use super::super::journal::{EventBody, Moment, Reading};
use crate::harness::script::Kind;
use serde_json::Value;
use std::time::Duration;

/// Shown text must be stored within a second. A server is stopped after it has streamed text for longer than that.
const TEXT_AGE: Duration = Duration::from_millis(1_200);
/// The scripted model is called some milliseconds after a message was accepted, and then sends nothing for two seconds.
const REQUEST_AGE: Duration = Duration::from_millis(200);

/// The activity of a server for a run when it is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum StopPoint {
    /// It streams an answer, and readers have received some of the text.
    Streaming,
    /// An idempotent call has begun and has no result.
    IdempotentCall,
    /// A call that is not idempotent has begun and has no result.
    OnceCall,
    /// It has called the model and has received nothing.
    FirstByte,
}

impl StopPoint {
    /// In the order of preparation: the stop point with the shortest duration is last.
    pub(in super::super) const ALL: [Self; 4] =
        [Self::Streaming, Self::IdempotentCall, Self::OnceCall, Self::FirstByte];

    pub(in super::super) fn name(self) -> &'static str {
        match self {
            Self::Streaming => "streaming",
            Self::IdempotentCall => "idempotent-call",
            Self::OnceCall => "once-call",
            Self::FirstByte => "first-byte",
        }
    }

    /// The message that leads to the stop point.
    pub(super) fn kind(self) -> Kind {
        match self {
            Self::Streaming => Kind::Story,
            Self::IdempotentCall => Kind::HeldLook,
            Self::OnceCall => Kind::HeldAct,
            Self::FirstByte => Kind::Silence,
        }
    }

    /// Whether the run is at the stop point. `reading` is what a reader on the server has received, `executed` the ids of the calls
    /// whose command has started.
    pub(super) fn is_reached(self, reading: &Reading, executed: &[String], times: Times) -> bool {
        if self.is_over(reading) {
            return false;
        }
        match self {
            Self::Streaming => {
                let mut text = texts(reading);
                text.next().is_some_and(|first| text.any(|later| later >= first + TEXT_AGE))
            }
            Self::IdempotentCall | Self::OnceCall => {
                let calls = reading.seen.iter().filter_map(|seen| match &seen.body {
                    EventBody::Stored(event) => call_id(event),
                    EventBody::Partial { .. } => None,
                });
                calls.into_iter().any(|call| executed.iter().any(|id| id == call))
            }
            Self::FirstByte => times.now >= times.accepted + REQUEST_AGE,
        }
    }

    /// Whether the stop point has passed.
    pub(super) fn is_over(self, reading: &Reading) -> bool {
        let stored = reading.seen.iter().filter(|seen| matches!(seen.body, EventBody::Stored(_))).count();
        match self {
            Self::Streaming => stored > 0,
            Self::IdempotentCall | Self::OnceCall => stored > 1,
            Self::FirstByte => !reading.seen.is_empty(),
        }
    }

    /// Whether a session of one message is at the stop point, according to its stored events.
    pub(super) fn is_stored(self, events: &[Value]) -> bool {
        match (self, events) {
            (Self::Streaming | Self::FirstByte, [message]) => message["author"] == "user",
            (Self::IdempotentCall | Self::OnceCall, [message, call]) => {
                message["author"] == "user" && call_id(call).is_some()
            }
            (Self::Streaming | Self::FirstByte | Self::IdempotentCall | Self::OnceCall, _) => false,
        }
    }
}

/// The current time and the time at which a message was accepted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) now: Moment,
    pub(super) accepted: Moment,
}

/// Receive times of the text deltas.
fn texts(reading: &Reading) -> impl Iterator<Item = Moment> {
    let is_text = |body: &EventBody| matches!(body, EventBody::Partial { text, .. } if !text.is_empty());
    reading.seen.iter().filter(move |seen| is_text(&seen.body)).map(|seen| seen.at)
}

fn call_id(event: &Value) -> Option<&str> {
    let parts = event["content"]["parts"].as_array()?;
    parts.iter().find_map(|part| part["functionCall"]["id"].as_str())
}

#[cfg(test)]
mod tests {
    use super::{
        super::super::journal::{Seen, ServerName},
        *,
    };
    use crate::harness::event_id::EventId;
    use serde_json::json;

    fn user() -> Value {
        json!({"author": "user", "content": {"parts": [{"text": "hello"}]}})
    }

    fn call() -> Value {
        json!({"author": "lango", "content": {"parts": [{"functionCall": {"id": "c1"}}]}})
    }

    /// A reader that received these events at 5 s.
    fn reading(events: impl IntoIterator<Item = EventBody>) -> Reading {
        let (at, server) = (Duration::from_secs(5), ServerName { slot: 0, spawn: 1 });
        let seen = events.into_iter().map(|body| Seen { id: EventId::stored(1), body, at, server });
        Reading { seen: seen.collect(), ..Reading::new("s", "r") }
    }

    fn chunk(text: &str) -> EventBody {
        EventBody::Partial { event: "e".to_owned(), text: text.to_owned() }
    }

    /// Whether the stop point is reached this many milliseconds after the message was accepted.
    fn is_reached(stop_point: StopPoint, reading: &Reading, executed: &str, millis: u64) -> bool {
        let accepted = Duration::from_secs(5);
        let times = Times { now: accepted + Duration::from_millis(millis), accepted };
        stop_point.is_reached(reading, &[executed.to_owned()], times)
    }

    #[test]
    fn streaming_stop_point_needs_text_older_than_the_save_interval_and_newer_text() {
        /// Chunks of text that were received this many milliseconds after the first one.
        fn received(chunks: &[(&str, u64)]) -> Reading {
            let mut reading = reading(chunks.iter().map(|(text, _)| chunk(text)));
            for (seen, (_, millis)) in reading.seen.iter_mut().zip(chunks) {
                seen.at += Duration::from_millis(*millis);
            }
            reading
        }
        let streams = |reading: &Reading| is_reached(StopPoint::Streaming, reading, "", 5_000);
        assert!(streams(&received(&[("a", 0), ("b", 600), ("c", 1_200)])));
        assert!(!streams(&received(&[("a", 0), ("b", 1_100)])));
        assert!(!streams(&received(&[("", 0), ("b", 1_200)])) && !streams(&received(&[])));
        let mut ended = received(&[("a", 0), ("b", 1_200)]);
        ended.seen.extend(reading([EventBody::Stored(json!({}))]).seen);
        assert!(!streams(&ended));
    }

    #[test]
    fn call_stop_point_needs_a_stored_and_executed_call_without_result() {
        for stop_point in [StopPoint::IdempotentCall, StopPoint::OnceCall] {
            let called = reading([EventBody::Stored(call())]);
            assert!(is_reached(stop_point, &called, "c1", 0));
            assert!(!is_reached(stop_point, &called, "c0", 0));
            assert!(!is_reached(stop_point, &reading([]), "c1", 0));
            let answered = reading([EventBody::Stored(call()), EventBody::Stored(json!({}))]);
            assert!(!is_reached(stop_point, &answered, "c1", 0));
        }
    }

    #[test]
    fn first_byte_stop_point_needs_a_reader_without_events() {
        assert!(is_reached(StopPoint::FirstByte, &reading([]), "", 200));
        assert!(!is_reached(StopPoint::FirstByte, &reading([]), "", 100));
        assert!(!is_reached(StopPoint::FirstByte, &reading([chunk("a")]), "", 200));
    }

    #[test]
    fn stored_stop_point_has_the_message_and_at_most_the_call() {
        for stop_point in [StopPoint::Streaming, StopPoint::FirstByte] {
            assert!(stop_point.is_stored(&[user()]));
            assert!(!stop_point.is_stored(&[]) && !stop_point.is_stored(&[user(), call()]));
        }
        for stop_point in [StopPoint::IdempotentCall, StopPoint::OnceCall] {
            assert!(stop_point.is_stored(&[user(), call()]));
            assert!(!stop_point.is_stored(&[user()]) && !stop_point.is_stored(&[user(), user()]));
            assert!(!stop_point.is_stored(&[user(), call(), user()]));
        }
    }
}
