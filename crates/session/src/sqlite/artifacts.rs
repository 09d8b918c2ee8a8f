//! Artifacts: one row per version. An artifact of the user has the empty session id and the prefix `user:`.

use super::fault::JobResult;
use crate::{Artifact, ArtifactKey, NewArtifact, SessionKey, clock};
use rusqlite::{Connection, OptionalExtension, Row};

/// The key columns: app, user, session, name.
type ArtifactColumns<'a> = (&'a str, &'a str, &'a str, &'a str);

fn name(key: &ArtifactKey) -> ArtifactColumns<'_> {
    let SessionKey { app_name: app, user_id: user, session_id: session } = &key.session;
    (app, user, if key.is_shared() { "" } else { session }, &key.name)
}

pub(super) fn save(conn: &Connection, key: &ArtifactKey, new: &NewArtifact) -> JobResult<u64> {
    let (app, user, session, name) = name(key);
    Ok(conn
        .prepare_cached(
            "INSERT INTO artifacts (app_name, user_id, session_id, name, version, mime_type, created_at,
                 custom_metadata, part)
             SELECT ?1, ?2, ?3, ?4, COALESCE(MAX(version) + 1, 0), ?5, ?6, ?7, ?8 FROM artifacts
             WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND name = ?4
             RETURNING version",
        )?
        .query_row(
            (app, user, session, name, &new.mime_type, clock::now(), &new.custom_metadata, &new.part),
            |row| row.get(0),
        )?)
}

pub(super) fn artifact(
    conn: &Connection,
    key: &ArtifactKey,
    version: Option<u64>,
) -> JobResult<Option<Artifact>> {
    let (app, user, session, name) = name(key);
    Ok(conn
        .prepare_cached(
            "SELECT version, part, mime_type, custom_metadata, created_at FROM artifacts
             WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND name = ?4 AND version = COALESCE(?5, version)
             ORDER BY version DESC LIMIT 1",
        )?
        .query_row((app, user, session, name, version), artifact_row)
        .optional()?)
}

/// A version with an empty part.
pub(super) fn metadata(
    conn: &Connection,
    key: &ArtifactKey,
    version: Option<u64>,
) -> JobResult<Option<Artifact>> {
    let (app, user, session, name) = name(key);
    Ok(conn
        .prepare_cached(
            "SELECT version, '', mime_type, custom_metadata, created_at FROM artifacts
             WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND name = ?4 AND version = COALESCE(?5, version)
             ORDER BY version DESC LIMIT 1",
        )?
        .query_row((app, user, session, name, version), artifact_row)
        .optional()?)
}

fn artifact_row(row: &Row<'_>) -> rusqlite::Result<Artifact> {
    Ok(Artifact {
        version: row.get(0)?,
        part: row.get(1)?,
        mime_type: row.get(2)?,
        custom_metadata: row.get(3)?,
        created_at: row.get(4)?,
    })
}

pub(super) fn names(conn: &Connection, key: &SessionKey) -> JobResult<Vec<String>> {
    let mut statement = conn.prepare_cached(
        "SELECT DISTINCT name FROM artifacts
         WHERE app_name = ?1 AND user_id = ?2 AND session_id IN (?3, '')
             AND (session_id = ?3 OR substr(name, 1, 5) = 'user:')
         ORDER BY name",
    )?;
    let rows = statement.query_map((&key.app_name, &key.user_id, &key.session_id), |row| row.get(0))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

pub(super) fn versions(conn: &Connection, key: &ArtifactKey) -> JobResult<Vec<u64>> {
    let mut statement = conn.prepare_cached(
        "SELECT version FROM artifacts
         WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND name = ?4 ORDER BY version",
    )?;
    let rows = statement.query_map(name(key), |row| row.get(0))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

pub(super) fn remove(conn: &Connection, key: &ArtifactKey) -> JobResult<bool> {
    let removed = conn
        .prepare_cached(
            "DELETE FROM artifacts WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND name = ?4",
        )?
        .execute(name(key))?;
    Ok(removed > 0)
}

/// Deletes the artifacts of a session, but not those of the user.
pub(super) fn remove_all(conn: &Connection, key: &SessionKey) -> rusqlite::Result<()> {
    conn.prepare_cached(
        "DELETE FROM artifacts
         WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND substr(name, 1, 5) <> 'user:'",
    )?
    .execute((&key.app_name, &key.user_id, &key.session_id))
    .map(drop)
}
