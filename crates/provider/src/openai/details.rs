//! OpenRouter's `reasoning_details`: the reasoning of whatever model is behind it, in pieces that go back as a whole.
//!
//! They are kept as the signature of a thought: JSON in base64.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value};

/// What grows from piece to piece.
const TEXTS: [&str; 3] = ["text", "summary", "data"];

#[derive(Debug, Default)]
pub(super) struct ReasoningDetails(Vec<Map<String, Value>>);

impl ReasoningDetails {
    pub(super) fn extend(&mut self, pieces: Vec<Value>) {
        for piece in pieces {
            let Value::Object(piece) = piece else { continue };
            match self.0.last_mut().filter(|last| continues(last, &piece)) {
                Some(last) => grow(last, piece),
                None => self.0.push(piece),
            }
        }
    }

    pub(super) fn seal(&mut self) -> Option<String> {
        let details: Value = std::mem::take(&mut self.0).into_iter().collect();
        (details != Value::Array(Vec::new())).then(|| STANDARD.encode(details.to_string()))
    }

    /// Whatever else stands in a signature is not OpenRouter's.
    pub(super) fn open(signature: &str) -> Option<Vec<Value>> {
        serde_json::from_slice(&STANDARD.decode(signature).ok()?).ok()
    }
}

/// Pieces of one kind and number are one, unless each has an id of its own.
fn continues(last: &Map<String, Value>, piece: &Map<String, Value>) -> bool {
    let id = |detail: &Map<String, Value>| detail.get("id").and_then(Value::as_str).map(str::to_owned);
    let same = |key: &str| last.get(key) == piece.get(key);
    let apart = id(last).is_some() && id(piece).is_some() && id(last) != id(piece);
    same("type") && same("index") && !apart
}

fn grow(last: &mut Map<String, Value>, piece: Map<String, Value>) {
    for (key, value) in piece {
        match (last.get_mut(&key), value) {
            (_, Value::Null) => {}
            (Some(Value::String(text)), Value::String(more)) if TEXTS.contains(&key.as_str()) => {
                text.push_str(&more);
            }
            (_, value) => drop(last.insert(key, value)),
        }
    }
}
