//! Model calls: the request, the streamed answer, and the event of the answer. The partial answer is saved as a draft while it
//! is streamed.

use super::{Turn, annotate};
use crate::{
    agent::{CompiledTool, Node},
    content::{Content, FunctionCall, Part},
    draft::{AnswerDraft, DraftFlush, DraftPosition, UnsavedText},
    error::{LlmError, RunError, ServiceError},
    event::{Event, mint_id, now},
    flow::{
        ids,
        request::{self, WindowedRequest},
        spans,
    },
    instruction,
    model::{LlmRequest, LlmResponse},
    recipe::CallRecipe,
    runner::StreamingMode,
    session::{LogEntry, RunEnd, Session, SessionService, TurnService},
};
use failpoint::Point;
use futures::StreamExt;
use lock::LockExt;
use serde_json::Value;
use std::{
    collections::HashMap,
    convert::Infallible,
    sync::{Arc, Mutex, MutexGuard, OnceLock},
    time::{Duration, Instant},
};
use tokio::sync::Notify;

/// The interval between saves of a draft.
const SAVE_INTERVAL: Duration = Duration::from_millis(500);

/// The text of the running answer, shared by the stream reader and the draft saver.
#[derive(Default)]
struct StreamedText {
    buffer: Mutex<TextBuffer>,
    grew: Notify,
    /// Arrival time of the first chunk.
    first_chunk: OnceLock<Instant>,
}

#[derive(Default)]
struct TextBuffer {
    draft: AnswerDraft,
    /// Held while the draft has unsaved text.
    unsaved: Option<UnsavedText>,
}

impl StreamedText {
    /// Appends text that is emitted right after this. Pending forever once a flush is requested.
    async fn push(&self, content: Option<&Content>, flush: &DraftFlush) {
        let Some(content) = content else { return };
        self.first_chunk.get_or_init(Instant::now);
        let unsaved = flush.admit().await;
        let mut buffer = self.buffer();
        buffer.draft.push(content);
        buffer.unsaved = buffer.draft.has_unsaved().then_some(unsaved);
        self.grew.notify_one();
    }

    fn buffer(&self) -> MutexGuard<'_, TextBuffer> {
        self.buffer.locked()
    }

    fn into_buffer(self) -> TextBuffer {
        self.buffer.into_value()
    }

    async fn wait_for_unsaved(&self) {
        while self.buffer().unsaved.is_none() {
            self.grew.notified().await;
        }
    }

    /// Marks everything up to `end` as saved.
    fn mark_saved(&self, end: DraftPosition) {
        let mut buffer = self.buffer();
        buffer.draft.mark_saved(end);
        if !buffer.draft.has_unsaved() {
            buffer.unsaved = None;
        }
    }
}

impl<S: TurnService> Turn<'_, S> {
    pub(crate) async fn ask_model(&mut self) -> Result<(), RunError> {
        let node = self.active_node();
        self.again = false;
        let frame = self.event_by(node);
        let text = StreamedText::default();
        let (recipe, answer) = self.call_model(node, &frame, &text).await;
        // Held until the answer's event is committed, so that a flush waits for that commit.
        let TextBuffer { draft, unsaved: _unsaved } = text.into_buffer();
        match answer {
            Ok(response) => self.record_answer(node, frame, (response, recipe), draft).await,
            Err(error) => self.interrupt(frame, draft, error, recipe).await,
        }
    }

    async fn record_answer(
        &mut self,
        node: &Node,
        mut frame: Event,
        (response, recipe): (LlmResponse, Option<Box<CallRecipe>>),
        draft: AnswerDraft,
    ) -> Result<(), RunError> {
        self.recall_same_ids(&response).await?;
        let mut entries = Vec::new();
        // An error response without content does not contain the emitted text, so that text gets its own event.
        if response.error_code.is_some()
            && response.content.is_none()
            && let Some(interrupted) = draft.into_event(self.interrupted_frame(&frame))
        {
            entries.push(LogEntry::continues(interrupted));
            frame.id = mint_id();
        }
        let event = self.finish(node, frame, response);
        self.meter.add_usage(&event);
        entries.push(LogEntry::from(event).with_recipe(recipe));
        Ok(self.record_all(entries).await?)
    }

    /// Ends the run in the middle of an answer. Stores the emitted text before the error.
    async fn interrupt(
        &mut self,
        frame: Event,
        draft: AnswerDraft,
        error: RunError,
        recipe: Option<Box<CallRecipe>>,
    ) -> Result<(), RunError> {
        let Some(interrupted) = draft.into_event(self.interrupted_frame(&frame)) else {
            return self.fail(Vec::new(), frame, error, recipe).await;
        };
        let entry = if matches!(error, RunError::Cancelled) {
            LogEntry::ends(interrupted, RunEnd::Cancelled)
        } else {
            LogEntry::continues(interrupted)
        };
        // Clients replace the chunks of an answer by the event with the same id, so the error needs its own id.
        self.fail(vec![entry.with_recipe(recipe)], Event { id: mint_id(), ..frame }, error, None).await
    }

    /// The event of an interrupted answer, without its content.
    fn interrupted_frame(&self, frame: &Event) -> Event {
        let partial = (self.config.streaming == StreamingMode::Sse).then_some(false);
        Event { partial, interrupted: Some(true), timestamp: now(), ..frame.clone() }
    }

    /// Loads acknowledged calls that have the ids of the answer's calls, so that new ids do not clash with them.
    async fn recall_same_ids(&mut self, response: &LlmResponse) -> Result<(), ServiceError> {
        for id in ids::unresolved(response.content.as_ref(), self.session.pending()) {
            self.runner.sessions.recall(&mut self.session, &id).await?;
        }
        Ok(())
    }

    async fn call_model(
        &mut self,
        node: &Node,
        frame: &Event,
        text: &StreamedText,
    ) -> (Option<Box<CallRecipe>>, Result<LlmResponse, RunError>) {
        let request = match self.next_request(node).await {
            Ok(request) => request,
            Err(error) => return (None, Err(error)),
        };
        let mut recipe = Box::new(CallRecipe::new(&node.agent, &self.session, &request));
        let WindowedRequest { request, window: _ } = request;
        let sent = request.sent.clone();
        let answer = self.stream_answer(node, request, frame, text).await;
        (recipe.sent, recipe.spent) = sent.take();
        (Some(recipe), answer)
    }

    /// Counts a model call and builds its request.
    async fn next_request(&mut self, node: &Node) -> Result<WindowedRequest, RunError> {
        self.meter.check_model_call(self.config.max_llm_calls)?;
        self.request_of(node).await
    }

    async fn stream_answer(
        &mut self,
        node: &Node,
        request: LlmRequest,
        frame: &Event,
        text: &StreamedText,
    ) -> Result<LlmResponse, RunError> {
        let mut span = spans::start_chat(&self.config.trace, node, &request, frame, self.session.key());
        let started = Instant::now();
        let answer = tokio::select! {
            biased;
            answer = self.read_stream(node, request, frame, text) => answer,
            never = self.save_drafts(frame, text) => match never {},
        };
        // An answer that was not streamed arrives as one chunk.
        let first = text.first_chunk.get().copied().or_else(|| answer.is_ok().then(Instant::now));
        span.set_first_token(first.map(|first| first.saturating_duration_since(started)));
        match &answer {
            Ok(response) => spans::record_response(&mut span, response),
            Err(error) => span.fail(&spans::error_type(error)),
        }
        answer
    }

    /// Ends the run with an error. Commits the error event together with the entries before it.
    pub(super) async fn fail(
        &mut self,
        mut entries: Vec<LogEntry>,
        frame: Event,
        error: RunError,
        recipe: Option<Box<CallRecipe>>,
    ) -> Result<(), RunError> {
        if let Some(code) = error.code() {
            let (error_code, error_message) = (Some(code.to_owned()), Some(error.to_string()));
            let event = Event { error_code, error_message, timestamp: now(), ..frame };
            entries.push(LogEntry::ends(event, RunEnd::Failed).with_recipe(recipe));
        }
        if !entries.is_empty() {
            self.record_all(entries).await?;
        }
        Err(error)
    }

    /// Emits the chunks of the answer as they arrive, and returns the complete response.
    async fn read_stream(
        &self,
        node: &Node,
        request: LlmRequest,
        frame: &Event,
        text: &StreamedText,
    ) -> Result<LlmResponse, RunError> {
        let streaming = self.config.streaming == StreamingMode::Sse;
        failpoint::reach(Point::ModelRequest).await?;
        let mut answer = node.agent.model.generate(request, streaming);
        loop {
            let response = tokio::select! {
                biased;
                () = self.cancel.cancelled() => return Err(RunError::Cancelled),
                error = self.meter.out_of_time() => return Err(error),
                response = answer.next() => response,
            };
            match response {
                Some(Ok(chunk)) if chunk.partial => {
                    failpoint::reach(Point::ModelChunk).await?;
                    let event = partial(frame, chunk);
                    text.push(event.content.as_ref(), &self.config.draft_flush).await;
                    self.emit(&event);
                }
                Some(Ok(whole)) => {
                    failpoint::reach(Point::ModelEnd).await?;
                    return Ok(whole);
                }
                Some(Err(error)) => return Err(error.into()),
                None => {
                    let error =
                        LlmError::new("TRUNCATED", "the model's stream ended before the answer was complete");
                    return Err(error.into());
                }
            }
        }
    }

    /// Saves emitted text, at most once per interval, until it is dropped. Text of a failed save goes with the next one.
    async fn save_drafts(&self, frame: &Event, text: &StreamedText) -> Infallible {
        loop {
            text.wait_for_unsaved().await;
            self.config.draft_flush.wait(SAVE_INTERVAL).await;
            let saved = self.save_draft(frame, text).await;
            if saved.is_err() && self.config.draft_flush.is_requested() {
                tokio::time::sleep(SAVE_INTERVAL).await;
            }
        }
    }

    async fn save_draft(&self, frame: &Event, text: &StreamedText) -> Result<(), ServiceError> {
        let unsaved = text.buffer().draft.unsaved();
        if let Some((content, end)) = unsaved {
            let frame = self.interrupted_frame(frame);
            self.runner.sessions.save_draft(&self.session, &frame, content).await?;
            text.mark_saved(end);
        }
        Ok(())
    }

    /// The final event of a model call. Calls get their ids here, before anything is stored.
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
        event.extra.extend(response.extra);
        annotate(&mut event, response.custom_metadata);
        // An empty answer needs a content: without one the log would not show that the model answered.
        if event.error_code.is_none() {
            event.content.get_or_insert_default().role.get_or_insert_with(|| "model".to_owned());
        }
        ids::assign(&mut event, self.session.pending());
        let is_long_running = |call: &&FunctionCall| {
            let runs_long =
                |compiled: &CompiledTool| compiled.tool.is_long_running() && call.malformed_args().is_none();
            node.tools.get(&call.name).is_some_and(runs_long)
        };
        if event.calls().next().is_some() {
            let long = event.calls().filter(is_long_running).filter_map(|call| call.id.clone());
            event.long_running_tool_ids = Some(long.collect());
        }
        if let Some(key) = node.agent.output_key.as_ref().filter(|_| event.is_final_response())
            && let Some(content) = event.content.as_ref().filter(|content| content.has_text())
        {
            event.actions.state_delta.insert(key.clone(), Value::from(content.text()));
        }
        event
    }
}

impl<'a, S: SessionService> Turn<'a, S> {
    /// The agent whose model is called: the active one. At the start of a turn, a non-sticky agent is replaced by the root.
    fn active_node(&self) -> &'a Node {
        let agents = &self.runner.agents;
        let node = agents.find_or_root(self.session.pending().active_agent.as_deref());
        let is_message = |event: &Arc<Event>| event.is_user_message();
        let starts = self.again || self.session.events().last().is_some_and(is_message);
        if starts && !agents.is_sticky(node) { agents.root() } else { node }
    }

    /// The request for the active agent's model.
    pub(crate) async fn request(&self) -> Result<LlmRequest, RunError> {
        self.request_of(self.active_node()).await.map(|shown| shown.request)
    }

    async fn request_of(&self, node: &Node) -> Result<WindowedRequest, RunError> {
        self.request_with(node, &self.session).await
    }

    /// The agent that the next message goes to.
    pub(crate) fn next_node(&self) -> &'a Node {
        let agents = &self.runner.agents;
        let node = agents.find_or_root(self.session.pending().active_agent.as_deref());
        if agents.is_sticky(node) { node } else { agents.root() }
    }

    /// The request of an agent with the window of `session`, which is this session or a view of it.
    pub(crate) async fn request_with(
        &self,
        node: &Node,
        session: &impl Session,
    ) -> Result<WindowedRequest, RunError> {
        let files = self.files_of(node).await?;
        let tools = node.all_tools(&self.cancel).await.ok_or(RunError::Cancelled)?;
        request::build(&self.runner.agents, node, session, (&files, &tools))
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
}

/// The event of a chunk of an answer.
fn partial(frame: &Event, chunk: LlmResponse) -> Event {
    let mut event = Event {
        content: chunk.content.map(Content::without_signatures),
        partial: Some(true),
        timestamp: now(),
        ..frame.clone()
    };
    annotate(&mut event, chunk.custom_metadata);
    event
}
