//! Starts the turn of a message: at once in a free session, through the message queue of the session in a busy one. The queue
//! is stored (`session::RunStore::enqueue`), so it survives a crash.

use super::Agent;
use crate::{
    model::{Notice, NoticeKind},
    store::{row::Restorer, service::service_error},
    tools::guard,
    turns::{Arrival, ArrivalGuard, Backoff, QueuePosition, QueuedRequest, Refused, TurnHandle},
};
use adk::{
    error::{RunError, ServiceError},
    event::Event,
    runner::{EventSink, Input, RunRequest, StreamingMode},
};
use session::{Lease, PageRequest, RunStatus, Seq};
use std::sync::Arc;

/// Attempts to start if the session changes between read and commit.
const START_ATTEMPTS: usize = 3;

impl Agent {
    /// As [`run`](Self::run), for a message that has arrived.
    pub(crate) async fn run_arrived(
        &self,
        arrival: Arrival,
        request: RunRequest,
        out: EventSink<'_>,
    ) -> Result<(), RunError> {
        let Arrival { turn, guard } = arrival;
        let result = self.run_in_order((&turn, guard), request, out).await;
        // If the message was not accepted, neither its sender nor the next arrival must wait for it.
        turn.release_arrival();
        result
    }

    /// Waits for the arrivals before this one, and starts its turn or queues it.
    async fn run_in_order(
        &self,
        (turn, mut guard): (&Arc<TurnHandle>, ArrivalGuard),
        request: RunRequest,
        out: EventSink<'_>,
    ) -> Result<(), RunError> {
        let cancel = request.cancel.clone();
        let prepare = async {
            guard.acquire().await;
            let request = self.resolve_references(guard::with_guest_mark(request)).await?;
            // Boxed: most agents preload nothing, and the future is large.
            Ok::<_, RunError>(Box::pin(self.preload_memory(request)).await)
        };
        let request = tokio::select! {
            biased;
            request = prepare => request?,
            () = cancel.cancelled() => return Err(RunError::Cancelled),
        };
        if cancel.is_cancelled() {
            return Err(RunError::Cancelled);
        }
        if self.creates_sessions {
            self.sessions.get_or_create(&request.key).await?;
        }
        turn.hold_arrival(guard);
        match self.start_uncontended(turn, &request, out).await {
            Some(result) => result,
            None => self.run_queued(turn, request, out).await,
        }
    }

    /// Runs the turn at once if the session is free. `None` if the message must be queued; nothing is stored.
    async fn start_uncontended(
        &self,
        turn: &Arc<TurnHandle>,
        request: &RunRequest,
        out: EventSink<'_>,
    ) -> Option<Result<(), RunError>> {
        for _ in 0..START_ATTEMPTS {
            if turn.session_queue().is_busy() {
                return None;
            }
            let result = Box::pin(self.run_traced(turn, request.clone(), out)).await;
            match turn.refusal() {
                Some(Refused::Busy) => return None,
                // The cached copy was stale, or the session changed after it was read.
                Some(Refused::Stale) => self.sessions.evict(&request.key),
                Some(Refused::Duplicate(_) | Refused::KeyReused | Refused::RunExists) | None => {
                    return Some(result);
                }
            }
        }
        None
    }

    /// Streams a notice about the delay. The notice is not stored.
    fn announce_orphans(&self, request: &RunRequest, out: EventSink<'_>) {
        if request.config.streaming == StreamingMode::Sse {
            let message = "an earlier message of this session was interrupted; it is answered first";
            let custom_metadata = Notice::new(NoticeKind::Warning, message, "").metadata();
            let event = Event::new(String::new(), self.tree.root().agent.name.clone());
            out(&Event { partial: Some(true), custom_metadata, ..event });
        }
    }

    /// Queues the message, waits until it is first, and runs the turn.
    async fn run_queued(
        &self,
        turn: &Arc<TurnHandle>,
        request: RunRequest,
        out: EventSink<'_>,
    ) -> Result<(), RunError> {
        // Accepted means that it can be answered: a second answer to one question is refused now, not after it has waited.
        self.check_answers(turn, &request).await?;
        let queued = turn.enqueue(QueuedRequest::payload(&request)).await;
        queued.map_err(|error| not_found(service_error(error, &request.key)))?;
        self.run_from_queue(turn, request, out).await
    }

    pub(super) async fn run_from_queue(
        &self,
        turn: &Arc<TurnHandle>,
        request: RunRequest,
        out: EventSink<'_>,
    ) -> Result<(), RunError> {
        let (key, cancel) = (request.key.clone(), request.cancel.clone());
        let mut backoff = Backoff::unlimited();
        let result = loop {
            let position = tokio::select! {
                biased;
                // A start that may be durable is checked before cancellation.
                () = cancel.cancelled(), if turn.unacknowledged().is_empty() => break Err(RunError::Cancelled),
                position = self.turns.wait(&key, turn) => position,
            };
            match position.map_err(|error| service_error(error, &key)) {
                Ok(QueuePosition::First) if cancel.is_cancelled() => break Err(RunError::Cancelled),
                Ok(QueuePosition::First) => {}
                Ok(QueuePosition::Started(lease)) => break self.run_started(turn, lease, request, out).await,
                Ok(QueuePosition::BehindOrphans(orphans)) => {
                    self.announce_orphans(&request, out);
                    // On its own task: the orphans resume even if this request is cancelled.
                    tokio::spawn(self.clone().run_orphans(key.clone(), orphans));
                    continue;
                }
                Ok(QueuePosition::Gone) => {
                    turn.lose();
                    break Err(ServiceError::Stale(key).into());
                }
                Err(error) => break Err(error.into()),
            }
            let result = Box::pin(self.run_traced(turn, request.clone(), out)).await;
            match &result {
                // Still queued: the session changed after it was read, or the store failed.
                Err(RunError::Service(error)) if turn.is_unstarted() && !is_permanent(error) => {
                    self.sessions.evict(&key);
                    cancel.run_until_cancelled(backoff.again()).await;
                }
                _ => break result,
            }
        };
        if turn.is_unstarted() {
            let status = if cancel.is_cancelled() { RunStatus::Cancelled } else { RunStatus::Failed };
            turn.withdraw(status, result.as_ref().err().map(ToString::to_string)).await;
        }
        result
    }
}

impl Agent {
    /// Resumes a run whose start is durable although it was not acknowledged. Its events were not streamed yet.
    async fn run_started(
        &self,
        turn: &Arc<TurnHandle>,
        lease: Lease,
        request: RunRequest,
        out: EventSink<'_>,
    ) -> Result<(), RunError> {
        let ids = turn.unacknowledged();
        let mut backoff = Backoff::unlimited();
        let stored = loop {
            match self.stored_events(&lease, &ids).await {
                Err(error) if error.is_storage_fault() => _ = backoff.again().await,
                stored => break stored.map_err(|error| service_error(error, &request.key))?,
            }
        };
        turn.set_running(lease);
        // The user's own message is not echoed.
        stored.iter().filter(|event| !event.is_from_user()).for_each(out);
        let request = RunRequest { input: Input::Resume, ..request };
        Box::pin(self.run_traced(turn, request, out)).await
    }

    /// The events of a run with these ids.
    async fn stored_events(&self, lease: &Lease, ids: &[String]) -> session::Result<Vec<Event>> {
        let (mut events, mut restorer) = (Vec::new(), Restorer::new(""));
        let mut page = PageRequest { after: Seq::START, limit: 256, max_bytes: usize::MAX };
        loop {
            let rows = self.turns.store().read_run(&lease.key, lease.run, page).await?;
            let Some(last) = rows.last() else { return Ok(events) };
            page.after = last.seq;
            let all = rows.iter().map(|row| restorer.restore(row));
            events.extend(all.filter(|event| ids.contains(&event.id)));
        }
    }
}

/// Errors of a queued message that a retry cannot fix.
fn is_permanent(error: &ServiceError) -> bool {
    matches!(
        error,
        ServiceError::NotFound(_)
            | ServiceError::Exists(_)
            | ServiceError::Invalid { .. }
            | ServiceError::Damaged { .. }
    )
}

fn not_found(error: ServiceError) -> RunError {
    match error {
        ServiceError::NotFound(key) => RunError::SessionNotFound(key),
        other => other.into(),
    }
}
