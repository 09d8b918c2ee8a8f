//! The allowed differences from the recording, each with its reason. Everything else must be equal.
//!
//! Server-generated ids may differ as well, but consistently; see [`super::ids`].

use super::{intended, printed};
use serde_json::{Value, json};

/// The exchange that creates a session with a blank id.
pub(super) const BLANK: &str = "023";

/// Exchanges that are sent because later ones depend on them, but not compared.
const NOT_COMPARED: &[(&[&str], &str)] = &[
    (&[BLANK], "a session with a blank id cannot be reached again"),
    (&["105"], "an image in the colours of ADK's page"),
    (&["107", "216", "219"], "names and number of spans depend on the implementation"),
    (&["109", "110", "112", "221", "222", "223", "224", "225"], "evaluation is not part of this server"),
    (&["114", "115"], "building and deploying agents is not part of this server"),
];

/// A field whose value may differ in these exchanges, or in all if none is given.
struct Tolerance(&'static str, &'static [&'static str], AllowedValue);

enum AllowedValue {
    /// Any current time, in seconds since the epoch.
    Time,
    /// Any text that is not empty.
    Text,
    /// Any text after this separator.
    TextAfter(&'static str),
    /// A printed Python dict, or JSON with the same values.
    Printed,
}

const TOLERANCES: &[Tolerance] = &[
    Tolerance("timestamp", &[], AllowedValue::Time),
    Tolerance("lastUpdateTime", &[], AllowedValue::Time),
    Tolerance("createTime", &[], AllowedValue::Time),
    // The location of an artifact in the store.
    Tolerance("canonicalUri", &[], AllowedValue::Text),
    // The language of the server or the agent.
    Tolerance("language", &["002", "004", "005"], AllowedValue::Text),
    Tolerance("language_version", &["002"], AllowedValue::Text),
    // A directory of the machine.
    Tolerance("detail", &["006", "060", "061"], AllowedValue::TextAfter(" exists in '")),
    // The reason of a failure, see `INTENDED`.
    Tolerance("detail", &["007", "056", "062"], AllowedValue::Text),
    // The refusal of a known invocation id, see `INTENDED`.
    Tolerance("detail", &["214", "215"], AllowedValue::Text),
    // The note for the model about a long-running tool; the wording is the server's.
    Tolerance("description", &["005"], AllowedValue::TextAfter("\n\n")),
    // The note for an agent about another agent; the wording is the server's.
    Tolerance("text", &["048"], AllowedValue::TextAfter(" For context")),
    // The error result of a failed call, which the canned model repeats.
    Tolerance("error", &["052", "053", "054"], AllowedValue::Text),
    Tolerance("text", &["052", "053", "054"], AllowedValue::TextAfter(" said: {")),
    // The error for an answer to an unknown call.
    Tolerance("error", &["213"], AllowedValue::Text),
    Tolerance("error_type", &["213"], AllowedValue::Text),
    Tolerance("error_message", &["213"], AllowedValue::Text),
    // The canned model prints tool responses. Last, because the rows above allow more.
    Tolerance("text", &[], AllowedValue::Printed),
];

/// An intended difference: `ours` turns the recorded response into ours.
struct IntendedDifference {
    only: &'static [&'static str],
    ours: fn(&mut Value),
    why: &'static str,
}

const INTENDED: &[IntendedDifference] = &[
    IntendedDifference {
        only: &["016"],
        ours: intended::no_session_for_unknown_app,
        why: "a session is created only for an app that exists",
    },
    IntendedDifference {
        only: &["029"],
        ours: intended::no_sessions,
        why: "an app that does not exist has no sessions",
    },
    IntendedDifference {
        only: &["214", "215"],
        ours: intended::known_invocation_is_refused,
        why: "a text with the id of a known run is refused instead of dropped",
    },
    IntendedDifference {
        only: &["007", "062"],
        ours: intended::broken_app,
        why: "a broken app is reported with the kind of its fault and the reason",
    },
    IntendedDifference {
        only: &["056"],
        ours: intended::reason_in_json,
        why: "the failure of a model is reported with its reason",
    },
    IntendedDifference {
        only: &["052", "053"],
        ours: intended::failed_tool_is_answered,
        why: "a tool that fails is an error result for the model, not the end of the run",
    },
    IntendedDifference {
        only: &["069", "070"],
        ours: intended::no_events_of_state_alone,
        why: "a change of state alone is not an event of the conversation",
    },
    IntendedDifference {
        only: &["116"],
        ours: intended::no_telemetry,
        why: "no telemetry is collected, so there is nothing to consent to",
    },
    IntendedDifference {
        only: &["204", "208"],
        ours: intended::question_before_answer,
        why: "events have the order of the stream, not of their timestamps",
    },
];

/// The reason why the response to this exchange is not compared.
pub(super) fn not_compared(number: &str) -> Option<&'static str> {
    NOT_COMPARED.iter().find(|(numbers, _)| numbers.contains(&number)).map(|(_, why)| *why)
}

/// Turns the recorded response into ours and returns the reason, if a difference is intended.
pub(super) fn intended(number: &str, snapshot: &mut Value) -> Option<&'static str> {
    let difference = INTENDED.iter().find(|difference| difference.only.contains(&number))?;
    (difference.ours)(snapshot);
    Some(difference.why)
}

/// Replaces the variable parts of `value`, so that two values are equal if they differ only in allowed ways.
pub(super) fn normalized(number: &str, key: &str, value: &Value) -> Value {
    let applies =
        |Tolerance(name, only, _): &&Tolerance| *name == key && (only.is_empty() || only.contains(&number));
    TOLERANCES
        .iter()
        .filter(applies)
        .fold(value.clone(), |value, Tolerance(.., allowed)| allowed.normalize(value))
}

impl AllowedValue {
    fn normalize(&self, value: Value) -> Value {
        match (self, value) {
            (Self::Time, Value::Number(number)) if is_time(number.as_f64()) => json!({"any": "time"}),
            (Self::Text, Value::String(text)) if !text.is_empty() => json!({"any": "text"}),
            (Self::TextAfter(separator), Value::String(text)) => match text.split_once(separator) {
                Some((before, _)) => json!({"before": before}),
                None => text.into(),
            },
            (Self::Printed, Value::String(text)) => printed::read(&text).unwrap_or_else(|| text.into()),
            (_, value) => value,
        }
    }
}

/// Whether a number is a current time in seconds; milliseconds are not.
fn is_time(seconds: Option<f64>) -> bool {
    seconds.is_some_and(|seconds| (1e9..1e10).contains(&seconds))
}
