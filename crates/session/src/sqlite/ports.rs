//! The ports, each method one line of wiring: what it does stands in the file of its table.

use super::{SqliteStore, append, artifacts, inbox, leases, log, runs, sessions, state};
use crate::{
    Append, Appended, Artifact, ArtifactKey, ArtifactStore, Claim, Claimed, Fact, Inbox, Lease, Leases,
    ListQuery, NewArtifact, NewRun, NewSession, NewTicket, PageRequest, Pending, Result, Run, RunLog,
    SessionKey, SessionLog, SessionRow, SessionStore, Snapshot, StateEntry, Stored, TailBudget, Ticket,
    import::Bulk,
};
use rusqlite::Connection;
use std::time::Duration;

/// What a job without a payload counts for in the queue.
const SMALL: usize = 512;

impl SessionStore for SqliteStore {
    fn create(&self, new: NewSession) -> Pending<'_, SessionRow> {
        Box::pin(async move {
            let NewSession { key, state, steps, on_conflict } = new;
            let steps = steps.into_iter().map(|step| append::Step::new(key.clone(), step));
            let steps = steps.collect::<Result<Vec<_>>>()?;
            let new = sessions::Creation { key, state: state::Text::all(state)?, steps, on_conflict };
            self.file.writer.write(SMALL + new.size(), move |conn| sessions::create(conn, &new)).await
        })
    }

    fn load(&self, key: &SessionKey, tail: TailBudget) -> Pending<'_, Option<Snapshot>> {
        let key = key.clone();
        Box::pin(self.file.readers.read(move |conn| log::load(conn, &key, tail)))
    }

    fn append(&self, key: &SessionKey, step: Append) -> Pending<'_, Appended> {
        let key = key.clone();
        Box::pin(async move {
            let step = append::Step::new(key, step)?;
            self.file.writer.write(step.size(), move |conn| append::append(conn, &step)).await
        })
    }

    fn list(&self, query: ListQuery) -> Pending<'_, Vec<SessionRow>> {
        Box::pin(self.file.readers.read(move |conn| sessions::list(conn, &query)))
    }

    fn delete(&self, key: &SessionKey) -> Pending<'_, bool> {
        let key = key.clone();
        Box::pin(self.file.writer.write(SMALL, move |conn| sessions::delete(conn, &key)))
    }
}

impl Bulk for SqliteStore {
    fn append_all(&self, key: &SessionKey, steps: Vec<Append>) -> Pending<'_, Vec<Appended>> {
        let key = key.clone();
        Box::pin(async move {
            let steps = steps.into_iter().map(|step| append::Step::new(key.clone(), step));
            let steps = steps.collect::<Result<Vec<_>>>()?;
            let size = steps.iter().map(append::Step::size).sum();
            let all = move |conn: &Connection| steps.iter().map(|step| append::append(conn, step)).collect();
            self.file.writer.write(size, all).await
        })
    }
}

impl SessionLog for SqliteStore {
    fn read(&self, key: &SessionKey, page: PageRequest) -> Pending<'_, Vec<Stored>> {
        let key = key.clone();
        Box::pin(self.file.readers.read(move |conn| log::read(conn, &key, page)))
    }

    fn state_changes(&self, key: &SessionKey, page: PageRequest) -> Pending<'_, Vec<StateEntry>> {
        let key = key.clone();
        Box::pin(self.file.readers.read(move |conn| log::state_changes(conn, &key, page)))
    }

    fn fact(&self, key: &SessionKey, kind: &str, id: &str) -> Pending<'_, Option<Fact>> {
        let (key, kind, id) = (key.clone(), kind.to_owned(), id.to_owned());
        Box::pin(self.file.readers.read(move |conn| log::fact(conn, &key, (&kind, &id))))
    }
}

impl Leases for SqliteStore {
    fn claim(&self, key: &SessionKey, claim: Claim) -> Pending<'_, Claimed> {
        let key = key.clone();
        Box::pin(self.file.writer.write(SMALL, move |conn| leases::claim(conn, &key, &claim)))
    }

    fn renew(&self, lease: &Lease, ttl: Duration) -> Pending<'_, ()> {
        let lease = lease.clone();
        Box::pin(self.file.writer.write(SMALL, move |conn| leases::renew(conn, &lease, ttl)))
    }

    fn release(&self, lease: &Lease) -> Pending<'_, ()> {
        let lease = lease.clone();
        Box::pin(self.file.writer.write(SMALL, move |conn| leases::release(conn, &lease)))
    }

    fn left(&self) -> Pending<'_, Vec<SessionKey>> {
        Box::pin(self.file.readers.read(leases::left))
    }
}

impl Inbox for SqliteStore {
    fn push(&self, key: &SessionKey, ticket: NewTicket) -> Pending<'_, Ticket> {
        let key = key.clone();
        let size = SMALL + ticket.payload.len();
        Box::pin(self.file.writer.write(size, move |conn| inbox::push(conn, &key, &ticket)))
    }

    fn waiting(&self, key: &SessionKey, limit: usize) -> Pending<'_, Vec<Ticket>> {
        let key = key.clone();
        Box::pin(self.file.readers.read(move |conn| inbox::waiting(conn, &key, limit)))
    }

    fn withdraw(&self, key: &SessionKey, number: u64) -> Pending<'_, bool> {
        let key = key.clone();
        Box::pin(self.file.writer.write(SMALL, move |conn| inbox::withdraw(conn, &key, number)))
    }
}

impl RunLog for SqliteStore {
    fn start(&self, run: NewRun) -> Pending<'_, Run> {
        Box::pin(self.file.writer.write(SMALL, move |conn| runs::start(conn, &run)))
    }

    fn run(&self, key: &SessionKey, id: &str) -> Pending<'_, Option<Run>> {
        let (key, id) = (key.clone(), id.to_owned());
        Box::pin(self.file.readers.read(move |conn| runs::run(conn, &key, &id)))
    }

    fn runs(&self, key: &SessionKey, limit: usize) -> Pending<'_, Vec<Run>> {
        let key = key.clone();
        Box::pin(self.file.readers.read(move |conn| runs::runs(conn, &key, limit)))
    }
}

impl ArtifactStore for SqliteStore {
    fn save(&self, key: &ArtifactKey, artifact: NewArtifact) -> Pending<'_, u64> {
        let key = key.clone();
        let size = SMALL + artifact.part.len() + artifact.custom_metadata.len();
        Box::pin(self.file.writer.write(size, move |conn| artifacts::save(conn, &key, &artifact)))
    }

    fn artifact(&self, key: &ArtifactKey, version: Option<u64>) -> Pending<'_, Option<Artifact>> {
        let key = key.clone();
        Box::pin(self.file.readers.read(move |conn| artifacts::artifact(conn, &key, version)))
    }

    fn names(&self, session: &SessionKey) -> Pending<'_, Vec<String>> {
        let session = session.clone();
        Box::pin(self.file.readers.read(move |conn| artifacts::names(conn, &session)))
    }

    fn versions(&self, key: &ArtifactKey) -> Pending<'_, Vec<u64>> {
        let key = key.clone();
        Box::pin(self.file.readers.read(move |conn| artifacts::versions(conn, &key)))
    }

    fn remove(&self, key: &ArtifactKey) -> Pending<'_, bool> {
        let key = key.clone();
        Box::pin(self.file.writer.write(SMALL, move |conn| artifacts::remove(conn, &key)))
    }
}
