//! The search index in the file: two processes, interrupted indexing, an index that cannot be read, and its size.

use crate::common::{file, fresh, open, purge_all};
use rusqlite::Connection;
use session::{
    Commit, Error, IndexProgress, SearchQuery, SessionMessage, SessionSearch, SessionStore,
    sqlite::{Options, SqliteStore},
};
use std::sync::Arc;
use tempfile::TempDir;
use testkit::store_suite::{
    SharedStore,
    make::{key, message, session},
};

/// Stores messages with a common word in several sessions, and returns their number.
async fn fill(store: &SqliteStore) -> usize {
    let shared: SharedStore = Arc::new(store.clone());
    let (sessions, messages) = (3, 300);
    for name in 0..sessions {
        let key = session(&shared, &format!("s{name}")).await.unwrap();
        let message =
            |n: usize| SessionMessage { content: format!("common {n}"), ..message(&format!("m{n}")) };
        let messages = (0..messages).map(message).collect();
        store.commit(&key, Commit { messages, ..Commit::default() }).await.unwrap();
    }
    sessions * messages
}

async fn index(store: &SqliteStore) {
    while store.index_next().await.unwrap() == IndexProgress::More {}
}

fn count(dir: &TempDir, sql: &str) -> usize {
    Connection::open(file(dir)).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
}

/// The numbers of documents, and of documents that the index has for the common word.
fn indexed(dir: &TempDir) -> (usize, usize) {
    let hits = "SELECT COUNT(*) FROM search_index WHERE search_index MATCH 'common'";
    (count(dir, "SELECT COUNT(*) FROM search_documents"), count(dir, hits))
}

fn query() -> SearchQuery {
    SearchQuery { user: "ann".into(), text: "common".into(), limit: 5, ..SearchQuery::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_index_each_message_once() {
    let (store, dir) = fresh(Options::default());
    let messages = fill(&store).await;
    let other = open(&dir, Options::default()).unwrap();
    tokio::join!(index(&store), index(&other));
    store.check_index();
    index(&store).await;
    assert_eq!(indexed(&dir), (messages, messages));
}

#[tokio::test]
async fn interrupted_indexing_continues_after_a_restart() {
    let (store, dir) = fresh(Options::default());
    let messages = fill(&store).await;
    for _ in 0..2 {
        assert_eq!(store.index_next().await.unwrap(), IndexProgress::More);
    }
    assert!(!store.search(query()).await.unwrap().is_complete);
    drop(store);
    let (some, _) = indexed(&dir);
    assert!(some > 0 && some < messages, "{some}");
    let store = open(&dir, Options::default()).unwrap();
    index(&store).await;
    assert_eq!(indexed(&dir), (messages, messages));
}

#[tokio::test]
async fn a_deleted_session_leaves_nothing_in_the_index() {
    let (store, dir) = fresh(Options::default());
    fill(&store).await;
    index(&store).await;
    for name in 0..3 {
        assert!(store.delete(&key(&format!("s{name}"))).await.unwrap());
    }
    assert!(store.search(query()).await.unwrap().hits.is_empty());
    purge_all(&store).await;
    assert_eq!(indexed(&dir), (0, 0));
    for table in ["search_marks", "search_scopes", "memory_sessions", "search_index_docsize"] {
        assert_eq!(count(&dir, &format!("SELECT COUNT(*) FROM {table}")), 0, "{table}");
    }
}

#[tokio::test]
async fn a_damaged_index_does_not_keep_sessions_from_being_purged() {
    let (store, dir) = fresh(Options::default());
    fill(&store).await;
    index(&store).await;
    assert!(store.delete(&key("s0")).await.unwrap());
    drop(store);
    let conn = Connection::open(file(&dir)).unwrap();
    conn.execute("UPDATE search_index_data SET block = x'ffffffffffffffffffff'", []).unwrap();
    drop(conn);
    let store = open(&dir, Options::default()).unwrap();
    purge_all(&store).await;
    assert_eq!(count(&dir, "SELECT COUNT(*) FROM deleted_sessions"), 0);
    index(&store).await;
    assert_eq!(indexed(&dir), (600, 600));
}

#[tokio::test]
async fn a_damaged_index_is_built_anew() {
    let (store, dir) = fresh(Options::default());
    let messages = fill(&store).await;
    index(&store).await;
    drop(store);
    let conn = Connection::open(file(&dir)).unwrap();
    conn.execute("UPDATE search_index_data SET block = zeroblob(20) WHERE id > 10", []).unwrap();
    conn.execute("DELETE FROM search_documents WHERE document % 2 = 0", []).unwrap();
    drop(conn);
    let store = open(&dir, Options::default()).unwrap();
    store.reset_index().await.unwrap();
    index(&store).await;
    assert_eq!(indexed(&dir), (messages, messages));
    assert_eq!(store.search(query()).await.unwrap().hits.len(), 5);
}

#[tokio::test]
async fn an_index_of_another_segmentation_is_built_anew() {
    let (store, dir) = fresh(Options::default());
    let messages = fill(&store).await;
    index(&store).await;
    drop(store);
    let conn = Connection::open(file(&dir)).unwrap();
    conn.execute_batch(
        "UPDATE search_segmentation SET version = 0;
         INSERT INTO search_index (search_index) VALUES ('delete-all');",
    )
    .unwrap();
    drop(conn);
    let store = open(&dir, Options::default()).unwrap();
    index(&store).await;
    assert_eq!(indexed(&dir), (messages, messages));
    assert_eq!(count(&dir, "SELECT version FROM search_segmentation"), 1);
}

/// Nothing but the log is needed to append: an index that cannot be read or written delays no message.
#[tokio::test]
async fn a_message_is_committed_while_the_index_is_damaged() {
    let (store, dir) = fresh(Options::default());
    fill(&store).await;
    index(&store).await;
    drop(store);
    let conn = Connection::open(file(&dir)).unwrap();
    conn.execute("UPDATE search_index_data SET block = x'ffffffffffffffffffff'", []).unwrap();
    drop(conn);
    let store = open(&dir, Options::default()).unwrap();
    let text = SessionMessage { content: "common words".into(), ..message("late") };
    store.commit(&key("s0"), Commit::message(text)).await.unwrap();
    let failed = store.search(query()).await.unwrap_err();
    assert!(matches!(failed, Error::DamagedIndex { .. }), "{failed:?}");
    assert!(!failed.is_storage_fault(), "the store is ready");
    store.reset_index().await.unwrap();
    index(&store).await;
    assert_eq!(store.search(query()).await.unwrap().hits.len(), 5);
}
