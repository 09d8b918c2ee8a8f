//! State: one row per key and scope, and a log of every change with its sequence number.

use super::{
    batch::{Batch, parameters},
    fault::JobResult,
    text::{RowResult, Text, integer, limit, number, text},
};
use crate::{Error, PageRequest, Result, Scope, Seq, SessionKey, StateChange, StateEntry};
use deadpool_postgres::Object;
use serde_json::Value;
use tokio_postgres::Row;
use uuid::Uuid;

/// A state change with its value encoded as JSON text.
#[derive(Debug)]
pub(super) struct EncodedChange<'a> {
    scope: Scope,
    key: &'a str,
    value: String,
}

pub(super) fn encode(changes: &[StateChange]) -> Result<Vec<EncodedChange<'_>>> {
    let encode = |change: &'_ StateChange| serde_json::to_string(&change.value);
    let encoded = changes.iter().map(|change| {
        let value = encode(change).map_err(|error| Error::Backend(error.into()))?;
        Ok(EncodedChange { scope: change.scope, key: &change.key, value })
    });
    encoded.collect()
}

/// A key that is assigned again keeps its position. Rows of shared scopes are locked in the order of their keys.
macro_rules! upsert {
    ($table:literal, $names:literal, $values:literal, $key:literal) => {
        concat!(
            "INSERT INTO ",
            $table,
            " (",
            $names,
            ", key, position, ordinal, value) SELECT ",
            $values,
            ", key, position, ordinal, value FROM (SELECT nextval('numbers') AS position) AS place,
                 unnest($1::text[], $2::bigint[], $3::text[]) AS change (key, ordinal, value)
             ORDER BY key COLLATE \"C\" ON CONFLICT (",
            $key,
            ") DO UPDATE SET value = excluded.value"
        )
    };
}
const SET_APP: &str = upsert!("app_state", "app_name", "$4", "app_name, key");
const SET_USER: &str = upsert!("user_state", "app_name, user_id", "$4, $5", "app_name, user_id, key");
const SET_SESSION: &str = upsert!("session_state", "session_key", "$4::uuid", "session_key, key");
const LOG: &str = "INSERT INTO state_log (session_key, seq, ordinal, scope, key, value)
     SELECT $1, $2, change.* FROM unnest($3::bigint[], $4::text[], $5::text[], $6::text[]) AS change";

/// Adds the statements that apply and log state changes of a commit.
pub(super) fn add_changes<'a>(
    batch: &mut Batch<'a>,
    key: &'a SessionKey,
    (session_key, seq): (Uuid, i64),
    changes: &'a [EncodedChange<'a>],
) {
    if changes.is_empty() {
        return;
    }
    let ordinals: Vec<i64> = (0..).take(changes.len()).collect();
    let scopes: Vec<&str> = changes.iter().map(|change| name(change.scope)).collect();
    let keys: Vec<Text<'_>> = changes.iter().map(|change| Text(change.key)).collect();
    let values: Vec<Text<'_>> = changes.iter().map(|change| Text(&change.value)).collect();
    batch.add(LOG, parameters![session_key, seq, ordinals, scopes, keys, values]);
    for (scope, sql) in [(Scope::Session, SET_SESSION), (Scope::App, SET_APP), (Scope::User, SET_USER)] {
        let (keys, ordinals, values) = last_values(changes, scope);
        if keys.is_empty() {
            continue;
        }
        let mut values = parameters![keys, ordinals, values];
        match scope {
            Scope::Session => values.extend(parameters![session_key]),
            Scope::App => values.extend(parameters![Text(&key.app_name)]),
            Scope::User => values.extend(parameters![Text(&key.app_name), Text(&key.user_id)]),
        }
        batch.add(sql, values);
    }
}

/// Keys, positions of the first assignment, and last values: a statement cannot change a row twice.
fn last_values<'a>(
    changes: &'a [EncodedChange<'a>],
    scope: Scope,
) -> (Vec<Text<'a>>, Vec<i64>, Vec<Text<'a>>) {
    let (mut keys, mut ordinals, mut values) = (Vec::new(), Vec::new(), Vec::new());
    let mut known = std::collections::HashMap::new();
    for (ordinal, change) in (0_i64..).zip(changes).filter(|(_, change)| change.scope == scope) {
        let next = values.len();
        let at = *known.entry(change.key).or_insert(next);
        if at == next {
            keys.push(Text(change.key));
            ordinals.push(ordinal);
            values.push(Text(&change.value));
        } else {
            values[at] = Text(&change.value);
        }
    }
    (keys, ordinals, values)
}

const APP: &str = "SELECT key, value FROM app_state WHERE app_name = $1 ORDER BY position, ordinal";
const USER: &str =
    "SELECT key, value FROM user_state WHERE app_name = $1 AND user_id = $2 ORDER BY position, ordinal";
const SESSION: &str =
    "SELECT key, value FROM session_state WHERE session_key = $1 ORDER BY position, ordinal";

/// The index of each scope's rows in a batch.
pub(super) type ScopeRows = Vec<(Scope, usize)>;

/// Adds the statements that read the app and user state.
pub(super) fn add_shared<'a>(batch: &mut Batch<'a>, key: &'a SessionKey) -> ScopeRows {
    let app = batch.add(APP, parameters![Text(&key.app_name)]);
    let user = batch.add(USER, parameters![Text(&key.app_name), Text(&key.user_id)]);
    vec![(Scope::App, app), (Scope::User, user)]
}

pub(super) fn add_session(batch: &mut Batch<'_>, session_key: Uuid) -> (Scope, usize) {
    (Scope::Session, batch.add(SESSION, parameters![session_key]))
}

pub(super) fn merged(rows: &[Vec<Row>], scopes: &ScopeRows) -> JobResult<Vec<StateChange>> {
    let mut state = Vec::new();
    for (scope, at) in scopes {
        for row in &rows[*at] {
            state.push(StateChange { scope: *scope, key: text(row, 0)?, value: json(row, 1)? });
        }
    }
    Ok(state)
}

/// A page contains whole commits: the changes of its last commit beyond the limit are included.
const CHANGES: &str = "SELECT seq, scope, key, value FROM state_log
     WHERE session_key = $1 AND seq > $2 AND seq <= (
         SELECT MAX(seq) FROM (
             SELECT seq FROM state_log WHERE session_key = $1 AND seq > $2 ORDER BY seq, ordinal LIMIT $3
         ) AS page)
     ORDER BY seq, ordinal";

pub(super) async fn changes(
    connection: &Object,
    session_key: Uuid,
    page: PageRequest,
) -> JobResult<Vec<StateEntry>> {
    let statement = connection.prepare_cached(CHANGES).await?;
    let rows =
        connection.query(&statement, &[&session_key, &integer(page.after.0), &limit(page.limit)]).await?;
    rows.iter()
        .map(|row| {
            let scope = text(row, 1)?;
            let known =
                [Scope::App, Scope::User, Scope::Session].into_iter().find(|known| name(*known) == scope);
            let scope = known.ok_or_else(|| unreadable(&format!("unknown scope \"{scope}\"")))?;
            Ok(StateEntry { seq: Seq(number(row, 0)?), scope, key: text(row, 2)?, value: json(row, 3)? })
        })
        .collect()
}

fn name(scope: Scope) -> &'static str {
    match scope {
        Scope::App => "app",
        Scope::User => "user",
        Scope::Session => "session",
    }
}

pub(super) fn unreadable(what: &str) -> Error {
    Error::Row { what: what.to_owned(), source: "the value is not of this version".into() }
}

fn json(row: &Row, column: usize) -> JobResult<Value> {
    let text: RowResult<String> = text(row, column);
    let value = serde_json::from_str(&text?);
    Ok(value.map_err(|error| Error::Row { what: "a state value".to_owned(), source: error.into() })?)
}
