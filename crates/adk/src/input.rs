//! Input requests: a running call asks the user for structured input ([`REQUEST_INPUT`]) and continues with the answer.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value, json};

/// ADK's name of the call that asks the user for input.
pub const REQUEST_INPUT: &str = "adk_request_input";

/// The keys with which ADK's clients wrap an answer: its command line, and its web page.
const WRAPPERS: [&str; 2] = ["result", "response"];

/// How many errors of an answer are reported.
const MAX_ERRORS: usize = 5;

/// A question for input.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InputRequest {
    pub message: String,
    /// The JSON Schema of the answer, of type `object`.
    pub schema: Value,
    /// Data for clients, such as the server that asks.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub payload: Map<String, Value>,
}

/// The user's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "action", content = "content")]
pub enum InputAnswer {
    /// The values match the schema of the question.
    Accept(Map<String, Value>),
    /// The user does not want to answer.
    Decline,
    /// The user dismissed the question.
    Cancel,
}

impl InputAnswer {
    /// The response to the question's call.
    pub fn to_response(&self) -> Map<String, Value> {
        let response = match self {
            Self::Accept(content) => json!({"action": "accept", "content": content}),
            Self::Decline => json!({"action": "decline"}),
            Self::Cancel => json!({"action": "cancel"}),
        };
        response.as_object().cloned().unwrap_or_default()
    }
}

impl InputRequest {
    /// The fields of the answer with their schemas, in the order of the question.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &Value)> {
        let properties = self.schema.get("properties").and_then(Value::as_object);
        properties.into_iter().flatten().map(|(name, schema)| (name.as_str(), schema))
    }

    fn field(&self, name: &str) -> Option<&Value> {
        self.schema.get("properties")?.get(name)
    }

    pub fn is_required(&self, field: &str) -> bool {
        let required = self.schema.get("required").and_then(Value::as_array);
        required.is_some_and(|names| names.iter().any(|name| name == field))
    }

    /// Reads an answer in the forms of ADK's and MCP's clients: the fields, an action with the fields as its content, either of
    /// them as JSON text, or the value of the only field; wrapped in `result` or `response`, or not. The error says what does
    /// not match the schema.
    pub fn parse_answer(&self, response: &Map<String, Value>) -> Result<InputAnswer, String> {
        if let Some(answer) = self.action(response) {
            return answer;
        }
        match self.wrapped(response) {
            Some(Value::String(text)) => self.parse_text(text),
            Some(Value::Object(fields)) => match self.action(fields) {
                Some(answer) => answer,
                None => self.accept(fields.clone()),
            },
            Some(value) => self.accept_only_field(value.clone()),
            None => self.accept(response.clone()),
        }
    }

    /// The value of a response that has only a wrapping key, unless the question has a field of that name.
    fn wrapped<'a>(&self, response: &'a Map<String, Value>) -> Option<&'a Value> {
        let (key, value) = response.iter().next().filter(|_| response.len() == 1)?;
        let is_wrapper = WRAPPERS.contains(&key.as_str()) && self.field(key).is_none();
        is_wrapper.then_some(value)
    }

    /// The answer in MCP's form.
    fn action(&self, response: &Map<String, Value>) -> Option<Result<InputAnswer, String>> {
        let action =
            response.get("action").and_then(Value::as_str).filter(|_| self.field("action").is_none())?;
        let content = || match response.get("content") {
            None | Some(Value::Null) => self.accept(Map::new()),
            Some(Value::Object(content)) => self.accept(content.clone()),
            Some(_) => Err("its content is not an object".to_owned()),
        };
        Some(match action {
            "accept" => content(),
            "decline" => Ok(InputAnswer::Decline),
            "cancel" => Ok(InputAnswer::Cancel),
            _ => Err("its action is not accept, decline or cancel".to_owned()),
        })
    }

    fn parse_text(&self, text: &str) -> Result<InputAnswer, String> {
        if let Ok(Value::Object(fields)) = serde_json::from_str(text) {
            return self.action(&fields).unwrap_or_else(|| self.accept(fields));
        }
        match text.trim().to_lowercase().as_str() {
            "decline" => Ok(InputAnswer::Decline),
            "cancel" => Ok(InputAnswer::Cancel),
            _ => self.accept_only_field(text.into()),
        }
    }

    fn accept_only_field(&self, value: Value) -> Result<InputAnswer, String> {
        let mut fields = self.fields();
        match (fields.next(), fields.next()) {
            (Some((name, _)), None) => self.accept(Map::from_iter([(name.to_owned(), value)])),
            _ => Err(format!("it must be an object with {}", self.field_names())),
        }
    }

    fn field_names(&self) -> String {
        let names: Vec<String> = self.fields().map(|(name, _)| format!("`{name}`")).collect();
        if names.is_empty() { "no fields".to_owned() } else { format!("the fields {}", names.join(", ")) }
    }

    /// Converts the values to the types of the fields, adds defaults, and validates the result.
    fn accept(&self, mut content: Map<String, Value>) -> Result<InputAnswer, String> {
        if let Some(unknown) = content.keys().find(|name| self.field(name).is_none()) {
            return Err(format!("it has the unknown field `{unknown}`; it must have {}", self.field_names()));
        }
        for (name, schema) in self.fields() {
            match (content.get_mut(name), schema.get("default")) {
                (Some(value), _) => convert(value, schema),
                (None, Some(default)) => _ = content.insert(name.to_owned(), default.clone()),
                (None, None) => {}
            }
        }
        let errors = self.errors(&Value::Object(content.clone()));
        if errors.is_empty() { Ok(InputAnswer::Accept(content)) } else { Err(errors.join("; ")) }
    }

    fn errors(&self, content: &Value) -> Vec<String> {
        let validator = jsonschema::options().should_validate_formats(true).build(&self.schema);
        let Ok(validator) = validator else { return vec!["the question has an invalid schema".to_owned()] };
        let describe = |error: jsonschema::ValidationError<'_>| {
            let path = error.instance_path().to_string();
            let field = path.split('/').nth(1).unwrap_or_default();
            if field.is_empty() { error.to_string() } else { format!("`{field}`: {error}") }
        };
        validator.iter_errors(content).take(MAX_ERRORS).map(describe).collect()
    }
}

/// The choices of a field: each value with its title.
pub fn choices(schema: &Value) -> Vec<(String, String)> {
    let titled = ["oneOf", "anyOf"].iter().find_map(|key| schema.get(key)).and_then(Value::as_array);
    if let Some(options) = titled {
        let text = |option: &Value, key: &str| option.get(key).and_then(Value::as_str).map(str::to_owned);
        let choice = |option: &Value| {
            let value = text(option, "const")?;
            Some((value.clone(), text(option, "title").unwrap_or(value)))
        };
        return options.iter().filter_map(choice).collect();
    }
    let values = schema.get("enum").and_then(Value::as_array);
    let titles = schema.get("enumNames").and_then(Value::as_array);
    let title = |index: usize| titles.and_then(|titles| titles.get(index)).and_then(Value::as_str);
    let values = values.into_iter().flatten().filter_map(Value::as_str).enumerate();
    values.map(|(index, value)| (value.to_owned(), title(index).unwrap_or(value).to_owned())).collect()
}

/// Converts a text to the type of its field, if that is possible.
fn convert(value: &mut Value, schema: &Value) {
    if let (Value::Array(items), Some(schema)) = (&mut *value, schema.get("items")) {
        for item in items {
            convert(item, schema);
        }
        return;
    }
    let Some(text) = value.as_str().map(str::to_owned) else { return };
    let text = text.trim();
    let converted = match schema.get("type").and_then(Value::as_str) {
        Some("integer") => text.parse::<i64>().ok().map(Value::from),
        Some("number") => number(text).map(Value::Number),
        Some("boolean") => boolean(text).map(Value::Bool),
        Some("array") => schema.get("items").map(|items| list(text, items)),
        _ => choose(text, schema).map(Value::String),
    };
    if let Some(converted) = converted {
        *value = converted;
    }
}

fn number(text: &str) -> Option<Number> {
    text.parse::<i64>().map(Number::from).ok().or_else(|| Number::from_f64(text.parse().ok()?))
}

fn boolean(text: &str) -> Option<bool> {
    match text.to_lowercase().as_str() {
        "true" | "yes" | "y" | "1" => Some(true),
        "false" | "no" | "n" | "0" => Some(false),
        _ => None,
    }
}

/// The value of the choice that the text names by value or title.
fn choose(text: &str, schema: &Value) -> Option<String> {
    let choices = choices(schema);
    let is_value = |(value, _): &&(String, String)| value == text;
    let is_like = |(value, title): &&(String, String)| {
        value.eq_ignore_ascii_case(text) || title.eq_ignore_ascii_case(text)
    };
    let found = choices.iter().find(is_value).or_else(|| choices.iter().find(is_like));
    found.map(|(value, _)| value.clone())
}

/// A list that is written with commas.
fn list(text: &str, items: &Value) -> Value {
    let item = |text: &str| {
        let mut item = Value::from(text);
        convert(&mut item, items);
        item
    };
    text.split(',').map(str::trim).filter(|text| !text.is_empty()).map(item).collect()
}

#[cfg(test)]
mod tests;
