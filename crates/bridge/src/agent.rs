//! Agent: the one path by which every front end runs a turn.

use crate::{
    artifacts::ArtifactAdapter,
    budget::Budget,
    collect::Collector,
    guard, history,
    ledger::LedgerAdapter,
    model,
    queue::{Entry, Place, Queue, RunName, Turn},
    service::SessionServiceAdapter,
    waiting::Waiting,
};
use adk::{
    agent::{AgentTree, LlmAgent},
    content::Content,
    error::{RunError, ServiceError, TreeError},
    event::Event,
    flow::spans,
    limits::Limits,
    runner::{EventSink, Input, RunConfig, RunRequest, Runner},
    session::SessionKey,
    trace::{Active, Kind, Trace},
};
use serde_json::{Map, json};
use session::{RunStatus, Store, Ticket};
use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// Marks a message that we wrote in the user's place, so that people can be shown the difference.
pub const CORRECTION: &str = "lango:correction";

/// Whether we said it, although it stands in the user's name.
pub fn is_correction(event: &Event) -> bool {
    event.custom_metadata.as_ref().is_some_and(|metadata| metadata.contains_key(CORRECTION))
}

/// An agent with its sub-agents, ready to take messages.
#[derive(Clone)]
pub struct Agent {
    tree: Arc<AgentTree>,
    sessions: SessionServiceAdapter,
    artifacts: Arc<ArtifactAdapter>,
    queue: Queue,
    trace: Trace,
    bounds: Arc<Bounds>,
}

/// What the runs of an agent may use, whoever asks for them.
#[derive(Clone, Debug, Default)]
pub struct Bounds {
    /// How often a model is asked; 0 for as often as the agents like.
    pub model_calls: Option<u32>,
    /// How long one tool call may take.
    pub tool_time: Option<Duration>,
    pub limits: Limits,
}

impl Bounds {
    fn applied(&self, config: RunConfig) -> RunConfig {
        RunConfig {
            max_llm_calls: self.model_calls.unwrap_or(config.max_llm_calls),
            tool_timeout: self.tool_time.unwrap_or(config.tool_timeout),
            limits: self.limits.clone(),
            ..config
        }
    }
}

impl Agent {
    pub fn new(store: Arc<dyn Store>, root: LlmAgent, budget: Budget) -> Result<Self, TreeError> {
        let sessions = SessionServiceAdapter::new(Arc::clone(&store), root.name.clone(), budget);
        let artifacts = Arc::new(ArtifactAdapter::new(Arc::clone(&store)));
        let (tree, queue) = (Arc::new(AgentTree::new(root)?), Queue::new(store));
        Ok(Self { tree, sessions, artifacts, queue, trace: Trace::default(), bounds: Arc::default() })
    }

    /// With a trace for the runs that belong to none.
    #[must_use]
    pub fn recorded(self, trace: Trace) -> Self {
        Self { trace, ..self }
    }

    /// The same, with what its runs may use.
    #[must_use]
    pub fn bounded(self, bounds: Bounds) -> Self {
        Self { bounds: Arc::new(bounds), ..self }
    }

    pub fn tree(&self) -> &AgentTree {
        &self.tree
    }

    pub fn sessions(&self) -> &SessionServiceAdapter {
        &self.sessions
    }

    /// The request that a model would get if the session went on now.
    pub async fn preview(
        &self,
        key: &SessionKey,
        target: provider::Origin,
    ) -> Result<provider::Request, RunError> {
        let artifacts: Arc<ArtifactAdapter> = Arc::clone(&self.artifacts);
        let runner = Runner::new(Arc::clone(&self.tree), self.sessions.clone(), artifacts);
        Ok(model::request_for(target, &runner.preview(key).await?, self.sessions.budget()))
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
        self.run_from(self.place(&request, RunName::fresh()), request, out).await
    }

    /// The place that a request has from now on.
    pub(crate) fn place(&self, request: &RunRequest, name: RunName) -> Place {
        let place = self.queue.place(&request.key, name);
        // What was cut off is before all who come.
        if request.input == Input::Resume { place } else { place.in_line() }
    }

    /// The same as [`run`](Self::run), for a request that has its place already.
    pub(crate) async fn run_from(
        &self,
        mut place: Place,
        request: RunRequest,
        out: EventSink<'_>,
    ) -> Result<(), RunError> {
        let request = guard::signed(request);
        let name = place.name().clone();
        tokio::select! {
            biased;
            () = place.go_in() => {}
            () = request.cancel.cancelled() => return Err(RunError::Cancelled),
        }
        // What is in memory may be out of date: then once more, with what is stored.
        let attempts = 1 + usize::from(self.sessions.remembers(&request.key));
        for _ in 0..attempts {
            // Only a message is sure to be stored before anything else happens.
            if matches!(request.input, Input::Message(_))
                && !request.cancel.is_cancelled()
                && let Some(turn) = place.at_once()
                && let Some(result) = self.run_at_once(turn, name.clone(), request.clone(), out).await
            {
                return result;
            }
        }
        let entered = tokio::select! {
            biased;
            () = request.cancel.cancelled() => Err(RunError::Cancelled),
            entered = self.wait(&mut place, &request) => entered,
        };
        let mut turn = match entered {
            Ok(turn) => turn,
            Err(error) => {
                place.leave().await;
                return Err(error);
            }
        };
        // Boxed: a turn is large, and who waits for one should not be.
        let result = Box::pin(self.take_turn(&mut turn, name, request, out)).await;
        match result {
            Ok(()) => place.served(),
            // A message that failed before it was in the log is not to be answered later.
            Err(_) => place.leave().await,
        }
        turn.leave().await;
        result
    }

    /// Runs a turn of a session that seems to be free: it is claimed by storing the first event. `None` if it was not free;
    /// nothing has happened then.
    async fn run_at_once(
        &self,
        mut turn: Turn,
        name: RunName,
        request: RunRequest,
        out: EventSink<'_>,
    ) -> Option<Result<(), RunError>> {
        let result = Box::pin(self.take_turn(&mut turn, name, request, out)).await;
        let was_free =
            !(turn.is_unclaimed() && matches!(result, Err(RunError::Service(ServiceError::Stale(_)))));
        turn.leave().await;
        was_free.then_some(result)
    }

    /// Waits for the turn, and answers those on the way whose senders are gone.
    async fn wait(&self, place: &mut Place, request: &RunRequest) -> Result<Turn, RunError> {
        if request.input == Input::Resume {
            return place.go_on().await.map_err(not_found);
        }
        loop {
            match place.enter(&|| Waiting::payload(request)).await.map_err(not_found)? {
                Entry::Ours(turn) => return Ok(turn),
                Entry::LeftBehind(turn, ticket) => {
                    let answer = self.clone().answer_left_behind(turn, ticket, request.key.clone());
                    // A task of its own: it is another's message, and goes on if we do not.
                    let answered = tokio::spawn(answer).await;
                    answered.unwrap_or_else(|lost| Err(ServiceError::Store(lost.into()).into()))?;
                }
            }
        }
    }

    /// Answers the messages whose senders died while they waited.
    pub(crate) async fn answer_waiting(&self, key: &SessionKey) -> Result<(), ServiceError> {
        while let Some((turn, ticket)) = self.queue.left_behind(key).await? {
            match self.clone().answer_left_behind(turn, ticket, key.clone()).await {
                Ok(()) => {}
                Err(RunError::Service(error)) => return Err(error),
                Err(error) => return Err(ServiceError::Store(error.into())),
            }
        }
        Ok(())
    }

    async fn take_turn(
        &self,
        turn: &mut Turn,
        name: RunName,
        request: RunRequest,
        out: EventSink<'_>,
    ) -> Result<(), RunError> {
        let (key, cancel) = (request.key.clone(), request.cancel.clone());
        let mut span = self.span(&name, &request);
        let mut request = request;
        request.config.trace = span.trace();
        let result = match self.run_turn(turn, name, request, out).await {
            // Nobody asked for it: the turn was taken away.
            Err(RunError::Cancelled) if !cancel.is_cancelled() => Err(ServiceError::Stale(key).into()),
            other => other,
        };
        let status = match &result {
            Ok(()) => RunStatus::Done,
            Err(RunError::Cancelled) => RunStatus::Cancelled,
            Err(_) => RunStatus::Failed,
        };
        match &result {
            Ok(()) => drop(span),
            // The session was not free, so nothing has begun.
            Err(RunError::Service(ServiceError::Stale(_))) if turn.is_unclaimed() => span.forget(),
            Err(error) => {
                span.fail(&spans::error_type(error));
                drop(span);
            }
        }
        turn.end_run(status, result.as_ref().err().map(ToString::to_string)).await;
        result
    }

    fn span(&self, name: &RunName, request: &RunRequest) -> Active {
        let own = &request.config.trace;
        let trace = if own.is_on() { own } else { &self.trace }.of_session(&request.key);
        let agent = &self.tree.root().agent;
        let mut span = trace.begin(Kind::Internal, || format!("invoke_agent {}", agent.name));
        if trace.is_on() {
            span.set("gen_ai.operation.name", "invoke_agent");
            span.set("gen_ai.agent.name", agent.name.as_str());
            span.set("gen_ai.agent.description", agent.description.as_str());
            span.set("gen_ai.conversation.id", request.key.session_id.as_str());
            span.set("lango.app", request.key.app_name.as_str());
            span.set("lango.run.id", name.id.as_str());
        }
        span
    }

    async fn run_turn(
        &self,
        turn: &mut Turn,
        name: RunName,
        request: RunRequest,
        out: EventSink<'_>,
    ) -> Result<(), RunError> {
        let lost = request.cancel.child_token();
        let begun = turn.begin(name, lost.clone()).await;
        let mark = begun.map_err(|error| ServiceError::Store(Box::new(error)))?;
        let ledger = LedgerAdapter { store: Arc::clone(self.sessions.store()), mark: Arc::clone(&mark) };
        let sessions = self.sessions.for_turn(mark, &request.input);
        let artifacts: Arc<ArtifactAdapter> = Arc::clone(&self.artifacts);
        let runner = Runner::new(Arc::clone(&self.tree), sessions, artifacts).with_ledger(Arc::new(ledger));
        let config = self.bounds.applied(request.config);
        let request = RunRequest { cancel: lost, config, ..request };
        // Boxed: a run is large, and whoever waits for one should not be.
        let result = Box::pin(self.run_corrected(&runner, request, out)).await;
        if runner.sessions().has_ended() {
            turn.has_ended();
        }
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
            goes_on: true,
            message_metadata: Map::from_iter([(CORRECTION.to_owned(), json!(true))]),
            config,
            cancel,
            ..RunRequest::message(key, Content::user(correction))
        };
        match runner.run(retry, out).await {
            Ok(()) => Ok(()),
            // Whoever cancels wants no reasons.
            Err(RunError::Cancelled) => Err(RunError::Cancelled),
            Err(retry) => Err(RunError::RetryFailed { retry: Box::new(retry), first: Box::new(first) }),
        }
    }

    /// What is said about that name; `None` for an agent that works alone.
    fn correction(&self, name: &str) -> Option<String> {
        let names: Vec<&str> = self.tree.nodes().skip(1).map(|node| node.agent.name.as_str()).collect();
        (!names.is_empty()).then(|| history::correction(name, &names.join(", ")))
    }

    /// Nobody listens to this turn any more; its answer is in the log when its sender comes back.
    async fn answer_left_behind(
        self,
        mut turn: Turn,
        ticket: Ticket,
        key: SessionKey,
    ) -> Result<(), RunError> {
        let result = match serde_json::from_str::<Waiting>(&ticket.payload) {
            Ok(waiting) => {
                let name = RunName { id: ticket.id, idempotency_key: None };
                self.take_turn(&mut turn, name, waiting.into_request(key), &|_| {}).await
            }
            Err(error) => Err(ServiceError::Invalid { key, message: error.to_string() }.into()),
        };
        let result = match result {
            // It stays for the next one, and so does ours: nothing can be stored now.
            Err(RunError::Service(error @ ServiceError::Store(_))) => Err(error.into()),
            Ok(()) | Err(RunError::Service(ServiceError::Stale(_))) => Ok(()),
            Err(_) => {
                // What can never be answered must not block the queue for ever.
                turn.drop_ticket().await;
                Ok(())
            }
        };
        turn.leave().await;
        result
    }
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
