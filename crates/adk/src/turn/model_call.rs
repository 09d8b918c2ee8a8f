//! Asking a model: the request, its answer piece by piece, and the event that the answer becomes.

use super::{Turn, annotate};
use crate::{
    agent::{CompiledTool, Node},
    content::{Content, FunctionCall, Part},
    draft::{AnswerDraft, DraftFlush, DraftPosition, UnsavedText},
    error::{LlmError, RunError, ServiceError},
    event::{Event, mint_id, now},
    flow::{ids, request, spans},
    instruction,
    model::{LlmRequest, LlmResponse},
    runner::StreamingMode,
    session::{LogEntry, RunEnd, Session, SessionService, TurnService},
};
use failpoint::Point;
use futures::StreamExt;
use serde_json::Value;
use std::{
    collections::HashMap,
    convert::Infallible,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::Notify;

/// How often the text of an answer under way is saved.
const SAVE_INTERVAL: Duration = Duration::from_millis(500);

/// The text of an answer under way, shared by its listener and its saver.
#[derive(Default)]
struct ShownText {
    buffer: Mutex<TextBuffer>,
    grew: Notify,
}

#[derive(Default)]
struct TextBuffer {
    draft: AnswerDraft,
    /// Held while the draft has text that is not saved.
    unsaved: Option<UnsavedText>,
}

impl ShownText {
    /// Takes text that is shown right after this. Waits for ever if the process is about to end.
    async fn push(&self, content: Option<&Content>, flush: &DraftFlush) {
        let Some(content) = content else { return };
        let unsaved = flush.admit().await;
        let mut buffer = self.buffer();
        buffer.draft.push(content);
        buffer.unsaved = buffer.draft.has_unsaved().then_some(unsaved);
        self.grew.notify_one();
    }

    fn buffer(&self) -> MutexGuard<'_, TextBuffer> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn into_buffer(self) -> TextBuffer {
        self.buffer.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    async fn wait_for_unsaved(&self) {
        while self.buffer().unsaved.is_none() {
            self.grew.notified().await;
        }
    }

    /// Everything up to `end` is saved.
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
        let node = self.speaker();
        self.again = false;
        let frame = self.event_by(node);
        let shown = ShownText::default();
        let answer = self.answer_of(node, &frame, &shown).await;
        // What is unsaved stays so until the commit of the answer's event.
        let TextBuffer { draft, unsaved: _unsaved } = shown.into_buffer();
        match answer {
            Ok(response) => self.record_answer(node, frame, response, draft).await,
            Err(error) => self.interrupt(frame, draft, error).await,
        }
    }

    async fn record_answer(
        &mut self,
        node: &Node,
        mut frame: Event,
        response: LlmResponse,
        draft: AnswerDraft,
    ) -> Result<(), RunError> {
        self.recall_namesakes(&response).await?;
        let mut entries = Vec::new();
        // An error in place of an answer does not repeat what was shown.
        if response.error_code.is_some()
            && response.content.is_none()
            && let Some(interrupted) = draft.into_event(self.interrupted_frame(&frame))
        {
            entries.push(LogEntry::continues(interrupted));
            frame.id = mint_id();
        }
        let event = self.finish(node, frame, response);
        self.meter.take_answer(&event);
        entries.push(event.into());
        Ok(self.record_all(entries).await?)
    }

    /// Ends the run in the middle of an answer. What was shown of it is stored before the error.
    async fn interrupt(&mut self, frame: Event, draft: AnswerDraft, error: RunError) -> Result<(), RunError> {
        let Some(interrupted) = draft.into_event(self.interrupted_frame(&frame)) else {
            return self.fail(Vec::new(), frame, error).await;
        };
        let entry = if matches!(error, RunError::Cancelled) {
            LogEntry::ends(interrupted, RunEnd::Cancelled)
        } else {
            LogEntry::continues(interrupted)
        };
        // Clients replace the pieces of an answer by the event with the same id, so the error needs another.
        self.fail(vec![entry], Event { id: mint_id(), ..frame }, error).await
    }

    /// The event of an interrupted answer, without its content.
    fn interrupted_frame(&self, frame: &Event) -> Event {
        let partial = (self.config.streaming == StreamingMode::Sse).then_some(false);
        Event { partial, interrupted: Some(true), timestamp: now(), ..frame.clone() }
    }

    /// Looks for calls that wait for a late result under the ids of an answer's calls. An answer of words looks for none.
    async fn recall_namesakes(&mut self, response: &LlmResponse) -> Result<(), ServiceError> {
        for id in ids::given(response.content.as_ref(), self.session.pending()) {
            self.runner.sessions.recall(&mut self.session, &id).await?;
        }
        Ok(())
    }

    async fn answer_of(
        &mut self,
        node: &Node,
        frame: &Event,
        shown: &ShownText,
    ) -> Result<LlmResponse, RunError> {
        self.meter.may_ask(self.config.max_llm_calls)?;
        let request = self.request_of(node).await?;
        let mut span = spans::chat(&self.config.trace, node, &request, frame, self.session.key());
        let answer = tokio::select! {
            biased;
            answer = self.listen(node, request, frame, shown) => answer,
            never = self.save_drafts(frame, shown) => match never {},
        };
        match &answer {
            Ok(response) => spans::answered(&mut span, response),
            Err(error) => span.fail(&spans::error_type(error)),
        }
        answer
    }

    /// Ends the run with an error. The log has an event with the reason, in one commit with the entries before it.
    pub(super) async fn fail(
        &mut self,
        mut entries: Vec<LogEntry>,
        frame: Event,
        error: RunError,
    ) -> Result<(), RunError> {
        if let Some(code) = error.code() {
            let (error_code, error_message) = (Some(code.to_owned()), Some(error.to_string()));
            let event = Event { error_code, error_message, timestamp: now(), ..frame };
            entries.push(LogEntry::ends(event, RunEnd::Failed));
        }
        if !entries.is_empty() {
            self.record_all(entries).await?;
        }
        Err(error)
    }

    /// Shows the pieces of an answer as they come, and returns the whole.
    async fn listen(
        &self,
        node: &Node,
        request: LlmRequest,
        frame: &Event,
        shown: &ShownText,
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
                Some(Ok(piece)) if piece.partial => {
                    failpoint::reach(Point::ModelPiece).await?;
                    let event = partial(frame, piece);
                    shown.push(event.content.as_ref(), &self.config.draft_flush).await;
                    self.show(&event);
                }
                Some(Ok(whole)) => {
                    failpoint::reach(Point::ModelEnd).await?;
                    return Ok(whole);
                }
                Some(Err(error)) => return Err(error.into()),
                None => {
                    let error = LlmError::new("TRUNCATED", "the model's answer ended before it was complete");
                    return Err(error.into());
                }
            }
        }
    }

    /// Saves what was shown, at most once per interval, for as long as it is polled. A save that fails is repeated with what
    /// was shown since.
    async fn save_drafts(&self, frame: &Event, shown: &ShownText) -> Infallible {
        loop {
            shown.wait_for_unsaved().await;
            self.config.draft_flush.wait(SAVE_INTERVAL).await;
            let saved = self.save_draft(frame, shown).await;
            if saved.is_err() && self.config.draft_flush.is_requested() {
                tokio::time::sleep(SAVE_INTERVAL).await;
            }
        }
    }

    async fn save_draft(&self, frame: &Event, shown: &ShownText) -> Result<(), ServiceError> {
        let unsaved = shown.buffer().draft.unsaved();
        if let Some((content, end)) = unsaved {
            let frame = self.interrupted_frame(frame);
            self.runner.sessions.save_draft(&self.session, &frame, content).await?;
            shown.mark_saved(end);
        }
        Ok(())
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
        ids::mint_missing(&mut event, self.session.pending());
        let runs_long = |call: &&FunctionCall| {
            let long =
                |compiled: &CompiledTool| compiled.tool.is_long_running() && call.malformed_args().is_none();
            node.tools.get(&call.name).is_some_and(long)
        };
        if event.calls().next().is_some() {
            let long = event.calls().filter(runs_long).filter_map(|call| call.id.clone());
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
    /// The agent that is asked: the one that has the word. At the start of a turn it must be able to give it back.
    fn speaker(&self) -> &'a Node {
        let agents = &self.runner.agents;
        let node = agents.find_or_root(self.session.pending().active_agent.as_deref());
        let spoken = |event: &Arc<Event>| event.is_from_user() && event.responses().next().is_none();
        let starts = self.again || self.session.events().last().is_some_and(spoken);
        if starts && !agents.is_sticky(node) { agents.root() } else { node }
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
