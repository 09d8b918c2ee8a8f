//! The schema of a script file. An unknown key is an error with its line.

use super::failure::ScriptFailure;
use crate::TokenUsage;
use serde::Deserialize;
use serde_json::{Map, Value};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ModelScript {
    /// The model version that responses report.
    pub(super) model: Option<String>,
    /// The token usage of each response without its own.
    pub(super) usage: Option<ScriptUsage>,
    /// The delay after each word.
    pub(super) word_delay_ms: Option<u64>,
    pub(super) rules: Vec<ScriptRule>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScriptRule {
    #[serde(default)]
    pub(super) when: ScriptCondition,
    pub(super) reply: Vec<ScriptStep>,
}

/// Conditions that must all hold. Without conditions the rule always matches.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScriptCondition {
    /// The user's first word, case-insensitive.
    pub(super) first_word: Option<String>,
    pub(super) exact: Option<String>,
    pub(super) starts_with: Option<String>,
    pub(super) contains: Option<String>,
    /// The last message is a result of this tool, or of `any` tool.
    pub(super) tool: Option<String>,
    /// The last message is a tool result whose JSON contains this text.
    pub(super) result_contains: Option<String>,
    /// The number of assistant messages since the last user text.
    pub(super) turn: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ScriptStep {
    Text(ScriptText),
    Thought(ScriptText),
    Call(ScriptCall),
    Usage(ScriptUsage),
    Refuse(ScriptRefusal),
    Fail(ScriptFailure),
    /// The response ends at the output token limit.
    Length,
    DelayMs(u64),
    Hang,
}

#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "expected a string, or a mapping with `text` and `signature`"
)]
pub(super) enum ScriptText {
    Plain(String),
    Signed { text: String, signature: String },
}

impl ScriptText {
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Plain(text) | Self::Signed { text, .. } => text,
        }
    }

    pub(super) fn signature(&self) -> Option<String> {
        match self {
            Self::Plain(_) => None,
            Self::Signed { signature, .. } => Some(signature.clone()),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScriptRefusal {
    pub(super) code: String,
    pub(super) message: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScriptCall {
    pub(super) name: String,
    #[serde(default)]
    pub(super) args: Map<String, Value>,
    pub(super) id: Option<String>,
    pub(super) signature: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScriptUsage {
    input: u64,
    output: u64,
    #[serde(default)]
    cached: u64,
    #[serde(default)]
    reasoning: u64,
}

impl From<ScriptUsage> for TokenUsage {
    fn from(usage: ScriptUsage) -> Self {
        let ScriptUsage { input, output, cached, reasoning } = usage;
        Self { input, cached, output, reasoning, ..Self::default() }
    }
}
