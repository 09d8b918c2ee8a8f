//! Slices of the log that are indexed in one transaction.

use super::super::log;
use crate::{
    SessionKey,
    search::{
        document::{self, Document},
        segment,
    },
};
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::BTreeSet;

/// The limits of a slice. They bound how long a commit waits that arrives while a slice is written.
const MAX_ROWS: usize = 128;
const MAX_BYTES: usize = 64 * 1024;
/// How many sessions are looked at for one slice.
const MAX_SESSIONS: usize = 64;

/// What to look at.
#[derive(Clone, Debug, Default)]
pub(super) struct SlicePlan {
    /// All sessions after this one.
    pub(super) pass: Option<i64>,
    pub(super) changed: BTreeSet<SessionKey>,
}

/// New documents of some sessions.
#[derive(Debug, Default)]
pub(super) struct Slice {
    sessions: Vec<SessionSlice>,
    rows: usize,
    bytes: usize,
}

#[derive(Debug)]
struct SessionSlice {
    session: LaggingSession,
    /// The new mark.
    until: u64,
    documents: Vec<(u64, Document)>,
}

/// A session with rows after its mark.
#[derive(Clone, Debug)]
struct LaggingSession {
    session_key: i64,
    key: SessionKey,
    /// Tells a deleted session from its successor with the same number.
    created_at: f64,
    last_seq: u64,
    mark: u64,
}

impl Slice {
    pub(super) fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    pub(super) fn size(&self) -> usize {
        self.bytes
    }

    fn is_full(&self) -> bool {
        self.rows >= MAX_ROWS || self.bytes >= MAX_BYTES
    }
}

const LAGGING: &str =
    "SELECT session_key, app_name, user_id, session_id, created_at, last_seq, COALESCE(seq, 0)
     FROM sessions LEFT JOIN search_marks USING (session_key)";

fn lagging(row: &rusqlite::Row<'_>) -> rusqlite::Result<LaggingSession> {
    Ok(LaggingSession {
        session_key: row.get(0)?,
        key: SessionKey { app_name: row.get(1)?, user_id: row.get(2)?, session_id: row.get(3)? },
        created_at: row.get(4)?,
        last_seq: row.get(5)?,
        mark: row.get(6)?,
    })
}

/// Reads the next slice, and returns what remains to be looked at.
pub(super) fn read(conn: &Connection, mut plan: SlicePlan) -> rusqlite::Result<(Slice, SlicePlan)> {
    let mut slice = Slice::default();
    for _ in 0..MAX_SESSIONS {
        let Some(key) = plan.changed.first().cloned() else { break };
        let one = format!("{LAGGING} WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3");
        let found = conn
            .prepare_cached(&one)?
            .query_row((&key.app_name, &key.user_id, &key.session_id), lagging)
            .optional()?;
        if found.is_none_or(|session| slice.add(conn, session)) {
            plan.changed.remove(&key);
        }
        if slice.is_full() {
            return Ok((slice, plan));
        }
    }
    let Some(after) = plan.pass.filter(|_| plan.changed.is_empty()) else { return Ok((slice, plan)) };
    let next = format!(
        "{LAGGING} WHERE session_key > ?1 AND last_seq > COALESCE(seq, 0) ORDER BY session_key LIMIT ?2"
    );
    let mut statement = conn.prepare_cached(&next)?;
    let sessions: Vec<LaggingSession> =
        statement.query_map((after, MAX_SESSIONS), lagging)?.collect::<rusqlite::Result<_>>()?;
    plan.pass = (sessions.len() == MAX_SESSIONS).then(|| sessions.last().map_or(0, |last| last.session_key));
    for session in sessions {
        let session_key = session.session_key;
        if !slice.add(conn, session) || slice.is_full() {
            // The same session again: the condition excludes it if it is complete.
            plan.pass = Some(session_key - 1);
            break;
        }
    }
    Ok((slice, plan))
}

impl Slice {
    /// Adds rows of the session. Returns whether all of them were added. A session that cannot be read is left out: it must not
    /// keep the others from being indexed.
    fn add(&mut self, conn: &Connection, session: LaggingSession) -> bool {
        if session.last_seq <= session.mark {
            return true;
        }
        let max_bytes = MAX_BYTES.saturating_sub(self.bytes).max(1);
        let limit = MAX_ROWS.saturating_sub(self.rows).max(1);
        let Ok(rows) = log::rows_after(conn, session.session_key, session.mark, (limit, max_bytes)) else {
            return true;
        };
        let last = rows.last().map_or(session.last_seq, |row| row.seq.0);
        self.rows += rows.len();
        self.bytes += rows.iter().map(|row| row.message.size()).sum::<usize>();
        // The last numbers may belong to state changes, which have no rows.
        let is_whole = rows.len() < limit && self.bytes < MAX_BYTES;
        let until = if is_whole { session.last_seq.max(last) } else { last };
        let documents = rows.iter().flat_map(|row| {
            document::documents(&row.message).into_iter().map(|document| (row.seq.0, document))
        });
        let documents = documents.collect();
        let is_complete = until >= session.last_seq;
        self.sessions.push(SessionSlice { session, until, documents });
        is_complete
    }
}

/// Indexes a slice. What was indexed or deleted since it was read is left out. Returns the sessions that were left out.
pub(super) fn apply(conn: &Connection, slice: &Slice) -> rusqlite::Result<Vec<SessionKey>> {
    let mut by_scope = Vec::new();
    let mut left_out = Vec::new();
    for part in &slice.sessions {
        if !advance_mark(conn, part)? {
            left_out.push(part.session.key.clone());
        } else if !part.documents.is_empty() {
            by_scope.push((scope(conn, &part.session.key)?, part));
        }
    }
    // FTS5 collects a transaction in memory as long as the numbers of documents increase.
    by_scope.sort_by_key(|(scope, _)| *scope);
    for (scope, part) in by_scope {
        add_documents(conn, scope, part)?;
    }
    Ok(left_out)
}

/// Moves the mark from where the slice was read. Returns `false` if another process moved it, or the session is gone.
fn advance_mark(conn: &Connection, part: &SessionSlice) -> rusqlite::Result<bool> {
    let SessionSlice { session, until, .. } = part;
    let LaggingSession { session_key, key, created_at, mark, .. } = session;
    let found =
        "SELECT 1 FROM sessions WHERE session_key = ?1 AND app_name = ?2 AND user_id = ?3 AND session_id = ?4
                 AND created_at = ?5";
    let found = conn.prepare_cached(found)?.exists(params![
        session_key,
        key.app_name,
        key.user_id,
        key.session_id,
        created_at
    ])?;
    if !found {
        return Ok(false);
    }
    if *mark == 0 {
        let insert = "INSERT INTO search_marks (session_key, seq) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
        return Ok(conn.prepare_cached(insert)?.execute((session_key, until))? == 1);
    }
    let update = "UPDATE search_marks SET seq = ?2 WHERE session_key = ?1 AND seq = ?3";
    Ok(conn.prepare_cached(update)?.execute((session_key, until, mark))? == 1)
}

/// The number of a scope, which is created if it is missing.
fn scope(conn: &Connection, key: &SessionKey) -> rusqlite::Result<i64> {
    conn.prepare_cached(
        "INSERT INTO search_scopes (app_name, user_id) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
    )?
    .execute((&key.app_name, &key.user_id))?;
    conn.prepare_cached("SELECT scope FROM search_scopes WHERE app_name = ?1 AND user_id = ?2")?
        .query_row((&key.app_name, &key.user_id), |row| row.get(0))
}

fn add_documents(conn: &Connection, scope: i64, part: &SessionSlice) -> rusqlite::Result<()> {
    let mut last: i64 = conn
        .prepare_cached("SELECT last FROM search_scopes WHERE scope = ?1")?
        .query_row((scope,), |row| row.get(0))?;
    let mut insert = conn.prepare_cached(
        "INSERT INTO search_documents (document, session_key, seq, part, len) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    let mut index = conn.prepare_cached("INSERT INTO search_index (rowid, terms) VALUES (?1, ?2)")?;
    let mut terms = 0_usize;
    for (seq, document) in &part.documents {
        last += 1;
        let number = (scope << 32) | last;
        insert.execute((number, part.session.session_key, seq, document.part, document.len))?;
        index.execute((number, &document.terms))?;
        terms += document.len;
    }
    conn.prepare_cached("UPDATE search_scopes SET last = ?2, terms = terms + ?3 WHERE scope = ?1")?
        .execute((scope, last, terms))?;
    Ok(())
}

/// Whether the index has terms of another version of the segmentation.
pub(super) fn is_outdated(conn: &Connection) -> rusqlite::Result<bool> {
    let version: u32 =
        conn.prepare_cached("SELECT version FROM search_segmentation")?.query_row([], |row| row.get(0))?;
    Ok(version != segment::VERSION)
}

/// Deletes some documents of a session that was deleted. Returns their number.
pub(in crate::sqlite) fn delete_documents(
    conn: &Connection,
    session_key: i64,
    limit: usize,
) -> rusqlite::Result<usize> {
    const SOME: &str =
        "(SELECT document FROM search_documents WHERE session_key = ?1 ORDER BY document LIMIT ?2)";
    conn.prepare_cached(&format!("DELETE FROM search_index WHERE rowid IN {SOME}"))?
        .execute((session_key, limit))?;
    conn.prepare_cached(&format!("DELETE FROM search_documents WHERE document IN {SOME}"))?
        .execute((session_key, limit))
}

/// Deletes the scope of a user without sessions. The numbers of documents begin with that of their scope, so it is in use
/// until the documents of the last deleted session are gone.
pub(in crate::sqlite) fn delete_unused_scope(conn: &Connection, key: &SessionKey) -> rusqlite::Result<()> {
    conn.prepare_cached(
        "DELETE FROM search_scopes WHERE app_name = ?1 AND user_id = ?2
         AND NOT EXISTS (SELECT 1 FROM sessions WHERE app_name = ?1 AND user_id = ?2)
         AND NOT EXISTS (SELECT 1 FROM deleted_sessions WHERE app_name = ?1 AND user_id = ?2)",
    )?
    .execute((&key.app_name, &key.user_id))?;
    Ok(())
}

/// Empties the index.
pub(super) fn reset(conn: &Connection) -> rusqlite::Result<()> {
    conn.execute("UPDATE search_segmentation SET version = ?1", [segment::VERSION])?;
    conn.execute_batch(
        "INSERT INTO search_index (search_index) VALUES ('delete-all');
         DELETE FROM search_documents;
         DELETE FROM search_marks;
         DELETE FROM search_scopes;",
    )
}
