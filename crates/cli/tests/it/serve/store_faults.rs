//! The store fails while a server works: each fault has its status and its kind, the log has the cause, and whatever was not
//! stored was not acknowledged.

use super::client::{Answer, Served, message};
use crate::common::{LANGO, Place};
use rusqlite::Connection;
use serde_json::{Value, json};
use std::{fs, process::Command, thread, time::Instant};

const ECHO: &str = "rules: [{reply: [{text: 'noted: {user}'}]}]";
const SESSION: &str = "/apps/lango/users/u/sessions/s";

/// A server with a session of one message.
fn used(place: &Place) -> Served {
    let server = Served::start(place);
    server.session("lango", "s");
    server.say("lango", "s", "one").well();
    server
}

/// Every way to change something, with an idempotency key where there is one.
fn all_changes(server: &Served) -> Vec<(&'static str, Answer)> {
    let sent = |path: &str, body: &Value, key: &str| {
        server.ask_with("POST", path, &[("Idempotency-Key", key)], body)
    };
    let begin = json!({"newMessage": {"parts": [{"text": "by runs"}]}});
    vec![
        ("run", sent("/run", &message("lango", "s", "by run"), "k1")),
        ("run_sse", sent("/run_sse", &message("lango", "s", "by stream"), "k2")),
        ("runs", sent(&format!("{SESSION}/runs"), &begin, "k3")),
        ("create", server.ask("POST", "/apps/lango/users/u/sessions", &json!({"sessionId": "new"}))),
        ("patch", server.ask("PATCH", SESSION, &json!({"stateDelta": {"a": 1}}))),
        ("delete", server.ask("DELETE", SESSION, &Value::Null)),
    ]
}

#[track_caller]
fn assert_refused(answers: Vec<(&str, Answer)>, status: u16, kind: &str) {
    for (name, answer) in answers {
        assert_eq!((answer.status, &answer.body["kind"]), (status, &json!(kind)), "{name}: {answer:?}");
        assert_eq!(answer.header("x-run-id"), None, "{name}");
        let detail = answer.body["detail"].as_str().unwrap();
        assert!(!detail.contains('/'), "{name}: no path of the machine: {detail}");
        assert_eq!(answer.header("retry-after").is_some(), status == 503, "{name}: {answer:?}");
    }
}

fn user_messages(server: &Served, path: &str) -> Vec<String> {
    let events = server.get(path)["events"].as_array().unwrap().clone();
    let of_user = events.iter().filter(|event| event["author"] == "user");
    of_user.map(|event| event["content"]["parts"][0]["text"].as_str().unwrap().to_owned()).collect()
}

/// An answer may be a second old.
#[track_caller]
fn until_ready(server: &Served, is_ready: bool) -> Answer {
    let deadline = Instant::now() + super::client::PATIENCE;
    loop {
        let answer = server.ask("GET", "/readyz", &Value::Null);
        if (answer.status == 200) == is_ready {
            return answer;
        }
        assert!(Instant::now() < deadline, "{answer:?}");
    }
}

#[test]
fn a_deleted_database_is_told_until_it_is_put_back() {
    let place = Place::scripted("", ECHO);
    let server = used(&place);
    let elsewhere = place.home().join("elsewhere.db");
    fs::rename(place.database(), &elsewhere).unwrap();
    assert_refused(all_changes(&server), 500, "deleted");
    assert_refused(vec![("get", server.ask("GET", SESSION, &Value::Null))], 500, "deleted");
    let unready = until_ready(&server, false);
    assert_eq!((unready.status, &unready.body["kind"]), (503, &json!("deleted")));
    let line = format!("store: {} was deleted while it was open", place.database().display());
    server.logs(&line);
    assert_eq!(server.log().matches(&line).count(), 1, "one line, whatever the number of requests");

    fs::rename(&elsewhere, place.database()).unwrap();
    until_ready(&server, true);
    server.logs("can be written again");
    // The idempotency keys are free: nothing of those requests was stored.
    let answers = all_changes(&server);
    assert_eq!(
        answers.iter().map(|(_, answer)| answer.status).collect::<Vec<_>>(),
        [200, 200, 202, 200, 200, 200]
    );
}

#[test]
fn a_replaced_database_takes_nothing() {
    let place = Place::scripted("", ECHO);
    let server = used(&place);
    let copy = place.home().join("copy.db");
    fs::copy(place.database(), &copy).unwrap();
    fs::rename(&copy, place.database()).unwrap();
    assert_refused(all_changes(&server), 500, "replaced");
    assert_eq!(until_ready(&server, false).body["kind"], "replaced");
}

#[test]
fn a_deleted_log_is_told_and_a_restart_loses_nothing() {
    for suffix in ["-wal", "-shm"] {
        let place = Place::scripted("", ECHO);
        let server = used(&place);
        fs::remove_file(format!("{}{suffix}", place.database().display())).unwrap();
        assert_refused(all_changes(&server), 500, "detached");
        server.kill();
        let server = Served::start(&place);
        assert_eq!(user_messages(&server, SESSION), ["one"], "{suffix}");
    }
}

#[test]
fn a_damaged_session_is_named_and_the_others_go_on() {
    let place = Place::scripted("", ECHO);
    let server = used(&place);
    server.session("lango", "other");
    let file = Connection::open(place.database()).unwrap();
    file.execute_batch(
        "UPDATE messages SET tool_calls = '{broken'
         WHERE session_key = (SELECT session_key FROM sessions WHERE session_id = 's')",
    )
    .unwrap();
    // What a turn left in memory is not read again; another server has read nothing.
    server.kill();
    let server = Served::start(&place);
    let answers =
        vec![("run", server.say("lango", "s", "two")), ("get", server.ask("GET", SESSION, &Value::Null))];
    for (name, answer) in answers {
        assert_eq!(
            (answer.status, &answer.body["kind"]),
            (500, &json!("damaged_session")),
            "{name}: {answer:?}"
        );
        assert!(answer.body["detail"].as_str().unwrap().starts_with("session s is damaged"), "{answer:?}");
    }
    server.say("lango", "other", "hello").well();
    assert_eq!(user_messages(&server, "/apps/lango/users/u/sessions/other"), ["hello"]);
    let listed = server.get("/apps/lango/users/u/sessions");
    let ids: Vec<&str> =
        listed.as_array().unwrap().iter().map(|session| session["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 2, "{listed}");
    server.logs("session lango/u/s is damaged: ");
    until_ready(&server, true);
}

#[test]
fn a_session_whose_state_cannot_be_read_does_not_hide_the_others_of_a_list() {
    let place = Place::scripted("", ECHO);
    let server = used(&place);
    server.session("lango", "other");
    let file = Connection::open(place.database()).unwrap();
    file.execute("INSERT INTO session_state (session_key, key, value) VALUES (1, 'k', 'no JSON')", [])
        .unwrap();
    let listed = server.get("/apps/lango/users/u/sessions");
    let damaged = listed.as_array().unwrap().iter().find(|session| session["id"] == "s").unwrap();
    assert_eq!((&damaged["state"], listed.as_array().unwrap().len()), (&json!({"lango:damaged": true}), 2));
}

/// A run that was cut off in a damaged session.
#[test]
fn a_server_starts_although_a_session_that_it_should_continue_is_damaged() {
    let place =
        Place::scripted("", "rules: [{when: {first_word: hang}, reply: [hang]}, {reply: [{text: 'noted'}]}]");
    let server = Served::start(&place);
    for name in ["s", "other"] {
        let session = server.session("lango", name);
        let run = server.begin(&session, "hang");
        server.until(&run, |run| run["status"] == "running");
    }
    server.kill();
    let file = Connection::open(place.database()).unwrap();
    file.execute_batch("UPDATE messages SET tool_calls = '{broken' WHERE session_key = 1").unwrap();
    file.execute_batch("UPDATE runs SET run_id = CAST(x'ff' AS TEXT) WHERE session_key = 1").unwrap();
    let server = Served::start(&place);
    let third = server.session("lango", "third");
    server.say("lango", "third", "hello").well();
    assert_eq!(user_messages(&server, &third), ["hello"]);
    assert_eq!(server.ask("GET", SESSION, &Value::Null).status, 500);
    let runs = server.get("/apps/lango/users/u/sessions/other/runs");
    assert_eq!(runs[0]["status"], "running", "it was taken over and goes on");
}

#[test]
fn a_lock_of_another_program_delays_messages_and_no_reads() {
    let place = Place::scripted("", ECHO);
    let server = used(&place);
    let other = Connection::open(place.database()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    thread::scope(|scope| {
        let sent: Vec<_> = ["a", "b", "c"].map(|text| scope.spawn(|| server.say("lango", "s", text))).into();
        assert_eq!(user_messages(&server, SESSION), ["one"]);
        let unready = until_ready(&server, false);
        assert_eq!((unready.status, &unready.body["kind"]), (503, &json!("busy")));
        assert!(unready.header("retry-after").is_some());
        server.logs("is locked by another program; writes wait for it");
        assert!(sent.iter().all(|answer| !answer.is_finished()));
        other.execute_batch("ROLLBACK").unwrap();
        for answer in sent {
            answer.join().unwrap().well();
        }
    });
    assert_eq!(user_messages(&server, SESSION).len(), 4);
    until_ready(&server, true);
    server.logs("is free again after");
}

#[test]
fn many_who_ask_whether_the_server_is_ready_cost_one_write() {
    let place = Place::scripted("", ECHO);
    let server = used(&place);
    let file = Connection::open(place.database()).unwrap();
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

/// A server in a shell, whose file may not grow: a write fails as on a disk that breaks, and that needs no rights.
#[test]
fn a_disk_that_fails_is_told_and_the_same_key_works_later() {
    let place = Place::scripted("", ECHO);
    let mut shell = Command::new("sh");
    let script = "trap '' XFSZ; ulimit -f 2000; exec \"$1\" serve --port 0 --no-auth";
    shell.args(["-c", script, "sh", LANGO]).current_dir(place.here()).env_clear().envs(place.variables());
    let server = Served::of(&mut shell);
    server.session("lango", "s");
    let key = [("Idempotency-Key", "k1")];
    let large = message("lango", "s", &"word ".repeat(600_000));
    let failed = server.ask_with("POST", "/run", &key, &large);
    assert_refused(vec![("run", failed)], 503, "io_error");
    server.logs("cannot be read or written: disk I/O error (SQLite code ");
    server.ask_with("POST", "/run", &key, &message("lango", "s", "small")).well();
    server.logs("can be written again");
    assert_eq!(user_messages(&server, SESSION), ["small"]);
}

/// In a file system of four megabytes, where this machine lets us make one.
#[test]
fn a_full_disk_is_told_and_the_same_keys_work_when_there_is_room() {
    let place = Place::scripted("", ECHO);
    fs::create_dir(place.home()).unwrap();
    let control = place.here().join("control");
    let script = r#"
        mount -t tmpfs -o size=4m none "$LANGO_HOME" || { echo "listening on http://nowhere" >&2; exit; }
        "$1" serve --port 0 --no-auth &
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
    command.arg(&control).current_dir(place.here()).env_clear().envs(place.variables());
    if !can_mount() {
        return println!("there is no unshare here");
    }
    let server = Served::of(&mut command);
    if server.is_nowhere() {
        return println!("nothing can be mounted here");
    }
    let order = |what: &str| {
        let file = format!("{}-{what}", control.display());
        fs::write(&file, "").unwrap();
        while fs::exists(&file).unwrap() {
            thread::yield_now();
        }
    };
    server.session("lango", "s");
    server.say("lango", "s", "one").well();
    order("fill");
    let mut answers = all_changes(&server);
    // Nothing is deleted by then, and so nothing fails.
    answers.retain(|(name, _)| *name != "delete");
    assert_refused(answers, 507, "disk_full");
    assert_eq!(until_ready(&server, false).body["kind"], "disk_full");
    server.logs("store: there is no space left to write ");
    assert_eq!(user_messages(&server, SESSION), ["one"], "reading goes on");
    order("free");
    until_ready(&server, true);
    for (name, answer) in all_changes(&server) {
        assert!(answer.status < 300, "{name}: {answer:?}");
    }
}

/// Whether this machine has a program that makes mounts of our own.
fn can_mount() -> bool {
    let tried =
        Command::new("unshare").args(["--mount", "--map-root-user", "--pid", "--fork", "true"]).output();
    tried.is_ok_and(|output| output.status.success())
}
