//! One call: messages, tools and settings.

use crate::ModelMessage;
use serde_json::Value;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelRequest {
    /// The provider's own name of the model; empty for its default.
    pub model: String,
    /// A system message, if there is one, comes first.
    pub messages: Vec<ModelMessage>,
    pub tools: Vec<ToolSpec>,
    pub options: GenerationOptions,
}

/// A tool as a model is told about it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    pub name: String,
    pub description: String,
    /// A JSON Schema of an object.
    pub parameters: Value,
}

/// Settings; what is absent is left to the provider.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GenerationOptions {
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    pub max_output_tokens: Option<u32>,
    pub stop: Vec<String>,
    pub seed: Option<i64>,
    /// The answer must be JSON of this schema.
    pub response_schema: Option<Value>,
    pub reasoning: Option<ReasoningEffort>,
    pub tool_choice: Option<ToolChoice>,
}

/// How hard a model should think before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReasoningEffort {
    Off,
    Minimal,
    Low,
    Medium,
    High,
    /// As many tokens as this.
    Tokens(u32),
}

/// Which tools a model may or must call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolChoice {
    Auto,
    None,
    /// At least one, whichever.
    Required,
    Named(String),
}

impl ToolChoice {
    /// Nothing has to be called any more.
    pub fn unforced(self) -> Self {
        match self {
            Self::Required | Self::Named(_) => Self::Auto,
            Self::Auto | Self::None => self,
        }
    }
}
