//! One turn: its span, its services and limits, and one retry after an unknown agent name.

use super::Agent;
use crate::{
    store::{artifacts::ArtifactAdapter, ledger::LedgerAdapter, turn_sessions::TurnSessions},
    turns::{RunOptions, TurnHandle},
    view::history,
};
use adk::{
    content::Content,
    error::{RunError, ServiceError},
    flow::spans,
    notes::CORRECTION,
    runner::{EventSink, RunConfig, RunRequest, Runner},
    trace::{ActiveSpan, SpanKind},
};
use serde_json::{Map, json};
use session::RunStatus;
use std::sync::Arc;

impl Agent {
    /// Runs the turn under a span, and stores the final status of the run unless its last event did.
    pub(super) async fn run_traced(
        &self,
        turn: &Arc<TurnHandle>,
        request: RunRequest,
        out: EventSink<'_>,
    ) -> Result<(), RunError> {
        let (key, cancel) = (request.key.clone(), request.cancel.clone());
        let mut span = self.span(turn.run_id(), &request);
        let mut request = request;
        request.config.trace = span.trace();
        turn.measure_with(span.trace());
        let result = match self.run_leased(turn, request, out).await {
            // Not cancelled by the client: another owner took over the run.
            Err(RunError::Cancelled) if !cancel.is_cancelled() => Err(ServiceError::Stale(key).into()),
            other => other,
        };
        match &result {
            Ok(()) => drop(span),
            // The session was busy, and nothing has started.
            Err(RunError::Service(ServiceError::Stale(_))) if turn.is_unstarted() => span.forget(),
            Err(error) => {
                span.fail(&spans::error_type(error));
                drop(span);
            }
        }
        if turn.lease().is_some() {
            let status = match &result {
                Ok(()) => RunStatus::Done,
                Err(RunError::Cancelled) => RunStatus::Cancelled,
                Err(_) => RunStatus::Failed,
            };
            let error = result.as_ref().err().map(ToString::to_string);
            // The error of the run is reported, not that of the commit.
            let _ = turn.finish(session::Commit::default(), status, error).await;
        }
        result
    }

    fn span(&self, run: &str, request: &RunRequest) -> ActiveSpan {
        let own = &request.config.trace;
        let trace = if own.is_on() { own } else { &self.trace }.of_session(&request.key);
        let agent = &self.tree.root().agent;
        let mut span = trace.begin(SpanKind::Internal, || format!("invoke_agent {}", agent.name));
        if trace.is_on() {
            span.set("gen_ai.operation.name", "invoke_agent");
            span.set("gen_ai.agent.name", agent.name.as_str());
            span.set("gen_ai.agent.description", agent.description.as_str());
            span.set("gen_ai.conversation.id", request.key.session_id.as_str());
            span.set("lango.app", request.key.app_name.as_str());
            span.set("lango.run.id", run);
        }
        span
    }

    /// Runs the turn with its session service, ledger and limits.
    async fn run_leased(
        &self,
        turn: &Arc<TurnHandle>,
        request: RunRequest,
        out: EventSink<'_>,
    ) -> Result<(), RunError> {
        let cancel = request.cancel.child_token();
        turn.cancel_on_loss(cancel.clone());
        let ledger = Arc::new(LedgerAdapter(Arc::clone(turn)));
        let runner = self.runner(turn, &request.config).with_ledger(ledger);
        let draft_flush = self.turns.draft_flush().clone();
        let config =
            RunConfig { draft_flush, retries_unknown_agent: true, ..self.bounds.apply(request.config) };
        let invocation_id = Some(turn.run_id().to_owned());
        let request = RunRequest { cancel, config, invocation_id, ..request };
        // Boxed: the future of a run is large.
        Box::pin(Self::run_corrected(&runner, request, out)).await
    }

    /// Refuses an answer to a call that is not open. The session is read from the store: the run that made the call may
    /// be in progress, also in another process.
    pub(super) async fn check_answers(
        &self,
        turn: &Arc<TurnHandle>,
        request: &RunRequest,
    ) -> Result<(), RunError> {
        if !request.is_answer() {
            return Ok(());
        }
        self.sessions.evict(&request.key);
        self.runner(turn, &request.config).check_answers(request).await
    }

    fn runner(&self, turn: &Arc<TurnHandle>, config: &RunConfig) -> Runner<TurnSessions> {
        let options = RunOptions::encode(config);
        let sessions =
            TurnSessions::new(self.sessions.clone(), Arc::clone(turn), options, self.parked.clone());
        let artifacts: Arc<ArtifactAdapter> = Arc::clone(&self.artifacts);
        Runner::new(Arc::clone(&self.tree), sessions, artifacts)
    }

    /// Retries once if the model named an unknown agent, with a correction that lists the agents it may transfer to (spec G).
    async fn run_corrected(
        runner: &Runner<TurnSessions>,
        request: RunRequest,
        out: EventSink<'_>,
    ) -> Result<(), RunError> {
        let (key, config, cancel) = (request.key.clone(), request.config.clone(), request.cancel.clone());
        let (first, correction) = match runner.run(request, out).await {
            Err(RunError::AgentNotFound { name, valid }) if !valid.is_empty() => {
                let correction = history::correction(&name, &valid.join(", "));
                (RunError::AgentNotFound { name, valid }, correction)
            }
            other => return other,
        };
        let retry = RunRequest {
            continue_run: true,
            message_metadata: Map::from_iter([(CORRECTION.to_owned(), json!(true))]),
            config: RunConfig { retries_unknown_agent: false, ..config },
            cancel,
            ..RunRequest::message(key, Content::user(correction))
        };
        match runner.run(retry, out).await {
            Ok(()) => Ok(()),
            // A cancelled retry is reported as cancelled, without the first error.
            Err(RunError::Cancelled) => Err(RunError::Cancelled),
            Err(retry) => Err(RunError::RetryFailed { retry: Box::new(retry), first: Box::new(first) }),
        }
    }
}
