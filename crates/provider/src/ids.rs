//! Ids of calls as a provider accepts them: legal, unique within a request, the same for a call and for its result.
//!
//! A log may hold any id: longer than the provider allows, with odd characters, or `call_0` in every turn. What an id
//! becomes depends only on the messages up to it, so that an older request stays a prefix of a newer one.

use crate::{Message, ToolResult};
use std::collections::{HashMap, HashSet};

/// What a provider takes as an id.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dialect {
    pub(crate) longest: usize,
    pub(crate) accepts: fn(char) -> bool,
}

/// A message with the ids that its calls and results have on the wire.
#[derive(Debug)]
pub(crate) struct Wired<'a> {
    pub(crate) message: &'a Message,
    /// One for each call, in the order of the calls.
    pub(crate) calls: Vec<String>,
    /// In the order of the calls that they answer.
    pub(crate) results: Vec<(String, &'a ToolResult)>,
    /// Results that answer no open call.
    pub(crate) loose: Vec<&'a ToolResult>,
}

pub(crate) fn wire(messages: &[Message], dialect: Dialect) -> Vec<Wired<'_>> {
    let mut minter = Minter { dialect, used: HashSet::new(), next: HashMap::new() };
    let mut open: Vec<Open<'_>> = Vec::new();
    let mut wired = Vec::with_capacity(messages.len());
    for message in messages {
        let calls: Vec<String> = message.calls().map(|call| minter.mint(&call.id)).collect();
        if !calls.is_empty() {
            let asked = message.calls().zip(&calls);
            open = asked
                .map(|(call, wire)| Open { id: &call.id, name: &call.name, wire: wire.clone() })
                .collect();
        }
        let (results, loose) = settle(message.results().collect(), &mut open);
        wired.push(Wired { message, calls, results, loose });
    }
    wired
}

/// A call that has no result yet.
#[derive(Debug)]
struct Open<'a> {
    id: &'a str,
    name: &'a str,
    wire: String,
}

/// Gives each result its call: by id and name, then by id, then by name, then what is left in order.
fn settle<'a>(
    mut results: Vec<&'a ToolResult>,
    open: &mut Vec<Open<'_>>,
) -> (Vec<(String, &'a ToolResult)>, Vec<&'a ToolResult>) {
    let mut found: Vec<Option<&ToolResult>> = vec![None; open.len()];
    let fits: [fn(&ToolResult, &Open<'_>) -> bool; 4] = [
        |result, call| result.id == call.id && result.name == call.name,
        |result, call| result.id == call.id,
        |result, call| result.name == call.name,
        |_, _| true,
    ];
    for fit in fits {
        results.retain(|result| {
            let free = (0..open.len()).find(|at| found[*at].is_none() && fit(result, &open[*at]));
            if let Some(at) = free {
                found[at] = Some(result);
            }
            free.is_none()
        });
    }
    let mut matched = Vec::new();
    let mut answers = found.into_iter();
    open.retain(|call| match answers.next().flatten() {
        Some(result) => {
            matched.push((call.wire.clone(), result));
            false
        }
        None => true,
    });
    (matched, results)
}

struct Minter {
    dialect: Dialect,
    used: HashSet<String>,
    /// The number to try next for a text; counting from two each time would be quadratic.
    next: HashMap<String, usize>,
}

impl Minter {
    fn mint(&mut self, id: &str) -> String {
        let legal: String = id.chars().map(|c| if (self.dialect.accepts)(c) { c } else { '_' }).collect();
        let legal = cut(if legal.is_empty() { "call" } else { &legal }, self.dialect.longest).to_owned();
        if self.used.insert(legal.clone()) {
            return legal;
        }
        let number = self.next.entry(legal.clone()).or_insert(2);
        loop {
            let tail = format!("_{number}");
            *number += 1;
            let minted = format!("{}{tail}", cut(&legal, self.dialect.longest - tail.len()));
            if self.used.insert(minted.clone()) {
                return minted;
            }
        }
    }
}

/// The first characters of a text, as many as fit.
pub(crate) fn cut(text: &str, characters: usize) -> &str {
    text.char_indices().nth(characters).map_or(text, |(end, _)| &text[..end])
}

/// A tool's name as all providers take it: letters, digits, `_` and `-`, at most 64, a letter or `_` first.
pub(crate) fn tool_name(name: &str) -> String {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let mut name: String = name.chars().map(|c| if legal(c) { c } else { '_' }).collect();
    if !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        name.insert(0, '_');
    }
    name.truncate(64);
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Part, Role, ToolCall};
    use insta::assert_snapshot;
    use serde_json::Value;

    const SHORT: Dialect = Dialect { longest: 8, accepts: |c| c.is_ascii_alphanumeric() || c == '_' };

    fn turn(ids: &[&str], answers: &[&str]) -> [Message; 2] {
        let call = |id: &&str| {
            let (id, name) = ((*id).to_owned(), "f".to_owned());
            Part::Call(ToolCall { id, name, ..ToolCall::default() })
        };
        let result = |id: &&str| {
            Part::Result(ToolResult {
                id: (*id).to_owned(),
                name: "f".to_owned(),
                response: Value::from(*id),
            })
        };
        [
            Message::new(Role::Assistant, ids.iter().map(call).collect()),
            Message::new(Role::Tool, answers.iter().map(result).collect()),
        ]
    }

    fn shape(messages: &[Message]) -> String {
        let line = |wired: &Wired<'_>| {
            let results = wired.results.iter().map(|(id, result)| format!("{id}←{}", result.id));
            let loose = wired.loose.iter().map(|result| format!("?←{}", result.id));
            wired.calls.iter().cloned().chain(results).chain(loose).collect::<Vec<_>>().join(" ")
        };
        wire(messages, SHORT).iter().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn an_id_that_is_legal_and_new_stays_and_any_other_is_made_so() {
        let log: Vec<Message> = [
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
