//! Agent: the one path by which every front end runs a turn.
//!
//! | layer | what it adds |
//! |---|---|
//! | [`Agent::run`] | the run's identity: an answer continues the run that asked |
//! | `run_arrived` | order: messages are accepted in the order of their arrival |
//! | `start_uncontended` | a free session is entered by the commit that stores the message |
//! | `run_queued` | a busy one queues the message, and its run waits |
//! | `run_traced` | a span, and how the run ended in the store |
//! | `run_leased` | the session service, the ledger and the limits of the turn |
//! | `run_corrected` | one retry if the model made up an agent's name |

pub mod collect;
mod orphans;
mod start;
mod turn;

pub(crate) use orphans::resumption;

use crate::{
    agent::collect::AnswerCollector,
    model,
    store::{
        artifacts::ArtifactAdapter,
        service::{SessionServiceAdapter, service_error, store_key},
    },
    turns::{Arrival, RunName, Turns},
    view::budget::Budget,
};
use adk::{
    agent::{AgentTree, LlmAgent},
    error::{RunError, TreeError},
    event::Event,
    limits::RunLimits,
    runner::{EventSink, Input, RunConfig, RunRequest, Runner},
    session::{SessionKey, SessionService},
    trace::Trace,
};
use session::{RunStatus, Store};
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
    turns: Turns,
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
    pub limits: RunLimits,
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
        let (tree, turns) = (Arc::new(AgentTree::new(root)?), Turns::new(store));
        Ok(Self { tree, sessions, artifacts, turns, trace: Trace::default(), bounds: Arc::default() })
    }

    /// With turns that it shares with other agents of the process on the same store.
    #[must_use]
    pub fn with_turns(self, turns: Turns) -> Self {
        Self { turns, ..self }
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
        target: provider::ModelId,
    ) -> Result<provider::ModelRequest, RunError> {
        let artifacts: Arc<ArtifactAdapter> = Arc::clone(&self.artifacts);
        let runner = Runner::new(Arc::clone(&self.tree), self.sessions.clone(), artifacts);
        Ok(model::request_for(target, &runner.preview(key).await?, self.sessions.budget()))
    }

    /// Runs one turn when it is this message's turn, and answers with what the agent said.
    pub async fn run_and_collect(&self, request: RunRequest) -> Result<String, RunError> {
        let collector = Mutex::new(AnswerCollector::default());
        let collect = |event: &Event| collector.lock().unwrap_or_else(PoisonError::into_inner).take(event);
        self.run(request, &collect).await?;
        Ok(collector.into_inner().unwrap_or_else(PoisonError::into_inner).into_text())
    }

    /// Runs one turn when it is this message's turn. Events reach `out` as they happen.
    pub async fn run(&self, request: RunRequest, out: EventSink<'_>) -> Result<(), RunError> {
        let id = self.answered_run(&request).await?;
        let name = id.map_or_else(RunName::fresh, |id| RunName { id, request_key: None });
        let arrival = self.arrive(&request, name)?;
        self.run_arrived(arrival, request, out).await
    }

    /// The run that a message continues, because it answers a question of that run.
    pub(crate) async fn answered_run(&self, request: &RunRequest) -> Result<Option<String>, RunError> {
        let Input::Message(content) = &request.input else { return Ok(None) };
        if content.responses().next().is_none() {
            return Ok(None);
        }
        let Some(session) = self.sessions.get(&request.key).await? else { return Ok(None) };
        let asked =
            content.responses().find_map(|response| session.question_runs.get(&response.id_or_name()));
        let Some(id) = asked else { return Ok(None) };
        let run = self.turns.store().run(&store_key(&request.key), id).await;
        let run = run.map_err(|error| service_error(error, &request.key))?;
        Ok(run.filter(|run| run.status == RunStatus::Waiting).map(|run| run.id))
    }

    /// A message arrives: it is before all that arrive later.
    pub(crate) fn arrive(&self, request: &RunRequest, name: RunName) -> Result<Arrival, RunError> {
        let arrival = self.turns.arrive(&request.key, name);
        Ok(arrival.map_err(|error| service_error(error, &request.key))?)
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent").field("tree", &self.tree).finish_non_exhaustive()
    }
}
