//! The configuration, read once: the file and the environment are resolved to settings.

mod agents;
mod database;
mod env;
mod error;
mod file;
mod known;
mod mcp;
mod models;
mod parser_message;
mod providers;
mod regular_file;
mod server;
mod source;
mod telemetry;
mod template;
mod tools;
mod yaml_letters;

#[cfg(test)]
pub(crate) use agents::parse_agent;
pub(crate) use agents::{AgentConfig, AgentsDir, in_script};
pub(crate) use database::Database;
pub(crate) use env::Env;
pub(crate) use error::ConfigError;
pub(crate) use known::known_endpoint;
pub(crate) use mcp::McpSettings;
pub(crate) use models::{Models, Prices};
pub(crate) use providers::{ApiName, Key, ProviderConfig, Providers, loopback_port};
pub(crate) use server::ServerSettings;
use source::SettingsOrigin;
pub(crate) use template::Filled;
pub(crate) use tools::{RootSettings, ToolSettings};

use crate::{
    args::LocationArgs,
    trust::{FolderStatus, TrustPrompt, TrustRequest},
};
use ::server::auth::TokenSecret;
use ::telemetry::Collector;
use ::tools::{command::CommandConfig, stub::StubConfig};
use adk::model::GenerateContentConfig;
use bridge::{
    model::Retries,
    view::budget::{Budget, BudgetError, DEFAULT_RETAINED},
};
use file::ConfigFile;
use source::{SearchPlaces, SettingsSources};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

/// The name of the built-in app.
pub(crate) const BUILT_IN_APP: &str = "lango";

/// The default time limit of a command tool.
const COMMAND_TIME: Duration = Duration::from_mins(1);

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The configuration file, if there is one.
    pub(crate) file: Option<PathBuf>,
    /// The data directory.
    pub(crate) home: PathBuf,
    /// Where sessions are stored.
    pub(crate) database: Database,
    pub(crate) agents_dir: AgentsDir,
    /// Whether the settings of the working directory apply.
    pub(crate) folder: FolderStatus,
    pub(crate) app: Option<String>,
    pub(crate) user: String,
    pub(crate) model: Option<ModelName>,
    /// The fallback models, in order.
    pub(crate) fallback: Vec<ModelName>,
    pub(crate) providers: Providers,
    pub(crate) models: Models,
    /// The limit of model calls of a run; 0 for no limit.
    pub(crate) model_calls: Option<u32>,
    pub(crate) limits: Limits,
    pub(crate) retries: Retries,
    /// Whether to discover a model server on this machine if no model is configured.
    pub(crate) discover: bool,
    /// The default generation settings of agents.
    pub(crate) generate: GenerateContentConfig,
    pub(crate) budget: Budget,
    pub(crate) stubs: Vec<StubConfig>,
    pub(crate) tools: ToolSettings,
    pub(crate) mcp: McpSettings,
    /// Commands as tools.
    pub(crate) commands: Vec<CommandConfig>,
    /// Whether the environment allows colors.
    pub(crate) color: bool,
    pub(crate) server: ServerSettings,
    /// The token for `lango chat --server`.
    pub(crate) server_token: Option<TokenSecret>,
    /// The collector of traces.
    pub(crate) telemetry: Option<Collector>,
    /// The file of the input history.
    pub(crate) history_file: PathBuf,
}

/// The limits of a run, beside model calls.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Limits {
    pub(crate) tool_calls: Option<u32>,
    pub(crate) time: Option<Duration>,
    pub(crate) tokens: Option<u64>,
    /// In the currency of the prices.
    pub(crate) cost: Option<f64>,
}

/// A model, and the folder that a file in its name is relative to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModelName {
    pub(crate) name: String,
    pub(crate) base: PathBuf,
    /// Where it was configured: a file, a variable, an option.
    pub(crate) source: String,
}

impl ModelName {
    /// The demo model, which is always available.
    pub(crate) fn demo() -> Self {
        Self { name: "demo".to_owned(), base: PathBuf::new(), source: String::new() }
    }
}

/// Loads the settings. Relative paths are not made absolute, so that errors show them as they were written: in the file they
/// are relative to it, in the environment to the working directory.
pub(crate) fn load(location: &LocationArgs, env: &Env, prompt: TrustPrompt) -> Result<Settings, ConfigError> {
    let workdir = std::env::current_dir().map_err(ConfigError::WorkingDirectory)?;
    let home = env.home()?;
    let places = SearchPlaces { location, env, workdir: &workdir, prefix: Path::new(""), home: &home };
    let found = places.find(prompt)?;
    resolve(found, env, (&workdir, &home))
}

/// The permissions that the settings of a folder need; `None` if it has no settings that need trust.
pub(crate) fn trust_request(folder: &Path, env: &Env) -> Result<Option<TrustRequest>, ConfigError> {
    let (location, home) = (&LocationArgs::default(), &env.home()?);
    SearchPlaces { location, env: &Env::default(), workdir: folder, prefix: folder, home }.trust_request()
}

fn resolve(
    found: SettingsSources,
    env: &Env,
    (workdir, home): (&Path, &Path),
) -> Result<Settings, ConfigError> {
    let SettingsSources { path, file, origin, project, agents, status } = found;
    let base = path.as_deref().and_then(Path::parent).map(Path::to_path_buf).unwrap_or_default();
    let source = path.clone().unwrap_or_else(|| PathBuf::from("lango.toml"));
    let budget = budget(&source, &file, env)?;
    let from_file = |name| ModelName { name, base: base.clone(), source: source.display().to_string() };
    let providers = Providers::new(file.providers, &source, env)?;
    let sources = mcp::Sources { workdir, base: &base, env, origin };
    let (mcp, mut secrets) = McpSettings::new(file.mcp, project, sources);
    secrets.extend(providers.secrets());
    let database = Database::resolve(file.database.as_deref(), env, (&base, home, &source))?;
    secrets.extend(database.secrets());
    let telemetry = file.telemetry.resolve(&source, env)?;
    let headers = telemetry.iter().flat_map(|collector| &collector.headers);
    secrets.extend(headers.map(|(_, value)| value.reveal().to_owned()));
    let commands = own_commands(file.commands, &source, sources, &mut secrets)?;
    let tools = file.tools.resolve(file.approval, (workdir, home, &source), (env, secrets))?;
    Ok(Settings {
        file: path,
        database,
        agents_dir: agents,
        folder: status,
        app: env.text("LANGO_APP")?.or(file.app),
        user: env.text("LANGO_USER")?.or(file.user).unwrap_or_else(|| "user".to_owned()),
        model: env.model()?.or(file.model.map(from_file)),
        fallback: env.fallback()?.unwrap_or_else(|| file.fallback.into_iter().map(from_file).collect()),
        models: Models::new(file.models, &providers),
        retries: file.retry.retries(env)?,
        model_calls: env.number("LANGO_LIMITS_MODEL_CALLS")?.or(file.limits.model_calls),
        limits: Limits {
            tool_calls: env.number("LANGO_LIMITS_TOOL_CALLS")?.or(file.limits.tool_calls),
            time: file.limits.time.map(models::Seconds::time),
            tokens: env.number("LANGO_LIMITS_TOKENS")?.or(file.limits.tokens),
            cost: env.number("LANGO_LIMITS_COST")?.or(file.limits.cost),
        },
        discover: env.flag("LANGO_DISCOVER")?.or(file.discover).unwrap_or(true),
        generate: file.generate,
        providers,
        budget,
        stubs: named(file.stubs),
        color: env.wants_color(),
        server: file.server.resolve(&source, &base)?,
        server_token: env.secret("LANGO_SERVER_TOKEN")?.map(|token| TokenSecret::from_text(token.trim())),
        telemetry,
        history_file: home.join("history"),
        home: home.to_path_buf(),
        tools,
        mcp,
        commands,
    })
}

fn named(stubs: BTreeMap<String, file::StubEntry>) -> Vec<StubConfig> {
    stubs.into_iter().map(|(name, stub)| stub.into_config(name)).collect()
}

fn own_commands(
    written: BTreeMap<String, mcp::CommandSection>,
    path: &Path,
    sources: mcp::Sources<'_>,
    secrets: &mut Vec<String>,
) -> Result<Vec<CommandConfig>, ConfigError> {
    let mut all = Vec::new();
    for (name, command) in written {
        let (config, more) = command.resolve((name, path), COMMAND_TIME, sources)?;
        all.push(config);
        secrets.extend(more);
    }
    Ok(all)
}

/// An error names the variable if the value is from the environment, and else the file.
fn budget(path: &Path, file: &ConfigFile, env: &Env) -> Result<Budget, ConfigError> {
    let (tokens, messages) = ("LANGO_MAX_MESSAGE_TOKEN_BUDGET", "LANGO_HISTORY_MAX_MESSAGES");
    let retain = "LANGO_HISTORY_RETAIN";
    let (from_env, cap_from_env) = (env.number(tokens)?, env.number(messages)?);
    let retain_from_env = env.number(retain)?;
    let percent = retain_from_env.or(file.history.retain).unwrap_or(DEFAULT_RETAINED);
    let budget = Budget::new(
        from_env.unwrap_or(file.max_message_token_budget),
        cap_from_env.or(file.history.max_messages),
    );
    budget.and_then(|budget| budget.with_retained(percent)).map_err(|error| {
        let variable = match error {
            BudgetError::TooSmall(_) => from_env.map(|_| tokens),
            BudgetError::NoMessages => cap_from_env.map(|_| messages),
            BudgetError::Retained(_) => retain_from_env.map(|_| retain),
        };
        let path = variable.map_or_else(|| path.to_path_buf(), PathBuf::from);
        ConfigError::Value { path, message: error.to_string() }
    })
}
