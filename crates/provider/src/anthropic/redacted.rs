//! Thinking that the provider keeps secret, in the place of a signature.
//!
//! A thought has one opaque field. A block of thinking may have no text and still a signature, so that secret thinking
//! needs a mark of its own. Marked, it is base64 like any signature: clients of ADK decode the field.

use base64::{Engine, engine::general_purpose::STANDARD};

const MARK: &str = "redacted_thinking:";

pub(super) fn pack(data: &str) -> String {
    STANDARD.encode(format!("{MARK}{data}"))
}

/// The secret data, if this is no signature.
pub(super) fn unpack(signature: &str) -> Option<String> {
    let bytes = STANDARD.decode(signature).ok()?;
    String::from_utf8(bytes).ok()?.strip_prefix(MARK).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_data_comes_back_as_it_was_and_a_signature_is_none() {
        for data in ["UkVEQUNURUQ=", "", "not base64: ü"] {
            assert_eq!(unpack(&pack(data)).as_deref(), Some(data));
        }
        for signature in ["EqQBCgIYAhIMc2lnbmF0dXJl/+==", "sig-1", "", "cmVkYWN0ZWQ="] {
            assert_eq!(unpack(signature), None);
        }
    }
}
