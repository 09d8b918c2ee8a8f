//! Agents from `agents/<app>/root_agent.yaml`: ADK's own Agent Config, as far as it needs no Python.

use super::{ConfigError, file::in_plain_words};
use adk::{agent::IncludeContents, model::GenerateContentConfig};
use bridge::store::state::is_reserved;
use serde::Deserialize;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// How deep agents may be nested; deeper is a file that names itself.
const DEEPEST: usize = 16;

/// An agent as configured, with its sub-agents.
#[derive(Clone, Debug)]
pub(crate) struct AgentConfig {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) instruction: String,
    pub(crate) model: Option<String>,
    /// `None` for all the tools there are.
    pub(crate) tools: Option<Vec<String>>,
    pub(crate) sub_agents: Vec<AgentConfig>,
    pub(crate) generate: GenerateContentConfig,
    pub(crate) include_contents: IncludeContents,
    pub(crate) output_key: Option<String>,
    pub(crate) disallow_transfer_to_parent: bool,
    pub(crate) disallow_transfer_to_peers: bool,
    /// The file that says so, and what is relative to it.
    pub(crate) file: PathBuf,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAgent {
    agent_class: Option<String>,
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    instruction: String,
    static_instruction: Option<Value>,
    model: Option<String>,
    #[serde(default)]
    tools: Vec<RawTool>,
    #[serde(default)]
    sub_agents: Vec<RawSubAgent>,
    generate_content_config: Option<GenerateContentConfig>,
    output_key: Option<String>,
    output_schema: Option<Value>,
    input_schema: Option<Value>,
    include_contents: Option<RawInclude>,
    #[serde(default)]
    disallow_transfer_to_parent: bool,
    #[serde(default)]
    disallow_transfer_to_peers: bool,
    model_code: Option<Value>,
    before_agent_callbacks: Option<Value>,
    after_agent_callbacks: Option<Value>,
    before_model_callbacks: Option<Value>,
    after_model_callbacks: Option<Value>,
    before_tool_callbacks: Option<Value>,
    after_tool_callbacks: Option<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields, expecting = "a tool is written as `- name: NAME`")]
enum RawTool {
    Named { name: String, args: Option<Value> },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSubAgent {
    config_path: Option<PathBuf>,
    code: Option<Value>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawInclude {
    Default,
    None,
}

/// The apps in a directory, sorted.
pub(crate) fn apps(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.path().join("root_agent.yaml").is_file());
    let mut names: Vec<String> = named.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// The app that was asked for, or the only one; `None` if there are no agents here at all.
pub(crate) fn load_app(
    dir: &Path,
    wanted: Option<&str>,
) -> Result<Option<(String, AgentConfig)>, ConfigError> {
    let apps = apps(dir);
    let known = apps.join(", ");
    let name = match (wanted, apps.as_slice()) {
        (Some(super::BUILT_IN_APP), apps) if !apps.iter().any(|app| app == super::BUILT_IN_APP) => {
            return Ok(None);
        }
        (Some(wanted), apps) if apps.iter().any(|app| app == wanted) => wanted.to_owned(),
        (Some(wanted), _) => {
            let known = if known.is_empty() { super::BUILT_IN_APP.to_owned() } else { known };
            return Err(ConfigError::UnknownApp { name: wanted.to_owned(), dir: dir.to_path_buf(), known });
        }
        (None, []) => return Ok(None),
        (None, [only]) => only.clone(),
        (None, _) => return Err(ConfigError::WhichApp { dir: dir.to_path_buf(), known }),
    };
    let config = read(&dir.join(&name).join("root_agent.yaml"), 0)?;
    Ok(Some((name, config)))
}

fn parse(path: &Path) -> Result<RawAgent, ConfigError> {
    let wrong = |message: String| ConfigError::Value { path: path.to_path_buf(), message };
    let text = std::fs::read_to_string(path)
        .map_err(|source| ConfigError::Read { path: path.to_path_buf(), source })?;
    if text.trim().is_empty() {
        return Err(wrong("it is empty; an agent needs at least a `name`".to_owned()));
    }
    let raw: RawAgent = serde_saphyr::from_str(&text).map_err(|error| syntax(path, &error))?;
    refuse_python(&raw, path)?;
    match raw.agent_class.as_deref().filter(|class| *class != "LlmAgent") {
        Some(class) => Err(wrong(format!("agent_class {class} is not supported; the only one is LlmAgent"))),
        None => Ok(raw),
    }
}

fn sub_agents(of: &Path, raw: &[RawSubAgent], depth: usize) -> Result<Vec<AgentConfig>, ConfigError> {
    let wrong = |message: &str| ConfigError::Value { path: of.to_path_buf(), message: message.to_owned() };
    if depth > DEEPEST {
        return Err(wrong("its sub_agents lead back to itself"));
    }
    let read_one = |sub: &RawSubAgent| {
        let named = sub.config_path.as_ref().ok_or_else(|| wrong("a sub-agent needs a `config_path`"))?;
        let path = of.parent().unwrap_or(Path::new("")).join(named);
        if !path.exists() {
            return Err(ConfigError::Missing { path, named_by: of.display().to_string() });
        }
        read(&path, depth)
    };
    raw.iter().map(read_one).collect()
}

fn read(path: &Path, depth: usize) -> Result<AgentConfig, ConfigError> {
    let raw = parse(path)?;
    refuse_own_key(&raw, path)?;
    let sub_agents = sub_agents(path, &raw.sub_agents, depth + 1)?;
    let mut generate = raw.generate_content_config.unwrap_or_default();
    generate.response_schema = raw.output_schema.or(generate.response_schema);
    Ok(AgentConfig {
        name: raw.name,
        description: raw.description,
        instruction: raw.instruction,
        model: raw.model,
        tools: Some(raw.tools.into_iter().map(|RawTool::Named { name, .. }| name).collect()),
        sub_agents,
        generate,
        include_contents: match raw.include_contents.unwrap_or(RawInclude::Default) {
            RawInclude::Default => IncludeContents::Default,
            RawInclude::None => IncludeContents::None,
        },
        output_key: raw.output_key,
        disallow_transfer_to_parent: raw.disallow_transfer_to_parent,
        disallow_transfer_to_peers: raw.disallow_transfer_to_peers,
        file: path.to_path_buf(),
    })
}

/// What the program knows of a conversation is not an agent's to say.
fn refuse_own_key(raw: &RawAgent, path: &Path) -> Result<(), ConfigError> {
    match raw.output_key.as_deref().filter(|key| is_reserved(key)) {
        Some(key) => Err(ConfigError::Value {
            path: path.to_path_buf(),
            message: format!("output_key: {key} is a key of Lango's own; choose another name"),
        }),
        None => Ok(()),
    }
}

fn refuse_python(raw: &RawAgent, path: &Path) -> Result<(), ConfigError> {
    let callbacks = "leave it out, or keep that agent in ADK";
    let keys = [
        ("model_code", raw.model_code.is_some(), "name a model with `model`"),
        ("static_instruction", raw.static_instruction.is_some(), "put its text into `instruction`"),
        ("input_schema", raw.input_schema.is_some(), callbacks),
        ("before_agent_callbacks", raw.before_agent_callbacks.is_some(), callbacks),
        ("after_agent_callbacks", raw.after_agent_callbacks.is_some(), callbacks),
        ("before_model_callbacks", raw.before_model_callbacks.is_some(), callbacks),
        ("after_model_callbacks", raw.after_model_callbacks.is_some(), callbacks),
        ("before_tool_callbacks", raw.before_tool_callbacks.is_some(), callbacks),
        ("after_tool_callbacks", raw.after_tool_callbacks.is_some(), callbacks),
        (
            "sub_agents.code",
            raw.sub_agents.iter().any(|sub| sub.code.is_some()),
            "write it as YAML and give its config_path",
        ),
        (
            "tools.args",
            raw.tools.iter().any(|RawTool::Named { args, .. }| args.is_some()),
            "name a tool of lango.toml instead",
        ),
    ];
    match keys.into_iter().find(|(_, used, _)| *used) {
        Some((key, _, instead)) => {
            Err(ConfigError::NeedsPython { path: path.to_path_buf(), key: key.to_owned(), instead })
        }
        None => Ok(()),
    }
}

fn syntax(path: &Path, error: &serde_saphyr::Error) -> ConfigError {
    let place = error.location();
    let text = error.without_snippet().to_string();
    let message = in_plain_words(without_place(text.lines().next().unwrap_or_default()));
    match place {
        Some(place) => ConfigError::Syntax {
            path: path.to_path_buf(),
            line: usize::try_from(place.line()).unwrap_or_default(),
            column: usize::try_from(place.column()).unwrap_or_default(),
            message,
        },
        None => ConfigError::Value { path: path.to_path_buf(), message },
    }
}

/// An error of a script, told as of any other file.
pub(crate) fn in_script(path: &Path, error: provider::Error) -> anyhow::Error {
    let provider::Error::Script { message, .. } = &error else { return error.into() };
    let place = message.rsplit_once(" at line ").and_then(|(_, place)| place.split_once(", column "));
    let (Some(line), Some(column)) =
        (place.and_then(|(line, _)| line.parse().ok()), place.and_then(|(_, column)| column.parse().ok()))
    else {
        return error.into();
    };
    let message = in_plain_words(without_place(message));
    ConfigError::Syntax { path: path.to_path_buf(), line, column, message }.into()
}

/// The parser puts the place in front of its message or behind it; it is told once, by us.
fn without_place(message: &str) -> &str {
    let message = message.strip_prefix("error: ").unwrap_or(message);
    let after = message.strip_prefix("line ").and_then(|rest| rest.split_once(": "));
    let message = after.map_or(message, |(_, rest)| rest);
    message.rsplit_once(" at line ").map_or(message, |(before, _)| before)
}
