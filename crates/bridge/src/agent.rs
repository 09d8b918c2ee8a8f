//! Agent: the single path by which every front end runs a turn.
//!
//! | layer | responsibility |
//! |---|---|
//! | [`Agent::run`] | the run's identity: an answer continues the run that asked |
//! | `run_arrived` | order: messages are accepted in the order of their arrival |
//! | `resolve_references` | the resources and the prompt that the message names are added to it |
//! | `preload_memory` | what the user's memory has about the message is added to it |
//! | `start_uncontended` | if the session is free, the commit that stores the message acquires the lease |
//! | `run_queued` | if the session is busy, the message is queued and its run waits |
//! | `run_traced` | a span, and the final status of the run in the store |
//! | `run_leased` | the session service, the ledger and the limits of the turn |
//! | `run_corrected` | one retry if the model named an unknown agent |

pub mod collect;
pub mod context;
pub mod inspect;
mod orphans;
pub mod references;
mod start;
mod turn;

pub(crate) use orphans::resumption;

use crate::{
    agent::{collect::AnswerCollector, references::References},
    memory::LazyMemory,
    model,
    store::{
        artifacts::ArtifactAdapter,
        service::{SessionServiceAdapter, service_error},
        session_handle::SessionHandle,
    },
    turns::{Arrival, RunName, Turns, parked},
    view::budget::Budget,
};
use adk::{
    agent::{AgentTree, LlmAgent},
    error::{RunError, TreeError},
    event::Event,
    limits::RunLimits,
    pending::Question,
    runner::{EventSink, Input, RunConfig, RunRequest, Runner},
    session::{Session, SessionKey, SessionService},
    trace::Trace,
};
use lock::LockExt;
use session::{RunStatus, Store};
use std::{
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};
use tools::mcp::ParkedCalls;

/// An agent with its sub-agents, ready to receive messages.
#[derive(Clone)]
pub struct Agent {
    tree: Arc<AgentTree>,
    sessions: SessionServiceAdapter,
    artifacts: Arc<ArtifactAdapter>,
    turns: Turns,
    trace: Trace,
    bounds: Arc<Bounds>,
    references: Option<Arc<References>>,
    parked: ParkedCalls,
    creates_sessions: bool,
    /// The memory that is searched with each message.
    pub(crate) preloaded: Option<LazyMemory>,
}

/// Limits on the runs of an agent, whatever the request asks for.
#[derive(Clone, Debug, Default)]
pub struct Bounds {
    /// Maximum number of model calls per run; 0 for no limit.
    pub model_calls: Option<u32>,
    /// Timeout of one tool call.
    pub tool_time: Option<Duration>,
    pub limits: RunLimits,
}

impl Bounds {
    fn apply(&self, config: RunConfig) -> RunConfig {
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
        let (tree, turns) = (Arc::new(AgentTree::new(root)?), Turns::new(store));
        let (trace, bounds) = (Trace::default(), Arc::default());
        Ok(Self {
            tree,
            sessions,
            artifacts,
            turns,
            trace,
            bounds,
            references: None,
            parked: ParkedCalls::default(),
            creates_sessions: false,
            preloaded: None,
        })
    }

    /// Shares `turns` with other agents of the process on the same store.
    #[must_use]
    pub fn with_turns(self, turns: Turns) -> Self {
        turns.share_parked(&self.parked);
        Self { turns, ..self }
    }

    /// Sets the calls that wait for the user's input, which its MCP tools share.
    #[must_use]
    pub fn with_parked_calls(self, parked: ParkedCalls) -> Self {
        self.turns.share_parked(&parked);
        Self { parked, ..self }
    }

    /// Whether the answer to a question for input reaches the call. Otherwise the call was interrupted.
    pub fn awaits_input(&self, key: &SessionKey, question: &Question) -> bool {
        parked::is_parked(&self.parked, key, &question.call.id())
    }

    /// Sets the memory for sessions between their turns, in bytes.
    #[must_use]
    pub fn with_session_cache(self, bytes: usize) -> Self {
        Self { sessions: self.sessions.with_cache_bytes(bytes), ..self }
    }

    /// Sets the trace for requests without a trace.
    #[must_use]
    pub fn with_trace(self, trace: Trace) -> Self {
        Self { trace, ..self }
    }

    /// Sets the limits on its runs.
    #[must_use]
    pub fn with_bounds(self, bounds: Bounds) -> Self {
        Self { bounds: Arc::new(bounds), ..self }
    }

    /// Sets the servers whose resources and prompts its messages may name.
    #[must_use]
    pub fn with_references(self, references: References) -> Self {
        Self { references: Some(Arc::new(references)), ..self }
    }

    /// Creates a missing session with its first message. A message that is refused before creates none.
    #[must_use]
    pub fn creating_sessions(self) -> Self {
        Self { creates_sessions: true, ..self }
    }

    /// Searches a memory with each message, as ADK's `preload_memory` does.
    #[must_use]
    pub fn with_preloaded_memory(self, memory: LazyMemory) -> Self {
        Self { preloaded: Some(memory), ..self }
    }

    pub fn tree(&self) -> &AgentTree {
        &self.tree
    }

    pub fn sessions(&self) -> &SessionServiceAdapter {
        &self.sessions
    }

    /// The request that a model would get if the session continued now.
    pub async fn preview(
        &self,
        key: &SessionKey,
        target: provider::ModelId,
    ) -> Result<provider::ModelRequest, RunError> {
        let artifacts: Arc<ArtifactAdapter> = Arc::clone(&self.artifacts);
        let runner = Runner::new(Arc::clone(&self.tree), self.sessions.clone(), artifacts);
        Ok(model::request_for(&target, &runner.preview(key).await?, self.sessions.budget()))
    }

    /// Runs one turn and returns the text of the answer. Waits while earlier messages of the session are in progress.
    pub async fn run_and_collect(&self, request: RunRequest) -> Result<String, RunError> {
        let collector = Mutex::new(AnswerCollector::default());
        let collect = |event: &Event| collector.locked().push(event);
        self.run(request, &collect).await?;
        Ok(collector.into_value().into_text())
    }

    /// Runs one turn. Waits while earlier messages of the session are in progress. Events reach `out` as they happen.
    pub async fn run(&self, request: RunRequest, out: EventSink<'_>) -> Result<(), RunError> {
        let id = self.answered_run(&request).await?;
        let name = id.map_or_else(|| RunName::fresh(requested_id(&request)), RunName::existing);
        let arrival = self.arrive(&request, name)?;
        self.run_arrived(arrival, request, out).await
    }

    /// The run that a message continues, because it answers a question of that run.
    pub(crate) async fn answered_run(&self, request: &RunRequest) -> Result<Option<String>, RunError> {
        let Input::Message(content) = &request.input else { return Ok(None) };
        if !request.is_answer() {
            return Ok(None);
        }
        let Some(session) = self.sessions.get(&request.key).await? else { return Ok(None) };
        let asked =
            content.responses().find_map(|response| session.question_runs.get(&response.id_or_name()));
        let Some(id) = asked else { return Ok(None) };
        let run = SessionHandle::new(self.turns.store(), &request.key).run(id).await?;
        Ok(run.filter(|run| run.status == RunStatus::Waiting).map(|run| run.id))
    }

    /// Whether the end of the log has events of this invocation. The events of an imported session belong to no run.
    pub(crate) async fn has_invocation(&self, key: &SessionKey, id: &str) -> Result<bool, RunError> {
        let session = self.sessions.get(key).await?;
        Ok(session.is_some_and(|session| session.events().iter().any(|event| event.invocation_id == id)))
    }

    /// Registers a message. Later arrivals in its session are accepted after it. Refuses a message with function calls before
    /// anything is stored.
    pub(crate) fn arrive(&self, request: &RunRequest, name: RunName) -> Result<Arrival, RunError> {
        request.check_input()?;
        let arrival = self.turns.arrive(&request.key, name);
        Ok(arrival.map_err(|error| service_error(error, &request.key))?)
    }
}

/// The id that the request chose for its run. A response to a call continues the invocation of that call, whatever id is given.
pub(crate) fn requested_id(request: &RunRequest) -> Option<&str> {
    request.invocation_id.as_deref().filter(|_| !request.is_answer())
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent").field("tree", &self.tree).finish_non_exhaustive()
    }
}
