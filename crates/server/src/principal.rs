//! Who asks. The layer before all routes says so; whoever has not passed it is nobody.

use crate::error::Failure;
use adk::state::Scope;
use axum::{
    extract::FromRequestParts,
    http::{StatusCode, request::Parts},
};
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

    /// What all users share is changed by agents and administrators.
    pub(crate) fn may_write(&self, state: &Map<String, Value>) -> Result<(), Failure> {
        let shared = state.keys().find(|name| Scope::of(name).0 == Scope::App);
        match shared.filter(|_| !self.admin) {
            Some(name) => {
                let told = format!("{name} is shared by all users, and yours to read only");
                Err(Failure::new(StatusCode::FORBIDDEN, told))
            }
            None => Ok(()),
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Principal {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let known = parts.extensions.get::<Self>().cloned();
        known.ok_or_else(|| Failure::new(StatusCode::UNAUTHORIZED, "nobody has said who asks"))
    }
}
