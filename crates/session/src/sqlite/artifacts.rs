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

/// Excludes the artifacts of a deleted session that are not deleted yet. Its name may be that of a new session.
const EXISTS: &str = "(substr(name, 1, 5) = 'user:' OR NOT EXISTS (
     SELECT 1 FROM deleted_sessions AS gone
     WHERE gone.app_name = ?1 AND gone.user_id = ?2 AND gone.session_id = ?3 AND gone.has_artifacts = 1))";

pub(super) fn save(conn: &Connection, key: &ArtifactKey, new: &NewArtifact) -> JobResult<u64> {
    if !key.is_shared() && has_deleted(conn, &key.session)? {
        remove_all(conn, &key.session)?;
        forget_deleted(conn, &key.session)?;
    }
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
        .prepare_cached(&format!(
            "SELECT version, part, mime_type, custom_metadata, created_at FROM artifacts
             WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND name = ?4
                 AND version = COALESCE(?5, version) AND {EXISTS}
             ORDER BY version DESC LIMIT 1"
        ))?
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
        .prepare_cached(&format!(
            "SELECT version, '', mime_type, custom_metadata, created_at FROM artifacts
             WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND name = ?4
                 AND version = COALESCE(?5, version) AND {EXISTS}
             ORDER BY version DESC LIMIT 1"
        ))?
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
    let mut statement = conn.prepare_cached(&format!(
        "SELECT DISTINCT name FROM artifacts
         WHERE app_name = ?1 AND user_id = ?2 AND session_id IN (?3, '')
             AND (session_id = ?3 OR substr(name, 1, 5) = 'user:') AND {EXISTS}
         ORDER BY name"
    ))?;
    let rows = statement.query_map((&key.app_name, &key.user_id, &key.session_id), |row| row.get(0))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

pub(super) fn versions(conn: &Connection, key: &ArtifactKey) -> JobResult<Vec<u64>> {
    let mut statement = conn.prepare_cached(&format!(
        "SELECT version FROM artifacts
         WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND name = ?4 AND {EXISTS} ORDER BY version"
    ))?;
    let rows = statement.query_map(name(key), |row| row.get(0))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

pub(super) fn remove(conn: &Connection, key: &ArtifactKey) -> JobResult<bool> {
    let removed = conn
        .prepare_cached(&format!(
            "DELETE FROM artifacts
             WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND name = ?4 AND {EXISTS}"
        ))?
        .execute(name(key))?;
    Ok(removed > 0)
}

/// Whether the session has artifacts, besides those of the user.
pub(super) fn has_own(conn: &Connection, key: &SessionKey) -> rusqlite::Result<bool> {
    conn.prepare_cached(
        "SELECT 1 FROM artifacts
         WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND substr(name, 1, 5) <> 'user:'",
    )?
    .exists((&key.app_name, &key.user_id, &key.session_id))
}

/// Whether a deleted session of this name has artifacts.
fn has_deleted(conn: &Connection, key: &SessionKey) -> rusqlite::Result<bool> {
    conn.prepare_cached(
        "SELECT 1 FROM deleted_sessions
         WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND has_artifacts = 1",
    )?
    .exists((&key.app_name, &key.user_id, &key.session_id))
}

/// Records that the artifacts of deleted sessions of this name are deleted.
pub(super) fn forget_deleted(conn: &Connection, key: &SessionKey) -> rusqlite::Result<()> {
    conn.prepare_cached(
        "UPDATE deleted_sessions SET has_artifacts = 0
         WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND has_artifacts = 1",
    )?
    .execute((&key.app_name, &key.user_id, &key.session_id))
    .map(drop)
}

/// Deletes one version of an artifact of a session. Returns `false` if there is none.
pub(super) fn remove_one(conn: &Connection, key: &SessionKey) -> rusqlite::Result<bool> {
    let removed = conn
        .prepare_cached(
            "DELETE FROM artifacts WHERE rowid = (SELECT rowid FROM artifacts
                 WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND substr(name, 1, 5) <> 'user:' LIMIT 1)",
        )?
        .execute((&key.app_name, &key.user_id, &key.session_id))?;
    Ok(removed > 0)
}

/// Deletes the artifacts of a session, but not those of the user.
fn remove_all(conn: &Connection, key: &SessionKey) -> rusqlite::Result<()> {
    conn.prepare_cached(
        "DELETE FROM artifacts
         WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND substr(name, 1, 5) <> 'user:'",
    )?
    .execute((&key.app_name, &key.user_id, &key.session_id))
    .map(drop)
}
