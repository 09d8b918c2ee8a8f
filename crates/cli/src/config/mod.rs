//! The configuration, read once: what the file and the environment say becomes what is meant.

mod agents;
mod env;
mod error;
mod file;
mod known;
mod mcp;
mod models;
mod providers;
mod server;
mod telemetry;
mod template;
mod tools;

pub(crate) use agents::{AgentConfig, apps, in_script, load_app};
pub(crate) use env::Env;
pub(crate) use error::ConfigError;
pub(crate) use mcp::McpSettings;
pub(crate) use models::{Models, Prices};
pub(crate) use providers::{ApiName, Key, ProviderConfig, Providers, loopback_port};
pub(crate) use server::ServerSettings;
pub(crate) use template::Filled;
pub(crate) use tools::{RootSettings, ToolSettings};

use crate::args::LocationArgs;
use ::server::auth::TokenSecret;
use ::telemetry::Collector;
use ::tools::{command::CommandConfig, stub::StubConfig};
use adk::model::GenerateContentConfig;
use bridge::{
    model::Retries,
    view::budget::{Budget, BudgetError},
};
use file::ConfigFile;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

/// The name of the app that is there without any configuration.
pub(crate) const BUILT_IN_APP: &str = "lango";

/// What a command that is a tool may take if nobody says.
const COMMAND_TIME: Duration = Duration::from_mins(1);

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The file that was read, if there is one.
    pub(crate) file: Option<PathBuf>,
    /// The data directory.
    pub(crate) home: PathBuf,
    /// Where sessions are kept.
    pub(crate) database: PathBuf,
    pub(crate) agents_dir: PathBuf,
    pub(crate) app: Option<String>,
    pub(crate) user: String,
    pub(crate) model: Option<ModelName>,
    /// Who is asked if a model cannot answer, in this order.
    pub(crate) fallback: Vec<ModelName>,
    pub(crate) providers: Providers,
    pub(crate) models: Models,
    /// How often a run may ask models; 0 for as often as it likes.
    pub(crate) model_calls: Option<u32>,
    pub(crate) limits: Limits,
    pub(crate) retries: Retries,
    /// Whether a model server on this machine is looked for, if no model is chosen.
    pub(crate) discover: bool,
    /// Settings of all agents that say nothing else.
    pub(crate) generate: GenerateContentConfig,
    pub(crate) budget: Budget,
    pub(crate) stubs: Vec<StubConfig>,
    pub(crate) tools: ToolSettings,
    pub(crate) mcp: McpSettings,
    /// Commands that are tools.
    pub(crate) commands: Vec<CommandConfig>,
    /// Whether colours are wanted at all.
    pub(crate) color: bool,
    pub(crate) server: ServerSettings,
    /// What another's server is shown.
    pub(crate) server_token: Option<TokenSecret>,
    /// Where traces are sent.
    pub(crate) telemetry: Option<Collector>,
    /// Where the lines that were typed are remembered.
    pub(crate) history_file: PathBuf,
}

/// What a run may use, beside model calls.
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
    /// Where it was said: a file, a variable, an option.
    pub(crate) said: String,
}

impl ModelName {
    /// The one that is always there.
    pub(crate) fn demo() -> Self {
        Self { name: "demo".to_owned(), base: PathBuf::new(), said: String::new() }
    }
}

/// Paths stay as people wrote them, so that errors name them so: in a file they are relative to it, in the environment to
/// the working directory.
pub(crate) fn load(place: &LocationArgs, env: &Env) -> Result<Settings, ConfigError> {
    let workdir = std::env::current_dir().map_err(ConfigError::WorkingDirectory)?;
    let home = env.home()?;
    let (path, file) = find_file(place, &home)?;
    let base = path.as_deref().and_then(Path::parent).map(Path::to_path_buf).unwrap_or_default();
    let said = path.clone().unwrap_or_else(|| PathBuf::from("lango.toml"));
    let budget = budget(&said, &file, env)?;
    let meant = |name| ModelName { name, base: base.clone(), said: said.display().to_string() };
    let providers = Providers::new(file.providers, &said, env)?;
    let sources = mcp::Sources { workdir: &workdir, base: &base, env };
    let (mcp, mut secrets) = McpSettings::new(file.mcp, file.mcp_json, sources);
    secrets.extend(providers.secrets());
    let telemetry = file.telemetry.meant(&said, env)?;
    let headers = telemetry.iter().flat_map(|collector| &collector.headers);
    secrets.extend(headers.map(|(_, value)| value.reveal().to_owned()));
    let commands = own_commands(file.commands, &said, sources, &mut secrets)?;
    let tools = file.tools.meant(file.approval, (&workdir, &home, &said), (env, secrets))?;
    Ok(Settings {
        file: path,
        database: env
            .path("LANGO_DATABASE")
            .or(file.database.map(|path| base.join(path)))
            .unwrap_or_else(|| home.join("lango.db")),
        agents_dir: env
            .path("LANGO_AGENTS_DIR")
            .unwrap_or_else(|| base.join(file.agents_dir.unwrap_or_else(|| PathBuf::from("agents")))),
        app: env.text("LANGO_APP")?.or(file.app),
        user: env.text("LANGO_USER")?.or(file.user).unwrap_or_else(|| "user".to_owned()),
        model: env.model()?.or(file.model.map(meant)),
        fallback: env.fallback()?.unwrap_or_else(|| file.fallback.into_iter().map(meant).collect()),
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
        server: file.server.meant(&said, &base)?,
        server_token: env.secret("LANGO_SERVER_TOKEN")?.map(|token| TokenSecret::from_text(token.trim())),
        telemetry,
        history_file: home.join("history"),
        home,
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
        let (config, more) = command.meant((name, path), COMMAND_TIME, sources)?;
        all.push(config);
        secrets.extend(more);
    }
    Ok(all)
}

/// Blames the variable if it is the one that counts, and else the file.
fn budget(path: &Path, file: &ConfigFile, env: &Env) -> Result<Budget, ConfigError> {
    let (tokens, messages) = ("LANGO_MAX_MESSAGE_TOKEN_BUDGET", "LANGO_HISTORY_MAX_MESSAGES");
    let (from_env, cap_from_env) = (env.number(tokens)?, env.number(messages)?);
    let made = Budget::new(
        from_env.unwrap_or(file.max_message_token_budget),
        cap_from_env.or(file.history.max_messages),
    );
    made.map_err(|error| {
        let variable = match error {
            BudgetError::TooSmall(_) => from_env.map(|_| tokens),
            BudgetError::NoMessages => cap_from_env.map(|_| messages),
        };
        let path = variable.map_or_else(|| path.to_path_buf(), PathBuf::from);
        ConfigError::Value { path, message: error.to_string() }
    })
}

/// The file that was named, or the first of the usual ones that exists, or none.
fn find_file(place: &LocationArgs, home: &Path) -> Result<(Option<PathBuf>, ConfigFile), ConfigError> {
    if let Some(path) = &place.config {
        if !path.exists() {
            return Err(ConfigError::Missing { path: path.clone(), named_by: "--config".to_owned() });
        }
        return Ok((Some(path.clone()), ConfigFile::read(path)?));
    }
    let usual = [PathBuf::from("lango.toml"), home.join("lango.toml")];
    match usual.into_iter().find(|path| path.exists()) {
        Some(path) => {
            let file = ConfigFile::read(&path)?;
            Ok((Some(path), file))
        }
        None => Ok((None, ConfigFile::default())),
    }
}
