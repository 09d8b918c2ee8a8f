//! Runs: one row each. A queued run carries its message; the running run of a session, if there is one, is its lease, and
//! carries the options that it was started with.

use super::{
    fault::{Failure, Outcome},
    sessions::{self, Head},
};
use crate::{
    Activity, Error, Lease, NewRun, OwnedRun, RequestKey, Run, RunStatus, Seq, SessionKey, Withdrawal, clock,
    lifecycle::{self, Refusal, RunState, Transition, Turns},
    run::{Acceptance, KnownRequest},
};
use rusqlite::{Connection, OptionalExtension, Row};

/// The first two open runs of a session: the running one, if there is one, and the first of the queue. The condition has the
/// words of the index `runs_open`.
pub(super) const FIRST_OPEN: &str =
    "SELECT ticket, run_id, owner, position FROM runs WHERE session_key = ?1 AND status IN ('queued', 'running')
     ORDER BY ticket LIMIT 2";

/// All that a start depends on, in one statement: every turn runs it.
pub(super) const ADMISSION: &str = "SELECT
     (SELECT MAX(position) FROM runs WHERE session_key = ?1),
     (SELECT position FROM runs WHERE session_key = ?1 AND run_id = ?2),
     EXISTS (SELECT 1 FROM runs WHERE session_key = ?1 AND status IN ('queued', 'running') AND ticket = 0),
     (SELECT MIN(ticket) FROM runs WHERE session_key = ?1 AND status IN ('queued', 'running') AND ticket > 0),
     EXISTS (SELECT 1 FROM drafts WHERE session_key = ?1)";

pub(super) const AHEAD: &str = "SELECT COUNT(*) FROM runs
     WHERE session_key = ?1 AND status IN ('queued', 'running') AND ticket BETWEEN 1 AND ?2 - 1";

pub(super) const KNOWN_REQUEST: &str =
    "SELECT fingerprint, app_name, sessions.user_id, session_id, run_id, status
     FROM request_keys JOIN sessions USING (session_key)
         JOIN runs ON runs.session_key = request_keys.session_key AND position = run
     WHERE request_keys.user_id = ?1 AND request_keys.key = ?2";

const COLUMNS: &str = "position, run_id, status, owner, ticket, started_after, runs.last_seq, error, \
                       runs.created_at, runs.updated_at, runs.session_key";

pub(super) fn by_id_sql() -> String {
    format!("SELECT {COLUMNS} FROM runs WHERE session_key = ?1 AND run_id = ?2")
}

pub(super) fn by_number_sql() -> String {
    format!("SELECT {COLUMNS} FROM runs WHERE session_key = ?1 AND position = ?2")
}

/// A run as a transition needs it.
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

    /// The rows of the log that it may have appended.
    pub(super) fn range(&self) -> (Seq, Seq) {
        let is_running = self.state.status == RunStatus::Running;
        (self.started_after, if is_running { Seq(u64::MAX) } else { self.last_seq })
    }

    fn into_run(self, key: &SessionKey, ahead: Option<u64>) -> Run {
        Run {
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

fn status(row: &Row<'_>, column: usize) -> rusqlite::Result<RunStatus> {
    let text: String = row.get(column)?;
    RunStatus::parse(&text).ok_or_else(|| super::unreadable(column, format!("there is no status \"{text}\"")))
}

/// A refusal in the words of [`Error`].
pub(super) fn refused(refusal: Refusal, key: &SessionKey, id: &str) -> Error {
    match refusal {
        Refusal::Busy => Error::Busy(key.clone()),
        Refusal::Fenced => Error::Fenced(key.clone()),
        Refusal::Moved => Error::RunMoved { key: key.clone(), id: id.to_owned() },
    }
}

/// A number that this database never gave before.
pub(super) fn next_ticket(conn: &Connection) -> rusqlite::Result<u64> {
    conn.prepare_cached("UPDATE numbers SET last = last + 1 RETURNING last")?.query_row([], |row| row.get(0))
}

/// The epoch before the first of a new session. Epochs of a session follow each other; those of another session of the
/// same name, before it or after it, are none of them.
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

/// What the start of a run depends on.
pub(super) struct Admission {
    pub(super) turns: Turns,
    /// The run, if it exists.
    pub(super) run: Option<RunRow>,
    /// The number that a new run of the session gets.
    pub(super) next_number: u64,
    /// Whether the session has a draft.
    pub(super) has_draft: bool,
}

pub(super) fn admission(conn: &Connection, head: &Head, id: &str) -> rusqlite::Result<Admission> {
    let row = |row: &Row<'_>| {
        let newest: Option<u64> = row.get(0)?;
        let known: Option<u64> = row.get(1)?;
        let turns = Turns { epoch: head.lease_epoch, is_leased: row.get(2)?, first_ticket: row.get(3)? };
        Ok((turns, known, newest.unwrap_or(0) + 1, row.get(4)?))
    };
    let found = conn.prepare_cached(ADMISSION)?.query_row((head.session_key, id), row);
    let (turns, known, next_number, has_draft) = found?;
    let run = match known {
        Some(number) => by_number(conn, head.session_key, number)?,
        None => None,
    };
    Ok(Admission { turns, run, next_number, has_draft })
}

/// The lease and the queue of a session.
pub(super) fn turns(conn: &Connection, head: &Head) -> rusqlite::Result<Turns> {
    let mut statement = conn.prepare_cached(FIRST_OPEN)?;
    let tickets = statement.query_map((head.session_key,), |row| row.get(0))?;
    let tickets: Vec<u64> = tickets.collect::<rusqlite::Result<_>>()?;
    Ok(Turns {
        epoch: head.lease_epoch,
        is_leased: tickets.first() == Some(&0),
        first_ticket: tickets.into_iter().find(|ticket| *ticket > 0),
    })
}

/// `places` are the end of the log before the run, and the last place that it has taken. The payload is the message of a
/// queued run, and the options of a running one.
pub(super) fn insert(
    conn: &Connection,
    (session_key, number): (i64, u64),
    new: &NewRun,
    (state, places, payload): (&RunState<String>, (u64, u64), Option<&str>),
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
        places.0,
        places.1,
        clock::now(),
    ))
    .map(drop)
}

/// What a transition changes in the range of the log that belongs to a run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Places {
    /// The end of the log before a start: the range begins here if the run has appended nothing yet.
    pub(super) before: Option<u64>,
    pub(super) last: Option<u64>,
}

/// Stores the state of a run that left the queue, or was never in it.
pub(super) fn update(
    conn: &Connection,
    (session_key, number): (i64, u64),
    state: &RunState<String>,
    (places, error, options): (Places, Option<&str>, Option<&str>),
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
        places.before,
        places.last,
        options,
    ))
    .map(drop)
}

/// Refuses a request whose key is known: as a duplicate, or because the key was used for another request.
pub(super) fn check_request_key(
    conn: &Connection,
    key: &SessionKey,
    run: &NewRun,
    acceptance: Acceptance,
) -> Outcome<()> {
    let Some(request) = &run.request_key else { return Ok(()) };
    let known = known_request(conn, key, request)?;
    Ok(known.map_or(Ok(()), |known| known.admit(key, run, acceptance))?)
}

/// The run that a request became.
pub(super) fn run_of_request(
    conn: &Connection,
    key: &SessionKey,
    request: &RequestKey,
) -> Outcome<Option<Run>> {
    let Some(known) = known_request(conn, key, request)? else { return Ok(None) };
    known.check(key, request)?;
    run(conn, key, &known.id)
}

fn known_request(
    conn: &Connection,
    key: &SessionKey,
    request: &RequestKey,
) -> rusqlite::Result<Option<KnownRequest>> {
    conn.prepare_cached(KNOWN_REQUEST)?
        .query_row((&key.user, &request.key), |row| {
            Ok(KnownRequest {
                fingerprint: row.get(0)?,
                key: SessionKey { app: row.get(1)?, user: row.get(2)?, session: row.get(3)? },
                id: row.get(4)?,
                status: status(row, 5)?,
            })
        })
        .optional()
}

pub(super) fn insert_request_key(
    conn: &Connection,
    key: &SessionKey,
    (session_key, number): (i64, u64),
    request: &RequestKey,
) -> rusqlite::Result<()> {
    conn.prepare_cached(
        "INSERT INTO request_keys (user_id, key, session_key, run, fingerprint) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT DO NOTHING",
    )?
    .execute((&key.user, &request.key, session_key, number, &request.fingerprint))
    .map(drop)
}

pub(super) fn enqueue(conn: &Connection, key: &SessionKey, new: &NewRun, payload: &str) -> Outcome<Run> {
    let head = sessions::head(conn, key)?;
    check_request_key(conn, key, new, Acceptance::Enqueue)?;
    let known = by_id(conn, head.session_key, &new.id)?;
    let change = |ticket| Transition::Enqueue { owner: new.owner.clone(), ticket };
    let apply = |ticket| {
        lifecycle::transition(&head.turns(), known.as_ref().map(|run| &run.state), &change(ticket))
            .map_err(|refusal| Failure::from(refused(refusal, key, &new.id)))
    };
    apply(0)?;
    let state = apply(next_ticket(conn)?)?.run;
    let number = if let Some(run) = &known {
        requeue(conn, (head.session_key, run.number), &state, payload)?;
        run.number
    } else {
        let number = next_number(conn, head.session_key)?;
        let places = (head.last_seq, head.last_seq);
        insert(conn, (head.session_key, number), new, (&state, places, Some(payload)))?;
        number
    };
    if let Some(request) = &new.request_key {
        insert_request_key(conn, key, (head.session_key, number), request)?;
    }
    run(conn, key, &new.id)?.ok_or_else(|| Error::NotFound(key.clone()).into())
}

/// Stores the answer that a waiting run is to be continued with.
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

pub(super) fn payload(conn: &Connection, key: &SessionKey, id: &str) -> Outcome<Option<String>> {
    Ok(conn
        .prepare_cached(
            "SELECT payload FROM runs JOIN sessions USING (session_key)
             WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND run_id = ?4 AND status = 'queued'",
        )?
        .query_row((&key.app, &key.user, &key.session, id), |row| row.get(0))
        .optional()?
        .flatten())
}

pub(super) fn withdraw(conn: &Connection, key: &SessionKey, withdrawal: &Withdrawal) -> Outcome<bool> {
    let Some((session_key, _)) = sessions::find(conn, key)? else { return Ok(false) };
    let Some(run) = by_id(conn, session_key, &withdrawal.id)? else { return Ok(false) };
    let change = Transition::Withdraw { owner: withdrawal.owner.clone(), to: withdrawal.status };
    // Neither the lease nor the queue of others decides about it.
    let turns = Turns { epoch: 0, is_leased: false, first_ticket: None };
    let Ok(next) = lifecycle::transition(&turns, Some(&run.state), &change) else { return Ok(false) };
    update(
        conn,
        (session_key, run.number),
        &next.run,
        (Places::default(), withdrawal.error.as_deref(), None),
    )?;
    Ok(true)
}

pub(super) fn activity(conn: &Connection, key: &SessionKey) -> Outcome<Activity> {
    let Head { session_key, lease_epoch: epoch, .. } = sessions::head(conn, key)?;
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

pub(super) fn run(conn: &Connection, key: &SessionKey, id: &str) -> Outcome<Option<Run>> {
    let found = conn
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM runs JOIN sessions USING (session_key)
             WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND run_id = ?4"
        ))?
        .query_row((&key.app, &key.user, &key.session, id), RunRow::read)
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

pub(super) fn runs(conn: &Connection, key: &SessionKey, limit: usize) -> Outcome<Vec<Run>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut statement = conn.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM runs JOIN sessions USING (session_key)
         WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 ORDER BY position DESC LIMIT ?4"
    ))?;
    let rows = statement.query_map((&key.app, &key.user, &key.session, limit), RunRow::read)?;
    let rows = rows.map(|row| row.map(|row| row.into_run(key, None)));
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}
