//! The rules of each provider's wire format, as functions of the JSON body of a request.
//!
//! Each rule quotes the provider: its documentation, or the error message of a request that violates the rule.
//! The rules see only JSON and are independent of the encoder under test.

mod anthropic;
mod gemini;
mod ollama;
mod openai;
mod responses;

use crate::ProviderApi;
use serde_json::Value;
use std::fmt;

/// A requirement of a provider.
pub struct WireRule {
    pub id: &'static str,
    /// The provider's documentation or error message.
    pub says: &'static str,
    /// Returns the paths at which a body violates the rule.
    broken: fn(&Value) -> Vec<String>,
}

impl fmt::Debug for WireRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.id)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub rule: &'static str,
    pub says: &'static str,
    pub at: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} at {}: {}", self.rule, self.at, self.says)
    }
}

pub fn rules(api: ProviderApi) -> &'static [WireRule] {
    match api {
        ProviderApi::OpenAi => openai::RULES,
        ProviderApi::Anthropic => anthropic::RULES,
        ProviderApi::Gemini => gemini::RULES,
        ProviderApi::Ollama => ollama::RULES,
        ProviderApi::Responses => responses::RULES,
    }
}

/// Returns everything in a request body that the provider would refuse; empty if the body is legal.
pub fn check(api: ProviderApi, body: &Value) -> Vec<Violation> {
    let broken = |rule: &WireRule| -> Vec<Violation> {
        let places = (rule.broken)(body).into_iter();
        places.map(|at| Violation { rule: rule.id, says: rule.says, at }).collect()
    };
    rules(api).iter().flat_map(broken).collect()
}

/// The elements of an array field, each with its path.
fn each<'a>(body: &'a Value, key: &str) -> Vec<(String, &'a Value)> {
    let items = body.get(key).and_then(Value::as_array).into_iter().flatten();
    items.enumerate().map(|(at, item)| (format!("{key}[{at}]"), item)).collect()
}

/// The elements of an array field of each element, each with its path.
fn each_in<'a>(outer: &[(String, &'a Value)], key: &str) -> Vec<(String, &'a Value)> {
    let inner = outer.iter().flat_map(|(place, item)| {
        each(item, key).into_iter().map(move |(at, item)| (format!("{place}.{at}"), item))
    });
    inner.collect()
}

/// The paths of the items that violate the rule.
fn failing<'a>(
    items: impl IntoIterator<Item = (String, &'a Value)>,
    is_legal: impl Fn(&Value) -> bool,
) -> Vec<String> {
    items.into_iter().filter(|(_, item)| !is_legal(item)).map(|(place, _)| place).collect()
}

/// The path, unless `is_legal`.
fn unless(is_legal: bool, place: &str) -> Vec<String> {
    if is_legal { Vec::new() } else { vec![place.to_owned()] }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The paths of duplicate values.
fn repeated<'a>(items: impl IntoIterator<Item = (String, &'a str)>) -> Vec<String> {
    let mut seen = std::collections::HashSet::new();
    items.into_iter().filter(|(_, value)| !seen.insert(*value)).map(|(place, _)| place).collect()
}

fn in_range(body: &Value, key: &str, low: f64, high: f64) -> Vec<String> {
    unless(
        body.get(key).is_none_or(|value| value.as_f64().is_some_and(|value| (low..=high).contains(&value))),
        key,
    )
}

/// Whether a name consists of letters, digits, `_` and `-`, and has at most `longest` bytes.
fn is_name(name: &str, longest: usize) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    !name.is_empty() && name.len() <= longest && name.chars().all(legal)
}

#[cfg(test)]
mod tests;
