//! OpenRouter's `reasoning_details`: the reasoning of the model behind it, which arrives in fragments and goes back as a
//! whole.
//!
//! The details are stored in the signature of a thought, as JSON in base64.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value};

/// The fields that grow with each fragment.
const GROWING_FIELDS: [&str; 3] = ["text", "summary", "data"];

#[derive(Debug, Default)]
pub(super) struct ReasoningDetails(Vec<Map<String, Value>>);

impl ReasoningDetails {
    pub(super) fn extend(&mut self, fragments: Vec<Value>) {
        for fragment in fragments {
            let Value::Object(fragment) = fragment else { continue };
            match self.0.last_mut().filter(|last| is_continuation(last, &fragment)) {
                Some(last) => merge(last, fragment),
                None => self.0.push(fragment),
            }
        }
    }

    pub(super) fn take_signature(&mut self) -> Option<String> {
        let details: Value = std::mem::take(&mut self.0).into_iter().collect();
        (details != Value::Array(Vec::new())).then(|| STANDARD.encode(details.to_string()))
    }

    /// Returns `None` for signatures of other providers.
    pub(super) fn from_signature(signature: &str) -> Option<Vec<Value>> {
        serde_json::from_slice(&STANDARD.decode(signature).ok()?).ok()
    }
}

/// The readable text of the fragments.
pub(super) fn text(fragments: &[Value]) -> String {
    let text = |fragment: &Value| {
        ["text", "summary"].iter().find_map(|key| fragment.get(key)?.as_str().map(str::to_owned))
    };
    fragments.iter().filter_map(text).collect()
}

/// Chunks with the same type and index continue each other, unless their ids differ.
fn is_continuation(last: &Map<String, Value>, fragment: &Map<String, Value>) -> bool {
    let id = |detail: &Map<String, Value>| detail.get("id").and_then(Value::as_str).map(str::to_owned);
    let same = |key: &str| last.get(key) == fragment.get(key);
    let ids_differ = id(last).is_some() && id(fragment).is_some() && id(last) != id(fragment);
    same("type") && same("index") && !ids_differ
}

fn merge(last: &mut Map<String, Value>, fragment: Map<String, Value>) {
    for (key, value) in fragment {
        match (last.get_mut(&key), value) {
            (_, Value::Null) => {}
            (Some(Value::String(text)), Value::String(suffix)) if GROWING_FIELDS.contains(&key.as_str()) => {
                text.push_str(&suffix);
            }
            (_, value) => drop(last.insert(key, value)),
        }
    }
}
