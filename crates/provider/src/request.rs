//! The request of one model call: messages, tools and options.

use crate::{MessagePrefix, ModelMessage, Omission, message_list::split_system};
use serde_json::{Map, Value};
use std::{borrow::Cow, sync::Arc};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelRequest {
    /// The model's name at the provider; empty means the provider's default.
    pub model: String,
    /// A system message, if any, is the first one.
    pub messages: Vec<ModelMessage>,
    /// The messages between the system message and the other ones.
    pub prefix: Option<Arc<MessagePrefix>>,
    pub tools: Vec<ToolSpec>,
    pub options: GenerationOptions,
    /// What the server does not support; it is left out of the body.
    pub omitted: Vec<Omission>,
    /// Fields that the configuration adds to the body. Strings may contain `${NAME}`: the provider has the values.
    pub extra_body: Map<String, Value>,
}

impl ModelRequest {
    /// The request with all its messages in `messages`.
    pub fn with_all_messages(&self) -> Cow<'_, Self> {
        let Some(prefix) = &self.prefix else { return Cow::Borrowed(self) };
        let (system, rest) = split_system(&self.messages);
        let messages = system.into_iter().chain(prefix.messages()).chain(rest).cloned().collect();
        Cow::Owned(Self {
            model: self.model.clone(),
            messages,
            prefix: None,
            tools: self.tools.clone(),
            options: self.options.clone(),
            omitted: self.omitted.clone(),
            extra_body: self.extra_body.clone(),
        })
    }

    /// All messages without the system message.
    pub fn conversation(&self) -> impl Iterator<Item = &ModelMessage> {
        let prefix = self.prefix.as_deref().map(MessagePrefix::messages).unwrap_or_default();
        prefix.iter().chain(split_system(&self.messages).1)
    }
}

/// The declaration of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    pub name: String,
    pub description: String,
    /// A JSON Schema of type `object`.
    pub parameters: Value,
}

/// Generation options. An absent option is left to the provider's default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GenerationOptions {
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    pub top_k: Option<u32>,
    pub presence_penalty: Option<f64>,
    pub frequency_penalty: Option<f64>,
    /// Gemini's safety settings, as they are.
    pub safety_settings: Option<Value>,
    pub max_output_tokens: Option<u32>,
    /// The output limit in a format that requires one, unless `max_output_tokens` is set.
    pub default_output_tokens: Option<u32>,
    pub stop: Vec<String>,
    pub seed: Option<i64>,
    /// The JSON Schema that the answer must satisfy.
    pub response_schema: Option<Value>,
    pub reasoning: Option<ReasoningEffort>,
    pub tool_choice: Option<ToolChoice>,
    /// Whether an answer may contain several tool calls.
    pub parallel_tool_calls: Option<bool>,
    /// Requests with the same key share a prompt cache.
    pub cache_key: Option<String>,
    /// Whether the model is known to enforce a schema, for the formats in which not every model does. Otherwise the schema
    /// is an instruction.
    pub enforces_schema: bool,
}

/// How much reasoning a model does before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReasoningEffort {
    Off,
    Minimal,
    Low,
    Medium,
    High,
    /// A token budget.
    Tokens(u32),
}

/// The tools that a model may or must call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolChoice {
    Auto,
    None,
    /// At least one tool, any of them.
    Required,
    Named(String),
}

impl ToolChoice {
    /// Drops the obligation to call a tool.
    pub fn unforced(self) -> Self {
        match self {
            Self::Required | Self::Named(_) => Self::Auto,
            Self::Auto | Self::None => self,
        }
    }
}
