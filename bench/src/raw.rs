//! The baseline: a plain rusqlite connection on a database of the store, with the same schema and statements.

use crate::Result;
use rusqlite::Connection;
use session::{
    NewSession, OnConflict, SessionKey, SessionMessage, SessionStore,
    sqlite::{Options, SqliteStore},
};
use std::path::Path;
use tokio::runtime::Runtime;

/// Creates a database with these sessions through the store, so that the schema and its settings are the store's.
pub(crate) fn create(path: &Path, sessions: &[SessionKey]) -> Result<SqliteStore> {
    let store = SqliteStore::open(path, Options { inline_commits: true, ..Options::default() })?;
    let runtime = Runtime::new()?;
    for key in sessions {
        let (state, steps) = (Vec::new(), Vec::new());
        let new = NewSession { key: key.clone(), state, steps, on_conflict: OnConflict::Fail, quota: None };
        runtime.block_on(store.create(new))?;
    }
    Ok(store)
}

pub(crate) struct Raw {
    conn: Connection,
}

impl Raw {
    /// Opens a connection with the durability and cache size of the store's writer.
    pub(crate) fn durable(path: &Path) -> Result<Self> {
        let conn = Connection::open(path)?;
        // `grow` switches the journal off, which is persistent.
        conn.pragma_update(None, "journal_mode", "WAL")?;
        conn.pragma_update(None, "synchronous", "FULL")?;
        conn.pragma_update(None, "foreign_keys", false)?;
        conn.pragma_update(None, "cache_size", -65_536)?;
        conn.pragma_update(None, "journal_size_limit", 64 * 1024 * 1024)?;
        conn.pragma_update(None, "temp_store", "MEMORY")?;
        Ok(Self { conn })
    }

    pub(crate) fn begin(&self) -> Result<()> {
        self.execute("BEGIN IMMEDIATE")
    }

    pub(crate) fn commit(&self) -> Result<()> {
        self.execute("COMMIT")
    }

    fn execute(&self, sql: &str) -> Result<()> {
        self.conn.prepare_cached(sql)?.execute([])?;
        Ok(())
    }

    /// Executes the three statements of the store's append: select the session, insert the message, update the session.
    pub(crate) fn append(&self, key: &SessionKey, message: &SessionMessage) -> Result<()> {
        let (session_key, last_seq): (i64, i64) = self
            .conn
            .prepare_cached(
                "SELECT session_key, last_seq FROM sessions
                 WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3",
            )?
            .query_row((&key.app_name, &key.user_id, &key.session_id), |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?;
        self.insert((session_key, last_seq + 1), message)?;
        self.conn
            .prepare_cached(
                "UPDATE sessions SET last_seq = ?2, total_tokens = total_tokens + ?3, updated_at = ?4
                 WHERE session_key = ?1",
            )?
            .execute((session_key, last_seq + 1, message.tokens, message.timestamp))?;
        Ok(())
    }

    fn insert(&self, (session_key, seq): (i64, i64), message: &SessionMessage) -> Result<()> {
        let calls = (!message.tool_calls.is_empty())
            .then(|| serde_json::to_string(&message.tool_calls))
            .transpose()?;
        let SessionMessage { id, role, author, content, timestamp, tokens, counted_by, meta, .. } = message;
        self.conn
            .prepare_cached(
                "INSERT INTO messages (session_key, seq, tokens, timestamp, counted_by, message_id, role, author,
                     tool_calls, meta, content)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
                 ON CONFLICT (session_key, message_id) DO NOTHING",
            )?
            .execute((session_key, seq, tokens, timestamp, counted_by, id, role, author, calls, meta, content))?;
        Ok(())
    }
}

/// Extends every session of a database by `length` messages. Durability is off meanwhile; no other connection may be open.
pub(crate) fn grow_all(path: &Path, next: &mut dyn FnMut() -> SessionMessage, length: i64) -> Result<()> {
    let raw = Raw { conn: Connection::open(path)? };
    raw.conn.pragma_update(None, "journal_mode", "OFF")?;
    raw.conn.pragma_update(None, "synchronous", "OFF")?;
    let mut sessions = raw.conn.prepare("SELECT session_key FROM sessions")?;
    let keys: Vec<i64> = sessions.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    raw.begin()?;
    for session_key in keys {
        for seq in 1..=length {
            raw.insert((session_key, seq), &next())?;
        }
    }
    raw.conn.execute(
        "UPDATE sessions SET last_seq = ?1,
             total_tokens = (SELECT COALESCE(SUM(tokens), 0) FROM messages AS m
                 WHERE m.session_key = sessions.session_key)",
        [length],
    )?;
    raw.commit()
}

/// Extends the only session of a database to `length` messages. Durability is off meanwhile; no other connection may be open.
pub(crate) fn grow(path: &Path, next: &mut dyn FnMut() -> SessionMessage, length: i64) -> Result<()> {
    let raw = Raw { conn: Connection::open(path)? };
    raw.conn.pragma_update(None, "journal_mode", "OFF")?;
    raw.conn.pragma_update(None, "synchronous", "OFF")?;
    let (session_key, last_seq): (i64, i64) =
        raw.conn.query_row("SELECT session_key, last_seq FROM sessions", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    raw.begin()?;
    for seq in last_seq + 1..=length {
        raw.insert((session_key, seq), &next())?;
    }
    raw.conn.execute(
        "UPDATE sessions SET last_seq = ?1,
             total_tokens = (SELECT COALESCE(SUM(tokens), 0) FROM messages WHERE session_key = ?2)",
        (length, session_key),
    )?;
    raw.commit()
}
