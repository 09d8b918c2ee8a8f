//! Schema migrations: files of every earlier version are migrated without loss; files of a later version are refused.

use crate::common::{file, fresh, open};
use rusqlite::Connection;
use session::{
    Commit, Error, IndexProgress, NewSession, OnConflict, RunLog, RunStore, SearchQuery, SessionLog,
    SessionSearch, SessionStore, TailBudget, sqlite::Options,
};
use std::{fs, path::Path};
use tempfile::TempDir;
use testkit::store_suite::make::{key, message_commit, new_session, page, run};

/// The migrations in the source tree, oldest first.
pub(crate) fn migrations() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/sqlite/migrations");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.into_iter().map(|path| fs::read_to_string(path).unwrap()).collect()
}

/// An empty file of the given version. `after` is called after each migration.
pub(crate) fn file_of_version(
    version: usize,
    mut after: impl FnMut(&Connection, i64),
) -> (TempDir, Connection) {
    let dir = tempfile::tempdir().unwrap();
    let conn = Connection::open(file(&dir)).unwrap();
    conn.execute_batch(
        "CREATE TABLE schema_version (version INTEGER PRIMARY KEY, applied_at REAL NOT NULL) STRICT",
    )
    .unwrap();
    for (number, sql) in (1..).zip(migrations()).take(version) {
        conn.execute_batch(&sql).unwrap();
        conn.execute("INSERT INTO schema_version VALUES (?1, 0)", [number]).unwrap();
        after(&conn, number);
    }
    (dir, conn)
}

/// A file of the given version with a session of one message and two runs.
fn file_in_use(version: usize) -> (TempDir, Connection) {
    file_of_version(version, |conn, number| conn.execute_batch(data_of_version(number)).unwrap())
}

/// Data to insert as soon as its table exists.
fn data_of_version(version: i64) -> &'static str {
    match version {
        1 => {
            "INSERT INTO sessions (app_name, user_id, session_id, last_seq, total_tokens, created_at, updated_at)
                 VALUES ('app', 'ann', 's', 2, 10, 1, 2);
             INSERT INTO messages (session_key, seq, tokens, timestamp, counted_by, message_id, role, author, content)
                 VALUES (1, 1, 10, 1, '', 'm1', 'user', 'user', 'hello');
             INSERT INTO session_state (session_key, key, value) VALUES (1, 'k', '1');
             INSERT INTO state_log (session_key, seq, scope, key, value) VALUES (1, 2, 'session', 'k', '1')"
        }
        2 => {
            "INSERT INTO runs (session_key, run_id, status, idempotency_key, owner, started_after, last_seq, created_at,
                 updated_at)
             VALUES (1, 'r1', 'done', 'once', 'o', 0, 1, 1, 1), (1, 'r2', 'failed', NULL, 'o', 1, 2, 2, 2)"
        }
        _ => "",
    }
}

fn version(conn: &Connection) -> i64 {
    conn.query_row("SELECT MAX(version) FROM schema_version", [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn a_file_of_every_earlier_version_is_migrated_without_loss() {
    for earlier in 1..=migrations().len() {
        let (dir, conn) = file_in_use(earlier);
        let store = open(&dir, Options::default()).unwrap();
        assert_eq!(version(&conn), i64::try_from(migrations().len()).unwrap());

        let found = store.load(&key("s"), TailBudget::ALL).await.unwrap().unwrap();
        assert_eq!((found.tail.len(), found.row.last_seq.0, found.state.len()), (1, 2, 1));
        assert_eq!(found.tail[0].message.content, "hello");
        assert_eq!(store.state_changes(&key("s"), page(0, 10)).await.unwrap().len(), 1);
        assert_eq!(store.read(&key("s"), page(0, 10)).await.unwrap(), found.tail);
        let runs: Vec<String> =
            store.runs(&key("s"), 10).await.unwrap().into_iter().map(|run| run.id).collect();
        assert_eq!(runs, if earlier > 1 { vec!["r2", "r1"] } else { vec![] });
        // New features work on old data.
        let stored = found.tail[0].message.clone();
        assert!(store.commit(&key("s"), Commit::message(stored)).await.unwrap().repeated);
        assert_eq!(store.commit(&key("s"), message_commit("m2")).await.unwrap().seq.0, 3);
        store.enqueue(&key("s"), run("q"), "payload".into()).await.unwrap();
        while store.index_next().await.unwrap() == IndexProgress::More {}
        let query =
            SearchQuery { user: "ann".into(), text: "hello".into(), limit: 5, ..SearchQuery::default() };
        let results = store.search(query).await.unwrap();
        let hits: Vec<u64> = results.hits.iter().map(|hit| hit.seq.0).collect();
        assert!(results.is_complete && hits.contains(&1), "{earlier}: {hits:?}");
        let second = NewSession { quota: Some(1), ..new_session(&key("second"), OnConflict::Fail) };
        assert!(matches!(store.create(second).await, Err(Error::QuotaReached { .. })), "{earlier}");
        assert!(store.delete(&key("s")).await.unwrap());
    }
}

#[tokio::test]
async fn an_empty_file_is_initialised() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(file(&dir), "").unwrap();
    let store = open(&dir, Options::default()).unwrap();
    store.create(new_session(&key("s"), OnConflict::Fail)).await.unwrap();
}

#[test]
fn a_file_of_a_later_version_is_refused_and_not_changed() {
    let (dir, conn) = file_in_use(migrations().len());
    conn.execute("INSERT INTO schema_version VALUES (99, 0)", []).unwrap();
    let refused = open(&dir, Options::default()).unwrap_err();
    assert!(matches!(&refused, Error::NewerSchema { found: 99, known, .. } if *known < 99), "{refused:?}");
    assert!(refused.to_string().contains("was written by a newer version (schema 99, this one reads 9)"));
    assert!(!refused.is_transient());
    assert_eq!(version(&conn), 99);
}

#[test]
fn a_failed_migration_is_rolled_back() {
    let (dir, conn) = file_in_use(1);
    conn.execute_batch("CREATE TABLE runs (foreign_to_us INTEGER)").unwrap();
    open(&dir, Options::default()).unwrap_err();
    assert_eq!(version(&conn), 1);
    let inbox = "SELECT COUNT(*) FROM sqlite_schema WHERE name = 'inbox'";
    assert_eq!(conn.query_row(inbox, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
}

#[tokio::test]
async fn committed_data_is_loaded_after_a_restart() {
    let (store, dir) = fresh(Options::default());
    store.create(new_session(&key("s"), OnConflict::Fail)).await.unwrap();
    store.commit(&key("s"), message_commit("m1")).await.unwrap();
    let before = store.load(&key("s"), TailBudget::ALL).await.unwrap().unwrap();
    drop(store);
    assert!(!dir.path().join("lango.db-wal").exists(), "a clean shutdown leaves one file");
    let store = open(&dir, Options::default()).unwrap();
    let after = store.load(&key("s"), TailBudget::ALL).await.unwrap().unwrap();
    assert_eq!((after.row, after.tail), (before.row, before.tail));
}
