//! Runs that outlive those who asked for them.

use super::client::{Served, Told, lines, message};
use crate::common::Place;
use serde_json::{Value, json};
use std::{
    thread,
    time::{Duration, Instant},
};

const SLOW: &str = "
word_delay_ms: 2
rules:
  - when: {first_word: tell}
    reply: [{text: 'one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
      seventeen eighteen nineteen twenty and so on and on and on until the very end of it all'}]
  - when: {first_word: wait, turn: 0}
    reply: [{delay_ms: 400}, {text: 'waited: {user}'}]
  - when: {first_word: hang}
    reply: [{text: beginning}, hang]
  - reply: [{text: 'noted: {user}'}]
";

fn text(told: &Told) -> &str {
    told.data["content"]["parts"][0]["text"].as_str().unwrap()
}

#[test]
fn a_stream_shows_the_pieces_and_then_the_whole() {
    let place = Place::canned();
    let server = Served::start(&place);
    server.session("canned", "s");
    let mut body = message("canned", "s", "hi you");
    body["streaming"] = json!(true);
    let told = server.stream(&body).all();
    let (whole, pieces) = told.split_last().unwrap();
    assert_eq!(pieces.len(), 8);
    assert!(pieces.iter().all(|piece| piece.data["partial"] == true && piece.data["id"] == whole.data["id"]));
    assert_eq!(pieces.iter().map(text).collect::<String>(), text(whole));
    assert_eq!((whole.id.as_deref(), &whole.data["partial"]), (Some("1"), &json!(false)));
}

#[test]
fn whoever_leaves_ends_nothing() {
    let place = Place::scripted("", SLOW);
    let server = Served::start(&place);
    let session = server.session("lango", "s");
    let mut events = server.stream(&json!({
        "appName": "lango", "userId": "u", "sessionId": "s", "streaming": true,
        "newMessage": {"parts": [{"text": "tell me"}]},
    }));
    events.next().unwrap();
    let run = format!("{session}/runs/{}", events.run);
    drop(events);
    server.until(&run, |run| run["status"] == "done");
    assert_eq!(lines(&server.get(&session)["events"]).len(), 2);
}

#[test]
fn messages_at_once_are_all_answered_one_after_the_other() {
    for number in [4, 64] {
        let place = Place::scripted("", "rules: [{reply: [{text: 'noted: {user}'}]}]");
        let server = Served::start(&place);
        let session = server.session("lango", "s");
        thread::scope(|scope| {
            for message in 0..number {
                let server = &server;
                scope.spawn(move || {
                    let said = server.say("lango", "s", &format!("m{message}")).well();
                    assert_eq!(lines(&said), [format!("lango-agent: noted: m{message}")]);
                });
            }
        });
        let kept = lines(&server.get(&session)["events"]);
        assert_eq!(kept.len(), 2 * number);
        for pair in kept.chunks(2) {
            assert_eq!(pair[1], pair[0].replace("user: ", "lango-agent: noted: "));
        }
    }
}

#[test]
fn a_busy_session_takes_messages_in_their_order_and_says_where_they_are() {
    let place = Place::scripted("", SLOW);
    let server = Served::start(&place);
    let session = server.session("lango", "s");
    // It does not end by itself, so the queue stands still.
    let first = server.begin(&session, "hang on");
    server.until(&first, |run| run["status"] == "running");
    let mut waiting = Vec::new();
    for number in 0..4 {
        let run = server.begin(&session, &format!("m{number}"));
        let view = server.get(&run);
        assert_eq!((&view["status"], &view["position"]), (&json!("queued"), &json!(number)));
        waiting.push(run);
    }
    server.ask("POST", &format!("{first}/cancel"), &Value::Null).well();
    for run in &waiting {
        server.until(run, |run| run["status"] == "done");
    }
    let said: Vec<String> = lines(&server.get(&session)["events"]);
    let by_user: Vec<&String> = said.iter().filter(|line| line.starts_with("user")).collect();
    assert_eq!(by_user, ["user: hang on", "user: m0", "user: m1", "user: m2", "user: m3"]);
    let listed = server.get(&format!("{session}/runs"));
    assert_eq!(listed.as_array().unwrap().len(), 5);
}

#[test]
fn a_run_that_is_cancelled_ends_at_once_and_the_next_message_works() {
    let place = Place::scripted("", SLOW);
    let server = Served::start(&place);
    let session = server.session("lango", "s");
    let run = server.begin(&session, "hang on");
    let mut events = server.listen(&format!("{run}/events"), None);
    assert_eq!(text(&events.next().unwrap()), "beginning");
    let asked = Instant::now();
    let cancelled = server.ask("POST", &format!("{run}/cancel"), &Value::Null).well();
    assert_eq!(cancelled["status"], "cancelled");
    assert!(asked.elapsed() < Duration::from_secs(2));
    let last = events.all().pop().unwrap();
    assert_eq!(last.data["error"], "Cancelled: the run was cancelled");
    assert_eq!(lines(&server.say("lango", "s", "again").well()), ["lango-agent: noted: again"]);
    let unknown = server.ask("POST", &format!("{session}/runs/none/cancel"), &Value::Null);
    assert_eq!((unknown.status, &unknown.body["detail"]), (404, &json!("Run not found")));
}

#[test]
fn a_repeated_request_with_its_key_is_the_same_run() {
    let place = Place::scripted("", SLOW);
    let server = Served::start(&place);
    let session = server.session("lango", "s");
    let ask = |key: &str| {
        let body = message("lango", "s", "once");
        server.ask_with("POST", "/run", &[("Idempotency-Key", key)], &body)
    };
    let (first, second, other) = (ask("k1"), ask("k1"), ask("k2"));
    assert_eq!(first.header("x-run-id"), second.header("x-run-id"));
    assert_eq!(first.body, second.body);
    assert_ne!(first.header("x-run-id"), other.header("x-run-id"));
    assert_eq!(lines(&server.get(&session)["events"]).len(), 4);
}

#[test]
fn an_idempotency_key_of_another_request_is_refused_and_nothing_is_stored() {
    let place = Place::scripted("", SLOW);
    let server = Served::start(&place);
    let session = server.session("lango", "s");
    server.session("lango", "other");
    let ask = |body| server.ask_with("POST", "/run", &[("Idempotency-Key", "k")], &body);
    assert_eq!(ask(message("lango", "s", "once")).status, 200);
    for body in [message("lango", "s", "twice"), message("lango", "other", "once")] {
        let refused = ask(body);
        assert_eq!(refused.status, 422, "{refused:?}");
        assert_eq!(refused.body["detail"][0]["type"], "idempotency_key_reused", "{refused:?}");
    }
    assert_eq!(lines(&server.get(&session)["events"]).len(), 2);
}

#[test]
fn a_session_in_a_run_is_not_patched_and_its_removal_ends_the_run() {
    let place = Place::scripted("", SLOW);
    let server = Served::start(&place);
    let session = server.session("lango", "s");
    let run = server.begin(&session, "hang on");
    let mut events = server.listen(&format!("{run}/events"), None);
    events.next().unwrap();
    let patched = server.ask("PATCH", &session, &json!({"stateDelta": {"k": 1}}));
    assert_eq!(patched.status, 409, "{patched:?}");
    assert!(patched.body["detail"].as_str().unwrap().contains("has an active run"));
    server.ask("DELETE", &session, &Value::Null).well();
    let last = events.all().pop().unwrap();
    assert_eq!(last.data["error"], "Cancelled: the run was cancelled");
    assert_eq!(server.ask("GET", &session, &Value::Null).status, 404);
}
