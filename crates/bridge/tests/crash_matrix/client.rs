//! A client: sends messages with idempotency keys until they are accepted, reads its runs, and reconnects with its
//! cursors to the process that resumes.

use crate::{
    log,
    model::text,
    report::{ClientState, Line, ReceivedEvent, Reporter, now},
};
use adk::{
    content::{Content, FunctionResponse, Part},
    runner::{RunConfig, RunRequest, StreamingMode},
    session::SessionKey,
};
use bridge::{
    Agent, Runs,
    runs::{Cursor, Reader, ReaderItem, StartOptions},
};
use serde_json::Value;
use session::Store;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::sync::watch;

/// Pause between two attempts of the client.
const PAUSE: Duration = Duration::from_millis(50);
const ATTEMPTS: usize = 20;

pub(crate) struct Client {
    pub(crate) runs: Runs,
    pub(crate) agent: Agent,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) key: SessionKey,
    pub(crate) out: Arc<Reporter>,
    known: ClientState,
    /// Set when the reader of a message has seen the end.
    over: BTreeMap<String, watch::Receiver<bool>>,
}

impl Client {
    pub(crate) fn new(runs: Runs, agent: Agent, store: Arc<dyn Store>, out: Arc<Reporter>) -> Self {
        let known = ClientState::from_lines(&out.lines());
        Self { runs, agent, store, key: session_key(), out, known, over: BTreeMap::new() }
    }

    /// Reconnects to the runs whose end it has not seen.
    pub(crate) async fn reconnect_all(&mut self) {
        for (name, run) in self.known.accepted.clone() {
            if self.known.ended.contains_key(&name) {
                self.over.insert(name, watch::channel(true).1);
                continue;
            }
            let cursor = self.known.cursors.get(&name).and_then(|cursor| Cursor::from_id(cursor));
            let reader = self.reader(&run, cursor.unwrap_or_default()).await;
            match reader {
                Some(reader) => self.follow(&name, reader),
                None => self.out.report(Line::Problem(format!("the accepted run of {name} is gone"))),
            }
        }
    }

    async fn reader(&self, run: &str, after: Cursor) -> Option<Reader> {
        for _ in 0..ATTEMPTS {
            if let Ok(reader) = self.runs.reader(&self.key, run, after).await {
                return reader;
            }
            tokio::time::sleep(PAUSE).await;
        }
        None
    }

    /// Reads a run to its end, on its own task.
    fn follow(&mut self, name: &str, reader: Reader) {
        let (end, over) = watch::channel(false);
        self.over.insert(name.to_owned(), over);
        let (runs, key, out) = (self.runs.clone(), self.key.clone(), Arc::clone(&self.out));
        let mut follower =
            Follower { name: name.to_owned(), runs, key, out, reader, cursor: Cursor::default() };
        tokio::spawn(async move {
            while follower.read().await {}
            end.send_replace(true);
        });
    }

    /// Sends the message of this name, unless it was accepted before.
    pub(crate) async fn say(&mut self, name: &str) {
        self.send(name, Content::user(text(name))).await;
    }

    /// Answers a call.
    pub(crate) async fn respond(&mut self, name: &str, (id, tool): (String, &str), answer: Value) {
        let part = Part::from(FunctionResponse::new(id, tool, answer));
        self.send(name, Content::new("user", vec![part])).await;
    }

    async fn send(&mut self, name: &str, content: Content) {
        if self.known.accepted.contains_key(name) {
            return;
        }
        for _ in 0..ATTEMPTS {
            let config = RunConfig { streaming: StreamingMode::Sse, ..RunConfig::default() };
            let request = RunRequest { config, ..RunRequest::message(self.key.clone(), content.clone()) };
            let options = StartOptions { idempotency_key: Some(name.to_owned()), permit: None };
            match self.runs.start(&self.agent, request, options).await {
                Ok(reader) => {
                    let run = reader.id().to_owned();
                    self.out.report(Line::Accepted { name: name.to_owned(), run: run.clone() });
                    self.known.accepted.insert(name.to_owned(), run);
                    self.follow(name, reader);
                    return;
                }
                Err(error) => {
                    let stored = self.is_stored(name, &content).await;
                    let error = format!("{error:?}");
                    self.out.report(Line::Refused { name: name.to_owned(), error, stored });
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
        self.out.report(Line::Problem(format!("the message {name} was refused {ATTEMPTS} times")));
    }

    /// Whether the log or the queue contains the message.
    async fn is_stored(&self, name: &str, content: &Content) -> bool {
        let key = session_key();
        let events = log::events(&*self.store, &key).await;
        let has = |event: &adk::event::Event| {
            event.is_from_user() && event.content.as_ref().is_some_and(|stored| stored.parts == content.parts)
        };
        if events.iter().any(has) {
            return true;
        }
        for run in log::runs(&*self.store, &key).await {
            let payload = self.store.payload(&key, &run.id).await.unwrap().unwrap_or_default();
            if payload.contains(&text(name)) {
                return true;
            }
        }
        false
    }

    pub(crate) fn run(&self, name: &str) -> Option<String> {
        self.known.accepted.get(name).cloned()
    }

    pub(crate) fn is_over(&self, name: &str) -> bool {
        self.over.get(name).is_none_or(|over| *over.borrow())
    }

    /// Waits until the reader of a message has seen the end.
    pub(crate) async fn wait_for(&self, name: &str) {
        if let Some(over) = self.over.get(name) {
            let _ = over.clone().wait_for(|over| *over).await;
        }
    }

    pub(crate) async fn wait_for_all(&self) {
        for name in self.over.keys() {
            self.wait_for(name).await;
        }
    }

    /// Cancels the run of a message until it has ended.
    pub(crate) async fn cancel(&self, name: &str) {
        let Some(run) = self.run(name) else { return };
        while !self.is_over(name) {
            let _ = self.runs.cancel(&self.key, &run).await;
            let _ = tokio::time::timeout(PAUSE, self.wait_for(name)).await;
        }
    }

    /// The id of the newest call of this tool in the log.
    pub(crate) async fn call(&self, tool: &str) -> Option<String> {
        let events = log::events(&*self.store, &session_key()).await;
        let mut calls = events.iter().rev().flat_map(|event| event.calls().filter(|call| call.name == tool));
        calls.find_map(|call| call.id.clone())
    }
}

/// The reader of a message's run.
struct Follower {
    name: String,
    runs: Runs,
    key: SessionKey,
    out: Arc<Reporter>,
    reader: Reader,
    cursor: Cursor,
}

impl Follower {
    /// `false` if the run has ended.
    async fn read(&mut self) -> bool {
        match self.reader.next().await {
            Ok(ReaderItem::Entry(entry)) => {
                self.cursor = entry.cursor;
                self.out.report(Line::Received(ReceivedEvent {
                    name: self.name.clone(),
                    cursor: entry.cursor.to_id(),
                    event: entry.event.id.clone(),
                    partial: entry.event.is_partial(),
                    text: log::text(&entry.event),
                    at: now(),
                }));
                true
            }
            Ok(ReaderItem::End(end)) => {
                self.out.report(Line::Ended { name: self.name.clone(), end: format!("{end:?}") });
                if !matches!(self.reader.next().await, Ok(ReaderItem::End(again)) if again == end) {
                    self.out
                        .report(Line::Problem(format!("the reader of {} saw more after the end", self.name)));
                }
                false
            }
            Err(error) => {
                self.out.report(Line::Reconnected { name: self.name.clone(), error: error.to_string() });
                self.reconnect().await;
                true
            }
        }
    }

    async fn reconnect(&mut self) {
        tokio::time::sleep(PAUSE).await;
        if let Ok(Some(again)) = self.runs.reader(&self.key, self.reader.id(), self.cursor).await {
            self.reader = again;
        }
    }
}

pub(crate) fn session_key() -> SessionKey {
    SessionKey::new("app", "ann", "s1")
}
