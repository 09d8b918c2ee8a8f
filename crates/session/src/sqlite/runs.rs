//! Runs: one row each, changed only by the appends that name them.

use super::{
    fault::Outcome,
    sessions::{self, Head},
};
use crate::{NewRun, Run, RunStatus, RunUpdate, Seq, SessionKey, clock};
use rusqlite::{Connection, OptionalExtension, Row};

const COLUMNS: &str = "run_id, status, idempotency_key, owner, started_after, runs.last_seq, error, runs.created_at, runs.updated_at";

fn run_row(row: &Row<'_>, key: &SessionKey) -> rusqlite::Result<Run> {
    Ok(Run {
        id: row.get(0)?,
        key: key.clone(),
        status: status(row, 1)?,
        idempotency_key: row.get(2)?,
        owner: row.get(3)?,
        started_after: Seq(row.get(4)?),
        last_seq: Seq(row.get(5)?),
        error: row.get(6)?,
        created_at: row.get(7)?,
        updated_at: row.get(8)?,
    })
}

fn status(row: &Row<'_>, column: usize) -> rusqlite::Result<RunStatus> {
    let text: String = row.get(column)?;
    RunStatus::parse(&text).ok_or_else(|| super::unreadable(column, format!("there is no status \"{text}\"")))
}

pub(super) fn start(conn: &Connection, new: &NewRun) -> Outcome<Run> {
    let Head { session_key, last_seq, .. } = sessions::head(conn, &new.key)?;
    let known = conn
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM runs WHERE session_key = ?1 AND (run_id = ?2 OR idempotency_key = ?3)
             ORDER BY position LIMIT 1"
        ))?
        .query_row((session_key, &new.id, &new.idempotency_key), |row| run_row(row, &new.key))
        .optional()?;
    if let Some(run) = known {
        return Ok(run);
    }
    let NewRun { id, key, status, idempotency_key, owner } = new.clone();
    let now = clock::now();
    conn.prepare_cached(
        "INSERT INTO runs (session_key, position, run_id, status, idempotency_key, owner, started_after, last_seq,
             created_at, updated_at)
         VALUES (?1, (SELECT COALESCE(MAX(position), 0) + 1 FROM runs WHERE session_key = ?1), ?2, ?3, ?4, ?5, ?6, ?6,
             ?7, ?7)",
    )?
    .execute((session_key, &id, status.as_str(), &idempotency_key, &owner, last_seq, now))?;
    let place = Seq(last_seq);
    Ok(Run {
        id,
        key,
        status,
        idempotency_key,
        owner,
        started_after: place,
        last_seq: place,
        error: None,
        created_at: now,
        updated_at: now,
    })
}

/// Records a run together with the step that begins it.
pub(super) fn begin(
    conn: &Connection,
    session_key: i64,
    new: &NewRun,
    (before, seq): (u64, u64),
) -> rusqlite::Result<()> {
    let NewRun { id, status, idempotency_key, owner, .. } = new;
    conn.prepare_cached(
        "INSERT INTO runs (session_key, position, run_id, status, idempotency_key, owner, started_after, last_seq,
             created_at, updated_at)
         VALUES (?1, (SELECT COALESCE(MAX(position), 0) + 1 FROM runs WHERE session_key = ?1), ?2, ?3, ?4, ?5, ?6, ?7,
             ?8, ?8)
         ON CONFLICT (session_key, run_id) DO UPDATE
         SET status = excluded.status, owner = excluded.owner, last_seq = excluded.last_seq,
             updated_at = excluded.updated_at,
             started_after = CASE runs.status WHEN 'queued' THEN excluded.started_after ELSE started_after END",
    )?
    .execute((session_key, id, status.as_str(), idempotency_key, owner, before, seq, clock::now()))
    .map(drop)
}

pub(super) fn run(conn: &Connection, key: &SessionKey, id: &str) -> Outcome<Option<Run>> {
    Ok(conn
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM runs JOIN sessions USING (session_key)
             WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND run_id = ?4"
        ))?
        .query_row((&key.app, &key.user, &key.session, id), |row| run_row(row, key))
        .optional()?)
}

pub(super) fn runs(conn: &Connection, key: &SessionKey, limit: usize) -> Outcome<Vec<Run>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut statement = conn.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM runs JOIN sessions USING (session_key)
         WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 ORDER BY position DESC LIMIT ?4"
    ))?;
    let rows = statement.query_map((&key.app, &key.user, &key.session, limit), |row| run_row(row, key))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// `seq` is the place that the step took, if it took one. `false` if there is no such run.
pub(super) fn update(
    conn: &Connection,
    session_key: i64,
    update: &RunUpdate,
    seq: Option<u64>,
) -> rusqlite::Result<bool> {
    let RunUpdate { id, status, error } = update;
    conn.prepare_cached(
        "UPDATE runs SET status = ?3, error = ?4, last_seq = COALESCE(?5, last_seq), updated_at = ?6
         WHERE session_key = ?1 AND run_id = ?2",
    )?
    .execute((session_key, id, status.as_str(), error, seq, clock::now()))
    .map(|changed| changed == 1)
}
