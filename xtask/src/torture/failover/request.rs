//! The requests of a failover test. It sends few of them and expects each to succeed: no fault of the disk is injected meanwhile.

use super::super::{
    client::message_body,
    journal::{Message, Moment, ServerName},
    stage::{Stage, count},
};
use crate::harness::{
    http::{Answer, HttpRequest},
    machine::{run_path, session_path, sessions_path},
    script::Kind,
};
use serde_json::{Value, json};
use std::{net::SocketAddr, time::Duration};

const REQUEST: Duration = Duration::from_secs(5);
/// A server that finds the write lock free needs a few milliseconds.
const PROBE: Duration = Duration::from_secs(1);

/// A message that was accepted.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) session: String,
    pub(super) token: String,
    pub(super) run: String,
    pub(super) accepted: Moment,
}

/// Creates a session and returns whether it is stored. It may exist.
pub(super) fn create_session(server: SocketAddr, session: &str) -> bool {
    create_within(server, session, REQUEST)
}

/// Whether the database accepts writes: a process that was stopped in a transaction holds the write lock.
pub(super) fn accepts_writes(server: SocketAddr, session: &str) -> bool {
    create_within(server, session, PROBE)
}

fn create_within(server: SocketAddr, session: &str, time: Duration) -> bool {
    let body = json!({"sessionId": session});
    let answer = HttpRequest::post(&sessions_path(), &body).send(server, time);
    answer.is_ok_and(|answer| matches!(answer.status, 200 | 409))
}

/// Sends a message and records it. `None` if it was not accepted.
pub(super) fn send(
    stage: &Stage<'_>,
    (server, name): (SocketAddr, ServerName),
    session: &str,
    kind: Kind,
) -> Option<Sent> {
    let first_sent = stage.now();
    let token = format!("{session}-{}", first_sent.as_micros());
    let body = message_body(&kind.message(&token));
    let path = format!("{}/runs", session_path(session));
    let answer = HttpRequest::post(&path, &body).send(server, REQUEST);
    let run = answer.ok().filter(|answer| answer.status == 202);
    let run = run.and_then(|answer| answer.header("x-run-id").map(str::to_owned));
    let accepted = stage.now();
    if run.is_some() {
        count(&stage.tally.messages);
    }
    let message = Message {
        session: session.to_owned(),
        token: token.clone(),
        kind,
        key: None,
        first_sent,
        accepted: run.as_ref().map(|_| accepted),
        accepted_by: run.as_ref().map(|_| name),
        runs: run.iter().cloned().collect(),
        is_cancelled: false,
    };
    stage.journal.with(|record| record.messages.push(message));
    Some(Sent { session: session.to_owned(), token, run: run?, accepted })
}

pub(super) fn is_done(server: SocketAddr, sent: &Sent) -> bool {
    let path = run_path(&sent.session, &sent.run);
    let run = HttpRequest::get(&path).send(server, REQUEST).and_then(Answer::json);
    run.is_ok_and(|run| run["status"] == "done")
}

/// The stored events of a session.
pub(super) fn session_events(server: SocketAddr, session: &str) -> Option<Vec<Value>> {
    let path = session_path(session);
    let session = HttpRequest::get(&path).send(server, REQUEST).and_then(Answer::json).ok()?;
    session["events"].as_array().cloned()
}
