//! The port to a language model, in ADK's words.

use crate::{
    content::Content,
    error::LlmError,
    event::{Event, UsageMetadata},
};
use futures::stream::BoxStream;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::{ops::Deref, sync::Arc};
use text::Text;

/// Partial responses first, if streaming was asked for; then one that is whole; or an error, and nothing after it.
pub type LlmStream = BoxStream<'static, Result<LlmResponse, LlmError>>;

pub trait Llm: Send + Sync {
    fn name(&self) -> &str;
    fn generate(&self, request: LlmRequest, stream: bool) -> LlmStream;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct LlmRequest {
    pub contents: Vec<ContentRef>,
    /// What the user asked for before the first of the contents, if the session was read without it.
    pub task: Option<Text>,
    pub config: GenerateContentConfig,
    /// In the order in which the agent names them, so that the same agent always asks the same way.
    pub tools: Vec<FunctionDeclaration>,
}

/// A content of a request. Most are what an event says, word for word: a long history is shown without being copied.
#[derive(Clone, Debug)]
pub enum ContentRef {
    /// By an event that has a content.
    Event(Arc<Event>),
    Owned(Box<Content>),
}

impl ContentRef {
    pub(crate) fn into_content(self) -> Content {
        match self {
            Self::Event(event) => Arc::unwrap_or_clone(event).content.unwrap_or_default(),
            Self::Owned(content) => *content,
        }
    }
}

impl Deref for ContentRef {
    type Target = Content;

    fn deref(&self) -> &Content {
        const NOTHING: &Content = &Content { parts: Vec::new(), role: None, origin: None };
        match self {
            Self::Event(event) => event.content.as_ref().unwrap_or(NOTHING),
            Self::Owned(content) => content,
        }
    }
}

impl From<Content> for ContentRef {
    fn from(content: Content) -> Self {
        Self::Owned(Box::new(content))
    }
}

impl PartialEq for ContentRef {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

/// Settings of a call, in the names of ADK's `generate_content_config`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GenerateContentConfig {
    #[serde(alias = "system_instruction", skip_serializing_if = "Option::is_none")]
    pub system_instruction: Option<Content>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    #[serde(alias = "top_p", skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    #[serde(alias = "max_output_tokens", skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u32>,
    #[serde(alias = "stop_sequences", skip_serializing_if = "Vec::is_empty")]
    pub stop_sequences: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    #[serde(alias = "response_schema", skip_serializing_if = "Option::is_none")]
    pub response_schema: Option<Value>,
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FunctionDeclaration {
    pub description: String,
    pub name: String,
    /// A JSON Schema of an object.
    pub parameters_json_schema: Value,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct LlmResponse {
    pub content: Option<Content>,
    pub partial: bool,
    pub turn_complete: bool,
    pub finish_reason: Option<String>,
    /// The model answered that it will not answer. This is a response, not a failure of the call.
    pub error_code: Option<String>,
    pub error_message: Option<String>,
    pub usage_metadata: Option<UsageMetadata>,
    pub model_version: Option<String>,
    /// Put on the event. A partial response may carry it alone: word of what goes on while there is no answer yet.
    pub custom_metadata: Option<Map<String, Value>>,
}
