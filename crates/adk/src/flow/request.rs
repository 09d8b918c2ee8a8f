//! The request of a model call: instruction, contents, tools.

use super::{
    contents::{self, HistoryView},
    transfer,
};
use crate::{
    agent::{AgentTree, IncludeContents, LlmAgent, Node},
    content::{Content, Part},
    error::RunError,
    instruction,
    model::{FunctionDeclaration, LlmRequest, PromptScope},
    prefix::Prefixes,
    session::Session,
    tool::Tool,
    window::{self, Window, WindowShare},
};
use serde_json::Value;
use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    sync::Arc,
};

/// A request, and the window of the log that it shows.
pub(crate) struct WindowedRequest {
    pub(crate) request: LlmRequest,
    pub(crate) window: Window,
}

/// Builds the request for the agent of `node` from the loaded texts of its instruction's artifacts and its current tools.
pub(crate) fn build(
    tree: &AgentTree,
    node: &Node,
    session: &impl Session,
    (files, tools): (&HashMap<String, String>, &[Arc<dyn Tool>]),
) -> Result<WindowedRequest, RunError> {
    let agent = &node.agent;
    let mut config = agent.config.clone();
    config.system_instruction = system_instruction(tree, node, session, files)?;
    let declarations = declarations(tree, node, tools);
    let scope = PromptScope::new(session.key().clone(), agent.name.as_str());
    let request = RefCell::new(LlmRequest { config, tools: declarations, scope, ..LlmRequest::default() });
    let shown = Cell::new(None);
    let show = |window: &Window| {
        let mut request = request.borrow_mut();
        request.user_request.clone_from(&window.user_request);
        if shown.replace(Some(window.start)) == Some(window.start) {
            return;
        }
        let view = HistoryView {
            agent: &agent.name,
            branch: None,
            include: agent.include_contents,
            events: &session.events()[window.start..],
            deferred: &session.pending().deferred,
        };
        let divided = prefixes(agent, session, window)
            .and_then(|prefixes| prefixes.divide(view, &session.loaded().rows[window.start..]));
        let events = &view.events[divided.as_ref().map_or(0, |divided| divided.events)..];
        request.contents = contents::contents(HistoryView { events, ..view });
        request.prefix = divided.map(|divided| divided.prefix);
    };
    let fits = |window: &Window, share: WindowShare| {
        show(window);
        agent.model.fits(&request.borrow(), share)
    };
    let window = window::choose(session.loaded(), &agent.name, fits);
    show(&window);
    Ok(WindowedRequest { request: request.into_inner(), window })
}

/// The prefixes of the session, if a request with this window may begin with one. A window that advances is shown once before its
/// front is stored.
fn prefixes<'a>(agent: &LlmAgent, session: &'a impl Session, window: &Window) -> Option<&'a Prefixes> {
    let is_kept = window.advanced.is_none() && agent.include_contents == IncludeContents::Default;
    session.loaded().prefixes.filter(|_| is_kept && agent.model.reads_prefix())
}

fn declarations(tree: &AgentTree, node: &Node, tools: &[Arc<dyn Tool>]) -> Vec<FunctionDeclaration> {
    let own = tools.iter().map(|tool| tool.declaration().clone());
    own.chain(transfer::declaration(tree, node)).collect()
}

fn system_instruction(
    tree: &AgentTree,
    node: &Node,
    session: &impl Session,
    files: &HashMap<String, String>,
) -> Result<Option<Content>, RunError> {
    let lookup = |key: &str| match key.strip_prefix("artifact.") {
        Some(name) => files.get(name).cloned(),
        None => session.state().get(key).map(plain),
    };
    let agent = &node.agent;
    let instruction = instruction::fill(&agent.instruction, lookup)
        .map_err(|key| RunError::MissingKey { agent: agent.name.clone(), key })?;
    let mut parts: Vec<Part> = Vec::new();
    parts.extend((!instruction.trim().is_empty()).then(|| Part::text(instruction)));
    parts.extend(introduction(tree, node).map(Part::text));
    Ok((!parts.is_empty()).then(|| Content { parts, role: None, origin: None }))
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

/// Describes the agent and its transfer targets; `None` for an agent without targets.
fn introduction(tree: &AgentTree, node: &Node) -> Option<String> {
    let targets = tree.targets(node);
    if targets.is_empty() {
        return None;
    }
    let mut text = format!("You are the agent {}.", node.agent.name);
    if !node.agent.description.is_empty() {
        text.push(' ');
        text.push_str(&node.agent.description);
    }
    text.push_str("\nOther agents can take over the conversation:");
    for target in targets {
        let about = &target.agent.description;
        let colon = if about.is_empty() { "" } else { ": " };
        text.extend(["\n- ", &target.agent.name, colon, about]);
    }
    text.push_str("\nIf one of them is better suited, call transfer_to_agent with its name and say nothing else. Otherwise answer yourself.");
    Some(text)
}
