//! The agents and tools of an app as a Graphviz graph.

use super::agent_tools::AgentTools;
use crate::app_registry::ServedApp;
use adk::{agent::Node, event::Event};
use std::{borrow::Cow, fmt::Write as _};

const GREY: &str = "#cccccc";
const GREEN: &str = "#0F5223";
const BRIGHT: &str = "#69CB87";

/// The agent and the tools of an event, which the graph highlights.
#[derive(Debug)]
pub(crate) struct GraphHighlight<'a> {
    agent: &'a str,
    /// Tools that the event calls, or whose responses it holds.
    tools: Vec<&'a str>,
    is_response: bool,
}

impl<'a> GraphHighlight<'a> {
    pub(crate) fn new(event: &'a Event) -> Self {
        let calls: Vec<&str> = event.calls().map(|call| call.name.as_str()).collect();
        let responses = event.responses().map(|response| response.name.as_str());
        let is_response = calls.is_empty();
        let tools = if is_response { responses.collect() } else { calls };
        Self { agent: &event.author, tools, is_response }
    }
}

pub(crate) fn draw(
    (app, tools): (&ServedApp, &AgentTools),
    highlight: Option<&GraphHighlight<'_>>,
) -> String {
    let background = if highlight.is_some() { "#333537" } else { "#ffffff" };
    let mut dot = format!("strict digraph {{\n\tgraph [bgcolor=\"{background}\" rankdir=LR]\n");
    add_agent(&mut dot, (app, tools), app.agent.tree().root(), highlight);
    dot.push_str("}\n");
    dot
}

fn add_agent(
    dot: &mut String,
    (app, tools): (&ServedApp, &AgentTools),
    node: &Node,
    highlight: Option<&GraphHighlight<'_>>,
) {
    let agent = &node.agent;
    let is_active = highlight.is_some_and(|highlight| highlight.agent == agent.name);
    add_node(dot, "🤖", &agent.name, "ellipse", is_active);
    for child in app.agent.tree().children(node) {
        add_agent(dot, (app, tools), child, highlight);
        add_edge(dot, &agent.name, &child.agent.name, None);
    }
    for tool in tools.of_agent(agent) {
        let name = &tool.declaration().name;
        let used = highlight.filter(|highlight| is_active && highlight.tools.contains(&name.as_str()));
        add_node(dot, "🔧", name, "box", used.is_some());
        add_edge(dot, &agent.name, name, used);
    }
}

fn add_node(dot: &mut String, icon: &str, name: &str, shape: &str, is_active: bool) {
    let style = if is_active {
        format!(
            "color=\"{GREEN}\" fillcolor=\"{GREEN}\" fontcolor=\"{GREY}\" shape={shape} style=\"filled,rounded\""
        )
    } else {
        format!("color=\"{GREY}\" fontcolor=\"{GREY}\" shape={shape} style=rounded")
    };
    let id = quote_id(name);
    let _ = writeln!(dot, "\t{id} [label=\"{icon} {name}\" {style}]");
}

fn add_edge(dot: &mut String, from: &str, to: &str, used: Option<&GraphHighlight<'_>>) {
    let style = match used {
        None => format!("arrowhead=none color=\"{GREY}\""),
        Some(highlight) if highlight.is_response => format!("color=\"{BRIGHT}\" dir=back"),
        Some(_) => format!("color=\"{BRIGHT}\""),
    };
    let _ = writeln!(dot, "\t{} -> {} [{style}]", quote_id(from), quote_id(to));
}

/// Quotes an id that is not a Graphviz identifier, as the names of MCP tools may not be.
fn quote_id(name: &str) -> Cow<'_, str> {
    let is_identifier = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.chars().all(is_identifier) { Cow::Borrowed(name) } else { Cow::Owned(format!("\"{name}\"")) }
}
