//! SIGKILL during writes: no acknowledged commit is lost, and no commit is stored partially.

use crate::common::{file, open};
use session::{
    Commit, OnConflict, SessionKey, SessionLog, SessionStore, TailBudget,
    sqlite::{Options, SqliteStore},
};
use std::{
    env,
    io::{BufRead, BufReader, Write},
    process::{Command, Stdio},
    time::{SystemTime, UNIX_EPOCH},
};
use tempfile::TempDir;
use testkit::{
    random::SplitMix64,
    store_suite::make::{key, message, new_session, page, seqs, sets},
};

const SESSIONS: u64 = 16;
const ROUNDS: u64 = 6;
const FILE: &str = "LANGO_CRASH_FILE";
const ROUND: &str = "LANGO_CRASH_ROUND";
const SEED: &str = "LANGO_CRASH_SEED";

/// Commits a message and a state change together: after the crash they must agree.
async fn append_forever(store: SqliteStore, name: String, round: String) -> session::Result<()> {
    store.create(new_session(&key(&name), OnConflict::Keep)).await?;
    for n in 0_u64.. {
        let id = format!("{round}-{n}");
        let step = Commit {
            messages: vec![message(&id)],
            state: vec![sets(session::Scope::Session, "last", id.as_str())],
            ..Commit::default()
        };
        let committed = store.commit(&key(&name), step).await?;
        let line = format!("ack {name} {id} {}\n", committed.seq);
        std::io::stdout().write_all(line.as_bytes()).expect("the parent reads standard output");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "runs as a child process of the test below"]
async fn child_process_that_writes_until_killed() {
    let (Ok(path), Ok(round)) = (env::var(FILE), env::var(ROUND)) else { return };
    let store = SqliteStore::open(path, Options::default()).unwrap();
    let mut writers = tokio::task::JoinSet::new();
    for n in 0..SESSIONS {
        writers.spawn(append_forever(store.clone(), format!("s{n}"), round.clone()));
    }
    while let Some(ended) = writers.join_next().await {
        ended.unwrap().unwrap();
    }
}

struct Acknowledged {
    session: SessionKey,
    id: String,
    seq: u64,
}

impl Acknowledged {
    /// `None` for a truncated line and for output of the test harness.
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.strip_suffix('\n')?.strip_prefix("ack ")?.split(' ');
        let (name, id, seq) = (words.next()?, words.next()?, words.next()?);
        Some(Self { session: key(name), id: id.into(), seq: seq.parse().ok()? })
    }
}

/// Kills a writing process after it acknowledged `count` commits, and returns all acknowledged commits.
fn killed_after(count: u64, round: u64, dir: &TempDir) -> Vec<Acknowledged> {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "crash::child_process_that_writes_until_killed", "--ignored", "--nocapture"])
        .env(FILE, file(dir))
        .env(ROUND, format!("r{round}"))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let (mut acknowledged, mut line) = (Vec::new(), String::new());
    while lines.read_line(&mut line).unwrap() > 0 {
        acknowledged.extend(Acknowledged::parse(&line));
        line.clear();
        if acknowledged.len() as u64 == count {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(acknowledged.len() as u64 >= count, "the process ended before it was killed");
    acknowledged
}

async fn assert_sound(store: &SqliteStore, acknowledged: &[Acknowledged]) {
    for n in 0..SESSIONS {
        let key = key(&format!("s{n}"));
        let Some(found) = store.load(&key, TailBudget::ALL).await.unwrap() else { continue };
        let rows = &found.tail;
        assert_eq!(seqs(rows), (1..=rows.len() as u64).collect::<Vec<_>>(), "a gap in {key}");
        assert_eq!(
            (found.row.last_seq.0, found.row.total_tokens),
            (rows.len() as u64, 10 * rows.len() as u64)
        );
        let last = rows.last().map(|row| row.message.id.as_str());
        assert_eq!(
            found.state.first().and_then(|change| change.value.as_str()),
            last,
            "a partial commit in {key}"
        );
        let logged = store.state_changes(&key, page(0, usize::MAX)).await.unwrap();
        assert_eq!(logged.len(), rows.len());
        for commit in acknowledged.iter().filter(|commit| commit.session == key) {
            let row = rows.iter().find(|row| row.message.id == commit.id);
            assert_eq!(row.map(|row| row.seq.0), Some(commit.seq), "{} of {key} was acknowledged", commit.id);
        }
    }
}

fn assert_intact(dir: &TempDir) {
    let conn = rusqlite::Connection::open(file(dir)).unwrap();
    let verdict: String = conn.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok");
    let mut broken = conn.prepare("PRAGMA foreign_key_check").unwrap();
    assert!(!broken.exists([]).unwrap());
}

#[tokio::test]
async fn no_acknowledged_commit_is_lost_after_sigkill() {
    let given = env::var(SEED).ok().and_then(|seed| seed.parse().ok());
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let seed: u64 = given.unwrap_or(clock);
    let mut random = SplitMix64::new(seed);
    println!("{SEED}={seed}");
    let dir = tempfile::tempdir().unwrap();
    let mut acknowledged = Vec::new();
    for round in 0..ROUNDS {
        acknowledged.extend(killed_after(1 + random.below(400), round, &dir));
        let store = open(&dir, Options::default()).unwrap();
        assert_sound(&store, &acknowledged).await;
        // The store accepts writes again.
        store.create(new_session(&key("after"), OnConflict::Keep)).await.unwrap();
        drop(store);
        assert_intact(&dir);
    }
}
