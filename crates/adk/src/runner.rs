//! The runner: the agents of an app, its sessions, and the agent loop of a turn.

use crate::{
    agent::AgentTree,
    content::{Content, Part},
    draft::DraftFlush,
    error::RunError,
    event::{Event, mint_invocation_id},
    flow::step::Step,
    limits::{RunLimits, UsageMeter},
    model::LlmRequest,
    session::{ArtifactService, SessionKey, SessionService, TurnService},
    tool::Ledger,
    trace::Trace,
    turn::{Turn, UserInput},
};
use serde_json::{Map, Value};
use std::{fmt, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// Receives events: partial ones immediately, all others after they are stored. It must not block.
pub type EventSink<'a> = &'a (dyn Fn(&Event) + Send + Sync);

/// Runs the agents of one app.
pub struct Runner<S> {
    pub(crate) agents: Arc<AgentTree>,
    pub(crate) sessions: S,
    pub(crate) artifacts: Arc<dyn ArtifactService>,
    pub(crate) ledger: Option<Arc<dyn Ledger>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StreamingMode {
    #[default]
    None,
    Sse,
}

#[derive(Clone, Debug)]
pub struct RunConfig {
    pub streaming: StreamingMode,
    /// 0 means unlimited.
    pub max_llm_calls: u32,
    /// The timeout of one tool call.
    pub tool_timeout: Duration,
    /// The caller continues the run after [`RunError::AgentNotFound`] with valid names, so that error has no event.
    pub retries_unknown_agent: bool,
    pub limits: RunLimits,
    /// Copied to every event of the run.
    pub custom_metadata: Option<Map<String, Value>>,
    /// The parent span of the run.
    pub trace: Trace,
    /// Makes the run save its draft and stop its output before the process exits.
    pub draft_flush: DraftFlush,
}

impl Default for RunConfig {
    fn default() -> Self {
        Self {
            streaming: StreamingMode::None,
            max_llm_calls: 500,
            tool_timeout: Duration::from_mins(2),
            retries_unknown_agent: false,
            limits: RunLimits::default(),
            custom_metadata: None,
            trace: Trace::default(),
            draft_flush: DraftFlush::default(),
        }
    }
}

/// The input of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    Message(Content),
    /// No message: the model is called once more.
    Again,
    /// Continues where the log ends, e.g. after a crash.
    Resume,
}

#[derive(Clone, Debug)]
pub struct RunRequest {
    pub key: SessionKey,
    pub input: Input,
    /// The id of the new invocation; `None` for a generated one. A response to a call belongs to the invocation of the call.
    pub invocation_id: Option<String>,
    /// Continues the invocation at the end of the log, with its usage so far.
    pub continue_run: bool,
    pub state_delta: Map<String, Value>,
    /// Added to the metadata of the message's own event.
    pub message_metadata: Map<String, Value>,
    pub config: RunConfig,
    pub cancel: CancellationToken,
}

impl RunRequest {
    pub fn message(key: SessionKey, content: Content) -> Self {
        Self {
            key,
            input: Input::Message(content),
            invocation_id: None,
            continue_run: false,
            state_delta: Map::new(),
            message_metadata: Map::new(),
            config: RunConfig::default(),
            cancel: CancellationToken::new(),
        }
    }

    /// Whether the message responds to a call.
    pub fn is_answer(&self) -> bool {
        matches!(&self.input, Input::Message(content) if content.responses().next().is_some())
    }

    /// Refuses a message with function calls: only models call tools.
    pub fn check_input(&self) -> Result<(), RunError> {
        match &self.input {
            Input::Message(content) if content.parts.iter().any(Part::carries_call) => {
                Err(RunError::CallInMessage)
            }
            Input::Message(_) | Input::Again | Input::Resume => Ok(()),
        }
    }
}

impl<S: SessionService> Runner<S> {
    pub fn new(agents: Arc<AgentTree>, sessions: S, artifacts: Arc<dyn ArtifactService>) -> Self {
        Self { agents, sessions, artifacts, ledger: None }
    }

    /// Records calls in `ledger` before they begin.
    pub fn with_ledger(self, ledger: Arc<dyn Ledger>) -> Self {
        Self { ledger: Some(ledger), ..self }
    }

    pub fn agents(&self) -> &AgentTree {
        &self.agents
    }

    pub fn sessions(&self) -> &S {
        &self.sessions
    }

    /// The request that the next model call would send. Stores nothing.
    pub async fn preview(&self, key: &SessionKey) -> Result<LlmRequest, RunError> {
        let request = RunRequest::message(key.clone(), Content::default());
        self.load(&request, &|_| {}).await?.request().await
    }

    /// Loads the session for a turn. Stores nothing.
    pub(crate) async fn load<'a>(
        &'a self,
        request: &RunRequest,
        out: EventSink<'a>,
    ) -> Result<Turn<'a, S>, RunError> {
        let RunRequest { key, input, config, cancel, invocation_id, .. } = request;
        let session = self.sessions.get(key).await?.ok_or_else(|| RunError::SessionNotFound(key.clone()))?;
        Ok(Turn {
            runner: self,
            session,
            meter: UsageMeter::new(config.limits.clone()),
            config: config.clone(),
            cancel: cancel.clone(),
            out,
            invocation: invocation_id.clone().unwrap_or_else(mint_invocation_id),
            again: *input == Input::Again,
        })
    }
}

impl<S: TurnService> Runner<S> {
    /// Runs one turn. If the future is dropped at any await, the next turn can settle the log and continue.
    pub async fn run(&self, request: RunRequest, out: EventSink<'_>) -> Result<(), RunError> {
        let mut turn = self.begin(request, out).await?;
        let mut step = turn.first_step();
        loop {
            match step {
                Step::CallModel => turn.ask_model().await?,
                Step::CallTools(calls) => turn.run_tools(&calls).await?,
                Step::Done => return Ok(()),
            }
            step = turn.next_step();
        }
    }

    /// Fails if the message responds to a call that is not open. Stores nothing.
    pub async fn check_answers(&self, request: &RunRequest) -> Result<(), RunError> {
        let Input::Message(content) = &request.input else { return Ok(()) };
        self.load(request, &|_| {}).await?.find_answered_calls(Some(content)).await.map(drop)
    }

    /// Loads the session, settles open work, and stores the message.
    async fn begin<'a>(&'a self, request: RunRequest, out: EventSink<'a>) -> Result<Turn<'a, S>, RunError> {
        request.check_input()?;
        let mut turn = self.load(&request, out).await?;
        let RunRequest { input, continue_run, state_delta, message_metadata: metadata, .. } = request;
        let (content, resumes) = match input {
            Input::Message(content) => (Some(content), false),
            Input::Again => (None, false),
            Input::Resume => (None, true),
        };
        let input = UserInput { content, state_delta, metadata };
        if resumes {
            turn.resume(input).await?;
        } else {
            turn.open(input, continue_run).await?;
        }
        Ok(turn)
    }
}

impl<S> fmt::Debug for Runner<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runner").field("agents", &self.agents).finish_non_exhaustive()
    }
}
