//! The steps of a turn: taking a message, asking a model, running tools. Each stores what it did before it shows it.

use crate::{
    agent::Node,
    content::{Content, Data, Part},
    error::{LlmError, RunError, ServiceError},
    event::{Event, EventActions, mint_call_id, now},
    facts::Call,
    flow::{
        call::{self, Task},
        request, settle,
        step::{Step, next_step},
    },
    instruction,
    model::{LlmRequest, LlmResponse},
    runner::{EventSink, RunConfig, Runner, StreamingMode},
    session::{Session, SessionService},
    tool::ToolContext,
};
use futures::StreamExt;
use serde_json::{Map, Value};
use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex},
};
use tokio_util::sync::CancellationToken;

/// A turn under way: its session is ours alone until it ends.
pub(crate) struct Turn<'a, S: SessionService> {
    pub(crate) runner: &'a Runner<S>,
    pub(crate) session: S::Session,
    pub(crate) config: RunConfig,
    pub(crate) cancel: CancellationToken,
    pub(crate) out: EventSink<'a>,
    pub(crate) invocation: String,
    pub(crate) model_calls: u32,
    pub(crate) again: bool,
    pub(crate) message_metadata: Map<String, Value>,
}

impl<S: SessionService> Turn<'_, S> {
    pub(crate) fn first_step(&mut self) -> Step {
        if std::mem::take(&mut self.again) { Step::CallModel } else { self.next_step() }
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
        for mut event in settle::settle(self.session.facts(), !answers.is_empty()) {
            event.node_info.path.clone_from(&self.runner.agents.find_or_root(Some(&event.author)).path);
            self.record(event).await?;
        }
        if let Some(call) = answers.into_iter().next() {
            self.invocation = call.invocation_id;
        }
        self.record_user(Some(content), state_delta).await
    }

    /// The calls that the message answers, if it answers any. Each of them must be known.
    async fn find_answered_calls(&mut self, content: &Content) -> Result<Vec<Call>, RunError> {
        let mut found = Vec::new();
        for response in content.responses() {
            let id = response.id_or_name();
            let known = self.known_call(&id);
            if known.is_none() && self.runner.sessions.recall(&mut self.session, &id).await? {
                found.extend(self.known_call(&id));
            } else {
                found.push(known.ok_or(RunError::UnknownCall { id })?);
            }
        }
        Ok(found)
    }

    fn known_call(&self, id: &str) -> Option<Call> {
        let facts = self.session.facts();
        let question =
            facts.questions.iter().find(|question| question.id == id).map(|question| &question.call);
        question.or_else(|| facts.deferred.iter().find(|call| call.id() == id)).cloned()
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
        self.runner.sessions.append(&mut self.session, event).await?;
        Ok(())
    }

    /// Stores, then shows.
    async fn record(&mut self, event: Event) -> Result<(), ServiceError> {
        let event = self.runner.sessions.append(&mut self.session, event).await?;
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
        self.model_calls += 1;
        if self.model_calls > self.config.max_llm_calls {
            return Err(RunError::TooManyModelCalls { limit: self.config.max_llm_calls });
        }
        let runner = self.runner;
        let node = runner.agents.find_or_root(self.session.facts().active_agent.as_deref());
        let files = self.files_of(node).await?;
        let request = request::build(&runner.agents, node, &self.session, &files)?;
        let frame = self.event_by(node);
        match self.stream_answer(node, request, &frame).await {
            Ok(response) => Ok(self.record(finish(node, frame, response, self.config.streaming)).await?),
            Err(RunError::Model(error)) => {
                let failed = Event {
                    error_code: Some(error.code.clone()),
                    error_message: Some(error.message.clone()),
                    timestamp: now(),
                    ..frame
                };
                self.record(failed).await?;
                Err(error.into())
            }
            Err(other) => Err(other),
        }
    }

    /// Shows the pieces of an answer as they come, and answers with the whole.
    async fn stream_answer(
        &self,
        node: &Node,
        request: LlmRequest,
        frame: &Event,
    ) -> Result<LlmResponse, RunError> {
        let streaming = self.config.streaming == StreamingMode::Sse;
        let mut answer = node.agent.model.generate(request, streaming);
        loop {
            let response = tokio::select! {
                biased;
                () = self.cancel.cancelled() => return Err(RunError::Cancelled),
                response = answer.next() => response,
            };
            match response {
                Some(Ok(piece)) if piece.partial => (self.out)(&Event {
                    content: piece.content,
                    partial: Some(true),
                    timestamp: now(),
                    ..frame.clone()
                }),
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
            if let Some(text) = part.as_ref().and_then(Part::as_text) {
                files.insert(name.to_owned(), text.to_owned());
            }
        }
        Ok(files)
    }

    pub(crate) async fn run_tools(&mut self, calls: &[Call]) -> Result<(), RunError> {
        let runner = self.runner;
        let state = Arc::new(self.session.state().clone());
        let tasks = calls.iter().map(|call| self.task(call, &state)).collect();
        let running = call::run(&runner.agents, self.session.events(), tasks);
        let answers = tokio::select! {
            biased;
            () = self.cancel.cancelled() => None,
            answers = running => Some(answers),
        };
        let Some(answers) = answers else {
            self.give_up().await?;
            return Err(RunError::Cancelled);
        };
        let node = runner.agents.find_or_root(calls.first().map(|call| call.author.as_str()));
        if !answers.questions.is_empty() {
            let questions = answers.questions.iter().map(|(call, asked)| call::question(call, asked).into());
            let asking = Content::new("model", questions.collect());
            let mut event = self.event_by(node);
            event.long_running_tool_ids = Some(asking.calls().filter_map(|call| call.id.clone()).collect());
            event.content = Some(asking);
            self.record(event).await?;
        }
        let mut event = self.event_by(node);
        event.branch = calls.first().and_then(|call| call.branch.clone());
        event.content = Some(Content::new("user", answers.responses));
        event.actions = answers.actions;
        self.record(event).await?;
        answers.fault.map_or(Ok(()), Err)
    }

    fn task<'c>(&self, call: &'c Call, state: &Arc<Map<String, Value>>) -> Task<'c>
    where
        Self: 'c,
    {
        let context = ToolContext {
            call_id: call.id(),
            agent: call.author.clone(),
            invocation_id: self.invocation.clone(),
            session: self.session.key().clone(),
            confirmation: call.confirmation.clone(),
            cancel: self.cancel.child_token(),
            state: Arc::clone(state),
            artifacts: Arc::clone(&self.runner.artifacts),
            actions: Arc::new(Mutex::new(EventActions::default())),
        };
        let node = self.runner.agents.find_or_root(Some(&call.author));
        Task { call, node, context, timeout: self.config.tool_timeout }
    }

    /// The calls that were running when the run was cancelled have an unknown outcome, and the log says so at once.
    async fn give_up(&mut self) -> Result<(), RunError> {
        for event in settle::settle(self.session.facts(), true) {
            self.record(event).await?;
        }
        Ok(())
    }
}

/// The final event of a model call: calls have ids, unique in the event, before anything is stored.
fn finish(node: &Node, frame: Event, response: LlmResponse, streaming: StreamingMode) -> Event {
    let mut event = Event {
        model_version: response.model_version,
        content: response.content,
        partial: (streaming == StreamingMode::Sse).then_some(false),
        finish_reason: response.finish_reason,
        error_code: response.error_code,
        error_message: response.error_message,
        usage_metadata: response.usage_metadata,
        timestamp: now(),
        ..frame
    };
    mint_missing_ids(&mut event);
    let is_long = |name: &str| node.tools.get(name).is_some_and(|armed| armed.tool.is_long_running());
    if event.calls().next().is_some() {
        let long = event.calls().filter(|call| is_long(&call.name)).filter_map(|call| call.id.clone());
        event.long_running_tool_ids = Some(long.collect());
    }
    if let Some(key) = node.agent.output_key.as_ref().filter(|_| event.is_final_response()) {
        let said = event.content.as_ref().map(Content::said).unwrap_or_default();
        event.actions.state_delta.insert(key.clone(), Value::from(said));
    }
    event
}

fn mint_missing_ids(event: &mut Event) {
    let mut taken = HashSet::new();
    for part in event.content.iter_mut().flat_map(|content| &mut content.parts) {
        let Data::FunctionCall(call) = &mut part.data else { continue };
        let fresh = call.id.as_ref().is_some_and(|id| !id.is_empty() && taken.insert(id.clone()));
        if !fresh {
            call.id = Some(mint_call_id());
        }
    }
}
