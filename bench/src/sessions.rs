//! Lists of 100,000 sessions, and turns' commits while a session of a million events is deleted.

use crate::{
    BenchEnv, Result,
    figure::{Figure, Target},
    measure::{Samples, milliseconds, repeat},
    raw,
    rows::Rows,
};
use bridge::{Archive, store::upkeep::Upkeep};
use rusqlite::Connection;
use session::{
    Commit, ListOrder, ListQuery, NewSession, OnConflict, SessionKey, SessionMessage, SessionStore,
    sqlite::{Options, SqliteStore},
};
use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::runtime::Runtime;

const SESSIONS: u32 = 100_000;
const EVENTS: i64 = 1_000_000;
const PAGE: usize = 50;
/// How long commits are measured before the delete.
const BEFORE: Duration = Duration::from_secs(3);
/// The longest measurement during the delete.
const DURING: Duration = Duration::from_mins(4);

pub(crate) fn lists(env: &BenchEnv) -> Result<Vec<Figure>> {
    let directory = env.directory()?;
    let path = directory.path().join("lists.db");
    drop(SqliteStore::open(&path, Options::default())?);
    insert_sessions(&path)?;
    let store: Arc<SqliteStore> = Arc::new(SqliteStore::open(&path, Options::default())?);
    let (archive, runtime) = (Archive::new(Arc::<SqliteStore>::clone(&store)), Runtime::new()?);
    let page = || {
        let (rows, next) = runtime.block_on(archive.list_page(("bench", "user"), None, PAGE))?;
        if rows.len() == PAGE && next.is_some() { Ok(()) } else { Err("the page is not full".into()) }
    };
    let pages = repeat(20, 500, page)?;
    let changed = |app: Option<&str>| {
        let (app, user) = (app.map(str::to_owned), Some("user".to_owned()));
        let query = ListQuery { app, user, order: ListOrder::Changed, limit: PAGE, ..ListQuery::default() };
        let rows = runtime.block_on(store.list(query))?;
        if rows.len() == PAGE { Ok(()) } else { Err("the page is not full".into()) }
    };
    let of_cli = repeat(3, 30, || changed(None))?;
    let all = repeat(1, 5, || {
        let mut count = 0;
        runtime.block_on(async {
            let mut list = archive.list("bench", "user").await?;
            while list.next().await?.is_some() {
                count += 1;
            }
            Ok::<_, adk::error::ServiceError>(())
        })?;
        if count == SESSIONS { Ok(()) } else { Err(format!("{count} sessions").into()) }
    })?;
    Ok(vec![
        Figure::median("lists/page", &pages, "ms").target(Target::AtMost(5.0)),
        Figure::median("lists/recent", &of_cli, "ms"),
        Figure::median("lists/all", &all, "ms").target(Target::AtMost(500.0)),
    ])
}

/// The times of change are those of 5,000 new sessions in a second.
fn insert_sessions(path: &Path) -> Result<()> {
    let conn = Connection::open(path)?;
    conn.execute_batch("BEGIN")?;
    let mut session = conn.prepare(
        "INSERT INTO sessions (app_name, user_id, session_id, title, created_at, updated_at)
         VALUES ('bench', 'user', ?1, 'a question about lists', ?2, ?2)",
    )?;
    let mut state = conn
        .prepare("INSERT INTO session_state (session_key, key, value) VALUES (?1, 'topic', '\"lists\"')")?;
    for number in 0..SESSIONS {
        session.execute((format!("session-{number:08x}"), 1.7e9 + f64::from(number) / 5e3))?;
        state.execute((conn.last_insert_rowid(),))?;
    }
    conn.execute_batch("COMMIT")?;
    Ok(())
}

pub(crate) fn deletes(env: &BenchEnv) -> Result<Vec<Figure>> {
    let directory = env.directory()?;
    let (path, rows) = (directory.path().join("deletes.db"), Rows::new());
    let long = SessionKey::new("bench", "user", "long");
    drop(raw::create(&path, std::slice::from_ref(&long))?);
    raw::grow(&path, &mut || rows.next(), EVENTS)?;
    let store = Arc::new(SqliteStore::open(&path, Options::default())?);
    let size = || std::fs::metadata(&path).map(|file| file.len());
    let full = size()?;
    let runtime = Runtime::new()?;
    let key = SessionKey::new("bench", "user", "other");
    let new = NewSession {
        key: key.clone(),
        state: Vec::new(),
        steps: Vec::new(),
        on_conflict: OnConflict::Fail,
        quota: None,
    };
    runtime.block_on(store.create(new))?;
    let commit = |message: SessionMessage| -> Result<f64> {
        let started = Instant::now();
        runtime.block_on(store.commit(&key, Commit::message(message)))?;
        Ok(milliseconds(started.elapsed()))
    };
    let (mut before, started) = (Vec::new(), Instant::now());
    while started.elapsed() < BEFORE {
        before.push(commit(rows.next())?);
    }
    let started = Instant::now();
    runtime.block_on(store.delete(&long))?;
    let gone = milliseconds(started.elapsed());
    let purge = runtime.spawn(Upkeep::new(Arc::<SqliteStore>::clone(&store)).purge_once());
    let mut during = Vec::new();
    while !purge.is_finished() && started.elapsed() < DURING {
        during.push(commit(rows.next())?);
    }
    let seconds = started.elapsed().as_secs_f64();
    purge.abort();
    drop(store);
    let (before, during) = (Samples::new(before), Samples::new(during));
    let slower = during.median() / before.median();
    let tail = during.percentile(99) / before.percentile(99);
    #[expect(clippy::cast_precision_loss, reason = "the sizes of files are far below 2^52")]
    let left = size()? as f64 / full as f64;
    Ok(vec![
        Figure::new("deletes/gone", gone, "ms"),
        Figure::median("deletes/commit_before", &before, "ms"),
        Figure::median("deletes/commit_during", &during, "ms"),
        Figure::new("deletes/slower", slower, "ratio").target(Target::AtMost(2.0)),
        Figure::new("deletes/slower_p99", tail, "ratio"),
        Figure::new("deletes/time", seconds, "s"),
        Figure::new("deletes/file_left", left, "ratio").target(Target::AtMost(0.1)),
    ])
}
