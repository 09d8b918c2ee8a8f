//! Redacted thinking in the signature field of a thought.
//!
//! A thought has one opaque field, and a thinking block without text may still have a signature. A prefix therefore
//! marks redacted data. The result is base64 like any signature, because ADK's clients decode the field.

use base64::{Engine, engine::general_purpose::STANDARD};

const PREFIX: &str = "redacted_thinking:";

pub(super) fn to_signature(data: &str) -> String {
    STANDARD.encode(format!("{PREFIX}{data}"))
}

/// The redacted data; `None` for an ordinary signature.
pub(super) fn from_signature(signature: &str) -> Option<String> {
    let bytes = STANDARD.decode(signature).ok()?;
    String::from_utf8(bytes).ok()?.strip_prefix(PREFIX).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redacted_data_round_trips_and_signatures_are_not_redacted() {
        for data in ["UkVEQUNURUQ=", "", "not base64: ü"] {
            assert_eq!(from_signature(&to_signature(data)).as_deref(), Some(data));
        }
        for signature in ["EqQBCgIYAhIMc2lnbmF0dXJl/+==", "sig-1", "", "cmVkYWN0ZWQ="] {
            assert_eq!(from_signature(signature), None);
        }
    }
}
