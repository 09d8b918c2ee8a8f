//! Owners in the database: each process has one lease, renewed by its heartbeats, for all of its runs. It expires by the clock
//! of the database; clocks of servers are never read.

use super::{
    batch::{Batch, parameters},
    fault::JobResult,
    runs,
    sessions::key_of,
    text::{RowResult, Text, integer, number, optional_text, text},
    write::{Transaction, WriteJob},
};
use crate::{
    GoneOwner, Heartbeat, Lease, OwnerClaim, OwnerStatus, RunStatus, SessionKey, TakeOver, TakenOver,
    TakenOverState,
    lifecycle::{self, RunState, Transition, TurnState},
};
use deadpool_postgres::Object;
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::Duration,
};
use tokio_postgres::Row;
use uuid::Uuid;

/// Renews the lease. A lease that had expired begins anew.
const BEAT: &str = "INSERT INTO owners (process, beats, displaced, leased_since, expires_at)
     SELECT $1, 1, 0, now, now + make_interval(secs => $2) FROM (SELECT clock_timestamp() AS now) AS clock
     ON CONFLICT (process) DO UPDATE SET beats = owners.beats + 1, expires_at = excluded.expires_at,
         leased_since = CASE WHEN owners.expires_at < excluded.leased_since
                             THEN excluded.leased_since ELSE owners.leased_since END
     RETURNING beats, displaced";
/// Ended processes that own no run.
const REMOVE_ENDED: &str = "DELETE FROM owners WHERE expires_at < clock_timestamp() - interval '1 hour'
     AND NOT EXISTS (SELECT 1 FROM runs WHERE status IN ('queued', 'running')
                         AND split_part(owner, '#', 1) = process)";

const CANCELLED: &str =
    "SELECT app_name, user_id, session_id, run_id FROM runs JOIN sessions USING (session_key)
     WHERE is_cancelled AND status IN ('queued', 'running') AND split_part(owner, '#', 1) = $1";

/// Renews the lease of a process.
pub(super) struct Beat {
    pub(super) process: String,
    pub(super) lease: Duration,
}

impl WriteJob for Beat {
    type Output = Heartbeat;

    /// A repeated heartbeat does no harm.
    async fn run(&self, transaction: &Transaction) -> JobResult<Heartbeat> {
        let mut batch = Batch::default();
        batch.add(BEAT, parameters![Text(&self.process), self.lease.as_secs_f64()]);
        let rows = transaction.statement(batch).await?;
        let (beats, displaced) = match rows.first() {
            Some(row) => (number(row, 0)?, number(row, 1)?),
            None => (0, 0),
        };
        if beats == 1 {
            let mut batch = Batch::default();
            batch.add(REMOVE_ENDED, parameters![]);
            transaction.statement(batch).await?;
        }
        let mut batch = Batch::default();
        batch.add(CANCELLED, parameters![Text(&self.process)]);
        let rows = transaction.statement(batch).await?;
        let cancelled = |row: &Row| {
            let key =
                SessionKey { app_name: text(row, 0)?, user_id: text(row, 1)?, session_id: text(row, 2)? };
            Ok((key, text(row, 3)?))
        };
        let cancelled = rows.iter().map(cancelled).collect::<RowResult<_>>()?;
        Ok(Heartbeat { displaced, cancelled })
    }
}

const RELEASE: &str = "UPDATE owners SET expires_at = clock_timestamp() WHERE process = $1";

/// Ends the lease of a process.
pub(super) struct Release(pub(super) String);

impl WriteJob for Release {
    type Output = ();

    async fn run(&self, transaction: &Transaction) -> JobResult<()> {
        let mut batch = Batch::default();
        batch.add(RELEASE, parameters![Text(&self.0)]);
        transaction.statement(batch).await.map(drop)
    }
}

/// A lease is reported as expired only to a process that held its own without a gap for as long as a lease lasts. So after an
/// outage of the database, which no process could survive with its lease, every process has time to renew it.
const OWNERS: &str = "SELECT owner, COALESCE(beats, 0),
         COALESCE(expires_at < clock_timestamp(), TRUE) AND EXISTS (
             SELECT 1 FROM owners AS own WHERE own.process = $1 AND own.expires_at >= clock_timestamp()
                 AND own.leased_since <= clock_timestamp() - make_interval(secs => $2))
     FROM (SELECT DISTINCT owner FROM runs WHERE status IN ('queued', 'running')) AS open
         LEFT JOIN owners ON process = split_part(owner, '#', 1)
     ORDER BY owner";

pub(super) async fn owners(
    connection: &Object,
    own: Option<&str>,
    lease: Duration,
) -> JobResult<Vec<OwnerStatus>> {
    let statement = connection.prepare_cached(OWNERS).await?;
    let own = own.map(Text);
    let rows = connection.query(&statement, &[&own, &lease.as_secs_f64()]).await?;
    let status = |row: &Row| {
        let is_expired = Some(row.try_get(2)?);
        Ok(OwnerStatus { name: text(row, 0)?, beats: number(row, 1)?, is_expired })
    };
    Ok(rows.iter().map(status).collect::<RowResult<_>>()?)
}

/// Locked, so that no heartbeat comes between this check and the take-over.
const BEATS: &str = "SELECT process, beats FROM owners WHERE process = ANY ($1) ORDER BY process FOR UPDATE";
/// Sessions that another transaction changes are left to the next take-over, unless one session is named.
const LOCK_SESSIONS: &str = "SELECT session_key FROM sessions WHERE session_key IN (
         SELECT session_key FROM runs WHERE status IN ('queued', 'running') AND owner = ANY ($1))
     ORDER BY session_key FOR NO KEY UPDATE SKIP LOCKED";
const LOCK_SESSION: &str = "SELECT session_key FROM sessions WHERE session_key = $1 FOR NO KEY UPDATE";
/// Ordered by session, oldest first; in each the running run first, then the queue in order.
const OPEN_RUNS: &str =
    "SELECT app_name, user_id, session_id, session_key, lease_epoch, position, run_id, owner, ticket,
         CASE WHEN ticket = 0 THEN payload END
     FROM runs JOIN sessions USING (session_key)
     WHERE session_key = ANY ($1) AND status IN ('queued', 'running') AND owner = ANY ($2)
     ORDER BY sessions.created_at, session_key, ticket";
const MOVE_RUNS: &str =
    "UPDATE runs SET owner = $3 FROM unnest($1::uuid[], $2::bigint[]) AS taken (session_key, position)
     WHERE runs.session_key = taken.session_key AND runs.position = taken.position";
const SET_EPOCHS: &str = "UPDATE sessions SET lease_epoch = taken.epoch
     FROM unnest($1::uuid[], $2::bigint[]) AS taken (session_key, epoch)
     WHERE sessions.session_key = taken.session_key";
/// A displaced process without a lease gets none.
const DISPLACE: &str = "INSERT INTO owners (process, beats, displaced, leased_since, expires_at)
     SELECT process, 0, displaced, now, now
     FROM unnest($1::text[], $2::bigint[]) AS taken (process, displaced), (SELECT clock_timestamp() AS now) AS clock
     ON CONFLICT (process) DO UPDATE SET displaced = owners.displaced + excluded.displaced";

/// Transfers the runs of gone owners.
pub(super) struct Take(pub(super) TakeOver);

/// An open run with the data of its session that a transition needs.
struct OpenRun {
    lease: Lease,
    session_key: Uuid,
    id: String,
    state: RunState<String>,
    /// Only of a running run.
    options: Option<String>,
}

fn open_run(row: &Row) -> RowResult<OpenRun> {
    let key = SessionKey { app_name: text(row, 0)?, user_id: text(row, 1)?, session_id: text(row, 2)? };
    let ticket = number(row, 8)?;
    let status = if ticket == 0 { RunStatus::Running } else { RunStatus::Queued };
    Ok(OpenRun {
        lease: Lease { key, run: number(row, 5)?, epoch: number(row, 4)? },
        session_key: row.try_get(3)?,
        id: text(row, 6)?,
        state: RunState { status, owner: text(row, 7)?, ticket: Some(ticket).filter(|ticket| *ticket > 0) },
        options: optional_text(row, 9)?,
    })
}

impl WriteJob for Take {
    type Output = Vec<TakenOver>;

    async fn run(&self, transaction: &Transaction) -> JobResult<Vec<TakenOver>> {
        let Self(change) = self;
        let mut names = self.still_gone(transaction).await?;
        if transaction.is_uncertain {
            // An earlier attempt may have transferred them already. The new owner is a claim for this take-over alone.
            names.insert(&change.owner);
        }
        let owners: Vec<Text<'_>> = names.iter().map(|name| Text(name)).collect();
        let mut batch = Batch::default();
        match &change.session {
            Some(key) => batch.add(LOCK_SESSION, parameters![key_of(key)]),
            None => batch.add(LOCK_SESSIONS, parameters![owners.clone()]),
        };
        let rows = transaction.send(batch).await?;
        let sessions = rows[0].iter().map(|row| row.try_get(0)).collect::<RowResult<Vec<Uuid>>>()?;
        if let Some(key) = change.session.as_ref().filter(|_| sessions.is_empty()) {
            return Err(crate::Error::NotFound(key.clone()).into());
        }
        let mut batch = Batch::default();
        batch.add(OPEN_RUNS, parameters![sessions, owners]);
        let rows = transaction.send(batch).await?;
        let runs = rows[0].iter().map(open_run).collect::<RowResult<Vec<_>>>()?;
        let mut changes = Changes::default();
        let mut taken = Vec::with_capacity(runs.len());
        for run in runs {
            taken.push(changes.take(run, &change.owner)?);
        }
        transaction.commit(changes.batch(&change.owner)).await?;
        Ok(taken)
    }
}

impl Take {
    /// The owners without a heartbeat since the caller observed them.
    async fn still_gone(&self, transaction: &Transaction) -> JobResult<HashSet<&str>> {
        let gone = &self.0.gone;
        let processes: Vec<Text<'_>> =
            gone.iter().map(|owner| Text(OwnerClaim::process_of(&owner.name))).collect();
        let mut batch = Batch::default();
        batch.add(BEATS, parameters![processes]);
        let rows = transaction.send(batch).await?;
        let mut beats = HashMap::new();
        for row in &rows[0] {
            beats.insert(text(row, 0)?, number(row, 1)?);
        }
        let is_gone = |owner: &&GoneOwner| {
            let known = beats.get(OwnerClaim::process_of(&owner.name)).copied().unwrap_or(0);
            owner.if_beats.is_none_or(|seen| seen == known)
        };
        Ok(gone.iter().filter(is_gone).map(|owner| owner.name.as_str()).collect())
    }
}

/// The rows that a take-over changes.
#[derive(Default)]
struct Changes {
    runs: (Vec<Uuid>, Vec<i64>),
    /// The new epochs by session.
    epochs: BTreeMap<Uuid, u64>,
    displaced: BTreeMap<String, i64>,
}

impl Changes {
    fn take(&mut self, run: OpenRun, owner: &str) -> JobResult<TakenOver> {
        let OpenRun { mut lease, session_key, id, state, options } = run;
        if let Some(epoch) = self.epochs.get(&session_key) {
            lease.epoch = *epoch;
        }
        let is_leased = state.status == RunStatus::Running;
        let turns = TurnState { epoch: lease.epoch, is_leased, first_ticket: state.ticket };
        let change = Transition::TakeOver { from: state.owner.clone(), owner: owner.to_owned() };
        let next = lifecycle::transition(&turns, Some(&state), &change)
            .map_err(|refusal| runs::refused(refusal, &lease.key, &id))?;
        self.runs.0.push(session_key);
        self.runs.1.push(integer(lease.run));
        *self.displaced.entry(OwnerClaim::process_of(&state.owner).to_owned()).or_default() += 1;
        if next.epoch != lease.epoch {
            lease.epoch = next.epoch;
            self.epochs.insert(session_key, next.epoch);
        }
        let key = lease.key.clone();
        let state = match next.run.ticket {
            Some(ticket) => TakenOverState::Queued { ticket },
            None => TakenOverState::Running { lease, options },
        };
        Ok(TakenOver { key, id, state })
    }

    fn batch<'a>(&'a self, owner: &'a str) -> Batch<'a> {
        let mut batch = Batch::default();
        if self.runs.0.is_empty() {
            return batch;
        }
        batch.add(MOVE_RUNS, parameters![self.runs.0.clone(), self.runs.1.clone(), Text(owner)]);
        let sessions: Vec<Uuid> = self.epochs.keys().copied().collect();
        let epochs: Vec<i64> = self.epochs.values().copied().map(integer).collect();
        batch.add(SET_EPOCHS, parameters![sessions, epochs]);
        let processes: Vec<Text<'_>> = self.displaced.keys().map(|process| Text(process)).collect();
        let counts: Vec<i64> = self.displaced.values().copied().collect();
        batch.add(DISPLACE, parameters![processes, counts]);
        batch
    }
}
