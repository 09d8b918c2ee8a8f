//! Limits of the body, of the request rate and of concurrent runs; content types.

use super::test_app::{TestApp, message, message_from, texts};
use serde_json::json;

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
