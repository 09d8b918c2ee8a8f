//! The routes of sessions, and validation errors.

use super::client::{TestServer, lines};
use crate::common::TestEnv;
use serde_json::{Value, json};

#[test]
fn sessions_are_created_read_patched_listed_and_deleted() {
    let env = TestEnv::canned();
    let server = TestServer::start(&env);
    let sessions = "/apps/canned/users/u/sessions";
    let made = server
        .request("POST", sessions, &json!({"sessionId": "s", "state": {"k": 1, "temp:x": 2}}))
        .success();
    assert_eq!((&made["id"], &made["state"], &made["events"]), (&json!("s"), &json!({"k": 1}), &json!([])));
    let again = server.request("POST", sessions, &json!({"session_id": "s"}));
    assert_eq!((again.status, &again.body["detail"]), (409, &json!("Session already exists: s")));
    server.request("POST", &format!("{sessions}/other"), &Value::Null).success();

    let session = format!("{sessions}/s");
    let patched =
        server.request("PATCH", &session, &json!({"stateDelta": {"k": 2, "user:l": "fr"}})).success();
    assert_eq!(patched["state"], json!({"k": 2, "user:l": "fr"}));
    let listed = server.get(sessions);
    let ids: Vec<&str> = listed.as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["other", "s"], "ordered by last change");

    assert_eq!(server.request("DELETE", &session, &Value::Null).success(), Value::Null);
    assert_eq!(server.request("DELETE", &session, &Value::Null).success(), Value::Null);
    let gone = server.request("GET", &session, &Value::Null);
    assert_eq!((gone.status, &gone.body), (404, &json!({"detail": "Session not found"})));
}

#[test]
fn run_returns_its_events_and_stores_them() {
    let env = TestEnv::canned();
    let server = TestServer::start(&env);
    let session = server.create_session("canned", "s");
    let events = server.send_message("canned", "s", "hi there").success();
    assert_eq!(lines(&events), ["canned_root: Hello from canned model. You said: hi there"]);
    let used = server.send_message("canned", "s", "tool please").success();
    assert_eq!(lines(&used)[..2], ["canned_root: → get_weather", "canned_root: ← get_weather"]);
    let session_json = server.get(&session);
    assert_eq!(lines(&session_json["events"]).len(), 6);
    assert_eq!(lines(&session_json["events"])[0], "user: hi there");
}

#[test]
fn long_session_is_returned_whole_or_in_pages() {
    let env = TestEnv::canned();
    let server = TestServer::start(&env);
    let events: Vec<Value> = (0..700)
        .map(|number| json!({"author": "user", "content": {"role": "user", "parts": [{"text": number.to_string()}]}}))
        .collect();
    let body = json!({"sessionId": "long", "events": events});
    server.request("POST", "/apps/canned/users/u/sessions", &body).success();
    let path = "/apps/canned/users/u/sessions/long";
    let events = |body: &Value| lines(&body["events"]);
    let wanted: Vec<String> = (0..700).map(|number| format!("user: {number}")).collect();
    assert_eq!(events(&server.get(path)), wanted);

    let (mut paged, mut after) = (Vec::new(), Some("0".to_owned()));
    while let Some(cursor) = after {
        let page = server.request("GET", &format!("{path}?limit=300&after={cursor}"), &Value::Null);
        after = page.header("x-next-after").map(str::to_owned);
        paged.extend(events(&page.body));
    }
    assert_eq!(paged, wanted);
}

#[test]
fn validation_errors_have_fastapi_shape() {
    let env = TestEnv::canned();
    let server = TestServer::start(&env);
    let sessions = "/apps/canned/users/u/sessions";
    server.create_session("canned", "s");
    let error = |method: &str, path: &str, body: &str| {
        let answer = server.request_raw(method, path, body);
        format!("{} {}", answer.status, answer.body)
    };
    let errors = [
        error("POST", sessions, r#"{"state":"#),
        error("POST", sessions, r#"{"state":"no"}"#),
        error("PATCH", &format!("{sessions}/s"), r#"{"state":{}}"#),
        error("POST", "/run", r#"{"userId":"u","sessionId":"s"}"#),
        error("POST", "/run", r#"{"appName":"canned","sessionId":"s"}"#),
        error("POST", "/run", r#"{"appName":"canned","userId":"u","sessionId":"nope"}"#),
        error("POST", "/run_sse", r#"{"appName":"canned","userId":"u","sessionId":"nope"}"#),
        error("POST", "/run", r#"{"appName":"none","userId":"u","sessionId":"s"}"#),
        error("GET", "/list-apps?detailed=maybe", ""),
        error("PUT", sessions, ""),
        error("GET", "/nope", ""),
    ];
    insta::assert_snapshot!(errors.join("\n"), @r#"
    422 {"detail":[{"type":"json_invalid","loc":["body",9],"msg":"JSON decode error","input":{},"ctx":{"error":"Expecting value"}}]}
    422 {"detail":[{"type":"dict_type","loc":["body","state"],"msg":"Input should be a valid dictionary","input":"no"}]}
    422 {"detail":[{"type":"missing","loc":["body","stateDelta"],"msg":"Field required","input":{"state":{}}}]}
    400 {"detail":"app_name is required when ADK_DEFAULT_APP_NAME is not set"}
    422 {"detail":[{"type":"missing","loc":["body","userId"],"msg":"Field required","input":{"appName":"canned","sessionId":"s"}}]}
    404 {"detail":"Session not found: nope"}
    404 {"detail":"Session not found: nope"}
    404 {"detail":"Agent not found: 'none'. No matching directory or module exists in 'agents/none'."}
    422 {"detail":[{"type":"bool_parsing","loc":["query","detailed"],"msg":"Input should be a valid boolean, unable to interpret input","input":"maybe"}]}
    405 {"detail":"Method Not Allowed"}
    404 {"detail":"Not Found"}
    "#);
}
