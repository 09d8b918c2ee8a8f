//! The stored state at the end of a round, read from a new server.

use crate::{
    Result,
    harness::{
        event_id::EventId,
        http::HttpRequest,
        machine::{run_path, session_path, sessions_path},
    },
};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

const REQUEST: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(50);
/// More than a session of one round has.
const MOST_RUNS: usize = 1_000;

#[derive(Debug, Default)]
pub(super) struct StoredState {
    pub(super) sessions: BTreeMap<String, StoredSession>,
}

#[derive(Debug, Default)]
pub(super) struct StoredSession {
    pub(super) events: Vec<Value>,
    /// The newest first.
    pub(super) runs: Vec<StoredRun>,
}

#[derive(Debug)]
pub(super) struct StoredRun {
    pub(super) id: String,
    pub(super) status: String,
    pub(super) error: Option<String>,
    /// The events that a reader of the run receives; empty if the run is not over.
    pub(super) events: Vec<Value>,
}

impl StoredRun {
    pub(super) fn is_over(&self) -> bool {
        matches!(self.status.as_str(), "done" | "failed" | "cancelled" | "interrupted")
    }
}

impl StoredState {
    /// Reads all sessions whose id has this prefix, when their runs are over or at the deadline.
    pub(super) fn read(server: SocketAddr, prefix: &str, deadline: Instant) -> Result<Self> {
        let mut stored_state = Self::default();
        let listed = get(server, &sessions_path())?;
        let ids = listed.as_array().map(Vec::as_slice).unwrap_or_default().iter();
        for id in ids.filter_map(|session| session["id"].as_str()).filter(|id| id.starts_with(prefix)) {
            let mut runs = wait_for_runs(server, id, deadline)?;
            for run in runs.iter_mut().filter(|run| run.is_over()) {
                run.events = run_events(server, id, &run.id)?;
            }
            let session = get(server, &session_path(id))?;
            let events = session["events"].as_array().cloned().unwrap_or_default();
            stored_state.sessions.insert(id.to_owned(), StoredSession { events, runs });
        }
        Ok(stored_state)
    }
}

fn get(server: SocketAddr, path: &str) -> Result<Value> {
    let answer = HttpRequest::get(path).send(server, REQUEST)?;
    match answer.status {
        200 => Ok(answer.json()?),
        status => Err(format!("{path} is answered {status} {}", answer.json()?).into()),
    }
}

fn wait_for_runs(server: SocketAddr, session: &str, deadline: Instant) -> Result<Vec<StoredRun>> {
    let path = format!("{}/runs?limit={MOST_RUNS}", session_path(session));
    loop {
        let listed = get(server, &path)?;
        let runs: Vec<StoredRun> =
            listed.as_array().map(Vec::as_slice).unwrap_or_default().iter().map(stored_run).collect();
        if runs.iter().all(StoredRun::is_over) || Instant::now() >= deadline {
            return Ok(runs);
        }
        thread::sleep(POLL);
    }
}

fn stored_run(run: &Value) -> StoredRun {
    let text = |name: &str| run[name].as_str().map(str::to_owned);
    StoredRun {
        id: text("id").unwrap_or_default(),
        status: text("status").unwrap_or_default(),
        error: text("error"),
        events: Vec::new(),
    }
}

fn run_events(server: SocketAddr, session: &str, run: &str) -> Result<Vec<Value>> {
    let path = format!("{}/events", run_path(session, run));
    let answer = HttpRequest::get(&path).send(server, REQUEST)?;
    let mut events = Vec::new();
    for event in answer.events() {
        let event = event?;
        // The server also sends the partial events of a run that it has finished itself. The line that reports the failure of a
        // run has no id.
        if event.id.as_deref().and_then(EventId::parse).is_some_and(|id| id.partial.is_none()) {
            events.push(event.data);
        }
    }
    Ok(events)
}
