//! The steps of a turn: taking a message, asking a model, running tools. Each stores what it did before it shows it.

use crate::{
    agent::{Armed, Node},
    content::{Content, FunctionCall, FunctionResponse, Part},
    error::{LlmError, RunError, ServiceError},
    event::{Event, EventActions, mint_id, now},
    facts::Call,
    flow::{
        call::{self, Task},
        ids, request, settle, spans,
        step::{Step, next_step},
    },
    instruction,
    limits::Meter,
    model::{LlmRequest, LlmResponse},
    progress::{Board, CallProgress},
    runner::{EventSink, RunConfig, Runner, StreamingMode},
    session::{Entry, Session, SessionService},
    tool::ToolContext,
};
use futures::StreamExt;
use serde_json::{Map, Value, json};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio_util::sync::CancellationToken;

/// A turn under way: its session is ours alone until it ends.
pub(crate) struct Turn<'a, S: SessionService> {
    pub(crate) runner: &'a Runner<S>,
    pub(crate) session: S::Session,
    pub(crate) meter: Meter,
    pub(crate) config: RunConfig,
    pub(crate) cancel: CancellationToken,
    pub(crate) out: EventSink<'a>,
    pub(crate) invocation: String,
    pub(crate) again: bool,
    pub(crate) message_metadata: Map<String, Value>,
}

impl<'a, S: SessionService> Turn<'a, S> {
    pub(crate) fn first_step(&self) -> Step {
        if self.again { Step::CallModel } else { self.next_step() }
    }

    pub(crate) fn next_step(&self) -> Step {
        next_step(self.session.events().last().map(AsRef::as_ref), self.session.facts())
    }

    pub(crate) async fn take_message(
        &mut self,
        content: Content,
        state_delta: Map<String, Value>,
    ) -> Result<(), RunError> {
        let answers = self.find_answered_calls(&content).await?;
        self.settle(!answers.is_empty()).await?;
        if let Some(call) = answers.into_iter().next() {
            self.go_on_with(call.invocation_id).await?;
        }
        self.record_user(Some(content), state_delta).await
    }

    /// Answers what the past left open. Questions stay if they are being answered, or if nobody has spoken.
    pub(crate) async fn settle(&mut self, keep_questions: bool) -> Result<(), RunError> {
        for mut event in settle::settle(self.session.facts(), keep_questions) {
            event.node_info.path.clone_from(&self.runner.agents.find_or_root(Some(&event.author)).path);
            event.custom_metadata.clone_from(&self.config.custom_metadata);
            self.record(Entry::on_the_way(event)).await?;
        }
        Ok(())
    }

    /// What goes on belongs to the invocation that was cut off.
    pub(crate) async fn take_up_invocation(&mut self) -> Result<(), RunError> {
        match self.session.events().last().map(|last| last.invocation_id.clone()) {
            Some(invocation) => self.go_on_with(invocation).await,
            None => Ok(()),
        }
    }

    /// The run is the one that the log ends with, and has used what it says.
    async fn go_on_with(&mut self, invocation: String) -> Result<(), RunError> {
        self.meter.take_up(&self.runner.sessions.end_of(&self.session, &invocation).await?);
        self.invocation = invocation;
        Ok(())
    }

    /// The calls that the message answers, if it answers any. Each of them must be known.
    async fn find_answered_calls(&mut self, content: &Content) -> Result<Vec<Call>, RunError> {
        let mut found = Vec::new();
        for response in content.responses() {
            let id = response.id_or_name();
            if self.known_call(&id).is_none() {
                self.runner.sessions.recall(&mut self.session, &id).await?;
            }
            found.push(self.known_call(&id).ok_or(RunError::UnknownCall { id })?);
        }
        Ok(found)
    }

    /// A call that a message may answer: one that was asked about, one that runs long.
    fn known_call(&self, id: &str) -> Option<Call> {
        let facts = self.session.facts();
        let asked = facts.questions.iter().find(|question| question.id == id).map(|question| &question.call);
        let open = facts.open_calls.iter().filter(|call| call.long_running);
        asked.or_else(|| facts.deferred.iter().chain(open).find(|call| call.id() == id)).cloned()
    }

    pub(crate) async fn record_user(
        &mut self,
        content: Option<Content>,
        state: Map<String, Value>,
    ) -> Result<(), RunError> {
        let mut event = Event::new(self.invocation.clone(), "user");
        event.content =
            content.map(|content| Content { role: content.role.or(Some("user".into())), ..content });
        event.actions.state_delta = state;
        event.custom_metadata.clone_from(&self.config.custom_metadata);
        if !self.message_metadata.is_empty() {
            event.custom_metadata.get_or_insert_default().extend(std::mem::take(&mut self.message_metadata));
        }
        Ok(self.runner.sessions.append(&mut self.session, event).await.map(drop)?)
    }

    /// Stores, then shows.
    async fn record(&mut self, entry: impl Into<Entry> + Send) -> Result<(), ServiceError> {
        let event = self.runner.sessions.append(&mut self.session, entry).await?;
        (self.out)(&event);
        Ok(())
    }

    /// An event of an agent in this invocation.
    fn event_by(&self, node: &Node) -> Event {
        let mut event = Event::new(self.invocation.clone(), node.agent.name.clone());
        event.node_info.path.clone_from(&node.path);
        event.custom_metadata.clone_from(&self.config.custom_metadata);
        event
    }

    pub(crate) async fn ask_model(&mut self) -> Result<(), RunError> {
        let node = self.speaker();
        self.again = false;
        let frame = self.event_by(node);
        let event = match self.answer_of(node, &frame).await {
            Ok(response) => {
                self.recall_namesakes(&response).await?;
                self.finish(node, frame, response)
            }
            Err(error) => return self.fail(frame, error).await,
        };
        self.meter.take_answer(&event);
        Ok(self.record(event).await?)
    }

    /// Looks for calls that wait for a late result under the ids of an answer's calls. An answer of words looks for none.
    async fn recall_namesakes(&mut self, response: &LlmResponse) -> Result<(), ServiceError> {
        for id in ids::given(response.content.as_ref(), self.session.facts()) {
            self.runner.sessions.recall(&mut self.session, &id).await?;
        }
        Ok(())
    }

    /// The agent that is asked: the one that has the word. At the start of a turn it must be able to give it back.
    fn speaker(&self) -> &'a Node {
        let agents = &self.runner.agents;
        let node = agents.find_or_root(self.session.facts().active_agent.as_deref());
        let spoken = |event: &Arc<Event>| event.is_from_user() && event.responses().next().is_none();
        let starts = self.again || self.session.events().last().is_some_and(spoken);
        if starts && !agents.keeps_the_word(node) { agents.root() } else { node }
    }

    /// What the model of the agent that has the word is shown.
    pub(crate) async fn request(&self) -> Result<LlmRequest, RunError> {
        self.request_of(self.speaker()).await
    }

    async fn request_of(&self, node: &Node) -> Result<LlmRequest, RunError> {
        let files = self.files_of(node).await?;
        let tools = node.all_tools(&self.cancel).await.ok_or(RunError::Cancelled)?;
        request::build(&self.runner.agents, node, &self.session, (&files, &tools))
    }

    async fn answer_of(&mut self, node: &Node, frame: &Event) -> Result<LlmResponse, RunError> {
        self.meter.may_ask(self.config.max_llm_calls)?;
        let request = self.request_of(node).await?;
        self.stream_answer(node, request, frame).await
    }

    /// What ends a run is told in the log, so that whoever reads it sees why there is no answer.
    async fn fail(&mut self, frame: Event, error: RunError) -> Result<(), RunError> {
        if let Some(code) = error.code() {
            let (error_code, error_message) = (Some(code.to_owned()), Some(error.to_string()));
            self.record(Event { error_code, error_message, timestamp: now(), ..frame }).await?;
        }
        Err(error)
    }

    /// Shows the pieces of an answer as they come, and answers with the whole.
    async fn stream_answer(
        &self,
        node: &Node,
        request: LlmRequest,
        frame: &Event,
    ) -> Result<LlmResponse, RunError> {
        let mut span = spans::chat(&self.config.trace, node, &request, frame, self.session.key());
        let answer = self.listen(node, request, frame).await;
        match &answer {
            Ok(response) => spans::answered(&mut span, response),
            Err(error) => span.fail(&spans::error_type(error)),
        }
        answer
    }

    async fn listen(&self, node: &Node, request: LlmRequest, frame: &Event) -> Result<LlmResponse, RunError> {
        let streaming = self.config.streaming == StreamingMode::Sse;
        let mut answer = node.agent.model.generate(request, streaming);
        loop {
            let response = tokio::select! {
                biased;
                () = self.cancel.cancelled() => return Err(RunError::Cancelled),
                error = self.meter.out_of_time() => return Err(error),
                response = answer.next() => response,
            };
            match response {
                Some(Ok(piece)) if piece.partial => (self.out)(&partial(frame, piece)),
                Some(Ok(whole)) => return Ok(whole),
                Some(Err(error)) => return Err(error.into()),
                None => {
                    let error = LlmError::new("TRUNCATED", "the model's answer ended before it was complete");
                    return Err(error.into());
                }
            }
        }
    }

    async fn files_of(&self, node: &Node) -> Result<HashMap<String, String>, RunError> {
        let mut files = HashMap::new();
        for name in instruction::artifact_names(&node.agent.instruction) {
            let part = self.runner.artifacts.load(self.session.key(), name, None).await?;
            if let Some(text) = part.as_ref().and_then(Part::to_text) {
                files.insert(name.to_owned(), text);
            }
        }
        Ok(files)
    }

    pub(crate) async fn run_tools(&mut self, calls: &[Call]) -> Result<(), RunError> {
        if let Err(error) = self.meter.may_call(calls.len()) {
            return self.refuse(calls, error).await;
        }
        let state = Arc::new(self.session.state().clone());
        let event_id = mint_id();
        let node = self.runner.agents.find_or_root(calls.first().map(|call| call.author.as_str()));
        let board = Arc::new(Board::default());
        let tasks = calls.iter().map(|call| self.task(call, &state, &event_id, &board)).collect();
        let answers = tokio::select! {
            biased;
            answers = call::run(&self.runner.agents, self.session.events(), tasks) => answers,
            never = board.tell(|progress| self.show_progress(node, progress)) => match never {},
        };
        if !answers.questions.is_empty() {
            let questions = answers.questions.iter().map(|(call, asked)| call::question(call, asked).into());
            let asking = Content::new("model", questions.collect());
            let mut event = self.event_by(node);
            event.long_running_tool_ids = Some(asking.calls().filter_map(|call| call.id.clone()).collect());
            event.content = Some(asking);
            self.record(event).await?;
        }
        let mut event = self.event_by(node);
        event.id = event_id;
        event.branch = calls.first().and_then(|call| call.branch.clone());
        event.content = Some(Content::new("user", answers.responses));
        event.actions = answers.actions;
        let called = calls.iter().map(|call| call.part.call()).zip(event.responses());
        self.meter.take_outcomes(called.filter_map(|(call, answer)| Some((call?, answer))));
        // Whoever corrects what the model asked for has the turn still.
        self.record(Entry { event, goes_on: answers.fault.is_some() }).await?;
        if self.cancel.is_cancelled() {
            return Err(RunError::Cancelled);
        }
        answers.fault.map_or(Ok(()), Err)
    }

    /// Shows how far a call is to those who want to see things as they come.
    fn show_progress(&self, node: &Node, progress: &CallProgress) {
        if self.config.streaming == StreamingMode::Sse {
            let mut event = Event { partial: Some(true), ..self.event_by(node) };
            annotate(&mut event, progress.metadata());
            (self.out)(&event);
        }
    }

    /// Answers calls that are not made, and ends the run.
    async fn refuse(&mut self, calls: &[Call], error: RunError) -> Result<(), RunError> {
        let node = self.runner.agents.find_or_root(calls.first().map(|call| call.author.as_str()));
        let said = json!({"error": format!("not run: {error}")});
        let answer = |call: &Call| Part::from(FunctionResponse::new(call.id(), call.name(), said.clone()));
        let mut event = self.event_by(node);
        event.branch = calls.first().and_then(|call| call.branch.clone());
        event.content = Some(Content::new("user", calls.iter().map(answer).collect()));
        self.record(Entry::on_the_way(event)).await?;
        self.fail(self.event_by(node), error).await
    }

    fn task<'c>(
        &self,
        call: &'c Call,
        state: &Arc<Map<String, Value>>,
        event_id: &'c str,
        board: &Arc<Board>,
    ) -> Task<'c>
    where
        Self: 'c,
    {
        let context = ToolContext {
            call_id: call.id(),
            agent: call.author.clone(),
            invocation_id: self.invocation.clone(),
            session: self.session.key().clone(),
            confirmation: call.confirmation.clone(),
            begun: call.begun,
            cancel: self.cancel.child_token(),
            tool: call.name().to_owned(),
            progress: Arc::clone(board),
            ledger: self.runner.ledger.clone(),
            state: Arc::clone(state),
            artifacts: Arc::clone(&self.runner.artifacts),
            actions: Arc::new(Mutex::new(EventActions::default())),
        };
        let node = self.runner.agents.find_or_root(Some(&call.author));
        let left = self.meter.time_left().unwrap_or(Duration::MAX);
        Task {
            call,
            node,
            context,
            timeout: self.config.tool_timeout.min(left),
            trace: self.config.trace.clone(),
            event_id,
        }
    }

    /// The final event of a model call: calls have ids, unique in the event, before anything is stored.
    fn finish(&self, node: &Node, frame: Event, response: LlmResponse) -> Event {
        let mut event = Event {
            model_version: response.model_version,
            content: response.content,
            partial: (self.config.streaming == StreamingMode::Sse).then_some(false),
            finish_reason: response.finish_reason,
            error_code: response.error_code,
            error_message: response.error_message,
            usage_metadata: response.usage_metadata,
            timestamp: now(),
            ..frame
        };
        annotate(&mut event, response.custom_metadata);
        // An answer that says nothing is an answer all the same: without content it would leave no trace in the log.
        if event.error_code.is_none() {
            event.content.get_or_insert_default().role.get_or_insert_with(|| "model".to_owned());
        }
        ids::mint_missing(&mut event, self.session.facts());
        let runs_long = |call: &&FunctionCall| {
            let long = |armed: &Armed| armed.tool.is_long_running() && call.malformed_args().is_none();
            node.tools.get(&call.name).is_some_and(long)
        };
        if event.calls().next().is_some() {
            let long = event.calls().filter(runs_long).filter_map(|call| call.id.clone());
            event.long_running_tool_ids = Some(long.collect());
        }
        if let Some(key) = node.agent.output_key.as_ref().filter(|_| event.is_final_response())
            && let Some(content) = event.content.as_ref().filter(|content| content.has_said())
        {
            event.actions.state_delta.insert(key.clone(), Value::from(content.said()));
        }
        event
    }
}

/// A piece of an answer, for whoever looks on.
fn partial(frame: &Event, piece: LlmResponse) -> Event {
    let mut event = Event {
        content: piece.content.map(Content::without_signatures),
        partial: Some(true),
        timestamp: now(),
        ..frame.clone()
    };
    annotate(&mut event, piece.custom_metadata);
    event
}

/// Adds what the model's side says of its response to what the run says of all its events.
fn annotate(event: &mut Event, metadata: Option<Map<String, Value>>) {
    if let Some(metadata) = metadata {
        event.custom_metadata.get_or_insert_default().extend(metadata);
    }
}
