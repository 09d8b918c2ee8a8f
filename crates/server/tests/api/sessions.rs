//! Sessions: create, read, change, list, delete, and their validation errors.

use super::test_app::{TestApp, texts};
use serde_json::{Value, json};

const SESSIONS: &str = "/apps/echo/users/u/sessions";

#[tokio::test]
async fn a_session_is_created_read_changed_listed_and_deleted() {
    let app = TestApp::new();
    let body = json!({"sessionId": "s", "state": {"k": 1, "temp:x": 2}});
    let created = app.post(SESSIONS).json(&body).send().await.expect_status(200).json();
    assert_eq!((&created["id"], &created["state"]), (&json!("s"), &json!({"k": 1})));
    app.post(&format!("{SESSIONS}/other")).send().await.expect_status(200);

    let session = format!("{SESSIONS}/s");
    let delta = json!({"stateDelta": {"k": 2, "user:l": "fr"}});
    let changed = app.patch(&session).json(&delta).send().await.expect_status(200).json();
    assert_eq!(changed["state"], json!({"k": 2, "user:l": "fr"}));
    assert_eq!(app.get(&session).send().await.expect_status(200).json()["state"], changed["state"]);
    let listed = app.get(SESSIONS).send().await.expect_status(200).json();
    let ids: Vec<&str> =
        listed.as_array().unwrap().iter().map(|session| session["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["other", "s"], "the last changed session is last");

    for _ in 0..2 {
        let deleted = app.delete(&session).send().await.expect_status(200);
        assert_eq!(deleted.json(), Value::Null);
    }
    let missing = app.get(&session).send().await.expect_status(404);
    assert_eq!(missing.json(), json!({"detail": "Session not found"}));
}

#[tokio::test]
async fn an_existing_id_is_a_conflict_and_a_missing_id_is_generated() {
    let app = TestApp::new();
    app.create_session().await;
    for request in [app.post(SESSIONS).json(&json!({"session_id": "s"})), app.post(&format!("{SESSIONS}/s"))]
    {
        let conflict = request.send().await.expect_status(409);
        assert_eq!(conflict.detail(), "Session already exists: s");
    }
    let one = app.post(SESSIONS).send().await.expect_status(200).json();
    let other = app.post(SESSIONS).json(&Value::Null).send().await.expect_status(200).json();
    assert_ne!(one["id"], other["id"]);
}

#[tokio::test]
async fn validation_errors_have_fastapis_types_and_locations() {
    let app = TestApp::new();
    let session = app.create_session().await;
    let table: [(_, &[&str]); 9] = [
        (app.post(SESSIONS).body("application/json", r#"{"state":"#), &["json_invalid body.9"]),
        (app.post(SESSIONS).json(&json!({"state": "no"})), &["dict_type body.state"]),
        (app.post(SESSIONS).json(&json!({"events": [{"id": 1}]})), &["string_type body.events.0.id"]),
        (app.post(SESSIONS).json(&json!([])), &["model_attributes_type body"]),
        (app.patch(session).json(&json!({"state": {}})), &["missing body.stateDelta"]),
        (app.patch(session), &["missing body"]),
        (app.get(&format!("{session}?limit=many")), &["int_parsing query.limit"]),
        (
            app.post("/run").json(&json!({"user_id": 1, "newMessage": {"parts": [{"txet": "hi"}]}})),
            &[
                "string_type body.user_id",
                "missing body.sessionId",
                "extra_forbidden body.newMessage.parts.0.txet",
            ],
        ),
        (
            app.post(&format!("{session}/runs")).json(&json!({"streaming": "maybe"})),
            &["bool_parsing body.streaming"],
        ),
    ];
    for (request, errors) in table {
        assert_eq!(request.send().await.expect_status(422).validation_errors(), errors);
    }
}

#[tokio::test]
async fn initial_events_are_stored_unless_they_would_act() {
    let app = TestApp::new();
    let event = json!({"author": "user", "content": {"role": "user", "parts": [{"text": "before"}]}});
    let body = json!({"sessionId": "s", "events": [event]});
    let created = app.post(SESSIONS).json(&body).send().await.expect_status(200).json();
    assert_eq!(texts(&created["events"]), ["before"]);
    assert_ne!(created["events"][0]["id"], "", "a missing id is generated");

    let mut acting = event;
    acting["actions"] = json!({"stateDelta": {"k": 1}});
    let refused = app.post(SESSIONS).json(&json!({"events": [acting]})).send().await.expect_status(400);
    assert_eq!(refused.detail(), "Session initialization event 0 cannot include event actions.");
    let options = app.post(SESSIONS).json(&json!({"options": {"ttl": 1}})).send().await.expect_status(400);
    assert_eq!(options.detail(), "Session options are not supported by the configured session service.");
}

#[tokio::test]
async fn events_are_read_in_pages() {
    let app = TestApp::new();
    let event = |number: usize| json!({"author": "user", "content": {"role": "user", "parts": [{"text": number.to_string()}]}});
    let body = json!({"sessionId": "long", "events": (0..7).map(event).collect::<Vec<_>>()});
    app.post(SESSIONS).json(&body).send().await.expect_status(200);
    let (mut pages, mut after) = (Vec::new(), Some("0".to_owned()));
    while let Some(position) = after {
        let page =
            app.get(&format!("{SESSIONS}/long?limit=3&after={position}")).send().await.expect_status(200);
        after = page.header("x-next-after").map(str::to_owned);
        pages.push(texts(&page.json()["events"]).join(" "));
    }
    assert_eq!(pages, ["0 1 2", "3 4 5", "6"]);
    let last = app.get(&format!("{SESSIONS}/long?last=2")).send().await.expect_status(200).json();
    assert_eq!(texts(&last["events"]), ["5", "6"]);
}

#[tokio::test]
async fn a_long_session_is_sent_in_chunks_and_complete() {
    let app = TestApp::new();
    let texts_sent: Vec<String> = (0..300).map(|number| format!("{number} {}", "x".repeat(1000))).collect();
    let event =
        |text: &String| json!({"author": "user", "content": {"role": "user", "parts": [{"text": text}]}});
    let body = json!({"sessionId": "long", "events": texts_sent.iter().map(event).collect::<Vec<_>>()});
    app.post(SESSIONS).json(&body).send().await.expect_status(200);
    let session = app.get(&format!("{SESSIONS}/long")).send().await.expect_status(200).json();
    assert_eq!(texts(&session["events"]), texts_sent);
}

#[tokio::test]
async fn memory_requires_an_existing_session() {
    let app = TestApp::new();
    app.create_session().await;
    let memory = "/apps/echo/users/u/memory";
    app.patch(memory).json(&json!({"sessionId": "s"})).send().await.expect_status(200);
    app.patch(memory).json(&json!({"session_id": "none"})).send().await.expect_status(404);
}
