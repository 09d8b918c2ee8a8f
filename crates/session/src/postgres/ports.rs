//! Implements the store traits. Each method delegates to the module of its table.

use super::{
    PostgresStore, artifacts, commit::CommitJob, drafts, fault::Cure, idempotency_keys, log, owners, pool,
    recipes, runs, sessions, state,
};
use crate::{
    Activity, Artifact, ArtifactKey, ArtifactStore, Commit, Committed, Drafts, Heartbeat, IdempotencyKey,
    Lease, ListQuery, Liveness, NewArtifact, NewRun, NewSession, OwnerClaim, OwnerStatus, Owners,
    PageRequest, Pending, PendingEntry, RecipeQuery, RecipeText, Recipes, Result, RunLog, RunRecord,
    RunStore, SessionKey, SessionLog, SessionRow, SessionStore, Snapshot, StateEntry, StoredMessage,
    StoredRecipe, TailBudget, TakeOver, TakenOver, TurnChange, Withdrawal,
};
use std::time::{Duration, Instant};

/// Pause before a read is repeated.
const PAUSE: Duration = Duration::from_millis(100);

/// Runs a read on a connection of the pool, again if the connection is lost. A macro, because the future of a generic closure
/// that borrows a connection cannot be required to be `Send`.
macro_rules! read {
    ($store:ident, |$connection:ident| $read:expr) => {
        Box::pin(async move {
            let began = Instant::now();
            loop {
                let attempt = async {
                    let connection = pool::connection(&$store.db.pool).await?;
                    let $connection = &connection;
                    let read = match tokio::time::timeout($store.db.options.attempt, $read).await {
                        Ok(read) => read,
                        Err(_) => Err(super::fault::JobError::Silent),
                    };
                    if read.as_ref().is_err_and(|error| error.cure() == Cure::Reconnect) {
                        pool::discard(connection);
                    }
                    read
                };
                let result = attempt.await;
                let again =
                    |error: &super::fault::JobError| matches!(error.cure(), Cure::Reconnect | Cure::Repeat);
                if !result.as_ref().is_err_and(again) || began.elapsed() >= $store.db.options.retry {
                    return $store.db.finish_read(result);
                }
                tokio::time::sleep(PAUSE).await;
            }
        })
    };
}

impl SessionStore for PostgresStore {
    fn create(&self, new: NewSession) -> Pending<'_, SessionRow> {
        Box::pin(self.db.write(sessions::Create(new)))
    }

    fn load(&self, key: &SessionKey, tail: TailBudget) -> Pending<'_, Option<Snapshot>> {
        let key = key.clone();
        read!(self, |connection| log::load(connection, &key, tail))
    }

    fn commit(&self, key: &SessionKey, commit: Commit) -> Pending<'_, Committed> {
        let key = key.clone();
        Box::pin(async move {
            if let TurnChange::Start(start) = &commit.turn {
                self.db.hold_lease(&start.run.owner).await?;
            }
            self.db.write(CommitJob { key, commit }).await
        })
    }

    fn list(&self, query: ListQuery) -> Pending<'_, Vec<SessionRow>> {
        read!(self, |connection| sessions::list(connection, &query))
    }

    fn delete(&self, key: &SessionKey) -> Pending<'_, bool> {
        Box::pin(self.db.write(sessions::Delete(key.clone())))
    }
}

#[cfg(feature = "import")]
impl crate::import::BulkCommit for PostgresStore {
    fn commit_all(&self, key: &SessionKey, steps: Vec<Commit>) -> Pending<'_, Vec<Committed>> {
        Box::pin(self.db.write(super::commit::CommitAll { key: key.clone(), steps }))
    }
}

impl SessionLog for PostgresStore {
    fn read(&self, key: &SessionKey, page: PageRequest) -> Pending<'_, Vec<StoredMessage>> {
        let key = key.clone();
        read!(self, |connection| log::read(connection, &key, page))
    }

    fn read_run(&self, key: &SessionKey, run: u64, page: PageRequest) -> Pending<'_, Vec<StoredMessage>> {
        let key = key.clone();
        read!(self, |connection| log::read_run(connection, &key, (run, page)))
    }

    fn state_changes(&self, key: &SessionKey, page: PageRequest) -> Pending<'_, Vec<StateEntry>> {
        let key = key.clone();
        read!(self, |connection| async {
            let session_key = sessions::check_known(connection, &key).await?;
            state::changes(connection, session_key, page).await
        })
    }

    fn pending_entry(&self, key: &SessionKey, kind: &str, id: &str) -> Pending<'_, Option<PendingEntry>> {
        let (key, kind, id) = (key.clone(), kind.to_owned(), id.to_owned());
        read!(self, |connection| log::pending_entry(connection, &key, (&kind, &id)))
    }
}

impl Recipes for PostgresStore {
    fn recipes(&self, key: &SessionKey, query: RecipeQuery) -> Pending<'_, Vec<StoredRecipe>> {
        let key = key.clone();
        read!(self, |connection| recipes::recipes(connection, &key, &query))
    }

    fn recipe_texts(&self, key: &SessionKey, hashes: Vec<String>) -> Pending<'_, Vec<RecipeText>> {
        let key = key.clone();
        read!(self, |connection| recipes::texts(connection, &key, &hashes))
    }
}

impl RunStore for PostgresStore {
    fn enqueue(&self, key: &SessionKey, run: NewRun, payload: String) -> Pending<'_, RunRecord> {
        let key = key.clone();
        Box::pin(async move {
            self.db.hold_lease(&run.owner).await?;
            self.db.write(queue::Enqueue { key, run, payload }).await
        })
    }

    fn payload(&self, key: &SessionKey, id: &str) -> Pending<'_, Option<String>> {
        let (key, id) = (key.clone(), id.to_owned());
        read!(self, |connection| runs::payload(connection, &key, &id))
    }

    fn withdraw(&self, key: &SessionKey, withdrawal: Withdrawal) -> Pending<'_, bool> {
        Box::pin(self.db.write(queue::Withdraw { key: key.clone(), withdrawal }))
    }

    fn request_cancel(&self, key: &SessionKey, id: &str) -> Pending<'_, bool> {
        Box::pin(self.db.write(queue::RequestCancel { key: key.clone(), id: id.to_owned() }))
    }

    fn take_over(&self, change: TakeOver) -> Pending<'_, Vec<TakenOver>> {
        Box::pin(async move {
            self.db.hold_lease(&change.owner).await?;
            self.db.write(owners::Take(change)).await
        })
    }

    fn activity(&self, key: &SessionKey) -> Pending<'_, Activity> {
        let key = key.clone();
        read!(self, |connection| runs::activity(connection, &key))
    }
}

impl RunLog for PostgresStore {
    fn run(&self, key: &SessionKey, id: &str) -> Pending<'_, Option<RunRecord>> {
        let (key, id) = (key.clone(), id.to_owned());
        read!(self, |connection| runs::run(connection, &key, &id))
    }

    fn run_of_request(&self, key: &SessionKey, request: &IdempotencyKey) -> Pending<'_, Option<RunRecord>> {
        let (key, request) = (key.clone(), request.clone());
        read!(self, |connection| idempotency_keys::run_of_request(connection, &key, &request))
    }

    fn runs(&self, key: &SessionKey, limit: usize) -> Pending<'_, Vec<RunRecord>> {
        let key = key.clone();
        read!(self, |connection| runs::runs(connection, &key, limit))
    }
}

impl Owners for PostgresStore {
    fn claim_owner(&self) -> Result<OwnerClaim> {
        Ok(OwnerClaim::claim(self.db.process()))
    }

    /// Of another process only its lease is known, which [`owners`](Owners::owners) reports.
    fn liveness(&self, owner: &str) -> Liveness {
        let is_own = self.db.process.get().is_some_and(|own| own == OwnerClaim::process_of(owner));
        if is_own && !OwnerClaim::is_held(owner) { Liveness::Dead } else { Liveness::Alive }
    }

    fn heartbeat(&self) -> Pending<'_, Heartbeat> {
        Box::pin(self.db.beat())
    }

    fn release(&self) -> Pending<'_, ()> {
        Box::pin(async move {
            let Some(process) = self.db.process.get() else { return Ok(()) };
            self.db.write(owners::Release(process.clone())).await
        })
    }

    fn owners(&self) -> Pending<'_, Vec<OwnerStatus>> {
        let (own, lease) = (self.db.process.get().cloned(), self.db.options.lease);
        read!(self, |connection| owners::owners(connection, own.as_deref(), lease))
    }
}

impl Drafts for PostgresStore {
    fn extend_draft(&self, lease: &Lease, chunk: String) -> Pending<'_, ()> {
        Box::pin(self.db.write(drafts::Extend { lease: lease.clone(), chunk }))
    }
}

impl ArtifactStore for PostgresStore {
    fn save(&self, key: &ArtifactKey, artifact: NewArtifact) -> Pending<'_, u64> {
        Box::pin(self.db.write(artifacts::Save { key: key.clone(), new: artifact }))
    }

    fn artifact(&self, key: &ArtifactKey, version: Option<u64>) -> Pending<'_, Option<Artifact>> {
        let key = key.clone();
        read!(self, |connection| artifacts::artifact(connection, artifacts::WHOLE, (&key, version)))
    }

    fn metadata(&self, key: &ArtifactKey, version: Option<u64>) -> Pending<'_, Option<Artifact>> {
        let key = key.clone();
        read!(self, |connection| artifacts::artifact(connection, artifacts::METADATA, (&key, version)))
    }

    fn names(&self, session: &SessionKey) -> Pending<'_, Vec<String>> {
        let session = session.clone();
        read!(self, |connection| artifacts::names(connection, &session))
    }

    fn versions(&self, key: &ArtifactKey) -> Pending<'_, Vec<u64>> {
        let key = key.clone();
        read!(self, |connection| artifacts::versions(connection, &key))
    }

    fn remove(&self, key: &ArtifactKey) -> Pending<'_, bool> {
        Box::pin(self.db.write(artifacts::Remove(key.clone())))
    }
}
