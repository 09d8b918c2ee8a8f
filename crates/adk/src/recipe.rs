//! Recipes: how the request of a model call was built, so that it can be rebuilt from the log.

use crate::{
    agent::{IncludeContents, LlmAgent},
    event::Event,
    flow::{
        contents::{self, HistoryView},
        request::WindowedRequest,
    },
    model::{LlmRequest, SentSlot, SpentTokens},
    pending::PendingCall,
    session::Session,
    window::Front,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use shared_text::SharedText;
use std::sync::Arc;

/// The inputs of a request other than the session's events.
#[derive(Clone, Debug, PartialEq)]
pub struct CallRecipe {
    pub agent: String,
    pub include: IncludeContents,
    /// The sequence number of the first event that the request shows, if it is stored.
    pub first: Option<u64>,
    /// The agent's new front, if this request advanced it.
    pub advanced: Option<Front>,
    /// Calls before the loaded events that one of the events responds to.
    pub deferred: Vec<PendingCall>,
    /// The user's last request before the shown events, if they do not begin with the log.
    pub user_request: Option<SharedText>,
    /// The settings with the system instruction, as JSON.
    pub config: String,
    /// The tool declarations, as JSON.
    pub tools: String,
    /// `None` if no model got the request.
    pub sent: Option<SentRequest>,
    /// The usage of attempts that brought no answer.
    pub spent: Vec<SpentTokens>,
}

/// The parameters with which the model adapter encoded a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SentRequest {
    /// The provider's name in the configuration.
    pub provider: String,
    /// The origin of opaque data that this model accepts.
    #[serde(rename = "stamp")]
    pub origin: String,
    pub model: String,
    /// The token budget of the history.
    pub budget: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_messages: Option<usize>,
    /// How much of the budget an advance of the window retains, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retained: Option<u8>,
    /// The context size that limited the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<u32>,
    /// The maximum output of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<u32>,
    /// What the server does not support and the request leaves out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub omitted: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel_tool_calls: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_key: Option<String>,
    /// Whether the model was known to enforce a schema.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub enforces_schema: bool,
    /// The fields that the configuration added to the body, with the names of variables.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra_body: Map<String, Value>,
    /// The hash of the body in hexadecimal digits; `None` for a model without a wire format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

impl CallRecipe {
    pub(crate) fn new(agent: &LlmAgent, session: &impl Session, shown: &WindowedRequest) -> Self {
        let WindowedRequest { request, window } = shown;
        let LlmRequest { user_request, config, tools, prefix: _, contents: _, scope: _, sent: _ } = request;
        let json = |value: serde_json::Result<String>| value.unwrap_or_default();
        Self {
            agent: agent.name.clone(),
            include: agent.include_contents,
            first: session.loaded().rows.get(window.start).map(|row| row.seq),
            advanced: window.advanced.clone(),
            deferred: session.pending().deferred.clone(),
            user_request: user_request.clone(),
            config: json(serde_json::to_string(config)),
            tools: json(serde_json::to_string(tools)),
            sent: None,
            spent: Vec::new(),
        }
    }

    /// Rebuilds the request from the events that it showed.
    pub fn request(&self, events: &[Arc<Event>]) -> serde_json::Result<LlmRequest> {
        let contents = contents::contents(HistoryView {
            agent: &self.agent,
            branch: None,
            include: self.include,
            events,
            deferred: &self.deferred,
        });
        let (config, tools) = (serde_json::from_str(&self.config)?, serde_json::from_str(&self.tools)?);
        let (user_request, sent) = (self.user_request.clone(), SentSlot::default());
        Ok(LlmRequest { contents, user_request, config, tools, sent, ..LlmRequest::default() })
    }
}
