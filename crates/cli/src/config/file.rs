//! The schema of `lango.toml`. Unknown keys are errors that suggest the most similar key.

use super::{
    ConfigError, mcp,
    models::{ModelConfig, Retry, Seconds},
    parser_message::plain_message,
    providers,
    server::ServerSection,
    telemetry::TelemetrySection,
    tools::{ApprovalSection, ToolsSection},
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

/// The keys of `lango.toml`. `docs/src/configuration.md` is generated from these types: after a change run
/// `cargo xtask docs --write`. The lines `Default:` and `Environment:` of a doc comment are columns of the reference.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(super) struct ConfigFile {
    /// The model of agents that name none, as `provider/model`; `demo` and `scripted/FILE` need no provider.
    ///
    /// Default: the first provider with a key, else a model server on this machine, else `demo`
    /// Environment: `LANGO_MODEL`
    pub(super) model: Option<String>,
    /// Models to use, in this order, if the model cannot answer.
    ///
    /// Environment: `LANGO_FALLBACK`
    pub(super) fallback: Vec<String>,
    /// Whether to look for a model server on the loopback interface if no model is chosen and no key is set.
    ///
    /// Default: `true`
    /// Environment: `LANGO_DISCOVER`
    pub(super) discover: Option<bool>,
    /// The agent to use: a folder below the agents directory. Needed if there are several.
    ///
    /// Default: the only agent, else the built-in one
    /// Environment: `LANGO_APP`
    pub(super) app: Option<String>,
    /// The user that sessions of `lango run` and `lango chat` belong to.
    ///
    /// Default: `"user"`
    /// Environment: `LANGO_USER`
    pub(super) user: Option<String>,
    /// Where sessions are stored: the path of a SQLite file, or the URL of a PostgreSQL database, which several servers may
    /// share: `postgres://user:${PASSWORD}@host/database?sslmode=verify-full`. `${NAME}` is taken from the environment. `sslmode` is
    /// `disable`, `prefer` (the default), `require`, `verify-ca` or `verify-full`; `sslrootcert` names a PEM file of certificate authorities.
    ///
    /// Default: `lango.db` in the data directory
    /// Environment: `LANGO_DATABASE`
    pub(super) database: Option<String>,
    /// The directory of agents, `<app>/root_agent.yaml` each.
    ///
    /// Default: `"agents"`
    /// Environment: `LANGO_AGENTS_DIR`
    #[serde(alias = "agents_dir")]
    pub(super) agents_dir: Option<PathBuf>,
    /// How many tokens of a conversation a model is shown, at least 256. 0 means the default.
    ///
    /// Default: `32000`
    /// Environment: `LANGO_MAX_MESSAGE_TOKEN_BUDGET`
    #[serde(alias = "max_message_token_budget")]
    pub(super) max_message_token_budget: u32,
    /// Limits on the history beside the token budget.
    pub(super) history: HistorySection,
    /// Where models are. The providers listed under [Known providers](#known-providers) need no entry; any other server does.
    pub(super) providers: BTreeMap<String, providers::ProviderSection>,
    /// Facts about single models.
    ///
    /// Name: `"<provider>/<model>"`
    pub(super) models: BTreeMap<String, ModelConfig>,
    /// What to do if a model call fails before any part of the answer was shown.
    pub(super) retry: Retry,
    /// Limits of one run, in the terminal and on a server. A run that exceeds one of them ends with an error.
    pub(super) limits: LimitsSection,
    /// Settings of model calls for agents that do not set them, as in ADK's `generate_content_config`: `systemInstruction`,
    /// `temperature`, `topP`, `maxOutputTokens`, `stopSequences`, `seed`, `responseSchema`. Other keys are passed on as they
    /// are, such as `thinkingConfig`.
    pub(super) generate: GenerateContentConfig,
    /// Tools with fixed answers, for tests and demonstrations. In strings of `response`, `fail`, `state` and `artifact`,
    /// `{name}` is replaced by the argument of that name.
    pub(super) stubs: BTreeMap<String, StubEntry>,
    /// The server of `lango serve`.
    pub(super) server: ServerSection,
    /// Export of traces by OTLP over HTTP. Nothing is sent unless an endpoint is set.
    pub(super) telemetry: TelemetrySection,
    /// What tools can reach.
    pub(super) tools: ToolsSection,
    /// Which tool calls run without a question. Each value is `"allow"`, `"ask"` or `"deny"`.
    pub(super) approval: ApprovalSection,
    /// MCP servers. Their tools are named `<name>__<tool>`; an agent's file may name them one by one or as `<name>__*`.
    pub(super) mcp: BTreeMap<String, mcp::McpServerSection>,
    /// Whether the MCP servers in the working directory's `.mcp.json` are used. They need trust in the folder. `"allow"` in a file
    /// that is not the folder's own uses those of every folder.
    ///
    /// Default: `"ask"`
    #[serde(alias = "mcp_json")]
    pub(super) mcp_json: Option<Decision>,
    /// Commands as tools. A command reads its arguments as a JSON object from standard input and writes its result to
    /// standard output, as a JSON object or as text. `LANGO_CALL_ID` holds the id of the call.
    pub(super) commands: BTreeMap<String, mcp::CommandSection>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(super) struct HistorySection {
    /// Hard cap on the number of messages. Calls and their results stay together.
    ///
    /// Environment: `LANGO_HISTORY_MAX_MESSAGES`
    #[serde(alias = "max_messages")]
    pub(super) max_messages: Option<usize>,
    /// How much of the budget the context window uses after an advance, in percent, from 10 to 90. The window grows until it
    /// exceeds the budget, so that the beginning of the requests stays the same and the provider's prompt cache applies.
    ///
    /// Default: `50`
    /// Environment: `LANGO_HISTORY_RETAIN`
    pub(super) retain: Option<u8>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(super) struct LimitsSection {
    /// Model calls of a run. 0 means no limit.
    ///
    /// Default: `500`
    /// Environment: `LANGO_LIMITS_MODEL_CALLS`
    #[serde(alias = "model_calls")]
    pub(super) model_calls: Option<u32>,
    /// Tool calls of a run.
    ///
    /// Environment: `LANGO_LIMITS_TOOL_CALLS`
    #[serde(alias = "tool_calls")]
    pub(super) tool_calls: Option<u32>,
    /// Time between the events of a run, added up. Waiting for a person does not count.
    #[serde(rename = "timeS", alias = "time_s")]
    pub(super) time: Option<Seconds>,
    /// Input and output tokens of all model calls of a run.
    ///
    /// Environment: `LANGO_LIMITS_TOKENS`
    pub(super) tokens: Option<u64>,
    /// Cost of a run, by the prices in `[models]`, in their currency.
    ///
    /// Environment: `LANGO_LIMITS_COST`
    pub(super) cost: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key that people write")]
pub(super) struct StubEntry {
    /// The description that the model sees.
    description: String,
    /// JSON Schema of the arguments.
    ///
    /// Default: an object without properties
    parameters: Value,
    /// The result. `{artifact.version}` is replaced by the version of a saved artifact.
    ///
    /// Default: `{}`
    response: Value,
    /// Fails each call with this text.
    fail: Option<String>,
    /// Makes the tool a long-running one: the response is the intermediate result.
    pending: bool,
    /// Asks for approval before each call, regardless of `[approval]`.
    confirm: bool,
    /// What the tool can touch, which decides whether it asks.
    ///
    /// Default: `"read"`
    safety: Safety,
    /// What a second execution of the same call would do, which decides about recovery after a crash.
    ///
    /// Default: `"read_only"`
    effect: Effect,
    /// Marks the results as text of strangers: afterwards, calls that act ask again.
    untrusted: bool,
    /// State keys that a call sets.
    state: Map<String, Value>,
    /// An artifact that a call saves: `name`, `text`, and `mimeType` if it is not `text/plain`.
    artifact: Option<StubArtifact>,
    /// Milliseconds before the result.
    #[serde(alias = "delay_ms")]
    delay_ms: u64,
    /// Makes each call panic, to test that a run survives it.
    panic: bool,
}

impl Default for StubEntry {
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

impl StubEntry {
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

impl ConfigFile {
    pub(super) fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        toml::from_str(text).map_err(|error| syntax(path, text, &error))
    }
}

pub(super) fn syntax(path: &Path, text: &str, error: &toml::de::Error) -> ConfigError {
    let start = error.span().map_or(0, |span| span.start).min(text.len());
    let before = &text[..start];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1;
    let message = plain_message(error.message());
    ConfigError::Syntax { path: path.to_path_buf(), line, column, message }
}

#[cfg(test)]
mod tests {
    use super::ConfigFile;
    use crate::config::parser_message::plain_message;

    /// `maxWaitS` as `max_wait_s`.
    fn snake(line: &str) -> String {
        let Some((key, value)) = line.split_once(" = ") else { return line.to_owned() };
        let mut snake = String::new();
        for c in key.chars() {
            if c.is_ascii_uppercase() {
                snake.push('_');
            }
            snake.push(c.to_ascii_lowercase());
        }
        format!("{snake} = {value}")
    }

    #[test]
    fn every_documented_key_is_accepted_in_camel_case_and_snake_case() {
        let page = include_str!("../../../../docs/src/configuration.md");
        let example = page.split_once("```toml").unwrap().1.split_once("```").unwrap().0;
        let keys = |text: &str| text.lines().filter(|line| line.contains(" = ")).count();
        assert!(keys(example) > 40, "{example}");
        let spelled: Vec<String> = example.lines().map(|line| snake(line.trim())).collect();
        toml::from_str::<ConfigFile>(example).unwrap();
        toml::from_str::<ConfigFile>(&spelled.join("\n")).unwrap();
    }

    #[test]
    fn stub_keys_are_accepted_in_camel_case_and_snake_case() {
        for toml in [
            "delayMs = 3\nartifact = { name = \"a\", mimeType = \"b\", text = \"\" }",
            "delay_ms = 3\nartifact = { name = \"a\", mime_type = \"b\", text = \"\" }",
        ] {
            let file: ConfigFile = toml::from_str(&format!("[stubs.lamp]\n{toml}")).unwrap();
            assert_eq!(file.stubs["lamp"].delay_ms, 3);
        }
    }

    #[test]
    fn dissimilar_unknown_key_lists_all_known_keys() {
        let message =
            plain_message("unknown field `colour`, expected one of `agentsDir`, `agents_dir`, `app`");
        assert_eq!(message, "there is no key `colour`; the keys are agentsDir, app");
    }

    #[test]
    fn misspelled_key_gets_a_suggestion() {
        let message = plain_message("unknown field `modle`, expected one of app, model, user");
        assert_eq!(message, "there is no key `modle`; did you mean `model`?");
    }
}
