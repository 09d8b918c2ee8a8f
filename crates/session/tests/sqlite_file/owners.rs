//! Owners of several processes on one file: liveness by lock files, and removal of leftovers.

use crate::common::{file, fresh, open};
use rusqlite::Connection;
use session::{
    GoneOwner, Liveness, OnConflict, OwnerClaim, Owners, RunStatus, RunStore, SessionStore, TakeOver,
    sqlite::{Options, SqliteStore},
};
use std::{
    env, fs,
    io::{BufRead, BufReader, Write},
    process::{Child, Command, Stdio},
    sync::Arc,
};
use tempfile::TempDir;
use testkit::store_suite::{
    SharedStore,
    make::{enqueue, key, new_session, run_of, start, step},
};

const FILE: &str = "LANGO_OWNER_FILE";

fn lock_files(dir: &TempDir) -> usize {
    fs::read_dir(dir.path().join("lango.db-owners")).unwrap().count()
}

fn rows(dir: &TempDir) -> i64 {
    let conn = Connection::open(file(dir)).unwrap();
    conn.query_row("SELECT COUNT(*) FROM owners", [], |row| row.get(0)).unwrap()
}

async fn take_over(store: &SqliteStore, gone: &str, owner: &str) -> Vec<session::TakenOver> {
    let gone = vec![GoneOwner { name: gone.to_owned(), if_beats: None }];
    store.take_over(TakeOver { gone, owner: owner.to_owned(), session: None }).await.unwrap()
}

#[tokio::test]
async fn an_owner_is_alive_as_long_as_its_store_is_open() {
    let (one, dir) = fresh(Options::default());
    let two = open(&dir, Options::default()).unwrap();
    let owner = one.claim_owner().unwrap();
    let name = owner.name().to_owned();
    assert_ne!(OwnerClaim::process_of(&name), OwnerClaim::process_of(two.claim_owner().unwrap().name()));
    assert_eq!((one.liveness(&name), two.liveness(&name)), (Liveness::Alive, Liveness::Alive));
    drop(one);
    // The claim is held, but the process lock was released with the store.
    assert_eq!(two.liveness(&name), Liveness::Dead);
    drop(owner);
}

#[tokio::test]
async fn heartbeats_are_visible_to_other_processes() {
    let (one, dir) = fresh(Options::default());
    let two = open(&dir, Options::default()).unwrap();
    two.create(new_session(&key("s"), OnConflict::Fail)).await.unwrap();
    let owner = one.claim_owner().unwrap();
    let shared: SharedStore = Arc::new(one.clone());
    start(&shared, &key("s"), run_of(owner.name(), "r")).await.unwrap();
    for beats in 1..=2 {
        one.heartbeat().await.unwrap();
        assert_eq!(two.owners().await.unwrap()[0].beats, beats);
    }
    let me = two.claim_owner().unwrap();
    two.heartbeat().await.unwrap();
    assert_eq!(take_over(&two, owner.name(), me.name()).await.len(), 1);
    assert_eq!(one.heartbeat().await.unwrap().displaced, 1);
    assert_eq!(two.heartbeat().await.unwrap().displaced, 0);
}

#[tokio::test]
async fn rows_and_lock_files_of_ended_processes_are_removed() {
    let (store, dir) = fresh(Options::default());
    store.create(new_session(&key("s"), OnConflict::Fail)).await.unwrap();
    // These end normally: their lock files are removed, their rows remain.
    for _ in 0..3 {
        let other = open(&dir, Options::default()).unwrap();
        let _owner = other.claim_owner().unwrap();
        other.heartbeat().await.unwrap();
    }
    // This one is killed: its lock file remains, and it owns runs.
    fs::write(dir.path().join("lango.db-owners/1-killed"), "").unwrap();
    let shared: SharedStore = Arc::new(store.clone());
    start(&shared, &key("s"), run_of("1-killed#7", "r")).await.unwrap();
    enqueue(&shared, &key("s"), run_of("1-killed#8", "q")).await.unwrap();

    let me = store.claim_owner().unwrap();
    store.heartbeat().await.unwrap();
    assert_eq!((rows(&dir), lock_files(&dir)), (1, 2), "the row and file of an owner of runs remain");
    assert_eq!(take_over(&store, "1-killed#7", me.name()).await.len(), 1);
    assert_eq!((rows(&dir), lock_files(&dir)), (2, 2));
    assert_eq!(take_over(&store, "1-killed#8", me.name()).await.len(), 1);
    assert_eq!((rows(&dir), lock_files(&dir)), (1, 1));
    assert_eq!(store.liveness(me.name()), Liveness::Alive);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "runs as a child process of the test below"]
async fn child_process_that_owns_runs_until_killed() {
    let Ok(path) = env::var(FILE) else { return };
    let store: SharedStore = Arc::new(SqliteStore::open(path, Options::default()).unwrap());
    store.create(new_session(&key("s"), OnConflict::Fail)).await.unwrap();
    let owner = store.claim_owner().unwrap();
    let lease = start(&store, &key("s"), run_of(owner.name(), "r")).await.unwrap();
    store.commit(&key("s"), step(&lease, "m1")).await.unwrap();
    enqueue(&store, &key("s"), run_of(owner.name(), "q")).await.unwrap();
    std::io::stdout().write_all(format!("owner {}\n", owner.name()).as_bytes()).unwrap();
    std::future::pending::<()>().await;
}

/// Starts a process that owns a running and a queued run. Returns it with the name of the owner.
fn owning_process(dir: &TempDir) -> (Child, String) {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "owners::child_process_that_owns_runs_until_killed", "--ignored", "--nocapture"])
        .env(FILE, file(dir))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let owner = lines.map(Result::unwrap).find_map(|line| Some(line.strip_prefix("owner ")?.to_owned()));
    (child, owner.expect("the process prints its owner name"))
}

#[tokio::test]
async fn the_runs_of_a_killed_process_are_taken_over() {
    let dir = tempfile::tempdir().unwrap();
    let (mut child, name) = owning_process(&dir);
    let store = open(&dir, Options::default()).unwrap();
    assert_eq!(store.liveness(&name), Liveness::Alive);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(store.liveness(&name), Liveness::Dead);
    let me = store.claim_owner().unwrap();
    let taken = take_over(&store, &name, me.name()).await;
    let found: Vec<_> = taken.iter().map(|run| (run.id.as_str(), run.status())).collect();
    assert_eq!(found, [("r", RunStatus::Running), ("q", RunStatus::Queued)]);
    store.commit(&key("s"), step(taken[0].lease().unwrap(), "m2")).await.unwrap();
    assert_eq!(lock_files(&dir), 1);
}
