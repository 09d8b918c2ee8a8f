//! Limits of the body, of the request rate and of concurrent runs; content types.

use super::test_app::{TestApp, message, message_from, texts};
use serde_json::json;
use server::limits::ServerLimits;

#[tokio::test]
async fn a_body_above_the_limit_is_refused_with_and_without_a_content_length() {
    let app = TestApp::builder().limits(|limits| limits.body = 1000).build();
    app.create_session().await;
    let large = message(&"x".repeat(1000));
    for request in [app.post("/run").json(&large), app.post("/run").chunked(large.to_string())] {
        let refused = request.send().await.expect_status(413);
        assert_eq!(refused.detail(), "the body exceeds the limit of 1000 bytes");
    }
    for request in
        [app.post("/run").json(&message("hi")), app.post("/run").chunked(message("hi").to_string())]
    {
        assert_eq!(texts(&request.send().await.expect_status(200).json()), ["echo: hi"]);
    }
}

/// FastAPI answers 422 and not 415: it validates a body of another media type as a string.
#[tokio::test]
async fn a_body_that_is_not_json_is_a_validation_error() {
    let app = TestApp::new();
    app.create_session().await;
    let body = message("hello").to_string();
    for content_type in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"] {
        let invalid = app.post("/run").body(content_type, body.clone()).send().await.expect_status(422);
        assert_eq!(invalid.validation_errors(), ["model_attributes_type body"], "{content_type}");
    }
    for content_type in ["application/json; charset=utf-8", "application/vnd.api+json"] {
        app.post("/run").body(content_type, body.clone()).send().await.expect_status(200);
    }
}

#[tokio::test]
async fn the_request_rate_is_limited_per_token() {
    let app = TestApp::builder().with_auth().limits(|limits| limits.requests_per_minute = 2).build();
    let (ann, bob, admin) = (app.user_token("ann"), app.user_token("bob"), app.admin_token());
    for _ in 0..2 {
        app.get("/whoami").token(&ann).send().await.expect_status(200);
    }
    let limited = app.get("/whoami").token(&ann).send().await.expect_status(429);
    assert_eq!(limited.detail(), "rate limit of this token reached; see Retry-After");
    assert!(limited.header("retry-after").unwrap().parse::<u64>().unwrap() > 0);
    app.get("/whoami").token(&bob).send().await.expect_status(200);
    for _ in 0..4 {
        app.get("/whoami").token(&admin).send().await.expect_status(200);
    }
}

#[tokio::test]
async fn concurrent_runs_are_limited_per_user() {
    let app = TestApp::builder().with_auth().limits(|limits| limits.runs_per_user = 1).build();
    let ann = app.user_token("ann");
    let session = "/apps/echo/users/ann/sessions/s";
    app.post(session).token(&ann).send().await.expect_status(200);
    let body = json!({"newMessage": {"parts": [{"text": "hang"}]}});
    let runs = format!("{session}/runs");
    let active = app.post(&runs).token(&ann).json(&body).send().await.expect_status(202);
    let limited = app.post(&runs).token(&ann).json(&body).send().await.expect_status(429);
    assert_eq!(limited.detail(), "limit of 1 concurrent runs reached; wait until one ends, or cancel one");
    let cancel = format!("{runs}/{}/cancel", active.header("x-run-id").unwrap());
    app.post(&cancel).token(&ann).send().await.expect_status(200);
    app.post("/run").token(&ann).json(&message_from("ann", "hello")).send().await.expect_status(200);
}

#[tokio::test]
async fn concurrent_requests_are_limited_per_user() {
    let app = TestApp::builder().with_auth().limits(|limits| limits.requests_per_user = 1).build();
    let (ann, other_token, bob) =
        (app.user_token("ann"), app.add_user_token("phone", "ann"), app.user_token("bob"));
    app.post("/apps/echo/users/ann/sessions/s").token(&ann).send().await.expect_status(200);
    let stream = app.post("/run_sse").token(&ann).json(&message_from("ann", "hang")).stream().await;
    for token in [&ann, &other_token] {
        let limited = app.get("/whoami").token(token).send().await.expect_status(429);
        assert_eq!(limited.detail(), "limit of 1 concurrent requests reached; wait until one ends");
        assert_eq!(limited.header("retry-after"), Some("1"));
    }
    app.get("/whoami").token(&bob).send().await.expect_status(200);
    app.get("/health").send().await.expect_status(200);
    drop(stream);
    app.get("/whoami").token(&ann).send().await.expect_status(200);
}

#[tokio::test]
async fn requests_without_a_token_are_limited_per_forwarded_address() {
    let limit = |limits: &mut ServerLimits| limits.connections_per_address = 1;
    let app = TestApp::builder().with_auth().trust_proxy("10.0.0.0/8").limits(limit).build();
    let get =
        |path: &str, peer: &str, client: &str| app.get(path).peer(peer).header("x-forwarded-for", client);
    // The response of the first request is not read.
    let open = get("/docs", "10.0.0.1", "192.0.2.1").unread().await;
    get("/docs", "10.0.0.2", "1.1.1.1, 192.0.2.1").send().await.expect_status(429);
    get("/health", "10.0.0.2", "192.0.2.1").send().await.expect_status(200);
    get("/docs", "10.0.0.1", "192.0.2.2").send().await.expect_status(200);
    get("/docs", "203.0.113.1", "192.0.2.1").send().await.expect_status(200);
    drop(open);
    get("/docs", "10.0.0.1", "192.0.2.1").send().await.expect_status(200);
    // A request with a token counts for its user.
    let ann = app.user_token("ann");
    let open = get("/whoami", "10.0.0.1", "192.0.2.1").token(&ann).unread().await;
    get("/docs", "10.0.0.1", "192.0.2.1").send().await.expect_status(200);
    drop(open);
}

#[tokio::test]
async fn sessions_are_limited_per_user() {
    let app = TestApp::builder().with_auth().limits(|limits| limits.sessions_per_user = 2).build();
    let (ann, bob) = (app.user_token("ann"), app.user_token("bob"));
    let sessions = "/apps/echo/users/ann/sessions";
    app.post(sessions).token(&ann).send().await.expect_status(200);
    app.post(&format!("{sessions}/s")).token(&ann).send().await.expect_status(200);
    for path in [sessions, &format!("{sessions}/more")] {
        let refused = app.post(path).token(&ann).send().await.expect_status(403);
        assert_eq!(refused.json()["kind"], "session_quota");
        let detail = "user ann has the maximum of 2 sessions; delete sessions to create new ones";
        assert_eq!(refused.detail(), detail);
    }
    app.post(&format!("{sessions}/s")).token(&ann).send().await.expect_status(409);
    app.post("/run").token(&ann).json(&message_from("ann", "hello")).send().await.expect_status(200);
    app.post("/apps/echo/users/bob/sessions").token(&bob).send().await.expect_status(200);
    app.delete(&format!("{sessions}/s")).token(&ann).send().await.expect_status(200);
    app.post(&format!("{sessions}/s")).token(&ann).send().await.expect_status(200);
}

#[tokio::test]
async fn an_empty_or_repeated_idempotency_key_is_a_bad_request() {
    let app = TestApp::new();
    let session = app.create_session().await;
    for path in ["/run", "/run_sse", &format!("{session}/runs")] {
        let request = app.post(path).header("idempotency-key", "").json(&message("hello"));
        let refused = request.send().await.expect_status(400);
        assert_eq!(refused.detail(), "Idempotency-Key is empty; send a unique key or omit the header");
        let request = app.post(path).header("idempotency-key", "a").repeated_header("idempotency-key", "b");
        let refused = request.json(&message("hello")).send().await.expect_status(400);
        assert_eq!(refused.detail(), "there is more than one Idempotency-Key; send one");
    }
}

/// A long list of events is streamed; it has the same content as a short one.
#[tokio::test]
async fn a_long_response_of_run_is_complete() {
    let app = TestApp::new();
    let session = app.create_session().await;
    for length in [10, 50_000, 90_000] {
        let text = format!("repeat {}", "x".repeat(length));
        let events = app.post("/run").json(&message(&text)).send().await.expect_status(200);
        assert!(events.header("x-run-id").is_some());
        let stored = app.get(&format!("{session}?last=1")).send().await.expect_status(200).json();
        let (events, stored) = (events.json(), &stored["events"]);
        assert_eq!(texts(&events).len(), 1, "{length}");
        assert!(texts(&events) == texts(stored) && texts(stored)[0] == text.repeat(4), "{length}");
    }
}
