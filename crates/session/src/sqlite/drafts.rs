//! Drafts: one row per chunk of streamed text.

use super::{fault::JobResult, runs, sessions};
use crate::{Draft, Lease, lifecycle};
use rusqlite::Connection;

pub(super) fn extend(conn: &Connection, lease: &Lease, chunk: &str) -> JobResult<()> {
    let head = sessions::head(conn, &lease.key)?;
    lifecycle::fence(&head.turns(), lease.epoch).map_err(|refusal| runs::refused(refusal, &lease.key, ""))?;
    conn.prepare_cached(
        "INSERT INTO drafts (session_key, number, run, piece)
         VALUES (?1, (SELECT COALESCE(MAX(number), 0) + 1 FROM drafts WHERE session_key = ?1), ?2, ?3)",
    )?
    .execute((head.session_key, lease.run, chunk))?;
    Ok(())
}

pub(super) fn discard(conn: &Connection, session_key: i64) -> rusqlite::Result<()> {
    conn.prepare_cached("DELETE FROM drafts WHERE session_key = ?1")?.execute((session_key,)).map(drop)
}

pub(super) fn load(conn: &Connection, session_key: i64) -> rusqlite::Result<Option<Draft>> {
    let mut statement = conn.prepare_cached(
        "SELECT run_id, piece FROM drafts JOIN runs ON runs.session_key = drafts.session_key AND position = run
         WHERE drafts.session_key = ?1 ORDER BY number",
    )?;
    let mut rows = statement.query((session_key,))?;
    let mut draft: Option<Draft> = None;
    while let Some(row) = rows.next()? {
        let draft = match &mut draft {
            Some(draft) => draft,
            None => draft.insert(Draft { run: row.get(0)?, chunks: Vec::new() }),
        };
        draft.chunks.push(row.get(1)?);
    }
    Ok(draft)
}
