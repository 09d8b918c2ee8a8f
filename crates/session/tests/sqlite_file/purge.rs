//! Deleting long sessions: which rows are deleted, kills between slices, two processes, and the space that is returned.

use crate::{
    common::{file, fresh, open, purge_all},
    schema::file_of_version,
};
use rusqlite::Connection;
use session::{
    Commit, OnConflict, Purge, PurgeProgress, PurgeSlice, SessionMessage, SessionStore, TailBudget, UsageLog,
    UsageQuery,
    sqlite::{Options, SqliteStore},
};
use std::time::Duration;
use testkit::store_suite::make::{key, message, message_commit, new_session};

fn slice(rows: usize) -> PurgeSlice {
    PurgeSlice { rows, time: Duration::MAX }
}

/// A session with `rows` messages of `size` bytes.
async fn long_session(store: &SqliteStore, name: &str, (rows, size): (usize, usize)) {
    let row = |n: usize| SessionMessage { content: "x".repeat(size), ..message(&format!("m{n}")) };
    let steps = vec![Commit { messages: (0..rows).map(row).collect(), ..Commit::default() }];
    let new = new_session(&key(name), OnConflict::Fail);
    store.create(session::NewSession { steps, ..new }).await.unwrap();
}

fn count(conn: &Connection, sql: &str) -> i64 {
    conn.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// A table that is added with a column `session_key` must be purged: foreign keys are off.
#[test]
fn every_table_with_rows_of_sessions_is_purged() {
    let (_store, dir) = fresh(Options::default());
    let conn = Connection::open(file(&dir)).unwrap();
    let tables = "SELECT t.name FROM sqlite_schema AS t JOIN pragma_table_info(t.name) AS c
                  WHERE t.type = 'table' AND c.name = 'session_key' ORDER BY t.name";
    let mut tables = conn.prepare(tables).unwrap();
    let tables: Vec<String> = tables.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let mut expected = vec!["deleted_sessions", "sessions"];
    expected.extend(session::sqlite::PURGED_TABLES);
    expected.sort_unstable();
    assert_eq!(tables, expected);
}

#[tokio::test]
async fn a_purge_continues_after_the_process_was_killed_between_two_slices() {
    let (store, dir) = fresh(Options::default());
    long_session(&store, "gone", (100, 10)).await;
    long_session(&store, "stays", (3, 10)).await;
    assert!(store.delete(&key("gone")).await.unwrap());
    assert_eq!(store.purge(slice(30)).await.unwrap(), PurgeProgress::More);
    // Dropping the store does nothing that a kill would not leave to the next process.
    drop(store);
    let store = open(&dir, Options::default()).unwrap();
    store.create(new_session(&key("gone"), OnConflict::Fail)).await.unwrap();
    store.commit(&key("gone"), message_commit("m1")).await.unwrap();
    let conn = Connection::open(file(&dir)).unwrap();
    assert_eq!(count(&conn, "SELECT COUNT(*) FROM messages"), 70 + 3 + 1);
    purge_all(&store).await;
    assert_eq!(count(&conn, "SELECT COUNT(*) FROM messages"), 3 + 1);
    assert_eq!(count(&conn, "SELECT COUNT(*) FROM deleted_sessions"), 0);
    let kept = store.load(&key("gone"), TailBudget::ALL).await.unwrap().unwrap();
    assert_eq!(kept.tail.len(), 1);
}

#[tokio::test]
async fn two_processes_purge_the_same_sessions() {
    let (store, dir) = fresh(Options::default());
    let other = open(&dir, Options::default()).unwrap();
    for n in 0..4 {
        long_session(&store, &format!("s{n}"), (50, 10)).await;
        let by = if n % 2 == 0 { &store } else { &other };
        assert!(by.delete(&key(&format!("s{n}"))).await.unwrap());
    }
    tokio::join!(purge_all(&store), purge_all(&other));
    let conn = Connection::open(file(&dir)).unwrap();
    assert_eq!(count(&conn, "SELECT COUNT(*) FROM messages"), 0);
    assert_eq!(count(&conn, "SELECT COUNT(*) FROM deleted_sessions"), 0);
}

#[tokio::test]
async fn a_purge_returns_space_to_the_file_system() {
    let (store, dir) = fresh(Options::default());
    long_session(&store, "stays", (10, 2_000)).await;
    long_session(&store, "gone", (4_000, 2_000)).await;
    let conn = Connection::open(file(&dir)).unwrap();
    let pages = || count(&conn, "SELECT page_count FROM pragma_page_count");
    let before = pages();
    assert!(store.delete(&key("gone")).await.unwrap());
    assert!(pages() >= before, "the first commit only takes the session away");
    purge_all(&store).await;
    assert!(pages() < before / 4, "{} of {before} pages", pages());
    assert_eq!(conn.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0)).unwrap(), "ok");
}

/// Files of earlier versions were created without incremental vacuum.
#[tokio::test]
async fn a_purge_of_a_file_of_an_earlier_version_ends() {
    let (dir, conn) = file_of_version(7, |_, _| ());
    let store = open(&dir, Options::default()).unwrap();
    long_session(&store, "gone", (1_000, 2_000)).await;
    assert!(store.delete(&key("gone")).await.unwrap());
    purge_all(&store).await;
    assert_eq!(count(&conn, "SELECT COUNT(*) FROM messages"), 0);
    assert!(count(&conn, "SELECT freelist_count FROM pragma_freelist_count") > 300);
}

const EARLIER: &str =
    "INSERT INTO sessions (app_name, user_id, session_id, last_seq, created_at, updated_at)
         VALUES ('app', 'ann', 'a', 3, 1, 1), ('app', 'ann', 'b', 3, 1, 1);
     WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 6)
     INSERT INTO messages (session_key, seq, tokens, timestamp, counted_by, message_id, role, author, meta, content)
         SELECT 1 + n % 2, (n + 1) / 2, 1, 86400 * n, '', 'm' || n, 'assistant', 'root',
             iif(n = 4, NULL, '{\"event\":{\"usageMetadata\":{\"promptTokenCount\":' || n || '}}}'), 'text' FROM n;";

#[tokio::test]
async fn rows_of_earlier_versions_are_counted_once_in_pages() {
    let (dir, conn) = file_of_version(7, |_, _| ());
    conn.execute_batch(EARLIER).unwrap();
    let store = open(&dir, Options::default()).unwrap();
    let other = open(&dir, Options::default()).unwrap();
    // A session is deleted before its rows are counted: the purge waits for the count.
    assert!(store.delete(&key("b")).await.unwrap());
    purge_all(&store).await;
    let mut found = Vec::new();
    while let Some(page) = store.uncounted(2).await.unwrap() {
        let entry = |row: &session::UncountedRow| {
            let number = row.meta.split(':').next_back().unwrap().trim_end_matches('}').parse().unwrap();
            let key = session::UsageKey { day: 7, agent: row.author.clone(), model: "m".into() };
            let counts = session::TokenCounts { fresh: number, ..session::TokenCounts::default() };
            (row.session, session::UsageEntry { key, counts })
        };
        let entries: Vec<_> = page.rows.iter().map(entry).collect();
        found.extend(entries.iter().map(|(session, entry)| (*session, entry.counts.fresh)));
        // Both processes have read the page, and it counts once.
        for store in [&store, &other] {
            store.count_page(page.range, entries.clone()).await.unwrap();
        }
        // New rows are not part of the backlog.
        let id = format!("new {}", found.len());
        store.commit(&key("a"), message_commit(&id)).await.unwrap();
    }
    assert_eq!(found, [(2, 1), (1, 2), (2, 3), (2, 5), (1, 6)]);
    let groups = vec![session::UsageGroup::Session];
    let mut sums = store.usage(UsageQuery { groups, ..UsageQuery::default() }).await.unwrap();
    sums.sort_by(|one, other| one.session.cmp(&other.session));
    let sums: Vec<_> = sums.into_iter().map(|sum| (sum.session.unwrap(), sum.counts.fresh)).collect();
    assert_eq!(sums, [(String::new(), 9), ("a".to_owned(), 8)]);
    purge_all(&store).await;
    assert_eq!(count(&conn, "SELECT COUNT(*) FROM messages WHERE session_key = 2"), 0);
}
