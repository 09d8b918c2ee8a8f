//! The principal of a request: identity and permissions. The access layer authenticates it.

use crate::error::ApiError;
use adk::state::Scope;
use axum::{
    extract::FromRequestParts,
    http::{StatusCode, request::Parts},
};
use bridge::store::state::is_reserved;
use serde_json::{Map, Value};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// The only user whose sessions the principal may access. `None` with `admin` for all users.
    pub user: Option<String>,
    pub admin: bool,
}

impl Principal {
    /// The owner of the machine, who may access everything.
    pub fn administrator() -> Self {
        Self { user: None, admin: true }
    }

    /// Whether the principal may access the resources of a user.
    pub fn may_access(&self, user: &str) -> bool {
        self.user.as_deref().map_or(self.admin, |own| own == user)
    }

    /// Why the principal may not write a state key, if it may not. Keys of the app's scope are written by agents and
    /// administrators, keys with the program's prefix only by the program.
    pub(crate) fn read_only_reason(&self, key: &str) -> Option<&'static str> {
        if is_reserved(key) {
            return Some("is managed by the server and read-only");
        }
        let is_shared = Scope::of(key).0 == Scope::App && !self.admin;
        is_shared.then_some("is shared by all users and read-only; an administrator can change it")
    }

    /// The delta without its read-only keys. A read-only key may be sent back with its current value, as clients do that
    /// return a whole state; a different value is refused.
    pub(crate) fn writable_delta(
        &self,
        mut delta: Map<String, Value>,
        state: &Map<String, Value>,
    ) -> Result<Map<String, Value>, ApiError> {
        let differs = |key: &String, value: &Value| state.get(key).unwrap_or(&Value::Null) != value;
        for (key, value) in &delta {
            if let Some(reason) = self.read_only_reason(key).filter(|_| differs(key, value)) {
                return Err(ApiError::new(StatusCode::FORBIDDEN, format!("{key} {reason}")));
            }
        }
        delta.retain(|key, _| self.read_only_reason(key).is_none());
        Ok(delta)
    }
}

impl<S: Sync> FromRequestParts<S> for Principal {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let principal = parts.extensions.get::<Self>().cloned();
        principal.ok_or_else(|| ApiError::new(StatusCode::UNAUTHORIZED, "not authenticated"))
    }
}
