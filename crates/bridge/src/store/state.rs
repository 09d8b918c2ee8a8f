//! StateAdapter: converts between ADK's flat map of prefixed keys and the store's rows with scopes.

use adk::state::Scope;
use serde_json::{Map, Value};
use session::StateChange;

/// Prefix of reserved keys: the program writes them; clients, agents and tools may only read them.
const RESERVED_PREFIX: &str = "lango:";

/// The approximate size of an entry of a map, besides its key and value.
const ENTRY_BYTES: usize = 64;

/// Whether a key is reserved for the program.
pub fn is_reserved(key: &str) -> bool {
    key.starts_with(RESERVED_PREFIX)
}

/// The state of a session in memory. `temp:` keys are never stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StateAdapter {
    values: Map<String, Value>,
}

impl StateAdapter {
    /// Merges the rows in ADK's order: session, app, user.
    pub fn new(rows: Vec<StateChange>) -> Self {
        let order = |row: &StateChange| match row.scope {
            session::Scope::Session => 0,
            session::Scope::App => 1,
            session::Scope::User => 2,
        };
        let mut rows = rows;
        rows.sort_by_key(order);
        let values =
            rows.into_iter().map(|row| (format!("{}{}", prefix(row.scope), row.key), row.value)).collect();
        Self { values }
    }

    pub fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key)
    }

    pub fn all(&self) -> &Map<String, Value> {
        &self.values
    }

    /// The approximate size in memory.
    pub(crate) fn bytes(&self) -> usize {
        size_of_state(&self.values)
    }

    /// The keys of session scope, which may be cached: other sessions change the other scopes, and `temp:` ends with
    /// its turn.
    pub(crate) fn session_scoped(&self) -> Self {
        let is_session_scoped = |(key, _): &(&String, &Value)| Scope::of(key).0 == Scope::Session;
        let entries = self.values.iter().filter(is_session_scoped);
        Self { values: entries.map(|(key, value)| (key.clone(), value.clone())).collect() }
    }

    /// Adds the state of app and user scope.
    pub(crate) fn merge_shared(&mut self, rows: Vec<StateChange>) {
        self.values.extend(Self::new(rows).values);
    }

    pub(crate) fn apply(&mut self, delta: &Map<String, Value>) {
        self.values.extend(delta.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
}

/// The approximate size of entries in memory.
pub fn size_of_state<'a>(entries: impl IntoIterator<Item = (&'a String, &'a Value)>) -> usize {
    entries.into_iter().map(|(key, value)| ENTRY_BYTES + key.len() + bytes_of(value)).sum()
}

/// The approximate size of a value in memory. State is JSON of at most the depth that the parser accepts.
fn bytes_of(value: &Value) -> usize {
    size_of::<Value>()
        + match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(bytes_of).sum(),
            Value::Object(entries) => size_of_state(entries),
        }
}

/// Drops reserved keys whose value would not change; a missing key equals `false`.
pub(crate) fn without_unchanged(delta: &Map<String, Value>, state: &StateAdapter) -> Map<String, Value> {
    let is_false = |value: &Value| value.is_null() || value == false;
    let is_unchanged = |key: &str, value: &Value| {
        let known = state.get(key);
        known == Some(value) || (is_false(value) && known.is_none_or(is_false))
    };
    let changed = delta.iter().filter(|(key, value)| !(is_reserved(key) && is_unchanged(key, value)));
    changed.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// The rows that a delta changes, sorted by scope (the lock order). `temp:` keys have no row.
pub(crate) fn changes(delta: &Map<String, Value>) -> Vec<StateChange> {
    let mut changes: Vec<StateChange> = delta
        .iter()
        .filter_map(|(key, value)| {
            let (scope, key) = Scope::of(key);
            let scope = match scope {
                Scope::App => session::Scope::App,
                Scope::User => session::Scope::User,
                Scope::Session => session::Scope::Session,
                Scope::Temp => return None,
            };
            Some(StateChange { scope, key: key.to_owned(), value: value.clone() })
        })
        .collect();
    changes.sort_by_key(|change| change.scope);
    changes
}

fn prefix(scope: session::Scope) -> &'static str {
    match scope {
        session::Scope::App => Scope::App.prefix(),
        session::Scope::User => Scope::User.prefix(),
        session::Scope::Session => Scope::Session.prefix(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_size_counts_keys_and_nested_values() {
        let bytes =
            |value: Value| StateAdapter { values: value.as_object().cloned().unwrap_or_default() }.bytes();
        let long = "x".repeat(1000);
        assert_eq!(bytes(json!({})), 0);
        for state in [
            json!({&long: 1}),
            json!({"a": long}),
            json!({"a": [{"b": [long]}]}),
            json!({"a": {&long: null}}),
        ] {
            assert!((1000..1500).contains(&bytes(state.clone())), "{} {state}", bytes(state.clone()));
        }
        assert!(bytes(json!({"a": vec![0; 1000]})) >= 1000 * size_of::<Value>());
    }

    #[test]
    fn without_unchanged_drops_reserved_keys_with_equal_values() {
        let map = |value: Value| value.as_object().cloned().unwrap_or_default();
        let state = StateAdapter { values: map(json!({"lango:a": true, "lango:b": false, "c": 1})) };
        let delta = map(json!({"lango:a": true, "lango:b": null, "lango:d": false, "c": 1}));
        assert_eq!(without_unchanged(&delta, &state), map(json!({"c": 1})));
        let delta = map(json!({"lango:a": false, "lango:b": true, "lango:d": "x"}));
        assert_eq!(without_unchanged(&delta, &state), delta);
    }
}
