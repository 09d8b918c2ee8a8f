//! Expansion of `{user}`, `{model}`, `{tool.name}`, `{tool.response}` and `{tool.response.a.path}` in texts and
//! arguments.
//!
//! Other braces stay unchanged, so a script can contain JSON.

use super::prompt::ScriptPrompt;
use serde_json::Value;

pub(super) fn expand(text: &str, prompt: &ScriptPrompt<'_>) -> Result<String, String> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        expanded.push_str(&rest[..open]);
        rest = &rest[open..];
        let found = rest.find('}').map(|close| (&rest[1..close], &rest[close + 1..]));
        if let Some((name, after)) = found.filter(|(name, _)| is_placeholder(name)) {
            expanded.push_str(&display(&look_up(name, prompt)?));
            rest = after;
        } else {
            expanded.push('{');
            rest = &rest[1..];
        }
    }
    expanded.push_str(rest);
    Ok(expanded)
}

/// Expands the strings of an argument. A string that is a single placeholder becomes the value itself, with its type.
pub(super) fn expand_value(value: &Value, prompt: &ScriptPrompt<'_>) -> Result<Value, String> {
    match value {
        Value::String(text) => {
            let name = text.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
            match name.filter(|name| is_placeholder(name)) {
                Some(name) => look_up(name, prompt),
                None => expand(text, prompt).map(Value::String),
            }
        }
        Value::Array(items) => items.iter().map(|item| expand_value(item, prompt)).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(key, item)| Ok((key.clone(), expand_value(item, prompt)?))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(value.clone()),
    }
}

fn is_placeholder(name: &str) -> bool {
    matches!(name, "user" | "model" | "tool.name" | "tool.response") || name.starts_with("tool.response.")
}

fn look_up(name: &str, prompt: &ScriptPrompt<'_>) -> Result<Value, String> {
    if name == "user" {
        return Ok(Value::String(prompt.user.clone()));
    }
    if name == "model" {
        return Ok(Value::String(prompt.model.clone()));
    }
    let result = prompt.tool.ok_or_else(|| format!("{{{name}}} needs a tool result, and there is none"))?;
    if name == "tool.name" {
        return Ok(Value::String(result.name.clone()));
    }
    let path = name.split('.').skip(2);
    let found = path.into_iter().try_fold(&result.response, |value, key| match value {
        Value::Array(items) => key.parse::<usize>().ok().and_then(|at| items.get(at)),
        Value::Object(fields) => fields.get(key),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    });
    found.cloned().ok_or_else(|| format!("{{{name}}} is not in the response of {}", result.name))
}

fn display(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            value.to_string()
        }
    }
}
