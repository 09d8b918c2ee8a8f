//! All that may differ from the recording, each with its reason. What is not in these tables has to be the same.
//!
//! One more thing may differ: ids that a server makes up, see [`super::ids`]. They have to be the same ones throughout.

use super::{ours, printed};
use serde_json::{Value, json};

/// The exchange that creates a session with a blank id.
pub(super) const BLANK: &str = "023";

/// Exchanges that are sent because others build on them, and whose answers say nothing.
const NOT_COMPARED: &[(&[&str], &str)] = &[
    (&[BLANK], "a session with a blank id cannot be reached again"),
    (&["105"], "a drawing in the colours of ADK's page"),
    (&["107", "216", "219"], "spans are named and counted as the server is built"),
    (&["109", "110", "112", "221", "222", "223", "224", "225"], "evaluation is not part of this server"),
    (&["114", "115"], "neither is building or deploying agents"),
];

/// A field whose value is free, or partly free, in these exchanges; in all of them if none is named.
struct Loose(&'static str, &'static [&'static str], Freedom);

enum Freedom {
    /// Any moment of our days, in seconds.
    Moment,
    /// Any text but an empty one.
    Text,
    /// Any text behind these words.
    Behind(&'static str),
    /// Python's way to print a dict, or JSON, with the same values.
    Printed,
}

const LOOSE: &[Loose] = &[
    Loose("timestamp", &[], Freedom::Moment),
    Loose("lastUpdateTime", &[], Freedom::Moment),
    Loose("createTime", &[], Freedom::Moment),
    // Where the store keeps an artifact.
    Loose("canonicalUri", &[], Freedom::Text),
    // What the server, or the agent, is written in.
    Loose("language", &["002", "004", "005"], Freedom::Text),
    Loose("language_version", &["002"], Freedom::Text),
    // A folder of the machine.
    Loose("detail", &["006", "060", "061"], Freedom::Behind(" exists in '")),
    // The reason of a failure, see `ON_PURPOSE`.
    Loose("detail", &["007", "056", "062"], Freedom::Text),
    // What a model is told about a long-running tool, in the server's own words.
    Loose("description", &["005"], Freedom::Behind("\n\n")),
    // What an agent is told about another, in the server's own words.
    Loose("text", &["048"], Freedom::Behind(" For context")),
    // What a model is told when a call came to nothing, and that the canned model repeats it.
    Loose("error", &["052", "053", "054"], Freedom::Text),
    Loose("text", &["052", "053", "054"], Freedom::Behind(" said: {")),
    // What a client is told that answers a call that there never was.
    Loose("error", &["213"], Freedom::Text),
    Loose("error_type", &["213"], Freedom::Text),
    Loose("error_message", &["213"], Freedom::Text),
    // The canned model prints what a tool said. Last, because the rows above say less.
    Loose("text", &[], Freedom::Printed),
];

/// Where we differ on purpose: the recorded answer becomes ours.
struct Purpose {
    only: &'static [&'static str],
    ours: fn(&mut Value),
    why: &'static str,
}

const ON_PURPOSE: &[Purpose] = &[
    Purpose {
        only: &["007", "056", "062"],
        ours: ours::reason_in_json,
        why: "a failed agent or model is told with a reason",
    },
    Purpose {
        only: &["052", "053"],
        ours: ours::failed_tool_is_answered,
        why: "a tool that fails is an error result for the model, not the end of the run",
    },
    Purpose {
        only: &["069", "070"],
        ours: ours::no_events_of_state_alone,
        why: "what only changes the state is no event of the conversation",
    },
    Purpose { only: &["116"], ours: ours::no_telemetry, why: "there is no telemetry to consent to" },
    Purpose {
        only: &["204", "208"],
        ours: ours::question_before_answer,
        why: "the order is that of the stream, not that of clocks",
    },
];

/// Why the answer to this exchange is not compared.
pub(super) fn not_compared(number: &str) -> Option<&'static str> {
    NOT_COMPARED.iter().find(|(numbers, _)| numbers.contains(&number)).map(|(_, why)| *why)
}

/// Makes the recorded answer ours, and says why it is another.
pub(super) fn on_purpose(number: &str, picture: &mut Value) -> Option<&'static str> {
    let purpose = ON_PURPOSE.iter().find(|purpose| purpose.only.contains(&number))?;
    (purpose.ours)(picture);
    Some(purpose.why)
}

/// `value` without what is free in it, so that two values are the same if nothing else differs.
pub(super) fn settled(number: &str, key: &str, value: &Value) -> Value {
    let here = |Loose(name, only, _): &&Loose| *name == key && (only.is_empty() || only.contains(&number));
    LOOSE.iter().filter(here).fold(value.clone(), |value, Loose(.., freedom)| freedom.settle(value))
}

impl Freedom {
    fn settle(&self, value: Value) -> Value {
        match (self, value) {
            (Self::Moment, Value::Number(number)) if is_moment(number.as_f64()) => json!({"any": "moment"}),
            (Self::Text, Value::String(text)) if !text.is_empty() => json!({"any": "text"}),
            (Self::Behind(words), Value::String(text)) => match text.split_once(words) {
                Some((before, _)) => json!({"behind": before}),
                None => text.into(),
            },
            (Self::Printed, Value::String(text)) => printed::read(&text).unwrap_or_else(|| text.into()),
            (_, value) => value,
        }
    }
}

/// Milliseconds are not.
fn is_moment(seconds: Option<f64>) -> bool {
    seconds.is_some_and(|seconds| (1e9..1e10).contains(&seconds))
}
