//! Messages and runs: events, streams, cursors, cancellation, idempotency keys.

use super::test_app::{TestApp, message, text, texts};
use serde_json::{Value, json};
use testkit::sse::SseEvent;

#[tokio::test]
async fn run_returns_the_events_and_the_session_stores_them() {
    let app = TestApp::new();
    let session = app.create_session().await;
    let response = app.post("/run").json(&message("hello")).send().await.expect_status(200);
    assert_eq!(texts(&response.json()), ["echo: hello"]);
    assert_eq!(response.json()[0]["author"], "echo_agent");
    let stored = app.get(session).send().await.expect_status(200).json();
    assert_eq!(texts(&stored["events"]), ["hello", "echo: hello"]);
    let run = format!("{session}/runs/{}", response.header("x-run-id").unwrap());
    assert_eq!(app.get(&run).send().await.expect_status(200).json()["status"], "done");
}

#[tokio::test]
async fn a_message_needs_an_app_a_session_and_may_change_the_state() {
    let app = TestApp::new();
    let session = app.create_session().await;
    let mut body = message("hello");
    body["stateDelta"] = json!({"k": 1});
    app.post("/run").json(&body).send().await.expect_status(200);
    assert_eq!(app.get(session).send().await.json()["state"], json!({"k": 1}));

    let mut unknown = message("hello");
    unknown["sessionId"] = json!("none");
    for path in ["/run", "/run_sse"] {
        let missing = app.post(path).json(&unknown).send().await.expect_status(404);
        assert_eq!(missing.detail(), "Session not found: none");
    }
    let body = json!({"userId": "u", "sessionId": "s"});
    let nameless = app.post("/run").json(&body).send().await.expect_status(400);
    assert_eq!(nameless.detail(), "app_name is required when ADK_DEFAULT_APP_NAME is not set");
}

#[tokio::test]
async fn run_sse_streams_partial_events_and_then_the_stored_one() {
    let app = TestApp::new();
    app.create_session().await;
    let mut body = message("hello");
    body["streaming"] = json!(true);
    let events = app.post("/run_sse").json(&body).stream().await.all().await;
    let (last, partial) = events.split_last().unwrap();
    assert!(!partial.is_empty() && partial.iter().all(|event| event.data["partial"] == true));
    assert_eq!(partial.iter().map(|event| text(&event.data)).collect::<String>(), "echo: hello");
    assert_eq!(text(&last.data), "echo: hello");
}

#[tokio::test]
async fn each_block_of_run_sse_is_one_data_line_and_only_events_have_cursors() {
    let app = TestApp::new();
    let session = app.create_session().await;
    for word in ["hello", "fail"] {
        for streaming in [false, true] {
            let mut body = message(word);
            body["streaming"] = json!(streaming);
            let response = app.post("/run_sse").json(&body).send().await.expect_status(200);
            let blocks: Vec<&str> = response.text().split_terminator("\n\n").collect();
            let events: Vec<Value> = blocks
                .iter()
                .map(|block| serde_json::from_str(block.strip_prefix("data: ").unwrap()).unwrap())
                .collect();
            assert!(blocks.iter().all(|block| block.lines().count() == 1), "{blocks:?}");
            let run = format!("{session}/runs/{}/events", response.header("x-run-id").unwrap());
            let read = app.get(&run).stream().await.all().await;
            let ids: Vec<bool> = read.iter().map(|event| event.id.is_some()).collect();
            let stored = events.iter().filter(|event| event.get("error").is_none()).count();
            assert_eq!(ids, [vec![true; stored], vec![false; events.len() - stored]].concat());
            assert_eq!(
                read[..stored].iter().map(|event| &event.data).collect::<Vec<_>>(),
                events[..stored].iter().collect::<Vec<_>>()
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_comment_on_an_idle_stream_is_a_block_of_its_own() {
    let app = TestApp::new();
    app.create_session().await;
    let mut body = message("hang");
    body["streaming"] = json!(true);
    let mut stream = app.post("/run_sse").json(&body).stream().await;
    assert_eq!(text(&stream.next().await.unwrap().data), "begin");
    for _ in 0..2 {
        assert_eq!(stream.next_block().await.as_deref(), Some(": keep-alive"));
    }
}

#[tokio::test]
async fn a_failed_run_is_an_error_response_and_an_error_event() {
    let app = TestApp::new();
    app.create_session().await;
    let failed = app.post("/run").json(&message("fail")).send().await.expect_status(500);
    assert!(failed.detail().contains("the model is broken"), "{}", failed.text());
    let events = app.post("/run_sse").json(&message("fail")).stream().await.all().await;
    let [stored, failure] = &events[..] else { panic!("{events:?}") };
    assert_eq!(stored.data["errorCode"], "BROKEN", "the stored event precedes the error object");
    let details = &failure.data["error_details"];
    assert!(details["error_message"].as_str().unwrap().contains("the model is broken"), "{events:?}");
}

#[tokio::test]
async fn a_run_continues_after_its_client_disconnects() {
    let app = TestApp::new();
    let session = app.create_session().await;
    let stream = app.post("/run_sse").json(&message("hello")).stream().await;
    let run = format!("{session}/runs/{}", stream.run_id());
    drop(stream);
    let events = app.get(&format!("{run}/events")).stream().await.all().await;
    assert_eq!(text(&events.last().unwrap().data), "echo: hello");
    assert_eq!(app.get(&run).send().await.expect_status(200).json()["status"], "done");
}

/// Runs a message with partial events, and returns the path of the run and its events.
async fn finished_run(app: &TestApp) -> (String, Vec<SseEvent>) {
    let session = app.create_session().await;
    let mut body = message("one two three");
    body["streaming"] = json!(true);
    let stream = app.post("/run_sse").json(&body).stream().await;
    let run = format!("{session}/runs/{}", stream.run_id());
    let streamed = stream.all().await;
    let events = app.get(&format!("{run}/events")).stream().await.all().await;
    let data = |events: &[SseEvent]| events.iter().map(|event| event.data.clone()).collect::<Vec<_>>();
    assert_eq!(data(&streamed), data(&events));
    (run, events)
}

#[tokio::test]
async fn a_reader_continues_after_any_event_of_a_run() {
    let app = TestApp::new();
    let (run, events) = finished_run(&app).await;
    assert!(events.len() > 3, "{events:?}");
    let path = format!("{run}/events");
    assert_eq!(app.get(&path).stream().await.all().await, events);
    for seen in 1..events.len() {
        let id = events[seen - 1].id.clone().unwrap();
        let by_header = app.get(&path).header("last-event-id", &id).stream().await.all().await;
        assert_eq!(by_header, events[seen..], "after {id}");
        let by_query = app.get(&format!("{path}?after={id}")).stream().await.all().await;
        assert_eq!(by_query, events[seen..], "after {id}");
    }
}

#[tokio::test]
async fn a_reader_with_all_events_gets_204_and_an_invalid_cursor_400() {
    let app = TestApp::new();
    let (run, events) = finished_run(&app).await;
    let path = format!("{run}/events");
    let last = events.last().unwrap().id.clone().unwrap();
    app.get(&path).header("last-event-id", &last).send().await.expect_status(204);
    let invalid = app.get(&path).header("last-event-id", "x").send().await.expect_status(400);
    assert_eq!(invalid.detail(), "\"x\" is not the id of a streamed event");
    let unknown = run.rsplit_once('/').unwrap().0.to_owned() + "/none/events";
    assert_eq!(app.get(&unknown).send().await.expect_status(404).detail(), "Run not found");
}

/// Starts a run and returns its path.
async fn start(app: &TestApp, session: &str, text: &str) -> (String, Value) {
    let body = json!({"newMessage": {"parts": [{"text": text}]}, "streaming": true});
    let accepted = app.post(&format!("{session}/runs")).json(&body).send().await.expect_status(202);
    (format!("{session}/runs/{}", accepted.header("x-run-id").unwrap()), accepted.json())
}

#[tokio::test]
async fn a_cancelled_run_ends_its_stream_and_the_next_message_runs() {
    let app = TestApp::new();
    let session = app.create_session().await;
    let (run, accepted) = start(&app, session, "hang").await;
    assert_eq!(accepted["status"], "running");
    let mut stream = app.get(&format!("{run}/events")).stream().await;
    assert_eq!(text(&stream.next().await.unwrap().data), "begin");
    let cancelled = app.post(&format!("{run}/cancel")).send().await.expect_status(200);
    assert_eq!(cancelled.json()["status"], "cancelled");
    let last = stream.all().await.pop().unwrap();
    assert_eq!(last.data["error"], "Cancelled: the run was cancelled");
    let next = app.post("/run").json(&message("again")).send().await.expect_status(200);
    assert_eq!(texts(&next.json()), ["echo: again"]);
    let unknown = app.post(&format!("{session}/runs/none/cancel")).send().await.expect_status(404);
    assert_eq!(unknown.detail(), "Run not found");
}

#[tokio::test]
async fn messages_to_a_busy_session_are_queued_and_listed() {
    let app = TestApp::new();
    let session = app.create_session().await;
    let (active, _) = start(&app, session, "hang").await;
    let (first, accepted) = start(&app, session, "one").await;
    assert_eq!((&accepted["status"], &accepted["position"]), (&json!("queued"), &json!(0)));
    let (second, accepted) = start(&app, session, "two").await;
    assert_eq!((&accepted["status"], &accepted["position"]), (&json!("queued"), &json!(1)));
    app.post(&format!("{second}/cancel")).send().await.expect_status(200);
    app.post(&format!("{active}/cancel")).send().await.expect_status(200);
    let events = app.get(&format!("{first}/events")).stream().await.all().await;
    assert_eq!(text(&events.last().unwrap().data), "echo: one");
    let runs = app.get(&format!("{session}/runs?limit=2")).send().await.expect_status(200).json();
    let statuses: Vec<_> =
        runs.as_array().unwrap().iter().map(|run| run["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["cancelled", "done"], "the newest run is first");
}

#[tokio::test]
async fn a_session_with_an_active_run_is_not_patched_and_deletion_cancels_the_run() {
    let app = TestApp::new();
    let session = app.create_session().await;
    let (run, _) = start(&app, session, "hang").await;
    let mut stream = app.get(&format!("{run}/events")).stream().await;
    stream.next().await.unwrap();
    let conflict = app.patch(session).json(&json!({"stateDelta": {"k": 1}})).send().await.expect_status(409);
    assert!(conflict.detail().contains("has an active run"), "{}", conflict.text());
    app.delete(session).send().await.expect_status(200);
    let last = stream.all().await.pop().unwrap();
    assert_eq!(last.data["error_details"]["error_type"], "Cancelled");
    app.get(session).send().await.expect_status(404);
}

#[tokio::test]
async fn an_idempotency_key_returns_the_first_run_and_refuses_another_message() {
    let app = TestApp::new();
    let session = app.create_session().await;
    let send = |text: &str| app.post("/run").header("idempotency-key", "k").json(&message(text)).send();
    let (first, second) = (send("once").await.expect_status(200), send("once").await.expect_status(200));
    assert_eq!(first.header("x-run-id"), second.header("x-run-id"));
    assert_eq!(first.json(), second.json());
    let refused = send("twice").await.expect_status(422);
    assert_eq!(refused.validation_errors(), ["idempotency_key_reused header.idempotency-key"]);
    let stored = app.get(session).send().await.json();
    assert_eq!(texts(&stored["events"]), ["once", "echo: once"]);
}
