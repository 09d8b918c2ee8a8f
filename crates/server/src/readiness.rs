//! Whether the server can work: whether its store takes a write and answers a read.
//!
//! Anybody may ask, so an answer costs little: it is true for a moment, and callers that come together share one check.

use crate::{error::ApiError, state::ServerState};
use axum::{
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use bridge::Archive;
use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};

/// How long an answer is true.
const FRESH: Duration = Duration::from_secs(1);
/// How long a check is waited for. It goes on, and whoever asks next waits for the same.
const PATIENCE: Duration = Duration::from_secs(2);

type ReadinessResult = Result<(), ApiError>;
/// Empty while the check is under way.
type ReadinessCheck = watch::Receiver<Option<(Instant, ReadinessResult)>>;

/// The last check of the store, or the one that is under way.
#[derive(Debug, Default)]
pub(crate) struct Readiness {
    check: Mutex<Option<ReadinessCheck>>,
}

/// Stands for `GET /readyz`.
pub(crate) async fn ready(State(server): State<ServerState>) -> Response {
    match server.readiness.outcome(&server.archive).await {
        Ok(()) => crate::handlers::json(r#"{"status":"ready"}"#),
        Err(failure) => ApiError { status: StatusCode::SERVICE_UNAVAILABLE, ..failure }.into_response(),
    }
}

impl Readiness {
    async fn outcome(&self, archive: &Archive) -> ReadinessResult {
        let mut check = self.current(archive);
        let done = timeout(PATIENCE, check.wait_for(Option::is_some)).await;
        match done.as_ref().map(Result::as_deref) {
            Ok(Ok(Some((_, outcome)))) => outcome.clone(),
            Ok(Ok(None) | Err(_)) | Err(_) => Err(slow()),
        }
    }

    /// The check that is fresh or under way, or a new one.
    fn current(&self, archive: &Archive) -> ReadinessCheck {
        let mut current = self.check.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(check) = current.as_ref().filter(|check| is_current(check)) {
            return check.clone();
        }
        let (done, check) = watch::channel(None);
        *current = Some(check.clone());
        let archive = archive.clone();
        tokio::spawn(async move {
            let outcome = archive.check().await.map_err(ApiError::from);
            done.send_replace(Some((Instant::now(), outcome)));
        });
        check
    }
}

fn is_current(check: &ReadinessCheck) -> bool {
    match &*check.borrow() {
        Some((done, _)) => done.elapsed() < FRESH,
        // One whose task died has no sender any more.
        None => check.has_changed().is_ok(),
    }
}

fn slow() -> ApiError {
    let detail = "the store has not taken a write for two seconds: another program holds its lock, or the disk is slow";
    let failure = ApiError::new(StatusCode::SERVICE_UNAVAILABLE, detail);
    ApiError { kind: Some("busy"), retry_after: Some(1), ..failure }
}
