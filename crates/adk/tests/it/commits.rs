//! The events of each commit, one line per commit.

use crate::{
    common::{App, Fake, call, call_as, key, parts, text},
    cut_off::{busy, left},
};
use adk::{
    content::{Content, Part},
    runner::{Input, RunRequest},
};
use insta::assert_snapshot;
use serde_json::{Map, json};

fn commits(app: &App) -> String {
    app.runner.sessions().commits().join("\n")
}

#[tokio::test]
async fn settling_events_and_the_message_share_a_commit() {
    let app = busy(&Fake::says([text("hello")])).await;
    left(&app, "user", vec![Part::text("hi")]);
    left(&app, "helper", vec![call_as("1", "works", json!({}))]);
    left(&app, "root", vec![call_as("2", "works", json!({}))]);
    let ran = app.say("still there?").await;
    assert_snapshot!(commits(&app), @"
    begin: helper settles, root settles, user continues
    append: root by log
    ");
    assert_snapshot!(ran.shape(), @"00 root   hello");
}

#[tokio::test]
async fn a_message_without_open_work_is_one_commit() {
    let app = busy(&Fake::says([text("hello")])).await;
    app.say("hi").await.result.unwrap();
    assert_snapshot!(commits(&app), @"
    begin: user continues
    append: root by log
    ");
}

#[tokio::test]
async fn a_turn_without_a_message_starts_with_its_own_commit() {
    let app = busy(&Fake::says([text("one"), text("two")])).await;
    app.again().await.result.unwrap();
    let mut request = RunRequest { input: Input::Again, ..RunRequest::message(key(), Content::default()) };
    request.state_delta = Map::from_iter([("a".to_owned(), json!(1))]);
    app.run(request).await.result.unwrap();
    assert_snapshot!(commits(&app), @"
    begin:
    append: root by log
    begin: user continues
    append: root by log
    ");
    assert_eq!((app.state()["a"].clone(), app.log().len()), (json!(1), 2));
}

#[tokio::test]
async fn a_resumed_run_does_not_begin_a_turn() {
    let app = busy(&Fake::says([text("hello")])).await;
    left(&app, "user", vec![Part::text("hi")]);
    let mut request = RunRequest { input: Input::Resume, ..RunRequest::message(key(), Content::default()) };
    request.state_delta = Map::from_iter([("a".to_owned(), json!(1))]);
    app.run(request).await.result.unwrap();
    assert_snapshot!(commits(&app), @"
    append: user continues
    append: root by log
    ");
}

#[tokio::test]
async fn a_question_and_the_responses_of_its_step_share_a_commit() {
    let calls = vec![call("asks", json!({})), call("works", json!({}))];
    let app = busy(&Fake::says([parts(calls), text("done")])).await;
    app.say("hi").await.result.unwrap();
    assert_snapshot!(commits(&app), @"
    begin: user continues
    append: root by log
    append: root continues, root by log
    ");
    assert_snapshot!(app.log_shape(), @r#"
    00 user   hi
    01 root   → asks#1() | → works#2()
    02 root   ? #3 [long]
    03 root   ← asks#1 {error="This tool call requires confirmation, please approve or reject."} | ← works#2 {result="worked"}
    "#);
}

#[tokio::test]
async fn refused_calls_and_the_error_event_share_a_commit() {
    let app = busy(&Fake::says([parts(vec![call("works", json!({}))])])).await;
    let mut request = RunRequest::message(key(), Content::user("hi"));
    request.config.limits.tool_calls = Some(0);
    let ran = app.run(request).await;
    assert_snapshot!(ran.shape(), @r#"
    00 root   → works#1()
    01 root   ← works#1 {error="not run: limit of 0 tool calls reached"}
    02 root    [TOO_MANY_TOOL_CALLS: limit of 0 tool calls reached]
    "#);
    assert_snapshot!(commits(&app), @"
    begin: user continues
    append: root by log
    append: root continues, root ends Failed
    ");
}

#[tokio::test]
async fn a_preview_stores_nothing() {
    let app = busy(&Fake::says([parts(vec![])])).await;
    left(&app, "user", vec![Part::text("hi")]);
    left(&app, "root", vec![call_as("1", "works", json!({}))]);
    let request = app.runner.preview(&key()).await.unwrap();
    assert_eq!(request.contents.len(), 2);
    assert_eq!((commits(&app), app.log().len()), (String::new(), 2));
}
