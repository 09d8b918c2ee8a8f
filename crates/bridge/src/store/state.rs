//! StateAdapter: ADK's flat map with prefixes, and the store's rows with scopes.

use adk::state::Scope;
use serde_json::{Map, Value};
use session::StateChange;

/// Keys that begin so are the program's own: what it has seen of a conversation. Clients, agents and tools may read them.
const OWN: &str = "lango:";

/// Whether a key is the program's own, so that nobody else may write it.
pub fn is_own(key: &str) -> bool {
    key.starts_with(OWN)
}

/// The state of a session in memory. `temp:` keys live here and nowhere else.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StateAdapter {
    values: Map<String, Value>,
}

impl StateAdapter {
    /// In ADK's order: the session's own keys, then the app's, then the user's.
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

    /// What is this session's alone, and may be kept: others change the rest, and `temp:` ends with its turn.
    pub(crate) fn own(&self) -> Self {
        let is_own = |(key, _): &(&String, &Value)| Scope::of(key).0 == Scope::Session;
        let own = self.values.iter().filter(is_own);
        Self { values: own.map(|(key, value)| (key.clone(), value.clone())).collect() }
    }

    /// Adds the state that is shared with other sessions.
    pub(crate) fn share(&mut self, rows: Vec<StateChange>) {
        self.values.extend(Self::new(rows).values);
    }

    pub(crate) fn apply(&mut self, delta: &Map<String, Value>) {
        self.values.extend(delta.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
}

/// A delta without what is so already among the program's own keys. One that is not there says as much as `false`.
pub(crate) fn news(delta: &Map<String, Value>, state: &StateAdapter) -> Map<String, Value> {
    let says_no = |value: &Value| value.is_null() || value == false;
    let is_so = |key: &str, value: &Value| {
        let known = state.get(key);
        known == Some(value) || (says_no(value) && known.is_none_or(says_no))
    };
    let kept = delta.iter().filter(|(key, value)| !(is_own(key) && is_so(key, value)));
    kept.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// The rows that a delta changes, in the order in which they are locked; `temp:` is in none.
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
    fn only_what_the_program_does_not_know_yet_of_its_own_is_news() {
        let map = |value: Value| value.as_object().cloned().unwrap_or_default();
        let state = StateAdapter { values: map(json!({"lango:a": true, "lango:b": false, "c": 1})) };
        let delta = map(json!({"lango:a": true, "lango:b": null, "lango:d": false, "c": 1}));
        assert_eq!(news(&delta, &state), map(json!({"c": 1})));
        let delta = map(json!({"lango:a": false, "lango:b": true, "lango:d": "x"}));
        assert_eq!(news(&delta, &state), delta);
    }
}
