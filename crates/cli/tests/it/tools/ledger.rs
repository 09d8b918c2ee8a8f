//! A call that may have taken effect never runs again, and everyone is told that nobody knows.

use super::exec;
use crate::{common::Place, serve::client::Served};
use serde_json::json;
use std::{fs, thread, time::Duration};

/// A server that is killed while a call is running; the same call, as the next server leaves it.
fn killed_in(toml: &str, call: &serde_json::Value) -> (Place, serde_json::Value) {
    let script = json!({"rules": [
        {"when": {"first_word": "go", "turn": 0}, "reply": [{"call": call}]},
        {"reply": [{"text": "done"}]},
    ]});
    let place = Place::scripted(toml, &script.to_string());
    let server = Served::start(&place);
    let session = server.session("lango", "s");
    let run = server.begin(&session, "go");
    while !place.here().join("count").exists() {
        thread::sleep(Duration::from_millis(5));
    }
    server.kill();
    let shown = place.lango(&["sessions", "show", "s"]).well().out;
    let last = shown.lines().last().unwrap();
    assert!(last.contains("! → ") && last.ends_with("[has begun, outcome unknown]"), "{shown}");
    let server = Served::start(&place);
    server.until(&run, |run| run["status"] == "done");
    let events = server.get(&session)["events"].clone();
    let mut answers =
        events.as_array().unwrap().iter().map(|event| &event["content"]["parts"][0]["functionResponse"]);
    let answer = answers.find(|answer| !answer.is_null()).unwrap()["response"].clone();
    (place, answer)
}

#[test]
fn a_command_that_was_cut_off_is_not_run_again_and_its_outcome_is_unknown() {
    let slow = exec("echo once >> count; sleep 30; echo twice >> count");
    let (place, answer) = killed_in("user = \"u\"\n[approval]\nexecute = \"allow\"\n", &slow);
    assert!(answer["error"].as_str().unwrap().starts_with("interrupted, outcome unknown"), "{answer}");
    assert_eq!(fs::read_to_string(place.here().join("count")).unwrap(), "once\n");
    let shown = place.lango(&["sessions", "show", "s"]).well().out;
    assert!(shown.contains("! ← exec {\"error\":\"interrupted, outcome unknown"), "{shown}");
    assert!(!shown.contains("has begun"), "{shown}");
}
