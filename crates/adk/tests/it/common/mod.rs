//! A test app: the runner with a fake model, fake tools and in-memory sessions, and snapshots of logs and requests.

mod model;
mod sessions;
mod shape;
mod tools;

pub(crate) use model::{Fake, Reply, call, call_as, chunk, chunks, parts, streamed, text};
pub(crate) use sessions::{Artifacts, Memory};
pub(crate) use shape::{contents_shape, events_shape};
pub(crate) use tools::{FakeTool, tool};

use adk::{
    agent::{AgentTree, LlmAgent},
    content::{Content, FunctionResponse, Part},
    error::RunError,
    event::Event,
    pending::REQUEST_CONFIRMATION,
    runner::{Input, RunRequest, Runner, StreamingMode},
    session::{SessionKey, SessionService},
};
use serde_json::{Map, Value};
use std::sync::{Arc, Mutex};

/// The result of a run and the events that it emitted.
pub(crate) struct Ran {
    pub(crate) result: Result<(), RunError>,
    pub(crate) shown: Vec<Event>,
}

impl Ran {
    pub(crate) fn shape(&self) -> String {
        events_shape(&self.shown)
    }

    pub(crate) fn error(self) -> RunError {
        self.result.unwrap_err()
    }

    /// The text of the last event.
    pub(crate) fn text(&self) -> String {
        self.shown.last().and_then(|event| event.content.as_ref()).map(Content::text).unwrap_or_default()
    }
}

pub(crate) struct App {
    pub(crate) runner: Runner<Memory>,
    pub(crate) artifacts: Arc<Artifacts>,
}

pub(crate) fn key() -> SessionKey {
    SessionKey::new("app", "u", "s")
}

/// An app with one empty session.
pub(crate) async fn app(root: LlmAgent) -> App {
    app_with_state(root, &[]).await
}

pub(crate) async fn app_with_state(root: LlmAgent, state: &[(&str, Value)]) -> App {
    let artifacts = Arc::new(Artifacts::default());
    let tree = Arc::new(AgentTree::new(root).unwrap());
    let runner = Runner::new(tree, Memory::default(), artifacts.clone());
    let state: Map<String, Value> =
        state.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
    runner.sessions().create(key(), state).await.unwrap();
    App { runner, artifacts }
}

impl App {
    pub(crate) async fn run(&self, request: RunRequest) -> Ran {
        let shown = Mutex::new(Vec::new());
        let result = self.runner.run(request, &|event| shown.lock().unwrap().push(event.clone())).await;
        Ran { result, shown: shown.into_inner().unwrap() }
    }

    pub(crate) async fn say(&self, text: &str) -> Ran {
        self.run(RunRequest::message(key(), Content::user(text))).await
    }

    pub(crate) async fn send(&self, parts: Vec<Part>) -> Ran {
        self.run(RunRequest::message(key(), Content::new("user", parts))).await
    }

    pub(crate) async fn again(&self) -> Ran {
        self.run(RunRequest { input: Input::Again, ..RunRequest::message(key(), Content::default()) }).await
    }

    pub(crate) async fn resume(&self) -> Ran {
        self.run(RunRequest { input: Input::Resume, ..RunRequest::message(key(), Content::default()) }).await
    }

    pub(crate) async fn stream(&self, text: &str) -> Ran {
        let mut request = RunRequest::message(key(), Content::user(text));
        request.config.streaming = StreamingMode::Sse;
        self.run(request).await
    }

    pub(crate) fn log(&self) -> Vec<Arc<Event>> {
        self.runner.sessions().events(&key())
    }

    pub(crate) fn log_shape(&self) -> String {
        events_shape(self.log().iter().map(AsRef::as_ref))
    }

    pub(crate) fn state(&self) -> Map<String, Value> {
        self.runner.sessions().state(&key())
    }

    /// The id of the nth call of a tool in the log.
    pub(crate) fn id_of(&self, name: &str, nth: usize) -> String {
        let log = self.log();
        let calls = log.iter().flat_map(|event| event.calls()).filter(|call| call.name == name);
        calls.filter_map(|call| call.id.clone()).nth(nth).unwrap()
    }

    /// A reply to the nth question.
    pub(crate) fn confirm(&self, nth: usize, answer: Value) -> Part {
        self.result_of(REQUEST_CONFIRMATION, nth, answer)
    }

    /// A late result for the nth call of a tool.
    pub(crate) fn result_of(&self, name: &str, nth: usize, result: Value) -> Part {
        FunctionResponse::new(self.id_of(name, nth), name, result).into()
    }
}
