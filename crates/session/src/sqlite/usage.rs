//! Usage: the newest day of a session in its own row, earlier days in the table `usage_days`.

use super::{SqliteStore, fault::JobResult, ports::SMALL};
use crate::{
    Pending, SessionKey, TokenCounts, UncountedPage, UncountedRow, UsageEntry, UsageGroup, UsageKey,
    UsageLog, UsageQuery, UsageSum,
};
use rusqlite::{Connection, OptionalExtension, Row, ToSql};
use serde::{Deserialize, Serialize};

/// An element of the column `usage`: a day, an agent, a model, and the counts.
#[derive(Debug, Serialize, Deserialize)]
struct Counted(i64, String, String, u64, u64, u64, u64, u64, u64);

impl Counted {
    fn new(entry: &UsageEntry) -> Self {
        let UsageKey { day, agent, model } = entry.key.clone();
        let [calls, fresh, reads, writes, output, reasoning] = entry.counts.to_array();
        Self(day, agent, model, calls, fresh, reads, writes, output, reasoning)
    }

    fn entry(self) -> UsageEntry {
        let Self(day, agent, model, calls, fresh, reads, writes, output, reasoning) = self;
        let counts = TokenCounts::from_array([calls, fresh, reads, writes, output, reasoning]);
        UsageEntry { key: UsageKey { day, agent, model }, counts }
    }
}

/// Entries of the column; none if it cannot be read.
fn decode(column: Option<String>) -> Vec<UsageEntry> {
    let counted: Vec<Counted> = column.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    counted.into_iter().map(Counted::entry).collect()
}

fn column_of(conn: &Connection, session_key: i64) -> rusqlite::Result<Vec<UsageEntry>> {
    let column = conn
        .prepare_cached("SELECT usage FROM sessions WHERE session_key = ?1")?
        .query_row((session_key,), |row| row.get(0))
        .optional()?;
    Ok(decode(column.flatten()))
}

/// Adds the usage of a commit. Returns the new value of the session's column; `None` if it does not change.
///
/// The column has the entries of one day, the newest. Those of other days are moved to the table.
pub(super) fn add(
    conn: &Connection,
    key: &SessionKey,
    session_key: i64,
    entries: &[UsageEntry],
) -> rusqlite::Result<Option<String>> {
    let Some(newest) = entries.iter().map(|entry| entry.key.day).max() else { return Ok(None) };
    let stored = column_of(conn, session_key)?;
    let newest = stored.iter().map(|entry| entry.key.day).fold(newest, i64::max);
    let mut current: Vec<UsageEntry> = Vec::with_capacity(stored.len() + entries.len());
    for entry in stored.into_iter().chain(entries.iter().cloned()) {
        if entry.key.day < newest {
            add_to_days(conn, key, &key.session_id, &entry)?;
        } else if let Some(known) = current.iter_mut().find(|known| known.key == entry.key) {
            known.counts += entry.counts;
        } else {
            current.push(entry);
        }
    }
    let counted: Vec<Counted> = current.iter().map(Counted::new).collect();
    let encoded = serde_json::to_string(&counted);
    encoded.map(Some).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}

fn add_to_days(
    conn: &Connection,
    key: &SessionKey,
    session: &str,
    UsageEntry { key: UsageKey { day, agent, model }, counts }: &UsageEntry,
) -> rusqlite::Result<()> {
    let TokenCounts { calls, fresh, cache_reads, cache_writes, output, reasoning } = counts;
    conn.prepare_cached(
        "INSERT INTO usage_days (user_id, app_name, session_id, day, agent, model, calls, fresh, cache_reads,
             cache_writes, output, reasoning)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
         ON CONFLICT DO UPDATE SET calls = calls + excluded.calls, fresh = fresh + excluded.fresh,
             cache_reads = cache_reads + excluded.cache_reads, cache_writes = cache_writes + excluded.cache_writes,
             output = output + excluded.output, reasoning = reasoning + excluded.reasoning",
    )?
    .execute(rusqlite::params![
        key.user_id,
        key.app_name,
        session,
        day,
        agent,
        model,
        calls,
        fresh,
        cache_reads,
        cache_writes,
        output,
        reasoning
    ])
    .map(drop)
}

/// Keeps the usage of a session that is being deleted, without its id.
pub(super) fn keep_without_session(
    conn: &Connection,
    key: &SessionKey,
    session_key: i64,
) -> rusqlite::Result<()> {
    let mut entries = column_of(conn, session_key)?;
    let of_session = (&key.user_id, &key.app_name, &key.session_id);
    entries.extend(
        conn.prepare_cached(
            "SELECT day, agent, model, calls, fresh, cache_reads, cache_writes, output, reasoning FROM usage_days
             WHERE user_id = ?1 AND app_name = ?2 AND session_id = ?3 AND session_id <> ''",
        )?
        .query_map(of_session, |row| {
            let key = UsageKey { day: row.get(0)?, agent: row.get(1)?, model: row.get(2)? };
            Ok(UsageEntry { key, counts: counts(row, 3)? })
        })?
        .collect::<rusqlite::Result<Vec<_>>>()?,
    );
    conn.prepare_cached(
        "DELETE FROM usage_days WHERE user_id = ?1 AND app_name = ?2 AND session_id = ?3 AND session_id <> ''",
    )?
    .execute(of_session)?;
    entries.iter().try_for_each(|entry| add_to_days(conn, key, "", entry))
}

fn counts(row: &Row<'_>, first: usize) -> rusqlite::Result<TokenCounts> {
    let mut counts = [0_u64; 6];
    for (index, count) in counts.iter_mut().enumerate() {
        *count = row.get(first + index)?;
    }
    Ok(TokenCounts::from_array(counts))
}

/// The dimensions in the order of the result's columns.
const GROUPS: [(UsageGroup, &str); 5] = [
    (UsageGroup::Day, "day"),
    (UsageGroup::App, "app_name"),
    (UsageGroup::User, "user_id"),
    (UsageGroup::Session, "session_id"),
    (UsageGroup::Agent, "agent"),
];

pub(super) fn sum(conn: &Connection, query: &UsageQuery) -> JobResult<Vec<UsageSum>> {
    let UsageQuery { app, user, session, agent, model, from, to, groups } = query;
    let conditions: [(&str, &str, Option<&dyn ToSql>); 7] = [
        ("app_name =", ":app", app.as_ref().map(|app| app as &dyn ToSql)),
        ("user_id =", ":user", user.as_ref().map(|user| user as &dyn ToSql)),
        ("session_id =", ":session", session.as_ref().map(|session| session as &dyn ToSql)),
        ("agent =", ":agent", agent.as_ref().map(|agent| agent as &dyn ToSql)),
        ("model =", ":model", model.as_ref().map(|model| model as &dyn ToSql)),
        ("day >=", ":from", from.as_ref().map(|from| from as &dyn ToSql)),
        ("day <=", ":to", to.as_ref().map(|to| to as &dyn ToSql)),
    ];
    let used = conditions.iter().filter_map(|(left, name, value)| value.map(|value| (left, *name, value)));
    let (filters, values): (Vec<String>, Vec<(&str, &dyn ToSql)>) =
        used.map(|(left, name, value)| (format!("{left} {name}"), (name, value))).unzip();
    let mut statement = conn.prepare_cached(&sum_sql(&filters, groups))?;
    let sums = statement.query_map(values.as_slice(), |row| {
        Ok(UsageSum {
            model: row.get(0)?,
            day: row.get(1)?,
            app: row.get(2)?,
            user: row.get(3)?,
            session: row.get(4)?,
            agent: row.get(5)?,
            counts: counts(row, 6)?,
        })
    })?;
    Ok(sums.collect::<rusqlite::Result<_>>()?)
}

/// Sums both places. The filters are in both parts, so that each uses its index.
fn sum_sql(filters: &[String], groups: &[UsageGroup]) -> String {
    let all: Vec<&str> = ["TRUE"].into_iter().chain(filters.iter().map(String::as_str)).collect();
    let filter = all.join(" AND ");
    let selected = GROUPS.map(|(group, column)| if groups.contains(&group) { column } else { "NULL" });
    let grouped = selected.iter().filter(|column| **column != "NULL").copied();
    let grouped: Vec<&str> = ["model"].into_iter().chain(grouped).collect();
    format!(
        "SELECT model, {}, SUM(calls), SUM(fresh), SUM(cache_reads), SUM(cache_writes), SUM(output), SUM(reasoning)
         FROM (
             SELECT user_id, app_name, session_id, day, agent, model, calls, fresh, cache_reads, cache_writes, output,
                 reasoning FROM usage_days WHERE {filter}
             UNION ALL
             SELECT user_id, app_name, session_id, day, agent, model, calls, fresh, cache_reads, cache_writes, output,
                 reasoning
             FROM (SELECT user_id, app_name, session_id, value ->> 0 AS day, value ->> 1 AS agent,
                       value ->> 2 AS model, value ->> 3 AS calls, value ->> 4 AS fresh, value ->> 5 AS cache_reads,
                       value ->> 6 AS cache_writes, value ->> 7 AS output, value ->> 8 AS reasoning
                   FROM sessions, json_each(sessions.usage) WHERE usage IS NOT NULL)
             WHERE {filter}
         )
         GROUP BY {}",
        selected.join(", "),
        grouped.join(", ")
    )
}

/// The range of row numbers that are not counted; `None` if everything is.
fn backlog(conn: &Connection) -> rusqlite::Result<Option<(i64, i64)>> {
    conn.prepare_cached("SELECT next, last FROM usage_backlog")?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()
}

/// Whether rows of earlier versions are not counted yet.
pub(super) fn has_backlog(conn: &Connection) -> rusqlite::Result<bool> {
    Ok(backlog(conn)?.is_some())
}

pub(super) fn uncounted(conn: &Connection, limit: usize) -> JobResult<Option<UncountedPage>> {
    let Some((next, last)) = backlog(conn)? else { return Ok(None) };
    let limit = i64::try_from(limit).unwrap_or(i64::MAX).max(1);
    // Row numbers may have large gaps.
    let end: Option<i64> = conn
        .prepare_cached(
            "SELECT MAX(rowid) FROM (SELECT rowid FROM messages WHERE rowid BETWEEN ?1 AND ?2 ORDER BY rowid LIMIT ?3)",
        )?
        .query_row((next, last, limit), |row| row.get(0))?;
    let end = end.unwrap_or(last);
    let mut statement = conn.prepare_cached(
        "SELECT session_key, author, timestamp, meta FROM messages
         WHERE rowid BETWEEN ?1 AND ?2 AND instr(meta, '\"usageMetadata\"') > 0",
    )?;
    let rows = statement.query_map((next, end), |row| {
        Ok(UncountedRow {
            session: row.get(0)?,
            author: row.get(1)?,
            timestamp: row.get(2)?,
            meta: row.get(3)?,
        })
    })?;
    Ok(Some(UncountedPage { range: (next, end), rows: rows.collect::<rusqlite::Result<_>>()? }))
}

pub(super) fn count_page(
    conn: &Connection,
    (first, end): (i64, i64),
    entries: &[(u64, UsageEntry)],
) -> JobResult<()> {
    let Some((_, last)) = backlog(conn)?.filter(|(next, _)| *next == first) else { return Ok(()) };
    for (session, entry) in entries {
        let key = conn
            .prepare_cached(
                "SELECT app_name, user_id, session_id FROM sessions WHERE session_key = ?1
                 UNION ALL SELECT app_name, user_id, '' FROM deleted_sessions WHERE session_key = ?1",
            )?
            .query_row((session,), |row| {
                Ok(SessionKey { app_name: row.get(0)?, user_id: row.get(1)?, session_id: row.get(2)? })
            })
            .optional()?;
        if let Some(key) = key {
            add_to_days(conn, &key, &key.session_id, entry)?;
        }
    }
    if end >= last {
        conn.prepare_cached("DELETE FROM usage_backlog")?.execute([])?;
    } else {
        conn.prepare_cached("UPDATE usage_backlog SET next = ?1")?.execute((end + 1,))?;
    }
    Ok(())
}

impl UsageLog for SqliteStore {
    fn usage(&self, query: UsageQuery) -> Pending<'_, Vec<UsageSum>> {
        Box::pin(self.db.readers.read(move |conn| sum(conn, &query)))
    }

    fn uncounted(&self, limit: usize) -> Pending<'_, Option<UncountedPage>> {
        Box::pin(self.db.readers.read(move |conn| uncounted(conn, limit)))
    }

    fn count_page(&self, range: (i64, i64), entries: Vec<(u64, UsageEntry)>) -> Pending<'_, ()> {
        let size = SMALL + entries.len() * SMALL;
        Box::pin(self.db.write(size, move |conn| count_page(conn, range, &entries)))
    }
}
