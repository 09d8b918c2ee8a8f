//! Limits of a run: an exceeded limit ends the run with its error code, in the terminal and on a server.

use super::{at_once, call, exec, one_by_one, run, tool_results};
use crate::{
    common::TestEnv,
    serve::client::{TestServer, lines},
};
use serde_json::{Value, json};

const PRICES: &str = "[models.\"scripted/m\"]\nprices = { input = 1, output = 1 }\n";

/// The error code and message of a run.
fn ended(env: &TestEnv) -> (String, String) {
    let output = run(env).failure();
    let code = output.json_lines().last().unwrap()["errorCode"].as_str().unwrap_or_default().to_owned();
    (code, output.err.lines().last().unwrap_or_default().to_owned())
}

fn look(times: usize) -> Vec<Value> {
    (0..times).map(|at| call("calculate", json!({"expression": format!("{at} + 1")}))).collect()
}

#[test]
fn each_limit_ends_the_run_with_its_error_code() {
    let used = r#","usage":{"input":60,"output":40}}"#;
    let spends = |more: &str| one_by_one(&look(4)).trim_end_matches('}').to_owned() + more + used;
    let rows: [(&str, String); 5] = [
        ("modelCalls = 2", one_by_one(&look(4))),
        ("toolCalls = 2", one_by_one(&look(4))),
        ("tokens = 200", spends("")),
        ("cost = 0.0002", spends(r#","model":"m""#)),
        ("timeS = 0.3", json!({"rules": [{"reply": [{"text": "wait"}, "hang"]}]}).to_string()),
    ];
    let mut table = String::new();
    for (limit, script) in rows {
        let (code, message) = ended(&TestEnv::scripted(&format!("[limits]\n{limit}\n{PRICES}"), &script));
        table = format!("{table}{limit}: {code}: {message}\n");
    }
    insta::assert_snapshot!(table, @r"
    modelCalls = 2: TOO_MANY_MODEL_CALLS: lango: limit of 2 model calls reached
    toolCalls = 2: TOO_MANY_TOOL_CALLS: lango: limit of 2 tool calls reached
    tokens = 200: OUT_OF_TOKENS: lango: limit of 200 tokens reached
    cost = 0.0002: OUT_OF_MONEY: lango: cost limit of 0.0002 reached
    timeS = 0.3: OUT_OF_TIME: lango: time limit of 300ms reached
    ");
}

#[test]
fn calls_beyond_the_limit_get_an_error_and_are_not_run() {
    let env = TestEnv::scripted(
        "[limits]\ntoolCalls = 2\n[approval]\nexecute = \"allow\"\n",
        &at_once(&[exec("touch a"), exec("touch b"), exec("touch c")]),
    );
    let output = run(&env).failure();
    assert!(
        tool_results(&output)
            .iter()
            .all(|answer| answer["error"] == "not run: limit of 2 tool calls reached")
    );
    assert!(!env.workdir().join("a").exists());
    env.lango(&["run", "--session", "k", "hello"]).success();
}

#[test]
fn repeated_identical_results_end_the_run_and_polling_does_not() {
    let same = vec![exec("ls"); 12];
    let env = TestEnv::scripted("", &one_by_one(&same));
    let (code, message) = ended(&env);
    assert_eq!(code, "NOTHING_NEW");
    assert_eq!(message, "lango: exec was called 5 times with the same arguments and the same result");

    let polls = vec![exec("echo x >> log; wc -l < log"); 12];
    let env = TestEnv::scripted("[approval]\nexecute = \"allow\"\n", &one_by_one(&polls));
    let output = run(&env).success();
    assert_eq!(tool_results(&output).last().unwrap()["output"], "12\n");
}

#[test]
fn server_enforces_configured_limits() {
    let env = TestEnv::scripted("[limits]\nmodelCalls = 2\n", &one_by_one(&look(4)));
    let server = TestServer::start(&env);
    let session = server.create_session("lango", "s");
    let run = server.start_run(&session, "go");
    let ended = server.wait_until(&run, |run| run["status"] == "failed");
    assert_eq!(ended["error"], "limit of 2 model calls reached");
}

/// Runs "go" until it fails, with servers that are killed after `events` events each. Returns the log and the error.
fn cut_after(events: Option<usize>, toml: &str, script: &str) -> (Vec<String>, String) {
    let env = TestEnv::scripted(&format!("{toml}\n{PRICES}"), script);
    let mut server = TestServer::start(&env);
    let session = server.create_session("lango", "s");
    let run = server.start_run(&session, "go");
    let mut last = None;
    while let Some(most) = events.filter(|_| server.get(&run)["status"] != "failed") {
        let mut reader = server.read_events(&format!("{run}/events"), last.as_deref());
        last = std::iter::from_fn(|| reader.next()).take(most).last().and_then(|event| event.id).or(last);
        server.kill();
        server = TestServer::start(&env);
    }
    let ended = server.wait_until(&run, |run| run["status"] == "failed");
    let stored = lines(&server.get(&session)["events"]);
    (stored, ended["error"].as_str().unwrap().to_owned())
}

#[test]
fn limits_hold_across_repeated_server_kills() {
    let slowly = |calls: &[Value]| {
        let mut script: Value = serde_json::from_str(&one_by_one(calls)).unwrap();
        for rule in script["rules"].as_array_mut().unwrap() {
            rule["reply"].as_array_mut().unwrap().insert(0, json!({"delay_ms": 15}));
        }
        script["usage"] = json!({"input": 60, "output": 40});
        script["model"] = json!("m");
        script.to_string()
    };
    let (looks, same) = (slowly(&look(12)), slowly(&vec![call("list_files", json!({})); 12]));
    let long = call("calculate", json!({"expression": format!("1{}", " + 1".repeat(200))}));
    let long = json!({"rules": [{"reply": [{"delay_ms": 15}, {"call": long}]}]}).to_string();
    for (toml, script) in [
        ("[limits]\nmodelCalls = 5", &looks),
        ("[limits]\ntoolCalls = 4", &looks),
        ("[limits]\ntokens = 500", &looks),
        ("[limits]\ncost = 0.0005", &looks),
        ("", &same),
        // The run exceeds the token budget.
        ("maxMessageTokenBudget = 1000", &long),
    ] {
        let whole = cut_after(None, toml, script);
        assert!(whole.0.len() > 8, "{whole:?}");
        for events in [1, 4] {
            assert_eq!(cut_after(Some(events), toml, script), whole, "{toml}, cut after {events}");
        }
    }
}

#[test]
fn confirmed_call_counts_once_towards_the_limit_of_its_run() {
    let env = TestEnv::scripted(
        "[limits]\ntoolCalls = 2\n",
        &json!({"rules": [{"reply": [{"call": exec("echo x >> made")}]}]}).to_string(),
    );
    let server = TestServer::start(&env);
    let session = server.create_session("lango", "s");
    server.send_message("lango", "s", "go").success();
    let mut answered = Vec::new();
    let status = loop {
        let events = server.get(&session)["events"].clone();
        let mut calls =
            events.as_array().unwrap().iter().map(|event| &event["content"]["parts"][0]["functionCall"]);
        let question = calls.rfind(|call| call["name"] == "adk_request_confirmation").unwrap()["id"].clone();
        let part = json!({"functionResponse": {
            "id": question, "name": "adk_request_confirmation", "response": {"confirmed": true},
        }});
        let body = json!({
            "appName": "lango", "userId": "u", "sessionId": "s",
            "newMessage": {"role": "user", "parts": [part]},
        });
        let answer = server.request("POST", "/run", &body);
        answered.push(question);
        if answer.status != 200 {
            break answer.body["detail"].as_str().unwrap().to_owned();
        }
    };
    assert!(status.contains("limit of 2 tool calls reached"), "{status}");
    assert_eq!(answered.len(), 2);
    assert_eq!(std::fs::read_to_string(env.workdir().join("made")).unwrap(), "x\nx\n");
}
