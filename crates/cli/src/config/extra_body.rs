//! Extra fields of request bodies, from `[providers]` and `[models]`, with the values of their variables.

use super::{ConfigError, Env, providers::ApiName, template::Filled};
use provider::extra_body;
use serde_json::{Map, Value};
use std::path::Path;

/// The key of a table with one element, as which the parser of TOML represents dates and times.
const DATETIME: &str = "$__toml_private_datetime";

#[derive(Clone, Debug, Default)]
pub(crate) struct ExtraBody {
    fields: Map<String, Value>,
    /// The variables as they are written between `${` and `}`.
    variables: Vec<(String, Filled)>,
}

impl ExtraBody {
    pub(super) fn new(fields: Map<String, Value>, env: &Env) -> Self {
        let fill = |name: String| (name.clone(), Filled::new(&format!("${{{name}}}"), env));
        let variables = extra_body::variables(&fields).into_iter().map(fill).collect();
        Self { fields, variables }
    }

    /// These fields and others, which have precedence.
    pub(crate) fn merged(&self, over: &Self) -> Self {
        Self {
            fields: extra_body::merge_tables(self.fields.clone(), over.fields.clone()),
            variables: self.variables.iter().chain(&over.variables).cloned().collect(),
        }
    }

    /// The fields, with the names of variables.
    pub(crate) fn fields(&self) -> &Map<String, Value> {
        &self.fields
    }

    pub(crate) fn variables(&self) -> &[(String, Filled)] {
        &self.variables
    }

    /// The values of the variables.
    pub(super) fn values(&self) -> impl Iterator<Item = &Filled> {
        self.variables.iter().map(|(_, value)| value)
    }

    /// Refuses fields that a request cannot have. `setting` names the table.
    pub(super) fn check(&self, api: ApiName, setting: &str, file: &Path) -> Result<(), ConfigError> {
        let error = |message: String| ConfigError::Value { path: file.to_path_buf(), message };
        if let Some(name) = extra_body::reserved_field(api.wire(), &self.fields) {
            let instead = instead_of(name);
            return Err(error(format!("{setting} must not contain `{name}`: {instead}")));
        }
        match self.fields.iter().find_map(|(name, value)| invalid_value(name, value)) {
            Some(problem) => Err(error(format!("{setting} contains {problem}"))),
            None => Ok(()),
        }
    }
}

/// What to do in place of a field that extra fields cannot replace.
fn instead_of(name: &str) -> &'static str {
    match name {
        "model" => "the model is set with `model`, in lango.toml or in the agent's file",
        "tools" | "functions" => "tools are set with `tools` in the agent's file",
        "system" | "instructions" | "systemInstruction" | "system_instruction" => {
            "the instruction is set with `instruction` in the agent's file"
        }
        "stream" | "background" => "every answer is streamed",
        _ => "the conversation comes from the session",
    }
}

/// A value that JSON cannot represent.
fn invalid_value(path: &str, value: &Value) -> Option<String> {
    match value {
        // TOML has no null: it stands for a number that is not finite.
        Value::Null => Some(format!("`{path}`, which is not a finite number")),
        Value::Array(values) => values.iter().find_map(|value| invalid_value(path, value)),
        Value::Object(fields) if fields.contains_key(DATETIME) => {
            Some(format!("`{path}`, a date or time without quotes; write it as a string"))
        }
        Value::Object(fields) => {
            fields.iter().find_map(|(name, value)| invalid_value(&format!("{path}.{name}"), value))
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extra(toml: &str, env: &Env) -> ExtraBody {
        ExtraBody::new(toml::from_str(toml).unwrap(), env)
    }

    fn problem(api: ApiName, toml: &str) -> String {
        let checked =
            extra(toml, &Env::default()).check(api, "[providers.p] extraBody", Path::new("lango.toml"));
        checked.map_or_else(|error| error.to_string(), |()| "valid".to_owned())
    }

    #[test]
    fn field_that_carries_the_conversation_is_refused_with_the_fix() {
        insta::assert_snapshot!(problem(ApiName::Chat, "stream = false"), @"lango.toml: [providers.p] extraBody must not contain `stream`: every answer is streamed");
        insta::assert_snapshot!(problem(ApiName::Anthropic, "system = \"x\""), @"lango.toml: [providers.p] extraBody must not contain `system`: the instruction is set with `instruction` in the agent's file");
        insta::assert_snapshot!(problem(ApiName::Gemini, "contents = []"), @"lango.toml: [providers.p] extraBody must not contain `contents`: the conversation comes from the session");
        assert_eq!(problem(ApiName::Ollama, "keep_alive = \"1h\""), "valid");
    }

    #[test]
    fn value_that_json_cannot_represent_is_refused() {
        insta::assert_snapshot!(problem(ApiName::Chat, "a = { b = [nan] }"), @"lango.toml: [providers.p] extraBody contains `a.b`, which is not a finite number");
        insta::assert_snapshot!(problem(ApiName::Chat, "a = { b = 2026-01-01 }"), @"lango.toml: [providers.p] extraBody contains `a.b`, a date or time without quotes; write it as a string");
    }

    #[test]
    fn variables_keep_their_names_and_values_of_models_precede() {
        let env = Env::of(&[("TEAM", "blue")]);
        let merged = extra("a = \"${TEAM}\"\nb = 1", &env).merged(&extra("b = \"${NONE:-2}\"", &env));
        assert_eq!(serde_json::to_string(merged.fields()).unwrap(), r#"{"a":"${TEAM}","b":"${NONE:-2}"}"#);
        let values: Vec<(&str, &str)> =
            merged.variables().iter().map(|(name, value)| (name.as_str(), value.get().unwrap())).collect();
        assert_eq!(values, [("TEAM", "blue"), ("NONE:-2", "2")]);
        assert!(!format!("{merged:?}").contains("blue"));
    }
}
