//! The list of messages of a body. It is encoded message by message, so that a list can be continued where an earlier request
//! ended.

use crate::{
    ModelMessage, ModelRequest, Role, WireApi, anthropic, gemini, ollama,
    openai::{self, Dialect},
    responses,
    tool_names::ToolNames,
    wire_ids::IdAssigner,
};
use serde_json::Value;
use std::collections::HashSet;

/// What the encoding of one message depends on in the messages before it.
#[derive(Clone, Debug)]
pub(crate) struct ListState {
    pub(crate) ids: IdAssigner,
    /// The ids of the reasoning items in the list: the Responses API rejects a repeated one.
    pub(crate) reasoning_ids: HashSet<String>,
    /// The last turn, in a format that merges neighbours of one role.
    pub(crate) last: Option<TurnKind>,
    /// Whether the calls since the user's last message began with a thinking block; `None` without calls.
    pub(crate) began_with_thinking: Option<bool>,
}

/// Neighbours of the same kind are one turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TurnKind {
    pub(crate) role: &'static str,
    /// Whether it consists of function responses, in a format that separates them.
    pub(crate) is_response: bool,
}

/// A run of messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListSection<'a> {
    pub(crate) messages: &'a [ModelMessage],
    /// Whether the list ends with it.
    pub(crate) is_last: bool,
}

/// What the encoding of a list depends on besides its messages.
#[derive(Debug)]
pub(crate) struct ListEncoder<'a> {
    pub(crate) names: &'a ToolNames,
    pub(crate) format: ListFormat,
}

/// The part of a request that decides how messages are encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListFormat {
    pub(crate) api: WireApi,
    pub(crate) dialect: Dialect,
    /// Whether the first call of a turn needs a signature.
    pub(crate) signs_first_call: bool,
    /// The names of the declared tools: they decide the wire names of all others.
    pub(crate) declared: Vec<String>,
}

impl ListFormat {
    pub(crate) fn new(api: WireApi, dialect: Dialect, request: &ModelRequest) -> Self {
        let signs_first_call = api == WireApi::Gemini && gemini::requires_call_signature(&request.model);
        let declared = request.tools.iter().map(|tool| tool.name.clone()).collect();
        Self { api, dialect, signs_first_call, declared }
    }

    pub(crate) fn initial_state(&self) -> ListState {
        let rules = match self.api {
            WireApi::Chat => openai::IDS,
            WireApi::Responses => responses::IDS,
            WireApi::Anthropic => anthropic::IDS,
            WireApi::Gemini => gemini::IDS,
            WireApi::Ollama => ollama::IDS,
        };
        ListState {
            ids: IdAssigner::new(rules),
            reasoning_ids: HashSet::new(),
            last: None,
            began_with_thinking: None,
        }
    }
}

impl ListEncoder<'_> {
    /// Encodes the next messages of a list. `None` if they would change what is encoded already: such a list is encoded as a
    /// whole.
    pub(crate) fn encode(&self, state: &mut ListState, section: ListSection<'_>) -> Option<Vec<Value>> {
        match self.format.api {
            WireApi::Chat => openai::encode_list(self, state, section),
            WireApi::Responses => Some(responses::encode_list(self, state, section)),
            WireApi::Anthropic => anthropic::encode_list(self, state, section),
            WireApi::Gemini => gemini::encode_list(self, state, section),
            WireApi::Ollama => Some(ollama::encode_list(self, state, section)),
        }
    }

    /// Encodes a whole list.
    pub(crate) fn encode_whole(&self, state: &mut ListState, messages: &[ModelMessage]) -> Vec<Value> {
        self.encode(state, ListSection { messages, is_last: true }).unwrap_or_default()
    }
}

/// The system message at the beginning, and the rest.
pub(crate) fn split_system(messages: &[ModelMessage]) -> (Option<&ModelMessage>, &[ModelMessage]) {
    match messages.split_first() {
        Some((first, rest)) if first.role == Role::System => (Some(first), rest),
        Some(_) | None => (None, messages),
    }
}
