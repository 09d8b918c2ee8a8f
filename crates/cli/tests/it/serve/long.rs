//! What is long is never in memory as a whole.

use super::client::{Served, lines};
use crate::common::Place;
use rusqlite::Connection;
use serde_json::json;

const EVENTS: u64 = 12_000;
/// Of the body that is sent, and of what the server may need for it.
const LARGE: usize = 48 << 20;
const SMALL: u64 = 32 << 20;

/// Repeats the only event of the only session.
fn grow(place: &Place) {
    let conn = Connection::open(place.database()).unwrap();
    let grow = format!(
        "WITH RECURSIVE more (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM more WHERE n < {EVENTS} - 1)
         INSERT INTO messages (session_key, seq, tokens, timestamp, counted_by, message_id, role, author, tool_calls,
             meta, content)
         SELECT session_key, seq + n, tokens, timestamp, counted_by, message_id || n, role, author, tool_calls, meta,
             content
         FROM messages, more;
         UPDATE sessions SET last_seq = {EVENTS};"
    );
    conn.execute_batch(&grow).unwrap();
}

#[test]
fn a_session_of_very_many_events_is_sent_without_being_in_memory() {
    let place = Place::canned();
    let server = Served::start(&place);
    let text = "The quick brown fox jumps over the lazy dog. ".repeat(90);
    let event = json!({"author": "user", "content": {"role": "user", "parts": [{"text": text}]}});
    let sessions = "/apps/canned/users/u/sessions";
    server.ask("POST", sessions, &json!({"sessionId": "long", "events": [event]})).well();
    grow(&place);
    let session = format!("{sessions}/long");
    let before = server.peak_memory();
    let (bytes, events) = server.measure(&session, "\"author\":");
    let more = server.peak_memory() - before;
    assert_eq!(events as u64, EVENTS);
    assert!(bytes > LARGE, "{bytes} bytes");
    assert!(more < SMALL, "{more} bytes of memory for {bytes} bytes");

    let last = server.ask("GET", &format!("{session}?limit=3&after={}", EVENTS - 3), &json!(null));
    assert_eq!(last.header("x-next-after"), None);
    assert_eq!(lines(&last.well()["events"]).len(), 3);
}

#[test]
fn a_list_of_many_sessions_comes_whole_and_in_order() {
    let place = Place::canned();
    let server = Served::start(&place);
    let sessions = "/apps/canned/users/u/sessions";
    let note = "a state that takes some room ".repeat(20);
    let ids: Vec<String> = (0..600).map(|number| format!("s{number}")).collect();
    for id in &ids {
        server.ask("POST", sessions, &json!({"sessionId": id, "state": {"note": note}})).well();
    }
    let listed = server.get(sessions);
    let found: Vec<&str> = listed.as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert_eq!(found, ids);
    assert!(listed.as_array().unwrap().iter().all(|one| one["state"]["note"] == note.as_str()));
    assert_eq!(server.get("/apps/canned/users/nobody/sessions"), json!([]));
}
