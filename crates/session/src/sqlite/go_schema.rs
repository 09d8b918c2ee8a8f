//! Recognises a database of Lango in Go by its tables. Both programs use the same default path.

use rusqlite::Connection;
use std::collections::HashSet;

/// Columns that every version of Lango in Go has.
const NEEDED: [&str; 7] = [
    "sessions.id",
    "sessions.key",
    "messages.id",
    "messages.role",
    "messages.content",
    "messages.timestamp",
    "messages.session_messages",
];

/// Whether the tables are those of Lango in Go.
pub(super) fn is_lango(conn: &Connection) -> rusqlite::Result<bool> {
    Ok(missing(&columns(conn)?).is_none())
}

/// The first table or column that the database lacks to be one of Lango in Go.
pub(crate) fn missing(columns: &HashSet<String>) -> Option<String> {
    let missing = NEEDED.into_iter().find(|column| !columns.contains(*column))?;
    let (table, column) = missing.split_once('.')?;
    let has_table =
        columns.iter().any(|column| column.split_once('.').is_some_and(|(name, _)| name == table));
    Some(if has_table { format!("column {column} in its table {table}") } else { format!("table {table}") })
}

/// The names `table.column` of the tables that decide.
pub(crate) fn columns(conn: &Connection) -> rusqlite::Result<HashSet<String>> {
    let mut statement = conn.prepare(
        "SELECT tables.name || '.' || columns.name
         FROM sqlite_schema AS tables, pragma_table_info(tables.name) AS columns
         WHERE tables.type = 'table' AND tables.name IN ('sessions', 'messages', 'schema_version')",
    )?;
    let names = statement.query_map([], |row| row.get(0))?;
    names.collect()
}
