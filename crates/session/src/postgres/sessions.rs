//! The table of sessions: create, find, list, delete.

use super::{
    batch::{Batch, parameters},
    commit,
    fault::{JobError, JobResult},
    state,
    text::{RowResult, Text, limit, number, optional_text, text},
    write::{Transaction, WriteJob},
};
use crate::{Error, ListQuery, NewSession, OnConflict, Seq, SessionKey, SessionRow, lifecycle::TurnState};
use deadpool_postgres::Object;
use ring::digest::{Context, SHA256};
use tokio_postgres::{Row, types::ToSql};
use uuid::Uuid;

/// The database's clock, in seconds since the Unix epoch.
macro_rules! now {
    () => {
        "EXTRACT(EPOCH FROM clock_timestamp())::float8"
    };
}
pub(super) use now;

/// Ids of the last writes that a session keeps.
macro_rules! recent {
    ($id:literal) => {
        concat!("recent_writes = (ARRAY[", $id, "::bigint] || recent_writes)[1:16]")
    };
}
pub(super) use recent;

/// The primary key of a session: a digest of its names, each with its length.
pub(super) fn key_of(key: &SessionKey) -> Uuid {
    let mut digest = Context::new(&SHA256);
    for name in [&key.app_name, &key.user_id, &key.session_id] {
        digest.update(&(name.len() as u64).to_be_bytes());
        digest.update(name.as_bytes());
    }
    let digest = digest.finish();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest.as_ref()[..16]);
    Uuid::from_bytes(bytes)
}

/// The columns of a session that a write depends on.
pub(super) struct SessionHead {
    pub(super) session_key: Uuid,
    pub(super) last_seq: u64,
    pub(super) lease_epoch: u64,
    /// Whether an earlier attempt of the write was committed.
    pub(super) is_written: bool,
}

impl SessionHead {
    /// The turn state for fencing. The lease and the queue are not read.
    pub(super) fn turns(&self) -> TurnState {
        TurnState { epoch: self.lease_epoch, is_leased: false, first_ticket: None }
    }

    pub(super) fn read(rows: &[Row], key: &SessionKey) -> JobResult<Self> {
        let row = rows.first().ok_or_else(|| Error::NotFound(key.clone()))?;
        Ok(Self {
            session_key: key_of(key),
            last_seq: number(row, 0)?,
            lease_epoch: number(row, 1)?,
            is_written: row.try_get(2)?,
        })
    }
}

/// Reads the head of a session and locks its row: every write to a session does this first. Statements after it see what the
/// previous holder of the lock committed.
pub(super) const LOCK_HEAD: &str = "SELECT last_seq, lease_epoch, $2 = ANY (recent_writes) FROM sessions
     WHERE session_key = $1 FOR NO KEY UPDATE";

pub(super) const ROW: &str =
    "app_name, user_id, session_id, title, last_seq, total_tokens, created_at, updated_at";
const FIND: &str =
    "SELECT app_name, user_id, session_id, title, last_seq, total_tokens, created_at, updated_at
     FROM sessions WHERE session_key = $1";

pub(super) fn session_row(row: &Row) -> RowResult<SessionRow> {
    Ok(SessionRow {
        key: SessionKey { app_name: text(row, 0)?, user_id: text(row, 1)?, session_id: text(row, 2)? },
        title: optional_text(row, 3)?,
        last_seq: Seq(number(row, 4)?),
        total_tokens: number(row, 5)?,
        created_at: row.try_get(6)?,
        updated_at: row.try_get(7)?,
        is_damaged: false,
    })
}

pub(super) fn add_find(batch: &mut Batch<'_>, key: &SessionKey) -> usize {
    batch.add(FIND, parameters![key_of(key)])
}

/// Fails if the session does not exist.
pub(super) async fn check_known(connection: &Object, key: &SessionKey) -> JobResult<Uuid> {
    let session_key = key_of(key);
    let known = connection.prepare_cached("SELECT 1 FROM sessions WHERE session_key = $1").await?;
    match connection.query_opt(&known, &[&session_key]).await? {
        Some(_) => Ok(session_key),
        None => Err(Error::NotFound(key.clone()).into()),
    }
}

/// The initial epoch is greater than every epoch of an earlier session of the same name, and smaller than those of a later one.
const INSERT: &str = concat!(
    "INSERT INTO sessions (session_key, app_name, user_id, session_id, last_seq, lease_epoch, recent_writes,
         created_at, updated_at, updated_minute)
     SELECT $1, $2, $3, $4, $5::bigint, nextval('numbers') << 32, ARRAY[$6::bigint], now, now, floor(now / 60)::bigint
     FROM (SELECT ",
    now!(),
    " AS now) AS clock
     ON CONFLICT (session_key) DO NOTHING RETURNING 1"
);
const COUNT: &str = "INSERT INTO session_counts (user_id, sessions) VALUES ($1, 1)
     ON CONFLICT (user_id) DO UPDATE SET sessions = session_counts.sessions + 1 RETURNING sessions";

/// Creates a session with its first commits.
pub(super) struct Create(pub(super) NewSession);

impl WriteJob for Create {
    type Output = SessionRow;

    async fn run(&self, transaction: &Transaction) -> JobResult<SessionRow> {
        let NewSession { key, state, steps, on_conflict, quota } = &self.0;
        let last_seq = i64::from(!state.is_empty());
        let mut batch = Batch::default();
        let names = (Text(&key.app_name), Text(&key.user_id), Text(&key.session_id));
        let made = batch
            .add(INSERT, parameters![key_of(key), names.0, names.1, names.2, last_seq, transaction.write_id]);
        let head = batch.add(LOCK_HEAD, parameters![key_of(key), transaction.write_id]);
        let rows = transaction.send(batch).await?;
        if rows[made].is_empty() {
            // Of concurrent creates the others find the session of the first one.
            let is_own = SessionHead::read(&rows[head], key)?.is_written;
            if *on_conflict == OnConflict::Fail && !is_own {
                return Err(Error::Exists(key.clone()).into());
            }
            return find_and_commit(transaction, key).await;
        }
        let changes = state::encode(state)?;
        let mut batch = Batch::default();
        let count = batch.add(COUNT, parameters![Text(&key.user_id)]);
        state::add_changes(&mut batch, key, (key_of(key), last_seq), &changes);
        let rows = transaction.send(batch).await?;
        let sessions = number(&rows[count][0], 0)?;
        if let Some(quota) = quota.filter(|quota| sessions > *quota) {
            return Err(Error::QuotaReached { user: key.user_id.clone(), quota }.into());
        }
        for step in steps {
            commit::apply(transaction, key, step).await?;
        }
        find_and_commit(transaction, key).await
    }
}

async fn find_and_commit(transaction: &Transaction, key: &SessionKey) -> JobResult<SessionRow> {
    let mut batch = Batch::default();
    let found = add_find(&mut batch, key);
    let rows = transaction.commit(batch).await?;
    let row = rows[found].first().ok_or_else(|| Error::NotFound(key.clone()))?;
    Ok(session_row(row)?)
}

/// The tables with rows of a session. No other transaction writes them while the row of the session is locked.
const DELETES: [&str; 8] = [
    "DELETE FROM messages WHERE session_key = $1",
    "DELETE FROM session_state WHERE session_key = $1",
    "DELETE FROM state_log WHERE session_key = $1",
    "DELETE FROM facts WHERE session_key = $1",
    "DELETE FROM runs WHERE session_key = $1",
    "DELETE FROM request_keys WHERE session_key = $1",
    "DELETE FROM drafts WHERE session_key = $1",
    "DELETE FROM recipe_uses WHERE session_key = $1",
];
const USED: &str = "SELECT hash FROM recipe_uses WHERE session_key = $1 ORDER BY hash";
/// The rows are locked in the order of their hashes. A concurrent session that begins to use a text makes the foreign key fail.
const DELETE_UNUSED: &str = "DELETE FROM recipe_texts WHERE hash IN (
         SELECT hash FROM recipe_texts WHERE hash = ANY ($1)
             AND NOT EXISTS (SELECT 1 FROM recipe_uses WHERE recipe_uses.hash = recipe_texts.hash)
         ORDER BY hash FOR UPDATE)";
const DELETE_ARTIFACTS: &str = "DELETE FROM artifacts
     WHERE app_name = $1 AND user_id = $2 AND session_id = $3 AND NOT starts_with(name, 'user:')";
const UNCOUNT: &str = "UPDATE session_counts SET sessions = sessions - 1 WHERE user_id = $1";
const DELETE_COUNT: &str = "DELETE FROM session_counts WHERE user_id = $1 AND sessions <= 0";

/// Deletes a session with its data.
pub(super) struct Delete(pub(super) SessionKey);

impl WriteJob for Delete {
    type Output = bool;

    async fn run(&self, transaction: &Transaction) -> JobResult<bool> {
        let Self(key) = self;
        let session_key = key_of(key);
        let mut batch = Batch::default();
        let head = batch.add(LOCK_HEAD, parameters![session_key, transaction.write_id]);
        let used = batch.add(USED, parameters![session_key]);
        let rows = transaction.send(batch).await?;
        if rows[head].is_empty() {
            // The row may be missing because an earlier attempt was committed.
            return Ok(transaction.is_uncertain);
        }
        let used = rows[used].iter().map(|row| text(row, 0)).collect::<RowResult<Vec<_>>>()?;
        let mut batch = Batch::default();
        batch.add("DELETE FROM sessions WHERE session_key = $1", parameters![session_key]);
        batch.add(UNCOUNT, parameters![Text(&key.user_id)]);
        batch.add(DELETE_COUNT, parameters![Text(&key.user_id)]);
        for delete in DELETES {
            batch.add(delete, parameters![session_key]);
        }
        let names = (Text(&key.app_name), Text(&key.user_id), Text(&key.session_id));
        batch.add(DELETE_ARTIFACTS, parameters![names.0, names.1, names.2]);
        if !used.is_empty() {
            let hashes: Vec<Text<'_>> = used.iter().map(|hash| Text(hash)).collect();
            batch.add(DELETE_UNUSED, parameters![hashes]);
        }
        transaction.commit(batch).await.map_err(|error| {
            // The text is in use again: the next attempt sees that.
            if error.violates("recipe_uses_hash_fkey") { JobError::Contended } else { error }
        })?;
        Ok(true)
    }
}

/// The cursor is compared as a row in descending order. The minute comes first because it is indexed; it does not change the order.
pub(super) async fn list(connection: &Object, query: &ListQuery) -> JobResult<Vec<SessionRow>> {
    let mut conditions = vec!["TRUE".to_owned()];
    let limit = limit(query.limit);
    let mut values: Vec<Box<dyn ToSql + Sync + Send + '_>> = vec![Box::new(limit)];
    for (column, value) in
        [("app_name", &query.app), ("user_id", &query.user), ("session_id", &query.session)]
    {
        if let Some(value) = value {
            values.push(Box::new(Text(value)));
            conditions.push(format!("{column} = ${}", values.len()));
        }
    }
    if let Some(SessionRow { key, updated_at, .. }) = &query.after {
        let first = values.len() + 1;
        conditions.push(format!(
            "(updated_minute, updated_at, app_name, user_id, session_id)
                 < (floor(${first}::float8 / 60)::bigint, ${first}::float8, ${}, ${}, ${})",
            first + 1,
            first + 2,
            first + 3
        ));
        values.push(Box::new(*updated_at));
        for name in [&key.app_name, &key.user_id, &key.session_id] {
            values.push(Box::new(Text(name)));
        }
    }
    let sql = format!(
        "SELECT {ROW} FROM sessions WHERE {} ORDER BY updated_minute DESC, updated_at DESC, app_name DESC,
             user_id DESC, session_id DESC LIMIT $1",
        conditions.join(" AND ")
    );
    let statement = connection.prepare_cached(&sql).await?;
    let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| &**value as _).collect();
    let rows = connection.query(&statement, &values).await?;
    Ok(rows.iter().map(session_row).collect::<RowResult<_>>()?)
}
