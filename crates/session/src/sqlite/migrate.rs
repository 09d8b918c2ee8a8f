//! The schema grows by numbered steps, forward only, in place. A step that was released is never edited.

use super::fault::Outcome;
use crate::{Error, Result, clock, import};
use rusqlite::{Connection, OptionalExtension};
use std::path::Path;

const STEPS: [&str; 5] = [
    include_str!("migrations/0001_sessions.sql"),
    include_str!("migrations/0002_turns.sql"),
    include_str!("migrations/0003_runs.sql"),
    include_str!("migrations/0004_pages.sql"),
    include_str!("migrations/0005_lifecycle.sql"),
];

/// Brings the file to the newest schema. Of two processes that open it at once, one does the work.
pub(super) fn migrate(conn: &Connection, path: &Path) -> Result<()> {
    let apply = || -> Outcome<()> {
        if missing(conn, path)?.is_empty() {
            return Ok(());
        }
        // Both have tables of the same names, and the same place by default.
        if import::is_lango(conn)? {
            return Err(Error::LangoInGo { path: path.into() }.into());
        }
        conn.execute_batch("BEGIN IMMEDIATE")?;
        let done =
            missing(conn, path).and_then(|steps| steps.iter().try_for_each(|step| advance(conn, *step)));
        conn.execute_batch(if done.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
        done
    };
    apply().map_err(|failure| failure.at(path))
}

/// Whether the file has the newest schema, for who cannot bring it there.
pub(super) fn check(conn: &Connection, path: &Path) -> Result<()> {
    let check = || -> Outcome<()> {
        let steps = missing(conn, path)?;
        let Some((first, _)) = steps.first() else { return Ok(()) };
        if import::is_lango(conn)? {
            return Err(Error::LangoInGo { path: path.into() }.into());
        }
        let known = steps.last().map_or(*first, |(version, _)| *version);
        Err(Error::OlderSchema { path: path.into(), found: first - 1, known }.into())
    };
    check().map_err(|failure| failure.at(path))
}

type Step = (i64, &'static str);

fn missing(conn: &Connection, path: &Path) -> Outcome<Vec<Step>> {
    let found = version(conn)?;
    let steps: Vec<Step> = (1..).zip(STEPS).collect();
    let known = steps.last().map_or(0, |(version, _)| *version);
    if found > known {
        return Err(Error::NewerSchema { path: path.into(), found, known }.into());
    }
    Ok(steps.into_iter().filter(|(version, _)| *version > found).collect())
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

fn advance(conn: &Connection, (version, sql): Step) -> Outcome<()> {
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
