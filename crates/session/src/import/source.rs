//! The database of Lango in Go, opened read-only.
//!
//! The database has no index from a session to its messages, and its times do not sort as text. So the numbers and times of all
//! messages are read once and sorted in memory, and the messages are then fetched by number in batches. No read transaction
//! outlives its call, so a running Lango is not blocked.

use super::{
    error::ImportSourceError,
    report::{Anomaly, ImportReport},
    row::{self, OldRow},
    time::{self, Nanos},
};
use crate::{
    Scope, StateChange,
    sqlite::go_schema::{columns, missing},
};
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, types::ValueRef};
use serde_json::{Map, Value, json};
use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    time::Duration,
};

/// Limits of a batch, which is written as one or two transactions.
const BATCH_ROWS: usize = 500;
const BATCH_BYTES: u64 = 8 * 1024 * 1024;

/// A running Lango holds its write lock for milliseconds.
const BUSY_TIMEOUT: Duration = Duration::from_secs(1);

type SourceResult<T> = Result<T, ImportSourceError>;

/// The source database.
#[derive(Debug)]
pub struct LangoDatabase {
    conn: Connection,
    path: PathBuf,
    /// The SELECT that reads a message by its number.
    select: String,
    columns: HashSet<String>,
}

/// A session of the source with references to its messages.
#[derive(Clone, Debug)]
pub struct OldSession {
    /// The session key in the source.
    pub key: String,
    /// Its metadata, and under the key `imported` the other columns of the session.
    pub state: Vec<StateChange>,
    pub(super) anomalies: Vec<Anomaly>,
    used: Nanos,
    /// In the order of the conversation.
    messages: Vec<OldMessageRef>,
}

/// A reference to a message of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldMessageRef {
    pub(super) number: i64,
    /// The time of the previous message if the message has no readable time.
    pub(super) time: Nanos,
    pub(super) has_time: bool,
    bytes: u64,
}

impl OldMessageRef {
    /// A stable id: the same for every import of this row, but different for the same number in another file.
    pub(super) fn message_id(&self) -> String {
        let time = if self.has_time { self.time } else { 0 };
        format!("lango:{}:{time}", self.number)
    }
}

impl OldSession {
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// The messages in batches.
    pub fn batches(&self) -> impl Iterator<Item = &[OldMessageRef]> {
        let mut rest = self.messages.as_slice();
        std::iter::from_fn(move || {
            let mut bytes = 0;
            let fits = |message: &&OldMessageRef| {
                bytes += message.bytes;
                bytes <= BATCH_BYTES
            };
            let fitting = rest.iter().take(BATCH_ROWS).take_while(fits).count();
            let (batch, after) = rest.split_at_checked(fitting.max(1))?;
            rest = after;
            Some(batch)
        })
    }
}

impl LangoDatabase {
    pub fn open(path: impl AsRef<Path>) -> SourceResult<Self> {
        let path = path.as_ref().to_path_buf();
        let meta = match std::fs::metadata(&path) {
            Ok(meta) => meta,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(ImportSourceError::Missing { path });
            }
            Err(source) => return Err(ImportSourceError::Unreadable { path, source }),
        };
        if !meta.is_file() {
            return Err(ImportSourceError::NotAFile { path });
        }
        if let Err(source) = std::fs::File::open(&path) {
            return Err(ImportSourceError::Unreadable { path, source });
        }
        let conn = connect(&path).map_err(|error| ImportSourceError::sql(path.clone(), error))?;
        let (select, columns) = recognise(&conn, &path)?;
        Ok(Self { conn, path, select, columns })
    }

    /// All sessions, the most recently used last. Messages without a session are counted as anomalies.
    pub fn sessions(&self, report: &mut ImportReport) -> SourceResult<Vec<OldSession>> {
        let mut sessions = self.source_result(self.session_rows())?;
        self.source_result(self.find_messages(&mut sessions, report))?;
        let mut sessions: Vec<OldSession> = sessions.into_iter().map(|(_, session)| session).collect();
        for session in &mut sessions {
            session.messages.sort_by_key(|message| (message.time, message.number));
        }
        sessions.sort_by_key(|session| session.used);
        Ok(sessions)
    }

    /// Reads messages in the given order.
    pub fn read(&self, messages: &[OldMessageRef], report: &mut ImportReport) -> SourceResult<Vec<OldRow>> {
        let mut statement = self.source_result(self.conn.prepare_cached(&self.select))?;
        let mut rows = Vec::with_capacity(messages.len());
        for message in messages {
            let found = statement.query_row((message.number,), |row| row::read(row, message)).optional();
            match self.source_result(found)? {
                Some(row) => rows.push(row),
                None => report.note(Anomaly::Deleted, || format!("#{}", message.number)),
            }
        }
        Ok(rows)
    }

    fn source_result<T>(&self, read: rusqlite::Result<T>) -> SourceResult<T> {
        read.map_err(|error| ImportSourceError::sql(self.path.clone(), error))
    }

    fn session_rows(&self) -> rusqlite::Result<Vec<(i64, OldSession)>> {
        let sql = select("sessions", &SESSION_COLUMNS, &self.columns);
        let mut statement = self.conn.prepare(&format!("{sql} ORDER BY id"))?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, session(row)?)))?;
        rows.collect()
    }

    /// Reads the references of all messages in one pass, in the order of their numbers.
    fn find_messages(
        &self,
        sessions: &mut [(i64, OldSession)],
        report: &mut ImportReport,
    ) -> rusqlite::Result<()> {
        let index: HashMap<i64, usize> =
            sessions.iter().enumerate().map(|(at, (number, _))| (*number, at)).collect();
        let mut statement = self.conn.prepare(&find(&self.columns))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let number: i64 = row.get(0)?;
            let owner = row.get_ref(1)?.as_i64().ok().and_then(|owner| index.get(&owner));
            let Some(at) = owner else {
                report.note(Anomaly::NoSession, || format!("#{number}"));
                continue;
            };
            let (_, session) = &mut sessions[*at];
            let time = time::read(row.get_ref(2)?);
            let before = session.messages.last().map_or(0, |message| message.time);
            let bytes = row.get::<_, Option<u64>>(3)?.unwrap_or_default();
            let time_or_before = time.unwrap_or(before);
            session.messages.push(OldMessageRef {
                number,
                time: time_or_before,
                has_time: time.is_some(),
                bytes,
            });
        }
        Ok(())
    }
}

/// Not `immutable`: that mode ignores a write-ahead log beside the file.
fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags)?;
    conn.busy_timeout(BUSY_TIMEOUT)?;
    conn.pragma_update(None, "query_only", true)?;
    conn.pragma_update(None, "mmap_size", 0)?;
    // The file is untrusted.
    conn.pragma_update(None, "trusted_schema", false)?;
    conn.pragma_update(None, "cell_size_check", true)?;
    Ok(conn)
}

fn recognise(conn: &Connection, path: &Path) -> SourceResult<(String, HashSet<String>)> {
    let columns = columns(conn).map_err(|error| ImportSourceError::sql(path.into(), error))?;
    if columns.contains("schema_version.version") && columns.contains("messages.counted_by") {
        return Err(ImportSourceError::Ours { path: path.into() });
    }
    if let Some(missing) = missing(&columns) {
        return Err(ImportSourceError::NotLango { path: path.into(), missing });
    }
    let select = select("messages", &row::COLUMNS, &columns);
    Ok((format!("{select} WHERE id = ?1"), columns))
}

/// Columns that early versions lack are selected as NULL.
fn select(table: &str, wanted: &[&str], columns: &HashSet<String>) -> String {
    let has = |column: &str| columns.contains(&format!("{table}.{column}"));
    let named: Vec<&str> = wanted.iter().map(|column| if has(column) { column } else { "NULL" }).collect();
    format!("SELECT {} FROM {table}", named.join(", "))
}

fn find(columns: &HashSet<String>) -> String {
    let has_calls = columns.contains("messages.tool_calls");
    let calls = if has_calls { "COALESCE(octet_length(tool_calls), 0)" } else { "0" };
    format!(
        "SELECT id, session_messages, timestamp, COALESCE(octet_length(content), 0) + {calls}
         FROM messages ORDER BY id"
    )
}

const SESSION_COLUMNS: [&str; 9] =
    ["id", "key", "metadata", "created_at", "updated_at", "agent_id", "channel_type", "channel_id", "model"];

fn session(row: &Row<'_>) -> rusqlite::Result<OldSession> {
    let mut anomalies = Vec::new();
    let mut key = row::text(row.get_ref(1)?, &mut anomalies);
    if key.is_empty() {
        anomalies.push(Anomaly::NoKey);
        key = format!("lango-session-{}", row.get::<_, i64>(0)?);
    }
    let mut state = metadata(row.get_ref(2)?, &mut anomalies);
    let value = json!(other_columns(row, &mut anomalies)?);
    state.push(StateChange { scope: Scope::Session, key: "imported".to_owned(), value });
    let used = time::read(row.get_ref(4)?).or(time::read(row.get_ref(3)?)).unwrap_or_default();
    Ok(OldSession { key, state, anomalies, used, messages: Vec::new() })
}

/// The columns that the store has no column for.
fn other_columns(row: &Row<'_>, anomalies: &mut Vec<Anomaly>) -> rusqlite::Result<Map<String, Value>> {
    let mut columns = Map::from_iter([("from".to_owned(), json!("lango"))]);
    for (column, name) in SESSION_COLUMNS.iter().enumerate().skip(3) {
        let text = row::text(row.get_ref(column)?, anomalies);
        if !text.is_empty() {
            columns.insert((*name).to_owned(), json!(text));
        }
    }
    Ok(columns)
}

/// The metadata as state changes. Lango in Go parses each string as JSON if possible, and gives prefixes no meaning.
fn metadata(value: ValueRef<'_>, anomalies: &mut Vec<Anomaly>) -> Vec<StateChange> {
    let text = row::text(value, anomalies);
    let map = match serde_json::from_str(&text) {
        Ok(Value::Object(map)) => map,
        Ok(Value::Null) => return Vec::new(),
        Err(_) if text.is_empty() => return Vec::new(),
        Ok(_) | Err(_) => {
            anomalies.push(Anomaly::UnreadableState);
            return Vec::new();
        }
    };
    let is_shared = |key: &str| ["app:", "user:", "temp:"].iter().any(|prefix| key.starts_with(prefix));
    let (shared, own): (Vec<_>, Vec<_>) = map.into_iter().partition(|(key, _)| is_shared(key));
    anomalies.extend(shared.iter().map(|_| Anomaly::SharedState));
    let change = |(key, value)| StateChange { scope: Scope::Session, key, value: parse_value(value) };
    own.into_iter().map(change).collect()
}

fn parse_value(value: Value) -> Value {
    match value {
        Value::String(text) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sized(sizes: &[u64]) -> OldSession {
        let message =
            |(number, bytes): (i64, &u64)| OldMessageRef { number, time: 0, has_time: true, bytes: *bytes };
        let messages = (1..).zip(sizes).map(message).collect();
        OldSession { key: "s".to_owned(), state: Vec::new(), anomalies: Vec::new(), used: 0, messages }
    }

    #[test]
    fn batches_are_bounded_in_rows_and_bytes_and_a_larger_row_is_a_batch_of_its_own() {
        let huge = BATCH_BYTES * 3;
        let lengths = |sizes: &[u64]| sized(sizes).batches().map(<[OldMessageRef]>::len).collect::<Vec<_>>();
        assert_eq!(lengths(&[]), [0; 0]);
        assert_eq!(lengths(&[1; 1001]), [500, 500, 1]);
        assert_eq!(lengths(&[1, huge, 1, 1]), [1, 1, 2]);
        assert_eq!(lengths(&[BATCH_BYTES / 2; 5]), [2, 2, 1]);
    }
}
