//! State: one row per key and scope, and a log of every change with its sequence number.

use super::fault::JobResult;
use crate::{Error, PageRequest, Result, Scope, Seq, SessionKey, StateChange, StateEntry};
use rusqlite::{Connection, Row, types::Type};
use serde_json::Value;
use std::collections::HashMap;

/// A state change with its value encoded as JSON text, before the write begins.
#[derive(Debug)]
pub(super) struct EncodedStateChange {
    scope: Scope,
    key: String,
    value: String,
}

impl EncodedStateChange {
    pub(super) fn all(changes: Vec<StateChange>) -> Result<Vec<Self>> {
        changes.into_iter().map(Self::new).collect()
    }

    fn new(StateChange { scope, key, value }: StateChange) -> Result<Self> {
        let value = serde_json::to_string(&value).map_err(|error| Error::Backend(error.into()))?;
        Ok(Self { scope, key, value })
    }

    /// Its size in bytes. It is stored twice: as the current value and in the log.
    pub(super) fn size(&self) -> usize {
        2 * (self.key.len() + self.value.len())
    }
}

/// The session and the sequence number of a change.
#[derive(Clone, Copy)]
pub(super) struct LogPosition<'a> {
    pub(super) key: &'a SessionKey,
    pub(super) session_key: i64,
    pub(super) seq: u64,
}

pub(super) fn change(
    conn: &Connection,
    position: LogPosition<'_>,
    changes: &[EncodedStateChange],
) -> rusqlite::Result<()> {
    for text in changes {
        set(conn, position, text)?;
        conn.prepare_cached(
            "INSERT INTO state_log (session_key, seq, scope, key, value) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute((position.session_key, position.seq, name(text.scope), &text.key, &text.value))?;
    }
    Ok(())
}

/// A key that is assigned again keeps its row, and so its order.
fn set(
    conn: &Connection,
    position: LogPosition<'_>,
    EncodedStateChange { scope, key, value }: &EncodedStateChange,
) -> rusqlite::Result<usize> {
    let SessionKey { app_name: app, user_id: user, .. } = position.key;
    match scope {
        Scope::App => conn
            .prepare_cached(
                "INSERT INTO app_state (app_name, key, value) VALUES (?1, ?2, ?3)
                 ON CONFLICT (app_name, key) DO UPDATE SET value = excluded.value",
            )?
            .execute((app, key, value)),
        Scope::User => conn
            .prepare_cached(
                "INSERT INTO user_state (app_name, user_id, key, value) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (app_name, user_id, key) DO UPDATE SET value = excluded.value",
            )?
            .execute((app, user, key, value)),
        Scope::Session => conn
            .prepare_cached(
                "INSERT INTO session_state (session_key, key, value) VALUES (?1, ?2, ?3)
                 ON CONFLICT (session_key, key) DO UPDATE SET value = excluded.value",
            )?
            .execute((position.session_key, key, value)),
    }
}

pub(super) fn merged(
    conn: &Connection,
    session_key: i64,
    key: &SessionKey,
) -> rusqlite::Result<Vec<StateChange>> {
    let mut state = Vec::new();
    shared(conn, key, &mut state)?;
    conn.prepare_cached("SELECT key, value FROM session_state WHERE session_key = ?1 ORDER BY position")?
        .query_map((session_key,), |row| add(&mut state, Scope::Session, row))?
        .collect::<rusqlite::Result<()>>()?;
    Ok(state)
}

/// The app and user state.
pub(super) fn shared(
    conn: &Connection,
    key: &SessionKey,
    state: &mut Vec<StateChange>,
) -> rusqlite::Result<()> {
    conn.prepare_cached("SELECT key, value FROM app_state WHERE app_name = ?1 ORDER BY position")?
        .query_map((&key.app_name,), |row| add(state, Scope::App, row))?
        .collect::<rusqlite::Result<()>>()?;
    conn.prepare_cached(
        "SELECT key, value FROM user_state WHERE app_name = ?1 AND user_id = ?2 ORDER BY position",
    )?
    .query_map((&key.app_name, &key.user_id), |row| add(state, Scope::User, row))?
    .collect()
}

/// Adds the state of the sessions whose numbers are in a JSON array.
pub(super) fn of_sessions(
    conn: &Connection,
    selected: &str,
    states: &mut HashMap<u64, Vec<StateChange>>,
) -> rusqlite::Result<()> {
    let mut statement = conn.prepare_cached(
        "SELECT session_state.key, session_state.value, session_key
         FROM json_each(?1) AS selected CROSS JOIN session_state ON session_key = selected.value
         ORDER BY session_key, position",
    )?;
    let mut rows = statement.query((selected,))?;
    while let Some(row) = rows.next()? {
        let change = StateChange { scope: Scope::Session, key: row.get(0)?, value: json(row, 1)? };
        states.entry(row.get(2)?).or_default().push(change);
    }
    Ok(())
}

fn add(state: &mut Vec<StateChange>, scope: Scope, row: &Row<'_>) -> rusqlite::Result<()> {
    state.push(StateChange { scope, key: row.get(0)?, value: json(row, 1)? });
    Ok(())
}

/// Reads whole commits: continues beyond the limit up to the end of the last commit.
pub(super) fn changes(conn: &Connection, session_key: i64, page: PageRequest) -> JobResult<Vec<StateEntry>> {
    let mut statement = conn.prepare_cached(
        "SELECT seq, scope, key, value FROM state_log WHERE session_key = ?1 AND seq > ?2 ORDER BY seq, position",
    )?;
    let mut rows = statement.query((session_key, super::bounded(page.after)))?;
    let mut entries: Vec<StateEntry> = Vec::new();
    while let Some(row) = rows.next()? {
        let seq = Seq(row.get(0)?);
        if entries.len() >= page.limit && entries.last().is_none_or(|last| last.seq != seq) {
            break;
        }
        entries.push(StateEntry { seq, scope: scope(row, 1)?, key: row.get(2)?, value: json(row, 3)? });
    }
    Ok(entries)
}

fn name(scope: Scope) -> &'static str {
    match scope {
        Scope::App => "app",
        Scope::User => "user",
        Scope::Session => "session",
    }
}

fn scope(row: &Row<'_>, column: usize) -> rusqlite::Result<Scope> {
    let text: String = row.get(column)?;
    let known = [Scope::App, Scope::User, Scope::Session].into_iter().find(|scope| name(*scope) == text);
    known.ok_or_else(|| super::unreadable(column, format!("unknown scope \"{text}\"")))
}

fn json(row: &Row<'_>, column: usize) -> rusqlite::Result<Value> {
    let text = row.get_ref(column)?.as_str()?;
    serde_json::from_str(text)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error.into()))
}
