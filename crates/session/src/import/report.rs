//! What an import did: how much came, how much was there already, and what was odd.

use std::{collections::BTreeMap, fmt};

/// How many examples of an oddity are named.
const EXAMPLES: usize = 3;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    pub came: u64,
    /// Was in the store before.
    pub there: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub sessions: Count,
    pub messages: Count,
    /// Of what came; what was there already was told when it came.
    pub odd: BTreeMap<Oddity, Seen>,
}

/// How often, and where first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub count: u64,
    pub examples: Vec<String>,
}

impl Report {
    pub(super) fn note(&mut self, oddity: Oddity, place: impl FnOnce() -> String) {
        let seen = self.odd.entry(oddity).or_default();
        seen.count += 1;
        if seen.examples.len() < EXAMPLES {
            seen.examples.push(place());
        }
    }
}

/// What a database of Lango does not hold by itself, and what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Oddity {
    /// Its session was deleted, or never was.
    NoSession,
    NoKey,
    BegunHere,
    NoTime,
    UnknownRole,
    NotText,
    /// The JSON of the tool calls is none, or not a list.
    UnreadableCalls,
    /// A tool call with fields of other types, or more of them.
    OddCall,
    /// Encrypted row by row, as versions after 0.7 do it.
    Encrypted,
    UnreadableState,
    SharedState,
    /// Deleted by another program while the import ran.
    Gone,
}

impl fmt::Display for Oddity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSession => "message of no session: it stays behind",
            Self::NoKey => "session without a key: it has a made-up one here",
            Self::BegunHere => {
                "session that was begun here under the same id: the old messages stand at its end"
            }
            Self::NoTime => {
                "message without a readable time: it stands behind the one with the number before"
            }
            Self::UnknownRole => "message with a role that Lango does not know: the role is kept",
            Self::NotText => "text that is not valid UTF-8: what is invalid is marked with \u{fffd}",
            Self::UnreadableCalls => "message whose tool calls cannot be read: it comes without them",
            Self::OddCall => {
                "tool call of an unusual shape: its fields come as text, unknown ones stay behind"
            }
            Self::Encrypted => "message that is encrypted: only what is readable without the key comes",
            Self::UnreadableState => "session whose metadata cannot be read: it comes without them",
            Self::SharedState => "state key that would be shared here (app:, user:, temp:): it stays behind",
            Self::Gone => "message that was deleted while it was being imported",
        })
    }
}
