//! What a run of the generators has made: a run that missed what it was made for proves nothing.

use super::logs::Log;
use provider::{Message, Part};
use session::ToolCall;
use std::{
    cell::RefCell,
    collections::{BTreeMap, HashSet},
};

#[derive(Default)]
pub(crate) struct Tally(RefCell<BTreeMap<&'static str, usize>>);

impl Tally {
    pub(crate) fn count(&self, what: &'static str, seen: bool) {
        *self.0.borrow_mut().entry(what).or_default() += usize::from(seen);
    }

    pub(crate) fn log(&self, log: &Log) {
        let calls: Vec<&str> = log
            .rows
            .iter()
            .flat_map(|row| &row.message.tool_calls)
            .filter(|call| call.is_call())
            .map(|call| call.id.as_str())
            .collect();
        let unique: HashSet<&str> = calls.iter().copied().collect();
        self.count("cuts", log.cut);
        self.count("legacy rows", log.rows.iter().any(|row| row.message.meta.is_none()));
        self.count("colliding ids", unique.len() < calls.len());
        self.count(
            "late answers",
            log.rows.windows(2).any(|pair| is_late(&pair[0].message, &pair[1].message)),
        );
    }

    pub(crate) fn request(&self, messages: &[Message]) {
        let said = |words: &str| {
            messages
                .iter()
                .flat_map(|message| &message.parts)
                .any(|part| matches!(part, Part::Text { text, .. } if text.contains(words)))
        };
        let answered = |words: &str| {
            messages
                .iter()
                .flat_map(Message::results)
                .any(|result| result.response.to_string().contains(words))
        };
        self.count("orphans", said("[Out of place: "));
        self.count("parallel calls", messages.iter().any(|message| message.calls().count() > 1));
        self.count("truncated", said("[Earlier messages are not shown.]"));
        self.count("shortened texts", said("characters left out"));
        self.count("shortened answers", answered("characters left out"));
        self.count("interrupted calls", answered("outcome unknown"));
    }

    /// Fails if any of the things that were counted never came, and says how often each did.
    pub(crate) fn judge(&self) {
        let counts = self.0.borrow();
        let is_complete = !counts.is_empty() && counts.values().all(|&count| count > 0);
        assert!(is_complete, "something was never made: {counts:#?}");
    }
}

/// An answer behind something that is neither its call nor another answer.
fn is_late(before: &session::Message, row: &session::Message) -> bool {
    row.tool_calls.iter().any(ToolCall::is_response) && before.tool_calls.is_empty()
}
