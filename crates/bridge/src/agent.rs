//! Agent: the one path by which every front end runs a turn.

use crate::{
    artifacts::ArtifactAdapter,
    budget::Budget,
    collect::Collector,
    queue::{Entry, Queue, Turn},
    service::{SessionServiceAdapter, store_key},
};
use adk::{
    agent::{AgentTree, LlmAgent},
    content::Content,
    error::{RunError, ServiceError, TreeError},
    event::Event,
    runner::{EventSink, Input, RunConfig, RunRequest, Runner, StreamingMode},
    session::SessionKey,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use session::{Append, NewRun, RunStatus, RunUpdate, Store, Ticket};
use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};
use tokio_util::sync::CancellationToken;

/// Marks a message that we wrote in the user's place, so that people can be shown the difference.
pub const CORRECTION: &str = "lango:correction";

/// An agent with its sub-agents, ready to take messages.
#[derive(Clone)]
pub struct Agent {
    tree: Arc<AgentTree>,
    sessions: SessionServiceAdapter,
    artifacts: Arc<ArtifactAdapter>,
    queue: Queue,
}

impl Agent {
    pub fn new(store: Arc<dyn Store>, root: LlmAgent, budget: Budget) -> Result<Self, TreeError> {
        let sessions = SessionServiceAdapter::new(Arc::clone(&store), root.name.clone(), budget);
        let artifacts = Arc::new(ArtifactAdapter::new(Arc::clone(&store)));
        Ok(Self { tree: Arc::new(AgentTree::new(root)?), sessions, artifacts, queue: Queue::new(store) })
    }

    pub fn tree(&self) -> &AgentTree {
        &self.tree
    }

    pub fn sessions(&self) -> &SessionServiceAdapter {
        &self.sessions
    }

    /// Runs one turn when it is this message's turn, and answers with what the agent said.
    pub async fn run_and_collect(&self, request: RunRequest) -> Result<String, RunError> {
        let collector = Mutex::new(Collector::default());
        let collect = |event: &Event| collector.lock().unwrap_or_else(PoisonError::into_inner).take(event);
        self.run(request, &collect).await?;
        Ok(collector.into_inner().unwrap_or_else(PoisonError::into_inner).into_text())
    }

    /// Runs one turn when it is this message's turn. Events reach `out` as they happen.
    pub async fn run(&self, request: RunRequest, out: EventSink<'_>) -> Result<(), RunError> {
        let lost = request.cancel.child_token();
        let mut place = self.queue.place(&request.key, payload(&request));
        loop {
            let entered = tokio::select! {
                biased;
                entered = place.enter(&lost) => entered.map_err(not_found)?,
                () = request.cancel.cancelled() => {
                    place.leave().await?;
                    return Err(RunError::Cancelled);
                }
            };
            match entered {
                Entry::Ours(turn) => {
                    let request = RunRequest { cancel: lost, ..request };
                    return self.take_turn(turn, request, out).await;
                }
                Entry::LeftBehind(turn, ticket) => self.answer_left_behind(turn, &ticket, &request.key).await,
            }
        }
    }

    async fn take_turn(&self, turn: Turn, request: RunRequest, out: EventSink<'_>) -> Result<(), RunError> {
        let key = request.key.clone();
        let run = uuid::Uuid::new_v4().to_string();
        let started = NewRun {
            id: run.clone(),
            key: store_key(&key),
            status: RunStatus::Running,
            idempotency_key: None,
            owner: turn.owner().to_owned(),
        };
        let store = self.sessions.store();
        let result = match store.start(started).await {
            Ok(_) => {
                let sessions = self.sessions.for_turn(turn.mark(run.clone()));
                let artifacts: Arc<ArtifactAdapter> = Arc::clone(&self.artifacts);
                self.run_corrected(&Runner::new(Arc::clone(&self.tree), sessions, artifacts), request, out)
                    .await
            }
            Err(error) => Err(ServiceError::Store(Box::new(error)).into()),
        };
        if let Err(error) = &result {
            let status =
                if matches!(error, RunError::Cancelled) { RunStatus::Cancelled } else { RunStatus::Failed };
            let update = RunUpdate { id: run, status, error: Some(error.to_string()) };
            // The run's own error is the one to report.
            let _ = store.append(&store_key(&key), Append { run: Some(update), ..Append::default() }).await;
        }
        turn.leave().await;
        result
    }

    /// A model that made up an agent's name is told the real ones, once (spec G).
    async fn run_corrected(
        &self,
        runner: &Runner<SessionServiceAdapter>,
        request: RunRequest,
        out: EventSink<'_>,
    ) -> Result<(), RunError> {
        let (key, config, cancel) = (request.key.clone(), request.config.clone(), request.cancel.clone());
        let first = match runner.run(request, out).await {
            Err(error @ RunError::AgentNotFound { .. }) => error,
            other => return other,
        };
        let RunError::AgentNotFound { name } = &first else { return Err(first) };
        let Some(correction) = self.correction(name) else { return Err(first) };
        let retry = RunRequest {
            message_metadata: Map::from_iter([(CORRECTION.to_owned(), json!(true))]),
            config,
            cancel,
            ..RunRequest::message(key, Content::user(correction))
        };
        let retried = runner.run(retry, out).await;
        retried.map_err(|retry| RunError::RetryFailed { retry: Box::new(retry), first: Box::new(first) })
    }

    /// The words of the seeds; `None` for an agent that works alone.
    fn correction(&self, name: &str) -> Option<String> {
        let names: Vec<&str> = self.tree.nodes().skip(1).map(|node| node.agent.name.as_str()).collect();
        let list = names.join(", ");
        (!names.is_empty()).then(|| {
            format!(
                "[System: Agent \"{name}\" does not exist. Valid agents: {list}. Please retry using one of the valid agent names listed above.]"
            )
        })
    }

    /// Nobody listens to this turn any more; its answer is in the log when its sender comes back.
    async fn answer_left_behind(&self, turn: Turn, ticket: &Ticket, key: &SessionKey) {
        let Ok(waiting) = serde_json::from_str::<Waiting>(&ticket.payload) else {
            // A ticket that cannot be read must not block the queue for ever.
            let _ = self.sessions.store().withdraw(&store_key(key), ticket.number).await;
            return turn.leave().await;
        };
        let _ = self.take_turn(turn, waiting.into_request(key.clone()), &|_| {}).await;
    }
}

/// A message as it waits in the inbox.
#[derive(Debug, Serialize, Deserialize)]
struct Waiting {
    #[serde(default)]
    message: Option<Content>,
    #[serde(default)]
    state_delta: Map<String, Value>,
    #[serde(default)]
    metadata: Option<Map<String, Value>>,
    #[serde(default)]
    streaming: bool,
}

impl Waiting {
    fn into_request(self, key: SessionKey) -> RunRequest {
        let streaming = if self.streaming { StreamingMode::Sse } else { StreamingMode::None };
        RunRequest {
            key,
            input: self.message.map_or(Input::Again, Input::Message),
            state_delta: self.state_delta,
            message_metadata: Map::new(),
            config: RunConfig { streaming, custom_metadata: self.metadata, ..RunConfig::default() },
            cancel: CancellationToken::new(),
        }
    }
}

fn payload(request: &RunRequest) -> String {
    let message = match &request.input {
        Input::Message(content) => Some(content.clone()),
        Input::Again | Input::Resume => None,
    };
    let waiting = Waiting {
        message,
        state_delta: request.state_delta.clone(),
        metadata: request.config.custom_metadata.clone(),
        streaming: request.config.streaming == StreamingMode::Sse,
    };
    serde_json::to_string(&waiting).unwrap_or_default()
}

fn not_found(error: ServiceError) -> RunError {
    match error {
        ServiceError::NotFound(key) => RunError::SessionNotFound(key),
        other => other.into(),
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent").field("tree", &self.tree).finish_non_exhaustive()
    }
}
