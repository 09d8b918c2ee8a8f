//! The state of one turn: whether its run has started, under which lease, and whether it has ended. All writes of a
//! turn pass through its handle, which the session service, the ledger and the heartbeat share.
//!
//! **Invariants.** A run is accepted when its message is stored; acceptance is signalled once. A commit that ends the
//! run is retried until it is stored or refused; the lease is never released before.

use super::{
    abandon::Abandoned,
    arrival::{ArrivalGuard, SessionQueue},
    backoff::Backoff,
    phase::{Phase, Refused},
};
use adk::trace::{MeasuredOperation, Trace};
use failpoint::{Point, around};
use lock::LockExt;
use session::{
    Commit, Committed, Error, Lease, NewRun, OwnerClaim, RunStatus, SessionKey, SettledMessage, Start, Store,
    TurnChange, Withdrawal,
};
use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, OnceLock},
    time::Instant,
};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// Signals that the message of a run is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Accepted;

/// Preconditions and effects of the commit that starts a run.
#[derive(Debug, Default)]
pub(crate) struct StartTerms {
    pub(crate) if_epoch: Option<u64>,
    pub(crate) supersedes: Vec<String>,
    /// The messages of the commit that belong to earlier runs.
    pub(crate) settled: Vec<SettledMessage>,
    /// The encoded options of the run.
    pub(crate) options: Option<String>,
}

/// The owner's claim. The run belongs to this process while the claim is held.
#[derive(Clone, Debug)]
pub(super) enum Claim {
    Own(Arc<OwnerClaim>),
    /// Shared with other runs that were taken over together.
    Shared(Arc<OwnerClaim>),
}

pub(crate) struct TurnHandle {
    store: Arc<dyn Store>,
    key: SessionKey,
    run: NewRun,
    claim: Claim,
    session_queue: Arc<SessionQueue>,
    phase: Mutex<Phase>,
    acceptance: Mutex<Acceptance>,
    /// Cancelled when another owner takes over the run, or another process asks for it.
    on_loss: Mutex<Option<CancellationToken>>,
    arrived: Instant,
    /// Gets the durations of commits and of the wait.
    trace: OnceLock<Trace>,
}

/// Called once when the message is stored, before the signal is sent.
type AcceptanceObserver = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Acceptance {
    arrival: ArrivalGuard,
    observer: Option<AcceptanceObserver>,
    signal: Option<oneshot::Sender<Accepted>>,
    is_accepted: bool,
}

impl TurnHandle {
    pub(super) fn new(
        store: Arc<dyn Store>,
        key: SessionKey,
        (run, claim): (NewRun, Claim),
        session_queue: Arc<SessionQueue>,
    ) -> Self {
        let phase = Mutex::new(Phase::Unstarted(None));
        let (acceptance, on_loss) = (Mutex::default(), Mutex::default());
        let (arrived, trace) = (Instant::now(), OnceLock::new());
        Self { store, key, run, claim, session_queue, phase, acceptance, on_loss, arrived, trace }
    }

    pub(crate) fn run_id(&self) -> &str {
        &self.run.id
    }

    pub(super) fn run(&self) -> &NewRun {
        &self.run
    }

    pub(crate) fn key(&self) -> &SessionKey {
        &self.key
    }

    pub(crate) fn session_queue(&self) -> &Arc<SessionQueue> {
        &self.session_queue
    }

    pub(crate) fn owner(&self) -> &str {
        &self.run.owner
    }

    /// Cancels `cancel` when another owner takes over the run.
    pub(crate) fn cancel_on_loss(&self, cancel: CancellationToken) {
        *self.on_loss.locked() = Some(cancel);
    }

    /// Reports the durations of commits and of the wait to `trace`. Only the first call has an effect.
    pub(crate) fn measure_with(&self, trace: Trace) {
        let _ = self.trace.set(trace);
    }

    fn measure(&self, operation: MeasuredOperation, since: Instant) {
        if let Some(trace) = self.trace.get() {
            trace.measure(operation, since.elapsed());
        }
    }

    /// Another owner has the run.
    pub(crate) fn lose(&self) {
        *self.phase() = Phase::Lost;
        self.cancel();
    }

    /// Cancels the turn, once it runs or waits.
    pub(super) fn cancel(&self) {
        if let Some(cancel) = &*self.on_loss.locked() {
            cancel.cancel();
        }
    }

    fn phase(&self) -> MutexGuard<'_, Phase> {
        self.phase.locked()
    }

    fn acceptance(&self) -> MutexGuard<'_, Acceptance> {
        self.acceptance.locked()
    }

    pub(crate) fn lease(&self) -> Option<Lease> {
        self.phase().lease().cloned()
    }

    /// Whether the run has not started; the message may be queued.
    pub(crate) fn is_unstarted(&self) -> bool {
        matches!(&*self.phase(), Phase::Unstarted(_) | Phase::Queued { .. })
    }

    /// The ticket, if the run is queued.
    pub(super) fn ticket(&self) -> Option<u64> {
        self.phase().ticket()
    }

    /// Message ids of an attempt to start that failed with a store fault and may be durable nevertheless.
    pub(crate) fn unacknowledged(&self) -> Vec<String> {
        match &*self.phase() {
            Phase::Queued { attempt, .. } => attempt.clone(),
            _ => Vec::new(),
        }
    }

    /// Whether the message is stored.
    pub(crate) fn is_accepted(&self) -> bool {
        self.acceptance().is_accepted
    }

    /// Whether the run continues after this turn: another owner has it, or it waits for a person. Readers follow the
    /// log.
    pub(crate) fn continues_in_log(&self) -> bool {
        matches!(&*self.phase(), Phase::Lost | Phase::Ended(RunStatus::Waiting))
    }

    /// Why the last attempt to start was refused.
    pub(crate) fn refusal(&self) -> Option<Refused> {
        self.phase().refusal().cloned()
    }

    /// Calls `observer` and then sends a signal when the message is stored. If it never is, the receiver sees a
    /// closed channel.
    pub(crate) fn signal_acceptance(
        &self,
        observer: impl FnOnce() + Send + 'static,
    ) -> oneshot::Receiver<Accepted> {
        let (signal, accepted) = oneshot::channel();
        let mut acceptance = self.acceptance();
        acceptance.observer = Some(Box::new(observer));
        acceptance.signal = Some(signal);
        accepted
    }

    /// Holds the arrival lock until the message is stored.
    pub(crate) fn hold_arrival(&self, arrival: ArrivalGuard) {
        self.acceptance().arrival = arrival;
    }

    /// Releases the arrival lock and drops observer and signal: the message will not be stored.
    pub(crate) fn release_arrival(&self) {
        let mut acceptance = self.acceptance();
        acceptance.arrival.release();
        (acceptance.observer, acceptance.signal) = (None, None);
    }

    fn accept(&self) {
        let mut acceptance = self.acceptance();
        if !std::mem::replace(&mut acceptance.is_accepted, true) {
            self.session_queue.accepted();
        }
        if let Some(observer) = acceptance.observer.take() {
            observer();
        }
        acceptance.arrival.release();
        if let Some(signal) = acceptance.signal.take() {
            // A client that went away does not end the run.
            let _ = signal.send(Accepted);
        }
    }

    /// Sets the phase to running: the run was taken over, or its start was not acknowledged.
    pub(crate) fn set_running(&self, lease: Lease) {
        *self.phase() = Phase::Running(lease);
        self.session_queue.leave_queue(&self.run);
        self.accept();
    }

    /// Sets the phase to queued.
    pub(super) fn set_queued(&self, ticket: u64) {
        *self.phase() = Phase::Queued { ticket, attempt: Vec::new() };
        self.session_queue.join_queue(ticket, &self.run);
        self.accept();
    }

    /// Stores the message in the queue of its session.
    pub(crate) async fn enqueue(&self, payload: String) -> session::Result<()> {
        *self.phase() = Phase::Starting;
        let queued = self.store.enqueue(&self.key, self.run.clone(), payload);
        let queued = around([Point::BeforeEnqueue, Point::AfterEnqueue], queued).await;
        match queued {
            Ok(run) => {
                self.set_queued(run.ticket.unwrap_or_default());
                Ok(())
            }
            Err(error) => {
                *self.phase() = Phase::Unstarted(Refused::from_error(&error));
                Err(error)
            }
        }
    }

    /// The first commit of the turn, which starts the run and acquires the lease.
    pub(crate) async fn start(&self, commit: Commit, terms: StartTerms) -> session::Result<Committed> {
        let StartTerms { if_epoch, supersedes, settled, options } = terms;
        let is_cached = if_epoch.is_some();
        let ids = || commit.messages.iter().map(|message| message.id.clone()).collect();
        let queued = self.ticket().map(|ticket| (ticket, ids()));
        // A queued run exists.
        let run = NewRun { is_new: self.run.is_new && queued.is_none(), ..self.run.clone() };
        *self.phase() = Phase::Starting;
        let turn = TurnChange::Start(Start { run, if_epoch, supersedes, settled, options });
        let began = Instant::now();
        let committed = self.store.commit(&self.key, Commit { turn, ..commit });
        let committed = around([Point::BeforeStart, Point::AfterStart], committed).await;
        let next = match &committed {
            Ok(Committed { started: Some(started), .. }) => Phase::Running(started.lease.clone()),
            Ok(_) => Phase::Unstarted(None),
            Err(error) => Phase::after_failed_start(error, queued, is_cached),
        };
        let is_running = matches!(next, Phase::Running(_));
        *self.phase() = next;
        if is_running {
            self.measure(MeasuredOperation::Append, began);
            self.measure(MeasuredOperation::QueueWait, self.arrived);
            self.session_queue.leave_queue(&self.run);
            self.accept();
        }
        committed
    }

    /// A commit of a running turn. Store faults are retried for some seconds.
    pub(crate) async fn step(&self, commit: Commit) -> session::Result<Committed> {
        let lease = self.lease().ok_or_else(|| Error::Fenced(self.key.clone()))?;
        self.commit_with_retry(Commit { turn: TurnChange::Step(lease), ..commit }, Backoff::for_turn()).await
    }

    /// The last commit of the turn, which releases the lease; retried until it is stored or refused.
    pub(crate) async fn finish(
        &self,
        commit: Commit,
        status: RunStatus,
        error: Option<String>,
    ) -> session::Result<Committed> {
        let lease = self.lease().ok_or_else(|| Error::Fenced(self.key.clone()))?;
        let turn = TurnChange::Finish { lease, status, error };
        let committed = self.commit_with_retry(Commit { turn, ..commit }, Backoff::unlimited()).await?;
        *self.phase() = Phase::Ended(status);
        self.session_queue.changed.notify_waiters();
        Ok(committed)
    }

    async fn commit_with_retry(&self, commit: Commit, mut backoff: Backoff) -> session::Result<Committed> {
        let points = match &commit.turn {
            TurnChange::Finish { .. } => [Point::BeforeFinish, Point::AfterFinish],
            TurnChange::None | TurnChange::Start(_) | TurnChange::Step(_) | TurnChange::Cancel { .. } => {
                [Point::BeforeStep, Point::AfterStep]
            }
        };
        let began = Instant::now();
        loop {
            let committed = self.store.commit(&self.key, commit.clone());
            let error = match around(points, committed).await {
                Ok(committed) => {
                    self.measure(MeasuredOperation::Append, began);
                    return Ok(committed);
                }
                Err(error) => error,
            };
            if let Error::Fenced(_) | Error::RunMoved { .. } | Error::NotFound(_) = error {
                *self.phase() = Phase::Lost;
            }
            if !error.is_storage_fault() || !backoff.again().await {
                return Err(error);
            }
        }
    }

    /// Retry policy for reads: once the turn has started, the same as for commits.
    pub(crate) fn read_attempts(&self) -> Backoff {
        if self.lease().is_some() { Backoff::for_turn() } else { Backoff::none() }
    }

    /// Extends the draft of the answer that is being streamed.
    pub(crate) async fn extend_draft(&self, chunk: String) -> session::Result<()> {
        let lease = self.lease().ok_or_else(|| Error::Fenced(self.key.clone()))?;
        around([Point::BeforeDraft, Point::AfterDraft], self.store.extend_draft(&lease, chunk)).await
    }

    /// Removes the run from the queue before it has started.
    pub(crate) async fn withdraw(&self, status: RunStatus, error: Option<String>) {
        self.session_queue.leave_queue(&self.run);
        if self.ticket().is_none() {
            return;
        }
        let (id, owner) = (self.run.id.clone(), self.run.owner.clone());
        let withdrawal = Withdrawal { id, owner, status, error };
        let mut backoff = Backoff::unlimited();
        loop {
            let withdrawn = self.store.withdraw(&self.key, withdrawal.clone());
            match around([Point::BeforeWithdraw, Point::AfterWithdraw], withdrawn).await {
                Err(error) if error.is_storage_fault() => _ = backoff.again().await,
                Ok(_) | Err(_) => break,
            }
        }
        *self.phase() = Phase::Ended(status);
        self.session_queue.changed.notify_waiters();
    }
}

impl Drop for TurnHandle {
    /// Ends the run of a turn that is dropped before its last commit.
    fn drop(&mut self) {
        let is_accepted = self.acceptance().is_accepted;
        let phase = self.phase().abandoned_phase();
        self.session_queue.leave_queue(&self.run);
        if is_accepted {
            self.session_queue.ended();
        }
        // Without a runtime nothing can be stored; the claim is released, and another owner takes the run over.
        if let Some(phase) = phase
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let abandoned = Abandoned {
                store: Arc::clone(&self.store),
                key: self.key.clone(),
                run: self.run.id.clone(),
                claim: self.claim.clone(),
                session_queue: Arc::clone(&self.session_queue),
                phase,
            };
            runtime.spawn(abandoned.end());
        }
    }
}

impl fmt::Debug for TurnHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TurnHandle")
            .field("run", &self.run)
            .field("phase", &*self.phase())
            .finish_non_exhaustive()
    }
}
