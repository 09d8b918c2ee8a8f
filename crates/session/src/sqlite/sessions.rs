//! The table of sessions: create, find, list.

use super::{
    commit,
    encoded_commit::EncodedCommit,
    fault::{JobResult, is_damage},
    runs, state,
};
use crate::{
    Error, ListOrder, ListQuery, OnConflict, Seq, SessionKey, SessionRow, clock, lifecycle::TurnState,
};
use rusqlite::{Connection, OptionalExtension, Row, ToSql};
use std::{cmp::Ordering, collections::BTreeSet};

/// The columns of a session that a write depends on.
pub(super) struct SessionHead {
    pub(super) session_key: i64,
    pub(super) last_seq: u64,
    pub(super) lease_epoch: u64,
}

impl SessionHead {
    /// The turn state for fencing. The lease and the queue are not read.
    pub(super) fn turns(&self) -> TurnState {
        TurnState { epoch: self.lease_epoch, is_leased: false, first_ticket: None }
    }
}

pub(super) fn head(conn: &Connection, key: &SessionKey) -> JobResult<SessionHead> {
    let found = conn
        .prepare_cached(
            "SELECT session_key, last_seq, lease_epoch FROM sessions
             WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3",
        )?
        .query_row((&key.app_name, &key.user_id, &key.session_id), |row| {
            Ok(SessionHead { session_key: row.get(0)?, last_seq: row.get(1)?, lease_epoch: row.get(2)? })
        })
        .optional()?;
    found.ok_or_else(|| Error::NotFound(key.clone()).into())
}

pub(super) const ROW: &str =
    "session_key, app_name, user_id, session_id, title, last_seq, total_tokens, created_at, updated_at";

fn session_row(row: &Row<'_>) -> rusqlite::Result<SessionRow> {
    Ok(SessionRow {
        key: SessionKey { app_name: row.get(1)?, user_id: row.get(2)?, session_id: row.get(3)? },
        number: row.get(0)?,
        title: row.get(4)?,
        last_seq: Seq(row.get(5)?),
        total_tokens: row.get(6)?,
        created_at: row.get(7)?,
        updated_at: row.get(8)?,
        is_damaged: false,
    })
}

/// A row of a list. A row with unreadable values is marked as damaged.
pub(super) fn listed_row(row: &Row<'_>) -> rusqlite::Result<SessionRow> {
    session_row(row).or_else(|_| {
        let text = |column| -> rusqlite::Result<String> {
            let bytes = row.get_ref(column)?.as_bytes().unwrap_or_default();
            Ok(String::from_utf8_lossy(bytes).into_owned())
        };
        let key = SessionKey { app_name: text(1)?, user_id: text(2)?, session_id: text(3)? };
        // The cursor of the next page needs the time.
        Ok(SessionRow { updated_at: row.get(8).unwrap_or_default(), ..SessionRow::damaged(key, row.get(0)?) })
    })
}

/// The name of the session with this number, read from an index.
pub(super) fn key_of(conn: &Connection, number: u64) -> rusqlite::Result<Option<SessionKey>> {
    conn.prepare_cached(
        "SELECT app_name, user_id, session_id FROM sessions INDEXED BY sqlite_autoindex_sessions_1
         WHERE session_key = ?1",
    )?
    .query_row((number,), |row| {
        Ok(SessionKey { app_name: row.get(0)?, user_id: row.get(1)?, session_id: row.get(2)? })
    })
    .optional()
}

/// Whether the session exists, without reading its row.
pub(super) fn is_known(conn: &Connection, key: &SessionKey) -> bool {
    let found = conn
        .prepare_cached("SELECT 1 FROM sessions WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3")
        .and_then(|mut find| find.exists((&key.app_name, &key.user_id, &key.session_id)));
    found.unwrap_or(false)
}

pub(super) fn find(conn: &Connection, key: &SessionKey) -> rusqlite::Result<Option<(i64, SessionRow)>> {
    conn.prepare_cached(&format!(
        "SELECT {ROW} FROM sessions WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3"
    ))?
    .query_row((&key.app_name, &key.user_id, &key.session_id), |row| Ok((row.get(0)?, session_row(row)?)))
    .optional()
}

/// A new session with its JSON encoded, ready for the writer.
pub(super) struct EncodedNewSession {
    pub(super) key: SessionKey,
    pub(super) state: Vec<state::EncodedStateChange>,
    pub(super) steps: Vec<EncodedCommit>,
    pub(super) on_conflict: OnConflict,
    pub(super) quota: Option<u64>,
}

impl EncodedNewSession {
    /// Its approximate size in the queue, in bytes.
    pub(super) fn size(&self) -> usize {
        let state: usize = self.state.iter().map(state::EncodedStateChange::size).sum();
        state + self.steps.iter().map(EncodedCommit::size).sum::<usize>()
    }
}

pub(super) fn create(conn: &Connection, new: &EncodedNewSession) -> JobResult<SessionRow> {
    let EncodedNewSession { key, state, steps, on_conflict, quota } = new;
    let last_seq = u64::from(!state.is_empty());
    let made = conn
        .prepare_cached(
            // The number of a deleted session whose rows still exist is not used again.
            "INSERT INTO sessions (session_key, app_name, user_id, session_id, last_seq, lease_epoch, created_at,
                 updated_at)
             VALUES ((SELECT MAX(number) + 1 FROM (SELECT MAX(session_key) AS number FROM sessions
                          UNION ALL SELECT MAX(session_key) FROM deleted_sessions)
                      WHERE EXISTS (SELECT 1 FROM deleted_sessions)),
                 ?1, ?2, ?3, ?4, ?5, ?6, ?6)
             ON CONFLICT DO NOTHING",
        )?
        .execute((&key.app_name, &key.user_id, &key.session_id, last_seq, runs::first_epoch(conn)?, clock::now()))?;
    if made == 1 {
        check_quota(conn, &key.user_id, *quota)?;
        state::change(
            conn,
            state::LogPosition { key, session_key: conn.last_insert_rowid(), seq: last_seq },
            state,
        )?;
        for step in steps {
            commit::commit(conn, step)?;
        }
    } else if *on_conflict == OnConflict::Fail {
        return Err(Error::Exists(key.clone()).into());
    }
    let found = find(conn, key)?;
    found.map(|(_, row)| row).ok_or_else(|| Error::NotFound(key.clone()).into())
}

/// The number of sessions of a user, maintained by triggers.
const COUNT: &str = "SELECT sessions FROM session_counts WHERE user_id = ?1";

/// Checks the quota after the session was inserted; an error rolls the insertion back.
fn check_quota(conn: &Connection, user: &str, quota: Option<u64>) -> JobResult<()> {
    let Some(quota) = quota else { return Ok(()) };
    let count: u64 = conn.prepare_cached(COUNT)?.query_row((user,), |row| row.get(0))?;
    if count > quota { Err(Error::QuotaReached { user: user.to_owned(), quota }.into()) } else { Ok(()) }
}

/// The expression of the index `sessions_by_minute`. It must match the index literally.
const MINUTE: &str = "CAST(updated_at / 60 AS INTEGER)";
const AFTER_CHANGED: [&str; 2] = [
    "CAST(updated_at / 60 AS INTEGER) <= CAST(:at / 60 AS INTEGER)",
    "(updated_at, app_name, user_id, session_id) < (:at, :after_app, :after_user, :after_id)",
];
const AFTER_CREATED: [&str; 1] = ["session_key < :after_number"];

fn page_sql(conditions: &[&str], order: ListOrder) -> String {
    let conditions = if conditions.is_empty() { "TRUE".to_owned() } else { conditions.join(" AND ") };
    let order = match order {
        ListOrder::Changed => {
            format!("{MINUTE} DESC, updated_at DESC, app_name DESC, user_id DESC, session_id DESC")
        }
        ListOrder::Created => "session_key DESC".to_owned(),
    };
    format!("SELECT {ROW} FROM sessions WHERE {conditions} ORDER BY {order} LIMIT :limit")
}

/// The order in which two rows are listed.
fn listed_order(order: ListOrder, one: &SessionRow, other: &SessionRow) -> Ordering {
    match order {
        ListOrder::Changed => {
            other.updated_at.total_cmp(&one.updated_at).then_with(|| other.key.cmp(&one.key))
        }
        ListOrder::Created => other.number.cmp(&one.number),
    }
}

pub(super) fn list(conn: &Connection, query: &ListQuery) -> JobResult<Vec<SessionRow>> {
    let page = match &query.user {
        // Every index begins with the app.
        Some(_) if query.app.is_none() => page_of_apps(conn, query),
        Some(_) | None => page(conn, query),
    };
    match page {
        Err(error) if is_damage(&error) => Ok(list_undamaged(conn, query).map_err(|_| error)?),
        rows => Ok(rows?),
    }
}

/// The page of a user's sessions in all apps, merged from a page of each.
fn page_of_apps(conn: &Connection, query: &ListQuery) -> rusqlite::Result<Vec<SessionRow>> {
    let apps = "WITH RECURSIVE apps (name) AS (
                    SELECT MIN(app_name) FROM sessions
                    UNION ALL
                    SELECT (SELECT MIN(app_name) FROM sessions WHERE app_name > name) FROM apps WHERE name IS NOT NULL)
                SELECT name FROM apps WHERE name IS NOT NULL";
    let apps: Vec<String> =
        conn.prepare_cached(apps)?.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    let mut rows = Vec::new();
    for app in apps {
        rows.extend(page(conn, &ListQuery { app: Some(app), ..query.clone() })?);
    }
    rows.sort_by(|one, other| listed_order(query.order, one, other));
    rows.truncate(query.limit);
    Ok(rows)
}

fn page(conn: &Connection, query: &ListQuery) -> rusqlite::Result<Vec<SessionRow>> {
    let limit = i64::try_from(query.limit).unwrap_or(i64::MAX);
    let mut conditions = Vec::new();
    let mut values: Vec<(&str, &dyn ToSql)> = vec![(":limit", &limit)];
    if let Some(app) = &query.app {
        conditions.push("app_name = :app");
        values.push((":app", app));
    }
    if let Some(user) = &query.user {
        conditions.push("user_id = :user");
        values.push((":user", user));
    }
    if let Some(session) = &query.session {
        conditions.push("session_id = :session");
        values.push((":session", session));
    }
    if let Some(SessionRow { key, number, updated_at, .. }) = &query.after {
        match query.order {
            ListOrder::Changed => {
                conditions.extend(AFTER_CHANGED);
                let after: [(&str, &dyn ToSql); 4] = [
                    (":at", updated_at),
                    (":after_app", &key.app_name),
                    (":after_user", &key.user_id),
                    (":after_id", &key.session_id),
                ];
                values.extend(after);
            }
            ListOrder::Created => {
                conditions.extend(AFTER_CREATED);
                values.push((":after_number", number));
            }
        }
    }
    let mut statement = conn.prepare_cached(&page_sql(&conditions, query.order))?;
    statement.query_map(values.as_slice(), listed_row)?.collect()
}

/// The keys of all sessions in order, read from an index: no row is read.
pub(super) fn all_keys(conn: &Connection) -> rusqlite::Result<BTreeSet<i64>> {
    let keys = "SELECT session_key FROM sessions INDEXED BY sqlite_autoindex_sessions_1";
    conn.prepare(keys)?.query_map([], |row| row.get(0))?.collect()
}

/// Like [`page`], if pages of the table are damaged: reads the keys from an index and each row separately. Of a session whose
/// row is damaged, only the key is listed.
fn list_undamaged(conn: &Connection, query: &ListQuery) -> rusqlite::Result<Vec<SessionRow>> {
    let names = "SELECT app_name, user_id, session_id, session_key
                 FROM sessions INDEXED BY sqlite_autoindex_sessions_1
                 WHERE (?1 IS NULL OR app_name = ?1) AND (?2 IS NULL OR user_id = ?2)
                     AND (?3 IS NULL OR session_id = ?3)";
    let mut statement = conn.prepare(names)?;
    let keys = statement.query_map((&query.app, &query.user, &query.session), |row| {
        let key = SessionKey { app_name: row.get(0)?, user_id: row.get(1)?, session_id: row.get(2)? };
        Ok((key, row.get(3)?))
    })?;
    let mut rows = Vec::new();
    for key in keys {
        let (key, number) = key?;
        rows.push(match find(conn, &key) {
            Ok(Some((_, row))) => row,
            Ok(None) => continue,
            Err(error) if is_damage(&error) => SessionRow::damaged(key, number),
            Err(error) => return Err(error),
        });
    }
    if let Some(after) = &query.after {
        rows.retain(|row| listed_order(query.order, after, row).is_lt());
    }
    rows.sort_by(|one, other| listed_order(query.order, one, other));
    rows.truncate(query.limit);
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::{Options, SqliteStore};

    /// SQLite uses an index on an expression only if the statement contains the same expression.
    #[test]
    fn a_page_of_a_users_sessions_uses_the_index() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lango.db");
        drop(SqliteStore::open(&path, Options::default()).unwrap());
        let conn = Connection::open(&path).unwrap();
        let of_user = ["app_name = :app", "user_id = :user"];
        for conditions in [of_user.to_vec(), [of_user, AFTER_CHANGED].concat()] {
            let plan = format!("EXPLAIN QUERY PLAN {}", page_sql(&conditions, ListOrder::Changed));
            let mut plan = conn.prepare(&plan).unwrap();
            let steps = plan.raw_query().mapped(|row| row.get::<_, String>(3));
            let steps: Vec<String> = steps.map(Result::unwrap).collect();
            assert!(steps[0].contains("USING INDEX sessions_by_minute"), "{steps:?}");
            assert!(
                steps[1].ends_with("LAST 4 TERMS OF ORDER BY"),
                "only rows of one minute are sorted: {steps:?}"
            );
        }
    }
}
