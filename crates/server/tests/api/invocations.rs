//! `invocationId` of a request: the id of the new run, unless the session has an invocation with this id.

use super::{
    client::TestResponse,
    test_app::{TestApp, message, texts},
};
use serde_json::{Value, json};

fn named(text: &str, id: &str) -> Value {
    let mut body = message(text);
    body["invocationId"] = json!(id);
    body
}

fn exists(id: &str) -> String {
    format!(
        "the session has an invocation {id} already; send the message without an invocation id, or with a new one"
    )
}

async fn stored_texts(app: &TestApp, session: &str) -> Vec<String> {
    let stored = app.get(session).send().await.expect_status(200).json();
    texts(&stored["events"]).into_iter().map(str::to_owned).collect()
}

/// The ids of all runs, newest first.
async fn runs(app: &TestApp, session: &str) -> Vec<String> {
    let runs = app.get(&format!("{session}/runs")).send().await.expect_status(200).json();
    runs.as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn an_unknown_invocation_id_is_the_id_of_the_run_and_of_its_events() {
    let app = TestApp::new();
    let session = app.create_session().await;
    let here = format!("{session}/runs");
    for (path, id) in [("/run", "one"), ("/run_sse", "e-2.b:c_d"), (here.as_str(), "3")] {
        let response = app.post(path).json(&named("hello", id)).send().await;
        assert!(response.status.is_success(), "{}", response.text());
        assert_eq!(response.header("x-run-id"), Some(id), "{path}");
        app.get(&format!("{session}/runs/{id}/events")).stream().await.all().await;
    }
    let mut snake_case = message("hello");
    snake_case["invocation_id"] = json!("four");
    app.post("/run").json(&snake_case).send().await.expect_status(200);
    assert_eq!(runs(&app, session).await, ["four", "3", "e-2.b:c_d", "one"]);
    let stored = app.get(session).send().await.expect_status(200).json();
    let ids: Vec<&str> = stored["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["invocationId"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["one", "one", "e-2.b:c_d", "e-2.b:c_d", "3", "3", "four", "four"]);
}

#[tokio::test]
async fn without_an_invocation_id_the_run_id_is_a_generated_one() {
    let app = TestApp::new();
    let session = app.create_session().await;
    for body in [message("hello"), named("hello", ""), {
        let mut body = message("hello");
        body["invocationId"] = Value::Null;
        body
    }] {
        let response = app.post("/run").json(&body).send().await.expect_status(200);
        let id = response.header("x-run-id").unwrap();
        assert!(id.starts_with("e-"), "{id}");
        assert_eq!(response.json()[0]["invocationId"], id);
    }
    assert_eq!(runs(&app, session).await.len(), 3);
}

#[tokio::test]
async fn text_with_the_id_of_a_finished_run_is_refused_and_nothing_is_stored() {
    let app = TestApp::new();
    let session = app.create_session().await;
    let first = app.post("/run").json(&message("hello")).send().await.expect_status(200);
    let generated = first.header("x-run-id").unwrap().to_owned();
    app.post("/run").json(&named("fail", "failed")).send().await.expect_status(500);
    let before = (stored_texts(&app, session).await, runs(&app, session).await);
    let here = format!("{session}/runs");
    for id in [generated.as_str(), "failed"] {
        for path in ["/run", "/run_sse", &here] {
            let mut body = named("again", id);
            body["stateDelta"] = json!({"k": 1});
            let refused = app.post(path).json(&body).send().await.expect_status(400);
            assert_eq!(refused.detail(), exists(id), "{path}");
            let mut without_message = body;
            without_message.as_object_mut().unwrap().remove("newMessage");
            app.post(path).json(&without_message).send().await.expect_status(400);
        }
    }
    assert_eq!((stored_texts(&app, session).await, runs(&app, session).await), before);
    assert_eq!(app.get(session).send().await.json()["state"], json!({}));
}

#[tokio::test]
async fn the_ids_of_running_and_queued_runs_are_refused_and_the_queue_continues() {
    let app = TestApp::new();
    let session = app.create_session().await;
    let here = format!("{session}/runs");
    let start = |text: &str, id: &str| app.post(&here).json(&named(text, id)).send();
    assert_eq!(start("hang", "active").await.expect_status(202).json()["status"], "running");
    assert_eq!(start("one", "queued").await.expect_status(202).json()["status"], "queued");
    for id in ["active", "queued"] {
        for path in ["/run", "/run_sse", &here] {
            let refused = app.post(path).json(&named("other", id)).send().await.expect_status(400);
            assert_eq!(refused.detail(), exists(id), "{path}");
        }
    }
    assert_eq!(runs(&app, session).await, ["queued", "active"]);
    app.post(&format!("{here}/active/cancel")).send().await.expect_status(200);
    let events = app.get(&format!("{here}/queued/events")).stream().await.all().await;
    assert_eq!(events.last().unwrap().data["invocationId"], "queued");
    assert!(!stored_texts(&app, session).await.contains(&"other".to_owned()));
}

#[tokio::test]
async fn the_id_of_a_run_in_another_session_is_free() {
    let app = TestApp::new();
    let session = app.create_session().await;
    app.post("/apps/echo/users/u/sessions/other").send().await.expect_status(200);
    app.post("/run").json(&named("hello", "same")).send().await.expect_status(200);
    let mut body = named("hello", "same");
    body["sessionId"] = json!("other");
    let response = app.post("/run").json(&body).send().await.expect_status(200);
    assert_eq!(response.header("x-run-id"), Some("same"));
    assert_eq!(stored_texts(&app, session).await.len(), 2);
}

#[tokio::test]
async fn concurrent_requests_with_one_new_id_start_one_run() {
    let app = TestApp::new();
    let session = app.create_session().await;
    for round in 0..20 {
        let id = format!("r{round}");
        let send = |text: &str| app.post("/run").json(&named(text, &id)).send();
        let (one, other) = tokio::join!(send("one"), send("other"));
        let mut statuses = [one.status.as_u16(), other.status.as_u16()];
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 400], "{} {}", one.text(), other.text());
        assert_eq!(stored_texts(&app, session).await.len(), 2 * (round + 1));
        assert_eq!(runs(&app, session).await.len(), round + 1);
    }
}

#[tokio::test]
async fn a_repeated_request_with_its_idempotency_key_is_the_same_run() {
    let app = TestApp::new();
    let session = app.create_session().await;
    let send = |text: &str, id: &str, key: &str| {
        app.post("/run").header("idempotency-key", key).json(&named(text, id)).send()
    };
    let same = |one: &TestResponse, other: &TestResponse| {
        assert_eq!(
            (one.status.as_u16(), other.status.as_u16()),
            (200, 200),
            "{} {}",
            one.text(),
            other.text()
        );
        assert_eq!((one.header("x-run-id"), one.json()), (other.header("x-run-id"), other.json()));
    };
    let (one, other) = tokio::join!(send("hello", "named", "k"), send("hello", "named", "k"));
    same(&one, &other);
    same(&one, &send("hello", "named", "k").await);
    let reused = send("hello", "another", "k").await.expect_status(422);
    assert_eq!(reused.validation_errors(), ["idempotency_key_reused header.idempotency-key"]);
    // The key of a refused request can be used again.
    assert_eq!(send("hello", "named", "k2").await.expect_status(400).detail(), exists("named"));
    send("hello", "another", "k2").await.expect_status(200);
    assert_eq!(stored_texts(&app, session).await.len(), 4);
}

#[tokio::test]
async fn the_invocation_of_an_imported_event_is_not_continued() {
    let app = TestApp::new();
    let content = json!({"role": "user", "parts": [{"text": "before"}]});
    let event = json!({"author": "user", "invocationId": "imported", "content": content});
    let body = json!({"sessionId": "s", "events": [event]});
    app.post("/apps/echo/users/u/sessions").json(&body).send().await.expect_status(200);
    let refused = app.post("/run").json(&named("hello", "imported")).send().await.expect_status(400);
    assert_eq!(refused.detail(), exists("imported"));
    assert_eq!(stored_texts(&app, "/apps/echo/users/u/sessions/s").await, ["before"]);
}

#[tokio::test]
async fn an_invocation_id_that_cannot_be_a_run_id_is_refused() {
    let app = TestApp::new();
    let session = app.create_session().await;
    let long = "x".repeat(129);
    for id in [".", "..", "a/b", "a b", "a\nb", "ü", "-a", "\u{0}", "a?b", "a%2Fb", long.as_str()] {
        for path in ["/run", "/run_sse", &format!("{session}/runs")] {
            let refused = app.post(path).json(&named("hello", id)).send().await.expect_status(400);
            assert!(refused.detail().starts_with("invocationId must begin with"), "{}", refused.text());
        }
    }
    app.post("/run").json(&named("hello", &"x".repeat(128))).send().await.expect_status(200);
    assert_eq!(stored_texts(&app, session).await.len(), 2);
}
