//! Who asks. A layer before the handlers puts it into the request's extensions; without any it is the administrator.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use std::convert::Infallible;

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
}

impl<S: Sync> FromRequestParts<S> for Principal {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or_else(Self::administrator))
    }
}
