//! The table `request_keys`: idempotency keys with the fingerprint and the run of their request.

use super::{
    batch::{Batch, parameters},
    fault::{JobError, JobResult},
    runs,
    text::{Text, integer, optional_text, text},
};
use crate::{IdempotencyKey, RunRecord, SessionKey, run::KnownRequest};
use deadpool_postgres::Object;
use tokio_postgres::Row;
use uuid::Uuid;

const KNOWN_REQUEST: &str = "SELECT fingerprint, app_name, sessions.user_id, session_id, run_id, status
     FROM request_keys JOIN sessions USING (session_key)
         JOIN runs ON runs.session_key = request_keys.session_key AND position = run
     WHERE request_keys.user_id = $1 AND request_keys.key = $2";
const INSERT: &str = "INSERT INTO request_keys (user_id, key, session_key, run, fingerprint)
     VALUES ($1, $2, $3, $4, $5)";

/// The rows of a known request in a batch.
pub(super) struct KnownRows(Option<usize>);

impl KnownRows {
    pub(super) fn add<'a>(
        batch: &mut Batch<'a>,
        key: &'a SessionKey,
        request: Option<&'a IdempotencyKey>,
    ) -> Self {
        Self(
            request
                .map(|request| batch.add(KNOWN_REQUEST, parameters![Text(&key.user_id), Text(&request.key)])),
        )
    }

    pub(super) fn read(&self, rows: &[Vec<Row>]) -> JobResult<Option<KnownRequest>> {
        self.0.and_then(|at| rows[at].first()).map(known_request).transpose()
    }
}

fn known_request(row: &Row) -> JobResult<KnownRequest> {
    Ok(KnownRequest {
        fingerprint: optional_text(row, 0)?,
        key: SessionKey { app_name: text(row, 1)?, user_id: text(row, 2)?, session_id: text(row, 3)? },
        id: text(row, 4)?,
        status: runs::status(&text(row, 5)?)?,
    })
}

/// The run of a request.
pub(super) async fn run_of_request(
    connection: &Object,
    key: &SessionKey,
    request: &IdempotencyKey,
) -> JobResult<Option<RunRecord>> {
    let statement = connection.prepare_cached(KNOWN_REQUEST).await?;
    let row = connection.query_opt(&statement, &[&Text(&key.user_id), &Text(&request.key)]).await?;
    let Some(row) = row else { return Ok(None) };
    let known = known_request(&row)?;
    known.check(key, request)?;
    runs::run(connection, key, &known.id).await
}

pub(super) fn add_insert<'a>(
    batch: &mut Batch<'a>,
    key: &'a SessionKey,
    (session_key, number): (Uuid, u64),
    request: &'a IdempotencyKey,
) {
    let fingerprint = Text(&request.fingerprint);
    let values =
        parameters![Text(&key.user_id), Text(&request.key), session_key, integer(number), fingerprint];
    batch.add(INSERT, values);
}

/// Another session stored the same key since it was looked up: the next attempt finds it.
pub(super) fn contended(error: JobError) -> JobError {
    if error.violates("request_keys_pkey") { JobError::Contended } else { error }
}
