//! Sessions over the wire, and what is said to those who ask wrongly.

use super::client::{Served, lines};
use crate::common::Place;
use serde_json::{Value, json};

#[test]
fn a_session_is_made_looked_at_changed_listed_and_removed() {
    let place = Place::canned();
    let server = Served::start(&place);
    let sessions = "/apps/canned/users/u/sessions";
    let made =
        server.ask("POST", sessions, &json!({"sessionId": "s", "state": {"k": 1, "temp:x": 2}})).well();
    assert_eq!((&made["id"], &made["state"], &made["events"]), (&json!("s"), &json!({"k": 1}), &json!([])));
    let again = server.ask("POST", sessions, &json!({"session_id": "s"}));
    assert_eq!((again.status, &again.body["detail"]), (409, &json!("Session already exists: s")));
    server.ask("POST", &format!("{sessions}/other"), &Value::Null).well();

    let session = format!("{sessions}/s");
    let patched = server.ask("PATCH", &session, &json!({"stateDelta": {"k": 2, "user:l": "fr"}})).well();
    assert_eq!(patched["state"], json!({"k": 2, "user:l": "fr"}));
    let listed = server.get(sessions);
    let ids: Vec<&str> = listed.as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["other", "s"], "the last changed is the last");

    assert_eq!(server.ask("DELETE", &session, &Value::Null).well(), Value::Null);
    assert_eq!(server.ask("DELETE", &session, &Value::Null).well(), Value::Null);
    let gone = server.ask("GET", &session, &Value::Null);
    assert_eq!((gone.status, &gone.body), (404, &json!({"detail": "Session not found"})));
}

#[test]
fn a_message_gets_its_events_and_the_session_keeps_them() {
    let place = Place::canned();
    let server = Served::start(&place);
    let session = server.session("canned", "s");
    let said = server.say("canned", "s", "hi there").well();
    assert_eq!(lines(&said), ["canned_root: Hello from canned model. You said: hi there"]);
    let used = server.say("canned", "s", "tool please").well();
    assert_eq!(lines(&used)[..2], ["canned_root: → get_weather", "canned_root: ← get_weather"]);
    let kept = server.get(&session);
    assert_eq!(lines(&kept["events"]).len(), 6);
    assert_eq!(lines(&kept["events"])[0], "user: hi there");
}

#[test]
fn a_long_session_comes_whole_and_page_by_page() {
    let place = Place::canned();
    let server = Served::start(&place);
    let events: Vec<Value> = (0..700)
        .map(|number| json!({"author": "user", "content": {"role": "user", "parts": [{"text": number.to_string()}]}}))
        .collect();
    let body = json!({"sessionId": "long", "events": events});
    server.ask("POST", "/apps/canned/users/u/sessions", &body).well();
    let path = "/apps/canned/users/u/sessions/long";
    let said = |body: &Value| lines(&body["events"]);
    let wanted: Vec<String> = (0..700).map(|number| format!("user: {number}")).collect();
    assert_eq!(said(&server.get(path)), wanted);

    let (mut paged, mut after) = (Vec::new(), Some("0".to_owned()));
    while let Some(place) = after {
        let page = server.ask("GET", &format!("{path}?limit=300&after={place}"), &Value::Null);
        after = page.header("x-next-after").map(str::to_owned);
        paged.extend(said(&page.body));
    }
    assert_eq!(paged, wanted);
}

#[test]
fn what_is_wrong_is_told_as_fastapi_tells_it() {
    let place = Place::canned();
    let server = Served::start(&place);
    let sessions = "/apps/canned/users/u/sessions";
    server.session("canned", "s");
    let told = |method: &str, path: &str, body: &str| {
        let answer = server.ask_raw(method, path, body);
        format!("{} {}", answer.status, answer.body)
    };
    let told = [
        told("POST", sessions, r#"{"state":"#),
        told("POST", sessions, r#"{"state":"no"}"#),
        told("PATCH", &format!("{sessions}/s"), r#"{"state":{}}"#),
        told("POST", "/run", r#"{"userId":"u","sessionId":"s"}"#),
        told("POST", "/run", r#"{"appName":"canned","sessionId":"s"}"#),
        told("POST", "/run", r#"{"appName":"canned","userId":"u","sessionId":"nope"}"#),
        told("POST", "/run_sse", r#"{"appName":"canned","userId":"u","sessionId":"nope"}"#),
        told("POST", "/run", r#"{"appName":"none","userId":"u","sessionId":"s"}"#),
        told("GET", "/list-apps?detailed=maybe", ""),
        told("PUT", sessions, ""),
        told("GET", "/nope", ""),
    ];
    insta::assert_snapshot!(told.join("\n"), @r#"
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
