//! Tool calls of a turn: the event with questions to the user, and the event with the responses.

use super::{Turn, annotate};
use crate::{
    agent::Node,
    content::{Content, FunctionResponse, Part},
    error::RunError,
    event::{Event, EventActions, mint_id},
    flow::call::{self, CallTask, StepResults},
    pending::PendingCall,
    progress::{CallProgress, ProgressBoard},
    runner::StreamingMode,
    session::{LogEntry, RunEffect, Session, TurnService},
    tool::ToolContext,
};
use serde_json::{Map, Value, json};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

impl<S: TurnService> Turn<'_, S> {
    pub(crate) async fn run_tools(&mut self, calls: &[PendingCall]) -> Result<(), RunError> {
        if let Err(error) = self.meter.check_tool_calls(calls.len()) {
            return self.refuse(calls, error).await;
        }
        let state = Arc::new(self.session.state().clone());
        let event_id = mint_id();
        let node = self.runner.agents.find_or_root(calls.first().map(|call| call.author.as_str()));
        let board = Arc::new(ProgressBoard::default());
        let tasks = calls.iter().map(|call| self.task(call, &state, &event_id, &board)).collect();
        let answers = tokio::select! {
            biased;
            answers = call::run(&self.runner.agents, self.session.events(), tasks) => answers,
            never = board.publish(|progress| self.emit_progress(node, progress)) => match never {},
        };
        let question = self.question_event(node, &answers);
        let mut event = self.event_by(node);
        event.id = event_id;
        event.branch = calls.first().and_then(|call| call.branch.clone());
        event.content = Some(Content::new("user", answers.responses));
        event.actions = answers.actions;
        let called = calls.iter().map(|call| call.part.call()).zip(event.responses());
        self.meter.add_responses(called.filter_map(|(call, answer)| Some((call?, answer))));
        let effect = if answers.fault.is_some() { RunEffect::Continues } else { RunEffect::ByLog };
        // The question and the responses of its step share a commit: no question is open while its run is running.
        let question = question.map(LogEntry::continues);
        let entries = question.into_iter().chain([LogEntry { event, effect, recipe: None }]).collect();
        match answers.fault {
            Some(error) if !self.is_retried(&error) => {
                self.fail(entries, self.event_by(node), error, None).await
            }
            fault => {
                self.record_all(entries).await?;
                if self.cancel.is_cancelled() {
                    return Err(RunError::Cancelled);
                }
                fault.map_or(Ok(()), Err)
            }
        }
    }

    /// Whether the run goes on after this error, or ends as cancelled.
    fn is_retried(&self, error: &RunError) -> bool {
        let is_correctable = matches!(error, RunError::AgentNotFound { valid, .. } if !valid.is_empty());
        self.cancel.is_cancelled() || (is_correctable && self.config.retries_unknown_agent)
    }

    /// The event with questions to the user; `None` if no call has one.
    fn question_event(&self, node: &Node, answers: &StepResults) -> Option<Event> {
        if answers.questions.is_empty() {
            return None;
        }
        let questions =
            answers.questions.iter().map(|(call, request)| call::question_call(call, request).into());
        let content = Content::new("model", questions.collect());
        let mut event = self.event_by(node);
        event.long_running_tool_ids = Some(content.calls().filter_map(|call| call.id.clone()).collect());
        event.content = Some(content);
        Some(event)
    }

    /// Emits the progress of a call, if the run streams.
    fn emit_progress(&self, node: &Node, progress: &CallProgress) {
        if self.config.streaming == StreamingMode::Sse {
            let mut event = Event { partial: Some(true), ..self.event_by(node) };
            annotate(&mut event, progress.metadata());
            self.emit(&event);
        }
    }

    /// Responds to calls with the error instead of running them, and ends the run.
    async fn refuse(&mut self, calls: &[PendingCall], error: RunError) -> Result<(), RunError> {
        let node = self.runner.agents.find_or_root(calls.first().map(|call| call.author.as_str()));
        let response = json!({"error": format!("not run: {error}")});
        let answer =
            |call: &PendingCall| Part::from(FunctionResponse::new(call.id(), call.name(), response.clone()));
        let mut event = self.event_by(node);
        event.branch = calls.first().and_then(|call| call.branch.clone());
        event.content = Some(Content::new("user", calls.iter().map(answer).collect()));
        self.fail(vec![LogEntry::continues(event)], self.event_by(node), error, None).await
    }

    fn task<'c>(
        &self,
        call: &'c PendingCall,
        state: &Arc<Map<String, Value>>,
        event_id: &'c str,
        board: &Arc<ProgressBoard>,
    ) -> CallTask<'c>
    where
        Self: 'c,
    {
        let context = ToolContext {
            call_id: call.id(),
            agent: call.author.clone(),
            invocation_id: self.invocation.clone(),
            session: self.session.key().clone(),
            confirmation: call.confirmation.clone(),
            input: call.input.clone(),
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
        CallTask {
            call,
            node,
            context,
            timeout: self.config.tool_timeout.min(left),
            trace: self.config.trace.clone(),
            event_id,
        }
    }
}
