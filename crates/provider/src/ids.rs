//! Ids of calls and names of tools as a provider accepts them: legal, unique within a request, the same for a call and for
//! its result.
//!
//! A log may hold any id: longer than the provider allows, with odd characters, or `call_0` in every turn. What an id
//! becomes depends only on the messages up to it, so that an older request stays a prefix of a newer one.

use crate::{ModelMessage, ModelRequest, ToolResult};
use std::collections::{HashMap, HashSet};

/// What a provider takes as an id.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IdRules {
    pub(crate) longest: usize,
    pub(crate) accepts: fn(char) -> bool,
}

impl IdRules {
    fn legal(&self, text: &str) -> String {
        text.chars().map(|c| if (self.accepts)(c) { c } else { '_' }).collect()
    }
}

/// A message with the ids that its calls and results have on the wire.
#[derive(Debug)]
pub(crate) struct WireMessage<'a> {
    pub(crate) message: &'a ModelMessage,
    /// One for each call, in the order of the calls.
    pub(crate) calls: Vec<String>,
    /// In the order of the calls that they answer.
    pub(crate) results: Vec<(String, &'a ToolResult)>,
    /// Results that answer no open call.
    pub(crate) loose: Vec<&'a ToolResult>,
}

pub(crate) fn wire(messages: &[ModelMessage], dialect: IdRules) -> Vec<WireMessage<'_>> {
    let mut minter = IdMinter::new(dialect);
    let mut open: Vec<UnansweredCall<'_>> = Vec::new();
    let mut wired = Vec::with_capacity(messages.len());
    for message in messages {
        let calls: Vec<String> = message.calls().map(|call| minter.mint(&call.id)).collect();
        if !calls.is_empty() {
            let asked = message.calls().zip(&calls);
            open = asked
                .map(|(call, wire)| UnansweredCall { id: &call.id, name: &call.name, wire: wire.clone() })
                .collect();
        }
        let (results, loose) = settle(message.results().collect(), &mut open);
        wired.push(WireMessage { message, calls, results, loose });
    }
    wired
}

/// A call that has no result yet.
#[derive(Debug)]
struct UnansweredCall<'a> {
    id: &'a str,
    name: &'a str,
    wire: String,
}

/// Gives each result its call: by id and name, then by id, then by name, then what is left in order.
fn settle<'a>(
    mut results: Vec<&'a ToolResult>,
    open: &mut Vec<UnansweredCall<'_>>,
) -> (Vec<(String, &'a ToolResult)>, Vec<&'a ToolResult>) {
    let mut found: Vec<Option<&ToolResult>> = vec![None; open.len()];
    let fits: [fn(&ToolResult, &UnansweredCall<'_>) -> bool; 4] = [
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

struct IdMinter {
    dialect: IdRules,
    used: HashSet<String>,
    /// The number to try next for a text; counting from two each time would be quadratic.
    next: HashMap<String, usize>,
}

impl IdMinter {
    fn new(dialect: IdRules) -> Self {
        Self { dialect, used: HashSet::new(), next: HashMap::new() }
    }

    fn mint(&mut self, id: &str) -> String {
        let legal = self.dialect.legal(id);
        self.unique(if legal.is_empty() { "call" } else { &legal })
    }

    fn unique(&mut self, legal: &str) -> String {
        let legal = cut(legal, self.dialect.longest).to_owned();
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

/// What all providers take in a tool's name; the first character is a letter or `_`.
const NAMES: IdRules =
    IdRules { longest: 64, accepts: |c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-') };

/// A tool's name as all providers take it. Two names may become one; [`ToolNames`] keeps them apart.
pub(crate) fn tool_name(name: &str) -> String {
    let mut name = NAMES.legal(name);
    if !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        name.insert(0, '_');
    }
    name.truncate(NAMES.longest);
    name
}

/// The tools of a request by their names on the wire, and back. A name that is legal stays; any other gets the nearest
/// legal one that is free, so that `a.b` and `a_b` remain two tools.
#[derive(Debug, Default)]
pub(crate) struct ToolNames {
    /// Only those that had to change.
    wire: HashMap<String, String>,
    own: HashMap<String, String>,
}

impl ToolNames {
    /// The tools on offer come first, then those that older messages speak of, in their order: what a name becomes does
    /// not depend on later messages.
    pub(crate) fn of(request: &ModelRequest) -> Self {
        let offered = || request.tools.iter().map(|tool| tool.name.as_str());
        let spoken = request.messages.iter().flat_map(|message| {
            let called = message.calls().map(|call| call.name.as_str());
            called.chain(message.results().map(|result| result.name.as_str()))
        });
        let mut minter = IdMinter::new(NAMES);
        let mut names = Self::default();
        let mut seen = HashSet::new();
        // Legal names on offer are taken before any is made.
        for name in offered().filter(|name| tool_name(name) == **name) {
            if seen.insert(name) {
                minter.used.insert(name.to_owned());
            }
        }
        for name in offered().chain(spoken) {
            if seen.insert(name) {
                names.keep(name, minter.unique(&tool_name(name)));
            }
        }
        names
    }

    fn keep(&mut self, own: &str, wire: String) {
        if own != wire {
            self.wire.insert(own.to_owned(), wire.clone());
            self.own.insert(wire, own.to_owned());
        }
    }

    /// As the provider is told.
    pub(crate) fn wire(&self, name: &str) -> String {
        self.wire.get(name).cloned().unwrap_or_else(|| tool_name(name))
    }

    /// As the request names it. What no tool is called stays as the model wrote it.
    pub(crate) fn own(&self, wire: &str) -> String {
        self.own.get(wire).map_or(wire, String::as_str).to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MessagePart, Role, ToolCall, ToolSpec};
    use insta::assert_snapshot;
    use serde_json::Value;

    const SHORT: IdRules = IdRules { longest: 8, accepts: |c| c.is_ascii_alphanumeric() || c == '_' };

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
            let loose = wired.loose.iter().map(|result| format!("?←{}", result.id));
            wired.calls.iter().cloned().chain(results).chain(loose).collect::<Vec<_>>().join(" ")
        };
        wire(messages, SHORT).iter().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn an_id_that_is_legal_and_new_stays_and_any_other_is_made_so() {
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

    #[test]
    fn tools_with_names_alike_stay_two_and_come_back_under_their_own() {
        let long = "x".repeat(70);
        let tool = |name: &str| ToolSpec {
            name: name.to_owned(),
            description: String::new(),
            parameters: Value::Null,
        };
        let asked = |name: &str| {
            let call = ToolCall { name: name.to_owned(), ..ToolCall::default() };
            ModelMessage::new(Role::Assistant, vec![MessagePart::from(call)])
        };
        let request = ModelRequest {
            tools: vec![tool("a.b"), tool("a/b"), tool("a_b"), tool("9"), tool(&long)],
            messages: vec![asked("a b"), asked("a.b"), asked("now"), asked(&format!("{long}y"))],
            ..ModelRequest::default()
        };
        let names = ToolNames::of(&request);
        let all = ["a.b", "a/b", "a_b", "9", &long, "a b", "now", &format!("{long}y"), "unheard of"];
        let lines: Vec<String> = all.iter().map(|name| format!("{} = {name}", names.wire(name))).collect();
        assert_snapshot!(lines.join("\n").replace(&"x".repeat(60), "…"), @"
        a_b_2 = a.b
        a_b_3 = a/b
        a_b = a_b
        _9 = 9
        …xxxx = …xxxxxxxxxx
        a_b_4 = a b
        now = now
        …xx_2 = …xxxxxxxxxxy
        unheard_of = unheard of
        ");
        for name in &all[..8] {
            assert_eq!(names.own(&names.wire(name)), **name);
        }
        assert_eq!(names.own("nobody"), "nobody");
    }
}
