//! The tool `transfer_to_agent`: declaration, legality, loop detection.

use crate::{
    agent::{AgentTree, Node},
    content::FunctionResponse,
    event::Event,
    model::FunctionDeclaration,
    notes::AGENT_NOT_FOUND,
};
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) const TRANSFER: &str = "transfer_to_agent";
/// How often an agent may transfer to the same agent while no tool succeeds. With text, a second transfer may be legitimate.
const MAX_IDLE_TRANSFERS: usize = 2;

/// The decision on a transfer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TransferDecision {
    To(String),
    /// No agent has that name: ends the run with an error that clients can correct.
    UnknownAgent(String),
    /// Not allowed: the model gets the reason and continues.
    Refused(String),
    /// The agents transfer in a loop; the path of agents.
    Loop(Vec<String>),
}

/// The names of the agents that this agent may transfer to.
pub(crate) fn target_names(tree: &AgentTree, node: &Node) -> Vec<String> {
    tree.targets(node).iter().map(|target| target.agent.name.clone()).collect()
}

/// The declaration, with the legal names as an enum; `None` for an agent without targets.
pub(crate) fn declaration(tree: &AgentTree, node: &Node) -> Option<FunctionDeclaration> {
    let names = target_names(tree, node);
    if names.is_empty() {
        return None;
    }
    Some(FunctionDeclaration {
        name: TRANSFER.to_owned(),
        description: "Hands the conversation over to another agent, which answers from here on.".to_owned(),
        parameters_json_schema: json!({
            "type": "object",
            "properties": {
                "agent_name": {"type": "string", "enum": names, "description": "The agent that takes over."},
            },
            "required": ["agent_name"],
        }),
    })
}

/// Decides on a transfer to `name` by the agent of `node`, after the events so far.
pub(crate) fn decide(tree: &AgentTree, node: &Node, name: &str, events: &[Arc<Event>]) -> TransferDecision {
    let Some(target) = tree.find(name) else { return TransferDecision::UnknownAgent(name.to_owned()) };
    let own = &node.agent.name;
    if &target.agent.name == own {
        return TransferDecision::Refused(format!(
            "{own} is the active agent already; answer, or transfer to another agent"
        ));
    }
    if !tree.targets(node).iter().any(|legal| legal.agent.name == target.agent.name) {
        return TransferDecision::Refused(format!("{own} may not transfer to {name}"));
    }
    let to = &target.agent.name;
    let silent_path = transfer_path(events, is_silent_transfer);
    let idle_path = transfer_path(events, |event| !event.is_from_user() && !has_tool_success(event));
    let returns = silent_path.contains(to);
    let repeats =
        idle_path.windows(2).filter(|pair| pair[0] == *own && pair[1] == *to).count() >= MAX_IDLE_TRANSFERS;
    if returns || repeats {
        let path = if returns { silent_path } else { idle_path };
        return TransferDecision::Loop([path, vec![own.clone(), to.clone()]].concat());
    }
    TransferDecision::To(to.clone())
}

/// Whether a response is the error of a transfer to an unknown agent. Only the runner writes responses of this tool, so a
/// user's text is never taken for one.
pub fn is_unknown_agent(answer: &FunctionResponse) -> bool {
    let error = answer.error().and_then(Value::as_str);
    answer.name == TRANSFER && error.is_some_and(|error| error.starts_with(AGENT_NOT_FOUND))
}

/// The agents that transferred in the idle events at the end, oldest first.
fn transfer_path(events: &[Arc<Event>], is_idle: impl Fn(&Event) -> bool) -> Vec<String> {
    let idle = events.iter().rev().take_while(|event| is_idle(event));
    let mut path: Vec<String> = idle
        .filter(|event| event.actions.transfer_to_agent.is_some())
        .map(|event| event.author.clone())
        .collect();
    path.reverse();
    path
}

/// Whether a tool other than this one succeeded.
fn has_tool_success(event: &Event) -> bool {
    event.responses().any(|answer| answer.name != TRANSFER && answer.error().is_none())
}

fn is_silent_transfer(event: &Event) -> bool {
    let only_transfers = event.calls().all(|call| call.name == TRANSFER)
        && event.responses().all(|response| response.name == TRANSFER);
    let silent = event.content.as_ref().is_none_or(|content| content.text().trim().is_empty());
    !event.is_from_user() && only_transfers && silent
}
