//! A reader of one run on one server that reads in its own thread, so that the thread that controls the servers never waits
//! for a stopped one.

use super::super::{
    journal::{EventBody, Reading, Seen, ServerName},
    stage::{Stage, count},
};
use crate::harness::{
    event_id::EventId,
    http::{HttpRequest, StreamedEvent},
    machine::run_path,
};
use std::{
    io,
    net::SocketAddr,
    sync::mpsc::{self, Receiver, Sender},
    thread,
    time::{Duration, Instant},
};

/// Longer than a server is ever stopped.
const READ: Duration = Duration::from_mins(2);

enum Update {
    /// The server has accepted the reader.
    Opened,
    Event(StreamedEvent, Instant),
    Ended(io::Result<()>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Opening,
    Open,
    /// The server has ended the stream.
    Complete,
    /// The connection failed.
    Broken(String),
}

#[derive(Debug)]
pub(super) struct Observer {
    pub(super) reading: Reading,
    server: ServerName,
    state: State,
    updates: Receiver<Update>,
}

impl Observer {
    /// Reads a run from its first event on.
    pub(super) fn new((address, server): (SocketAddr, ServerName), session: &str, run: &str) -> Self {
        let (sender, updates) = mpsc::channel();
        let path = format!("{}/events", run_path(session, run));
        thread::spawn(move || {
            let ended = read(address, &path, &sender);
            // The failover test may be over.
            let _ = sender.send(Update::Ended(ended));
        });
        Self { reading: Reading::new(session, run), server, state: State::Opening, updates }
    }

    /// Records the events that arrived since the last call.
    pub(super) fn update(&mut self, stage: &Stage<'_>) {
        for update in self.updates.try_iter() {
            match update {
                Update::Opened => self.state = State::Open,
                Update::Event(event, at) => {
                    count(&stage.tally.events);
                    let at = stage.now().saturating_sub(at.elapsed());
                    match event.id.as_deref().and_then(EventId::parse) {
                        Some(id) => {
                            let (body, server) = (EventBody::of(event.data), self.server);
                            self.reading.seen.push(Seen { id, body, at, server });
                        }
                        // The line that reports the failure of a run has no id.
                        None => self.reading.error = Some(event.data.to_string()),
                    }
                }
                Update::Ended(Ok(())) => {
                    self.state = State::Complete;
                    self.reading.is_complete = true;
                }
                Update::Ended(Err(error)) => self.state = State::Broken(error.to_string()),
            }
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// Whether nothing more will arrive.
    pub(super) fn is_ended(&self) -> bool {
        matches!(self.state, State::Complete | State::Broken(_))
    }

    /// Why the reader has not received the end of the run; `None` if it has.
    pub(super) fn problem(&self) -> Option<String> {
        let Reading { session, run, .. } = &self.reading;
        let ServerName { slot, spawn } = self.server;
        let reason = match &self.state {
            State::Complete => return None,
            State::Opening | State::Open => "the stream has not ended",
            State::Broken(error) => error,
        };
        let seen = self.reading.seen.len();
        Some(format!(
            "the reader of run {run} of {session} on server {slot}/{spawn} has no end after {seen} events: {reason}"
        ))
    }
}

fn read(address: SocketAddr, path: &str, to: &Sender<Update>) -> io::Result<()> {
    let answer = HttpRequest::get(path).send(address, READ)?;
    if answer.status != 200 {
        return Err(io::Error::other(format!("answered {}", answer.status)));
    }
    let mut is_wanted = to.send(Update::Opened).is_ok();
    let mut events = answer.events();
    while is_wanted && let Some(event) = events.next()? {
        is_wanted = to.send(Update::Event(event, Instant::now())).is_ok();
    }
    Ok(())
}
