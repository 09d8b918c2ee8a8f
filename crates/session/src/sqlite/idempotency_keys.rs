//! The table `request_keys`: idempotency keys with the fingerprint and the run of their request.

use super::{fault::JobResult, runs};
use crate::{
    IdempotencyKey, NewRun, RunRecord, SessionKey,
    run::{AcceptedAs, KnownRequest},
};
use rusqlite::{Connection, OptionalExtension};

pub(super) const KNOWN_REQUEST: &str =
    "SELECT fingerprint, app_name, sessions.user_id, session_id, run_id, status
     FROM request_keys JOIN sessions USING (session_key)
         JOIN runs ON runs.session_key = request_keys.session_key AND position = run
     WHERE request_keys.user_id = ?1 AND request_keys.key = ?2";

/// Refuses a request with a known idempotency key: as a duplicate, or because the key belongs to another request.
pub(super) fn check(
    conn: &Connection,
    key: &SessionKey,
    run: &NewRun,
    acceptance: AcceptedAs,
) -> JobResult<()> {
    let Some(request) = &run.idempotency_key else { return Ok(()) };
    let known = known_request(conn, key, request)?;
    Ok(known.map_or(Ok(()), |known| known.admit(key, run, acceptance))?)
}

/// The run of a request.
pub(super) fn run_of_request(
    conn: &Connection,
    key: &SessionKey,
    request: &IdempotencyKey,
) -> JobResult<Option<RunRecord>> {
    let Some(known) = known_request(conn, key, request)? else { return Ok(None) };
    known.check(key, request)?;
    runs::run(conn, key, &known.id)
}

fn known_request(
    conn: &Connection,
    key: &SessionKey,
    request: &IdempotencyKey,
) -> rusqlite::Result<Option<KnownRequest>> {
    conn.prepare_cached(KNOWN_REQUEST)?
        .query_row((&key.user_id, &request.key), |row| {
            Ok(KnownRequest {
                fingerprint: row.get(0)?,
                key: SessionKey { app_name: row.get(1)?, user_id: row.get(2)?, session_id: row.get(3)? },
                id: row.get(4)?,
                status: runs::status(row, 5)?,
            })
        })
        .optional()
}

/// Stores the key of a request. A key of a deleted session is free.
pub(super) fn insert(
    conn: &Connection,
    key: &SessionKey,
    (session_key, number): (i64, u64),
    request: &IdempotencyKey,
) -> rusqlite::Result<()> {
    conn.prepare_cached(
        "INSERT INTO request_keys (user_id, key, session_key, run, fingerprint) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT DO UPDATE SET session_key = excluded.session_key, run = excluded.run,
             fingerprint = excluded.fingerprint
         WHERE NOT EXISTS (SELECT 1 FROM sessions WHERE sessions.session_key = request_keys.session_key)",
    )?
    .execute((&key.user_id, &request.key, session_key, number, &request.fingerprint))
    .map(drop)
}
