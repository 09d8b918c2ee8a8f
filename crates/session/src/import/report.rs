//! The result of an import: counts and anomalies.

use std::{collections::BTreeMap, fmt};

/// Maximum number of examples per anomaly.
const EXAMPLES: usize = 3;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportCount {
    pub imported: u64,
    /// Already in the store.
    pub present: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportReport {
    pub sessions: ImportCount,
    pub messages: ImportCount,
    /// Anomalies of imported rows only.
    pub anomalies: BTreeMap<Anomaly, AnomalyCount>,
}

/// How often an anomaly occurred, with the first examples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnomalyCount {
    pub count: u64,
    pub examples: Vec<String>,
}

impl ImportReport {
    pub(super) fn note(&mut self, anomaly: Anomaly, example: impl FnOnce() -> String) {
        let seen = self.anomalies.entry(anomaly).or_default();
        seen.count += 1;
        if seen.examples.len() < EXAMPLES {
            seen.examples.push(example());
        }
    }
}

/// Unexpected data in the source, and how it was handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Anomaly {
    /// The session of the message does not exist.
    NoSession,
    NoKey,
    ExistingSession,
    NoTime,
    UnknownRole,
    InvalidUtf8,
    /// The tool calls are not a JSON list.
    UnreadableCalls,
    /// A tool call with unknown fields or fields of other types.
    UnexpectedCall,
    /// Encrypted per row, as by versions after 0.7.
    Encrypted,
    UnreadableState,
    SharedState,
    /// Deleted by another program during the import.
    Deleted,
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSession => "message without a session: not imported",
            Self::NoKey => "session without a key: imported under a generated key",
            Self::ExistingSession => {
                "session that already existed here under the same id: the old messages were appended"
            }
            Self::NoTime => {
                "message without a readable time: placed after the message with the previous number"
            }
            Self::UnknownRole => "message with an unknown role: imported with that role",
            Self::InvalidUtf8 => "text that is not valid UTF-8: invalid bytes replaced by \u{fffd}",
            Self::UnreadableCalls => "message whose tool calls cannot be read: imported without them",
            Self::UnexpectedCall => {
                "tool call with unexpected fields: known fields imported as text, unknown ones dropped"
            }
            Self::Encrypted => "encrypted message: only the unencrypted fields imported",
            Self::UnreadableState => "session whose metadata cannot be read: imported without them",
            Self::SharedState => "state key with a reserved prefix (app:, user:, temp:): not imported",
            Self::Deleted => "message deleted during the import: not imported",
        })
    }
}
