//! Long sessions and lists are sent in bounded memory.

use super::client::{TestServer, lines, message};
use crate::common::TestEnv;
use rusqlite::Connection;
use serde_json::json;
use std::io::Read;

const EVENTS: u64 = 12_000;
/// The most memory that the server may use with many unread responses.
const UNREAD: u64 = 200 << 20;
/// The least size of the body, and the most memory that the server may use for it.
const LARGE: usize = 48 << 20;
const SMALL: u64 = 32 << 20;

/// Multiplies the only event of each session.
fn grow(env: &TestEnv, events: u64) {
    let conn = Connection::open(env.database()).unwrap();
    let grow = format!(
        "WITH RECURSIVE more (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM more WHERE n < {events} - 1)
         INSERT INTO messages (session_key, seq, tokens, timestamp, counted_by, message_id, role, author, tool_calls,
             meta, content)
         SELECT session_key, seq + n, tokens, timestamp, counted_by, message_id || n, role, author, tool_calls, meta,
             content
         FROM messages, more;
         UPDATE sessions SET last_seq = {events};"
    );
    conn.execute_batch(&grow).unwrap();
}

#[test]
fn long_session_is_streamed_in_bounded_memory() {
    let env = TestEnv::canned();
    let server = TestServer::start(&env);
    let text = "The quick brown fox jumps over the lazy dog. ".repeat(90);
    let event = json!({"author": "user", "content": {"role": "user", "parts": [{"text": text}]}});
    let sessions = "/apps/canned/users/u/sessions";
    server.request("POST", sessions, &json!({"sessionId": "long", "events": [event]})).success();
    grow(&env, EVENTS);
    let session = format!("{sessions}/long");
    let before = server.peak_memory();
    let (bytes, events) = server.measure(&session, "\"author\":");
    let more = server.peak_memory() - before;
    assert_eq!(events as u64, EVENTS);
    assert!(bytes > LARGE, "{bytes} bytes");
    assert!(more < SMALL, "{more} bytes of memory for {bytes} bytes");

    let last = server.request("GET", &format!("{session}?limit=3&after={}", EVENTS - 3), &json!(null));
    assert_eq!(last.header("x-next-after"), None);
    assert_eq!(lines(&last.success()["events"]).len(), 3);
}

/// Creates the session `long` of a user with an event of the given size.
fn create(server: &TestServer, user: &str, size: usize) -> String {
    let event = json!({"author": "user", "content": {"role": "user", "parts": [{"text": "x".repeat(size)}]}});
    let sessions = format!("/apps/canned/users/{user}/sessions");
    server.request("POST", &sessions, &json!({"sessionId": "long", "events": [event]})).success();
    format!("{sessions}/long")
}

#[test]
fn unread_responses_hold_little_memory() {
    for (size, events) in [(4_000, 4_500), (200_000, 90)] {
        let env = TestEnv::canned();
        let server = TestServer::start(&env);
        let session = create(&server, "u", size);
        grow(&env, events);
        let mut unread: Vec<_> = (0..200).map(|_| server.get_unread(&session)).collect();
        for stream in &mut unread {
            stream.read_exact(&mut [0; 15]).unwrap();
        }
        assert_eq!(server.get("/health")["status"], "ok");
        let peak = server.peak_memory();
        assert!(peak < UNREAD, "{peak} bytes of memory with events of {size} bytes");
    }
}

/// An event is serialized as a whole; large ones wait for the memory that others return.
#[test]
fn unread_responses_of_large_events_hold_little_memory_and_do_not_block_other_users() {
    let env = TestEnv::canned();
    let server = TestServer::start(&env);
    let sessions = ["ann", "bob"].map(|user| create(&server, user, 1_000_000));
    grow(&env, 18);
    let _unread: Vec<_> = (0..200).map(|_| server.get_unread(&sessions[0])).collect();
    let (bytes, events) = server.measure(&sessions[1], "\"author\":");
    assert!(bytes > 18_000_000 && events == 18, "{bytes} bytes, {events} events");
    let peak = server.peak_memory();
    assert!(peak < UNREAD, "{peak} bytes of memory");
}

/// The stream of a run, from memory and after a restart from the log, and the list of `/run`.
#[test]
fn unread_streams_of_large_answers_hold_little_memory_and_do_not_block_other_users() {
    let answer = "x".repeat(1_000_000);
    let script = format!("rules:\n- reply: [{{text: {answer}}}]\n");
    let env = TestEnv::scripted("", &script);
    let server = TestServer::start(&env);
    let runs = ["ann", "bob"].map(|user| {
        let sessions = format!("/apps/lango/users/{user}/sessions");
        server.request("POST", &sessions, &json!({"sessionId": "s"})).success();
        let mut body = message("lango", "s", "hello");
        body["userId"] = json!(user);
        let done = server.request("POST", "/run", &body);
        let run = done.header("x-run-id").unwrap().to_owned();
        assert_eq!(lines(&done.success())[0].len(), "lango-agent: ".len() + answer.len());
        format!("{sessions}/s/runs/{run}/events")
    });
    let check = |server: &TestServer| {
        let _unread: Vec<_> = (0..200).map(|_| server.get_unread(&runs[0])).collect();
        let (bytes, events) = server.measure(&runs[1], "\"author\":");
        assert!(bytes > answer.len() && events == 1, "{bytes} bytes, {events} events");
        let peak = server.peak_memory();
        assert!(peak < UNREAD, "{peak} bytes of memory");
    };
    check(&server);
    server.kill();
    check(&TestServer::start(&env));
}

#[test]
fn long_session_list_is_complete_and_ordered() {
    let env = TestEnv::canned();
    let server = TestServer::start(&env);
    let sessions = "/apps/canned/users/u/sessions";
    let note = "a state that takes some room ".repeat(20);
    let ids: Vec<String> = (0..600).map(|number| format!("s{number}")).collect();
    for id in &ids {
        server.request("POST", sessions, &json!({"sessionId": id, "state": {"note": note}})).success();
    }
    let listed = server.get(sessions);
    let found: Vec<&str> = listed.as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert_eq!(found, ids);
    assert!(listed.as_array().unwrap().iter().all(|one| one["state"]["note"] == note.as_str()));
    assert_eq!(server.get("/apps/canned/users/nobody/sessions"), json!([]));
}
