//! The table of runs. The payload of a queued run is its message; the running run of a session is its lease, and its payload
//! is the options of its start.

use super::{
    fault::{JobError, JobResult},
    idempotency_keys,
    sessions::{self, SessionHead},
};
use crate::{
    Activity, Error, Lease, NewRun, OwnedRun, RunRecord, RunStatus, Seq, SessionKey, Withdrawal, clock,
    lifecycle::{self, RunState, Transition, TransitionRefusal, TurnState},
    run::AcceptedAs,
};
use rusqlite::{Connection, OptionalExtension, Row};

/// The first two open runs of a session: the running one, if any, and the first of the queue. The condition must match the
/// partial index `runs_open` literally.
pub(super) const FIRST_OPEN: &str =
    "SELECT ticket, run_id, owner, position FROM runs WHERE session_key = ?1 AND status IN ('queued', 'running')
     ORDER BY ticket LIMIT 2";

/// Everything that a start depends on, in one statement, because every turn runs it.
pub(super) const ADMISSION: &str = "SELECT
     (SELECT MAX(position) FROM runs WHERE session_key = ?1),
     (SELECT position FROM runs WHERE session_key = ?1 AND run_id = ?2),
     EXISTS (SELECT 1 FROM runs WHERE session_key = ?1 AND status IN ('queued', 'running') AND ticket = 0),
     (SELECT MIN(ticket) FROM runs WHERE session_key = ?1 AND status IN ('queued', 'running') AND ticket > 0),
     EXISTS (SELECT 1 FROM drafts WHERE session_key = ?1)";

pub(super) const AHEAD: &str = "SELECT COUNT(*) FROM runs
     WHERE session_key = ?1 AND status IN ('queued', 'running') AND ticket BETWEEN 1 AND ?2 - 1";

const COLUMNS: &str = "position, run_id, status, owner, ticket, started_after, runs.last_seq, error, \
                       runs.created_at, runs.updated_at, runs.session_key";

pub(super) fn by_id_sql() -> String {
    format!("SELECT {COLUMNS} FROM runs WHERE session_key = ?1 AND run_id = ?2")
}

pub(super) fn by_number_sql() -> String {
    format!("SELECT {COLUMNS} FROM runs WHERE session_key = ?1 AND position = ?2")
}

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
    session_key: i64,
}

impl RunRow {
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let ticket: u64 = row.get(4)?;
        let state = RunState {
            status: status(row, 2)?,
            owner: row.get(3)?,
            ticket: Some(ticket).filter(|ticket| *ticket > 0),
        };
        Ok(Self {
            number: row.get(0)?,
            id: row.get(1)?,
            state,
            started_after: Seq(row.get(5)?),
            last_seq: Seq(row.get(6)?),
            error: row.get(7)?,
            created_at: row.get(8)?,
            updated_at: row.get(9)?,
            session_key: row.get(10)?,
        })
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

pub(super) fn status(row: &Row<'_>, column: usize) -> rusqlite::Result<RunStatus> {
    let text: String = row.get(column)?;
    RunStatus::parse(&text).ok_or_else(|| super::unreadable(column, format!("unknown status \"{text}\"")))
}

/// Maps a refusal to an [`Error`].
pub(super) fn refused(refusal: TransitionRefusal, key: &SessionKey, id: &str) -> Error {
    match refusal {
        TransitionRefusal::Busy => Error::Busy(key.clone()),
        TransitionRefusal::Fenced => Error::Fenced(key.clone()),
        TransitionRefusal::Moved => Error::RunMoved { key: key.clone(), id: id.to_owned() },
    }
}

/// The next number of the database's counter. No number is used twice.
pub(super) fn next_ticket(conn: &Connection) -> rusqlite::Result<u64> {
    conn.prepare_cached("UPDATE numbers SET last = last + 1 RETURNING last")?.query_row([], |row| row.get(0))
}

/// The initial epoch of a new session. It is greater than every epoch of an earlier session of the same name, and smaller than
/// those of a later one.
pub(super) fn first_epoch(conn: &Connection) -> rusqlite::Result<u64> {
    Ok(next_ticket(conn)? << 32)
}

pub(super) fn next_number(conn: &Connection, session_key: i64) -> rusqlite::Result<u64> {
    conn.prepare_cached("SELECT COALESCE(MAX(position), 0) + 1 FROM runs WHERE session_key = ?1")?
        .query_row((session_key,), |row| row.get(0))
}

pub(super) fn by_id(conn: &Connection, session_key: i64, id: &str) -> rusqlite::Result<Option<RunRow>> {
    conn.prepare_cached(&by_id_sql())?.query_row((session_key, id), RunRow::read).optional()
}

pub(super) fn by_number(
    conn: &Connection,
    session_key: i64,
    number: u64,
) -> rusqlite::Result<Option<RunRow>> {
    conn.prepare_cached(&by_number_sql())?.query_row((session_key, number), RunRow::read).optional()
}

/// The inputs of the admission of a start.
pub(super) struct StartAdmission {
    pub(super) turns: TurnState,
    /// The run, if it exists.
    pub(super) run: Option<RunRow>,
    /// The number of the next new run.
    pub(super) next_number: u64,
    /// Whether the session has a draft.
    pub(super) has_draft: bool,
}

pub(super) fn admission(conn: &Connection, head: &SessionHead, id: &str) -> rusqlite::Result<StartAdmission> {
    let row = |row: &Row<'_>| {
        let newest: Option<u64> = row.get(0)?;
        let known: Option<u64> = row.get(1)?;
        let turns = TurnState { epoch: head.lease_epoch, is_leased: row.get(2)?, first_ticket: row.get(3)? };
        Ok((turns, known, newest.unwrap_or(0) + 1, row.get(4)?))
    };
    let found = conn.prepare_cached(ADMISSION)?.query_row((head.session_key, id), row);
    let (turns, known, next_number, has_draft) = found?;
    let run = match known {
        Some(number) => by_number(conn, head.session_key, number)?,
        None => None,
    };
    Ok(StartAdmission { turns, run, next_number, has_draft })
}

/// The lease and the queue of a session.
pub(super) fn turns(conn: &Connection, head: &SessionHead) -> rusqlite::Result<TurnState> {
    let mut statement = conn.prepare_cached(FIRST_OPEN)?;
    let tickets = statement.query_map((head.session_key,), |row| row.get(0))?;
    let tickets: Vec<u64> = tickets.collect::<rusqlite::Result<_>>()?;
    Ok(TurnState {
        epoch: head.lease_epoch,
        is_leased: tickets.first() == Some(&0),
        first_ticket: tickets.into_iter().find(|ticket| *ticket > 0),
    })
}

/// `range` is the last sequence number before the run and the last one of the run. The payload is the message of a queued run
/// or the options of a running one.
pub(super) fn insert(
    conn: &Connection,
    (session_key, number): (i64, u64),
    new: &NewRun,
    (state, range, payload): (&RunState<String>, (u64, u64), Option<&str>),
) -> rusqlite::Result<()> {
    conn.prepare_cached(
        "INSERT INTO runs (session_key, position, run_id, status, owner, ticket, payload, started_after, last_seq,
             created_at, updated_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?10)",
    )?
    .execute((
        session_key,
        number,
        &new.id,
        state.status.as_str(),
        &state.owner,
        state.ticket.unwrap_or(0),
        payload,
        range.0,
        range.1,
        clock::now(),
    ))
    .map(drop)
}

/// A change of a run's range of sequence numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SeqRangeUpdate {
    /// The last sequence number before a start. Used if the run has no rows yet.
    pub(super) before: Option<u64>,
    pub(super) last: Option<u64>,
}

/// Extends the range of a run to a message that was appended for it after it had left `running`.
pub(super) fn extend_range(
    conn: &Connection,
    (session_key, number): (i64, u64),
    seq: u64,
) -> rusqlite::Result<()> {
    conn.prepare_cached(
        "UPDATE runs SET last_seq = MAX(last_seq, ?3) WHERE session_key = ?1 AND position = ?2",
    )?
    .execute((session_key, number, seq))
    .map(drop)
}

/// Stores the state of a run that is not queued.
pub(super) fn update(
    conn: &Connection,
    (session_key, number): (i64, u64),
    state: &RunState<String>,
    (range, error, options): (SeqRangeUpdate, Option<&str>, Option<&str>),
) -> rusqlite::Result<()> {
    conn.prepare_cached(
        "UPDATE runs SET status = ?3, owner = ?4, ticket = 0, payload = ?9, error = ?5, updated_at = ?6,
             started_after = IIF(started_after = last_seq, COALESCE(?7, started_after), started_after),
             last_seq = COALESCE(?8, last_seq)
         WHERE session_key = ?1 AND position = ?2",
    )?
    .execute((
        session_key,
        number,
        state.status.as_str(),
        &state.owner,
        error,
        clock::now(),
        range.before,
        range.last,
        options,
    ))
    .map(drop)
}

pub(super) fn enqueue(
    conn: &Connection,
    key: &SessionKey,
    new: &NewRun,
    payload: &str,
) -> JobResult<RunRecord> {
    let head = sessions::head(conn, key)?;
    idempotency_keys::check(conn, key, new, AcceptedAs::Enqueue)?;
    let known = by_id(conn, head.session_key, &new.id)?;
    new.admit(key, known.is_some())?;
    let change = |ticket| Transition::Enqueue { owner: new.owner.clone(), ticket };
    let apply = |ticket| {
        lifecycle::transition(&head.turns(), known.as_ref().map(|run| &run.state), &change(ticket))
            .map_err(|refusal| JobError::from(refused(refusal, key, &new.id)))
    };
    apply(0)?;
    let state = apply(next_ticket(conn)?)?.run;
    let number = if let Some(run) = &known {
        requeue(conn, (head.session_key, run.number), &state, payload)?;
        run.number
    } else {
        let number = next_number(conn, head.session_key)?;
        let range = (head.last_seq, head.last_seq);
        insert(conn, (head.session_key, number), new, (&state, range, Some(payload)))?;
        number
    };
    if let Some(request) = &new.idempotency_key {
        idempotency_keys::insert(conn, key, (head.session_key, number), request)?;
    }
    run(conn, key, &new.id)?.ok_or_else(|| Error::NotFound(key.clone()).into())
}

/// Queues a waiting run again, with the answer to its question.
fn requeue(
    conn: &Connection,
    (session_key, number): (i64, u64),
    state: &RunState<String>,
    payload: &str,
) -> rusqlite::Result<()> {
    conn.prepare_cached(
        "UPDATE runs SET status = ?3, owner = ?4, ticket = ?5, payload = ?6, updated_at = ?7
         WHERE session_key = ?1 AND position = ?2",
    )?
    .execute((
        session_key,
        number,
        state.status.as_str(),
        &state.owner,
        state.ticket.unwrap_or(0),
        payload,
        clock::now(),
    ))
    .map(drop)
}

pub(super) fn payload(conn: &Connection, key: &SessionKey, id: &str) -> JobResult<Option<String>> {
    Ok(conn
        .prepare_cached(
            "SELECT payload FROM runs JOIN sessions USING (session_key)
             WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND run_id = ?4 AND status = 'queued'",
        )?
        .query_row((&key.app_name, &key.user_id, &key.session_id, id), |row| row.get(0))
        .optional()?
        .flatten())
}

pub(super) fn withdraw(conn: &Connection, key: &SessionKey, withdrawal: &Withdrawal) -> JobResult<bool> {
    let Some((session_key, _)) = sessions::find(conn, key)? else { return Ok(false) };
    let Some(run) = by_id(conn, session_key, &withdrawal.id)? else { return Ok(false) };
    let change = Transition::Withdraw { owner: withdrawal.owner.clone(), to: withdrawal.status };
    // A withdrawal depends neither on the lease nor on the queue.
    let turns = TurnState { epoch: 0, is_leased: false, first_ticket: None };
    let Ok(next) = lifecycle::transition(&turns, Some(&run.state), &change) else { return Ok(false) };
    update(
        conn,
        (session_key, run.number),
        &next.run,
        (SeqRangeUpdate::default(), withdrawal.error.as_deref(), None),
    )?;
    Ok(true)
}

pub(super) fn activity(conn: &Connection, key: &SessionKey) -> JobResult<Activity> {
    let SessionHead { session_key, lease_epoch: epoch, .. } = sessions::head(conn, key)?;
    let mut statement = conn.prepare_cached(FIRST_OPEN)?;
    let mut activity = Activity::default();
    let mut rows = statement.query((session_key,))?;
    while let Some(row) = rows.next()? {
        let ticket = Some(row.get(0)?).filter(|ticket| *ticket > 0);
        let run = OwnedRun { id: row.get(1)?, owner: row.get(2)?, ticket };
        match ticket {
            None => {
                activity.running = Some(run);
                activity.lease = Some(Lease { key: key.clone(), run: row.get(3)?, epoch });
            }
            Some(_) => activity.first_queued = activity.first_queued.or(Some(run)),
        }
    }
    Ok(activity)
}

pub(super) fn run(conn: &Connection, key: &SessionKey, id: &str) -> JobResult<Option<RunRecord>> {
    let found = conn
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM runs JOIN sessions USING (session_key)
             WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND run_id = ?4"
        ))?
        .query_row((&key.app_name, &key.user_id, &key.session_id, id), RunRow::read)
        .optional()?;
    let Some(row) = found else { return Ok(None) };
    let ahead = match (row.state.status, row.state.ticket) {
        (RunStatus::Queued, Some(ticket)) => Some(ahead(conn, row.session_key, ticket)?),
        _ => None,
    };
    Ok(Some(row.into_run(key, ahead)))
}

fn ahead(conn: &Connection, session_key: i64, ticket: u64) -> rusqlite::Result<u64> {
    conn.prepare_cached(AHEAD)?.query_row((session_key, ticket), |row| row.get(0))
}

pub(super) fn runs(conn: &Connection, key: &SessionKey, limit: usize) -> JobResult<Vec<RunRecord>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut statement = conn.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM runs JOIN sessions USING (session_key)
         WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 ORDER BY position DESC LIMIT ?4"
    ))?;
    let rows = statement.query_map((&key.app_name, &key.user_id, &key.session_id, limit), RunRow::read)?;
    let rows = rows.map(|row| row.map(|row| row.into_run(key, None)));
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}
