//! `lango.toml` as it is written. Unknown keys are mistakes, and the error says what was probably meant.

use super::ConfigError;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};
use tools::stub::{StubArtifact, StubConfig};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(super) struct File {
    pub(super) model: Option<String>,
    pub(super) app: Option<String>,
    pub(super) user: Option<String>,
    pub(super) database: Option<PathBuf>,
    #[serde(alias = "agents_dir")]
    pub(super) agents_dir: Option<PathBuf>,
    #[serde(alias = "max_message_token_budget")]
    pub(super) max_message_token_budget: u32,
    pub(super) history: History,
    pub(super) stubs: BTreeMap<String, Stub>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(super) struct History {
    #[serde(alias = "max_messages")]
    pub(super) max_messages: Option<usize>,
}

/// A tool that is made up here; its name is the table's.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Stub {
    description: String,
    parameters: Value,
    response: Value,
    fail: Option<String>,
    pending: bool,
    confirm: bool,
    state: Map<String, Value>,
    artifact: Option<StubArtifact>,
    delay_ms: u64,
    panic: bool,
}

impl Default for Stub {
    fn default() -> Self {
        Self {
            description: String::new(),
            parameters: json!({"type": "object", "properties": {}}),
            response: json!({}),
            fail: None,
            pending: false,
            confirm: false,
            state: Map::new(),
            artifact: None,
            delay_ms: 0,
            panic: false,
        }
    }
}

impl Stub {
    pub(super) fn into_config(self, name: String) -> StubConfig {
        StubConfig {
            name,
            description: self.description,
            parameters: self.parameters,
            response: self.response,
            fail: self.fail,
            pending: self.pending,
            confirm: self.confirm,
            safety: tools::Safety::default(),
            effect: tools::Effect::default(),
            state: self.state,
            artifact: self.artifact,
            delay_ms: self.delay_ms,
            panic: self.panic,
        }
    }
}

impl File {
    pub(super) fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Read { path: path.to_path_buf(), source })?;
        toml::from_str(&text).map_err(|error| syntax(path, &text, &error))
    }
}

fn syntax(path: &Path, text: &str, error: &toml::de::Error) -> ConfigError {
    let start = error.span().map_or(0, |span| span.start).min(text.len());
    let before = &text[..start];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1;
    let message = with_suggestion(error.message());
    ConfigError::Syntax { path: path.to_path_buf(), line, column, message }
}

/// Says which of the expected keys was probably meant.
pub(super) fn with_suggestion(message: &str) -> String {
    let mut quoted = message.split('`').skip(1).step_by(2);
    let Some(written) = quoted.next().filter(|_| message.starts_with("unknown field")) else {
        return message.to_owned();
    };
    let nearest =
        quoted.max_by(|a, b| strsim::jaro_winkler(written, a).total_cmp(&strsim::jaro_winkler(written, b)));
    match nearest.filter(|nearest| strsim::jaro_winkler(written, nearest) > 0.7) {
        Some(nearest) => format!("there is no key `{written}`; did you mean `{nearest}`?"),
        None => message.replacen("unknown field", "there is no key", 1),
    }
}
