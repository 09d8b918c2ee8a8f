//! The database of Lango in Go, opened for reading only.
//!
//! It has no index from a session to its messages, and the text of a time does not sort: the numbers and times of all messages are
//! read once, sorted here, and the messages fetched by number, some at a time. No read outlives its call, so a Lango that is
//! running is not held up.

use super::{
    error::SourceError,
    report::{Oddity, Report},
    row::{self, OldRow},
    time::{self, Nanos},
};
use crate::{Scope, StateChange};
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, types::ValueRef};
use serde_json::{Map, Value, json};
use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    time::Duration,
};

/// How much is taken at a time: a batch is written as one or two transactions.
const BATCH_ROWS: usize = 500;
const BATCH_BYTES: u64 = 8 * 1024 * 1024;

/// How long another program is waited for: a Lango that runs writes for milliseconds.
const PATIENCE: Duration = Duration::from_secs(1);

type Outcome<T> = Result<T, SourceError>;

#[derive(Debug)]
pub struct Source {
    conn: Connection,
    path: PathBuf,
    /// The SELECT that reads a message by its number.
    select: String,
    columns: HashSet<String>,
}

/// A session of the file, and where its messages are.
#[derive(Clone, Debug)]
pub struct OldSession {
    /// Lango's session key.
    pub key: String,
    /// Its metadata, and under `imported` what the session's row says beside them.
    pub state: Vec<StateChange>,
    pub(super) odd: Vec<Oddity>,
    used: Nanos,
    /// In the order of the conversation.
    places: Vec<Place>,
}

/// Where a message is, and when it was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub(super) number: i64,
    /// For a message without a readable one, the time of the message before it.
    pub(super) time: Nanos,
    pub(super) has_time: bool,
    bytes: u64,
}

impl Place {
    /// The same in every import of this row, and another one for the same number in another file.
    pub(super) fn message_id(&self) -> String {
        let time = if self.has_time { self.time } else { 0 };
        format!("lango:{}:{time}", self.number)
    }
}

impl OldSession {
    pub fn len(&self) -> usize {
        self.places.len()
    }

    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The messages in portions that fit into memory and into one transaction.
    pub fn batches(&self) -> impl Iterator<Item = &[Place]> {
        let mut rest = self.places.as_slice();
        std::iter::from_fn(move || {
            let mut bytes = 0;
            let fits = |place: &&Place| {
                bytes += place.bytes;
                bytes <= BATCH_BYTES
            };
            let fitting = rest.iter().take(BATCH_ROWS).take_while(fits).count();
            let (batch, behind) = rest.split_at_checked(fitting.max(1))?;
            rest = behind;
            Some(batch)
        })
    }
}

impl Source {
    pub fn open(path: impl AsRef<Path>) -> Outcome<Self> {
        let path = path.as_ref().to_path_buf();
        let meta = match std::fs::metadata(&path) {
            Ok(meta) => meta,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(SourceError::Missing { path });
            }
            Err(source) => return Err(SourceError::Unreadable { path, source }),
        };
        if !meta.is_file() {
            return Err(SourceError::NotAFile { path });
        }
        if let Err(source) = std::fs::File::open(&path) {
            return Err(SourceError::Unreadable { path, source });
        }
        let conn = connect(&path).map_err(|error| SourceError::sql(path.clone(), error))?;
        let (select, columns) = recognise(&conn, &path)?;
        Ok(Self { conn, path, select, columns })
    }

    /// All sessions, the last used last. Messages of none are noted and stay behind.
    pub fn sessions(&self, report: &mut Report) -> Outcome<Vec<OldSession>> {
        let mut sessions = self.told(self.session_rows())?;
        self.told(self.find_messages(&mut sessions, report))?;
        let mut sessions: Vec<OldSession> = sessions.into_iter().map(|(_, session)| session).collect();
        for session in &mut sessions {
            session.places.sort_by_key(|place| (place.time, place.number));
        }
        sessions.sort_by_key(|session| session.used);
        Ok(sessions)
    }

    /// The messages at these places, in their order.
    pub fn read(&self, places: &[Place], report: &mut Report) -> Outcome<Vec<OldRow>> {
        let mut statement = self.told(self.conn.prepare_cached(&self.select))?;
        let mut rows = Vec::with_capacity(places.len());
        for place in places {
            let found = statement.query_row((place.number,), |row| row::read(row, place)).optional();
            match self.told(found)? {
                Some(row) => rows.push(row),
                None => report.note(Oddity::Gone, || format!("#{}", place.number)),
            }
        }
        Ok(rows)
    }

    fn told<T>(&self, read: rusqlite::Result<T>) -> Outcome<T> {
        read.map_err(|error| SourceError::sql(self.path.clone(), error))
    }

    fn session_rows(&self) -> rusqlite::Result<Vec<(i64, OldSession)>> {
        let sql = select("sessions", &SESSION_COLUMNS, &self.columns);
        let mut statement = self.conn.prepare(&format!("{sql} ORDER BY id"))?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, session(row)?)))?;
        rows.collect()
    }

    /// One pass over all messages, in the order of their numbers.
    fn find_messages(&self, sessions: &mut [(i64, OldSession)], report: &mut Report) -> rusqlite::Result<()> {
        let index: HashMap<i64, usize> =
            sessions.iter().enumerate().map(|(at, (number, _))| (*number, at)).collect();
        let mut statement = self.conn.prepare(&find(&self.columns))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let number: i64 = row.get(0)?;
            let owner = row.get_ref(1)?.as_i64().ok().and_then(|owner| index.get(&owner));
            let Some(at) = owner else {
                report.note(Oddity::NoSession, || format!("#{number}"));
                continue;
            };
            let (_, session) = &mut sessions[*at];
            let time = time::read(row.get_ref(2)?);
            let before = session.places.last().map_or(0, |place| place.time);
            let bytes = row.get::<_, Option<u64>>(3)?.unwrap_or_default();
            let time_or_before = time.unwrap_or(before);
            session.places.push(Place { number, time: time_or_before, has_time: time.is_some(), bytes });
        }
        Ok(())
    }
}

/// Never `immutable`: that would pass over a write-ahead log beside the file.
fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags)?;
    conn.busy_timeout(PATIENCE)?;
    conn.pragma_update(None, "query_only", true)?;
    conn.pragma_update(None, "mmap_size", 0)?;
    // The file may come from anywhere.
    conn.pragma_update(None, "trusted_schema", false)?;
    conn.pragma_update(None, "cell_size_check", true)?;
    Ok(conn)
}

/// The columns that a database of Lango has had since its first version.
const NEEDED: [&str; 7] = [
    "sessions.id",
    "sessions.key",
    "messages.id",
    "messages.role",
    "messages.content",
    "messages.timestamp",
    "messages.session_messages",
];

fn recognise(conn: &Connection, path: &Path) -> Outcome<(String, HashSet<String>)> {
    let columns = columns(conn).map_err(|error| SourceError::sql(path.into(), error))?;
    if columns.contains("schema_version.version") && columns.contains("messages.counted_by") {
        return Err(SourceError::Ours { path: path.into() });
    }
    if let Some(missing) = missing(&columns) {
        return Err(SourceError::NotLango { path: path.into(), missing });
    }
    let select = select("messages", &row::COLUMNS, &columns);
    Ok((format!("{select} WHERE id = ?1"), columns))
}

/// Whether the tables are those of Lango in Go.
pub(crate) fn is_lango(conn: &Connection) -> rusqlite::Result<bool> {
    Ok(missing(&columns(conn)?).is_none())
}

fn missing(columns: &HashSet<String>) -> Option<String> {
    let missing = NEEDED.into_iter().find(|column| !columns.contains(*column))?;
    let (table, column) = missing.split_once('.')?;
    let has_table =
        columns.iter().any(|column| column.split_once('.').is_some_and(|(name, _)| name == table));
    Some(if has_table { format!("column {column} in its table {table}") } else { format!("table {table}") })
}

/// `table.column` of every table.
fn columns(conn: &Connection) -> rusqlite::Result<HashSet<String>> {
    let mut statement = conn.prepare(
        "SELECT tables.name || '.' || columns.name
         FROM sqlite_schema AS tables, pragma_table_info(tables.name) AS columns
         WHERE tables.type = 'table' AND tables.name IN ('sessions', 'messages', 'schema_version')",
    )?;
    let names = statement.query_map([], |row| row.get(0))?;
    names.collect()
}

/// Early databases lack some columns; they read as NULL.
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
    let mut odd = Vec::new();
    let mut key = row::text(row.get_ref(1)?, &mut odd);
    if key.is_empty() {
        odd.push(Oddity::NoKey);
        key = format!("lango-session-{}", row.get::<_, i64>(0)?);
    }
    let mut state = metadata(row.get_ref(2)?, &mut odd);
    let value = json!(said(row, &mut odd)?);
    state.push(StateChange { scope: Scope::Session, key: "imported".to_owned(), value });
    let used = time::read(row.get_ref(4)?).or(time::read(row.get_ref(3)?)).unwrap_or_default();
    Ok(OldSession { key, state, odd, used, places: Vec::new() })
}

/// What has no column here.
fn said(row: &Row<'_>, odd: &mut Vec<Oddity>) -> rusqlite::Result<Map<String, Value>> {
    let mut said = Map::from_iter([("from".to_owned(), json!("lango"))]);
    for (column, name) in SESSION_COLUMNS.iter().enumerate().skip(3) {
        let text = row::text(row.get_ref(column)?, odd);
        if !text.is_empty() {
            said.insert((*name).to_owned(), json!(text));
        }
    }
    Ok(said)
}

/// Strings, each of which Lango reads as JSON if it can. A prefix meant nothing to it.
fn metadata(value: ValueRef<'_>, odd: &mut Vec<Oddity>) -> Vec<StateChange> {
    let text = row::text(value, odd);
    let map = match serde_json::from_str(&text) {
        Ok(Value::Object(map)) => map,
        Ok(Value::Null) => return Vec::new(),
        Err(_) if text.is_empty() => return Vec::new(),
        Ok(_) | Err(_) => {
            odd.push(Oddity::UnreadableState);
            return Vec::new();
        }
    };
    let is_shared = |key: &str| ["app:", "user:", "temp:"].iter().any(|prefix| key.starts_with(prefix));
    let (shared, own): (Vec<_>, Vec<_>) = map.into_iter().partition(|(key, _)| is_shared(key));
    odd.extend(shared.iter().map(|_| Oddity::SharedState));
    let change = |(key, value)| StateChange { scope: Scope::Session, key, value: meant(value) };
    own.into_iter().map(change).collect()
}

fn meant(value: Value) -> Value {
    match value {
        Value::String(text) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sized(sizes: &[u64]) -> OldSession {
        let place = |(number, bytes): (i64, &u64)| Place { number, time: 0, has_time: true, bytes: *bytes };
        let places = (1..).zip(sizes).map(place).collect();
        OldSession { key: "s".to_owned(), state: Vec::new(), odd: Vec::new(), used: 0, places }
    }

    #[test]
    fn a_batch_is_bounded_in_rows_and_bytes_and_a_huge_row_is_one_of_its_own() {
        let huge = BATCH_BYTES * 3;
        let lengths = |sizes: &[u64]| sized(sizes).batches().map(<[Place]>::len).collect::<Vec<_>>();
        assert_eq!(lengths(&[]), [0; 0]);
        assert_eq!(lengths(&[1; 1001]), [500, 500, 1]);
        assert_eq!(lengths(&[1, huge, 1, 1]), [1, 1, 2]);
        assert_eq!(lengths(&[BATCH_BYTES / 2; 5]), [2, 2, 1]);
    }
}
