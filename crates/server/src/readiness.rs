//! Readiness: whether the store accepts a write and a read, and at least one app can be used.
//!
//! The endpoint is public, so a check is cheap: its result is cached for a moment, and concurrent requests share one check.
//! Apps that cannot be loaded are named with the kind of their fault; only administrators see the reason.

use crate::{
    access::AccessControl,
    app_registry::{AppsStatus, BrokenApp},
    error::ApiError,
    handlers::Json,
    state::ServerState,
};
use axum::{
    Extension,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use bridge::Archive;
use lock::LockExt;
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Mutex, time::Duration};
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};

/// How long a result is cached.
const CACHE_TIME: Duration = Duration::from_secs(1);
/// How long a request waits for a check. The check continues, and the next request waits for the same one.
const CHECK_TIMEOUT: Duration = Duration::from_secs(2);

type ReadinessResult = Result<(), ApiError>;
/// `None` while the check is running.
type ReadinessCheck = watch::Receiver<Option<(Instant, ReadinessResult)>>;

/// The last check of the store, or the running one.
#[derive(Debug, Default)]
pub(crate) struct Readiness {
    check: Mutex<Option<ReadinessCheck>>,
}

/// Handles `GET /readyz`.
pub(crate) async fn ready(
    State(server): State<ServerState>,
    Extension(access): Extension<AccessControl>,
    headers: HeaderMap,
) -> Response {
    if let Err(error) = server.readiness.result(&server.archive).await {
        return ApiError { status: StatusCode::SERVICE_UNAVAILABLE, ..error }.into_response();
    }
    let apps = server.apps.status();
    let with_reasons = !apps.broken.is_empty() && access.is_administrator(&headers).await;
    let mut body = describe(&apps, &server.runs.stalled(), with_reasons);
    if apps.served > 0 {
        body["status"] = "ready".into();
        return Json(body).into_response();
    }
    body["detail"] = "no app can be loaded".into();
    body["kind"] = "no_app".into();
    (StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response()
}

/// The apps that cannot be loaded, and the runs that wait for them.
fn describe(apps: &AppsStatus, stalled: &BTreeMap<String, usize>, with_reasons: bool) -> Value {
    let app = |BrokenApp { name, fault, serves_previous }: &BrokenApp| {
        let mut app = json!({"name": name, "kind": fault.kind.as_str(), "servesPrevious": serves_previous});
        if with_reasons {
            app["reason"] = fault.reason.as_str().into();
        }
        app
    };
    let broken: Vec<Value> = apps.broken.iter().map(app).collect();
    let stalled: Vec<Value> = stalled.iter().map(|(app, runs)| json!({"app": app, "runs": runs})).collect();
    json!({"apps": {"broken": broken}, "recovery": {"stalled": stalled}})
}

impl Readiness {
    async fn result(&self, archive: &Archive) -> ReadinessResult {
        let mut check = self.current_check(archive);
        let done = timeout(CHECK_TIMEOUT, check.wait_for(Option::is_some)).await;
        match done.as_ref().map(Result::as_deref) {
            Ok(Ok(Some((_, result)))) => result.clone(),
            Ok(Ok(None) | Err(_)) | Err(_) => Err(store_busy()),
        }
    }

    /// The cached or running check; starts a new one if there is none.
    fn current_check(&self, archive: &Archive) -> ReadinessCheck {
        let mut current = self.check.locked();
        if let Some(check) = current.as_ref().filter(|check| is_current(check)) {
            return check.clone();
        }
        let (done, check) = watch::channel(None);
        *current = Some(check.clone());
        let archive = archive.clone();
        tokio::spawn(async move {
            let result = archive.check().await.map_err(ApiError::from);
            done.send_replace(Some((Instant::now(), result)));
        });
        check
    }
}

fn is_current(check: &ReadinessCheck) -> bool {
    match &*check.borrow() {
        Some((done, _)) => done.elapsed() < CACHE_TIME,
        // The sender is gone if the task of the check panicked.
        None => check.has_changed().is_ok(),
    }
}

fn store_busy() -> ApiError {
    let detail = "the store has accepted no write for two seconds: another program holds its lock, or the disk is slow";
    let error = ApiError::new(StatusCode::SERVICE_UNAVAILABLE, detail);
    ApiError { kind: Some("busy"), retry_after: Some(1), ..error }
}
