//! The steps of a turn: store the message, call the model, run tools. Each step stores its events before it emits them.

mod model_call;
mod tool_calls;

use crate::{
    agent::Node,
    content::{Content, FunctionResponse},
    error::{RunError, ServiceError},
    event::Event,
    flow::{
        settle,
        step::{Step, next_step},
    },
    limits::UsageMeter,
    pending::PendingCall,
    runner::{EventSink, RunConfig, Runner},
    session::{LogEntry, Session, SessionService, TurnService},
};
use failpoint::Point;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

/// A running turn. It has exclusive use of its session.
pub(crate) struct Turn<'a, S: SessionService> {
    pub(crate) runner: &'a Runner<S>,
    pub(crate) session: S::Session,
    pub(crate) meter: UsageMeter,
    pub(crate) config: RunConfig,
    pub(crate) cancel: CancellationToken,
    pub(crate) out: EventSink<'a>,
    pub(crate) invocation: String,
    pub(crate) again: bool,
}

/// The user's input at the start of a run.
pub(crate) struct UserInput {
    pub(crate) content: Option<Content>,
    pub(crate) state_delta: Map<String, Value>,
    /// Metadata of the user's event only.
    pub(crate) metadata: Map<String, Value>,
}

impl<S: TurnService> Turn<'_, S> {
    pub(crate) fn first_step(&self) -> Step {
        if self.again { Step::CallModel } else { self.next_step() }
    }

    pub(crate) fn next_step(&self) -> Step {
        next_step(self.session.events().last().map(AsRef::as_ref), self.session.pending())
    }

    /// The first commit of the turn: the events that settle open work, then the user's event.
    pub(crate) async fn open(&mut self, input: UserInput, continue_run: bool) -> Result<(), RunError> {
        if continue_run {
            self.resume_invocation().await?;
        }
        let answered = self.find_answered_calls(input.content.as_ref()).await?;
        // A run that continues has no new message of the user, which would withdraw its questions.
        let keep_questions = continue_run || input.content.is_none() || !answered.is_empty();
        let settling = self.settling_events(keep_questions);
        let continued = answered.into_iter().next().map(|call| call.invocation_id);
        if let Some(invocation) = &continued {
            self.invocation.clone_from(invocation);
        }
        // An answer continues the run that asked, so that run settles its own calls.
        let is_own = |event: &Event| event.invocation_id == self.invocation;
        let entry =
            |event: Event| if is_own(&event) { LogEntry::continues(event) } else { LogEntry::settles(event) };
        let opening = settling.into_iter().map(entry);
        let opening = opening.chain(self.user_event(input).map(LogEntry::continues)).collect();
        failpoint::pass(Point::BeforeOpening).await;
        let stored = self.runner.sessions.begin_turn(&mut self.session, opening).await?;
        failpoint::pass(Point::AfterOpening).await;
        // Not emitted: the user's own message, and events of earlier runs, which go to the readers of those runs.
        let own =
            |event: &&std::sync::Arc<Event>| !event.is_from_user() && event.invocation_id == self.invocation;
        stored.iter().filter(own).for_each(|event| self.emit(event));
        match continued {
            Some(invocation) => self.continue_invocation(invocation).await,
            None => Ok(()),
        }
    }

    /// Resumes a run after a crash. Its message is in the log; the draft of its answer is settled first.
    pub(crate) async fn resume(&mut self, input: UserInput) -> Result<(), RunError> {
        failpoint::pass(Point::BeforeResume).await;
        if let Some(draft) = self.session.draft().cloned() {
            self.record(LogEntry::continues(draft)).await?;
        }
        failpoint::pass(Point::AfterResume).await;
        self.resume_invocation().await?;
        if let Some(event) = self.user_event(input) {
            self.runner.sessions.append(&mut self.session, LogEntry::continues(event)).await?;
        }
        Ok(())
    }

    /// The events that settle open work: first the draft of an answer, then calls and questions. Questions stay open if the input
    /// responds to one, or if there is no message.
    fn settling_events(&self, keep_questions: bool) -> Vec<Event> {
        let mut events = settle::settle(self.session.pending(), keep_questions);
        for event in &mut events {
            event.node_info.path.clone_from(&self.runner.agents.find_or_root(Some(&event.author)).path);
            event.custom_metadata.clone_from(&self.config.custom_metadata);
        }
        self.session.draft().cloned().into_iter().chain(events).collect()
    }

    /// The event of the user's input; `None` if the input is empty.
    fn user_event(&self, input: UserInput) -> Option<Event> {
        let UserInput { content, state_delta, metadata } = input;
        if content.is_none() && state_delta.is_empty() {
            return None;
        }
        let mut event = Event::new(self.invocation.clone(), "user");
        event.content =
            content.map(|content| Content { role: content.role.or(Some("user".into())), ..content });
        event.actions.state_delta = state_delta;
        event.custom_metadata.clone_from(&self.config.custom_metadata);
        annotate(&mut event, Some(metadata).filter(|metadata| !metadata.is_empty()));
        Some(event)
    }

    /// Continues the invocation at the end of the log.
    async fn resume_invocation(&mut self) -> Result<(), RunError> {
        match self.session.events().last().map(|last| last.invocation_id.clone()) {
            Some(invocation) => self.continue_invocation(invocation).await,
            None => Ok(()),
        }
    }

    /// Continues an invocation with the usage in its log.
    async fn continue_invocation(&mut self, invocation: String) -> Result<(), RunError> {
        self.meter.resume(&self.runner.sessions.invocation_events(&self.session, &invocation).await?);
        self.invocation = invocation;
        Ok(())
    }

    /// The calls that the message responds to. Fails if one of them is unknown, or if an answer does not match its question.
    pub(crate) async fn find_answered_calls(
        &mut self,
        content: Option<&Content>,
    ) -> Result<Vec<PendingCall>, RunError> {
        let mut found = Vec::new();
        for response in content.into_iter().flat_map(Content::responses) {
            let id = response.id_or_name();
            if self.known_call(&id).is_none() {
                self.runner.sessions.recall(&mut self.session, &id).await?;
            }
            self.check_answer(response)?;
            found.push(self.known_call(&id).ok_or(RunError::UnknownCall { id })?);
        }
        Ok(found)
    }

    /// Checks the answer to a question for input.
    fn check_answer(&self, response: &FunctionResponse) -> Result<(), RunError> {
        let id = response.id_or_name();
        let asked = self.session.pending().questions.iter().find(|question| question.id == id);
        let Some(request) = asked.and_then(|question| question.request.input()) else { return Ok(()) };
        let answer = request.parse_answer(&response.response.clone().unwrap_or_default());
        answer.map(drop).map_err(|reason| RunError::InvalidAnswer { id, reason })
    }

    /// A call that a message may respond to: one with an open question, or a long-running one.
    fn known_call(&self, id: &str) -> Option<PendingCall> {
        let pending = self.session.pending();
        let asked =
            pending.questions.iter().find(|question| question.id == id).map(|question| &question.call);
        let open = pending.open_calls.iter().filter(|call| call.long_running);
        asked.or_else(|| pending.deferred.iter().chain(open).find(|call| call.id() == id)).cloned()
    }

    async fn record(&mut self, entry: impl Into<LogEntry> + Send) -> Result<(), ServiceError> {
        self.record_all(vec![entry.into()]).await
    }

    /// Stores events in one commit, then emits them.
    async fn record_all(&mut self, entries: Vec<LogEntry>) -> Result<(), ServiceError> {
        for event in self.runner.sessions.append_all(&mut self.session, entries).await? {
            self.emit(&event);
        }
        Ok(())
    }

    /// Emits an event to the sink.
    fn emit(&self, event: &Event) {
        failpoint::pass_blocking(Point::BeforeShow);
        (self.out)(event);
        failpoint::pass_blocking(Point::AfterShow);
    }

    /// A new event of an agent in this invocation.
    fn event_by(&self, node: &Node) -> Event {
        let mut event = Event::new(self.invocation.clone(), node.agent.name.clone());
        event.node_info.path.clone_from(&node.path);
        event.custom_metadata.clone_from(&self.config.custom_metadata);
        event
    }
}

/// Adds metadata to an event that has the metadata of the run already.
fn annotate(event: &mut Event, metadata: Option<Map<String, Value>>) {
    if let Some(metadata) = metadata {
        event.custom_metadata.get_or_insert_default().extend(metadata);
    }
}
