//! What the handlers work with.

use crate::{
    apps::{App, AppError, Apps},
    error::Failure,
    handlers::page::Page,
    observe::{LogLine, Metrics},
    principal::Principal,
};
use axum::http::StatusCode;
use bridge::{Archive, Runs, Telemetry, runs::Seat};
use futures::{StreamExt, stream};
use std::{
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
};

/// How many sessions that a dead process left are gone on with at once.
const TAKEN_UP: usize = 64;

/// One server. Its clones are the same.
#[derive(Clone, Debug)]
pub struct Server {
    pub(crate) apps: Arc<dyn Apps>,
    pub(crate) archive: Archive,
    pub(crate) runs: Runs,
    pub(crate) page: Arc<Page>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) log: Option<LogLine>,
    pub(crate) telemetry: Telemetry,
    /// How many runs a user may have at a time; zero for any number.
    pub(crate) runs_per_user: usize,
}

impl Server {
    pub fn new(apps: Arc<dyn Apps>, archive: Archive, runs: Runs) -> Self {
        let page = Arc::new(Page::new(|| None));
        Self {
            apps,
            archive,
            runs,
            page,
            metrics: Arc::default(),
            log: None,
            telemetry: Telemetry::default(),
            runs_per_user: 0,
        }
    }

    /// With ADK's web page from the folder that is found when somebody asks for it.
    pub fn with_page(self, find: impl Fn() -> Option<PathBuf> + Send + Sync + 'static) -> Self {
        Self { page: Arc::new(Page::new(find)), ..self }
    }

    /// With a line for each request.
    pub fn with_log(self, log: LogLine) -> Self {
        Self { log: Some(log), ..self }
    }

    /// With what records the runs.
    pub fn with_telemetry(self, telemetry: Telemetry) -> Self {
        Self { telemetry, ..self }
    }

    /// A place for one more run of whoever asks, where places are counted.
    pub(crate) fn seat(&self, caller: &Principal) -> Result<Option<Seat>, Failure> {
        let most = self.runs_per_user;
        let Some(user) = caller.user.as_deref().filter(|_| most > 0 && !caller.admin) else {
            return Ok(None);
        };
        let detail = || format!("{most} of your runs go on already; wait until one ends, or cancel one");
        let seat = self.runs.seat(user, most);
        seat.map(Some).ok_or_else(|| Failure::new(StatusCode::TOO_MANY_REQUESTS, detail()))
    }

    pub fn runs(&self) -> &Runs {
        &self.runs
    }

    /// Goes on with what a dead process left: runs that it was in, and messages that wait for nobody any more. Answers with what
    /// could not be taken up.
    pub async fn take_up(&self) -> Vec<String> {
        let left = match self.runs.left().await {
            Ok(left) => left,
            Err(error) => return vec![error.to_string()],
        };
        let one = |key: adk::session::SessionKey| async move {
            let app = self.apps.find(&key.app_name).map_err(|error| format!("{key}: {error}"))?;
            self.runs.take_up(&app.agent, &key).await.map_err(|error| format!("{key}: {error}"))
        };
        let done: Vec<Result<(), String>> =
            stream::iter(left).map(one).buffer_unordered(TAKEN_UP).collect().await;
        done.into_iter().filter_map(Result::err).collect()
    }

    pub(crate) fn app(&self, name: &str) -> Result<Arc<App>, Failure> {
        self.apps.find(name).map_err(|error| match error {
            AppError::NotFound(message) => Failure::not_found(message),
            AppError::Broken(message) => Failure::new(StatusCode::INTERNAL_SERVER_ERROR, message),
        })
    }

    pub(crate) fn reading(&self) -> Reading {
        self.metrics.readers.fetch_add(1, Ordering::Relaxed);
        Reading(Arc::clone(&self.metrics))
    }
}

/// Counts as a reader while it lives.
#[derive(Debug)]
pub(crate) struct Reading(Arc<Metrics>);

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.readers.fetch_sub(1, Ordering::Relaxed);
    }
}
