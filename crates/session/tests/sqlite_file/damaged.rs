//! Damage to one session: errors name the session, and other sessions keep working.

use crate::common::{file, open, purge_all};
use rusqlite::Connection;
use session::{
    Commit, Error, ListQuery, OnConflict, Owners, RunStore, SessionLog, SessionMessage, SessionRow,
    SessionStore, TailBudget, TakeOver,
    sqlite::{Options, SqliteStore},
};
use std::{collections::BTreeSet, fs, sync::Mutex};
use tempfile::TempDir;
use testkit::store_suite::make::{key, message, message_commit, new_session, page, run_of, start_commit};

static REPORTED: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn report(line: &str) {
    REPORTED.lock().unwrap().push(line.to_owned());
}

fn reporting() -> Options {
    Options { report: Some(report), ..Options::default() }
}

/// Two sessions, each with a message that fills a page.
async fn two_sessions() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, Options::default()).unwrap();
    for name in ["good", "bad"] {
        store.create(new_session(&key(name), OnConflict::Fail)).await.unwrap();
        let content = format!("text of {name} ").repeat(200);
        let message = SessionMessage { content, ..message("m1") };
        store
            .commit(&key(name), Commit { title: Some(name.to_owned()), ..Commit::message(message) })
            .await
            .unwrap();
    }
    dir
}

fn change(dir: &TempDir, sql: &str) {
    let conn = Connection::open(file(dir)).unwrap();
    assert!(conn.execute(sql, []).unwrap() > 0, "{sql}");
}

/// Overwrites every page of a kind (its first byte) that contains the text. Returns their number.
fn overwrite_pages(dir: &TempDir, kind: u8, text: &str) -> usize {
    let mut bytes = fs::read(file(dir)).unwrap();
    let holds =
        |page: &&mut [u8]| page[0] == kind && page.windows(text.len()).any(|part| part == text.as_bytes());
    let pages: Vec<&mut [u8]> = bytes.chunks_mut(4096).filter(holds).collect();
    let count = pages.len();
    for page in pages {
        page.fill(0xa5);
    }
    fs::write(file(dir), bytes).unwrap();
    count
}

const TABLE_LEAF: u8 = 0x0d;

async fn list(store: &SqliteStore, after: Option<SessionRow>, limit: usize) -> Vec<SessionRow> {
    store.list(ListQuery { after, limit, ..ListQuery::default() }).await.unwrap()
}

#[track_caller]
fn assert_names<T: std::fmt::Debug>(refused: session::Result<T>, name: &str) {
    let error = refused.unwrap_err();
    assert!(matches!(&error, Error::DamagedSession { key: found, .. } if *found == key(name)), "{error:?}");
    assert!(!error.is_storage_fault() && !error.is_transient(), "a retry does not help");
}

#[tokio::test]
async fn an_unreadable_row_damages_only_its_session() {
    let table = [
        "UPDATE messages SET content = CAST(x'ff' AS TEXT) WHERE session_key = 2",
        "UPDATE messages SET tokens = -1 WHERE session_key = 2",
        "INSERT INTO session_state (session_key, key, value) VALUES (2, 'k', 'not JSON')",
        "UPDATE sessions SET last_seq = -1 WHERE session_key = 2",
    ];
    for sql in table {
        let dir = two_sessions().await;
        change(&dir, sql);
        let store = open(&dir, reporting()).unwrap();
        assert_names(store.load(&key("bad"), TailBudget::ALL).await, "bad");
        store.load(&key("good"), TailBudget::ALL).await.unwrap().unwrap();
        store.commit(&key("good"), message_commit("m2")).await.unwrap();
        let listed: BTreeSet<String> =
            list(&store, None, 10).await.into_iter().map(|row| row.key.session_id).collect();
        assert_eq!(listed, BTreeSet::from(["bad".to_owned(), "good".to_owned()]), "{sql}");
    }
    let lines = REPORTED.lock().unwrap();
    assert!(lines.iter().any(|line| line.contains("session app/ann/bad is damaged: ")), "{lines:?}");
    assert!(lines.iter().all(|line| !line.contains("good")), "{lines:?}");
}

#[tokio::test]
async fn spec_b1_a_row_with_unreadable_calls_keeps_its_text() {
    for sql in ["'{broken'", "'[{\"id\": 7}]'", "CAST(x'ff' AS TEXT)", "'null'"] {
        let dir = two_sessions().await;
        change(&dir, &format!("UPDATE messages SET tool_calls = {sql} WHERE session_key = 2"));
        let store = open(&dir, Options::default()).unwrap();
        let found = store.load(&key("bad"), TailBudget::ALL).await.unwrap().unwrap();
        let [row] = &found.tail[..] else { panic!("one row: {found:?}") };
        assert!(row.message.content.starts_with("text of bad") && row.message.tool_calls.is_empty(), "{sql}");
    }
}

#[tokio::test]
async fn a_damaged_page_damages_only_its_session() {
    let dir = two_sessions().await;
    assert_eq!(overwrite_pages(&dir, TABLE_LEAF, "text of bad text of bad"), 1);
    let store = open(&dir, Options::default()).unwrap();
    assert_names(store.load(&key("bad"), TailBudget::ALL).await, "bad");
    assert_names(store.read(&key("bad"), page(0, 10)).await, "bad");
    let found = store.load(&key("good"), TailBudget::ALL).await.unwrap().unwrap();
    assert_eq!(found.tail.len(), 1);
    store.commit(&key("good"), message_commit("m2")).await.unwrap();
    store.create(new_session(&key("new"), OnConflict::Fail)).await.unwrap();
    assert_eq!(list(&store, None, 10).await.len(), 3);
}

#[tokio::test]
async fn a_session_with_a_damaged_page_can_be_deleted() {
    let dir = two_sessions().await;
    assert_eq!(overwrite_pages(&dir, TABLE_LEAF, "text of bad text of bad"), 1);
    let store = open(&dir, Options::default()).unwrap();
    assert!(store.delete(&key("bad")).await.unwrap());
    assert!(store.load(&key("bad"), TailBudget::ALL).await.unwrap().is_none());
    // Its rows stay in the file, and the purge ends.
    purge_all(&store).await;
    let conn = Connection::open(file(&dir)).unwrap();
    let tombstones = "SELECT COUNT(*) FROM deleted_sessions WHERE is_damaged = 1";
    assert_eq!(conn.query_row(tombstones, [], |row| row.get::<_, i64>(0)).unwrap(), 1);
    store.create(new_session(&key("bad"), OnConflict::Fail)).await.unwrap();
    assert!(store.load(&key("bad"), TailBudget::ALL).await.unwrap().unwrap().tail.is_empty());
}

#[tokio::test]
async fn a_list_marks_sessions_with_unreadable_rows_as_damaged() {
    let dir = two_sessions().await;
    change(&dir, "UPDATE sessions SET last_seq = -1 WHERE session_key = 2");
    let store = open(&dir, Options::default()).unwrap();
    let (mut after, mut listed) = (None, Vec::new());
    while let Some(row) = list(&store, after, 1).await.pop() {
        listed.push((row.key.session_id.clone(), row.is_damaged));
        after = Some(row);
    }
    listed.sort();
    assert_eq!(listed, [("bad".to_owned(), true), ("good".to_owned(), false)]);
}

#[tokio::test]
async fn a_damaged_page_of_the_session_table_hides_no_other_session() {
    const SESSIONS: usize = 300;
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, Options::default()).unwrap();
    for number in 0..SESSIONS {
        let key = key(&format!("s{number}"));
        store.create(new_session(&key, OnConflict::Fail)).await.unwrap();
        let title = Some(format!("title of {number}."));
        store.commit(&key, Commit { title, ..message_commit("m1") }).await.unwrap();
    }
    drop(store);
    assert_eq!(overwrite_pages(&dir, TABLE_LEAF, "title of 150."), 1);
    let store = open(&dir, Options::default()).unwrap();
    let whole = list(&store, None, usize::MAX).await;
    let names: BTreeSet<&str> = whole.iter().map(|row| row.key.session_id.as_str()).collect();
    assert_eq!((whole.len(), names.len()), (SESSIONS, SESSIONS));
    let damaged: Vec<&SessionRow> = whole.iter().filter(|row| row.is_damaged).collect();
    assert!(!damaged.is_empty() && damaged.len() < SESSIONS / 2, "{}", damaged.len());
    for row in damaged {
        assert_names(store.load(&row.key, TailBudget::NONE).await, &row.key.session_id);
    }
    // Paging yields the same list.
    let (mut after, mut paged) = (None, Vec::new());
    loop {
        let rows = list(&store, after.clone(), 7).await;
        let Some(last) = rows.last() else { break };
        after = Some(last.clone());
        paged.extend(rows);
    }
    assert_eq!(paged, whole);
}

#[tokio::test]
async fn a_damaged_session_does_not_block_the_take_over_of_other_runs() {
    let dir = two_sessions().await;
    let store = open(&dir, Options::default()).unwrap();
    for name in ["good", "bad"] {
        store.commit(&key(name), start_commit(run_of("dead", "r"))).await.unwrap();
    }
    change(&dir, "UPDATE runs SET run_id = CAST(x'ff' AS TEXT) WHERE session_key = 2");
    let owners: Vec<String> = store.owners().await.unwrap().into_iter().map(|owner| owner.name).collect();
    assert_eq!(owners, ["dead"]);
    let gone = vec![session::GoneOwner { name: "dead".into(), if_beats: None }];
    let change = TakeOver { gone, owner: "me".into(), session: None };
    let taken = store.take_over(change).await.unwrap();
    assert_eq!(taken.into_iter().map(|run| run.key).collect::<Vec<_>>(), [key("good")]);
}
