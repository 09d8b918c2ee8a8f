//! Handing the conversation to another agent.

use crate::{
    agent::{AgentTree, Node},
    content::FunctionResponse,
    event::Event,
    model::FunctionDeclaration,
};
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) const TRANSFER: &str = "transfer_to_agent";
/// So often may an agent give the word to the same other one while nothing is done. With words beside it, a second time may
/// still lead somewhere.
const ROUNDS: usize = 2;

/// What becomes of a request to hand over.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TransferDecision {
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
pub(crate) fn decide(tree: &AgentTree, node: &Node, name: &str, events: &[Arc<Event>]) -> TransferDecision {
    let Some(target) = tree.find(name) else { return TransferDecision::Nowhere(name.to_owned()) };
    let own = &node.agent.name;
    if &target.agent.name == own {
        return TransferDecision::Refused(format!(
            "you are {own} already; answer, or hand over to another agent"
        ));
    }
    if !tree.targets(node).iter().any(|legal| legal.agent.name == target.agent.name) {
        return TransferDecision::Refused(format!("{own} may not hand over to {name}"));
    }
    let to = &target.agent.name;
    let in_silence = holders(events, is_handover);
    let in_words = holders(events, |event| !event.is_from_user() && !has_done_something(event));
    let returns = in_silence.contains(to);
    let again = in_words.windows(2).filter(|pair| pair[0] == *own && pair[1] == *to).count() >= ROUNDS;
    if returns || again {
        let path = if returns { in_silence } else { in_words };
        return TransferDecision::Loop([path, vec![own.clone(), to.clone()]].concat());
    }
    TransferDecision::To(to.clone())
}

/// Whether a handover was refused because there is no agent of that name.
pub fn is_unknown_agent(answer: &FunctionResponse) -> bool {
    let error = answer.error().and_then(Value::as_str);
    answer.name == TRANSFER && error.is_some_and(|error| error.starts_with("failed to find agent: "))
}

/// The agents that gave the word away in the idle events at the end, oldest first.
fn holders(events: &[Arc<Event>], is_idle: impl Fn(&Event) -> bool) -> Vec<String> {
    let idle = events.iter().rev().take_while(|event| is_idle(event));
    let mut holders: Vec<String> = idle
        .filter(|event| event.actions.transfer_to_agent.is_some())
        .map(|event| event.author.clone())
        .collect();
    holders.reverse();
    holders
}

/// Whether a tool other than this one has brought anything but an error.
fn has_done_something(event: &Event) -> bool {
    event.responses().any(|answer| answer.name != TRANSFER && answer.error().is_none())
}

fn is_handover(event: &Event) -> bool {
    let only_transfers = event.calls().all(|call| call.name == TRANSFER)
        && event.responses().all(|response| response.name == TRANSFER);
    let silent = event.content.as_ref().is_none_or(|content| content.text().trim().is_empty());
    !event.is_from_user() && only_transfers && silent
}
