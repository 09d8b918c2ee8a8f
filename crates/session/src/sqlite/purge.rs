//! Deleting a session: one commit takes its row away, which nothing is found without; slices delete what belongs to it.
//!
//! The tombstone keeps the row number of the session from being used again until the last of its rows is deleted.

use super::{
    SqliteStore, artifacts,
    fault::{JobError, JobResult, is_damage},
    ports::SMALL,
    search, sessions, usage,
};
use crate::{Error, Pending, Purge, PurgeProgress, PurgeSlice, SessionKey, SessionSearch};
use rusqlite::{Connection, OptionalExtension};
use std::time::Instant;

/// How many rows are deleted between two looks at the clock.
const STEP: usize = 8;
/// Free pages that stay in the file: normal use frees and needs a few all the time.
const KEPT_FREE_PAGES: u64 = 256;
/// How many pages are returned to the file system between two looks at the clock.
const VACUUM_STEP: u64 = 16;

/// The statement that deletes rows of a session, for each table with rows of sessions. Children come before the runs that they
/// name.
const TABLES: [(&str, &str); 10] = [
    (
        "messages",
        "DELETE FROM messages WHERE rowid IN
             (SELECT rowid FROM messages WHERE session_key = ?1 ORDER BY seq LIMIT ?2)",
    ),
    (
        "session_state",
        "DELETE FROM session_state WHERE rowid IN
             (SELECT rowid FROM session_state WHERE session_key = ?1 LIMIT ?2)",
    ),
    (
        "state_log",
        "DELETE FROM state_log WHERE rowid IN
             (SELECT rowid FROM state_log WHERE session_key = ?1 LIMIT ?2)",
    ),
    ("facts", "DELETE FROM facts WHERE rowid IN (SELECT rowid FROM facts WHERE session_key = ?1 LIMIT ?2)"),
    (
        "drafts",
        "DELETE FROM drafts WHERE session_key = ?1 AND number IN
             (SELECT number FROM drafts WHERE session_key = ?1 ORDER BY number LIMIT ?2)",
    ),
    (
        "recipe_uses",
        "DELETE FROM recipe_uses WHERE session_key = ?1 AND hash IN
             (SELECT hash FROM recipe_uses WHERE session_key = ?1 ORDER BY hash LIMIT ?2)",
    ),
    (
        "request_keys",
        "DELETE FROM request_keys WHERE (user_id, key) IN
             (SELECT user_id, key FROM request_keys WHERE session_key = ?1 LIMIT ?2)",
    ),
    (
        "runs",
        "DELETE FROM runs WHERE session_key = ?1 AND position IN
             (SELECT position FROM runs WHERE session_key = ?1 ORDER BY position LIMIT ?2)",
    ),
    (
        "search_marks",
        "DELETE FROM search_marks WHERE session_key IN
             (SELECT session_key FROM search_marks WHERE session_key = ?1 LIMIT ?2)",
    ),
    (
        "memory_sessions",
        "DELETE FROM memory_sessions WHERE session_key IN
             (SELECT session_key FROM memory_sessions WHERE session_key = ?1 LIMIT ?2)",
    ),
];

/// The tables with rows of sessions.
pub const PURGED_TABLES: [&str; TABLES.len() + 1] = {
    let mut names = ["search_documents"; TABLES.len() + 1];
    let mut at = 0;
    while at < TABLES.len() {
        names[at] = TABLES[at].0;
        at += 1;
    }
    names
};

/// Takes the session away from readers. Its open runs are deleted at once, because they are found without their session.
pub(super) fn delete(conn: &Connection, key: &SessionKey) -> JobResult<bool> {
    let session_key = match sessions::head(conn, key) {
        Ok(head) => head.session_key,
        Err(JobError::Refused(Error::NotFound(_))) => return Ok(false),
        Err(failure) => return Err(failure),
    };
    usage::keep_without_session(conn, key, session_key)?;
    conn.prepare_cached("DELETE FROM runs WHERE session_key = ?1 AND status IN ('queued', 'running')")?
        .execute((session_key,))?;
    let has_artifacts = artifacts::has_own(conn, key)?;
    conn.prepare_cached(
        "INSERT INTO deleted_sessions (session_key, app_name, user_id, session_id, has_artifacts)
         VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute((session_key, &key.app_name, &key.user_id, &key.session_id, has_artifacts))?;
    conn.prepare_cached("DELETE FROM sessions WHERE session_key = ?1")?.execute((session_key,))?;
    Ok(true)
}

struct Tombstone {
    session_key: i64,
    key: SessionKey,
    has_artifacts: bool,
}

fn first(conn: &Connection) -> rusqlite::Result<Option<Tombstone>> {
    conn.prepare_cached(
        "SELECT session_key, app_name, user_id, session_id, has_artifacts FROM deleted_sessions
         WHERE is_damaged = 0 ORDER BY session_key LIMIT 1",
    )?
    .query_row([], |row| {
        let key = SessionKey { app_name: row.get(1)?, user_id: row.get(2)?, session_id: row.get(3)? };
        Ok(Tombstone { session_key: row.get(0)?, key, has_artifacts: row.get(4)? })
    })
    .optional()
}

/// What a slice may still do.
struct Allowance {
    rows: usize,
    until: Option<Instant>,
}

impl Allowance {
    fn is_spent(&self) -> bool {
        self.rows == 0 || self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// Calls `delete` with a number of rows until it deletes fewer. Returns `false` if the allowance was spent before that.
    fn drain(&mut self, mut delete: impl FnMut(usize) -> rusqlite::Result<usize>) -> rusqlite::Result<bool> {
        loop {
            let step = self.rows.min(STEP);
            let deleted = delete(step)?;
            self.rows -= deleted.min(self.rows);
            if deleted < step {
                return Ok(true);
            }
            if self.is_spent() {
                return Ok(false);
            }
        }
    }
}

/// One slice. Rows of earlier versions whose usage is not counted yet are kept until it is.
pub(super) fn slice(conn: &Connection, slice: PurgeSlice) -> JobResult<PurgeProgress> {
    if usage::has_backlog(conn)? {
        return Ok(PurgeProgress::Done);
    }
    let mut left = Allowance { rows: slice.rows.max(1), until: Instant::now().checked_add(slice.time) };
    while let Some(tombstone) = first(conn)? {
        let deleted = delete_rows(conn, &tombstone, &mut left).map_err(|error| {
            if is_damage(&error) { JobError::damaged(&tombstone.key, error) } else { error.into() }
        });
        if !deleted? {
            return Ok(PurgeProgress::More);
        }
        conn.prepare_cached("DELETE FROM deleted_sessions WHERE session_key = ?1")?
            .execute((tombstone.session_key,))?;
        search::delete_unused_scope(conn, &tombstone.key)?;
        if left.is_spent() {
            return Ok(PurgeProgress::More);
        }
    }
    return_pages(conn, &mut left)
}

/// Returns `true` if the session has no rows left.
fn delete_rows(conn: &Connection, tombstone: &Tombstone, left: &mut Allowance) -> rusqlite::Result<bool> {
    // One artifact may be large.
    while tombstone.has_artifacts && artifacts::remove_one(conn, &tombstone.key)? {
        left.rows = left.rows.saturating_sub(STEP);
        if left.is_spent() {
            return Ok(false);
        }
    }
    if tombstone.has_artifacts {
        artifacts::forget_deleted(conn, &tombstone.key)?;
    }
    if !left.drain(|step| search::delete_documents(conn, tombstone.session_key, step))? {
        return Ok(false);
    }
    for (_, delete) in TABLES {
        let mut delete = conn.prepare_cached(delete)?;
        if !left.drain(|step| delete.execute((tombstone.session_key, step)))? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Excludes a session whose rows cannot be read from the next slices.
pub(super) fn skip_damaged(conn: &Connection, key: &SessionKey) -> JobResult<()> {
    conn.prepare_cached(
        "UPDATE deleted_sessions SET is_damaged = 1 WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3",
    )?
    .execute((&key.app_name, &key.user_id, &key.session_id))?;
    Ok(())
}

/// Returns free pages to the file system, in files that were created with incremental vacuum.
fn return_pages(conn: &Connection, left: &mut Allowance) -> JobResult<PurgeProgress> {
    const INCREMENTAL: u64 = 2;
    let pragma = |name: &str| conn.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, u64>(0));
    if pragma("auto_vacuum")? != INCREMENTAL {
        return Ok(PurgeProgress::Done);
    }
    while pragma("freelist_count")? > KEPT_FREE_PAGES {
        if left.is_spent() {
            return Ok(PurgeProgress::More);
        }
        let mut vacuum = conn.prepare_cached(&format!("PRAGMA incremental_vacuum({VACUUM_STEP})"))?;
        let mut steps = vacuum.query([])?;
        while steps.next()?.is_some() {}
        left.rows = left.rows.saturating_sub(STEP);
    }
    Ok(PurgeProgress::Done)
}

impl Purge for SqliteStore {
    fn purge(&self, slice: PurgeSlice) -> Pending<'_, PurgeProgress> {
        Box::pin(async move {
            match self.db.write(SMALL, move |conn| self::slice(conn, slice)).await {
                // The rows stay in the file, and do not keep other sessions from being deleted.
                Err(Error::DamagedSession { key, .. }) => {
                    self.db.write(SMALL, move |conn| skip_damaged(conn, &key)).await?;
                    Ok(PurgeProgress::More)
                }
                // The index is built anew without the deleted sessions.
                Err(Error::DamagedIndex { .. }) => {
                    self.reset_index().await?;
                    Ok(PurgeProgress::More)
                }
                progress => progress,
            }
        })
    }
}
