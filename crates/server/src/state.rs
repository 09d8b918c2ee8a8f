//! The state that the handlers share.

use crate::{
    app_registry::{AppFault, AppLookupError, AppRegistry, ServedApp},
    body_budget::BodyBudget,
    error::ApiError,
    handlers::dev_ui::DevUi,
    instrument::LogSink,
    limits::ServerLimits,
    metrics::{Metrics, SseReaderGuard},
    principal::Principal,
    readiness::Readiness,
    response_budget::ResponseBudget,
};
use axum::{extract::FromRef, http::StatusCode};
use bridge::{
    Agent, Archive, Runs,
    runs::{RecoverySource, RunPermit},
    store::{upkeep::Upkeep, usage_report::PriceBook},
};
use std::{path::PathBuf, sync::Arc};
use telemetry::Telemetry;

/// The longest name of an app in bytes: the name is that of a directory.
const MAX_APP_NAME: usize = 255;

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
    /// The maximum number of sessions per user.
    pub(crate) session_quota: Option<u64>,
    pub(crate) response_budget: ResponseBudget,
    pub(crate) body_budget: BodyBudget,
    pub(crate) prices: Prices,
    /// Woken when a session was deleted.
    pub(crate) upkeep: Option<Upkeep>,
}

/// The prices of models.
#[derive(Clone)]
pub(crate) struct Prices(PriceBook);

impl std::ops::Deref for Prices {
    type Target = PriceBook;

    fn deref(&self) -> &PriceBook {
        &self.0
    }
}

impl std::fmt::Debug for Prices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prices").finish_non_exhaustive()
    }
}

impl FromRef<ServerState> for BodyBudget {
    fn from_ref(server: &ServerState) -> Self {
        server.body_budget.clone()
    }
}

impl ServerState {
    pub fn new(apps: Arc<dyn AppRegistry>, archive: Archive, runs: Runs) -> Self {
        let limits = ServerLimits::default();
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
            session_quota: None,
            response_budget: ResponseBudget::new(limits.response_memory),
            body_budget: BodyBudget::new(limits.body, limits.body_memory),
            prices: Prices(Arc::new(|_| None)),
            upkeep: None,
        }
    }

    /// Sets the prices of models, for reports of usage.
    pub fn with_prices(self, prices: PriceBook) -> Self {
        Self { prices: Prices(prices), ..self }
    }

    /// Wakes the upkeep of the store when a session was deleted.
    pub fn with_upkeep(self, upkeep: Upkeep) -> Self {
        Self { upkeep: Some(upkeep), ..self }
    }

    pub(crate) fn with_limits(self, limits: &ServerLimits) -> Self {
        Self {
            runs_per_user: limits.runs_per_user,
            session_quota: Some(limits.sessions_per_user).filter(|quota| *quota > 0),
            response_budget: ResponseBudget::new(limits.response_memory),
            body_budget: BodyBudget::new(limits.body, limits.body_memory),
            ..self
        }
    }

    /// Serves ADK's web page from a directory. `locate` is called once, when the page is first needed.
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

    /// Finds an app for a caller. Only administrators see why an app is broken: the reason names files and settings.
    pub(crate) fn app(&self, caller: &Principal, name: &str) -> Result<Arc<ServedApp>, ApiError> {
        self.apps.find(name).map_err(|error| match error {
            AppLookupError::NotFound(_) if !is_app_name(name) => ApiError::not_found(format!(
                "Invalid agent name: {}. Agent names must be valid Python identifiers (letters, digits, and underscores only).",
                quote(name)
            )),
            AppLookupError::NotFound(message) => ApiError::not_found(message),
            AppLookupError::Broken(AppFault { kind, reason }) => {
                let detail = if caller.admin { reason } else { format!("the app {name} cannot be loaded") };
                let error = ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, detail);
                ApiError { kind: Some(kind.as_str()), ..error }
            }
        })
    }

    /// Fails with 404 unless the app exists. An app with an invalid configuration exists.
    pub(crate) fn require_app(&self, name: &str) -> Result<(), ApiError> {
        match self.app(&Principal::administrator(), name) {
            Err(error) if error.status == StatusCode::NOT_FOUND => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Whether ADK's web page is installed. The first call locates it.
    pub async fn has_dev_ui(&self) -> bool {
        let dev_ui = Arc::clone(&self.dev_ui);
        tokio::task::spawn_blocking(move || dev_ui.is_installed()).await.unwrap_or(false)
    }

    /// Counts one more SSE reader until the guard is dropped.
    pub(crate) fn count_sse_reader(&self) -> SseReaderGuard {
        SseReaderGuard::new(Arc::clone(&self.metrics))
    }
}

/// Whether ADK accepts the name of an app. The registry may serve others as well.
fn is_app_name(name: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !name.is_empty() && name.len() <= MAX_APP_NAME && name.bytes().all(is_word)
}

/// The beginning of a name from a client, without control characters.
fn quote(name: &str) -> String {
    let shown: String = name.chars().take(MAX_APP_NAME).collect();
    let rest = if shown.len() < name.len() { "…" } else { "" };
    format!("'{}{rest}'", shown.escape_debug())
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
