//! What the handlers work with.

use crate::{
    apps::{App, AppError, Apps},
    error::Failure,
};
use axum::http::StatusCode;
use bridge::{Archive, Runs};
use std::sync::Arc;

/// One server. Its clones are the same.
#[derive(Clone, Debug)]
pub struct Server {
    pub(crate) apps: Arc<dyn Apps>,
    pub(crate) archive: Archive,
    pub(crate) runs: Runs,
}

impl Server {
    pub fn new(apps: Arc<dyn Apps>, archive: Archive, runs: Runs) -> Self {
        Self { apps, archive, runs }
    }

    pub fn runs(&self) -> &Runs {
        &self.runs
    }

    pub(crate) fn app(&self, name: &str) -> Result<Arc<App>, Failure> {
        self.apps.find(name).map_err(|error| match error {
            AppError::NotFound(message) => Failure::not_found(message),
            AppError::Broken(message) => Failure::new(StatusCode::INTERNAL_SERVER_ERROR, message),
        })
    }
}
