//! Resumes the runs of gone owners.

use super::Agent;
use crate::{
    store::service::service_error,
    tools::guard,
    turns::{Backoff, Orphan, QueuedRequest, RunOptions},
};
use adk::{
    content::Content,
    error::{RunError, ServiceError},
    runner::{EventSink, Input, RunRequest},
    session::SessionKey,
};
use failpoint::Point;
use futures::future::BoxFuture;
use session::{RunStatus, TakenOverState};

impl Agent {
    /// Resumes the runs of gone owners in one session, in order. Without a listener; the answers are in the log.
    pub(super) fn run_orphans(self, key: SessionKey, orphans: Vec<Orphan>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            for orphan in orphans {
                let _ = self.run_orphan(orphan, resumption(key.clone()), &|_| {}).await;
            }
        })
    }

    /// Resumes the runs of gone owners in one session, in order, with the streaming and cancellation of `request`.
    /// `false` if there are none. After a failure the remaining runs are left to the next turn.
    pub async fn continue_orphans(&self, request: RunRequest, out: EventSink<'_>) -> Result<bool, RunError> {
        let taken_over = self.turns.take_over(Some(&request.key)).await;
        let orphans = taken_over.map_err(|error| service_error(error, &request.key))?;
        let has_any = !orphans.is_empty();
        for orphan in orphans {
            let request = RunRequest { input: Input::Resume, ..request.clone() };
            Box::pin(self.run_orphan(orphan, request, out)).await?;
        }
        Ok(has_any)
    }

    /// Resumes a run that this process took over, with the options that it was started with, and with the streaming
    /// and cancellation of `listener`.
    pub(crate) async fn run_orphan(
        &self,
        orphan: Orphan,
        listener: RunRequest,
        out: EventSink<'_>,
    ) -> Result<(), RunError> {
        let key = &listener.key;
        let resumed = match &orphan.run.state {
            TakenOverState::Running { options, .. } => Some(RunOptions::from_stored(options.as_deref())),
            TakenOverState::Queued { .. } => None,
        };
        let turn = self.turns.adopt(key, orphan);
        if let Some(options) = resumed {
            let config = options.into_config(&listener.config);
            return Box::pin(self.run_traced(&turn, RunRequest { config, ..listener }, out)).await;
        }
        match self.queued_request(&listener, turn.run_id()).await {
            Ok(Some(queued)) => self.run_from_queue(&turn, queued, out).await,
            Ok(None) => {
                turn.lose();
                Err(ServiceError::Stale(key.clone()).into())
            }
            Err(error) => {
                // An unreadable message fails and does not block the queue.
                turn.withdraw(RunStatus::Failed, Some(error.to_string())).await;
                Err(error.into())
            }
        }
    }

    /// The message of a queued run; `None` if it is no longer queued. Store faults are retried without limit: the
    /// message was accepted.
    async fn queued_request(
        &self,
        listener: &RunRequest,
        id: &str,
    ) -> Result<Option<RunRequest>, ServiceError> {
        let key = &listener.key;
        let mut backoff = Backoff::unlimited();
        let payload = loop {
            match self.payload(key, id).await {
                Err(error) if error.is_storage_fault() => _ = backoff.again().await,
                payload => break payload.map_err(|error| service_error(error, key))?,
            }
        };
        let Some(payload) = payload else { return Ok(None) };
        let queued: QueuedRequest = serde_json::from_str(&payload)
            .map_err(|error| ServiceError::Invalid { key: key.clone(), message: error.to_string() })?;
        Ok(Some(guard::with_guest_mark(queued.into_request(listener))))
    }

    async fn payload(&self, key: &SessionKey, id: &str) -> session::Result<Option<String>> {
        failpoint::reach(Point::QueuedPayload).await?;
        self.turns.store().payload(key, id).await
    }
}

/// The request that resumes an interrupted run.
pub(crate) fn resumption(key: SessionKey) -> RunRequest {
    RunRequest { input: Input::Resume, ..RunRequest::message(key, Content::default()) }
}
