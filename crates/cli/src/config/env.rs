//! The environment, read once. Every key of the file has a form here, and it wins over the file.

use super::{ConfigError, file::File};
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

    #[cfg(test)]
    pub(crate) fn of(pairs: &[(&str, &str)]) -> Self {
        Self(pairs.iter().map(|(name, value)| ((*name).to_owned(), OsString::from(value))).collect())
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        self.0.get(name).filter(|value| !value.is_empty()).map(PathBuf::from)
    }

    fn text(&self, name: &str) -> Result<Option<String>, ConfigError> {
        let Some(value) = self.0.get(name).filter(|value| !value.is_empty()) else { return Ok(None) };
        value.to_str().map(|value| Some(value.to_owned())).ok_or_else(|| ConfigError::Variable {
            name: name.to_owned(),
            value: value.to_string_lossy().into_owned(),
            wanted: "valid UTF-8",
        })
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, ConfigError> {
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

    /// The file with what the environment says over it.
    pub(super) fn over(&self, mut file: File) -> Result<File, ConfigError> {
        file.model = self.text("LANGO_MODEL")?.or(file.model);
        file.app = self.text("LANGO_APP")?.or(file.app);
        file.user = self.text("LANGO_USER")?.or(file.user);
        file.database = self.path("LANGO_DATABASE").or(file.database);
        file.agents_dir = self.path("LANGO_AGENTS_DIR").or(file.agents_dir);
        if let Some(tokens) = self.number("LANGO_MAX_MESSAGE_TOKEN_BUDGET")? {
            file.max_message_token_budget = tokens;
        }
        file.history.max_messages = self.number("LANGO_HISTORY_MAX_MESSAGES")?.or(file.history.max_messages);
        Ok(file)
    }
}
