//! Leases: three columns of the session's row. A claim is one read and one write inside a write transaction.

use super::{fault::Outcome, inbox, sessions};
use crate::{Claim, Claimed, Error, Lease, SessionKey, clock};
use rusqlite::Connection;
use std::time::Duration;

/// A number that this database never gave before.
pub(super) fn next_number(conn: &Connection) -> rusqlite::Result<u64> {
    conn.prepare_cached("UPDATE numbers SET last = last + 1 RETURNING last")?.query_row([], |row| row.get(0))
}

pub(super) fn claim(conn: &Connection, key: &SessionKey, claim: &Claim) -> Outcome<Claimed> {
    let session_key = sessions::head(conn, key)?.session_key;
    let (owner, epoch, until): (Option<String>, u64, f64) = conn
        .prepare_cached("SELECT lease_owner, lease_epoch, lease_until FROM sessions WHERE session_key = ?1")?
        .query_row((session_key,), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let now = clock::now();
    let epoch = match owner {
        Some(owner) if owner == claim.owner => epoch,
        Some(owner) if until > now && claim.displaces != Some(epoch) => {
            return Ok(Claimed::Held { owner, epoch });
        }
        Some(_) | None => epoch + 1,
    };
    grant(conn, session_key, epoch, (&claim.owner, claim.ttl))?;
    let lease = Lease { key: key.clone(), owner: claim.owner.clone(), epoch };
    Ok(Claimed::Granted { lease, waiting: inbox::count(conn, session_key)? })
}

/// The epoch before the first of a new session. Epochs of a session follow each other; those of another session of the
/// same name, before it or after it, are none of them.
pub(super) fn first_epoch(conn: &Connection) -> rusqlite::Result<u64> {
    Ok(next_number(conn)? << 32)
}

fn grant(
    conn: &Connection,
    session_key: i64,
    epoch: u64,
    (owner, ttl): (&str, Duration),
) -> rusqlite::Result<()> {
    conn.prepare_cached(
        "UPDATE sessions SET lease_owner = ?2, lease_epoch = ?3, lease_until = ?4 WHERE session_key = ?1",
    )?
    .execute((session_key, owner, epoch, clock::now() + ttl.as_secs_f64()))
    .map(drop)
}

pub(super) fn renew(conn: &Connection, lease: &Lease, ttl: Duration) -> Outcome<()> {
    let session_key = sessions::head(conn, &lease.key)?.session_key;
    let renewed = conn
        .prepare_cached(
            "UPDATE sessions SET lease_until = ?4
             WHERE session_key = ?1 AND lease_owner = ?2 AND lease_epoch = ?3",
        )?
        .execute((session_key, &lease.owner, lease.epoch, clock::now() + ttl.as_secs_f64()))?;
    if renewed == 0 { Err(Error::Fenced(lease.key.clone()).into()) } else { Ok(()) }
}

pub(super) fn release(conn: &Connection, Lease { key, owner, epoch }: &Lease) -> Outcome<()> {
    conn.prepare_cached(
        "UPDATE sessions SET lease_owner = NULL
         WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND lease_owner = ?4 AND lease_epoch = ?5",
    )?
    .execute((&key.app, &key.user, &key.session, owner, epoch))?;
    Ok(())
}

/// Reads all sessions, once in the life of a process: an index would cost every turn something.
pub(super) fn left(conn: &Connection) -> Outcome<Vec<SessionKey>> {
    let mut statement = conn.prepare(
        "SELECT app_name, user_id, session_id FROM sessions
         WHERE lease_owner IS NOT NULL OR session_key IN (SELECT session_key FROM inbox)",
    )?;
    let key = |row: &rusqlite::Row<'_>| {
        let (app, user, session): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(SessionKey::new(app, user, session))
    };
    let rows = statement.query_map([], key)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}
