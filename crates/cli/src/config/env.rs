//! The environment, read once. Variables override the keys of the file; their paths are relative to the working directory.

use super::{ConfigError, ModelName};
use std::{collections::HashMap, ffi::OsString, path::PathBuf};

/// The variables of this program.
pub(crate) const VARIABLES: [&str; 20] = [
    "LANGO_AGENTS_DIR",
    "LANGO_APP",
    // Set for the commands that the program starts.
    "LANGO_CALL_ID",
    "LANGO_DATABASE",
    "LANGO_DISCOVER",
    "LANGO_FALLBACK",
    "LANGO_HISTORY_MAX_MESSAGES",
    "LANGO_HISTORY_RETAIN",
    "LANGO_HOME",
    "LANGO_LIMITS_COST",
    "LANGO_LIMITS_MODEL_CALLS",
    "LANGO_LIMITS_TOKENS",
    "LANGO_LIMITS_TOOL_CALLS",
    "LANGO_MAX_MESSAGE_TOKEN_BUDGET",
    "LANGO_MODEL",
    "LANGO_RETRY_ATTEMPTS",
    "LANGO_RETRY_MAX_WAIT_S",
    "LANGO_SERVER_TOKEN",
    "LANGO_TELEMETRY_CONTENT",
    "LANGO_USER",
];

/// The variables at the start of the program. It has no `Debug`: some of them are secrets.
#[derive(Clone, Default)]
pub(crate) struct Env(HashMap<String, OsString>);

impl Env {
    pub(crate) fn capture() -> Self {
        Self(
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value))).collect(),
        )
    }

    #[cfg(test)]
    pub(crate) fn of(variables: &[(&str, &str)]) -> Self {
        Self(variables.iter().map(|(name, value)| ((*name).to_owned(), OsString::from(value))).collect())
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

    /// Like [`text`](Self::text), but errors do not contain the value.
    pub(super) fn secret(&self, name: &str) -> Result<Option<String>, ConfigError> {
        self.text(name).map_err(|_| ConfigError::Value {
            path: PathBuf::from(name),
            message: "it is not valid UTF-8".to_owned(),
        })
    }

    pub(super) fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, ConfigError> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let wanted = match text.trim().parse::<i128>() {
            Ok(_) => "in the permitted range",
            Err(_) => "a whole number",
        };
        parse(name, &text, wanted)
    }

    /// A number that may have a fraction.
    pub(super) fn decimal(&self, name: &str) -> Result<Option<f64>, ConfigError> {
        self.text(name)?.map_or(Ok(None), |text| parse(name, &text, "a number"))
    }

    /// The variables of this program's prefix that it does not have, sorted.
    pub(super) fn unknown(&self) -> Vec<String> {
        let is_unknown = |name: &&String| name.starts_with("LANGO_") && !VARIABLES.contains(&name.as_str());
        let mut unknown: Vec<String> = self.0.keys().filter(is_unknown).cloned().collect();
        unknown.sort();
        unknown
    }

    pub(super) fn flag(&self, name: &str) -> Result<Option<bool>, ConfigError> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        match text.trim() {
            "true" | "1" => Ok(Some(true)),
            "false" | "0" => Ok(Some(false)),
            _ => {
                let (name, wanted) = (name.to_owned(), "`true` or `false`");
                Err(ConfigError::Variable { name, value: text, wanted })
            }
        }
    }

    /// The data directory.
    pub(crate) fn home(&self) -> Result<PathBuf, ConfigError> {
        let user = || self.path("HOME").map(|home| home.join(".lango"));
        self.path("LANGO_HOME").or_else(user).ok_or(ConfigError::NoHome)
    }

    /// `false` if `NO_COLOR` is set and not empty, or if `TERM` is `dumb`.
    pub(super) fn wants_color(&self) -> bool {
        let dumb = self.0.get("TERM").is_some_and(|term| term == "dumb");
        self.path("NO_COLOR").is_none() && !dumb
    }

    pub(super) fn model(&self) -> Result<Option<ModelName>, ConfigError> {
        Ok(self.text("LANGO_MODEL")?.map(|name| named("LANGO_MODEL", &name)))
    }

    /// The models of `LANGO_FALLBACK`, separated by commas.
    pub(super) fn fallback(&self) -> Result<Option<Vec<ModelName>>, ConfigError> {
        let variable = "LANGO_FALLBACK";
        let models = |names: String| names.split(',').map(|name| named(variable, name.trim())).collect();
        Ok(self.text(variable)?.map(models))
    }
}

fn parse<T: std::str::FromStr>(
    name: &str,
    text: &str,
    wanted: &'static str,
) -> Result<Option<T>, ConfigError> {
    let invalid = |_| ConfigError::Variable { name: name.to_owned(), value: text.to_owned(), wanted };
    text.trim().parse().map(Some).map_err(invalid)
}

fn named(variable: &str, name: &str) -> ModelName {
    ModelName { name: name.to_owned(), base: PathBuf::new(), source: variable.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::VARIABLES;

    #[test]
    fn every_documented_variable_is_known() {
        let page = include_str!("../../../../docs/src/configuration.md");
        let named = page.split(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'));
        for name in named.filter(|name| name.starts_with("LANGO_")) {
            assert!(VARIABLES.contains(&name), "{name}");
        }
    }
}
