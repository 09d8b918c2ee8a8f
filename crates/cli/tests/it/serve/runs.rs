//! Runs: streaming, queueing, cancelling, idempotency.

use super::client::{SseEvent, TestServer, lines, message};
use crate::common::TestEnv;
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

fn text(event: &SseEvent) -> &str {
    event.data["content"]["parts"][0]["text"].as_str().unwrap()
}

#[test]
fn stream_sends_partial_events_before_the_final_one() {
    let env = TestEnv::canned();
    let server = TestServer::start(&env);
    server.create_session("canned", "s");
    let mut body = message("canned", "s", "hi you");
    body["streaming"] = json!(true);
    let events = server.stream(&body).all();
    let (last, partials) = events.split_last().unwrap();
    assert_eq!(partials.len(), 8);
    assert!(
        partials
            .iter()
            .all(|partial| partial.data["partial"] == true && partial.data["id"] == last.data["id"])
    );
    assert_eq!(partials.iter().map(text).collect::<String>(), text(last));
    assert_eq!(last.data["partial"], false);
    assert!(events.iter().all(|event| event.id.is_none()), "blocks of ADK's stream have no id");
}

#[test]
fn client_disconnect_does_not_end_the_run() {
    let env = TestEnv::scripted("", SLOW);
    let server = TestServer::start(&env);
    let session = server.create_session("lango", "s");
    let mut events = server.stream(&json!({
        "appName": "lango", "userId": "u", "sessionId": "s", "streaming": true,
        "newMessage": {"parts": [{"text": "tell me"}]},
    }));
    events.next().unwrap();
    let run = format!("{session}/runs/{}", events.run);
    drop(events);
    server.wait_until(&run, |run| run["status"] == "done");
    assert_eq!(lines(&server.get(&session)["events"]).len(), 2);
}

#[test]
fn concurrent_messages_are_answered_in_sequence() {
    for number in [4, 64] {
        let env = TestEnv::scripted("", "rules: [{reply: [{text: 'noted: {user}'}]}]");
        let server = TestServer::start(&env);
        let session = server.create_session("lango", "s");
        thread::scope(|scope| {
            for message in 0..number {
                let server = &server;
                scope.spawn(move || {
                    let events = server.send_message("lango", "s", &format!("m{message}")).success();
                    assert_eq!(lines(&events), [format!("lango-agent: noted: m{message}")]);
                });
            }
        });
        let stored = lines(&server.get(&session)["events"]);
        assert_eq!(stored.len(), 2 * number);
        for pair in stored.chunks(2) {
            assert_eq!(pair[1], pair[0].replace("user: ", "lango-agent: noted: "));
        }
    }
}

#[test]
fn busy_session_queues_messages_in_order_with_their_positions() {
    let env = TestEnv::scripted("", SLOW);
    let server = TestServer::start(&env);
    let session = server.create_session("lango", "s");
    // The run does not end by itself, so the queue does not advance.
    let first = server.start_run(&session, "hang on");
    server.wait_until(&first, |run| run["status"] == "running");
    let mut waiting = Vec::new();
    for number in 0..4 {
        let run = server.start_run(&session, &format!("m{number}"));
        let view = server.get(&run);
        assert_eq!((&view["status"], &view["position"]), (&json!("queued"), &json!(number)));
        waiting.push(run);
    }
    server.request("POST", &format!("{first}/cancel"), &Value::Null).success();
    for run in &waiting {
        server.wait_until(run, |run| run["status"] == "done");
    }
    let lines: Vec<String> = lines(&server.get(&session)["events"]);
    let by_user: Vec<&String> = lines.iter().filter(|line| line.starts_with("user")).collect();
    assert_eq!(by_user, ["user: hang on", "user: m0", "user: m1", "user: m2", "user: m3"]);
    let listed = server.get(&format!("{session}/runs"));
    assert_eq!(listed.as_array().unwrap().len(), 5);
}

#[test]
fn cancelled_run_ends_promptly_and_the_session_remains_usable() {
    let env = TestEnv::scripted("", SLOW);
    let server = TestServer::start(&env);
    let session = server.create_session("lango", "s");
    let run = server.start_run(&session, "hang on");
    let mut events = server.read_events(&format!("{run}/events"), None);
    assert_eq!(text(&events.next().unwrap()), "beginning");
    let start = Instant::now();
    let cancelled = server.request("POST", &format!("{run}/cancel"), &Value::Null).success();
    assert_eq!(cancelled["status"], "cancelled");
    assert!(start.elapsed() < Duration::from_secs(2));
    let last = events.all().pop().unwrap();
    assert_eq!(last.data["error"], "Cancelled: the run was cancelled");
    assert_eq!(lines(&server.send_message("lango", "s", "again").success()), ["lango-agent: noted: again"]);
    let unknown = server.request("POST", &format!("{session}/runs/none/cancel"), &Value::Null);
    assert_eq!((unknown.status, &unknown.body["detail"]), (404, &json!("Run not found")));
}

#[test]
fn repeated_idempotency_key_returns_the_same_run() {
    let env = TestEnv::scripted("", SLOW);
    let server = TestServer::start(&env);
    let session = server.create_session("lango", "s");
    let ask = |key: &str| {
        let body = message("lango", "s", "once");
        server.request_with("POST", "/run", &[("Idempotency-Key", key)], &body)
    };
    let (first, second, other) = (ask("k1"), ask("k1"), ask("k2"));
    assert_eq!(first.header("x-run-id"), second.header("x-run-id"));
    assert_eq!(first.body, second.body);
    assert_ne!(first.header("x-run-id"), other.header("x-run-id"));
    assert_eq!(lines(&server.get(&session)["events"]).len(), 4);
}

#[test]
fn idempotency_key_of_another_request_is_refused() {
    let env = TestEnv::scripted("", SLOW);
    let server = TestServer::start(&env);
    let session = server.create_session("lango", "s");
    server.create_session("lango", "other");
    let ask = |body| server.request_with("POST", "/run", &[("Idempotency-Key", "k")], &body);
    assert_eq!(ask(message("lango", "s", "once")).status, 200);
    for body in [message("lango", "s", "twice"), message("lango", "other", "once")] {
        let refused = ask(body);
        assert_eq!(refused.status, 422, "{refused:?}");
        assert_eq!(refused.body["detail"][0]["type"], "idempotency_key_reused", "{refused:?}");
    }
    assert_eq!(lines(&server.get(&session)["events"]).len(), 2);
}

#[test]
fn active_session_cannot_be_patched_and_deleting_it_cancels_the_run() {
    let env = TestEnv::scripted("", SLOW);
    let server = TestServer::start(&env);
    let session = server.create_session("lango", "s");
    let run = server.start_run(&session, "hang on");
    let mut events = server.read_events(&format!("{run}/events"), None);
    events.next().unwrap();
    let patched = server.request("PATCH", &session, &json!({"stateDelta": {"k": 1}}));
    assert_eq!(patched.status, 409, "{patched:?}");
    assert!(patched.body["detail"].as_str().unwrap().contains("has an active run"));
    server.request("DELETE", &session, &Value::Null).success();
    let last = events.all().pop().unwrap();
    assert_eq!(last.data["error"], "Cancelled: the run was cancelled");
    assert_eq!(server.request("GET", &session, &Value::Null).status, 404);
}
