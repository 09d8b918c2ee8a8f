//! Migration of runs of earlier versions, in every state that a crash could leave: they become valid states of the lifecycle,
//! are recovered, and their sessions accept new messages.

use crate::{common::open, schema::file_of_version};
use rusqlite::Connection;
use session::{
    Error, Liveness, OnConflict, RunStatus, TailBudget,
    sqlite::{Options, SqliteStore},
};
use std::{collections::BTreeMap, sync::Arc};
use testkit::store_suite::{
    SharedStore,
    make::{
        finish, ids, key, new_session, page, run, run_of, run_row, run_with_key, start, status, step,
        take_over,
    },
};

/// Owner names in the format of earlier versions: machine, boot id, process id and start time, claim.
const DEAD: &str = "m.4026531836/boot/17/4711#3";
const ALSO_DEAD: &str = "m.4026531836/boot/17/4711#9";

/// A session of an earlier version.
struct EarlierSession<'a> {
    conn: &'a Connection,
    session: i64,
}

impl<'a> EarlierSession<'a> {
    /// A session with the messages `m1` to `m<last_seq>`.
    fn new(conn: &'a Connection, name: &str, last_seq: i64, lease_owner: Option<&str>) -> Self {
        conn.execute(
            "INSERT INTO sessions (app_name, user_id, session_id, last_seq, lease_owner, lease_epoch, lease_until,
                 created_at, updated_at) VALUES ('app', 'ann', ?1, ?2, ?3, 8589934593, 9e9, 1, 2)",
            (name, last_seq, lease_owner),
        )
        .unwrap();
        let session = conn.last_insert_rowid();
        for seq in 1..=last_seq {
            conn.execute(
                "INSERT INTO messages (session_key, seq, tokens, timestamp, counted_by, message_id, role, author,
                     content) VALUES (?1, ?2, 1, 1, '', 'm' || ?2, 'user', 'user', 'text')",
                (session, seq),
            )
            .unwrap();
        }
        Self { conn, session }
    }

    /// A run with the sequence numbers after the first one, up to and including the last one.
    fn run(self, id: &str, status: &str, owner: &str, (after, last): (i64, i64)) -> Self {
        self.run_with_key(id, status, (owner, None), (after, last))
    }

    fn run_with_key(
        self,
        id: &str,
        status: &str,
        (owner, request): (&str, Option<&str>),
        (after, last): (i64, i64),
    ) -> Self {
        self.conn
            .execute(
                "INSERT INTO runs (position, session_key, run_id, status, idempotency_key, owner, started_after,
                     last_seq, created_at, updated_at)
                 VALUES ((SELECT COALESCE(MAX(position), 0) + 1 FROM runs), ?1, ?2, ?3, ?4, ?5, ?6, ?7,
                     (SELECT COUNT(*) FROM runs), 1)",
                (self.session, id, status, request, owner, after, last),
            )
            .unwrap();
        self
    }

    fn ticket(self, id: &str, owner: &str) -> Self {
        let payload = format!("payload of {id}");
        self.conn
            .execute(
                "INSERT INTO inbox (number, session_key, ticket_id, owner, payload)
                 VALUES ((SELECT last + 1 FROM numbers), ?1, ?2, ?3, ?4)",
                (self.session, id, owner, payload),
            )
            .unwrap();
        self.conn.execute("UPDATE numbers SET last = last + 1", []).unwrap();
        self
    }

    /// An open question of the event after `at`.
    fn question(self, at: i64) -> Self {
        let value = format!("{{\"at\":[{at},0],\"fact\":{{\"id\":\"q\",\"n\":1.0}}}}");
        self.conn
            .execute(
                "INSERT INTO facts (session_key, kind, id, value, carried) VALUES (?1, 'question', 'q', ?2, 1)",
                (self.session, value),
            )
            .unwrap();
        self
    }
}

fn fill(conn: &Connection) {
    conn.execute("UPDATE numbers SET last = 5", []).unwrap();
    let old = |name, last_seq, lease_owner| EarlierSession::new(conn, name, last_seq, lease_owner);
    old("idle", 2, None).run("r1", "done", DEAD, (0, 2));
    old("queued", 1, None)
        .run("r1", "done", DEAD, (0, 1))
        .run("z", "queued", DEAD, (1, 1))
        .run("a", "queued", ALSO_DEAD, (1, 1))
        .ticket("z", DEAD)
        .ticket("a", ALSO_DEAD);
    old("queued without ticket", 1, None).run_with_key("r1", "queued", (DEAD, Some("unstored")), (0, 0));
    old("ticket without run", 1, None).run("r1", "done", DEAD, (0, 1)).ticket("t1", DEAD).ticket("t2", DEAD);
    old("cut", 2, Some(DEAD))
        .run("r1", "done", DEAD, (0, 1))
        .run("r2", "running", DEAD, (1, 2))
        .ticket("t", DEAD);
    old("two running", 4, Some(ALSO_DEAD)).run("r1", "running", DEAD, (0, 2)).run(
        "r2",
        "running",
        ALSO_DEAD,
        (2, 4),
    );
    old("the older has the lease", 4, Some(DEAD)).run("r1", "running", DEAD, (0, 4)).run(
        "r2",
        "running",
        ALSO_DEAD,
        (2, 3),
    );
    old("lease was claimed by another", 2, Some(ALSO_DEAD)).run("r1", "running", DEAD, (0, 2)).run(
        "unstored",
        "failed",
        ALSO_DEAD,
        (2, 2),
    );
    old("overtaken", 4, Some(ALSO_DEAD)).run("r1", "running", DEAD, (0, 2)).run(
        "r2",
        "done",
        ALSO_DEAD,
        (2, 4),
    );
    old("running without lease", 2, None).run("r1", "running", DEAD, (0, 2));
    old("asks", 3, None).run("r1", "done", DEAD, (0, 1)).run("r2", "waiting", DEAD, (1, 3)).question(2);
    old("was answered", 4, None).run("r1", "waiting", DEAD, (0, 2)).run("r2", "done", DEAD, (2, 4));
    old("answer is queued", 2, None).run("r1", "waiting", DEAD, (0, 2)).question(1).ticket("r1", ALSO_DEAD);
    old("ended", 4, None)
        .run_with_key("r1", "done", (DEAD, Some("known")), (0, 1))
        .run("r2", "failed", DEAD, (1, 2))
        .run("r3", "cancelled", DEAD, (2, 3))
        .run("r4", "interrupted", DEAD, (3, 4));
    old("same key", 1, None).run_with_key("r1", "done", (DEAD, Some("twice")), (0, 1));
    old("same key again", 1, None).run_with_key("r1", "done", (DEAD, Some("twice")), (0, 1));
    old("failed to store", 1, None).run_with_key("r1", "failed", (DEAD, Some("failed")), (1, 1));
}

/// The sessions and their runs after the migration, oldest run first.
const EXPECTED: &[(&str, &str)] = &[
    ("answer is queued", "r1 queued"),
    ("asks", "r1 done, r2 waiting"),
    ("cut", "r1 done, r2 running, t queued"),
    ("ended", "r1 done, r2 failed, r3 cancelled, r4 interrupted"),
    ("failed to store", "r1 failed"),
    ("idle", "r1 done"),
    ("lease was claimed by another", "r1 running, unstored failed"),
    ("overtaken", "r1 interrupted, r2 done"),
    ("queued", "r1 done, z queued, a queued"),
    ("queued without ticket", "r1 failed"),
    ("running without lease", "r1 interrupted"),
    ("same key", "r1 done"),
    ("same key again", "r1 done"),
    ("the older has the lease", "r1 running, r2 interrupted"),
    ("ticket without run", "r1 done, t1 queued, t2 queued"),
    ("two running", "r1 interrupted, r2 running"),
    ("was answered", "r1 done, r2 done"),
];

fn upgraded(version: usize) -> (SharedStore, tempfile::TempDir) {
    let (dir, conn) = file_of_version(version, |_, _| ());
    fill(&conn);
    drop(conn);
    (Arc::new(open(&dir, Options::default()).unwrap()), dir)
}

const VERSIONS_WITH_RUNS: [usize; 3] = [2, 3, 4];

#[tokio::test]
async fn runs_of_earlier_versions_are_migrated_to_valid_states() {
    for version in VERSIONS_WITH_RUNS {
        let (store, _dir) = upgraded(version);
        for (name, expected) in EXPECTED {
            let mut runs = store.runs(&key(name), 10).await.unwrap();
            runs.reverse();
            let found: Vec<String> =
                runs.iter().map(|run| format!("{} {}", run.id, run.status.as_str())).collect();
            assert_eq!(found.join(", "), *expected, "{name} of version {version}");
        }
    }
}

#[tokio::test]
async fn owners_of_earlier_versions_are_dead_and_their_runs_can_be_finished() {
    for version in VERSIONS_WITH_RUNS {
        let (store, _dir) = upgraded(version);
        let owners = store.owners().await.unwrap();
        let names: Vec<&str> = owners.iter().map(|owner| owner.name.as_str()).collect();
        assert_eq!(names.len(), 2);
        assert!(names.iter().all(|name| store.liveness(name) == Liveness::Dead));
        let me = store.claim_owner().unwrap();
        let taken = take_over(&store, &names, me.name()).await.unwrap();
        let mut finished: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for orphan in taken {
            let key = orphan.key.clone();
            let lease = if let Some(lease) = orphan.lease() {
                store.commit(&key, step(lease, "resumed")).await.unwrap();
                lease.clone()
            } else {
                let payload = store.payload(&key, &orphan.id).await.unwrap();
                assert_eq!(payload, Some(format!("payload of {}", orphan.id)));
                start(&store, &key, run_of(me.name(), &orphan.id)).await.unwrap()
            };
            finish(&store, &lease, RunStatus::Done).await.unwrap();
            finished.entry(key.session_id).or_default().push(orphan.id);
        }
        let expected = [
            ("answer is queued", vec!["r1"]),
            ("cut", vec!["r2", "t"]),
            ("lease was claimed by another", vec!["r1"]),
            ("queued", vec!["z", "a"]),
            ("the older has the lease", vec!["r1"]),
            ("ticket without run", vec!["t1", "t2"]),
            ("two running", vec!["r2"]),
        ];
        let expected =
            expected.map(|(name, ids)| (name.to_owned(), ids.into_iter().map(str::to_owned).collect()));
        assert_eq!(finished, BTreeMap::from(expected), "version {version}");
        assert!(store.owners().await.unwrap().is_empty());
        for (name, _) in EXPECTED {
            let lease = start(&store, &key(name), run("new")).await.unwrap();
            finish(&store, &lease, RunStatus::Done).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_run_of_an_earlier_version_keeps_the_rows_of_its_range() {
    let (store, _dir) = upgraded(4);
    let taken = take_over(&store, &[DEAD], "me").await.unwrap();
    let taken = taken.iter().find(|run| run.key == key("cut")).unwrap();
    let lease = taken.lease().unwrap();
    store.commit(&key("cut"), step(lease, "resumed")).await.unwrap();
    let rows = store.read_run(&key("cut"), lease.run, page(0, 10)).await.unwrap();
    assert_eq!(ids(&rows), ["m2", "resumed"]);
    finish(&store, lease, RunStatus::Done).await.unwrap();
    let rows = store.read_run(&key("cut"), lease.run, page(0, 10)).await.unwrap();
    assert_eq!(ids(&rows), ["m2", "resumed"]);
    // Earlier rows do not belong to a queued run.
    let queued = run_row(&store, &key("cut"), "t").await.unwrap();
    assert!(store.read_run(&key("cut"), queued.number, page(0, 10)).await.unwrap().is_empty());
    let lease = start(&store, &key("cut"), run_of("me", "t")).await.unwrap();
    assert_eq!(ids(&store.read_run(&key("cut"), lease.run, page(0, 10)).await.unwrap()), ["t"]);
}

#[tokio::test]
async fn an_open_question_of_an_earlier_version_gets_the_id_of_its_run() {
    let (store, _dir) = upgraded(4);
    let pending = store.load(&key("asks"), TailBudget::NONE).await.unwrap().unwrap().pending;
    assert_eq!(pending[0].value, "{\"at\":[2,0],\"fact\":{\"id\":\"q\",\"n\":1.0},\"run\":\"r2\"}");
    start(&store, &key("asks"), run("r2")).await.unwrap();
    assert_eq!(status(&store, &key("asks"), "r2").await.unwrap(), RunStatus::Running);
}

#[tokio::test]
async fn idempotency_keys_of_earlier_versions_are_recognised() {
    let (store, _dir) = upgraded(4);
    let request = |session: &str, name: &str| {
        let (key, run) = (key(session), run_with_key("new", name, "any fingerprint"));
        let store = Arc::clone(&store);
        async move { start(&store, &key, run).await }
    };
    for (session, name) in [("ended", "known"), ("same key again", "twice")] {
        let answer = request(session, name).await;
        assert!(matches!(&answer, Err(Error::Duplicate { id, .. }) if id == "r1"), "{answer:?}");
    }
    assert!(matches!(request("same key", "twice").await, Err(Error::KeyReused)));
    // The messages of these requests were not stored, so the requests may be repeated.
    request("queued without ticket", "unstored").await.unwrap();
    request("failed to store", "failed").await.unwrap();
}

#[tokio::test]
async fn a_migrated_file_passes_the_integrity_check() {
    for version in VERSIONS_WITH_RUNS {
        let (store, dir) = upgraded(version);
        store.create(new_session(&key("new"), OnConflict::Fail)).await.unwrap();
        drop(store);
        let conn = Connection::open(crate::common::file(&dir)).unwrap();
        let verdict: String = conn.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(verdict, "ok");
        assert!(!conn.prepare("PRAGMA foreign_key_check").unwrap().exists([]).unwrap());
        let names = "SELECT COUNT(*) FROM sqlite_schema WHERE name LIKE '%of_now%' OR name = 'inbox'";
        assert_eq!(conn.query_row(names, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
    }
}

/// Processes open a file of an earlier version concurrently: one migrates it, and all can use it.
#[test]
fn a_file_can_be_migrated_concurrently() {
    let (dir, conn) = file_of_version(4, |_, _| ());
    fill(&conn);
    drop(conn);
    std::thread::scope(|scope| {
        let opened: Vec<_> = (0..4).map(|_| scope.spawn(|| open(&dir, Options::default()))).collect();
        let stores: Vec<SqliteStore> =
            opened.into_iter().map(|store| store.join().unwrap().unwrap()).collect();
        assert_eq!(stores.len(), 4);
    });
}
