//! The environment, read once. Every key of the file has a form here, which wins over the file; its paths are relative to the
//! working directory.

use super::{ConfigError, ModelName};
use std::{collections::HashMap, ffi::OsString, path::PathBuf};

/// The variables as they were when the program began.
#[derive(Clone, Debug, Default)]
pub(crate) struct Env(HashMap<String, OsString>);

impl Env {
    pub(crate) fn capture() -> Self {
        Self(
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value))).collect(),
        )
    }

    pub(super) fn path(&self, name: &str) -> Option<PathBuf> {
        self.0.get(name).filter(|value| !value.is_empty()).map(PathBuf::from)
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<String>, ConfigError> {
        let Some(value) = self.0.get(name).filter(|value| !value.is_empty()) else { return Ok(None) };
        value.to_str().map(|value| Some(value.to_owned())).ok_or_else(|| ConfigError::Variable {
            name: name.to_owned(),
            value: value.to_string_lossy().into_owned(),
            wanted: "valid UTF-8",
        })
    }

    pub(super) fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, ConfigError> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let wrong = |_| ConfigError::Variable {
            name: name.to_owned(),
            value: text.clone(),
            wanted: "a whole number",
        };
        text.trim().parse().map(Some).map_err(wrong)
    }

    /// The data directory.
    pub(crate) fn home(&self) -> Result<PathBuf, ConfigError> {
        let user = || self.path("HOME").map(|home| home.join(".lango"));
        self.path("LANGO_HOME").or_else(user).ok_or(ConfigError::NoHome)
    }

    /// Unless `NO_COLOR` is set to anything, or the terminal says that it is none.
    pub(super) fn wants_color(&self) -> bool {
        let dumb = self.0.get("TERM").is_some_and(|term| term == "dumb");
        self.path("NO_COLOR").is_none() && !dumb
    }

    pub(super) fn model(&self) -> Result<Option<ModelName>, ConfigError> {
        let said = "LANGO_MODEL";
        let named = |name| ModelName { name, base: PathBuf::new(), said: said.to_owned() };
        Ok(self.text(said)?.map(named))
    }
}
