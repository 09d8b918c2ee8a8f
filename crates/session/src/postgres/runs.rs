//! The table of runs: the lease (the running run) and the status of each run. The payload of a row is the message of
//! a queued run or the options of a running one.

use super::{
    batch::{Batch, parameters},
    fault::{JobError, JobResult},
    sessions::{SessionHead, key_of, now},
    state::unreadable,
    text::{Text, integer, limit, number, optional_text, text},
};
use crate::{
    Activity, Error, Lease, OwnedRun, RunRecord, RunStatus, Seq, SessionKey,
    lifecycle::{RunState, TransitionRefusal, TurnState},
};
use deadpool_postgres::Object;
use tokio_postgres::Row;
use uuid::Uuid;

/// The columns of [`StoredRun::read`].
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
pub(super) const RECORDS: &str = concat!(
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
pub(super) struct StoredRun {
    pub(super) number: u64,
    pub(super) id: String,
    pub(super) state: RunState<String>,
    started_after: Seq,
    last_seq: Seq,
    error: Option<String>,
    created_at: f64,
    updated_at: f64,
}

impl StoredRun {
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
    "UPDATE runs SET status = $3, owner = $4, ticket = 0, payload = $8, error = $5, is_cancelled = FALSE,
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

pub(super) fn record_of(rows: &[Row], key: &SessionKey) -> JobResult<RunRecord> {
    let row = rows.first().ok_or_else(|| Error::NotFound(key.clone()))?;
    let ahead = super::text::optional_number(row, 10)?;
    Ok(StoredRun::read(row)?.into_run(key, ahead))
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
) -> JobResult<Option<StoredRun>> {
    let statement = connection.prepare_cached(BY_NUMBER).await?;
    let row = connection.query_opt(&statement, &[&session_key, &integer(number)]).await?;
    row.as_ref().map(StoredRun::read).transpose()
}

pub(super) async fn runs(connection: &Object, key: &SessionKey, rows: usize) -> JobResult<Vec<RunRecord>> {
    let statement = connection.prepare_cached(NEWEST).await?;
    let rows = connection.query(&statement, &[&key_of(key), &limit(rows)]).await?;
    rows.iter().map(|row| Ok(StoredRun::read(row)?.into_run(key, None))).collect()
}

/// The ids of runs as a parameter.
pub(super) fn ids<'a>(ids: impl Iterator<Item = &'a str>) -> Vec<Text<'a>> {
    ids.map(Text).collect()
}
