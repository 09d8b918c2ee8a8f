//! StateAdapter: converts between ADK's flat map of prefixed keys and the store's rows with scopes.

use adk::state::Scope;
use serde_json::{Map, Value};
use session::StateChange;

/// Prefix of reserved keys: the program writes them; clients, agents and tools may only read them.
const RESERVED_PREFIX: &str = "lango:";

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
    fn without_unchanged_drops_reserved_keys_with_equal_values() {
        let map = |value: Value| value.as_object().cloned().unwrap_or_default();
        let state = StateAdapter { values: map(json!({"lango:a": true, "lango:b": false, "c": 1})) };
        let delta = map(json!({"lango:a": true, "lango:b": null, "lango:d": false, "c": 1}));
        assert_eq!(without_unchanged(&delta, &state), map(json!({"c": 1})));
        let delta = map(json!({"lango:a": false, "lango:b": true, "lango:d": "x"}));
        assert_eq!(without_unchanged(&delta, &state), delta);
    }
}
