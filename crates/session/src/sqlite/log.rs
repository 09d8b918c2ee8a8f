//! Reads the log. The tail is read from the newest row backwards until the budget is spent, so its cost does not depend on
//! the length of the session.

use super::{drafts, fault::JobResult, runs, sessions, state};
use crate::{
    Error, PageRequest, PendingEntry, Seq, SessionKey, SessionMessage, Snapshot, StateEntry, StoredMessage,
    TailBudget, ToolCall,
};
use rusqlite::{Connection, OptionalExtension, Row, Rows};

const COLUMNS: &str =
    "seq, tokens, timestamp, counted_by, message_id, role, author, tool_calls, meta, content";

fn stored(row: &Row<'_>) -> rusqlite::Result<StoredMessage> {
    let message = SessionMessage {
        tokens: row.get(1)?,
        timestamp: row.get(2)?,
        counted_by: row.get(3)?,
        id: row.get(4)?,
        role: row.get(5)?,
        author: row.get(6)?,
        tool_calls: tool_calls(row, 7)?,
        meta: row.get(8)?,
        content: row.get(9)?,
    };
    Ok(StoredMessage { seq: Seq(row.get(0)?), message })
}

/// Unreadable calls do not make the session unreadable: the text of the row is in another column.
fn tool_calls(row: &Row<'_>, column: usize) -> rusqlite::Result<Vec<ToolCall>> {
    let text = row.get_ref(column)?.as_str_or_null().ok().flatten();
    Ok(text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default())
}

pub(super) fn load(conn: &Connection, key: &SessionKey, budget: TailBudget) -> JobResult<Option<Snapshot>> {
    let Some((session_key, row)) = sessions::find(conn, key)? else { return Ok(None) };
    let (tail, truncated) = tail(conn, session_key, budget)?;
    let state = state::merged(conn, session_key, key)?;
    let pending = carried(conn, session_key)?;
    let draft = drafts::load(conn, session_key)?;
    Ok(Some(Snapshot { row, tail, truncated, state, pending, draft }))
}

/// The newest rows within the budget, oldest first, and whether older rows were excluded.
fn tail(conn: &Connection, session_key: i64, budget: TailBudget) -> JobResult<(Vec<StoredMessage>, bool)> {
    let mut statement = conn.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM messages WHERE session_key = ?1 ORDER BY seq DESC"
    ))?;
    let mut rows = statement.query((session_key,))?;
    let (mut taken, mut tokens, mut truncated) = (Vec::new(), 0_u64, false);
    while let Some(row) = rows.next()? {
        tokens = tokens.saturating_add(row.get(1)?);
        truncated = taken.len() == budget.rows || (tokens > budget.tokens && !taken.is_empty());
        if truncated {
            break;
        }
        taken.push(stored(row)?);
    }
    taken.reverse();
    Ok((taken, truncated))
}

/// The rows of a page. A row that is not part of it is not read.
fn page_rows(mut rows: Rows<'_>, max_bytes: usize) -> rusqlite::Result<Vec<StoredMessage>> {
    let (mut page, mut bytes) = (Vec::new(), 0_usize);
    while bytes < max_bytes || page.is_empty() {
        let Some(row) = rows.next()? else { break };
        let row = stored(row)?;
        bytes = bytes.saturating_add(row.message.size());
        page.push(row);
    }
    Ok(page)
}

pub(super) fn read(conn: &Connection, key: &SessionKey, page: PageRequest) -> JobResult<Vec<StoredMessage>> {
    let session_key = sessions::head(conn, key)?.session_key;
    let limit = i64::try_from(page.limit).unwrap_or(i64::MAX);
    let mut statement = conn.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM messages WHERE session_key = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3"
    ))?;
    Ok(page_rows(statement.query((session_key, super::bounded(page.after), limit))?, page.max_bytes)?)
}

/// The rows after a sequence number, up to a number of rows and a sum of bytes.
pub(super) fn rows_after(
    conn: &Connection,
    session_key: i64,
    after: u64,
    (limit, max_bytes): (usize, usize),
) -> rusqlite::Result<Vec<StoredMessage>> {
    let mut statement = conn.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM messages WHERE session_key = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3"
    ))?;
    page_rows(statement.query((session_key, after, limit))?, max_bytes)
}

pub(super) fn row(conn: &Connection, session_key: i64, seq: u64) -> rusqlite::Result<Option<StoredMessage>> {
    let sql = format!("SELECT {COLUMNS} FROM messages WHERE session_key = ?1 AND seq = ?2");
    conn.prepare_cached(&sql)?.query_row((session_key, seq), stored).optional()
}

pub(super) fn run_rows_sql() -> String {
    format!(
        "SELECT {COLUMNS} FROM messages
         WHERE session_key = ?1 AND seq > ?2 AND seq <= ?3 AND (run = ?4 OR run IS NULL) ORDER BY seq LIMIT ?5"
    )
}

/// Rows of earlier versions have no run number. Those within the range of the run belong to it.
pub(super) fn read_run(
    conn: &Connection,
    key: &SessionKey,
    number: u64,
    page: PageRequest,
) -> JobResult<Vec<StoredMessage>> {
    let session_key = sessions::head(conn, key)?.session_key;
    let Some(run) = runs::by_number(conn, session_key, number)? else { return Ok(Vec::new()) };
    let limit = i64::try_from(page.limit).unwrap_or(i64::MAX);
    let (first, last) = run.range();
    let mut statement = conn.prepare_cached(&run_rows_sql())?;
    let after = super::bounded(page.after.max(first));
    let rows = statement.query((session_key, after, super::bounded(last), number, limit))?;
    Ok(page_rows(rows, page.max_bytes)?)
}

pub(super) fn state_changes(
    conn: &Connection,
    key: &SessionKey,
    page: PageRequest,
) -> JobResult<Vec<StateEntry>> {
    let session_key = sessions::head(conn, key)?.session_key;
    state::changes(conn, session_key, page)
}

fn carried(conn: &Connection, session_key: i64) -> rusqlite::Result<Vec<PendingEntry>> {
    conn.prepare_cached(
        "SELECT kind, id, value, carried FROM facts WHERE session_key = ?1 AND carried = 1 ORDER BY kind, id",
    )?
    .query_map((session_key,), entry_row)?
    .collect()
}

pub(super) fn pending_entry(
    conn: &Connection,
    key: &SessionKey,
    (kind, id): (&str, &str),
) -> JobResult<Option<PendingEntry>> {
    let session_key = match sessions::head(conn, key) {
        Ok(head) => head.session_key,
        Err(super::fault::JobError::Refused(Error::NotFound(_))) => return Ok(None),
        Err(failure) => return Err(failure),
    };
    Ok(conn
        .prepare_cached(
            "SELECT kind, id, value, carried FROM facts WHERE session_key = ?1 AND kind = ?2 AND id = ?3",
        )?
        .query_row((session_key, kind, id), entry_row)
        .optional()?)
}

fn entry_row(row: &Row<'_>) -> rusqlite::Result<PendingEntry> {
    Ok(PendingEntry { kind: row.get(0)?, id: row.get(1)?, value: row.get(2)?, carried: row.get(3)? })
}
