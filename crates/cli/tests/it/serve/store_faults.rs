//! Faults of the store under a server: each fault has its status and kind, the log has the cause, and a message that was not
//! stored is not acknowledged.

use super::client::{HttpResponse, TestServer, message};
use crate::common::{LANGO, TestEnv};
use rusqlite::Connection;
use serde_json::{Value, json};
use std::{fs, process::Command, thread, time::Instant};

const ECHO: &str = "rules: [{reply: [{text: 'noted: {user}'}]}]";
const SESSION: &str = "/apps/lango/users/u/sessions/s";

/// A server whose session `s` has one message.
fn used(env: &TestEnv) -> TestServer {
    let server = TestServer::start(env);
    server.create_session("lango", "s");
    server.send_message("lango", "s", "one").success();
    server
}

/// A request to each route that writes, with an idempotency key if the route accepts one.
fn all_changes(server: &TestServer) -> Vec<(&'static str, HttpResponse)> {
    let sent = |path: &str, body: &Value, key: &str| {
        server.request_with("POST", path, &[("Idempotency-Key", key)], body)
    };
    let begin = json!({"newMessage": {"parts": [{"text": "by runs"}]}});
    vec![
        ("run", sent("/run", &message("lango", "s", "by run"), "k1")),
        ("run_sse", sent("/run_sse", &message("lango", "s", "by stream"), "k2")),
        ("runs", sent(&format!("{SESSION}/runs"), &begin, "k3")),
        ("create", server.request("POST", "/apps/lango/users/u/sessions", &json!({"sessionId": "new"}))),
        ("patch", server.request("PATCH", SESSION, &json!({"stateDelta": {"a": 1}}))),
        ("delete", server.request("DELETE", SESSION, &Value::Null)),
    ]
}

#[track_caller]
fn assert_refused(answers: Vec<(&str, HttpResponse)>, status: u16, kind: &str) {
    for (name, answer) in answers {
        assert_eq!((answer.status, &answer.body["kind"]), (status, &json!(kind)), "{name}: {answer:?}");
        assert_eq!(answer.header("x-run-id"), None, "{name}");
        let detail = answer.body["detail"].as_str().unwrap();
        assert!(!detail.contains('/'), "{name}: no path of the machine: {detail}");
        assert_eq!(answer.header("retry-after").is_some(), status == 503, "{name}: {answer:?}");
    }
}

fn user_messages(server: &TestServer, path: &str) -> Vec<String> {
    let events = server.get(path)["events"].as_array().unwrap().clone();
    let of_user = events.iter().filter(|event| event["author"] == "user");
    of_user.map(|event| event["content"]["parts"][0]["text"].as_str().unwrap().to_owned()).collect()
}

/// Polls `/readyz`, whose answer may be one second old.
#[track_caller]
fn until_ready(server: &TestServer, is_ready: bool) -> HttpResponse {
    let deadline = Instant::now() + super::client::TIMEOUT;
    loop {
        let answer = server.request("GET", "/readyz", &Value::Null);
        if (answer.status == 200) == is_ready {
            return answer;
        }
        assert!(Instant::now() < deadline, "{answer:?}");
    }
}

#[test]
fn deleted_database_fails_requests_until_it_is_restored() {
    let env = TestEnv::scripted("", ECHO);
    let server = used(&env);
    let elsewhere = env.home().join("elsewhere.db");
    fs::rename(env.database(), &elsewhere).unwrap();
    assert_refused(all_changes(&server), 500, "deleted");
    assert_refused(vec![("get", server.request("GET", SESSION, &Value::Null))], 500, "deleted");
    let unready = until_ready(&server, false);
    assert_eq!((unready.status, &unready.body["kind"]), (503, &json!("deleted")));
    let line = format!("store: {} was deleted while it was open", env.database().display());
    server.wait_for_log(&line);
    assert_eq!(server.log().matches(&line).count(), 1, "one line for any number of requests");

    fs::rename(&elsewhere, env.database()).unwrap();
    until_ready(&server, true);
    server.wait_for_log("can be written again");
    // The idempotency keys are unused: the failed requests stored nothing.
    let answers = all_changes(&server);
    assert_eq!(
        answers.iter().map(|(_, answer)| answer.status).collect::<Vec<_>>(),
        [200, 200, 202, 200, 200, 200]
    );
}

#[test]
fn replaced_database_refuses_changes() {
    let env = TestEnv::scripted("", ECHO);
    let server = used(&env);
    let copy = env.home().join("copy.db");
    fs::copy(env.database(), &copy).unwrap();
    fs::rename(&copy, env.database()).unwrap();
    assert_refused(all_changes(&server), 500, "replaced");
    assert_eq!(until_ready(&server, false).body["kind"], "replaced");
}

#[test]
fn deleted_wal_refuses_changes_and_a_restart_loses_no_data() {
    for suffix in ["-wal", "-shm"] {
        let env = TestEnv::scripted("", ECHO);
        let server = used(&env);
        fs::remove_file(format!("{}{suffix}", env.database().display())).unwrap();
        assert_refused(all_changes(&server), 500, "detached");
        server.kill();
        let server = TestServer::start(&env);
        assert_eq!(user_messages(&server, SESSION), ["one"], "{suffix}");
    }
}

#[test]
fn requests_to_a_damaged_session_fail_and_others_succeed() {
    let env = TestEnv::scripted("", ECHO);
    let server = used(&env);
    server.create_session("lango", "other");
    let file = Connection::open(env.database()).unwrap();
    file.execute_batch(
        "UPDATE messages SET content = CAST(x'ff' AS TEXT)
         WHERE session_key = (SELECT session_key FROM sessions WHERE session_id = 's')",
    )
    .unwrap();
    // The session is cached in memory, so another server has to read it.
    server.kill();
    let server = TestServer::start(&env);
    let answers = vec![
        ("run", server.send_message("lango", "s", "two")),
        ("get", server.request("GET", SESSION, &Value::Null)),
    ];
    for (name, answer) in answers {
        assert_eq!(
            (answer.status, &answer.body["kind"]),
            (500, &json!("damaged_session")),
            "{name}: {answer:?}"
        );
        assert!(answer.body["detail"].as_str().unwrap().starts_with("session s is damaged"), "{answer:?}");
    }
    server.send_message("lango", "other", "hello").success();
    assert_eq!(user_messages(&server, "/apps/lango/users/u/sessions/other"), ["hello"]);
    let listed = server.get("/apps/lango/users/u/sessions");
    let ids: Vec<&str> =
        listed.as_array().unwrap().iter().map(|session| session["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 2, "{listed}");
    server.wait_for_log("session lango/u/s is damaged: ");
    until_ready(&server, true);
}

#[test]
fn session_with_damaged_state_is_listed_with_the_others() {
    let env = TestEnv::scripted("", ECHO);
    let server = used(&env);
    server.create_session("lango", "other");
    let file = Connection::open(env.database()).unwrap();
    file.execute("INSERT INTO session_state (session_key, key, value) VALUES (1, 'k', 'no JSON')", [])
        .unwrap();
    let listed = server.get("/apps/lango/users/u/sessions");
    let damaged = listed.as_array().unwrap().iter().find(|session| session["id"] == "s").unwrap();
    assert_eq!((&damaged["state"], listed.as_array().unwrap().len()), (&json!({"lango:damaged": true}), 2));
}

/// The damaged session has an interrupted run.
#[test]
fn server_starts_despite_a_damaged_session_with_an_orphaned_run() {
    let env = TestEnv::scripted(
        "",
        "rules: [{when: {first_word: hang}, reply: [hang]}, {reply: [{text: 'noted'}]}]",
    );
    let server = TestServer::start(&env);
    for name in ["s", "other"] {
        let session = server.create_session("lango", name);
        let run = server.start_run(&session, "hang");
        server.wait_until(&run, |run| run["status"] == "running");
    }
    server.kill();
    let file = Connection::open(env.database()).unwrap();
    file.execute_batch("UPDATE messages SET content = CAST(x'ff' AS TEXT) WHERE session_key = 1").unwrap();
    file.execute_batch("UPDATE runs SET run_id = CAST(x'ff' AS TEXT) WHERE session_key = 1").unwrap();
    let server = TestServer::start(&env);
    let third = server.create_session("lango", "third");
    server.send_message("lango", "third", "hello").success();
    assert_eq!(user_messages(&server, &third), ["hello"]);
    assert_eq!(server.request("GET", SESSION, &Value::Null).status, 500);
    let runs = server.get("/apps/lango/users/u/sessions/other/runs");
    assert_eq!(runs[0]["status"], "running", "the run is taken over and continues");
}

#[test]
fn foreign_lock_delays_writes_but_not_reads() {
    let env = TestEnv::scripted("", ECHO);
    let server = used(&env);
    let other = Connection::open(env.database()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    thread::scope(|scope| {
        let sent: Vec<_> =
            ["a", "b", "c"].map(|text| scope.spawn(|| server.send_message("lango", "s", text))).into();
        assert_eq!(user_messages(&server, SESSION), ["one"]);
        let unready = until_ready(&server, false);
        assert_eq!((unready.status, &unready.body["kind"]), (503, &json!("busy")));
        assert!(unready.header("retry-after").is_some());
        server.wait_for_log("is locked by another program; writes wait for it");
        assert!(sent.iter().all(|answer| !answer.is_finished()));
        other.execute_batch("ROLLBACK").unwrap();
        for answer in sent {
            answer.join().unwrap().success();
        }
    });
    assert_eq!(user_messages(&server, SESSION).len(), 4);
    until_ready(&server, true);
    server.wait_for_log("is free again after");
}

#[test]
fn concurrent_readiness_checks_share_one_write() {
    let env = TestEnv::scripted("", ECHO);
    let server = used(&env);
    let file = Connection::open(env.database()).unwrap();
    let beats = || -> i64 {
        file.query_row("SELECT COALESCE(SUM(beats), 0) FROM owners", [], |row| row.get(0)).unwrap()
    };
    let (before, began) = (beats(), Instant::now());
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..25).for_each(|_| drop(server.get("/readyz"))));
        }
    });
    let most = 2 + i64::try_from(began.elapsed().as_secs()).unwrap();
    assert!((1..=most).contains(&(beats() - before)), "{} writes in {:?}", beats() - before, began.elapsed());
}

/// The file size limit of the shell makes writes fail like I/O errors, without privileges.
#[test]
fn request_after_an_io_error_succeeds_with_the_same_idempotency_key() {
    let env = TestEnv::scripted("", ECHO);
    let mut shell = Command::new("sh");
    let script = "trap '' XFSZ; ulimit -f 2000; exec \"$1\" --trust serve --port 0 --no-auth";
    shell.args(["-c", script, "sh", LANGO]).current_dir(env.workdir()).env_clear().envs(env.variables());
    let server = TestServer::spawn(&mut shell);
    server.create_session("lango", "s");
    let key = [("Idempotency-Key", "k1")];
    let large = message("lango", "s", &"word ".repeat(600_000));
    let failed = server.request_with("POST", "/run", &key, &large);
    assert_refused(vec![("run", failed)], 503, "io_error");
    server.wait_for_log("cannot be read or written: disk I/O error (SQLite code ");
    server.request_with("POST", "/run", &key, &message("lango", "s", "small")).success();
    server.wait_for_log("can be written again");
    assert_eq!(user_messages(&server, SESSION), ["small"]);
}

/// Uses a tmpfs of four megabytes, if this machine allows the mount.
#[test]
fn requests_after_a_full_disk_succeed_with_the_same_idempotency_keys() {
    let env = TestEnv::scripted("", ECHO);
    fs::create_dir(env.home()).unwrap();
    let control = env.workdir().join("control");
    let script = r#"
        mount -t tmpfs -o size=4m none "$LANGO_HOME" || { echo "listening on http://nowhere" >&2; exit; }
        "$1" --trust serve --port 0 --no-auth &
        while sleep 0.02; do
            if [ -e "$2-fill" ]; then cat /dev/zero > "$LANGO_HOME/filler" 2>/dev/null; rm "$2-fill"; fi
            if [ -e "$2-free" ]; then rm "$LANGO_HOME/filler" "$2-free"; fi
            kill -0 $! 2>/dev/null || exit
        done
    "#;
    let mut command = Command::new("unshare");
    command.args([
        "--mount",
        "--map-root-user",
        "--pid",
        "--fork",
        "--kill-child",
        "sh",
        "-c",
        script,
        "sh",
        LANGO,
    ]);
    command.arg(&control).current_dir(env.workdir()).env_clear().envs(env.variables());
    if !can_mount() {
        return println!("there is no unshare here");
    }
    let server = TestServer::spawn(&mut command);
    if server.could_not_mount() {
        return println!("nothing can be mounted here");
    }
    let order = |what: &str| {
        let file = format!("{}-{what}", control.display());
        fs::write(&file, "").unwrap();
        while fs::exists(&file).unwrap() {
            thread::yield_now();
        }
    };
    server.create_session("lango", "s");
    server.send_message("lango", "s", "one").success();
    order("fill");
    let mut answers = all_changes(&server);
    // The session to delete does not exist at this point, so deleting it would not fail.
    answers.retain(|(name, _)| *name != "delete");
    assert_refused(answers, 507, "disk_full");
    assert_eq!(until_ready(&server, false).body["kind"], "disk_full");
    server.wait_for_log("store: there is no space left to write ");
    assert_eq!(user_messages(&server, SESSION), ["one"], "reads still work");
    order("free");
    until_ready(&server, true);
    for (name, answer) in all_changes(&server) {
        assert!(answer.status < 300, "{name}: {answer:?}");
    }
}

/// Whether `unshare` can create a mount namespace.
fn can_mount() -> bool {
    let tried =
        Command::new("unshare").args(["--mount", "--map-root-user", "--pid", "--fork", "true"]).output();
    tried.is_ok_and(|output| output.status.success())
}
