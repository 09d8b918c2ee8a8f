//! Tests of query plans: turns, polls and recovery use an index, so their cost does not depend on the number of ended runs.

use super::{Options, SqliteStore, connect, idempotency_keys, log, owners, runs};
use rusqlite::{Connection, StatementStatus};
use tempfile::TempDir;

fn fresh() -> (TempDir, Connection) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lango.db");
    drop(SqliteStore::open(&path, Options::default()).unwrap());
    let conn = connect::writer(&path, &Options::default()).unwrap();
    (dir, conn)
}

fn plan(conn: &Connection, sql: &str) -> Vec<String> {
    let mut plan = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let steps = plan.raw_query().mapped(|row| row.get::<_, String>(3));
    steps.map(Result::unwrap).collect()
}

#[test]
fn queries_for_open_runs_use_the_partial_index() {
    let (_dir, conn) = fresh();
    let statements =
        [owners::OWNERS, owners::OPEN_RUNS, owners::OPEN_RUNS_OF_SESSION, runs::FIRST_OPEN, runs::AHEAD];
    for sql in statements {
        let steps = plan(&conn, sql);
        assert!(steps.iter().any(|step| step.contains("USING INDEX runs_open")), "{sql}: {steps:?}");
    }
    for sql in [owners::OPEN_RUNS, owners::OPEN_RUNS_OF_SESSION, runs::FIRST_OPEN] {
        let steps = plan(&conn, sql);
        assert!(!steps.iter().any(|step| step.contains("TEMP B-TREE")), "no sort step is needed: {steps:?}");
    }
}

#[test]
fn admitting_a_start_scans_no_table() {
    let (_dir, conn) = fresh();
    let steps = plan(&conn, runs::ADMISSION);
    let scans =
        steps.iter().filter(|step| step.starts_with("SCAN") && !step.starts_with("SCAN CONSTANT ROW"));
    assert_eq!(scans.count(), 0, "{steps:?}");
    assert_eq!(steps.iter().filter(|step| step.contains("INDEX runs_open")).count(), 2, "{steps:?}");
}

#[test]
fn lookups_of_a_run_its_rows_and_its_request_scan_no_table() {
    let (_dir, conn) = fresh();
    for sql in [
        runs::by_id_sql(),
        runs::by_number_sql(),
        log::run_rows_sql(),
        idempotency_keys::KNOWN_REQUEST.to_owned(),
    ] {
        let steps = plan(&conn, &sql);
        assert!(steps.iter().all(|step| step.starts_with("SEARCH")), "{sql}: {steps:?}");
    }
}

/// Inserts sessions with finished runs each; the last ten also have an open run.
fn fill(conn: &Connection, sessions: i64, finished: i64) {
    conn.execute_batch("BEGIN").unwrap();
    conn.execute(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
         INSERT INTO sessions (session_key, app_name, user_id, session_id, created_at, updated_at)
         SELECT i, 'app', 'ann', i, 1, 1 FROM n",
        [sessions],
    )
    .unwrap();
    conn.execute(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
         INSERT INTO runs (session_key, position, run_id, status, owner, started_after, last_seq, created_at, updated_at)
         SELECT session_key, i, i, 'done', 'gone', 0, 0, 1, 1 FROM sessions, n",
        [finished],
    )
    .unwrap();
    conn.execute(
        "INSERT INTO runs (session_key, position, run_id, status, owner, started_after, last_seq, created_at, updated_at)
         SELECT session_key, ?1, 'open', 'running', 'gone', 0, 0, 1, 1 FROM sessions WHERE session_key > ?2",
        [finished + 1, sessions - 10],
    )
    .unwrap();
    conn.execute_batch("COMMIT").unwrap();
}

#[test]
fn the_cost_of_recovery_depends_on_open_runs_only() {
    let (_dir, conn) = fresh();
    fill(&conn, 1_000, 100);
    for (sql, rows) in [(owners::OWNERS, 1), (owners::OPEN_RUNS, 10)] {
        let mut statement = conn.prepare(sql).unwrap();
        let found = statement.raw_query().mapped(|_| Ok(())).count();
        assert_eq!(found, rows);
        let steps = statement.get_status(StatementStatus::VmStep);
        assert!(steps < 1_000, "{steps} VM steps with 100,000 finished runs: {sql}");
    }
}
