//! The drill of the stopped server: a server accepts a message and is stopped (SIGSTOP) before it has answered. Another one,
//! which lives on, must take the run over after ten seconds of silence and answer it. Then the first one continues (SIGCONT)
//! and finds itself fenced. In every round once.

use super::{
    fleet::Fleet,
    journal::{Message, Moment},
    stage::count,
};
use crate::{
    Result,
    rig::{
        http::{Answer, Request},
        interrupt,
        machine::{run_path, session_path, sessions_path},
        script::Kind,
    },
};
use serde_json::{Value, json};
use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

/// From the beginning of the round.
const BEGINS_AFTER: Duration = Duration::from_secs(3);
/// Ten seconds of silence, observed every two seconds, and the answer itself; much more on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(250);
/// The time that the stopped server gets to try its late commits.
const AFTERWARDS: Duration = Duration::from_millis(1_500);
const REQUEST: Duration = Duration::from_secs(5);

pub(super) struct Drill {
    begins: Instant,
    stopped: Option<Stopped>,
    is_done: bool,
}

struct Stopped {
    paused: usize,
    witness: usize,
    session: String,
    /// Of the stopped server, and of the witness behind it.
    runs: Vec<String>,
    since: Instant,
    polled: Instant,
}

impl Drill {
    pub(super) fn new() -> Self {
        Self { begins: Instant::now() + BEGINS_AFTER, stopped: None, is_done: false }
    }

    pub(super) fn is_on(&self) -> bool {
        self.stopped.is_some()
    }

    /// The slot of the server that was stopped.
    pub(super) fn paused(&self) -> Option<usize> {
        self.stopped.as_ref().map(|stopped| stopped.paused)
    }

    pub(super) fn tick(fleet: &mut Fleet<'_>) -> Result<()> {
        let drill = fleet.drill_mut();
        if let Some(stopped) = &mut drill.stopped {
            if stopped.polled.elapsed() < POLL {
                return Ok(());
            }
            stopped.polled = Instant::now();
            return Self::look(fleet);
        }
        if !drill.is_done && Instant::now() >= drill.begins {
            Self::begin(fleet);
        }
        Ok(())
    }

    /// Stops a server that has just accepted a message.
    fn begin(fleet: &mut Fleet<'_>) {
        let up: Vec<(usize, SocketAddr)> = fleet
            .slots
            .iter()
            .enumerate()
            .filter_map(|(slot, state)| state.server().map(|(server, _)| (slot, server.address)))
            .collect();
        let [(paused, first), (witness, second), ..] = up[..] else { return };
        let session = fleet.stage.round.session("stopped");
        let Some(run) = send(fleet, first, &session, Kind::Long) else { return };
        let Some((server, name)) = fleet.slots[paused].server() else { return };
        let now = fleet.stage.now();
        fleet.stage.journal.with(|record| record.ends.push((name, now)));
        server.process.pause();
        let Some(behind) = send(fleet, second, &session, Kind::Note) else {
            // It was stopped while it held the write lock: nobody can write until it continues.
            server.process.resume();
            return;
        };
        count(&fleet.stage.tally.stops);
        for slot in [paused, witness] {
            fleet.slots[slot].is_spared = true;
        }
        let runs = vec![run, behind];
        let (since, polled) = (Instant::now(), Instant::now());
        fleet.drill_mut().stopped = Some(Stopped { paused, witness, session, runs, since, polled });
        fleet.announce();
    }

    /// Ends the drill when both messages are answered, or when it has taken too long.
    fn look(fleet: &mut Fleet<'_>) -> Result<()> {
        let Some(stopped) = fleet.drill_mut().stopped.take() else { return Ok(()) };
        let witness = fleet.slots[stopped.witness].server().map(|(server, _)| server.address);
        let witness = witness.ok_or("the witness of the drill is gone")?;
        let open: Vec<String> =
            stopped.runs.iter().filter(|run| !is_over(witness, &stopped.session, run)).cloned().collect();
        let is_late = stopped.since.elapsed() > PATIENCE;
        if !open.is_empty() && !is_late && !interrupt::is_set() {
            fleet.drill_mut().stopped = Some(stopped);
            return Ok(());
        }
        if !open.is_empty() && is_late {
            let (session, seconds) = (&stopped.session, PATIENCE.as_secs());
            fleet.stage.journal.problem(format!(
                "runs {open:?} of {session} are not over {seconds} s after their server was stopped"
            ));
        }
        if let Some((server, _)) = fleet.slots[stopped.paused].server() {
            server.process.resume();
        }
        fleet.slots[stopped.paused].spare_for(AFTERWARDS);
        fleet.slots[stopped.witness].is_spared = false;
        fleet.drill_mut().is_done = true;
        fleet.announce();
        Ok(())
    }
}

fn is_over(server: SocketAddr, session: &str, run: &str) -> bool {
    let path = run_path(session, run);
    let run = Request::get(&path).send(server, REQUEST).and_then(Answer::json);
    run.is_ok_and(|run| run["status"] == "done")
}

/// Sends a message and records it. `None` if it was not accepted: the drill is tried again later.
fn send(fleet: &Fleet<'_>, server: SocketAddr, session: &str, kind: Kind) -> Option<String> {
    let stage = fleet.stage;
    let created = json!({"sessionId": session});
    // It may exist.
    let _ = Request::post(&sessions_path(), &created).send(server, REQUEST);
    let first_sent = stage.now();
    let token = format!("{session}-{}", first_sent.as_micros());
    let body = message_body(&kind.message(&token));
    let path = format!("{}/runs", session_path(session));
    let answer = Request::post(&path, &body).send(server, REQUEST);
    let run = answer.ok().filter(|answer| answer.status == 202);
    let run = run.and_then(|answer| answer.header("x-run-id").map(str::to_owned));
    let accepted: Option<Moment> = run.as_ref().map(|_| stage.now());
    let message = Message {
        session: session.to_owned(),
        token,
        kind,
        key: None,
        first_sent,
        accepted,
        accepted_by: None,
        runs: run.iter().cloned().collect(),
        is_cancelled: false,
    };
    stage.journal.with(|record| record.messages.push(message));
    run
}

pub(super) fn message_body(text: &str) -> Value {
    json!({"newMessage": {"role": "user", "parts": [{"text": text}]}, "streaming": true})
}
