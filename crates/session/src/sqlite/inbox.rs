//! The inbox: tickets in the order of their numbers.

use super::{fault::Outcome, leases::next_number, sessions};
use crate::{NewTicket, SessionKey, Ticket};
use rusqlite::{Connection, OptionalExtension, Row};

fn ticket(row: &Row<'_>) -> rusqlite::Result<Ticket> {
    Ok(Ticket { number: row.get(0)?, id: row.get(1)?, owner: row.get(2)?, payload: row.get(3)? })
}

pub(super) fn push(conn: &Connection, key: &SessionKey, new: &NewTicket) -> Outcome<Ticket> {
    let session_key = sessions::head(conn, key)?.session_key;
    let known = conn
        .prepare_cached(
            "SELECT number, ticket_id, owner, payload FROM inbox WHERE session_key = ?1 AND ticket_id = ?2",
        )?
        .query_row((session_key, &new.id), ticket)
        .optional()?;
    if let Some(ticket) = known {
        return Ok(ticket);
    }
    let NewTicket { id, owner, payload } = new.clone();
    let number = next_number(conn)?;
    conn.prepare_cached(
        "INSERT INTO inbox (number, session_key, ticket_id, owner, payload) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute((number, session_key, &id, &owner, &payload))?;
    Ok(Ticket { number, id, owner, payload })
}

pub(super) fn waiting(conn: &Connection, key: &SessionKey, limit: usize) -> Outcome<Vec<Ticket>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut statement = conn.prepare_cached(
        "SELECT number, ticket_id, owner, payload FROM inbox JOIN sessions USING (session_key)
         WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 ORDER BY number LIMIT ?4",
    )?;
    let rows = statement.query_map((&key.app, &key.user, &key.session, limit), ticket)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

pub(super) fn withdraw(conn: &Connection, key: &SessionKey, number: u64) -> Outcome<bool> {
    let removed = conn
        .prepare_cached(
            "DELETE FROM inbox WHERE number = ?4 AND session_key =
                 (SELECT session_key FROM sessions WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3)",
        )?
        .execute((&key.app, &key.user, &key.session, number))?;
    Ok(removed > 0)
}

pub(super) fn count(conn: &Connection, session_key: i64) -> rusqlite::Result<usize> {
    conn.prepare_cached("SELECT COUNT(*) FROM inbox WHERE session_key = ?1")?
        .query_row((session_key,), |row| row.get(0))
}

pub(super) fn holds(conn: &Connection, session_key: i64, number: u64) -> rusqlite::Result<bool> {
    conn.prepare_cached("SELECT 1 FROM inbox WHERE number = ?2 AND session_key = ?1")?
        .exists((session_key, number))
}

pub(super) fn take(conn: &Connection, session_key: i64, number: u64) -> rusqlite::Result<()> {
    conn.prepare_cached("DELETE FROM inbox WHERE number = ?2 AND session_key = ?1")?
        .execute((session_key, number))
        .map(drop)
}
