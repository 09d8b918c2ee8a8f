//! Tool names as all providers accept them, and the way back to the original names.

use crate::{
    ModelRequest,
    wire_ids::{IdMinter, IdRules},
};
use std::collections::{HashMap, HashSet};

/// The character set that all providers accept. The first character must also be a letter or `_`.
const NAME_RULES: IdRules =
    IdRules { max_chars: 64, accepts: |c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-') };

/// Makes a tool name legal. Two names may become equal; [`ToolNames`] keeps them distinct.
fn sanitize_name(name: &str) -> String {
    let mut name = NAME_RULES.sanitize(name);
    if !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        name.insert(0, '_');
    }
    name.truncate(NAME_RULES.max_chars);
    name
}

/// A two-way map between the tool names of a request and their wire names. A legal name stays; any other name gets the
/// nearest legal one that is free, so `a.b` and `a_b` remain two tools.
#[derive(Debug, Default)]
pub(crate) struct ToolNames {
    /// Only names that had to change.
    to_wire: HashMap<String, String>,
    to_original: HashMap<String, String>,
    /// The wire names of the declared tools.
    declared: HashSet<String>,
}

impl ToolNames {
    /// Declared tools come first, then the tools that messages mention, in order: a wire name never depends on later
    /// messages.
    pub(crate) fn for_request(request: &ModelRequest) -> Self {
        let declared = || request.tools.iter().map(|tool| tool.name.as_str());
        let mentioned = request.conversation().flat_map(|message| {
            let called = message.calls().map(|call| call.name.as_str());
            called.chain(message.results().map(|result| result.name.as_str()))
        });
        let mut minter = IdMinter::new(NAME_RULES);
        let mut names = Self::default();
        let mut seen = HashSet::new();
        // Reserve the legal declared names before any name is made up.
        for name in declared().filter(|name| sanitize_name(name) == **name) {
            if seen.insert(name) {
                minter.reserve(name);
            }
        }
        for name in declared().chain(mentioned) {
            if seen.insert(name) {
                names.insert(name, minter.make_unique(&sanitize_name(name)));
            }
        }
        names.declared = declared().map(|name| names.wire_name(name)).collect();
        names
    }

    pub(crate) fn is_declared(&self, wire: &str) -> bool {
        self.declared.contains(wire)
    }

    fn insert(&mut self, original: &str, wire: String) {
        if original != wire {
            self.to_wire.insert(original.to_owned(), wire.clone());
            self.to_original.insert(wire, original.to_owned());
        }
    }

    pub(crate) fn wire_name(&self, original: &str) -> String {
        self.to_wire.get(original).cloned().unwrap_or_else(|| sanitize_name(original))
    }

    /// The tool's name in the request. A name that no tool has is returned unchanged.
    pub(crate) fn original_name(&self, wire: &str) -> String {
        self.to_original.get(wire).map_or(wire, String::as_str).to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MessagePart, ModelMessage, Role, ToolCall, ToolSpec};
    use insta::assert_snapshot;
    use serde_json::Value;

    #[test]
    fn colliding_tool_names_stay_distinct_and_map_back() {
        let long = "x".repeat(70);
        let tool = |name: &str| ToolSpec {
            name: name.to_owned(),
            description: String::new(),
            parameters: Value::Null,
        };
        let calling = |name: &str| {
            let call = ToolCall { name: name.to_owned(), ..ToolCall::default() };
            ModelMessage::new(Role::Assistant, vec![MessagePart::from(call)])
        };
        let request = ModelRequest {
            tools: vec![tool("a.b"), tool("a/b"), tool("a_b"), tool("9"), tool(&long)],
            messages: vec![calling("a b"), calling("a.b"), calling("now"), calling(&format!("{long}y"))],
            ..ModelRequest::default()
        };
        let names = ToolNames::for_request(&request);
        let all = ["a.b", "a/b", "a_b", "9", &long, "a b", "now", &format!("{long}y"), "unheard of"];
        let lines: Vec<String> =
            all.iter().map(|name| format!("{} = {name}", names.wire_name(name))).collect();
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
            assert_eq!(names.original_name(&names.wire_name(name)), **name);
        }
        assert_eq!(names.original_name("nobody"), "nobody");
    }
}
