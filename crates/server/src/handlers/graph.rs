//! The agents of an app as a drawing, in the words of Graphviz.

use super::agent_tools::AgentTools;
use crate::app_registry::ServedApp;
use adk::{agent::Node, event::Event};
use std::{borrow::Cow, fmt::Write as _};

const GREY: &str = "#cccccc";
const GREEN: &str = "#0F5223";
const BRIGHT: &str = "#69CB87";

/// What an event did: who, and with which tools; `None` draws the app at rest.
#[derive(Debug)]
pub(crate) struct GraphHighlight<'a> {
    agent: &'a str,
    /// AgentTools that were called, or that answered.
    tools: Vec<&'a str>,
    answers: bool,
}

impl<'a> GraphHighlight<'a> {
    pub(crate) fn of(event: &'a Event) -> Self {
        let calls: Vec<&str> = event.calls().map(|call| call.name.as_str()).collect();
        let responses = event.responses().map(|response| response.name.as_str());
        let answers = calls.is_empty();
        let tools = if answers { responses.collect() } else { calls };
        Self { agent: &event.author, tools, answers }
    }
}

pub(crate) fn draw((app, tools): (&ServedApp, &AgentTools), action: Option<&GraphHighlight<'_>>) -> String {
    let background = if action.is_some() { "#333537" } else { "#ffffff" };
    let mut dot = format!("strict digraph {{\n\tgraph [bgcolor=\"{background}\" rankdir=LR]\n");
    add(&mut dot, (app, tools), app.agent.tree().root(), action);
    dot.push_str("}\n");
    dot
}

fn add(
    dot: &mut String,
    (app, tools): (&ServedApp, &AgentTools),
    node: &Node,
    action: Option<&GraphHighlight<'_>>,
) {
    let agent = &node.agent;
    let is_active = action.is_some_and(|action| action.agent == agent.name);
    shape(dot, "🤖", &agent.name, "ellipse", is_active);
    for child in app.agent.tree().children(node) {
        add(dot, (app, tools), child, action);
        edge(dot, &agent.name, &child.agent.name, None);
    }
    for tool in tools.all(agent) {
        let name = &tool.declaration().name;
        let used = action.filter(|action| is_active && action.tools.contains(&name.as_str()));
        shape(dot, "🔧", name, "box", used.is_some());
        edge(dot, &agent.name, name, used);
    }
}

fn shape(dot: &mut String, icon: &str, name: &str, shape: &str, is_active: bool) {
    let colours = if is_active {
        format!(
            "color=\"{GREEN}\" fillcolor=\"{GREEN}\" fontcolor=\"{GREY}\" shape={shape} style=\"filled,rounded\""
        )
    } else {
        format!("color=\"{GREY}\" fontcolor=\"{GREY}\" shape={shape} style=rounded")
    };
    let id = id(name);
    let _ = writeln!(dot, "\t{id} [label=\"{icon} {name}\" {colours}]");
}

fn edge(dot: &mut String, from: &str, to: &str, used: Option<&GraphHighlight<'_>>) {
    let look = match used {
        None => format!("arrowhead=none color=\"{GREY}\""),
        Some(action) if action.answers => format!("color=\"{BRIGHT}\" dir=back"),
        Some(_) => format!("color=\"{BRIGHT}\""),
    };
    let _ = writeln!(dot, "\t{} -> {} [{look}]", id(from), id(to));
}

/// Servers' tools may have names that Graphviz reads only in quotes.
fn id(name: &str) -> Cow<'_, str> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.chars().all(is_word) { Cow::Borrowed(name) } else { Cow::Owned(format!("\"{name}\"")) }
}
