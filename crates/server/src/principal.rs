//! Who asks. The layer before all routes says so; whoever has not passed it is nobody.

use crate::error::ApiError;
use adk::state::Scope;
use axum::{
    extract::FromRequestParts,
    http::{StatusCode, request::Parts},
};
use bridge::state::is_own;
use serde_json::{Map, Value};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// The only user whose sessions it may see; `None` for one who may see all.
    pub user: Option<String>,
    pub admin: bool,
}

impl Principal {
    /// Whoever sits at the machine.
    pub fn administrator() -> Self {
        Self { user: None, admin: true }
    }

    pub fn may_be(&self, user: &str) -> bool {
        self.user.as_deref().map_or(self.admin, |own| own == user)
    }

    /// Why a key of a state is not this principal's to write, if it is not: what all users share is changed by agents and
    /// administrators, and what the program has seen by the program.
    pub(crate) fn reads_only(&self, name: &str) -> Option<&'static str> {
        if is_own(name) {
            return Some("is kept by the server, and yours to read only");
        }
        let is_shared = Scope::of(name).0 == Scope::App && !self.admin;
        is_shared.then_some("is shared by all users, and yours to read only")
    }

    /// The changes without what is not theirs to write. Whoever sends back a whole state as it was read sends that too,
    /// as it is; what differs is refused.
    pub(crate) fn changes(
        &self,
        mut delta: Map<String, Value>,
        state: &Map<String, Value>,
    ) -> Result<Map<String, Value>, ApiError> {
        let differs = |name: &String, value: &Value| state.get(name).unwrap_or(&Value::Null) != value;
        for (name, value) in &delta {
            if let Some(why) = self.reads_only(name).filter(|_| differs(name, value)) {
                return Err(ApiError::new(StatusCode::FORBIDDEN, format!("{name} {why}")));
            }
        }
        delta.retain(|name, _| self.reads_only(name).is_none());
        Ok(delta)
    }
}

impl<S: Sync> FromRequestParts<S> for Principal {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let known = parts.extensions.get::<Self>().cloned();
        known.ok_or_else(|| ApiError::new(StatusCode::UNAUTHORIZED, "nobody has said who asks"))
    }
}
