//! Schema migrations: numbered, forward only, in place. The statements of a released migration are never edited.

use super::{fault::JobResult, go_schema};
use crate::{Error, Result, clock};
use rusqlite::{Connection, OptionalExtension};
use std::path::Path;

const MIGRATIONS: [&str; 9] = [
    include_str!("migrations/0001_sessions.sql"),
    include_str!("migrations/0002_turns.sql"),
    include_str!("migrations/0003_runs.sql"),
    include_str!("migrations/0004_pages.sql"),
    include_str!("migrations/0005_lifecycle.sql"),
    include_str!("migrations/0006_recipes.sql"),
    include_str!("migrations/0007_session_counts.sql"),
    include_str!("migrations/0008_usage_and_deletes.sql"),
    include_str!("migrations/0009_search.sql"),
];

/// Migrates the file to the newest schema. If two processes open it concurrently, one of them migrates it.
pub(super) fn migrate(conn: &Connection, path: &Path) -> Result<()> {
    let apply = || -> JobResult<()> {
        if missing(conn, path)?.is_empty() {
            return Ok(());
        }
        // Lango in Go uses tables of the same names, at the same default path.
        if go_schema::is_lango(conn)? {
            return Err(Error::LangoInGo { path: path.into() }.into());
        }
        conn.execute_batch("BEGIN IMMEDIATE")?;
        let done = missing(conn, path)
            .and_then(|missing| missing.iter().try_for_each(|migration| apply_one(conn, *migration)));
        conn.execute_batch(if done.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
        done
    };
    apply().map_err(|failure| failure.at(path))
}

/// Checks that the file has the newest schema, without migrating it.
pub(super) fn check(conn: &Connection, path: &Path) -> Result<()> {
    let check = || -> JobResult<()> {
        let missing = missing(conn, path)?;
        let Some((first, _)) = missing.first() else { return Ok(()) };
        if go_schema::is_lango(conn)? {
            return Err(Error::LangoInGo { path: path.into() }.into());
        }
        let known = missing.last().map_or(*first, |(version, _)| *version);
        Err(Error::OlderSchema { path: path.into(), found: first - 1, known }.into())
    };
    check().map_err(|failure| failure.at(path))
}

/// Version and statements.
type Migration = (i64, &'static str);

fn missing(conn: &Connection, path: &Path) -> JobResult<Vec<Migration>> {
    let found = version(conn)?;
    let all: Vec<Migration> = (1..).zip(MIGRATIONS).collect();
    let known = all.last().map_or(0, |(version, _)| *version);
    if found > known {
        return Err(Error::NewerSchema { path: path.into(), found, known }.into());
    }
    Ok(all.into_iter().filter(|(version, _)| *version > found).collect())
}

fn version(conn: &Connection) -> rusqlite::Result<i64> {
    let table = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'schema_version'";
    match conn.query_row(table, [], |_| Ok(())).optional()? {
        Some(()) => {
            conn.query_row("SELECT COALESCE(MAX(version), 0) FROM schema_version", [], |row| row.get(0))
        }
        None => Ok(0),
    }
}

fn apply_one(conn: &Connection, (version, sql): Migration) -> JobResult<()> {
    conn.execute_batch(
        "CREATE TABLE IF NOT EXISTS schema_version (version INTEGER PRIMARY KEY, applied_at REAL NOT NULL) STRICT",
    )?;
    conn.execute_batch(sql)?;
    conn.execute(
        "INSERT INTO schema_version (version, applied_at) VALUES (?1, ?2)",
        (version, clock::now()),
    )?;
    Ok(())
}
