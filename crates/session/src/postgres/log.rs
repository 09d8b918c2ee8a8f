//! Reads the log in pages. The tail is read from the newest row backwards, so its cost does not depend on the length of the
//! session.
//!
//! Sequence numbers are assigned while the row of the session is locked until the commit, so the rows of a session become
//! visible in the order of their numbers: a reader that has seen a number misses no smaller one.

use super::{
    batch::{Batch, Frame, parameters},
    drafts,
    fault::JobResult,
    runs, sessions, state,
    text::{RowResult, Text, integer, limit, number, optional_text, text},
};
use crate::{
    PageRequest, PendingEntry, Seq, SessionKey, SessionMessage, Snapshot, StoredMessage, TailBudget, ToolCall,
};
use deadpool_postgres::Object;
use tokio_postgres::Row;
use uuid::Uuid;

macro_rules! columns {
    () => {
        "seq, tokens, timestamp, counted_by, message_id, role, author, tool_calls, meta, content"
    };
}

fn stored(row: &Row) -> RowResult<StoredMessage> {
    let message = SessionMessage {
        tokens: u32::try_from(number(row, 1)?).unwrap_or(u32::MAX),
        timestamp: row.try_get(2)?,
        counted_by: text(row, 3)?,
        id: text(row, 4)?,
        role: text(row, 5)?,
        author: text(row, 6)?,
        tool_calls: tool_calls(optional_text(row, 7)?.as_deref()),
        meta: optional_text(row, 8)?,
        content: text(row, 9)?,
    };
    Ok(StoredMessage { seq: Seq(number(row, 0)?), message })
}

/// Unreadable calls do not make the session unreadable: the text of the row is in another column.
fn tool_calls(text: Option<&str>) -> Vec<ToolCall> {
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// The first page of a tail, and the largest one.
const PAGE: usize = 64;
const LARGEST_PAGE: usize = 1024;

/// Rows beyond the budget are read without their large columns, because they are not part of the tail. The sum covers one page.
const TAIL: &str = "SELECT seq, tokens, timestamp, counted_by, message_id, role, author,
         CASE WHEN fits THEN tool_calls END, CASE WHEN fits THEN meta END, CASE WHEN fits THEN content ELSE '' END
     FROM (SELECT page.*, SUM(tokens) OVER newest <= $4::bigint OR ($5 AND ROW_NUMBER() OVER newest = 1) AS fits
           FROM (SELECT * FROM messages WHERE session_key = $1 AND seq < $2 ORDER BY seq DESC LIMIT $3) AS page
           WINDOW newest AS (ORDER BY seq DESC)) AS tail
     ORDER BY seq DESC";

/// The newest rows within the budget, read page by page.
struct Tail {
    budget: TailBudget,
    rows: Vec<StoredMessage>,
    tokens: u64,
    /// The sequence number of the oldest row that was read.
    before: i64,
    page: usize,
    truncated: bool,
    is_complete: bool,
}

impl Tail {
    fn new(budget: TailBudget) -> Self {
        let rows = Vec::new();
        Self { budget, rows, tokens: 0, before: i64::MAX, page: PAGE, truncated: false, is_complete: false }
    }

    /// How many rows to read: one more than the tail may have, to see whether it is truncated.
    fn limit(&self) -> usize {
        (self.budget.rows - self.rows.len()).saturating_add(1).min(self.page)
    }

    fn add<'a>(&self, batch: &mut Batch<'a>, session_key: Uuid) -> usize {
        let rest = integer(self.budget.tokens.saturating_sub(self.tokens));
        let is_first = self.rows.is_empty();
        batch.add(TAIL, parameters![session_key, self.before, limit(self.limit()), rest, is_first])
    }

    fn extend(&mut self, rows: &[Row]) -> JobResult<()> {
        let limit = self.limit();
        for row in rows {
            self.tokens = self.tokens.saturating_add(number(row, 1)?);
            let is_beyond = self.tokens > self.budget.tokens && !self.rows.is_empty();
            if self.rows.len() == self.budget.rows || is_beyond {
                (self.truncated, self.is_complete) = (true, true);
                return Ok(());
            }
            self.rows.push(stored(row)?);
            self.before = row.try_get(0)?;
        }
        self.is_complete = rows.len() < limit;
        self.page = (self.page * 4).min(LARGEST_PAGE);
        Ok(())
    }
}

const CARRIED: &str =
    "SELECT kind, id, value, carried FROM facts WHERE session_key = $1 AND carried ORDER BY kind, id";

/// One snapshot in one round trip. Further pages of a long tail are read after it: rows that are in the log never change.
pub(super) async fn load(
    connection: &Object,
    key: &SessionKey,
    budget: TailBudget,
) -> JobResult<Option<Snapshot>> {
    let session_key = sessions::key_of(key);
    let mut tail = Tail::new(budget);
    let mut batch = Batch::default();
    let found = sessions::add_find(&mut batch, key);
    let mut scopes = state::add_shared(&mut batch, key);
    scopes.push(state::add_session(&mut batch, session_key));
    let carried = batch.add(CARRIED, parameters![session_key]);
    let draft = batch.add(drafts::LOAD, parameters![session_key]);
    let page = tail.add(&mut batch, session_key);
    let rows = batch.send(connection, Frame::Snapshot).await?;
    let Some(row) = rows[found].first() else { return Ok(None) };
    let row = sessions::session_row(row)?;
    let state = state::merged(&rows, &scopes)?;
    let pending = rows[carried].iter().map(entry).collect::<RowResult<_>>()?;
    let draft = drafts::read(&rows[draft])?;
    tail.extend(&rows[page])?;
    while !tail.is_complete {
        let mut batch = Batch::default();
        let page = tail.add(&mut batch, session_key);
        let rows = batch.send(connection, Frame::Inside).await?;
        tail.extend(&rows[page])?;
    }
    tail.rows.reverse();
    Ok(Some(Snapshot { row, tail: tail.rows, truncated: tail.truncated, state, pending, draft }))
}

/// The rows of a page. Rows beyond its size are not sent: the last columns of the inner statement are their sizes.
macro_rules! page {
    ($condition:literal) => {
        concat!(
            "SELECT ",
            columns!(),
            " FROM (SELECT *, SUM(size) OVER (ORDER BY seq) - size AS before FROM (
                 SELECT *, octet_length(message_id) + octet_length(role) + octet_length(author) + octet_length(content)
                     + COALESCE(octet_length(meta), 0) AS size
                 FROM messages WHERE session_key = $1 AND seq > $2 AND ",
            $condition,
            " ORDER BY seq LIMIT $3) AS page) AS sized WHERE before < $4 OR before = 0 ORDER BY seq"
        )
    };
}
const READ: &str = page!("TRUE");
const READ_RUN: &str = page!("seq <= $5 AND run = $6");

/// Ends a page like the other backends, whose rows include the size of their tool calls.
fn page_rows(rows: &[Row], max_bytes: usize) -> JobResult<Vec<StoredMessage>> {
    let (mut page, mut bytes) = (Vec::new(), 0_usize);
    for row in rows {
        if bytes >= max_bytes && !page.is_empty() {
            break;
        }
        let row = stored(row)?;
        bytes = bytes.saturating_add(row.message.size());
        page.push(row);
    }
    Ok(page)
}

pub(super) async fn read(
    connection: &Object,
    key: &SessionKey,
    page: PageRequest,
) -> JobResult<Vec<StoredMessage>> {
    let session_key = sessions::check_known(connection, key).await?;
    let statement = connection.prepare_cached(READ).await?;
    let (after, rows, bytes) = (integer(page.after.0), limit(page.limit), limit(page.max_bytes));
    let rows = connection.query(&statement, &[&session_key, &after, &rows, &bytes]).await?;
    page_rows(&rows, page.max_bytes)
}

pub(super) async fn read_run(
    connection: &Object,
    key: &SessionKey,
    (run, page): (u64, PageRequest),
) -> JobResult<Vec<StoredMessage>> {
    let session_key = sessions::check_known(connection, key).await?;
    let Some(found) = runs::by_number(connection, session_key, run).await? else { return Ok(Vec::new()) };
    let (first, last) = found.range();
    let statement = connection.prepare_cached(READ_RUN).await?;
    let after = integer(page.after.max(first).0);
    let (rows, bytes) = (limit(page.limit), limit(page.max_bytes));
    let (last, run) = (integer(last.0), integer(run));
    let rows = connection.query(&statement, &[&session_key, &after, &rows, &bytes, &last, &run]).await?;
    page_rows(&rows, page.max_bytes)
}

const ENTRY: &str =
    "SELECT kind, id, value, carried FROM facts WHERE session_key = $1 AND kind = $2 AND id = $3";

pub(super) async fn pending_entry(
    connection: &Object,
    key: &SessionKey,
    (kind, id): (&str, &str),
) -> JobResult<Option<PendingEntry>> {
    let statement = connection.prepare_cached(ENTRY).await?;
    let session_key = sessions::key_of(key);
    let row = connection.query_opt(&statement, &[&session_key, &Text(kind), &Text(id)]).await?;
    Ok(row.as_ref().map(entry).transpose()?)
}

fn entry(row: &Row) -> RowResult<PendingEntry> {
    Ok(PendingEntry {
        kind: text(row, 0)?,
        id: text(row, 1)?,
        value: text(row, 2)?,
        carried: row.try_get(3)?,
    })
}
