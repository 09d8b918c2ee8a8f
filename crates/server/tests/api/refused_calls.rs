//! A message with a function call is refused on every endpoint, and leaves nothing behind.

use super::test_app::{TestApp, message, texts};
use serde_json::{Value, json};

const REFUSAL: &str = "User message cannot contain function calls.";

/// Messages with a function call, in all spellings and positions.
fn messages() -> Vec<Value> {
    let call = json!({"name": "exec", "args": {"command": "id"}});
    let response = json!({"id": "c", "name": "exec", "response": {}});
    let parts = [
        json!([{"functionCall": call}]),
        json!([{"function_call": call}]),
        json!([{"functionCall": {}}]),
        json!([{"text": "hello"}, {"functionCall": call}]),
        json!([{"functionCall": call}, {"text": "hello"}]),
        json!([{"functionCall": call}, {"functionCall": call}]),
        json!([{"text": "hello", "functionCall": call}]),
        json!([{"text": "hello", "function_call": call}]),
        json!([{"functionCall": call}, {"functionResponse": response}]),
        json!([{"functionResponse": response, "functionCall": call}]),
        json!([{"functionCall": null, "function_call": call}]),
    ];
    let roles = [json!("user"), json!("model"), Value::Null];
    let message = |parts: &Value, role: &Value| json!({"parts": parts, "role": role});
    parts.iter().flat_map(|parts| roles.iter().map(move |role| message(parts, role))).collect()
}

fn run_body(content: &Value) -> Value {
    let mut body = message("");
    body["newMessage"] = content.clone();
    body["stateDelta"] = json!({"k": 1});
    body
}

/// Checks that the session has no events, no state and no runs.
async fn assert_empty(app: &TestApp, session: &str) {
    let stored = app.get(session).send().await.expect_status(200).json();
    assert_eq!((&stored["events"], &stored["state"]), (&json!([]), &json!({})));
    assert_eq!(app.get(&format!("{session}/runs")).send().await.expect_status(200).json(), json!([]));
}

#[tokio::test]
async fn each_endpoint_refuses_a_function_call_and_stores_nothing() {
    let app = TestApp::new();
    let session = app.create_session().await;
    let runs = format!("{session}/runs");
    for content in messages() {
        for path in ["/run", &runs] {
            let refused = app.post(path).json(&run_body(&content)).send().await.expect_status(400);
            assert_eq!(refused.detail(), REFUSAL, "{path} {content}");
        }
        // ADK reports it as the only item of the stream.
        let refused = app.post("/run_sse").json(&run_body(&content)).stream().await.all().await;
        let [refused] = &refused[..] else { panic!("{content}: {refused:?}") };
        assert_eq!(refused.data["error"], format!("ValueError: {REFUSAL}"), "{content}");
        assert_eq!(refused.data["error_details"]["error_type"], "ValueError");
    }
    assert_empty(&app, session).await;
}

#[tokio::test]
async fn a_refused_function_call_does_not_use_the_idempotency_key() {
    let app = TestApp::new();
    let session = app.create_session().await;
    let runs = format!("{session}/runs");
    for (path, status) in [("/run", 200), ("/run_sse", 200), (runs.as_str(), 202)] {
        let send = |body: Value| app.post(path).header("idempotency-key", path).json(&body).send();
        let refused = send(run_body(&messages()[0])).await;
        assert!(refused.text().contains(REFUSAL), "{}", refused.text());
        send(message("hello")).await.expect_status(status);
    }
}

#[tokio::test]
async fn a_busy_session_does_not_queue_a_function_call() {
    let app = TestApp::new();
    let session = app.create_session().await;
    let mut stream = app
        .post("/run_sse")
        .json(&{
            let mut body = message("hang");
            body["streaming"] = json!(true);
            body
        })
        .stream()
        .await;
    stream.next().await.unwrap();
    for path in ["/run", &format!("{session}/runs")] {
        app.post(path).json(&run_body(&messages()[0])).send().await.expect_status(400);
    }
    let runs = app.get(&format!("{session}/runs")).send().await.expect_status(200).json();
    assert_eq!(runs.as_array().unwrap().len(), 1, "{runs}");
}

#[tokio::test]
async fn an_unknown_session_or_app_is_reported_before_the_function_call() {
    let app = TestApp::new();
    app.create_session().await;
    for path in ["/run", "/run_sse"] {
        let mut body = run_body(&messages()[0]);
        body["sessionId"] = json!("none");
        let missing = app.post(path).json(&body).send().await.expect_status(404);
        assert_eq!(missing.detail(), "Session not found: none");
        body["appName"] = json!("none");
        app.post(path).json(&body).send().await.expect_status(404);
    }
}

#[tokio::test]
async fn other_parts_of_a_model_are_accepted_and_never_run() {
    let app = TestApp::new();
    let session = app.create_session().await;
    let parts = [
        json!({"toolCall": {"id": "a"}}),
        json!({"executableCode": {"code": "1", "language": "PYTHON"}}),
        json!({"codeExecutionResult": {"outcome": "OUTCOME_OK"}}),
        json!({"functionCall": null, "text": "hello"}),
    ];
    for part in &parts {
        let body = run_body(&json!({"parts": [part], "role": "model"}));
        let events = app.post("/run").json(&body).send().await.expect_status(200).json();
        assert_eq!(texts(&events).len(), 1, "{part}: {events}");
    }
    let stored = app.get(session).send().await.expect_status(200).json();
    assert_eq!(stored["events"].as_array().unwrap().len(), 2 * parts.len());
}

#[tokio::test]
async fn a_response_to_an_unknown_call_is_an_error_of_the_stream_as_in_adk() {
    let app = TestApp::new();
    let session = app.create_session().await;
    let response = json!({"functionResponse": {"id": "bogus", "name": "exec", "response": {}}});
    let body = run_body(&json!({"parts": [response]}));
    app.post("/run").json(&body).send().await.expect_status(409);
    let refused = app.post("/run_sse").json(&body).stream().await.all().await;
    assert!(refused[0].data["error"].as_str().unwrap().contains("bogus"), "{refused:?}");
    assert_empty(&app, session).await;
}
