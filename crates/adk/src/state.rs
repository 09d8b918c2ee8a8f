//! The scopes of state keys. State is one flat map; the prefix of a key is its scope.

use serde_json::{Map, Value};

/// The scope of a state key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// `app:` — all users.
    App,
    /// `user:` — all sessions of the user.
    User,
    Session,
    /// `temp:` — this invocation; never stored.
    Temp,
}

impl Scope {
    pub fn prefix(self) -> &'static str {
        match self {
            Self::App => "app:",
            Self::User => "user:",
            Self::Session => "",
            Self::Temp => "temp:",
        }
    }

    /// The scope of a key, and the key without its prefix.
    pub fn of(key: &str) -> (Self, &str) {
        [Self::App, Self::User, Self::Temp]
            .into_iter()
            .find_map(|scope| Some((scope, key.strip_prefix(scope.prefix())?)))
            .unwrap_or((Self::Session, key))
    }
}

/// A state delta without `temp:` keys.
pub fn without_temp(delta: &Map<String, Value>) -> Map<String, Value> {
    delta
        .iter()
        .filter(|(key, _)| Scope::of(key).0 != Scope::Temp)
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_of_a_key_is_its_scope() {
        assert_eq!(Scope::of("app:a"), (Scope::App, "a"));
        assert_eq!(Scope::of("user:a"), (Scope::User, "a"));
        assert_eq!(Scope::of("temp:a"), (Scope::Temp, "a"));
        assert_eq!(Scope::of("a"), (Scope::Session, "a"));
        assert_eq!(Scope::of("apps:a"), (Scope::Session, "apps:a"));
    }
}
