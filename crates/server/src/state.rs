//! What the handlers work with.

use crate::{
    app_registry::{AppLookupError, AppRegistry, ServedApp},
    error::ApiError,
    handlers::dev_ui::DevUi,
    observe::{LogSink, Metrics},
    principal::Principal,
    readiness::Readiness,
};
use axum::http::StatusCode;
use bridge::{
    Agent, Archive, Runs, Telemetry,
    runs::{RecoverySource, RunPermit},
};
use std::{
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
};

/// One server. Its clones are the same.
#[derive(Clone, Debug)]
pub struct ServerState {
    pub(crate) apps: Arc<dyn AppRegistry>,
    pub(crate) archive: Archive,
    pub(crate) runs: Runs,
    pub(crate) page: Arc<DevUi>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) readiness: Arc<Readiness>,
    pub(crate) log: Option<LogSink>,
    pub(crate) telemetry: Telemetry,
    /// How many runs a user may have at a time; zero for any number.
    pub(crate) runs_per_user: usize,
}

impl ServerState {
    pub fn new(apps: Arc<dyn AppRegistry>, archive: Archive, runs: Runs) -> Self {
        let page = Arc::new(DevUi::new(|| None));
        Self {
            apps,
            archive,
            runs,
            page,
            metrics: Arc::default(),
            readiness: Arc::default(),
            log: None,
            telemetry: Telemetry::default(),
            runs_per_user: 0,
        }
    }

    /// With ADK's web page from the folder that is found when somebody asks for it.
    pub fn with_page(self, find: impl Fn() -> Option<PathBuf> + Send + Sync + 'static) -> Self {
        Self { page: Arc::new(DevUi::new(find)), ..self }
    }

    /// With a line for each request.
    pub fn with_log(self, log: LogSink) -> Self {
        Self { log: Some(log), ..self }
    }

    /// With what records the runs.
    pub fn with_telemetry(self, telemetry: Telemetry) -> Self {
        Self { telemetry, ..self }
    }

    /// A place for one more run of whoever asks, where places are counted.
    pub(crate) fn run_permit(&self, caller: &Principal) -> Result<Option<RunPermit>, ApiError> {
        let most = self.runs_per_user;
        let Some(user) = caller.user.as_deref().filter(|_| most > 0 && !caller.admin) else {
            return Ok(None);
        };
        let detail = || format!("{most} of your runs go on already; wait until one ends, or cancel one");
        let permit = self.runs.acquire_permit(user, most);
        permit.map(Some).ok_or_else(|| ApiError::new(StatusCode::TOO_MANY_REQUESTS, detail()))
    }

    pub fn runs(&self) -> &Runs {
        &self.runs
    }

    /// Where recovery finds the agents of runs that other processes left.
    pub fn recovery_source(&self, report: fn(&str)) -> Arc<dyn RecoverySource> {
        Arc::new(AppRecoverySource { apps: Arc::clone(&self.apps), report })
    }

    pub(crate) fn app(&self, name: &str) -> Result<Arc<ServedApp>, ApiError> {
        self.apps.find(name).map_err(|error| match error {
            AppLookupError::NotFound(message) => ApiError::not_found(message),
            AppLookupError::Broken(message) => ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, message),
        })
    }

    pub(crate) fn reading(&self) -> SseReaderGuard {
        self.metrics.readers.fetch_add(1, Ordering::Relaxed);
        SseReaderGuard(Arc::clone(&self.metrics))
    }
}

struct AppRecoverySource {
    apps: Arc<dyn AppRegistry>,
    report: fn(&str),
}

impl RecoverySource for AppRecoverySource {
    fn agent(&self, app: &str) -> Result<Agent, String> {
        self.apps.find(app).map(|app| app.agent.clone()).map_err(|error| error.to_string())
    }

    fn report(&self, problem: &str) {
        (self.report)(problem);
    }
}

/// Counts as a reader while it lives.
#[derive(Debug)]
pub(crate) struct SseReaderGuard(Arc<Metrics>);

impl Drop for SseReaderGuard {
    fn drop(&mut self) {
        self.0.readers.fetch_sub(1, Ordering::Relaxed);
    }
}
