//! What a writer does with its jobs.

use super::*;
use std::{future::poll_fn, path::Path, pin::pin, task::Poll, thread::ThreadId, time::Duration};

fn writer() -> Writer {
    let conn = Connection::open_in_memory().unwrap();
    conn.execute_batch(
        "PRAGMA foreign_keys = ON;
         CREATE TABLE parent (id INTEGER PRIMARY KEY);
         CREATE TABLE child (id INTEGER REFERENCES parent DEFERRABLE INITIALLY DEFERRED)",
    )
    .unwrap();
    start(conn, Path::new("test.db"), Options::default())
}

fn start(conn: Connection, path: &Path, options: Options) -> Writer {
    let health = Arc::new(Health::new(path.into(), options.report));
    conn.busy_timeout(Duration::ZERO).unwrap();
    Writer::start(conn, (path.into(), None), options, health).unwrap()
}

fn insert(table: &'static str) -> impl Fn(&Connection) -> Outcome<usize> {
    move |conn| Ok(conn.execute(&format!("INSERT INTO {table} (id) VALUES (NULL)"), [])?)
}

async fn count(writer: &Writer, table: &'static str) -> i64 {
    let sql = format!("SELECT COUNT(*) FROM {table}");
    writer.write(1, move |conn| Ok(conn.query_row(&sql, [], |row| row.get(0))?)).await.unwrap()
}

#[tokio::test]
async fn a_job_that_panics_is_undone_and_the_thread_goes_on() {
    let writer = writer();
    let panics = |conn: &Connection| -> Outcome<()> {
        insert("parent")(conn)?;
        panic!("a bug in a job")
    };
    assert!(matches!(writer.write(1, panics).await, Err(Error::Backend(_))));
    assert_eq!(count(&writer, "parent").await, 0);
    writer.write(1, insert("parent")).await.unwrap();
    assert_eq!(count(&writer, "parent").await, 1);
}

#[tokio::test]
async fn a_refusal_that_comes_after_a_change_undoes_it() {
    let writer = writer();
    let refuses = |conn: &Connection| -> Outcome<()> {
        insert("parent")(conn)?;
        Err(Error::Closed.into())
    };
    assert!(matches!(writer.write(1, refuses).await, Err(Error::Closed)));
    assert_eq!(count(&writer, "parent").await, 0);
}

/// Keeps the thread busy until the other end is dropped, so that what comes next is one batch.
fn busy(until: mpsc::Receiver<()>) -> impl Fn(&Connection) -> Outcome<()> + Send {
    let until = Mutex::new(until);
    move |_| {
        let _ = until.lock().unwrap().recv();
        Ok(())
    }
}

#[tokio::test]
async fn a_commit_that_fails_fails_only_the_job_that_spoils_it() {
    let writer = writer();
    let (release, until) = mpsc::channel();
    let mut plug = Box::pin(writer.write(1, busy(until)));
    let mut good = Box::pin(writer.write(1, insert("parent")));
    // Only COMMIT finds out that the parent is missing.
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
    // The plug may have begun a batch of its own, or be in this one.
    let _ = plug.await;
    let answers = [good.await, bad.await, also_good.await];
    assert!(matches!(answers, [Ok(1), Err(Error::Backend(_)), Ok(1)]), "{answers:?}");
    assert_eq!((count(&writer, "parent").await, count(&writer, "child").await), (2, 0));
}

async fn done_by(writer: &Writer) -> ThreadId {
    writer.write(1, |_| Ok(thread::current().id())).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_uncontended_job_runs_on_the_callers_thread() {
    assert_eq!(done_by(&writer()).await, thread::current().id());
}

#[tokio::test]
async fn on_a_runtime_of_one_thread_every_job_is_the_writers() {
    assert_ne!(done_by(&writer()).await, thread::current().id());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_worker_is_blocked_by_a_job() {
    let task = tokio::spawn(async {
        let writer = writer();
        (done_by(&writer).await, thread::current().id())
    });
    let (by, brought_by) = task.await.unwrap();
    assert_ne!(by, brought_by);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_on_the_callers_thread_is_undone_if_it_fails() {
    let writer = writer();
    let refuses = |conn: &Connection| -> Outcome<()> {
        insert("parent")(conn)?;
        Err(Error::Closed.into())
    };
    let panics = |conn: &Connection| -> Outcome<()> {
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
async fn the_callers_thread_does_not_wait_for_another_process() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("test.db");
    let other = on_disk(&path);
    let options = Options::default();
    let patience = options.busy_timeout;
    let writer = start(on_disk(&path), &path, options);
    other.execute_batch("BEGIN IMMEDIATE; INSERT INTO parent (id) VALUES (NULL)").unwrap();
    let mut job = pin!(done_by(&writer));
    let asked = Instant::now();
    let waits = poll_fn(|context| Poll::Ready(job.as_mut().poll(context).is_pending())).await;
    // Whoever waits here waits as long as that.
    assert!(waits && asked.elapsed() < patience);
    other.execute_batch("COMMIT").unwrap();
    assert_ne!(job.await, thread::current().id());
    assert_eq!(count(&writer, "parent").await, 1);
}
