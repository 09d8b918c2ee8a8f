//! The server is killed, or told to stop, in the middle of things.

use super::client::{Served, lines};
use crate::common::Place;
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
fn a_run_goes_on_after_its_server_was_killed_and_its_reader_gets_the_rest() {
    for after in 0..5 {
        let place = Place::scripted(TOOLS, RULES);
        let server = Served::start(&place);
        let session = server.session("lango", "s");
        let run = server.begin(&session, "work hard");
        let mut events = server.listen(&format!("{run}/events"), None);
        // Killed before the first event, after the first, and so on.
        let mut seen: Vec<_> = std::iter::from_fn(|| events.next()).take(after).collect();
        if after == 0 {
            server.until(&run, |run| run["status"] == "running");
        }
        server.kill();

        let server = Served::start(&place);
        let last = seen.last().and_then(|told| told.id.clone());
        seen.extend(server.listen(&format!("{run}/events"), last.as_deref()).all());
        let run = server.until(&run, |run| run["status"] == "done");
        assert_eq!(run.get("error"), None);
        let kept = server.get(&session);
        // The resumed run streams as it was asked to.
        let stored = seen.iter().filter(|told| told.data["partial"] != true);
        let told: Vec<String> = stored.map(|told| told.data["id"].as_str().unwrap().to_owned()).collect();
        assert_eq!(told, ids(&kept["events"]), "killed after {after}: {:?}", lines(&kept["events"]));
        assert_eq!(lines(&kept["events"]).last().unwrap(), "lango-agent: done: work hard");
    }
}

#[test]
fn messages_that_wait_when_the_server_is_killed_are_answered_by_the_next() {
    let place = Place::scripted(TOOLS, RULES);
    let server = Served::start(&place);
    let session = server.session("lango", "s");
    let first = server.begin(&session, "work hard");
    server.until(&first, |run| run["status"] == "running");
    let waiting: Vec<String> = ["m0", "m1"].map(|text| server.begin(&session, text)).into();
    for run in &waiting {
        server.until(run, |run| run["position"].is_number());
    }
    server.kill();
    let server = Served::start(&place);
    for run in std::iter::once(&first).chain(&waiting) {
        server.until(run, |run| run["status"] == "done");
    }
    let kept = lines(&server.get(&session)["events"]);
    let last: Vec<&str> = kept.iter().rev().take(5).rev().map(String::as_str).collect();
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
fn a_server_that_is_told_to_stop_lets_runs_finish() {
    let place = Place::scripted(TOOLS, RULES);
    let server = Served::start(&place);
    let session = server.session("lango", "s");
    let run = server.begin(&session, "work hard");
    let events = server.listen(&format!("{run}/events"), None);
    server.terminate();
    let whole = events.all().into_iter().filter(|told| told.data["partial"] != true);
    assert_eq!(whole.count(), 5);
    assert!(server.wait().success());
    let server = Served::start(&place);
    assert_eq!(server.get(&run)["status"], "done");
}

#[test]
fn a_run_that_does_not_finish_in_time_goes_on_at_the_next_start() {
    let place = Place::scripted(TOOLS, RULES);
    let server = Served::with(&place, &["--grace", "0"]);
    let session = server.session("lango", "s");
    let run = server.begin(&session, "work hard");
    let mut events = server.listen(&format!("{run}/events"), None);
    events.next().unwrap();
    server.terminate();
    assert!(server.wait().success());
    let server = Served::start(&place);
    server.until(&run, |run| run["status"] == "done");
    assert_eq!(lines(&server.get(&session)["events"]).last().unwrap(), "lango-agent: done: work hard");
}
