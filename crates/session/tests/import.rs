//! Import of databases of Lango in Go: complete, in order, idempotent, without writing the source.

#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

use rusqlite::{Connection, params};
use serde_json::{Value, json};
use session::{
    NewSession, OnConflict, Seq, SessionKey, SessionLog, SessionMessage, SessionStore, StoredMessage,
    TailBudget,
    import::{Anomaly, ImportCount, ImportReport, ImportSourceError, ImportTarget, LangoDatabase},
    sqlite::{Options, SqliteStore},
};
use std::{
    fs,
    path::{Path, PathBuf},
};
use tempfile::TempDir;
use testkit::store_suite::make::{message_commit, page};

const SCHEMA: &str = include_str!("../../../fixtures/lango/schema.sql");
const CONVERSATIONS: &str = include_str!("../../../fixtures/lango/conversations.sql");

/// A database of Lango in Go, filled by the SQL.
fn lango(sql: &str) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("go.db");
    Connection::open(&path).unwrap().execute_batch(&format!("{SCHEMA}{sql}")).unwrap();
    (dir, path)
}

/// A database without constraints, which may contain any data.
fn loose(fill: impl FnOnce(&Connection)) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("go.db");
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch(
        "CREATE TABLE sessions (id INTEGER PRIMARY KEY, key, metadata, created_at, updated_at);
         CREATE TABLE messages (id INTEGER PRIMARY KEY, role, content, timestamp, tool_calls, author, session_messages);
         INSERT INTO sessions (id, key) VALUES (1, 's')",
    )
    .unwrap();
    fill(&conn);
    (dir, path)
}

fn ours() -> (SqliteStore, TempDir) {
    let home = tempfile::tempdir().unwrap();
    (SqliteStore::open(home.path().join("lango.db"), Options::default()).unwrap(), home)
}

fn key(session: &str) -> SessionKey {
    SessionKey::new("lango", "user", session)
}

async fn import(store: &SqliteStore, path: &Path) -> ImportReport {
    let mut report = ImportReport::default();
    let source = LangoDatabase::open(path).unwrap();
    for session in source.sessions(&mut report).unwrap() {
        let mut target = ImportTarget::open(store, key(&session.key), &session, &mut report).await.unwrap();
        for batch in session.batches() {
            let rows = source.read(batch, &mut report).unwrap();
            target.add(rows, &mut report).await.unwrap();
        }
    }
    report
}

async fn log(store: &SqliteStore, session: &str) -> Vec<StoredMessage> {
    store.read(&key(session), page(0, 10_000)).await.unwrap()
}

async fn rows_as_lines(store: &SqliteStore, session: &str) -> Vec<String> {
    let line = |row: StoredMessage| format!("{}: {}", row.message.role, row.message.content);
    log(store, session).await.into_iter().map(line).collect()
}

fn count(imported: u64, present: u64) -> ImportCount {
    ImportCount { imported, present }
}

fn anomalies(report: &ImportReport) -> Vec<(Anomaly, u64)> {
    report.anomalies.iter().map(|(anomaly, seen)| (*anomaly, seen.count)).collect()
}

#[tokio::test]
async fn messages_are_imported_in_the_order_of_time_then_number() {
    let (_dir, path) = lango(CONVERSATIONS);
    let (store, _home) = ours();
    let report = import(&store, &path).await;
    assert_eq!((report.sessions, report.messages), (count(8, 0), count(24, 0)));
    assert_eq!(
        rows_as_lines(&store, "talk").await,
        ["user: I am Ann.", "assistant: Hello Ann.", "user: What is my name?", "assistant: Ann."]
    );
    let row = &log(&store, "talk").await[0].message;
    assert_eq!((row.id.as_str(), row.timestamp), ("lango:2:1771117201500000000", 1_771_117_201.5));
    assert_eq!((row.meta.as_deref(), row.counted_by.as_str()), (None, ""));
    let authors: Vec<String> = log(&store, "talk").await.into_iter().map(|row| row.message.author).collect();
    assert_eq!(authors, ["user", "", "user", ""], "the name of the old root agent is dropped");
}

#[tokio::test]
async fn tool_calls_results_and_signatures_are_imported_unchanged() {
    let (_dir, path) = lango(CONVERSATIONS);
    let (store, _home) = ours();
    import(&store, &path).await;
    let rows = log(&store, "tools").await;
    let calls: Vec<Value> =
        rows.iter().map(|row| serde_json::to_value(&row.message.tool_calls).unwrap()).collect();
    assert_eq!(
        calls[1],
        json!([
            {"id": "c1", "name": "fs_read", "input": "{\"path\":\"a.txt\"}"},
            {"id": "c2", "name": "fs_read", "input": "{\"path\":\"b.txt\"}", "thought": true, "thoughtSignature": "c2ln"},
        ])
    );
    assert_eq!(calls[2][1], json!({"id": "c2", "name": "fs_read", "output": "{\"text\":\"B\"}"}));
    assert_eq!(rows[1].message.author, "operator");
    assert_eq!(log(&store, "legacy").await[2].message.tool_calls, []);
}

#[tokio::test]
async fn a_session_is_imported_with_state_title_and_other_columns() {
    let (_dir, path) = lango(CONVERSATIONS);
    let (store, _home) = ours();
    import(&store, &path).await;
    let loaded = store.load(&key("tools"), TailBudget::NONE).await.unwrap().unwrap();
    let state: Vec<(String, Value)> =
        loaded.state.into_iter().map(|change| (change.key, change.value)).collect();
    let imported = json!({
        "from": "lango", "created_at": "2026-02-16 10:00:00+09:00", "updated_at": "2026-02-16 10:05:00+09:00",
        "agent_id": "default", "channel_type": "telegram", "channel_id": "42", "model": "gemini-3-flash",
    });
    let expected = [("lang", json!("ko")), ("visits", json!(3)), ("imported", imported)];
    assert_eq!(state, expected.map(|(key, value)| (key.to_owned(), value)));
    assert_eq!(loaded.row.title.as_deref(), Some("Read a.txt and b.txt"));
}

#[tokio::test]
async fn the_most_recently_used_session_is_listed_first() {
    let (_dir, path) = lango(CONVERSATIONS);
    let (store, _home) = ours();
    import(&store, &path).await;
    let query = session::ListQuery { limit: 3, ..session::ListQuery::default() };
    let listed = store.list(query).await.unwrap();
    let listed: Vec<&str> = listed.iter().map(|row| row.key.session_id.as_str()).collect();
    assert_eq!(listed, ["tools", "talk", "legacy"]);
}

#[tokio::test]
async fn a_repeated_import_changes_nothing_and_a_later_one_adds_new_messages() {
    let (_dir, path) = lango(CONVERSATIONS);
    let (store, _home) = ours();
    import(&store, &path).await;
    let before = store.load(&key("talk"), TailBudget::ALL).await.unwrap().unwrap();

    let again = import(&store, &path).await;
    assert_eq!((again.sessions, again.messages), (count(0, 8), count(0, 24)));
    assert_eq!(anomalies(&again), []);
    let after = store.load(&key("talk"), TailBudget::ALL).await.unwrap().unwrap();
    assert_eq!((before.row, before.tail, before.state), (after.row, after.tail, after.state));

    // The conversation continues in both databases.
    store.commit(&key("talk"), message_commit("ours")).await.unwrap();
    Connection::open(&path)
        .unwrap()
        .execute_batch(
            "DELETE FROM messages WHERE id = 1;
             INSERT INTO messages (role, content, timestamp, session_messages) VALUES ('user', 'Still there?', '2026-02-20 10:00:00+09:00', 1)",
        )
        .unwrap();
    let third = import(&store, &path).await;
    assert_eq!((third.messages, anomalies(&third)), (count(1, 23), vec![]));
    let lines = rows_as_lines(&store, "talk").await;
    assert_eq!(lines[1], "assistant: Hello Ann.");
    assert_eq!(lines[4..], ["user: text of ours", "user: Still there?"]);
}

#[tokio::test]
async fn two_files_with_the_same_key_and_numbers_are_both_imported() {
    let one = "INSERT INTO sessions VALUES (1, 'default', NULL, NULL, NULL, NULL, NULL, '2026-01-01 00:00:00Z', '2026-01-01 00:00:00Z');
        INSERT INTO messages VALUES (1, 'user', 'on the laptop', '2026-01-01 00:00:00.1Z', NULL, 'user', 1);";
    let (_one, first) = lango(one);
    let (_two, second) = lango(&one.replace("laptop", "server").replace("00.1Z", "00.2Z"));
    let (store, _home) = ours();
    import(&store, &first).await;
    assert_eq!(import(&store, &second).await.messages, count(1, 0));
    assert_eq!(rows_as_lines(&store, "default").await, ["user: on the laptop", "user: on the server"]);
}

#[tokio::test]
async fn messages_are_appended_to_an_existing_session_and_reported_as_an_anomaly() {
    let (_dir, path) = lango(CONVERSATIONS);
    let (store, _home) = ours();
    let new = NewSession {
        key: key("talk"),
        state: Vec::new(),
        steps: Vec::new(),
        on_conflict: OnConflict::Fail,
        quota: None,
    };
    store.create(new).await.unwrap();
    store.commit(&key("talk"), message_commit("ours")).await.unwrap();
    let report = import(&store, &path).await;
    assert_eq!(report.anomalies[&Anomaly::ExistingSession].examples, ["talk"]);
    assert_eq!(rows_as_lines(&store, "talk").await[..2], ["user: text of ours", "user: I am Ann."]);
    assert_eq!(anomalies(&import(&store, &path).await), []);
}

#[tokio::test]
async fn malformed_rows_are_imported_and_reported_as_anomalies() {
    let (_dir, path) = loose(|conn| {
        conn.execute_batch("INSERT INTO sessions VALUES (2, NULL, 'not json', NULL, NULL), (3, 'm', '{\"user:a\":\"1\",\"b\":\"x\"}', 5, 'never')").unwrap();
        let mut row = conn.prepare("INSERT INTO messages (role, content, timestamp, tool_calls, author, session_messages) VALUES (?1, ?2, ?3, ?4, ?5, ?6)").unwrap();
        let at = "2026-02-15 10:00:00Z";
        row.execute(params![None::<&str>, None::<&str>, at, None::<&str>, None::<&str>, 1]).unwrap();
        row.execute(params!["user", b"caf\xe9".as_slice(), "someday", "{", None::<&str>, 1]).unwrap();
        row.execute(params![
            "assistant",
            7,
            at,
            "[{\"id\":1,\"name\":\"f\",\"input\":{\"a\":1},\"x\":0}, 5]",
            1.5,
            1
        ])
        .unwrap();
        row.execute(params!["user", "\0\u{1b}[31m", at, "null", "user", 1]).unwrap();
        row.execute(params!["user", "x".repeat(20_000_000), at, "", "user", 1]).unwrap();
        row.execute(params!["user", "of nobody", at, "", "user", 77]).unwrap();
    });
    let (store, _home) = ours();
    let report = import(&store, &path).await;
    assert_eq!((report.sessions, report.messages), (count(3, 0), count(5, 0)));
    assert_eq!(
        anomalies(&report),
        [
            (Anomaly::NoSession, 1),
            (Anomaly::NoKey, 1),
            (Anomaly::NoTime, 1),
            (Anomaly::UnknownRole, 1),
            (Anomaly::InvalidUtf8, 1),
            (Anomaly::UnreadableCalls, 2),
            (Anomaly::UnexpectedCall, 1),
            (Anomaly::UnreadableState, 1),
            (Anomaly::SharedState, 1),
        ]
    );
    assert_eq!(report.anomalies[&Anomaly::NoTime].examples, ["s #2"]);
    let rows = log(&store, "s").await;
    let SessionMessage { content, timestamp, tool_calls, .. } = &rows[1].message;
    assert_eq!(
        (content.as_str(), *timestamp, tool_calls.len()),
        ("caf\u{fffd}", rows[0].message.timestamp, 0)
    );
    let call = &rows[2].message.tool_calls[0];
    assert_eq!((call.id.as_str(), call.input.as_str()), ("1", "{\"a\":1}"));
    assert_eq!((rows[2].message.content.as_str(), rows[2].message.author.as_str()), ("7", "1.5"));
    assert_eq!(rows[3].message.content, "\0\u{1b}[31m");
    assert_eq!(rows[4].message.content.len(), 20_000_000);
    assert_eq!(anomalies(&import(&store, &path).await), [(Anomaly::NoSession, 1)]);
}

#[tokio::test]
async fn an_early_schema_without_author_and_a_later_one_with_ciphertext_are_imported() {
    let early = SCHEMA.replace("`author` text NULL DEFAULT '', ", "").replace("`metadata` json NULL, ", "");
    let later = SCHEMA.replace("`author`", "`content_ciphertext` blob NULL, `author`");
    for (schema, extra, expected) in
        [(early, "", vec![]), (later, ", content_ciphertext = x'00'", vec![(Anomaly::Encrypted, 1)])]
    {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("go.db");
        let rows = "INSERT INTO sessions (id, key, created_at, updated_at) VALUES (1, 's', '2026-01-01', '2026-01-01');
            INSERT INTO messages (role, content, timestamp, session_messages) VALUES ('user', 'hi', '2026-01-01 00:00:00', 1);";
        let conn = Connection::open(&path).unwrap();
        conn.execute_batch(&format!("{schema}{rows} UPDATE messages SET role = role{extra}")).unwrap();
        let (store, _home) = ours();
        assert_eq!(anomalies(&import(&store, &path).await), expected);
        assert_eq!(rows_as_lines(&store, "s").await, ["user: hi"]);
    }
}

#[tokio::test]
async fn an_interrupted_import_is_continued_without_a_gap() {
    let (_dir, path) = lango("INSERT INTO sessions VALUES (1, 's', NULL, NULL, NULL, NULL, NULL, '2026-01-01 00:00:00Z', '2026-01-01 00:00:00Z');
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1200)
        INSERT INTO messages (role, content, timestamp, session_messages) SELECT 'user', 'm' || i, '2026-01-01 00:00:00Z', 1 FROM n;");
    let (store, _home) = ours();
    let mut report = ImportReport::default();
    let source = LangoDatabase::open(&path).unwrap();
    let session = source.sessions(&mut report).unwrap().remove(0);
    let batches: Vec<_> = session.batches().collect();
    let mut target = ImportTarget::open(&store, key("s"), &session, &mut report).await.unwrap();
    target.add(source.read(batches[0], &mut report).unwrap(), &mut report).await.unwrap();
    assert_eq!(report.messages, count(500, 0));

    // A concurrent write is a conflict: the next batch would no longer follow the previous one.
    let last = log(&store, "s").await.last().unwrap().seq;
    store.commit(&key("s"), message_commit("ours")).await.unwrap();
    let refused = target.add(source.read(batches[1], &mut report).unwrap(), &mut report).await.unwrap_err();
    assert!(matches!(refused, session::Error::Conflict { expected, .. } if expected == last), "{refused:?}");

    assert_eq!(import(&store, &path).await.messages, count(700, 500));
    let rows = log(&store, "s").await;
    let texts: Vec<String> = rows.iter().map(|row| row.message.content.clone()).collect();
    let mut expected: Vec<String> = (1..=1200).map(|number| format!("m{number}")).collect();
    expected.insert(500, "text of ours".to_owned());
    assert_eq!(texts, expected);
    assert!(rows.windows(2).all(|pair| pair[0].seq.next() == pair[1].seq) && rows[0].seq == Seq(2));
}

#[tokio::test]
async fn the_source_is_not_written_even_with_a_write_ahead_log() {
    let (dir, path) = lango(CONVERSATIONS);
    let (store, _home) = ours();
    let plain = fs::read(&path).unwrap();
    import(&store, &path).await;
    assert_eq!(fs::read(&path).unwrap(), plain);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no file is left beside the source");

    // A running Lango: the newest message is only in the write-ahead log.
    let running = Connection::open(&path).unwrap();
    running.pragma_update(None, "journal_mode", "wal").unwrap();
    running.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
    running
        .execute_batch("INSERT INTO messages (role, content, timestamp, session_messages) VALUES ('user', 'new', '2026-03-01 00:00:00Z', 1)")
        .unwrap();
    let wal = dir.path().join("go.db-wal");
    let before = (fs::read(&path).unwrap(), fs::read(&wal).unwrap());
    assert_eq!(import(&store, &path).await.messages, count(1, 24));
    assert_eq!((fs::read(&path).unwrap(), fs::read(&wal).unwrap()), before);

    // A killed Lango: the write-ahead log remains, without an index.
    let killed = tempfile::tempdir().unwrap();
    let copy = killed.path().join("go.db");
    fs::write(&copy, &before.0).unwrap();
    fs::write(killed.path().join("go.db-wal"), &before.1).unwrap();
    let (store, _home) = ours();
    assert_eq!(import(&store, &copy).await.messages, count(25, 0));
    assert_eq!((fs::read(&copy).unwrap(), fs::read(killed.path().join("go.db-wal")).unwrap()), before);
}

#[test]
fn each_unusable_source_file_has_its_own_error_text() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::write(
        at("encrypted.db"),
        (0..8192_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect::<Vec<_>>(),
    )
    .unwrap();
    fs::write(at("empty.db"), "").unwrap();
    drop(SqliteStore::open(at("ours.db"), Options::default()).unwrap());
    Connection::open(at("other.db"))
        .unwrap()
        .execute_batch("CREATE TABLE sessions (id, key); CREATE TABLE messages (id, role)")
        .unwrap();
    let (_lango, damaged) = lango(CONVERSATIONS);
    let mut bytes = fs::read(&damaged).unwrap();
    let end = bytes.len();
    bytes[4096..end].fill(0xff);
    fs::write(&damaged, bytes).unwrap();
    let error_text = |path: &Path| {
        let opened = LangoDatabase::open(path)
            .and_then(|source| source.sessions(&mut ImportReport::default()).map(drop));
        opened.unwrap_err().to_string().replace(&path.display().to_string(), "FILE")
    };
    let expected = [
        ("none.db", "there is no file FILE"),
        ("", "FILE is not a file"),
        (
            "encrypted.db",
            "FILE is encrypted or not a database; if Lango in Go has encrypted it, its `lango security db-decrypt` makes it readable",
        ),
        ("empty.db", "FILE is a database, but not one of Lango in Go: it has no table sessions"),
        ("ours.db", "FILE is a database of this Lango; its sessions need no import"),
        (
            "other.db",
            "FILE is a database, but not one of Lango in Go: it has no column content in its table messages",
        ),
    ];
    for (name, text) in expected {
        assert_eq!(error_text(&at(name)), text);
    }
    assert_eq!(
        error_text(&damaged),
        "FILE is damaged; import from a good copy, or from what `sqlite3 FILE .recover` can save"
    );
}

#[test]
fn a_source_file_locked_by_another_process_is_refused() {
    let (_dir, path) = lango(CONVERSATIONS);
    let holder = Connection::open(&path).unwrap();
    holder.execute_batch("BEGIN EXCLUSIVE").unwrap();
    assert!(matches!(LangoDatabase::open(&path), Err(ImportSourceError::Locked { .. })));
}

#[test]
fn a_source_file_with_a_hot_journal_is_refused_and_not_changed() {
    let (dir, path) = lango(CONVERSATIONS);
    let writer = Connection::open(&path).unwrap();
    writer
        .execute_batch("PRAGMA cache_size = 1; BEGIN; UPDATE messages SET content = hex(zeroblob(9000))")
        .unwrap();
    let crashed = dir.path().join("crashed.db");
    fs::copy(&path, &crashed).unwrap();
    fs::copy(dir.path().join("go.db-journal"), dir.path().join("crashed.db-journal")).unwrap();
    let before = fs::read(&crashed).unwrap();
    let refused = LangoDatabase::open(&crashed).map(drop);
    assert!(matches!(refused, Err(ImportSourceError::Unfinished { .. })), "{refused:?}");
    assert_eq!(fs::read(&crashed).unwrap(), before);
}

#[test]
fn the_store_refuses_to_open_a_database_of_lango_in_go() {
    let (_dir, path) = lango(CONVERSATIONS);
    let refused = SqliteStore::open(&path, Options::default()).unwrap_err();
    assert!(matches!(refused, session::Error::LangoInGo { .. }), "{refused:?}");
    let rows: i64 = Connection::open(&path)
        .unwrap()
        .query_row("SELECT COUNT(*) FROM messages", [], |row| row.get(0))
        .unwrap();
    assert_eq!(rows, 24);
}
