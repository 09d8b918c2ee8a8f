//! Schema migrations: numbered, forward only, in place. The statements of a released migration are never edited.

use super::fault::{JobError, JobResult};
use crate::Error;
use deadpool_postgres::Object;
use std::path::Path;

const MIGRATIONS: [&str; 1] = [include_str!("migrations/0001_sessions.sql")];

/// Locks migrations of all servers: "lango" in ASCII.
const LOCK: &str = "SELECT pg_advisory_xact_lock(465557676911)";

/// Migrates the database to the newest schema, in one transaction. Of several servers that start together, one migrates and
/// the others wait for it.
pub(super) async fn migrate(connection: &Object, path: &Path) -> JobResult<()> {
    if missing(connection, path).await?.is_empty() {
        return Ok(());
    }
    // The locks of a migration may be waited for longer than those of a turn.
    connection.batch_execute("BEGIN; SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0").await?;
    let migrated = apply(connection, path).await;
    let end = if migrated.is_ok() { "COMMIT" } else { "ROLLBACK" };
    connection.batch_execute(end).await?;
    migrated
}

async fn apply(connection: &Object, path: &Path) -> JobResult<()> {
    connection.batch_execute(LOCK).await?;
    connection
        .batch_execute(
            "CREATE TABLE IF NOT EXISTS schema_version (
                 version    BIGINT      PRIMARY KEY,
                 applied_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp()
             )",
        )
        .await?;
    for (version, sql) in missing(connection, path).await? {
        connection.batch_execute(sql).await?;
        connection.execute("INSERT INTO schema_version (version) VALUES ($1)", &[&version]).await?;
    }
    Ok(())
}

/// Version and statements.
type Migration = (i64, &'static str);

async fn missing(connection: &Object, path: &Path) -> JobResult<Vec<Migration>> {
    let found = version(connection).await?;
    let all: Vec<Migration> = (1..).zip(MIGRATIONS).collect();
    let known = all.last().map_or(0, |(version, _)| *version);
    if found > known {
        return Err(JobError::Refused(Error::NewerSchema { path: path.into(), found, known }));
    }
    Ok(all.into_iter().filter(|(version, _)| *version > found).collect())
}

async fn version(connection: &Object) -> JobResult<i64> {
    let table = connection.query_one("SELECT to_regclass('schema_version') IS NOT NULL", &[]).await?;
    if !table.try_get::<_, bool>(0)? {
        return Ok(0);
    }
    let version = connection.query_one("SELECT COALESCE(MAX(version), 0) FROM schema_version", &[]).await?;
    Ok(version.try_get(0)?)
}
