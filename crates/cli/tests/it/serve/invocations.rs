//! Invocation ids and function calls of requests, with an agent that requires approval, defers and calls tools.

use super::client::{HttpResponse, TIMEOUT, TestServer, lines};
use crate::common::TestEnv;
use serde_json::{Value, json};
use std::time::Instant;

fn body(parts: &Value, invocation: Option<&str>) -> Value {
    json!({
        "appName": "canned", "userId": "u", "sessionId": "s",
        "newMessage": {"role": "user", "parts": parts}, "invocationId": invocation,
    })
}

fn send(server: &TestServer, parts: &Value, invocation: Option<&str>) -> HttpResponse {
    server.request("POST", "/run", &body(parts, invocation))
}

fn text(text: &str) -> Value {
    json!([{"text": text}])
}

/// The id of the last call of this name in a list of events.
fn call_id(events: &Value, name: &str) -> String {
    let parts =
        events.as_array().unwrap().iter().flat_map(|event| event["content"]["parts"].as_array().unwrap());
    let call = parts.map(|part| &part["functionCall"]).rfind(|call| call["name"] == name).unwrap();
    call["id"].as_str().unwrap().to_owned()
}

fn response(id: &str, name: &str, response: &Value) -> Value {
    json!([{"functionResponse": {"id": id, "name": name, "response": response}}])
}

fn statuses(server: &TestServer, session: &str) -> Vec<String> {
    let runs = server.get(&format!("{session}/runs"));
    let status = |run: &Value| format!("{} {}", run["id"].as_str().unwrap(), run["status"].as_str().unwrap());
    runs.as_array().unwrap().iter().map(status).collect()
}

#[test]
fn function_call_of_a_client_is_not_executed() {
    let env = TestEnv::canned();
    let server = TestServer::start(&env);
    let session = server.create_session("canned", "s");
    let call = json!([{"functionCall": {"name": "get_weather", "args": {"city": "Paris"}}}]);
    let refused = send(&server, &call, None);
    assert_eq!(refused.status, 400, "{refused:?}");
    assert_eq!(refused.body["detail"], "User message cannot contain function calls.");
    let streamed = server.stream(&body(&call, None)).all();
    assert_eq!(streamed.len(), 1);
    assert_eq!(streamed[0].data["error"], "ValueError: User message cannot contain function calls.");
    let here = server.request("POST", &format!("{session}/runs"), &json!({"newMessage": {"parts": call}}));
    assert_eq!(here.status, 400, "{here:?}");
    assert_eq!(server.get(&session)["events"], json!([]));
    assert_eq!(statuses(&server, &session), Vec::<String>::new());
}

#[test]
fn answer_continues_the_run_that_asked_whatever_invocation_id_is_given() {
    for given in [None, Some("asks"), Some("done-before"), Some("unknown"), Some("not / valid")] {
        let env = TestEnv::canned();
        let server = TestServer::start(&env);
        let session = server.create_session("canned", "s");
        send(&server, &text("hello"), Some("done-before")).success();
        let asked = send(&server, &text("confirm"), Some("asks")).success();
        let id = call_id(&asked, "adk_request_confirmation");
        let answered =
            send(&server, &response(&id, "adk_request_confirmation", &json!({"confirmed": true})), given);
        assert_eq!(answered.header("x-run-id"), Some("asks"), "{given:?}");
        let events = answered.success();
        assert!(events.as_array().unwrap().iter().all(|event| event["invocationId"] == "asks"), "{events}");
        assert_eq!(statuses(&server, &session), ["asks done", "done-before done"]);
    }
}

#[test]
fn text_with_the_id_of_a_waiting_run_is_refused_and_the_question_stays_open() {
    let env = TestEnv::canned();
    let server = TestServer::start(&env);
    let session = server.create_session("canned", "s");
    let asked = send(&server, &text("confirm"), Some("asks")).success();
    let before = server.get(&session)["events"].clone();
    for path in ["/run", "/run_sse", &format!("{session}/runs")] {
        let refused = server.request("POST", path, &body(&text("hello"), Some("asks")));
        assert_eq!(refused.status, 400, "{refused:?}");
        assert!(refused.body["detail"].as_str().unwrap().contains("invocation asks already"), "{refused:?}");
    }
    assert_eq!(server.get(&session)["events"], before);
    assert_eq!(statuses(&server, &session), ["asks waiting"]);
    let id = call_id(&asked, "adk_request_confirmation");
    let answer = response(&id, "adk_request_confirmation", &json!({"confirmed": true}));
    let events = send(&server, &answer, None).success();
    assert!(lines(&events).last().unwrap().contains("Tool danger said"), "{events}");
}

#[test]
fn late_result_belongs_to_the_invocation_of_its_call() {
    let env = TestEnv::canned();
    let server = TestServer::start(&env);
    let session = server.create_session("canned", "s");
    send(&server, &text("hello"), Some("before")).success();
    for (number, given) in [Some("starts-0"), Some("before"), Some("unknown"), None].into_iter().enumerate() {
        let invocation = format!("starts-{number}");
        let started = send(&server, &text("long"), Some(&invocation)).success();
        send(&server, &text("hello"), None).success();
        let result = response(&call_id(&started, "slow_job"), "slow_job", &json!({"status": "done"}));
        let events = send(&server, &result, given).success();
        assert!(!events.as_array().unwrap().is_empty());
        let belongs = |event: &Value| event["invocationId"] == *invocation;
        assert!(events.as_array().unwrap().iter().all(belongs), "{events}");
    }
    let unused = send(&server, &text("hello"), Some("unknown"));
    assert_eq!(unused.header("x-run-id"), Some("unknown"), "an ignored id stays free: {unused:?}");
    assert_eq!(statuses(&server, &session).len(), 14);
}

#[test]
fn invocation_id_of_a_queued_run_survives_a_kill() {
    let script = "rules: [{when: {first_word: hang}, reply: [{text: begin}, hang]}, {reply: [{text: 'noted: {user}'}]}]";
    let env = TestEnv::scripted("", script);
    let server = TestServer::start(&env);
    let session = server.create_session("lango", "s");
    let start = |server: &TestServer, text: &str, id: &str| {
        let body = json!({"newMessage": {"parts": [{"text": text}]}, "invocationId": id});
        server.request("POST", &format!("{session}/runs"), &body)
    };
    assert_eq!(start(&server, "hang", "active").status, 202);
    assert_eq!(start(&server, "one", "queued").body["status"], "queued");
    server.kill();
    let server = TestServer::start(&env);
    assert_eq!(start(&server, "other", "queued").status, 400);
    // 409 until the server has resumed the run.
    let deadline = Instant::now() + TIMEOUT;
    while server.request("POST", &format!("{session}/runs/active/cancel"), &Value::Null).status != 200 {
        assert!(Instant::now() < deadline, "the run is not resumed");
    }
    server.wait_until(&format!("{session}/runs/queued"), |run| run["status"] == "done");
    let events = server.get(&session)["events"].clone();
    assert_eq!(events.as_array().unwrap().last().unwrap()["invocationId"], "queued");
    assert_eq!(lines(&events).last().unwrap(), "lango-agent: noted: one");
}
