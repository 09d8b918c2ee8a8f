//! Ids of tool calls as a provider accepts them: legal, unique within a request, and equal for a call and its result.
//!
//! A log may hold any id: one that is too long, one with illegal characters, or `call_0` in every turn. The wire id of a
//! call depends only on the messages up to that call, so an older request stays a prefix of a newer one and prompt caches
//! keep working.

use crate::{ModelMessage, ToolResult, truncate::truncate_chars};
use std::collections::{HashMap, HashSet};

/// Constraints of a provider on call ids.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IdRules {
    pub(crate) max_chars: usize,
    pub(crate) accepts: fn(char) -> bool,
}

impl IdRules {
    /// Replaces illegal characters with `_`.
    pub(crate) fn sanitize(&self, text: &str) -> String {
        text.chars().map(|c| if (self.accepts)(c) { c } else { '_' }).collect()
    }
}

/// A message with the wire ids of its calls and results.
#[derive(Debug)]
pub(crate) struct WireMessage<'a> {
    pub(crate) message: &'a ModelMessage,
    /// One id per call, in the order of the calls.
    pub(crate) call_ids: Vec<String>,
    /// The results with the ids of their calls, in the order of the calls.
    pub(crate) results: Vec<(String, &'a ToolResult)>,
    /// Results that match no unanswered call.
    pub(crate) unmatched: Vec<&'a ToolResult>,
}

/// Assigns wire ids to the calls of a conversation, message by message, and matches the results to them.
#[derive(Clone, Debug)]
pub(crate) struct IdAssigner {
    minter: IdMinter,
    unanswered: Vec<UnansweredCall>,
}

impl IdAssigner {
    pub(crate) fn new(rules: IdRules) -> Self {
        Self { minter: IdMinter::new(rules), unanswered: Vec::new() }
    }

    /// The next message with its ids.
    pub(crate) fn assign<'a>(&mut self, message: &'a ModelMessage) -> WireMessage<'a> {
        let call_ids: Vec<String> = message.calls().map(|call| self.minter.mint(&call.id)).collect();
        if !call_ids.is_empty() {
            let calls = message.calls().zip(&call_ids);
            self.unanswered = calls
                .map(|(call, wire_id)| UnansweredCall {
                    id: call.id.clone(),
                    name: call.name.clone(),
                    wire_id: wire_id.clone(),
                })
                .collect();
        }
        let (results, unmatched) = match_results(message.results().collect(), &mut self.unanswered);
        WireMessage { message, call_ids, results, unmatched }
    }

    /// Approximate size in memory.
    pub(crate) fn bytes(&self) -> usize {
        const ENTRY: usize = 48;
        self.minter.used.iter().map(|id| id.capacity() + ENTRY).sum()
    }
}

/// A call without a result so far.
#[derive(Clone, Debug)]
struct UnansweredCall {
    id: String,
    name: String,
    wire_id: String,
}

/// Matches results to calls: by id and name, then by id, then by name, then by position. Returns the matched results and the
/// unmatched ones.
fn match_results<'a>(
    mut results: Vec<&'a ToolResult>,
    unanswered: &mut Vec<UnansweredCall>,
) -> (Vec<(String, &'a ToolResult)>, Vec<&'a ToolResult>) {
    if results.is_empty() {
        return (Vec::new(), results);
    }
    let mut found: Vec<Option<&ToolResult>> = vec![None; unanswered.len()];
    let criteria: [fn(&ToolResult, &UnansweredCall) -> bool; 4] = [
        |result, call| result.id == call.id && result.name == call.name,
        |result, call| result.id == call.id,
        |result, call| result.name == call.name,
        |_, _| true,
    ];
    for matches in criteria {
        results.retain(|result| {
            let free =
                (0..unanswered.len()).find(|at| found[*at].is_none() && matches(result, &unanswered[*at]));
            if let Some(at) = free {
                found[at] = Some(result);
            }
            free.is_none()
        });
    }
    let mut matched = Vec::new();
    let mut answers = found.into_iter();
    unanswered.retain(|call| match answers.next().flatten() {
        Some(result) => {
            matched.push((call.wire_id.clone(), result));
            false
        }
        None => true,
    });
    (matched, results)
}

/// Produces legal ids that are unique within a request.
#[derive(Clone, Debug)]
pub(crate) struct IdMinter {
    rules: IdRules,
    used: HashSet<String>,
    /// The next suffix to try for each id; starting over at 2 each time would be quadratic.
    next_suffix: HashMap<String, usize>,
}

impl IdMinter {
    pub(crate) fn new(rules: IdRules) -> Self {
        Self { rules, used: HashSet::new(), next_suffix: HashMap::new() }
    }

    fn mint(&mut self, id: &str) -> String {
        let legal = self.rules.sanitize(id);
        self.make_unique(if legal.is_empty() { "call" } else { &legal })
    }

    /// Marks an id as used.
    pub(crate) fn reserve(&mut self, id: &str) {
        self.used.insert(id.to_owned());
    }

    /// Truncates a legal id and appends a number if the result is in use.
    pub(crate) fn make_unique(&mut self, legal: &str) -> String {
        let legal = truncate_chars(legal, self.rules.max_chars).to_owned();
        if self.used.insert(legal.clone()) {
            return legal;
        }
        let number = self.next_suffix.entry(legal.clone()).or_insert(2);
        loop {
            let suffix = format!("_{number}");
            *number += 1;
            let minted = format!("{}{suffix}", truncate_chars(&legal, self.rules.max_chars - suffix.len()));
            if self.used.insert(minted.clone()) {
                return minted;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MessagePart, Role, ToolCall};
    use insta::assert_snapshot;
    use serde_json::Value;

    const SHORT: IdRules = IdRules { max_chars: 8, accepts: |c| c.is_ascii_alphanumeric() || c == '_' };

    fn turn(ids: &[&str], answers: &[&str]) -> [ModelMessage; 2] {
        let call = |id: &&str| {
            let (id, name) = ((*id).to_owned(), "f".to_owned());
            MessagePart::from(ToolCall { id, name, ..ToolCall::default() })
        };
        let result = |id: &&str| {
            MessagePart::from(ToolResult {
                id: (*id).to_owned(),
                name: "f".to_owned(),
                response: Value::from(*id),
            })
        };
        [
            ModelMessage::new(Role::Assistant, ids.iter().map(call).collect()),
            ModelMessage::new(Role::Tool, answers.iter().map(result).collect()),
        ]
    }

    fn shape(messages: &[ModelMessage]) -> String {
        let line = |wired: &WireMessage<'_>| {
            let results = wired.results.iter().map(|(id, result)| format!("{id}←{}", result.id));
            let unmatched = wired.unmatched.iter().map(|result| format!("?←{}", result.id));
            wired.call_ids.iter().cloned().chain(results).chain(unmatched).collect::<Vec<_>>().join(" ")
        };
        let mut ids = IdAssigner::new(SHORT);
        messages.iter().map(|message| line(&ids.assign(message))).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn legal_unique_ids_stay_and_others_are_sanitized_truncated_or_numbered() {
        let log: Vec<ModelMessage> = [
            turn(&["call_0", "b"], &["b", "call_0"]),
            turn(&["call_0", ""], &["call_0", ""]),
            turn(&["call_0", "call_0"], &["call_0", "call_0"]),
            turn(&["much too long", "much too lang", "ü.1"], &["ü.1", "much too long", "much too lang"]),
            turn(&["x"], &["x", "stray"]),
        ]
        .concat();
        assert_snapshot!(shape(&log), @"
        call_0 b
        call_0←call_0 b←b
        call_0_2 call
        call_0_2←call_0 call←
        call_0_3 call_0_4
        call_0_3←call_0 call_0_4←call_0
        much_too much_t_2 __1
        much_too←much too long much_t_2←much too lang __1←ü.1
        x
        x←x ?←stray
        ");
    }
}
