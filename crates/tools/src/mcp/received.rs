//! A tool result as it was received: parts that the library does not know are kept as JSON.

use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::Value;

/// A tool result and its parts of unknown types.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ReceivedResult {
    pub(super) result: CallToolResult,
    pub(super) unknown: Vec<Value>,
}

impl From<CallToolResult> for ReceivedResult {
    fn from(result: CallToolResult) -> Self {
        Self { result, unknown: Vec::new() }
    }
}

impl ReceivedResult {
    /// Reads a result that the library could not parse, each part on its own. `None` if it is not a tool result at all.
    pub(super) fn parse(value: &Value) -> Option<Self> {
        let parts = match value.get("content") {
            Some(Value::Array(parts)) => parts.clone(),
            // Some servers send one part without the list, or a bare text.
            Some(part @ (Value::Object(_) | Value::String(_))) => vec![part.clone()],
            _ if value.get("structuredContent").is_some() => Vec::new(),
            _ => return None,
        };
        let mut received = Self::default();
        for part in parts {
            match (serde_json::from_value(part.clone()), part) {
                (Ok(block), _) => received.result.content.push(block),
                (Err(_), Value::String(text)) => received.result.content.push(ContentBlock::text(text)),
                (Err(_), part) => received.unknown.push(part),
            }
        }
        received.result.structured_content =
            value.get("structuredContent").filter(|data| !data.is_null()).cloned();
        received.result.is_error = Some(value.get("isError").is_some_and(is_true));
        Some(received)
    }
}

fn is_true(value: &Value) -> bool {
    value == true || value.as_str().is_some_and(|text| text.eq_ignore_ascii_case("true"))
}

/// Removes the texts that only repeat the structured content, as servers send them for older clients.
pub(super) fn drop_copies(texts: &mut Vec<String>, data: &Value) {
    texts.retain(|text| !is_copy(text, data));
    // Some libraries put a value that is not an object into `result`, and a list as one text per item.
    let Some(inner) = data.as_object().filter(|data| data.len() == 1).and_then(|data| data.get("result"))
    else {
        return;
    };
    texts.retain(|text| !is_copy(text, inner));
    if let Some(items) = inner.as_array()
        && items.len() == texts.len()
        && texts.iter().zip(items).all(|(text, item)| is_copy(text, item))
    {
        texts.clear();
    }
}

fn is_copy(text: &str, data: &Value) -> bool {
    data.as_str() == Some(text) || serde_json::from_str(text).is_ok_and(|parsed| is_same(&parsed, data))
}

/// Compares two values. `1` and `1.0` are the same number.
fn is_same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left == right || left.as_f64() == right.as_f64(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| is_same(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            let is_in_right =
                |(key, value): (&String, &Value)| right.get(key).is_some_and(|other| is_same(value, other));
            left.len() == right.len() && left.iter().all(is_in_right)
        }
        (left, right) => left == right,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parts_of_unknown_types_are_kept_beside_the_known_ones() {
        let value = json!({"content": [
            {"type": "text", "text": "before"},
            {"type": "hologram", "depth": 3},
            {"type": "text"},
            "bare",
        ], "structuredContent": {"n": 1}, "isError": "false"});
        let received = ReceivedResult::parse(&value).unwrap();
        let known: Vec<_> = received.result.content.iter().filter_map(ContentBlock::as_text).collect();
        assert_eq!(known.iter().map(|text| text.text.as_str()).collect::<Vec<_>>(), ["before", "bare"]);
        assert_eq!(received.unknown, [json!({"type": "hologram", "depth": 3}), json!({"type": "text"})]);
        assert_eq!(received.result.structured_content, Some(json!({"n": 1})));
        assert_eq!(received.result.is_error, Some(false));
        let single = ReceivedResult::parse(&json!({"content": "only text", "isError": true})).unwrap();
        assert_eq!((single.result.content.len(), single.result.is_error), (1, Some(true)));
        assert_eq!(ReceivedResult::parse(&json!({"tools": []})), None);
    }

    #[test]
    fn texts_that_repeat_structured_content_are_dropped() {
        for (texts, data, left) in [
            (vec!["{\"a\": 1, \"b\": [2.0]}"], json!({"b": [2], "a": 1.0}), vec![]),
            (vec!["summary", "{\"a\":1}"], json!({"a": 1}), vec!["summary"]),
            (vec!["hello"], json!({"result": "hello"}), vec![]),
            (vec!["5"], json!({"result": 5}), vec![]),
            (vec!["one", "two"], json!({"result": ["one", "two"]}), vec![]),
            (vec!["one", "three"], json!({"result": ["one", "two"]}), vec!["one", "three"]),
            (vec!["{\"a\": 2}"], json!({"a": 1}), vec!["{\"a\": 2}"]),
            (vec!["x"], json!({"result": "x", "more": 1}), vec!["x"]),
        ] {
            let mut texts: Vec<String> = texts.into_iter().map(str::to_owned).collect();
            drop_copies(&mut texts, &data);
            assert_eq!(texts, left, "{data}");
        }
    }
}
