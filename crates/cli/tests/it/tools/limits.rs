//! What a run may use. What is used up ends it, with a reason that has a name, here and on the server.

use super::{answers, at_once, call, exec, one_by_one, run};
use crate::{
    common::Place,
    serve::client::{Served, lines},
};
use serde_json::{Value, json};

const PRICES: &str = "[models.\"scripted/m\"]\nprices = { input = 1, output = 1 }\n";

/// The code and the words that a run ended with.
fn ended(place: &Place) -> (String, String) {
    let said = run(place).badly();
    let code = said.json_lines().last().unwrap()["errorCode"].as_str().unwrap_or_default().to_owned();
    (code, said.err.lines().last().unwrap_or_default().to_owned())
}

fn look(times: usize) -> Vec<Value> {
    (0..times).map(|at| call("calculate", json!({"expression": format!("{at} + 1")}))).collect()
}

#[test]
fn each_limit_ends_a_run_by_its_name() {
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
        let (code, words) = ended(&Place::scripted(&format!("[limits]\n{limit}\n{PRICES}"), &script));
        table = format!("{table}{limit}: {code}: {words}\n");
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
fn calls_beyond_the_limit_are_answered_and_not_made() {
    let place = Place::scripted(
        "[limits]\ntoolCalls = 2\n[approval]\nexecute = \"allow\"\n",
        &at_once(&[exec("touch a"), exec("touch b"), exec("touch c")]),
    );
    let said = run(&place).badly();
    assert!(answers(&said).iter().all(|answer| answer["error"] == "not run: limit of 2 tool calls reached"));
    assert!(!place.here().join("a").exists());
    place.lango(&["run", "--session", "k", "hello"]).well();
}

#[test]
fn the_same_call_without_anything_new_ends_the_run_and_a_poll_does_not() {
    let same = vec![exec("ls"); 12];
    let place = Place::scripted("", &one_by_one(&same));
    let (code, words) = ended(&place);
    assert_eq!(code, "NOTHING_NEW");
    assert_eq!(words, "lango: exec was called 5 times with the same arguments and the same result");

    let polls = vec![exec("echo x >> log; wc -l < log"); 12];
    let place = Place::scripted("[approval]\nexecute = \"allow\"\n", &one_by_one(&polls));
    let said = run(&place).well();
    assert_eq!(answers(&said).last().unwrap()["output"], "12\n");
}

#[test]
fn the_server_keeps_the_limits_of_the_configuration() {
    let place = Place::scripted("[limits]\nmodelCalls = 2\n", &one_by_one(&look(4)));
    let server = Served::start(&place);
    let session = server.session("lango", "s");
    let run = server.begin(&session, "go");
    let ended = server.until(&run, |run| run["status"] == "failed");
    assert_eq!(ended["error"], "limit of 2 model calls reached");
}

/// A run of "go" from its start to its failure, by servers that are killed after so many events each; its log and its error.
fn cut_after(events: Option<usize>, toml: &str, script: &str) -> (Vec<String>, String) {
    let place = Place::scripted(&format!("{toml}\n{PRICES}"), script);
    let mut server = Served::start(&place);
    let session = server.session("lango", "s");
    let run = server.begin(&session, "go");
    let mut last = None;
    while let Some(most) = events.filter(|_| server.get(&run)["status"] != "failed") {
        let mut reader = server.listen(&format!("{run}/events"), last.as_deref());
        last = std::iter::from_fn(|| reader.next()).take(most).last().and_then(|told| told.id).or(last);
        server.kill();
        server = Served::start(&place);
    }
    let ended = server.until(&run, |run| run["status"] == "failed");
    let kept = lines(&server.get(&session)["events"]);
    (kept, ended["error"].as_str().unwrap().to_owned())
}

#[test]
fn a_run_that_is_cut_off_again_and_again_ends_where_it_would_have_ended() {
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
        // The run is longer than what a model is shown of it.
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
fn what_a_person_confirms_counts_once_and_for_the_same_run() {
    let place = Place::scripted(
        "[limits]\ntoolCalls = 2\n",
        &json!({"rules": [{"reply": [{"call": exec("echo x >> made")}]}]}).to_string(),
    );
    let server = Served::start(&place);
    let session = server.session("lango", "s");
    server.say("lango", "s", "go").well();
    let mut answered = Vec::new();
    let status = loop {
        let events = server.get(&session)["events"].clone();
        let mut calls =
            events.as_array().unwrap().iter().map(|event| &event["content"]["parts"][0]["functionCall"]);
        let asked = calls.rfind(|call| call["name"] == "adk_request_confirmation").unwrap()["id"].clone();
        let part = json!({"functionResponse": {
            "id": asked, "name": "adk_request_confirmation", "response": {"confirmed": true},
        }});
        let body = json!({
            "appName": "lango", "userId": "u", "sessionId": "s",
            "newMessage": {"role": "user", "parts": [part]},
        });
        let answer = server.ask("POST", "/run", &body);
        answered.push(asked);
        if answer.status != 200 {
            break answer.body["detail"].as_str().unwrap().to_owned();
        }
    };
    assert!(status.contains("limit of 2 tool calls reached"), "{status}");
    assert_eq!(answered.len(), 2);
    assert_eq!(std::fs::read_to_string(place.here().join("made")).unwrap(), "x\nx\n");
}
