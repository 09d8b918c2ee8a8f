//! The table of runs: the queue, the lease (the running run) and the status of each run. The payload of a row is the message of
//! a queued run or the options of a running one.

use super::{
    batch::{Batch, parameters},
    fault::{JobError, JobResult},
    idempotency_keys::{self, KnownRows},
    sessions::{LOCK_HEAD, SessionHead, key_of, now, recent},
    state::unreadable,
    text::{Text, integer, limit, number, optional_text, text},
    write::{Transaction, WriteJob},
};
use crate::{
    Activity, Error, Lease, NewRun, OwnedRun, RunRecord, RunStatus, Seq, SessionKey, Withdrawal,
    lifecycle::{self, RunState, Transition, TransitionRefusal, TurnState},
    run::AcceptedAs,
};
use deadpool_postgres::Object;
use tokio_postgres::Row;
use uuid::Uuid;

/// The columns of [`RunRow::read`].
macro_rules! columns {
    () => {
        "position, run_id, status, owner, ticket, started_after, last_seq, error, created_at, updated_at"
    };
}

pub(super) const BY_IDS: &str =
    concat!("SELECT ", columns!(), " FROM runs WHERE session_key = $1 AND run_id = ANY ($2)");
pub(super) const BY_NUMBER: &str =
    concat!("SELECT ", columns!(), " FROM runs WHERE session_key = $1 AND position = $2");
/// The last column is the number of runs ahead of a queued one.
const RECORDS: &str = concat!(
    "SELECT ",
    columns!(),
    ", CASE WHEN status = 'queued' THEN (
           SELECT COUNT(*) FROM runs AS ahead
           WHERE ahead.session_key = $1 AND ahead.status IN ('queued', 'running')
               AND ahead.ticket BETWEEN 1 AND runs.ticket - 1) END
       FROM runs WHERE session_key = $1 AND run_id = $2"
);
const NEWEST: &str =
    concat!("SELECT ", columns!(), " FROM runs WHERE session_key = $1 ORDER BY position DESC LIMIT $2");

/// Everything that a start depends on beside the runs that it names.
pub(super) const ADMISSION: &str = "SELECT
     (SELECT COALESCE(MAX(position), 0) + 1 FROM runs WHERE session_key = $1),
     EXISTS (SELECT 1 FROM runs WHERE session_key = $1 AND status IN ('queued', 'running') AND ticket = 0),
     (SELECT MIN(ticket) FROM runs WHERE session_key = $1 AND status IN ('queued', 'running') AND ticket > 0),
     EXISTS (SELECT 1 FROM drafts WHERE session_key = $1)";

/// A row of the table.
#[derive(Debug)]
pub(super) struct RunRow {
    pub(super) number: u64,
    pub(super) id: String,
    pub(super) state: RunState<String>,
    started_after: Seq,
    last_seq: Seq,
    error: Option<String>,
    created_at: f64,
    updated_at: f64,
}

impl RunRow {
    pub(super) fn read(row: &Row) -> JobResult<Self> {
        let status = status(&text(row, 2)?)?;
        let ticket = Some(number(row, 4)?).filter(|ticket| *ticket > 0);
        Ok(Self {
            number: number(row, 0)?,
            id: text(row, 1)?,
            state: RunState { status, owner: text(row, 3)?, ticket },
            started_after: Seq(number(row, 5)?),
            last_seq: Seq(number(row, 6)?),
            error: optional_text(row, 7)?,
            created_at: row.try_get(8)?,
            updated_at: row.try_get(9)?,
        })
    }

    pub(super) fn read_all(rows: &[Row]) -> JobResult<Vec<Self>> {
        rows.iter().map(Self::read).collect()
    }

    /// The range of sequence numbers that may belong to the run: exclusive start, inclusive end.
    pub(super) fn range(&self) -> (Seq, Seq) {
        let is_running = self.state.status == RunStatus::Running;
        (self.started_after, if is_running { Seq(u64::MAX) } else { self.last_seq })
    }

    fn into_run(self, key: &SessionKey, ahead: Option<u64>) -> RunRecord {
        RunRecord {
            id: self.id,
            key: key.clone(),
            number: self.number,
            status: self.state.status,
            owner: self.state.owner,
            started_after: self.started_after,
            last_seq: self.last_seq,
            error: self.error,
            created_at: self.created_at,
            updated_at: self.updated_at,
            ticket: self.state.ticket,
            ahead,
        }
    }
}

pub(super) fn status(text: &str) -> JobResult<RunStatus> {
    Ok(RunStatus::parse(text).ok_or_else(|| unreadable(&format!("unknown status \"{text}\"")))?)
}

/// Maps a refusal to an [`Error`].
pub(super) fn refused(refusal: TransitionRefusal, key: &SessionKey, id: &str) -> JobError {
    JobError::Refused(match refusal {
        TransitionRefusal::Busy => Error::Busy(key.clone()),
        TransitionRefusal::Fenced => Error::Fenced(key.clone()),
        TransitionRefusal::Moved => Error::RunMoved { key: key.clone(), id: id.to_owned() },
    })
}

/// The lease and the queue, from a row of [`ADMISSION`].
pub(super) fn turns(row: &Row, head: &SessionHead) -> JobResult<TurnState> {
    let first_ticket = super::text::optional_number(row, 2)?;
    Ok(TurnState { epoch: head.lease_epoch, is_leased: row.try_get(1)?, first_ticket })
}

const INSERT: &str = concat!(
    "INSERT INTO runs (session_key, position, run_id, status, owner, ticket, payload, started_after, last_seq,
         created_at, updated_at)
     SELECT $1::uuid, $2::bigint, $3::text, $4::text, $5::text, $6::bigint, $7::text, $8::bigint, $9::bigint, now, now
     FROM (SELECT ",
    now!(),
    " AS now) AS clock"
);

/// `range` is the last sequence number before the run and the last one of the run.
pub(super) fn add_insert<'a>(
    batch: &mut Batch<'a>,
    (session_key, number): (Uuid, u64),
    (id, state): (&'a str, &'a RunState<String>),
    (range, payload): ((u64, u64), Option<&'a str>),
) {
    batch.add(
        INSERT,
        parameters![
            session_key,
            integer(number),
            Text(id),
            state.status.as_str(),
            Text(&state.owner),
            integer(state.ticket.unwrap_or(0)),
            payload.map(Text),
            integer(range.0),
            integer(range.1),
        ],
    );
}

/// A change of a run that is not queued.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RunUpdate<'a> {
    /// The last sequence number before a start. Used if the run has no rows yet.
    pub(super) before: Option<u64>,
    pub(super) last: Option<u64>,
    pub(super) error: Option<&'a str>,
    pub(super) options: Option<&'a str>,
}

const UPDATE: &str = concat!(
    "UPDATE runs SET status = $3, owner = $4, ticket = 0, payload = $8, error = $5,
         started_after = CASE WHEN started_after = last_seq THEN COALESCE($6, started_after) ELSE started_after END,
         last_seq = COALESCE($7, last_seq), updated_at = ",
    now!(),
    " WHERE session_key = $1 AND position = $2"
);

pub(super) fn add_update<'a>(
    batch: &mut Batch<'a>,
    (session_key, number): (Uuid, u64),
    state: &'a RunState<String>,
    update: RunUpdate<'a>,
) {
    batch.add(
        UPDATE,
        parameters![
            session_key,
            integer(number),
            state.status.as_str(),
            Text(&state.owner),
            update.error.map(Text),
            update.before.map(integer),
            update.last.map(integer),
            update.options.map(Text),
        ],
    );
}

/// Extends the ranges of runs to messages that were appended for them after they had left `running`.
pub(super) const EXTEND: &str = "UPDATE runs SET last_seq = GREATEST(last_seq, settled.seq)
     FROM (SELECT position, MAX(seq) AS seq FROM unnest($2::bigint[], $3::bigint[]) AS one (position, seq)
           GROUP BY position) AS settled
     WHERE session_key = $1 AND runs.position = settled.position";

/// Queues a waiting run again, with the answer to its question.
const REQUEUE: &str = concat!(
    "UPDATE runs SET status = $3, owner = $4, ticket = $5, payload = $6, updated_at = ",
    now!(),
    " WHERE session_key = $1 AND position = $2"
);
const NEXT_NUMBERS: &str =
    "SELECT (SELECT COALESCE(MAX(position), 0) + 1 FROM runs WHERE session_key = $1), nextval('numbers')";
/// Notes the id of a write that changes no other column.
const NOTE: &str = concat!("UPDATE sessions SET ", recent!("$2"), " WHERE session_key = $1");

/// Queues a message.
pub(super) struct Enqueue {
    pub(super) key: SessionKey,
    pub(super) run: NewRun,
    pub(super) payload: String,
}

impl WriteJob for Enqueue {
    type Output = RunRecord;

    async fn run(&self, transaction: &Transaction) -> JobResult<RunRecord> {
        let Self { key, run: new, .. } = self;
        let session_key = key_of(key);
        let mut batch = Batch::default();
        let head = batch.add(LOCK_HEAD, parameters![session_key, transaction.write_id]);
        let known = KnownRows::add(&mut batch, key, new.idempotency_key.as_ref());
        let by_id = batch.add(BY_IDS, parameters![session_key, vec![Text(&new.id)]]);
        // Evaluated while the row is locked, so tickets grow in the order of acceptance.
        let next = batch.add(NEXT_NUMBERS, parameters![session_key]);
        let rows = transaction.send(batch).await?;
        let head = SessionHead::read(&rows[head], key)?;
        if transaction.is_uncertain && head.is_written {
            let mut batch = Batch::default();
            let record = batch.add(RECORDS, parameters![session_key, Text(&new.id)]);
            let rows = transaction.commit(batch).await?;
            return record_of(&rows[record], key);
        }
        let request = known.read(&rows)?;
        let is_known = request.is_some();
        request.map_or(Ok(()), |known| known.admit(key, new, AcceptedAs::Enqueue))?;
        let run = RunRow::read_all(&rows[by_id])?.pop();
        new.admit(key, run.is_some())?;
        let (next_number, ticket) = (number(&rows[next][0], 0)?, number(&rows[next][0], 1)?);
        let change = Transition::Enqueue { owner: new.owner.clone(), ticket };
        let state = lifecycle::transition(&head.turns(), run.as_ref().map(|run| &run.state), &change)
            .map_err(|refusal| refused(refusal, key, &new.id))?
            .run;
        let known = run.map(|run| run.number);
        self.store(transaction, (&head, is_known), (known, next_number, &state)).await
    }
}

impl Enqueue {
    async fn store(
        &self,
        transaction: &Transaction,
        (head, is_known): (&SessionHead, bool),
        (known, next_number, state): (Option<u64>, u64, &RunState<String>),
    ) -> JobResult<RunRecord> {
        let Self { key, run: new, payload } = self;
        let number = known.unwrap_or(next_number);
        let mut batch = Batch::default();
        batch.add(NOTE, parameters![head.session_key, transaction.write_id]);
        if known.is_some() {
            let ticket = integer(state.ticket.unwrap_or(0));
            let place = (head.session_key, integer(number));
            let (status, owner) = (state.status.as_str(), Text(&state.owner));
            batch.add(REQUEUE, parameters![place.0, place.1, status, owner, ticket, Text(payload)]);
        } else {
            let range = (head.last_seq, head.last_seq);
            add_insert(&mut batch, (head.session_key, number), (&new.id, state), (range, Some(payload)));
        }
        if let Some(request) = new.idempotency_key.as_ref().filter(|_| !is_known) {
            idempotency_keys::add_insert(&mut batch, key, (head.session_key, number), request);
        }
        let record = batch.add(RECORDS, parameters![head.session_key, Text(&new.id)]);
        let rows = transaction.commit(batch).await.map_err(idempotency_keys::contended)?;
        record_of(&rows[record], key)
    }
}

fn record_of(rows: &[Row], key: &SessionKey) -> JobResult<RunRecord> {
    let row = rows.first().ok_or_else(|| Error::NotFound(key.clone()))?;
    let ahead = super::text::optional_number(row, 10)?;
    Ok(RunRow::read(row)?.into_run(key, ahead))
}

/// Withdraws a queued run.
pub(super) struct Withdraw {
    pub(super) key: SessionKey,
    pub(super) withdrawal: Withdrawal,
}

impl WriteJob for Withdraw {
    type Output = bool;

    async fn run(&self, transaction: &Transaction) -> JobResult<bool> {
        let Self { key, withdrawal } = self;
        let session_key = key_of(key);
        let mut batch = Batch::default();
        let head = batch.add(LOCK_HEAD, parameters![session_key, transaction.write_id]);
        let by_id = batch.add(BY_IDS, parameters![session_key, vec![Text(&withdrawal.id)]]);
        let rows = transaction.send(batch).await?;
        if rows[head].is_empty() {
            return Ok(false);
        }
        if transaction.is_uncertain && SessionHead::read(&rows[head], key)?.is_written {
            return Ok(true);
        }
        let Some(run) = RunRow::read_all(&rows[by_id])?.pop() else { return Ok(false) };
        let change = Transition::Withdraw { owner: withdrawal.owner.clone(), to: withdrawal.status };
        // A withdrawal depends neither on the lease nor on the queue.
        let turns = TurnState { epoch: 0, is_leased: false, first_ticket: None };
        let Ok(next) = lifecycle::transition(&turns, Some(&run.state), &change) else { return Ok(false) };
        let mut batch = Batch::default();
        batch.add(NOTE, parameters![session_key, transaction.write_id]);
        let update = RunUpdate { error: withdrawal.error.as_deref(), ..RunUpdate::default() };
        add_update(&mut batch, (session_key, run.number), &next.run, update);
        transaction.commit(batch).await?;
        Ok(true)
    }
}

const PAYLOAD: &str = "SELECT payload FROM runs WHERE session_key = $1 AND run_id = $2 AND status = 'queued'";

pub(super) async fn payload(connection: &Object, key: &SessionKey, id: &str) -> JobResult<Option<String>> {
    let statement = connection.prepare_cached(PAYLOAD).await?;
    let row = connection.query_opt(&statement, &[&key_of(key), &Text(id)]).await?;
    Ok(row.map(|row| optional_text(&row, 0)).transpose()?.flatten())
}

/// The first two open runs: the running one, if any, and the first of the queue. One statement reads one snapshot.
const ACTIVITY: &str = "SELECT lease_epoch, ticket, run_id, owner, position FROM sessions LEFT JOIN LATERAL (
         SELECT ticket, run_id, owner, position FROM runs
         WHERE runs.session_key = sessions.session_key AND status IN ('queued', 'running') ORDER BY ticket LIMIT 2
     ) AS open ON TRUE
     WHERE session_key = $1 ORDER BY ticket";

pub(super) async fn activity(connection: &Object, key: &SessionKey) -> JobResult<Activity> {
    let statement = connection.prepare_cached(ACTIVITY).await?;
    let rows = connection.query(&statement, &[&key_of(key)]).await?;
    if rows.is_empty() {
        return Err(Error::NotFound(key.clone()).into());
    }
    let mut activity = Activity::default();
    for row in rows {
        let Some(ticket) = super::text::optional_number(&row, 1)? else { continue };
        let ticket = Some(ticket).filter(|ticket| *ticket > 0);
        let run = OwnedRun { id: text(&row, 2)?, owner: text(&row, 3)?, ticket };
        match ticket {
            None => {
                activity.running = Some(run);
                let lease = Lease { key: key.clone(), run: number(&row, 4)?, epoch: number(&row, 0)? };
                activity.lease = Some(lease);
            }
            Some(_) => activity.first_queued = activity.first_queued.or(Some(run)),
        }
    }
    Ok(activity)
}

pub(super) async fn run(connection: &Object, key: &SessionKey, id: &str) -> JobResult<Option<RunRecord>> {
    let statement = connection.prepare_cached(RECORDS).await?;
    let rows = connection.query(&statement, &[&key_of(key), &Text(id)]).await?;
    if rows.is_empty() { Ok(None) } else { record_of(&rows, key).map(Some) }
}

pub(super) async fn by_number(
    connection: &Object,
    session_key: Uuid,
    number: u64,
) -> JobResult<Option<RunRow>> {
    let statement = connection.prepare_cached(BY_NUMBER).await?;
    let row = connection.query_opt(&statement, &[&session_key, &integer(number)]).await?;
    row.as_ref().map(RunRow::read).transpose()
}

pub(super) async fn runs(connection: &Object, key: &SessionKey, rows: usize) -> JobResult<Vec<RunRecord>> {
    let statement = connection.prepare_cached(NEWEST).await?;
    let rows = connection.query(&statement, &[&key_of(key), &limit(rows)]).await?;
    rows.iter().map(|row| Ok(RunRow::read(row)?.into_run(key, None))).collect()
}

/// The ids of runs as a parameter.
pub(super) fn ids<'a>(ids: impl Iterator<Item = &'a str>) -> Vec<Text<'a>> {
    ids.map(Text).collect()
}
