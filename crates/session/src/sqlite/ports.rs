//! Implements the store traits. Each method delegates to the module of its table.

use super::{
    SqliteStore, artifacts,
    commit::{self, Placement},
    drafts,
    encoded_commit::EncodedCommit,
    idempotency_keys, log, owners, recipes, runs, sessions, state,
};
use crate::{
    Activity, Artifact, ArtifactKey, ArtifactStore, Commit, Committed, Drafts, Error, Heartbeat,
    IdempotencyKey, Lease, ListQuery, Liveness, NewArtifact, NewRun, NewSession, OwnerClaim, OwnerStatus,
    Owners, PageRequest, Pending, PendingEntry, RecipeQuery, RecipeText, Recipes, Result, RunLog, RunRecord,
    RunStore, SessionKey, SessionLog, SessionRow, SessionStore, Snapshot, StateEntry, StoredMessage,
    StoredRecipe, TailBudget, TakeOver, TakenOver, Withdrawal,
};
use lock::LockExt;
use rusqlite::Connection;
use std::{collections::BTreeSet, sync::Arc};

/// The size of a job without payload, in bytes of the queue.
const SMALL: usize = 512;

impl SessionStore for SqliteStore {
    fn create(&self, new: NewSession) -> Pending<'_, SessionRow> {
        Box::pin(async move {
            let NewSession { key, state, steps, on_conflict, quota } = new;
            let steps = steps.into_iter().map(|step| EncodedCommit::new(key.clone(), step));
            let steps = steps.collect::<Result<Vec<_>>>()?;
            let new = sessions::EncodedNewSession {
                key,
                state: state::EncodedStateChange::all(state)?,
                steps,
                on_conflict,
                quota,
            };
            self.db.write(SMALL + new.size(), move |conn| sessions::create(conn, &new)).await
        })
    }

    fn load(&self, key: &SessionKey, tail: TailBudget) -> Pending<'_, Option<Snapshot>> {
        Box::pin(self.db.read_in(key.clone(), move |conn, key| log::load(conn, key, tail)))
    }

    fn commit(&self, key: &SessionKey, commit: Commit) -> Pending<'_, Committed> {
        let key = key.clone();
        Box::pin(async move {
            let job = Arc::new(EncodedCommit::new(key.clone(), commit)?);
            let committed = self.commit_at(&key, Arc::clone(&job), Placement::End).await;
            match committed {
                Err(Error::Damaged { .. }) => self.commit_at(&key, job, Placement::Front).await,
                committed => committed,
            }
        })
    }

    fn list(&self, query: ListQuery) -> Pending<'_, Vec<SessionRow>> {
        Box::pin(self.db.readers.read(move |conn| sessions::list(conn, &query)))
    }

    fn delete(&self, key: &SessionKey) -> Pending<'_, bool> {
        Box::pin(self.db.write_in(key.clone(), SMALL, sessions::delete))
    }
}

#[cfg(feature = "import")]
impl crate::import::BulkCommit for SqliteStore {
    fn commit_all(&self, key: &SessionKey, steps: Vec<Commit>) -> Pending<'_, Vec<Committed>> {
        let key = key.clone();
        Box::pin(async move {
            let steps = steps.into_iter().map(|step| EncodedCommit::new(key.clone(), step));
            let steps = steps.collect::<Result<Vec<_>>>()?;
            let size = steps.iter().map(EncodedCommit::size).sum();
            let all = move |conn: &Connection, _: &SessionKey| {
                steps.iter().map(|step| commit::commit(conn, step)).collect()
            };
            self.db.write_in(key, size, all).await
        })
    }
}

impl SessionLog for SqliteStore {
    fn read(&self, key: &SessionKey, page: PageRequest) -> Pending<'_, Vec<StoredMessage>> {
        Box::pin(self.db.read_in(key.clone(), move |conn, key| log::read(conn, key, page)))
    }

    fn read_run(&self, key: &SessionKey, run: u64, page: PageRequest) -> Pending<'_, Vec<StoredMessage>> {
        Box::pin(self.db.read_in(key.clone(), move |conn, key| log::read_run(conn, key, run, page)))
    }

    fn state_changes(&self, key: &SessionKey, page: PageRequest) -> Pending<'_, Vec<StateEntry>> {
        Box::pin(self.db.read_in(key.clone(), move |conn, key| log::state_changes(conn, key, page)))
    }

    fn pending_entry(&self, key: &SessionKey, kind: &str, id: &str) -> Pending<'_, Option<PendingEntry>> {
        let (kind, id) = (kind.to_owned(), id.to_owned());
        Box::pin(self.db.read_in(key.clone(), move |conn, key| log::pending_entry(conn, key, (&kind, &id))))
    }
}

impl Recipes for SqliteStore {
    fn recipes(&self, key: &SessionKey, query: RecipeQuery) -> Pending<'_, Vec<StoredRecipe>> {
        Box::pin(self.db.read_in(key.clone(), move |conn, key| recipes::recipes(conn, key, &query)))
    }

    fn recipe_texts(&self, key: &SessionKey, hashes: Vec<String>) -> Pending<'_, Vec<RecipeText>> {
        Box::pin(self.db.read_in(key.clone(), move |conn, key| recipes::texts(conn, key, &hashes)))
    }
}

impl RunStore for SqliteStore {
    fn enqueue(&self, key: &SessionKey, run: NewRun, payload: String) -> Pending<'_, RunRecord> {
        let size = SMALL + payload.len();
        let work = move |conn: &Connection, key: &SessionKey| runs::enqueue(conn, key, &run, &payload);
        Box::pin(self.db.write_in(key.clone(), size, work))
    }

    fn payload(&self, key: &SessionKey, id: &str) -> Pending<'_, Option<String>> {
        let id = id.to_owned();
        Box::pin(self.db.read_in(key.clone(), move |conn, key| runs::payload(conn, key, &id)))
    }

    fn withdraw(&self, key: &SessionKey, withdrawal: Withdrawal) -> Pending<'_, bool> {
        let work = move |conn: &Connection, key: &SessionKey| runs::withdraw(conn, key, &withdrawal);
        Box::pin(self.db.write_in(key.clone(), SMALL, work))
    }

    fn request_cancel(&self, _: &SessionKey, _: &str) -> Pending<'_, bool> {
        Box::pin(async { Ok(false) })
    }

    fn take_over(&self, change: TakeOver) -> Pending<'_, Vec<TakenOver>> {
        Box::pin(async move {
            let change = Arc::new(change);
            let plain = Arc::clone(&change);
            let taken = self.db.write(SMALL, move |conn| owners::take_over(conn, &plain, None)).await;
            let taken = match taken {
                // A damaged session must not block the take-over of the others.
                Err(Error::Damaged { .. } | Error::Row { .. }) if change.session.is_none() => {
                    let sound = self.db.readers.read(owners::sound_sessions).await?;
                    let work = move |conn: &Connection| owners::take_over(conn, &change, Some(&sound));
                    self.db.write(SMALL, work).await?
                }
                taken => taken?,
            };
            self.remove_leftovers().await;
            Ok(taken)
        })
    }

    fn activity(&self, key: &SessionKey) -> Pending<'_, Activity> {
        Box::pin(self.db.read_in(key.clone(), runs::activity))
    }
}

impl SqliteStore {
    async fn commit_at(
        &self,
        key: &SessionKey,
        job: Arc<EncodedCommit>,
        placement: Placement,
    ) -> Result<Committed> {
        let size = job.size();
        let work = move |conn: &Connection, _: &SessionKey| commit::commit_at(conn, &job, placement);
        self.db.write_in(key.clone(), size, work).await
    }

    /// Removes the rows and lock files of ended processes that own no run. Failures are retried at the next call.
    async fn remove_leftovers(&self) {
        let Ok((known, owning)) = self.db.readers.read(owners::processes).await else { return };
        let is_dead = |process: &String| self.db.locks.liveness(process) == Liveness::Dead;
        let mut ended: BTreeSet<String> = known.into_iter().filter(is_dead).collect();
        ended.extend(self.db.locks.leftovers());
        ended.retain(|process| !owning.contains(process));
        if ended.is_empty() {
            return;
        }
        for process in &ended {
            self.db.locks.remove(process);
        }
        let _ = self.db.write(SMALL, move |conn| owners::delete_processes(conn, &ended)).await;
    }
}

impl RunLog for SqliteStore {
    fn run(&self, key: &SessionKey, id: &str) -> Pending<'_, Option<RunRecord>> {
        let id = id.to_owned();
        Box::pin(self.db.read_in(key.clone(), move |conn, key| runs::run(conn, key, &id)))
    }

    fn run_of_request(&self, key: &SessionKey, request: &IdempotencyKey) -> Pending<'_, Option<RunRecord>> {
        let (key, request) = (key.clone(), request.clone());
        Box::pin(self.db.readers.read(move |conn| idempotency_keys::run_of_request(conn, &key, &request)))
    }

    fn runs(&self, key: &SessionKey, limit: usize) -> Pending<'_, Vec<RunRecord>> {
        Box::pin(self.db.read_in(key.clone(), move |conn, key| runs::runs(conn, key, limit)))
    }
}

impl Owners for SqliteStore {
    fn claim_owner(&self) -> Result<OwnerClaim> {
        Ok(OwnerClaim::claim(self.db.process()?.name()))
    }

    fn liveness(&self, owner: &str) -> Liveness {
        let process = OwnerClaim::process_of(owner);
        let own = self.db.process.locked().clone();
        if own.is_some_and(|own| own.name() == process) {
            return if OwnerClaim::is_held(owner) { Liveness::Alive } else { Liveness::Dead };
        }
        self.db.locks.liveness(process)
    }

    fn heartbeat(&self) -> Pending<'_, Heartbeat> {
        Box::pin(async move {
            let process = self.db.process()?.name().to_owned();
            let beat = self.db.write(SMALL, move |conn| owners::heartbeat(conn, &process));
            let (heartbeat, is_first) = beat.await?;
            if is_first {
                self.remove_leftovers().await;
            }
            Ok(heartbeat)
        })
    }

    /// The kernel ends the lock with the process.
    fn release(&self) -> Pending<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn owners(&self) -> Pending<'_, Vec<OwnerStatus>> {
        Box::pin(self.db.readers.read(owners::owners))
    }
}

impl Drafts for SqliteStore {
    fn extend_draft(&self, lease: &Lease, chunk: String) -> Pending<'_, ()> {
        let (key, lease) = (lease.key.clone(), lease.clone());
        let size = SMALL + chunk.len();
        let work = move |conn: &Connection, _: &SessionKey| drafts::extend(conn, &lease, &chunk);
        Box::pin(self.db.write_in(key, size, work))
    }
}

impl ArtifactStore for SqliteStore {
    fn save(&self, key: &ArtifactKey, artifact: NewArtifact) -> Pending<'_, u64> {
        let key = key.clone();
        let size = SMALL + artifact.part.len() + artifact.custom_metadata.len();
        Box::pin(self.db.write(size, move |conn| artifacts::save(conn, &key, &artifact)))
    }

    fn artifact(&self, key: &ArtifactKey, version: Option<u64>) -> Pending<'_, Option<Artifact>> {
        let key = key.clone();
        Box::pin(self.db.readers.read(move |conn| artifacts::artifact(conn, &key, version)))
    }

    fn metadata(&self, key: &ArtifactKey, version: Option<u64>) -> Pending<'_, Option<Artifact>> {
        let key = key.clone();
        Box::pin(self.db.readers.read(move |conn| artifacts::metadata(conn, &key, version)))
    }

    fn names(&self, session: &SessionKey) -> Pending<'_, Vec<String>> {
        let session = session.clone();
        Box::pin(self.db.readers.read(move |conn| artifacts::names(conn, &session)))
    }

    fn versions(&self, key: &ArtifactKey) -> Pending<'_, Vec<u64>> {
        let key = key.clone();
        Box::pin(self.db.readers.read(move |conn| artifacts::versions(conn, &key)))
    }

    fn remove(&self, key: &ArtifactKey) -> Pending<'_, bool> {
        let key = key.clone();
        Box::pin(self.db.write(SMALL, move |conn| artifacts::remove(conn, &key)))
    }
}
