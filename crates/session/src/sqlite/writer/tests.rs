//! Tests of the writer: rollback, batches, inline commits.

use super::*;
use std::{
    future::poll_fn,
    path::Path,
    pin::pin,
    task::{Context, Poll, Waker},
    thread::ThreadId,
    time::Duration,
};

/// An in-memory database with a deferred foreign key: an orphan in `child` fails at COMMIT.
fn writer_with(options: Options) -> Writer {
    let conn = Connection::open_in_memory().unwrap();
    conn.execute_batch(
        "PRAGMA foreign_keys = ON;
         CREATE TABLE parent (id INTEGER PRIMARY KEY);
         CREATE TABLE child (id INTEGER REFERENCES parent DEFERRABLE INITIALLY DEFERRED)",
    )
    .unwrap();
    start(conn, Path::new("test.db"), options)
}

fn writer() -> Writer {
    writer_with(Options::default())
}

fn inline() -> Options {
    Options { inline_commits: true, ..Options::default() }
}

fn start(conn: Connection, path: &Path, options: Options) -> Writer {
    let health = Arc::new(StoreHealth::new(path.into(), options.report));
    conn.busy_timeout(Duration::ZERO).unwrap();
    Writer::start(conn, (path.into(), None), options, health).unwrap()
}

fn insert(table: &'static str) -> impl Fn(&Connection) -> JobResult<usize> {
    move |conn| Ok(conn.execute(&format!("INSERT INTO {table} (id) VALUES (NULL)"), [])?)
}

async fn count(writer: &Writer, table: &'static str) -> i64 {
    let sql = format!("SELECT COUNT(*) FROM {table}");
    writer.write(1, move |conn| Ok(conn.query_row(&sql, [], |row| row.get(0))?)).await.unwrap()
}

#[tokio::test]
async fn a_panicking_job_is_rolled_back_and_the_thread_continues() {
    let writer = writer();
    let panics = |conn: &Connection| -> JobResult<()> {
        insert("parent")(conn)?;
        panic!("a bug in a job")
    };
    assert!(matches!(writer.write(1, panics).await, Err(Error::Backend(_))));
    assert_eq!(count(&writer, "parent").await, 0);
    writer.write(1, insert("parent")).await.unwrap();
    assert_eq!(count(&writer, "parent").await, 1);
}

#[tokio::test]
async fn a_refusal_after_a_change_rolls_it_back() {
    let writer = writer();
    let refuses = |conn: &Connection| -> JobResult<()> {
        insert("parent")(conn)?;
        Err(Error::Closed.into())
    };
    assert!(matches!(writer.write(1, refuses).await, Err(Error::Closed)));
    assert_eq!(count(&writer, "parent").await, 0);
}

/// Blocks the writer thread until the sender is dropped, so that the next jobs form one batch.
fn busy(until: mpsc::Receiver<()>) -> impl Fn(&Connection) -> JobResult<()> + Send {
    let until = Mutex::new(until);
    move |_| {
        let _ = until.lock().unwrap().recv();
        Ok(())
    }
}

#[tokio::test]
async fn a_failed_batch_commit_fails_only_the_job_that_caused_it() {
    let writer = writer();
    let (release, until) = mpsc::channel();
    let mut plug = Box::pin(writer.write(1, busy(until)));
    let mut good = Box::pin(writer.write(1, insert("parent")));
    // The missing parent is detected at COMMIT only.
    let orphan = |conn: &Connection| Ok(conn.execute("INSERT INTO child (id) VALUES (42)", [])?);
    let mut bad = Box::pin(writer.write(1, orphan));
    let mut also_good = Box::pin(writer.write(1, insert("parent")));
    poll_fn(|context| {
        assert!(plug.as_mut().poll(context).is_pending());
        assert!(good.as_mut().poll(context).is_pending());
        assert!(bad.as_mut().poll(context).is_pending());
        assert!(also_good.as_mut().poll(context).is_pending());
        Poll::Ready(())
    })
    .await;
    drop(release);
    // The plug is in this batch or in a separate one.
    let _ = plug.await;
    let answers = [good.await, bad.await, also_good.await];
    assert!(matches!(answers, [Ok(1), Err(Error::Backend(_)), Ok(1)]), "{answers:?}");
    assert_eq!((count(&writer, "parent").await, count(&writer, "child").await), (2, 0));
}

async fn committing_thread(writer: &Writer) -> ThreadId {
    writer.write(1, |_| Ok(thread::current().id())).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_uncontended_inline_commit_runs_on_the_callers_thread() {
    assert_eq!(committing_thread(&writer_with(inline())).await, thread::current().id());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_inline_commits_every_job_runs_on_the_writer_thread() {
    assert!(!Options::default().inline_commits);
    assert_ne!(committing_thread(&writer()).await, thread::current().id());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_contended_inline_commit_uses_the_writer_thread() {
    let writer = writer_with(inline());
    let (release, until) = mpsc::channel();
    // The lock keeps the first job from running inline. The writer thread is then busy with it, so the second one is queued.
    let mut plug = pin!(writer.write(1, busy(until)));
    let connection = writer.connection.try_lock().unwrap();
    let mut context = Context::from_waker(Waker::noop());
    assert!(plug.as_mut().poll(&mut context).is_pending());
    drop(connection);
    let mut second = pin!(committing_thread(&writer));
    assert!(second.as_mut().poll(&mut context).is_pending());
    drop(release);
    plug.await.unwrap();
    assert_ne!(second.await, thread::current().id());
}

#[tokio::test]
async fn on_a_current_thread_runtime_inline_commits_use_the_writer_thread() {
    assert_ne!(committing_thread(&writer_with(inline())).await, thread::current().id());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inline_commits_of_a_spawned_task_use_the_writer_thread() {
    let task = tokio::spawn(async {
        let writer = writer_with(inline());
        (committing_thread(&writer).await, thread::current().id())
    });
    let (committed_on, worker) = task.await.unwrap();
    assert_ne!(committed_on, worker);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_inline_commit_is_rolled_back() {
    let writer = writer_with(inline());
    let refuses = |conn: &Connection| -> JobResult<()> {
        insert("parent")(conn)?;
        Err(Error::Closed.into())
    };
    let panics = |conn: &Connection| -> JobResult<()> {
        insert("parent")(conn)?;
        panic!("a bug in a job")
    };
    assert!(matches!(writer.write(1, refuses).await, Err(Error::Closed)));
    assert!(matches!(writer.write(1, panics).await, Err(Error::Backend(_))));
    let orphan = |conn: &Connection| Ok(conn.execute("INSERT INTO child (id) VALUES (42)", [])?);
    assert!(writer.write(1, orphan).await.is_err());
    assert_eq!((count(&writer, "parent").await, count(&writer, "child").await), (0, 0));
    writer.write(1, insert("parent")).await.unwrap();
    assert_eq!(count(&writer, "parent").await, 1);
}

fn on_disk(path: &Path) -> Connection {
    let conn = Connection::open(path).unwrap();
    conn.pragma_update(None, "journal_mode", "WAL").unwrap();
    conn.execute_batch("CREATE TABLE IF NOT EXISTS parent (id INTEGER PRIMARY KEY)").unwrap();
    conn
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_inline_commit_does_not_wait_for_another_process() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("test.db");
    let other = on_disk(&path);
    let options = inline();
    let busy_timeout = options.busy_timeout;
    let writer = start(on_disk(&path), &path, options);
    other.execute_batch("BEGIN IMMEDIATE; INSERT INTO parent (id) VALUES (NULL)").unwrap();
    let mut job = pin!(committing_thread(&writer));
    let asked = Instant::now();
    let is_pending = poll_fn(|context| Poll::Ready(job.as_mut().poll(context).is_pending())).await;
    // Waiting on this thread would take the whole busy timeout.
    assert!(is_pending && asked.elapsed() < busy_timeout);
    other.execute_batch("COMMIT").unwrap();
    assert_ne!(job.await, thread::current().id());
    assert_eq!(count(&writer, "parent").await, 1);
}
