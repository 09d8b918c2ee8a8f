//! What each wire format accepts, as rules over the JSON that goes over the wire.
//!
//! Each rule carries the provider's own words: its documentation, or the text of the error that breaking it brings.
//! This sees only JSON, so that it judges an encoder without knowing it.

mod anthropic;
mod gemini;
mod ollama;
mod openai;
mod responses;

use crate::ProviderApi;
use serde_json::Value;
use std::fmt;

/// One thing that a provider demands.
pub struct WireRule {
    pub id: &'static str,
    /// The provider's sentence.
    pub says: &'static str,
    /// The places where a body breaks it.
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

/// Everything in a request's body that the provider would refuse; empty if it is legal.
pub fn check(api: ProviderApi, body: &Value) -> Vec<Violation> {
    let broken = |rule: &WireRule| -> Vec<Violation> {
        let places = (rule.broken)(body).into_iter();
        places.map(|at| Violation { rule: rule.id, says: rule.says, at }).collect()
    };
    rules(api).iter().flat_map(broken).collect()
}

/// The elements of a list field, each with its place.
fn each<'a>(body: &'a Value, key: &str) -> Vec<(String, &'a Value)> {
    let items = body.get(key).and_then(Value::as_array).into_iter().flatten();
    items.enumerate().map(|(at, item)| (format!("{key}[{at}]"), item)).collect()
}

/// The elements of a list field of each element, each with its place.
fn each_in<'a>(outer: &[(String, &'a Value)], key: &str) -> Vec<(String, &'a Value)> {
    let inner = outer.iter().flat_map(|(place, item)| {
        each(item, key).into_iter().map(move |(at, item)| (format!("{place}.{at}"), item))
    });
    inner.collect()
}

/// The places of those that fail.
fn failing<'a>(
    items: impl IntoIterator<Item = (String, &'a Value)>,
    is_good: impl Fn(&Value) -> bool,
) -> Vec<String> {
    items.into_iter().filter(|(_, item)| !is_good(item)).map(|(place, _)| place).collect()
}

/// The field's name, if the body fails.
fn unless(good: bool, place: &str) -> Vec<String> {
    if good { Vec::new() } else { vec![place.to_owned()] }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The places of values that were there before.
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

/// Letters, digits, `_` and `-`, as many as allowed.
fn is_name(name: &str, longest: usize) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    !name.is_empty() && name.len() <= longest && name.chars().all(legal)
}

#[cfg(test)]
mod tests;
