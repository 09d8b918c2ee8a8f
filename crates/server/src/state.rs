//! The state that the handlers share.

use crate::{
    app_registry::{AppLookupError, AppRegistry, ServedApp},
    error::ApiError,
    handlers::dev_ui::DevUi,
    instrument::LogSink,
    metrics::{Metrics, SseReaderGuard},
    principal::Principal,
    readiness::Readiness,
};
use axum::http::StatusCode;
use bridge::{
    Agent, Archive, Runs,
    runs::{RecoverySource, RunPermit},
};
use std::{path::PathBuf, sync::Arc};
use telemetry::Telemetry;

/// The state of one server. Clones share it.
#[derive(Clone, Debug)]
pub struct ServerState {
    pub(crate) apps: Arc<dyn AppRegistry>,
    pub(crate) archive: Archive,
    pub(crate) runs: Runs,
    pub(crate) dev_ui: Arc<DevUi>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) readiness: Arc<Readiness>,
    pub(crate) log: Option<LogSink>,
    pub(crate) telemetry: Telemetry,
    /// The maximum number of concurrent runs per user; zero for no limit.
    pub(crate) runs_per_user: usize,
}

impl ServerState {
    pub fn new(apps: Arc<dyn AppRegistry>, archive: Archive, runs: Runs) -> Self {
        Self {
            apps,
            archive,
            runs,
            dev_ui: Arc::new(DevUi::new(|| None)),
            metrics: Arc::default(),
            readiness: Arc::default(),
            log: None,
            telemetry: Telemetry::default(),
            runs_per_user: 0,
        }
    }

    /// Serves ADK's web page from a directory. `locate` is called once, on the first request for the page.
    pub fn with_dev_ui(self, locate: impl Fn() -> Option<PathBuf> + Send + Sync + 'static) -> Self {
        Self { dev_ui: Arc::new(DevUi::new(locate)), ..self }
    }

    /// Writes a log line for each request.
    pub fn with_log(self, log: LogSink) -> Self {
        Self { log: Some(log), ..self }
    }

    /// Serves the spans of `telemetry` and records a span for each request.
    pub fn with_telemetry(self, telemetry: Telemetry) -> Self {
        Self { telemetry, ..self }
    }

    /// Acquires a permit for one more run of the caller. `None` if the caller's runs are not limited.
    pub(crate) fn run_permit(&self, caller: &Principal) -> Result<Option<RunPermit>, ApiError> {
        let limit = self.runs_per_user;
        let Some(user) = caller.user.as_deref().filter(|_| limit > 0 && !caller.admin) else {
            return Ok(None);
        };
        let detail =
            || format!("limit of {limit} concurrent runs reached; wait until one ends, or cancel one");
        let permit = self.runs.acquire_permit(user, limit);
        permit.map(Some).ok_or_else(|| ApiError::new(StatusCode::TOO_MANY_REQUESTS, detail()))
    }

    pub fn runs(&self) -> &Runs {
        &self.runs
    }

    /// Provides the agents that continue the runs of dead processes. `report` receives recovery problems.
    pub fn recovery_source(&self, report: fn(&str)) -> Arc<dyn RecoverySource> {
        Arc::new(AppRecoverySource { apps: Arc::clone(&self.apps), report })
    }

    pub(crate) fn app(&self, name: &str) -> Result<Arc<ServedApp>, ApiError> {
        self.apps.find(name).map_err(|error| match error {
            AppLookupError::NotFound(message) => ApiError::not_found(message),
            AppLookupError::Broken(message) => ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, message),
        })
    }

    /// Counts one more SSE reader until the guard is dropped.
    pub(crate) fn count_sse_reader(&self) -> SseReaderGuard {
        SseReaderGuard::new(Arc::clone(&self.metrics))
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
