//! The configuration, read once: what the file and the environment say becomes what is meant.

mod agents;
mod env;
mod error;
mod file;

pub(crate) use agents::{AgentConfig, load_app};
pub(crate) use env::Env;
pub(crate) use error::ConfigError;

use crate::args::Place;
use bridge::Budget;
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
    /// Where the lines that were typed are remembered.
    pub(crate) history_file: PathBuf,
}

/// A model, and the folder that a file in its name is relative to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModelName {
    pub(crate) name: String,
    pub(crate) base: PathBuf,
}

pub(crate) fn load(place: &Place, env: &Env) -> Result<Settings, ConfigError> {
    let workdir = std::env::current_dir().map_err(ConfigError::WorkingDirectory)?;
    let home = env.home()?;
    let (path, file) = find_file(place, &workdir, &home)?;
    let base = path.as_deref().and_then(Path::parent).map_or_else(|| workdir.clone(), Path::to_path_buf);
    let file = env.over(file)?;
    let at = path.clone().unwrap_or_else(|| PathBuf::from("the environment"));
    let budget = Budget::new(file.max_message_token_budget, file.history.max_messages)
        .map_err(|error| ConfigError::Value { path: at, message: error.to_string() })?;
    Ok(Settings {
        database: file.database.map_or_else(|| home.join("lango.db"), |path| base.join(path)),
        agents_dir: base.join(file.agents_dir.unwrap_or_else(|| PathBuf::from("agents"))),
        app: file.app,
        user: file.user.unwrap_or_else(|| "user".to_owned()),
        model: file.model.map(|name| ModelName { name, base }),
        budget,
        stubs: named(file.stubs),
        color: env.wants_color(),
        history_file: home.join("history"),
        workdir,
    })
}

fn named(stubs: BTreeMap<String, file::Stub>) -> Vec<StubConfig> {
    stubs.into_iter().map(|(name, stub)| stub.into_config(name)).collect()
}

/// The file that was named, or the first of the usual ones that exists, or none.
fn find_file(place: &Place, workdir: &Path, home: &Path) -> Result<(Option<PathBuf>, File), ConfigError> {
    if let Some(path) = &place.config {
        return Ok((Some(path.clone()), File::read(path)?));
    }
    let usual = [workdir.join("lango.toml"), home.join("lango.toml")];
    match usual.into_iter().find(|path| path.exists()) {
        Some(path) => {
            let file = File::read(&path)?;
            Ok((Some(path), file))
        }
        None => Ok((None, File::default())),
    }
}
