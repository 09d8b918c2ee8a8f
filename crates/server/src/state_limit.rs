//! The limit of the state that clients store: it is loaded as a whole, for each turn and each response.

use crate::error::ApiError;
use axum::http::StatusCode;
use bridge::store::state::size_of_state;
use serde_json::{Map, Value};

/// The maximum size of the state that a session sees, with the state of its user and app, in bytes of memory.
pub(crate) const MAX_STATE_BYTES: usize = 10 * 1024 * 1024;

/// Refuses a delta with which the state would exceed the limit. A delta that does not enlarge the state is accepted: sessions of earlier
/// versions may have more.
pub(crate) fn check_state_size(
    state: &Map<String, Value>,
    delta: &Map<String, Value>,
) -> Result<(), ApiError> {
    let is_stored = |(key, _): &(&String, &Value)| !key.starts_with("temp:");
    let replaced = delta.keys().filter_map(|key| state.get_key_value(key));
    let (added, removed) = (size_of_state(delta.iter().filter(is_stored)), size_of_state(replaced));
    if added <= removed {
        return Ok(());
    }
    let size = size_of_state(state) - removed + added;
    if size <= MAX_STATE_BYTES {
        return Ok(());
    }
    let detail = format!(
        "the state of the session would have {size} bytes; the limit is {MAX_STATE_BYTES}. Remove keys, or store large data as artifacts"
    );
    Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, detail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_delta_may_not_enlarge_the_state_beyond_the_limit() {
        let map = |value: Value| value.as_object().cloned().unwrap_or_default();
        let text = |bytes: usize| Value::from("x".repeat(bytes));
        let half = MAX_STATE_BYTES / 2;
        let state = map(json!({"a": text(half)}));
        let accepts = |state: &Map<String, Value>, delta: Value| check_state_size(state, &map(delta)).is_ok();
        assert!(accepts(&state, json!({"b": text(half - 1000)})));
        assert!(!accepts(&state, json!({"b": text(half)})));
        assert!(!accepts(&state, json!({"user:b": text(half)})), "all scopes are loaded together");
        assert!(accepts(&state, json!({"temp:b": text(half)})), "temporary keys are not stored");
        assert!(accepts(&state, json!({"a": text(half + 1000)})), "the old value is replaced");
        let large = map(json!({"a": text(3 * half)}));
        assert!(accepts(&large, json!({"a": "small"})) && !accepts(&large, json!({"b": 1})));
    }
}
