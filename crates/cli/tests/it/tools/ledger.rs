//! Calls after a crash: one that may have taken effect is not rerun and its outcome is reported as unknown; repeatable ones are
//! rerun.

use super::{call, exec, tool_results_in};
use crate::{common::TestEnv, serve::client::TestServer};
use serde_json::{Value, json};
use std::{fs, thread, time::Duration};

/// Kills a server during a call, and returns the result of the call after the next server has finished the run.
fn killed_in(toml: &str, call: &Value) -> (TestEnv, Value) {
    let script = json!({"rules": [
        {"when": {"first_word": "go", "turn": 0}, "reply": [{"call": call}]},
        {"reply": [{"text": "done"}]},
    ]});
    let env = TestEnv::scripted(toml, &script.to_string());
    let server = TestServer::start(&env);
    let session = server.create_session("lango", "s");
    let run = server.start_run(&session, "go");
    while !env.workdir().join("count").exists() {
        thread::sleep(Duration::from_millis(5));
    }
    server.kill();
    let shown = env.lango(&["sessions", "show", "s"]).success().out;
    let last = shown.lines().last().unwrap();
    assert!(last.contains("! → ") && last.ends_with("[started, outcome unknown]"), "{shown}");
    let server = TestServer::start(&env);
    server.wait_until(&run, |run| run["status"] == "done");
    let events = server.get(&session)["events"].clone();
    let mut answers =
        events.as_array().unwrap().iter().map(|event| &event["content"]["parts"][0]["functionResponse"]);
    let answer = answers.find(|answer| !answer.is_null()).unwrap()["response"].clone();
    (env, answer)
}

#[test]
fn interrupted_command_is_not_rerun_and_its_outcome_is_unknown() {
    let slow = exec("echo once >> count; sleep 30; echo twice >> count");
    let (env, answer) = killed_in("user = \"u\"\n[approval]\nexecute = \"allow\"\n", &slow);
    assert!(answer["error"].as_str().unwrap().starts_with("interrupted, outcome unknown"), "{answer}");
    assert_eq!(fs::read_to_string(env.workdir().join("count")).unwrap(), "once\n");
    let shown = env.lango(&["sessions", "show", "s"]).success().out;
    assert!(shown.contains("! ← exec {\"error\":\"interrupted, outcome unknown"), "{shown}");
    assert!(!shown.contains("started, outcome"), "{shown}");
}

/// Tools that record their call id and then wait for the kill. Reruns return at once.
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
fn crash_reruns_repeatable_calls_with_their_call_id_and_no_others() {
    let names = ["look", "keep", "pay"];
    let calls: Vec<Value> = names.iter().map(|name| json!({"call": call(name, json!({}))})).collect();
    let script = json!({"rules": [
        {"when": {"first_word": "go", "turn": 0}, "reply": [{"call": call("done", json!({}))}]},
        {"when": {"first_word": "go", "turn": 1}, "reply": calls},
        {"reply": [{"text": "done"}]},
    ]});
    let env = TestEnv::scripted(REPEATED, &script.to_string());
    let server = TestServer::start(&env);
    let session = server.create_session("lango", "s");
    let run = server.start_run(&session, "go");
    while !names.iter().all(|name| env.workdir().join(name).exists()) {
        thread::sleep(Duration::from_millis(5));
    }
    env.file("killed", "");
    server.kill();
    let server = TestServer::start(&env);
    server.wait_until(&run, |run| run["status"] == "done");

    let keys = |name: &str| -> Vec<String> {
        fs::read_to_string(env.workdir().join(name)).unwrap().lines().map(str::to_owned).collect()
    };
    let (look, keep, pay) = (keys("look"), keys("keep"), keys("pay"));
    assert_eq!((look.len(), keep.len(), pay.len()), (2, 2, 1));
    assert!(!keep[0].is_empty() && keep[0] == keep[1] && look[0] == look[1], "{look:?} {keep:?}");
    assert_eq!(keys("done").len(), 1, "a call with a result is not rerun");
    let events = server.get(&session)["events"].clone();
    let results = tool_results_in(events.as_array().unwrap());
    assert_eq!(
        (&results[1]["output"], &results[2]["output"]),
        (&json!("looked\n"), &json!("kept\n")),
        "{results:?}"
    );
    assert!(results[3]["error"].as_str().unwrap().starts_with("interrupted, outcome unknown"), "{results:?}");
}

/// A file is written atomically, so a rerun finds either the whole file or none.
#[test]
fn write_file_after_a_crash_finds_its_file_unchanged() {
    let write = call("write_file", json!({"path": "a.txt", "content": "new\n"}));
    let slow = exec("while ! test -e a.txt; do sleep 0.01; done; echo once >> count; sleep 1000");
    let script = json!({"rules": [
        {"when": {"first_word": "go", "turn": 0}, "reply": [{"call": write}, {"call": slow}]},
        {"reply": [{"text": "done"}]},
    ]});
    let toml = "user = \"u\"\n[approval]\nexecute = \"allow\"\nwrite = \"allow\"\n";
    let env = TestEnv::scripted(toml, &script.to_string());
    let server = TestServer::start(&env);
    let session = server.create_session("lango", "s");
    let run = server.start_run(&session, "go");
    while !env.workdir().join("count").exists() {
        thread::sleep(Duration::from_millis(5));
    }
    server.kill();
    let server = TestServer::start(&env);
    server.wait_until(&run, |run| run["status"] == "done");
    let results = tool_results_in(server.get(&session)["events"].as_array().unwrap());
    assert_eq!(results[0]["unchanged"], true, "{results:?}");
    assert!(results[1]["error"].as_str().unwrap().starts_with("interrupted, outcome unknown"), "{results:?}");
    assert_eq!(fs::read_to_string(env.workdir().join("count")).unwrap(), "once\n");
}
