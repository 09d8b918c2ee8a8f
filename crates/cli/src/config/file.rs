//! `lango.toml` as it is written. Unknown keys are mistakes, and the error says what was probably meant.

use super::{
    ConfigError, mcp,
    models::{ModelConfig, Retry, Seconds},
    providers,
    server::Server,
    telemetry::Telemetry,
    tools::{Approval, Tools},
};
use ::tools::{
    Effect, Safety,
    policy::Decision,
    stub::{StubArtifact, StubConfig},
};
use adk::model::GenerateContentConfig;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(super) struct File {
    pub(super) model: Option<String>,
    pub(super) fallback: Vec<String>,
    pub(super) discover: Option<bool>,
    pub(super) app: Option<String>,
    pub(super) user: Option<String>,
    pub(super) database: Option<PathBuf>,
    #[serde(alias = "agents_dir")]
    pub(super) agents_dir: Option<PathBuf>,
    #[serde(alias = "max_message_token_budget")]
    pub(super) max_message_token_budget: u32,
    pub(super) history: History,
    pub(super) providers: BTreeMap<String, providers::Written>,
    pub(super) models: BTreeMap<String, ModelConfig>,
    pub(super) retry: Retry,
    pub(super) limits: Limits,
    pub(super) generate: GenerateContentConfig,
    pub(super) stubs: BTreeMap<String, Stub>,
    pub(super) server: Server,
    pub(super) telemetry: Telemetry,
    pub(super) tools: Tools,
    pub(super) approval: Approval,
    pub(super) mcp: BTreeMap<String, mcp::Server>,
    /// Whether servers that the working directory's `.mcp.json` names may start.
    #[serde(alias = "mcp_json")]
    pub(super) mcp_json: Option<Decision>,
    pub(super) commands: BTreeMap<String, mcp::Command>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(super) struct History {
    #[serde(alias = "max_messages")]
    pub(super) max_messages: Option<usize>,
}

/// What a run may use.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(super) struct Limits {
    #[serde(alias = "model_calls")]
    pub(super) model_calls: Option<u32>,
    #[serde(alias = "tool_calls")]
    pub(super) tool_calls: Option<u32>,
    #[serde(rename = "timeS", alias = "time_s")]
    pub(super) time: Option<Seconds>,
    pub(super) tokens: Option<u64>,
    pub(super) cost: Option<f64>,
}

/// A tool that is made up here; its name is the table's.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key that people write")]
pub(super) struct Stub {
    description: String,
    parameters: Value,
    response: Value,
    fail: Option<String>,
    pending: bool,
    confirm: bool,
    safety: Safety,
    effect: Effect,
    untrusted: bool,
    state: Map<String, Value>,
    artifact: Option<StubArtifact>,
    #[serde(alias = "delay_ms")]
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
            safety: Safety::default(),
            effect: Effect::default(),
            untrusted: false,
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
            safety: self.safety,
            effect: self.effect,
            untrusted: self.untrusted,
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
    let message = in_plain_words(error.message());
    ConfigError::Syntax { path: path.to_path_buf(), line, column, message }
}

/// What a parser says, in words that need no knowledge of Rust.
pub(super) fn in_plain_words(message: &str) -> String {
    if let Some(told) = about_unknown_key(message) {
        return told;
    }
    if let Some((written, known)) = about_unknown_word(message) {
        return format!("there is no {written} here; there is {known}");
    }
    if let Some(key) = message.strip_prefix("missing field ") {
        return format!("the key {key} is missing");
    }
    let whole_number = "expected a whole number that is not negative";
    let words = [
        ("expected u32", whole_number),
        ("expected usize", whole_number),
        ("expected string scalar", "expected a text"),
        ("while scanning a plain scalar, found a tab", "a tab follows; YAML is indented with spaces"),
    ];
    words.iter().fold(message.to_owned(), |message, (parser, person)| message.replace(parser, person))
}

/// A word that is none of those that may stand there, and those.
fn about_unknown_word(message: &str) -> Option<(String, String)> {
    let (written, expected) = message.strip_prefix("unknown variant ")?.split_once(", expected ")?;
    Some((written.to_owned(), expected.trim_start_matches("one of ").replace('`', "")))
}

/// Says which of the expected keys was probably meant.
fn about_unknown_key(message: &str) -> Option<String> {
    let (written, expected) = message.strip_prefix("unknown field `")?.split_once('`')?;
    let expected = expected.trim_start_matches(", expected ").trim_start_matches("one of ");
    let mut known: Vec<&str> =
        expected.split([',', ' ', '`']).filter(|word| !word.is_empty() && *word != "or").collect();
    // A key that can be written in two ways is named in one.
    let ways: Vec<String> = known.iter().map(|key| key.to_lowercase()).collect();
    known.retain(|key| !key.contains('_') || !ways.contains(&key.replace('_', "")));
    let likeness = |key: &&str| strsim::jaro_winkler(written, key);
    let nearest = known.iter().copied().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    Some(match nearest.filter(|nearest| likeness(nearest) > 0.7) {
        Some(nearest) => format!("there is no key `{written}`; did you mean `{nearest}`?"),
        None => format!("there is no key `{written}`; there is {}", known.join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use super::{File, in_plain_words};

    /// `maxWaitS` as `max_wait_s`.
    fn snake(line: &str) -> String {
        let Some((key, value)) = line.split_once(" = ") else { return line.to_owned() };
        let mut written = String::new();
        for letter in key.chars() {
            if letter.is_ascii_uppercase() {
                written.push('_');
            }
            written.push(letter.to_ascii_lowercase());
        }
        format!("{written} = {value}")
    }

    #[test]
    fn every_key_of_the_readme_is_known_in_both_spellings() {
        let readme = include_str!("../../../../README.md");
        let example = readme.split_once("```toml").unwrap().1.split_once("```").unwrap().0;
        let keys = |text: &str| text.lines().filter(|line| line.contains(" = ")).count();
        assert!(keys(example) > 40, "{example}");
        let spelled: Vec<String> = example.lines().map(|line| snake(line.trim())).collect();
        toml::from_str::<File>(example).unwrap();
        toml::from_str::<File>(&spelled.join("\n")).unwrap();
    }

    #[test]
    fn a_stubs_keys_are_spelled_as_all_others_are() {
        for toml in [
            "delayMs = 3\nartifact = { name = \"a\", mimeType = \"b\", text = \"\" }",
            "delay_ms = 3\nartifact = { name = \"a\", mime_type = \"b\", text = \"\" }",
        ] {
            let file: File = toml::from_str(&format!("[stubs.lamp]\n{toml}")).unwrap();
            assert_eq!(file.stubs["lamp"].delay_ms, 3);
        }
    }

    #[test]
    fn a_key_that_resembles_none_is_told_all_of_them() {
        let told = in_plain_words("unknown field `colour`, expected one of `agentsDir`, `agents_dir`, `app`");
        assert_eq!(told, "there is no key `colour`; there is agentsDir, app");
    }

    #[test]
    fn a_slip_is_told_what_was_probably_meant() {
        let told = in_plain_words("unknown field `modle`, expected one of app, model, user");
        assert_eq!(told, "there is no key `modle`; did you mean `model`?");
    }
}
