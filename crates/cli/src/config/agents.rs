//! Agents from `agents/<app>/root_agent.yaml`: ADK's own Agent Config, as far as it needs no Python.

use super::{ConfigError, parser_message::plain_message, regular_file::read_regular_file, yaml};
use crate::trust::{FolderGuard, UntrustedFolder};
use adk::{agent::IncludeContents, model::GenerateContentConfig};
use bridge::store::state::is_reserved;
use serde::Deserialize;
use serde_json::Value;
use std::{
    io,
    path::{Component, Path, PathBuf},
};

/// The maximum nesting of agents. A deeper tree is a cycle of files.
const MAX_DEPTH: usize = 16;
/// The maximum number of agents of an app. Files that name each other several times would otherwise be read without end.
const MAX_AGENTS: usize = 1_000;

/// An agent as configured, with its sub-agents.
#[derive(Clone, Debug)]
pub(crate) struct AgentConfig {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) instruction: String,
    pub(crate) model: Option<String>,
    /// `None` for all tools.
    pub(crate) tools: Option<Vec<String>>,
    pub(crate) sub_agents: Vec<AgentConfig>,
    pub(crate) generate: GenerateContentConfig,
    pub(crate) include_contents: IncludeContents,
    pub(crate) output_key: Option<String>,
    pub(crate) disallow_transfer_to_parent: bool,
    pub(crate) disallow_transfer_to_peers: bool,
    /// The file of the agent. Paths in it are relative to it.
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

/// The directory of agents, and the trust that reading them needs.
#[derive(Clone, Debug)]
pub(crate) struct AgentsDir {
    /// `None` if the only directory is that of a folder that is not trusted.
    pub(super) path: Option<PathBuf>,
    /// Checks each agent of a trusted folder. `None` if the directory needs no trust.
    pub(super) guard: Option<FolderGuard>,
    /// The directory of a folder that is not trusted.
    pub(super) ignored: Option<(PathBuf, UntrustedFolder)>,
}

impl AgentsDir {
    /// The directory, also if its folder is not trusted.
    pub(crate) fn location(&self) -> Option<&Path> {
        self.path.as_deref().or(self.ignored.as_ref().map(|(path, _)| path.as_path()))
    }

    /// The apps, sorted. An app whose file cannot be read is one of them, so that it is reported.
    pub(crate) fn apps(&self) -> Vec<String> {
        self.path.as_deref().map(apps).unwrap_or_default()
    }

    /// Files that are not read because of their ending.
    pub(crate) fn misnamed(&self) -> Vec<PathBuf> {
        self.path.as_deref().map(misnamed).unwrap_or_default()
    }

    /// Loads the named app, or the only one. Returns `None` for the built-in app.
    pub(crate) fn load_app(
        &self,
        wanted: Option<&str>,
    ) -> Result<Option<(String, AgentConfig)>, ConfigError> {
        if let (Some(wanted), Some((dir, folder))) = (wanted, &self.ignored)
            && has_app(dir, wanted)
        {
            return Err(ConfigError::UntrustedApp { name: wanted.to_owned(), folder: folder.clone() });
        }
        let Some(dir) = &self.path else {
            return match wanted.filter(|wanted| *wanted != super::BUILT_IN_APP) {
                Some(wanted) => Err(unknown_app(wanted, Path::new("agents"), &[])),
                None => Ok(None),
            };
        };
        let Some(name) = select_app(dir, wanted)? else { return Ok(None) };
        let config = read_tree(&dir.join(&name).join("root_agent.yaml"))?;
        if let Some(guard) = &self.guard {
            guard.check(&name, &config).map_err(ConfigError::Untrusted)?;
        }
        Ok(Some((name, config)))
    }
}

/// The agents of a directory that can be parsed, and whether it has any.
pub(super) fn parse_all(dir: &Path) -> (Vec<(String, AgentConfig)>, bool) {
    let apps = apps(dir);
    let has_apps = !apps.is_empty();
    let parsed = apps.into_iter().filter_map(|app| {
        let config = read_tree(&dir.join(&app).join("root_agent.yaml")).ok()?;
        Some((app, config))
    });
    (parsed.collect(), has_apps)
}

fn apps(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let named = entries.filter(|entry| is_app(&entry.path()));
    let mut names: Vec<String> = named.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// The files `root_agent.yml` of folders without a `root_agent.yaml`, sorted.
fn misnamed(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = entries.filter_map(|folder| misnamed_file(&folder)).collect();
    files.sort();
    files
}

fn misnamed_file(folder: &Path) -> Option<PathBuf> {
    let file = folder.join("root_agent.yml");
    (!is_app(folder) && file.is_file()).then_some(file)
}

fn is_app(folder: &Path) -> bool {
    let file = folder.join("root_agent.yaml");
    match file.metadata() {
        // A directory or a pipe is reported as a broken app.
        Ok(_) => true,
        // A link to a missing file, or a folder without permission.
        Err(error) => error.kind() == io::ErrorKind::PermissionDenied || file.is_symlink(),
    }
}

/// Whether the directory has an app of that name. Unlike [`apps`], its cost does not depend on the number of apps.
fn has_app(dir: &Path, name: &str) -> bool {
    let mut parts = Path::new(name).components();
    let is_folder =
        matches!((parts.next(), parts.next()), (Some(Component::Normal(part)), None) if part == name);
    is_folder && is_app(&dir.join(name))
}

/// The name of the app to load; `None` for the built-in one.
fn select_app(dir: &Path, wanted: Option<&str>) -> Result<Option<String>, ConfigError> {
    match wanted {
        Some(wanted) if has_app(dir, wanted) => Ok(Some(wanted.to_owned())),
        Some(super::BUILT_IN_APP) => Ok(None),
        Some(wanted) => match misnamed(dir).into_iter().find(|file| is_in_folder(file, wanted)) {
            Some(path) => Err(ConfigError::MisnamedAgent { path }),
            None => Err(unknown_app(wanted, dir, &apps(dir))),
        },
        None => match apps(dir).as_slice() {
            // The built-in agent would answer instead of the one that the person wrote.
            [] => match misnamed(dir).into_iter().next() {
                Some(path) => Err(ConfigError::MisnamedAgent { path }),
                None => Ok(None),
            },
            [only] => Ok(Some(only.clone())),
            several => {
                let known = several.join(", ");
                Err(ConfigError::WhichApp { dir: dir.to_path_buf(), known })
            }
        },
    }
}

fn is_in_folder(file: &Path, name: &str) -> bool {
    file.parent().and_then(Path::file_name).is_some_and(|folder| folder == name)
}

fn unknown_app(name: &str, dir: &Path, known: &[String]) -> ConfigError {
    let known = if known.is_empty() { super::BUILT_IN_APP.to_owned() } else { known.join(", ") };
    ConfigError::UnknownApp { name: name.to_owned(), dir: dir.to_path_buf(), known }
}

/// An agent without sub-agents.
#[cfg(test)]
pub(crate) fn parse_agent(yaml: &str) -> AgentConfig {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("root_agent.yaml");
    std::fs::write(&path, yaml).unwrap();
    read_tree(&path).unwrap()
}

fn parse(path: &Path) -> Result<RawAgent, ConfigError> {
    let invalid = |message: String| ConfigError::Value { path: path.to_path_buf(), message };
    let text =
        read_regular_file(path).map_err(|source| ConfigError::Read { path: path.to_path_buf(), source })?;
    if text.trim().is_empty() {
        return Err(invalid("it is empty; an agent needs at least a `name`".to_owned()));
    }
    let raw: RawAgent = yaml::parse(path, &text)?;
    refuse_python(&raw, path)?;
    match raw.agent_class.as_deref().filter(|class| *class != "LlmAgent") {
        Some(class) => {
            Err(invalid(format!("agent_class {class} is not supported; the only one is LlmAgent")))
        }
        None => Ok(raw),
    }
}

fn sub_agents(
    of: &Path,
    raw: &[RawSubAgent],
    (depth, left): (usize, &mut usize),
) -> Result<Vec<AgentConfig>, ConfigError> {
    let invalid = |message: &str| ConfigError::Value { path: of.to_path_buf(), message: message.to_owned() };
    if depth > MAX_DEPTH {
        return Err(invalid("its sub_agents form a cycle"));
    }
    let mut read_one = |sub: &RawSubAgent| {
        let relative =
            sub.config_path.as_ref().ok_or_else(|| invalid("a sub-agent needs a `config_path`"))?;
        let path = of.parent().unwrap_or(Path::new("")).join(relative);
        if !path.exists() {
            return Err(ConfigError::Missing { path, named_by: of.display().to_string() });
        }
        read(&path, (depth, &mut *left))
    };
    raw.iter().map(&mut read_one).collect()
}

/// Reads an agent with its sub-agents.
fn read_tree(path: &Path) -> Result<AgentConfig, ConfigError> {
    let mut left = MAX_AGENTS;
    read(path, (0, &mut left))
}

fn read(path: &Path, (depth, left): (usize, &mut usize)) -> Result<AgentConfig, ConfigError> {
    *left = left.checked_sub(1).ok_or_else(|| ConfigError::Value {
        path: path.to_path_buf(),
        message: format!("the app has more than {MAX_AGENTS} agents"),
    })?;
    let raw = parse(path)?;
    refuse_reserved_key(&raw, path)?;
    let sub_agents = sub_agents(path, &raw.sub_agents, (depth + 1, left))?;
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

/// Refuses an `output_key` that only the program may write.
fn refuse_reserved_key(raw: &RawAgent, path: &Path) -> Result<(), ConfigError> {
    match raw.output_key.as_deref().filter(|key| is_reserved(key)) {
        Some(key) => Err(ConfigError::Value {
            path: path.to_path_buf(),
            message: format!("output_key: {key} is a reserved key; choose another name"),
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

/// The error of a script file as a configuration error with its location.
pub(crate) fn in_script(path: &Path, error: provider::Error) -> anyhow::Error {
    let provider::Error::Script { message, .. } = &error else { return error.into() };
    if let Ok(text) = read_regular_file(path)
        && let Some(error) = yaml::syntax_error(path, &text)
    {
        return error.into();
    }
    let location =
        message.rsplit_once(" at line ").and_then(|(_, location)| location.split_once(", column "));
    let (Some(line), Some(column)) = (
        location.and_then(|(line, _)| line.parse().ok()),
        location.and_then(|(_, column)| column.parse().ok()),
    ) else {
        return error.into();
    };
    let message = plain_message(without_location(message));
    ConfigError::Syntax { path: path.to_path_buf(), line, column, message }.into()
}

/// Removes the location that the parser puts before or after its message. [`ConfigError::Syntax`] prints it.
fn without_location(message: &str) -> &str {
    let message = message.strip_prefix("error: ").unwrap_or(message);
    let after = message.strip_prefix("line ").and_then(|rest| rest.split_once(": "));
    let message = after.map_or(message, |(_, rest)| rest);
    message.rsplit_once(" at line ").map_or(message, |(before, _)| before)
}
