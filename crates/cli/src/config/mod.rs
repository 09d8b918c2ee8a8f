//! The configuration, read once: what the file and the environment say becomes what is meant.

mod agents;
mod env;
mod error;
mod file;
mod server;

pub(crate) use agents::{AgentConfig, apps, in_script, load_app};
pub(crate) use env::Env;
pub(crate) use error::ConfigError;
pub(crate) use server::ServerSettings;

use crate::args::Place;
use bridge::budget::{Budget, BudgetError};
use file::File;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};
use tools::stub::StubConfig;

/// The name of the app that is there without any configuration.
pub(crate) const BUILT_IN_APP: &str = "lango";

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The data directory.
    pub(crate) home: PathBuf,
    /// Where sessions are kept.
    pub(crate) database: PathBuf,
    /// What file tools may see.
    pub(crate) workdir: PathBuf,
    pub(crate) agents_dir: PathBuf,
    pub(crate) app: Option<String>,
    pub(crate) user: String,
    pub(crate) model: Option<ModelName>,
    pub(crate) budget: Budget,
    pub(crate) stubs: Vec<StubConfig>,
    /// Whether colours are wanted at all.
    pub(crate) color: bool,
    pub(crate) server: ServerSettings,
    /// Where the lines that were typed are remembered.
    pub(crate) history_file: PathBuf,
}

/// A model, and the folder that a file in its name is relative to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModelName {
    pub(crate) name: String,
    pub(crate) base: PathBuf,
    /// Where it was said: a file, a variable, an option.
    pub(crate) said: String,
}

/// Paths stay as people wrote them, so that errors name them so: in a file they are relative to it, in the environment to
/// the working directory.
pub(crate) fn load(place: &Place, env: &Env) -> Result<Settings, ConfigError> {
    let workdir = std::env::current_dir().map_err(ConfigError::WorkingDirectory)?;
    let home = env.home()?;
    let (path, file) = find_file(place, &home)?;
    let base = path.as_deref().and_then(Path::parent).map(Path::to_path_buf).unwrap_or_default();
    let said = path.unwrap_or_else(|| PathBuf::from("lango.toml"));
    let budget = budget(&said, &file, env)?;
    let written =
        file.model.map(|name| ModelName { name, base: base.clone(), said: said.display().to_string() });
    Ok(Settings {
        database: env
            .path("LANGO_DATABASE")
            .or(file.database.map(|path| base.join(path)))
            .unwrap_or_else(|| home.join("lango.db")),
        agents_dir: env
            .path("LANGO_AGENTS_DIR")
            .unwrap_or_else(|| base.join(file.agents_dir.unwrap_or_else(|| PathBuf::from("agents")))),
        app: env.text("LANGO_APP")?.or(file.app),
        user: env.text("LANGO_USER")?.or(file.user).unwrap_or_else(|| "user".to_owned()),
        model: env.model()?.or(written),
        budget,
        stubs: named(file.stubs),
        color: env.wants_color(),
        server: file.server.meant(&said, &base)?,
        history_file: home.join("history"),
        home,
        workdir,
    })
}

fn named(stubs: BTreeMap<String, file::Stub>) -> Vec<StubConfig> {
    stubs.into_iter().map(|(name, stub)| stub.into_config(name)).collect()
}

/// Blames the variable if it is the one that counts, and else the file.
fn budget(path: &Path, file: &File, env: &Env) -> Result<Budget, ConfigError> {
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
fn find_file(place: &Place, home: &Path) -> Result<(Option<PathBuf>, File), ConfigError> {
    if let Some(path) = &place.config {
        if !path.exists() {
            return Err(ConfigError::Missing { path: path.clone(), named_by: "--config".to_owned() });
        }
        return Ok((Some(path.clone()), File::read(path)?));
    }
    let usual = [PathBuf::from("lango.toml"), home.join("lango.toml")];
    match usual.into_iter().find(|path| path.exists()) {
        Some(path) => {
            let file = File::read(&path)?;
            Ok((Some(path), file))
        }
        None => Ok((None, File::default())),
    }
}
