//! Artifacts: one row per version. An artifact of the user has the empty session id and the prefix `user:`.

use super::{
    batch::{Batch, parameters},
    fault::{JobError, JobResult},
    sessions::now,
    text::{RowResult, Text, integer, number, optional_text, text},
    write::{Transaction, WriteJob},
};
use crate::{Artifact, ArtifactKey, NewArtifact, SessionKey};
use deadpool_postgres::Object;
use tokio_postgres::Row;

/// The key columns: app, user, session, name.
fn name(key: &ArtifactKey) -> [Text<'_>; 4] {
    let SessionKey { app_name: app, user_id: user, session_id: session } = &key.session;
    [Text(app), Text(user), Text(if key.is_shared() { "" } else { session }), Text(&key.name)]
}

const SAVED: &str = "SELECT version FROM artifacts
     WHERE app_name = $1 AND user_id = $2 AND session_id = $3 AND name = $4 AND write_id = $5";
const INSERT: &str = concat!(
    "INSERT INTO artifacts (app_name, user_id, session_id, name, version, write_id, mime_type, created_at,
         custom_metadata, part)
     SELECT $1, $2, $3, $4, COALESCE(MAX(version) + 1, 0), $5, $6, ",
    now!(),
    ", $7, $8 FROM artifacts
     WHERE app_name = $1 AND user_id = $2 AND session_id = $3 AND name = $4
     RETURNING version"
);

/// Saves a new version.
pub(super) struct Save {
    pub(super) key: ArtifactKey,
    pub(super) new: NewArtifact,
}

impl WriteJob for Save {
    type Output = u64;

    async fn run(&self, transaction: &Transaction) -> JobResult<u64> {
        let [app, user, session, name] = name(&self.key);
        let id = transaction.write_id;
        if transaction.is_uncertain {
            let mut batch = Batch::default();
            batch.add(SAVED, parameters![app, user, session, name, id]);
            if let Some(row) = transaction.statement(batch).await?.first() {
                return Ok(number(row, 0)?);
            }
        }
        let NewArtifact { part, mime_type, custom_metadata } = &self.new;
        let (mime_type, metadata, part) = (mime_type.as_deref().map(Text), Text(custom_metadata), Text(part));
        let mut batch = Batch::default();
        batch.add(INSERT, parameters![app, user, session, name, id, mime_type, metadata, part]);
        let rows = transaction.statement(batch).await.map_err(|error| {
            // Another version was saved at the same time, or the lost attempt is being committed.
            if error.violates("artifacts_pkey") { JobError::Contended } else { error }
        })?;
        Ok(rows.first().map_or(Ok(0), |row| number(row, 0))?)
    }
}

macro_rules! select {
    ($part:literal) => {
        concat!(
            "SELECT version, ",
            $part,
            ", mime_type, custom_metadata, created_at FROM artifacts
             WHERE app_name = $1 AND user_id = $2 AND session_id = $3 AND name = $4
                 AND ($5::bigint IS NULL OR version = $5) ORDER BY version DESC LIMIT 1"
        )
    };
}
/// Whole rows, and rows with an empty part.
pub(super) const WHOLE: &str = select!("part");
pub(super) const METADATA: &str = select!("''");

pub(super) async fn artifact(
    connection: &Object,
    select: &str,
    (key, version): (&ArtifactKey, Option<u64>),
) -> JobResult<Option<Artifact>> {
    let [app, user, session, name] = name(key);
    let statement = connection.prepare_cached(select).await?;
    let version = version.map(integer);
    let row = connection.query_opt(&statement, &[&app, &user, &session, &name, &version]).await?;
    let artifact = |row: &Row| -> RowResult<Artifact> {
        Ok(Artifact {
            version: number(row, 0)?,
            part: text(row, 1)?,
            mime_type: optional_text(row, 2)?,
            custom_metadata: text(row, 3)?,
            created_at: row.try_get(4)?,
        })
    };
    Ok(row.as_ref().map(artifact).transpose()?)
}

const NAMES: &str = "SELECT DISTINCT name FROM artifacts
     WHERE app_name = $1 AND user_id = $2 AND session_id IN ($3, '')
         AND (session_id = $3 OR starts_with(name, 'user:'))
     ORDER BY name";
const VERSIONS: &str = "SELECT version FROM artifacts
     WHERE app_name = $1 AND user_id = $2 AND session_id = $3 AND name = $4 ORDER BY version";
const REMOVE: &str = "DELETE FROM artifacts
     WHERE app_name = $1 AND user_id = $2 AND session_id = $3 AND name = $4 RETURNING 1";

pub(super) async fn names(connection: &Object, key: &SessionKey) -> JobResult<Vec<String>> {
    let statement = connection.prepare_cached(NAMES).await?;
    let names = [Text(&key.app_name), Text(&key.user_id), Text(&key.session_id)];
    let rows = connection.query(&statement, &[&names[0], &names[1], &names[2]]).await?;
    Ok(rows.iter().map(|row| text(row, 0)).collect::<RowResult<_>>()?)
}

pub(super) async fn versions(connection: &Object, key: &ArtifactKey) -> JobResult<Vec<u64>> {
    let [app, user, session, name] = name(key);
    let statement = connection.prepare_cached(VERSIONS).await?;
    let rows = connection.query(&statement, &[&app, &user, &session, &name]).await?;
    Ok(rows.iter().map(|row| number(row, 0)).collect::<RowResult<_>>()?)
}

/// Removes all versions.
pub(super) struct Remove(pub(super) ArtifactKey);

impl WriteJob for Remove {
    type Output = bool;

    async fn run(&self, transaction: &Transaction) -> JobResult<bool> {
        let [app, user, session, name] = name(&self.0);
        let mut batch = Batch::default();
        batch.add(REMOVE, parameters![app, user, session, name]);
        let rows = transaction.statement(batch).await?;
        Ok(!rows.is_empty() || transaction.is_uncertain)
    }
}
