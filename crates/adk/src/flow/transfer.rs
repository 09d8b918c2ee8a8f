//! Handing the conversation to another agent.

use crate::{
    agent::{AgentTree, Node},
    event::Event,
    model::FunctionDeclaration,
};
use serde_json::json;
use std::sync::Arc;

pub(crate) const TRANSFER: &str = "transfer_to_agent";

/// What becomes of a request to hand over.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Handover {
    To(String),
    /// The name leads nowhere: the run ends with the error that front ends know how to correct.
    Nowhere(String),
    /// The model is told why not, and goes on.
    Refused(String),
    /// Round and round.
    Loop(Vec<String>),
}

/// The tool, with the legal names as an enum; `None` for an agent that has nobody to hand over to.
pub(crate) fn declaration(tree: &AgentTree, node: &Node) -> Option<FunctionDeclaration> {
    let names: Vec<&str> = tree.targets(node).iter().map(|target| target.agent.name.as_str()).collect();
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

/// Decides on a handover to `name` by the agent of `node`, after the events so far.
pub(crate) fn decide(tree: &AgentTree, node: &Node, name: &str, events: &[Arc<Event>]) -> Handover {
    let Some(target) = tree.find(name) else { return Handover::Nowhere(name.to_owned()) };
    let own = &node.agent.name;
    if &target.agent.name == own {
        return Handover::Refused(format!("you are {own} already; answer, or hand over to another agent"));
    }
    if !tree.targets(node).iter().any(|legal| legal.agent.name == target.agent.name) {
        return Handover::Refused(format!("{own} may not hand over to {name}"));
    }
    let mut path = holders_without_progress(events);
    path.push(own.clone());
    if path.contains(&target.agent.name) {
        path.push(target.agent.name.clone());
        return Handover::Loop(path);
    }
    Handover::To(target.agent.name.clone())
}

/// The agents that had the word since anything was said or done, oldest first.
fn holders_without_progress(events: &[Arc<Event>]) -> Vec<String> {
    let idle = events.iter().rev().take_while(|event| is_handover(event));
    let mut holders: Vec<String> = idle
        .filter(|event| event.actions.transfer_to_agent.is_some())
        .map(|event| event.author.clone())
        .collect();
    holders.reverse();
    holders
}

fn is_handover(event: &Event) -> bool {
    let only_transfers = event.calls().all(|call| call.name == TRANSFER)
        && event.responses().all(|response| response.name == TRANSFER);
    let silent = event.content.as_ref().is_none_or(|content| content.said().trim().is_empty());
    !event.is_from_user() && only_transfers && silent
}
