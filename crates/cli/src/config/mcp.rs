//! `[mcp.<name>]` in `lango.toml`, the `.mcp.json` of a project, and `[commands.<name>]`: MCP servers and commands as tools.

mod project;

pub(super) use project::ProjectSource;

use super::{ConfigError, Env, Filled, SettingsOrigin, models::Seconds, template};
use ::tools::{
    Effect, Safety, Spec,
    command::CommandConfig,
    mcp::{McpServerConfig, McpServers, McpToolConfig, McpTransport, ParkedCalls},
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::Duration,
};

/// The project file with MCP servers.
pub(super) const PROJECT_FILE: &str = ".mcp.json";

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(super) struct McpServerSection {
    /// Program to start; it speaks MCP on standard input and output. Either this or `url`.
    command: Option<String>,
    /// Arguments of the program. Like `command`, `env`, `url` and `headers`, they may contain `${NAME}`.
    args: Vec<String>,
    /// Environment variables of the program, beside a clean environment.
    env: BTreeMap<String, String>,
    /// Working directory of the program, relative to this file.
    ///
    /// Default: the working directory of lango
    cwd: Option<PathBuf>,
    /// Address of a server that speaks streamable HTTP. Either this or `command`.
    url: Option<String>,
    /// Headers of each request.
    headers: BTreeMap<String, String>,
    /// Whether the server's hints about its tools count, and its results are not treated as text of strangers.
    trusted: bool,
    /// Whether the server is used.
    ///
    /// Default: `true`
    enabled: Option<bool>,
    /// Time to start and to list the tools.
    ///
    /// Default: `30`
    #[serde(rename = "startTimeoutS", alias = "start_timeout_s")]
    start_timeout: Option<Seconds>,
    /// Time limit of a call, counted from its start or its last progress.
    ///
    /// Default: `120`
    #[serde(rename = "timeoutS", alias = "timeout_s")]
    timeout: Option<Seconds>,
    /// How long a call waits for your answer to a question of the server.
    ///
    /// Default: `3600`
    #[serde(rename = "answerTimeoutS", alias = "answer_timeout_s")]
    answer_timeout: Option<Seconds>,
    /// Whether the program runs in the sandbox for approved commands (`"workspace"`), or as your account (`"off"`).
    ///
    /// Default: `"workspace"` if the settings came with the folder, else `"off"`
    sandbox: Option<ProgramSandbox>,
    /// Settings of single tools, by the server's own names.
    ///
    /// Name: `<tool>`
    tools: BTreeMap<String, ServerTool>,
}

/// The transport of a server: a program or a URL.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TransportConfig {
    command: Option<String>,
    args: Vec<String>,
    env: BTreeMap<String, String>,
    cwd: Option<PathBuf>,
    url: Option<String>,
    headers: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ServerTool {
    /// What the tool can touch.
    ///
    /// Default: by the hints of a trusted server, else `"execute"`, or `"network"` for a server with a `url`
    safety: Option<Safety>,
    /// What a second execution of the same call would do.
    ///
    /// Default: by the hints of a trusted server, else `"once"`
    effect: Option<Effect>,
    /// Whether agents get the tool.
    ///
    /// Default: `true`
    enabled: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct CommandSection {
    /// The description that the model sees.
    description: String,
    /// Program and arguments. No shell is involved.
    #[serde(rename = "command")]
    argv: Vec<String>,
    /// JSON Schema of the arguments.
    ///
    /// Default: an object without properties
    #[serde(default = "no_parameters")]
    parameters: Value,
    /// Working directory of the command, relative to this file.
    ///
    /// Default: the working directory of lango
    cwd: Option<PathBuf>,
    /// Environment variables, beside a clean environment. Values may contain `${NAME}`.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Time limit.
    ///
    /// Default: `60`
    #[serde(rename = "timeoutS", alias = "timeout_s")]
    timeout: Option<Seconds>,
    /// What the command can touch, which decides whether it asks.
    ///
    /// Default: `"execute"`
    safety: Option<Safety>,
    /// What a second execution of the same call would do, which decides about recovery after a crash.
    ///
    /// Default: `"once"`
    effect: Option<Effect>,
    /// Marks the results as text of strangers: afterwards, calls that act ask again.
    #[serde(default)]
    untrusted: bool,
    /// Whether the program runs in the sandbox for approved commands (`"workspace"`), or as your account (`"off"`).
    ///
    /// Default: `"workspace"` if the settings came with the folder, else `"off"`
    sandbox: Option<ProgramSandbox>,
}

/// The sandbox of a configured program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ProgramSandbox {
    Off,
    Workspace,
}

/// Whether a program is confined. Trust in a folder is trust in what its settings list, not in what its programs do.
fn is_sandboxed(written: Option<ProgramSandbox>, origin: SettingsOrigin) -> bool {
    match written {
        Some(ProgramSandbox::Workspace) => true,
        Some(ProgramSandbox::Off) => false,
        None => origin == SettingsOrigin::Folder,
    }
}

fn no_parameters() -> Value {
    json!({"type": "object", "properties": {}})
}

/// The resolved MCP settings.
#[derive(Clone, Debug)]
pub(crate) struct McpSettings {
    /// The servers of the configuration file.
    servers: Vec<McpServerConfig>,
    /// The servers of the working directory's project file.
    project: Vec<McpServerConfig>,
    /// The running servers, shared by all apps.
    pub(crate) running: Arc<OnceLock<Arc<McpServers>>>,
    /// The calls of the servers that wait for answers of users.
    pub(crate) parked: ParkedCalls,
}

/// The directories and variables that settings are resolved with.
#[derive(Clone, Copy)]
pub(super) struct Sources<'a> {
    pub(super) workdir: &'a Path,
    pub(super) base: &'a Path,
    pub(super) env: &'a Env,
    /// The origin of the configuration file.
    pub(super) origin: SettingsOrigin,
}

impl McpSettings {
    pub(super) fn new(
        written: BTreeMap<String, McpServerSection>,
        project: Option<ProjectSource>,
        sources: Sources<'_>,
    ) -> (Self, Vec<String>) {
        let mut secrets = Vec::new();
        let mut servers = Vec::new();
        for (name, server) in written {
            let enabled = server.enabled != Some(false);
            let (config, more) = server.resolve(&name, sources);
            secrets.extend(more);
            servers.extend(enabled.then_some(config));
        }
        let (mut project, more) = project.map(|project| project.resolve(sources)).unwrap_or_default();
        secrets.extend(more);
        project.retain(|server| !servers.iter().any(|known| known.name == server.name));
        (Self { servers, project, running: Arc::default(), parked: ParkedCalls::default() }, secrets)
    }

    /// All servers.
    pub(crate) fn all(&self) -> impl Iterator<Item = &McpServerConfig> {
        self.servers.iter().chain(&self.project)
    }
}

impl McpServerSection {
    fn resolve(self, name: &str, sources: Sources<'_>) -> (McpServerConfig, Vec<String>) {
        let Self { command, args, env, cwd, url, headers, .. } = self;
        let transport = TransportConfig { command, args, env, cwd, url, headers };
        let default = McpServerConfig::new(name, transport.resolve(None, sources.base, sources));
        let tools = self.tools.into_iter().map(|(name, tool)| {
            let enabled = tool.enabled.unwrap_or(true);
            (name, McpToolConfig { safety: tool.safety, effect: tool.effect, enabled })
        });
        let config = McpServerConfig {
            trusted: self.trusted,
            start_time: self.start_timeout.map_or(default.start_time, Seconds::time),
            call_time: self.timeout.map_or(default.call_time, Seconds::time),
            answer_time: self.answer_timeout.map_or(default.answer_time, Seconds::time),
            tools: tools.collect(),
            sandboxed: is_sandboxed(self.sandbox, sources.origin),
            ..default
        };
        (config, transport.secrets(sources.env))
    }
}

impl TransportConfig {
    fn resolve(&self, kind: Option<&str>, base: &Path, sources: Sources<'_>) -> McpTransport {
        self.try_resolve(kind, base, sources).unwrap_or_else(McpTransport::Unavailable)
    }

    fn try_resolve(
        &self,
        kind: Option<&str>,
        base: &Path,
        sources: Sources<'_>,
    ) -> Result<McpTransport, String> {
        let fill = |text: &String| {
            let filled = Filled::new(text, sources.env);
            filled.get().map(str::to_owned).map_err(|variable| {
                format!("it needs the variable {variable}, which is not set: set it where lango is started")
            })
        };
        let pairs = |all: &BTreeMap<String, String>| {
            all.iter().map(|(name, value)| Ok((name.clone(), fill(value)?))).collect::<Result<_, String>>()
        };
        if kind == Some("sse") {
            return Err(
                "it uses HTTP+SSE, which MCP has deprecated; use its streamable HTTP address".to_owned()
            );
        }
        match (&self.command, &self.url) {
            (Some(command), None) => Ok(McpTransport::Stdio {
                command: fill(command)?,
                args: self.args.iter().map(fill).collect::<Result<_, _>>()?,
                env: pairs(&self.env)?,
                cwd: self.cwd.as_ref().map_or_else(|| sources.workdir.to_owned(), |cwd| base.join(cwd)),
            }),
            (None, Some(url)) => Ok(McpTransport::Http { url: fill(url)?, headers: pairs(&self.headers)? }),
            (Some(_), Some(_)) => Err("it has both `command` and `url`; leave one of them out".to_owned()),
            (None, None) => Err("it has neither `command` nor `url`; write one of them".to_owned()),
        }
    }

    fn secrets(&self, env: &Env) -> Vec<String> {
        let texts = self.args.iter().chain(self.env.values()).chain(&self.url).chain(self.headers.values());
        texts.flat_map(|text| template::secrets(text, env)).collect()
    }
}

impl CommandSection {
    /// Defaults to the most restrictive classes: safety `execute`, effect `once`.
    pub(super) fn resolve(
        self,
        (name, path): (String, &Path),
        default_time: Duration,
        sources: Sources<'_>,
    ) -> Result<(CommandConfig, Vec<String>), ConfigError> {
        let invalid = |message: String| ConfigError::Value { path: path.to_owned(), message };
        if self.argv.is_empty() {
            return Err(invalid(format!(
                "[commands.{name}]: `command` is empty; write the program and its arguments"
            )));
        }
        let secrets = self.env.values().flat_map(|text| template::secrets(text, sources.env)).collect();
        let fill = |(variable, text): (&String, &String)| match Filled::new(text, sources.env).get() {
            Ok(value) => Ok((variable.clone(), value.to_owned())),
            Err(missing) => {
                Err(invalid(format!("[commands.{name}] needs the variable {missing}, which is not set")))
            }
        };
        let env = self.env.iter().map(fill).collect::<Result<_, _>>()?;
        let safety = self.safety.unwrap_or(Safety::Execute);
        let effect = self.effect.unwrap_or(Effect::Once);
        let mut spec = Spec::new(&name, &self.description, self.parameters, safety, effect);
        spec.untrusted = self.untrusted;
        let config = CommandConfig {
            spec,
            argv: self.argv,
            cwd: self.cwd.map_or_else(|| sources.workdir.to_owned(), |cwd| sources.base.join(cwd)),
            env,
            time: self.timeout.map_or(default_time, Seconds::time),
            sandboxed: is_sandboxed(self.sandbox, sources.origin),
        };
        Ok((config, secrets))
    }
}

#[cfg(test)]
mod tests;
