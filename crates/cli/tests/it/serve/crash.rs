//! The server is killed or stopped while runs are active.

use super::client::{TestServer, lines};
use crate::common::TestEnv;
use serde_json::Value;

const TOOLS: &str = "
[stubs.dig]
delay_ms = 60
";
const RULES: &str = "
rules:
  - when: {first_word: work, turn: 0}
    reply: [{delay_ms: 30}, {call: {name: dig}}]
  - when: {first_word: work, turn: 1}
    reply: [{delay_ms: 30}, {call: {name: dig}}]
  - when: {first_word: work, turn: 2}
    reply: [{delay_ms: 30}, {text: 'done: {user}'}]
  - reply: [{text: 'noted: {user}'}]
";

/// The ids of the agent's events.
fn ids(events: &Value) -> Vec<String> {
    let of_agent = events.as_array().unwrap().iter().filter(|event| event["author"] != "user");
    of_agent.map(|event| event["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn run_continues_after_its_server_was_killed_and_its_reader_resumes() {
    for after in 0..5 {
        let env = TestEnv::scripted(TOOLS, RULES);
        let server = TestServer::start(&env);
        let session = server.create_session("lango", "s");
        let run = server.start_run(&session, "work hard");
        let mut events = server.read_events(&format!("{run}/events"), None);
        // Killed before the first event, after the first, and so on.
        let mut seen: Vec<_> = std::iter::from_fn(|| events.next()).take(after).collect();
        if after == 0 {
            server.wait_until(&run, |run| run["status"] == "running");
        }
        server.kill();

        let server = TestServer::start(&env);
        let last = seen.last().and_then(|event| event.id.clone());
        seen.extend(server.read_events(&format!("{run}/events"), last.as_deref()).all());
        let run = server.wait_until(&run, |run| run["status"] == "done");
        assert_eq!(run.get("error"), None);
        let session_json = server.get(&session);
        // The continued run keeps its streaming mode.
        let stored = seen.iter().filter(|event| event.data["partial"] != true);
        let seen_ids: Vec<String> =
            stored.map(|event| event.data["id"].as_str().unwrap().to_owned()).collect();
        assert_eq!(
            seen_ids,
            ids(&session_json["events"]),
            "killed after {after}: {:?}",
            lines(&session_json["events"])
        );
        assert_eq!(lines(&session_json["events"]).last().unwrap(), "lango-agent: done: work hard");
    }
}

#[test]
fn queued_messages_are_answered_after_the_server_was_killed() {
    let env = TestEnv::scripted(TOOLS, RULES);
    let server = TestServer::start(&env);
    let session = server.create_session("lango", "s");
    let first = server.start_run(&session, "work hard");
    server.wait_until(&first, |run| run["status"] == "running");
    let waiting: Vec<String> = ["m0", "m1"].map(|text| server.start_run(&session, text)).into();
    for run in &waiting {
        server.wait_until(run, |run| run["position"].is_number());
    }
    server.kill();
    let server = TestServer::start(&env);
    for run in std::iter::once(&first).chain(&waiting) {
        server.wait_until(run, |run| run["status"] == "done");
    }
    let session_json = lines(&server.get(&session)["events"]);
    let last: Vec<&str> = session_json.iter().rev().take(5).rev().map(String::as_str).collect();
    assert_eq!(
        last,
        [
            "lango-agent: done: work hard",
            "user: m0",
            "lango-agent: noted: m0",
            "user: m1",
            "lango-agent: noted: m1"
        ]
    );
}

#[test]
fn sigterm_lets_runs_finish() {
    let env = TestEnv::scripted(TOOLS, RULES);
    let server = TestServer::start(&env);
    let session = server.create_session("lango", "s");
    let run = server.start_run(&session, "work hard");
    let events = server.read_events(&format!("{run}/events"), None);
    server.terminate();
    let finals = events.all().into_iter().filter(|event| event.data["partial"] != true);
    assert_eq!(finals.count(), 5);
    assert!(server.wait().success());
    let server = TestServer::start(&env);
    assert_eq!(server.get(&run)["status"], "done");
}

#[test]
fn run_that_exceeds_the_grace_period_continues_at_the_next_start() {
    let env = TestEnv::scripted(TOOLS, RULES);
    let server = TestServer::with(&env, &["--grace", "0"]);
    let session = server.create_session("lango", "s");
    let run = server.start_run(&session, "work hard");
    let mut events = server.read_events(&format!("{run}/events"), None);
    events.next().unwrap();
    server.terminate();
    assert!(server.wait().success());
    let server = TestServer::start(&env);
    server.wait_until(&run, |run| run["status"] == "done");
    assert_eq!(lines(&server.get(&session)["events"]).last().unwrap(), "lango-agent: done: work hard");
}
