//! A call that may have taken effect never runs again, and everyone is told that nobody knows; what can be repeated is.

use super::{answers_in, call, exec};
use crate::{common::Place, serve::client::Served};
use serde_json::{Value, json};
use std::{fs, thread, time::Duration};

/// A server that is killed while a call is running; the same call, as the next server leaves it.
fn killed_in(toml: &str, call: &Value) -> (Place, Value) {
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

/// Tools that write their key down, and then wait for somebody to kill the program; the second time they are quick.
const REPEATED: &str = r#"user = "u"
[approval]
execute = "allow"
[commands.look]
description = "Counts."
effect = "read_only"
command = ["sh", "-c", "echo $LANGO_CALL_ID >> look; test -e killed || sleep 1000; echo looked"]
[commands.keep]
description = "Counts."
effect = "idempotent"
command = ["sh", "-c", "echo $LANGO_CALL_ID >> keep; test -e killed || sleep 1000; echo kept"]
[commands.pay]
description = "Counts."
effect = "once"
command = ["sh", "-c", "echo $LANGO_CALL_ID >> pay; test -e killed || sleep 1000; echo paid"]
[commands.done]
description = "Counts."
effect = "once"
command = ["sh", "-c", "echo $LANGO_CALL_ID >> done"]
"#;

#[test]
fn after_a_crash_what_can_be_repeated_is_made_again_with_its_key_and_all_else_is_not() {
    let names = ["look", "keep", "pay"];
    let calls: Vec<Value> = names.iter().map(|name| json!({"call": call(name, json!({}))})).collect();
    let script = json!({"rules": [
        {"when": {"first_word": "go", "turn": 0}, "reply": [{"call": call("done", json!({}))}]},
        {"when": {"first_word": "go", "turn": 1}, "reply": calls},
        {"reply": [{"text": "done"}]},
    ]});
    let place = Place::scripted(REPEATED, &script.to_string());
    let server = Served::start(&place);
    let session = server.session("lango", "s");
    let run = server.begin(&session, "go");
    while !names.iter().all(|name| place.here().join(name).exists()) {
        thread::sleep(Duration::from_millis(5));
    }
    place.file("killed", "");
    server.kill();
    let server = Served::start(&place);
    server.until(&run, |run| run["status"] == "done");

    let keys = |name: &str| -> Vec<String> {
        fs::read_to_string(place.here().join(name)).unwrap().lines().map(str::to_owned).collect()
    };
    let (look, keep, pay) = (keys("look"), keys("keep"), keys("pay"));
    assert_eq!((look.len(), keep.len(), pay.len()), (2, 2, 1));
    assert!(!keep[0].is_empty() && keep[0] == keep[1] && look[0] == look[1], "{look:?} {keep:?}");
    assert_eq!(keys("done").len(), 1, "what had its answer is not touched");
    let events = server.get(&session)["events"].clone();
    let said = answers_in(events.as_array().unwrap());
    assert_eq!((&said[1]["output"], &said[2]["output"]), (&json!("looked\n"), &json!("kept\n")), "{said:?}");
    assert!(said[3]["error"].as_str().unwrap().starts_with("interrupted, outcome unknown"), "{said:?}");
}

/// A file is written in one step, so that a second run finds the first one's work, or none of it.
#[test]
fn a_file_that_was_written_before_the_crash_is_found_written() {
    let write = call("write_file", json!({"path": "a.txt", "content": "new\n"}));
    let slow = exec("while ! test -e a.txt; do sleep 0.01; done; echo once >> count; sleep 1000");
    let script = json!({"rules": [
        {"when": {"first_word": "go", "turn": 0}, "reply": [{"call": write}, {"call": slow}]},
        {"reply": [{"text": "done"}]},
    ]});
    let toml = "user = \"u\"\n[approval]\nexecute = \"allow\"\nwrite = \"allow\"\n";
    let place = Place::scripted(toml, &script.to_string());
    let server = Served::start(&place);
    let session = server.session("lango", "s");
    let run = server.begin(&session, "go");
    while !place.here().join("count").exists() {
        thread::sleep(Duration::from_millis(5));
    }
    server.kill();
    let server = Served::start(&place);
    server.until(&run, |run| run["status"] == "done");
    let said = answers_in(server.get(&session)["events"].as_array().unwrap());
    assert_eq!(said[0]["unchanged"], true, "{said:?}");
    assert!(said[1]["error"].as_str().unwrap().starts_with("interrupted, outcome unknown"), "{said:?}");
    assert_eq!(fs::read_to_string(place.here().join("count")).unwrap(), "once\n");
}
