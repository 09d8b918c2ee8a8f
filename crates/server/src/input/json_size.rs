//! The size of a JSON document in memory, estimated from its text before it is parsed.

/// The memory of a value beside its text, in the body and in the session that is returned: lists and objects reserve up to three
/// times the size of their items while they grow.
const VALUE_BYTES: usize = 512;
/// The further memory of an object, which has a hash table.
const OBJECT_BYTES: usize = 1024;

/// How often the text is in memory: as it was received, in the strings of the values, and serialized for the store.
const COPIES: usize = 3;

/// What a document contains. Syntax is not checked: for text that is not JSON the numbers mean nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct JsonSize {
    /// An upper bound: empty lists and objects count as if they had an item.
    pub(super) values: usize,
    objects: usize,
    text: usize,
}

impl JsonSize {
    /// Scans a document once, in linear time and without allocation.
    pub(super) fn of(json: &[u8]) -> Self {
        let mut size = Self { values: 1, objects: 0, text: json.len() };
        let mut rest = json.iter();
        while let Some(byte) = rest.next() {
            match byte {
                b'"' => skip_string(&mut rest),
                b'{' => {
                    size.objects += 1;
                    size.values += 1;
                }
                b'[' | b',' => size.values += 1,
                _ => {}
            }
        }
        size
    }

    /// An estimate of the memory that the document needs until it is stored.
    pub(super) fn memory(self) -> usize {
        let parts = [(self.values, VALUE_BYTES), (self.objects, OBJECT_BYTES), (self.text, COPIES)];
        parts.into_iter().fold(0, |sum, (count, each)| sum.saturating_add(count.saturating_mul(each)))
    }
}

/// Skips the rest of a string with its closing quote.
fn skip_string(rest: &mut std::slice::Iter<'_, u8>) {
    while let Some(byte) = rest.find(|byte| matches!(byte, b'"' | b'\\')) {
        if *byte == b'"' {
            return;
        }
        rest.next();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn count(value: &Value) -> usize {
        1 + match value {
            Value::Array(items) => items.iter().map(count).sum(),
            Value::Object(map) => map.values().map(count).sum(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
        }
    }

    #[test]
    fn values_are_counted_and_text_in_strings_is_not() {
        for (json, values) in [
            ("7", 1),
            (r#""[,,,{\"[,""#, 1),
            (r#""\\""#, 1),
            (r#"{"a,[{": [1, "x,y", {"b": null}], "c\"": true}"#, 7),
            ("[1,2,3]", 4),
        ] {
            assert_eq!(count(&serde_json::from_str(json).unwrap()), values, "{json}");
            assert_eq!(JsonSize::of(json.as_bytes()).values, values, "{json}");
        }
        assert_eq!(JsonSize::of(b"[[],{}]").values, 5, "empty ones count as if they had an item");
        for unfinished in ["\"", "\"\\", "[\"a"] {
            assert!(JsonSize::of(unfinished.as_bytes()).values <= 2);
        }
    }
}
