//! Turns without tools: stored events, emitted events, requests.

use crate::common::{
    App, Fake, Reply, app, app_with_state, call, chunks, contents_shape, key, parts, text, tool,
};
use adk::{
    content::{Blob, Content, Part},
    error::{LlmError, RunError},
    event::Event,
    model::LlmResponse,
    runner::{RunConfig, RunRequest},
    session::ArtifactService,
    tool::ToolOutcome,
};
use insta::assert_snapshot;
use serde_json::{Map, Value, json};
use std::collections::HashSet;

fn configured(text: &str, config: RunConfig) -> RunRequest {
    RunRequest { config, ..RunRequest::message(key(), Content::user(text)) }
}

fn instruction(model: &Fake) -> String {
    let texts = model.last_asked().config.system_instruction.unwrap().parts;
    texts.iter().filter_map(Part::as_text).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn a_message_is_stored_and_only_the_answer_is_emitted() {
    let app = app(Fake::says([text("hello")]).agent("root")).await;
    let ran = app.say("hi").await;
    ran.result.unwrap();
    assert_eq!(ran.shown, app.log()[1..].iter().map(|event| (**event).clone()).collect::<Vec<_>>());
    assert_snapshot!(app.log_shape(), @"
    00 user   hi
    01 root   hello
    ");
}

#[tokio::test]
async fn events_of_a_turn_share_the_invocation_and_have_unique_ids() {
    let fake = tool("f", |_, _| async { Ok(ToolOutcome::Done(json!(1))) });
    let mut root = Fake::says([parts(vec![call("f", json!({}))]), text("done"), text("again")]).agent("root");
    root.tools = vec![fake.arc()];
    let app = app(root).await;
    app.say("hi").await.result.unwrap();
    app.say("ho").await.result.unwrap();
    let log = app.log();
    let ids: HashSet<&str> = log.iter().map(|event| event.id.as_str()).collect();
    assert_eq!(ids.len(), log.len());
    assert!(log[..4].iter().all(|event| event.invocation_id == log[0].invocation_id));
    assert_ne!(log[4].invocation_id, log[0].invocation_id);
    assert!(log[0].invocation_id.starts_with("e-"));
    assert_eq!((log[0].node_info.path.as_str(), log[1].node_info.path.as_str()), ("", "root@1"));
}

#[tokio::test]
async fn chunks_share_the_id_of_the_complete_answer_and_are_not_stored() {
    let app = app(Fake::says([chunks(&["Hel", "lo"])]).agent("root")).await;
    let ran = app.stream("hi").await;
    assert_snapshot!(ran.shape(), @"
    00 root   Hel [partial=true]
    01 root   lo [partial=true]
    02 root   Hello [partial=false]
    ");
    assert!(ran.shown.iter().all(|event| event.id == ran.shown[2].id));
    assert_snapshot!(app.log_shape(), @"
    00 user   hi
    01 root   Hello [partial=false]
    ");
}

#[tokio::test]
async fn signatures_are_in_the_complete_answer_only() {
    let signed = Part { thought_signature: Some("c2ln".to_owned()), ..Part::text("Hello") };
    let content = Some(Content::new("model", vec![signed]));
    let whole = LlmResponse { content, ..LlmResponse::default() };
    let chunk = LlmResponse { partial: true, ..whole.clone() };
    let app = app(Fake::says([Reply::Items(vec![Ok(chunk), Ok(whole)])]).agent("root")).await;
    let shown = app.stream("hi").await.shown;
    let signature = |event: &Event| event.content.as_ref().unwrap().parts[0].thought_signature.clone();
    assert_eq!((signature(&shown[0]), signature(&shown[1])), (None, Some("c2ln".to_owned())));
}

#[tokio::test]
async fn without_streaming_partial_is_absent() {
    let app = app(Fake::says([text("hello")]).agent("root")).await;
    app.say("hi").await.result.unwrap();
    assert!(app.log().iter().all(|event| event.partial.is_none()));
}

#[tokio::test]
async fn a_state_delta_is_stored_with_the_message_except_temp_keys() {
    let model = Fake::says([text("hello")]);
    let mut root = model.agent("root");
    root.instruction = "{name} {temp:mood} {user:lang?}".to_owned();
    let app = app(root).await;
    let mut request = RunRequest::message(key(), Content::user("hi"));
    request.state_delta = Map::from_iter([
        ("name".to_owned(), json!("Ada")),
        ("temp:mood".to_owned(), json!({"calm": true})),
        ("user:lang".to_owned(), Value::Null),
    ]);
    app.run(request).await.result.unwrap();
    assert_eq!(instruction(&model), r#"Ada {"calm":true} "#);
    assert_eq!(app.log()[0].actions.state_delta.keys().collect::<Vec<_>>(), ["name", "user:lang"]);
    assert!(!app.state().contains_key("temp:mood"));
}

#[tokio::test]
async fn an_instruction_with_a_missing_key_ends_the_run_with_an_error_event() {
    let mut root = Fake::says([text("never")]).agent("root");
    root.instruction = "Hello {name}".to_owned();
    let app = app(root).await;
    let ran = app.say("hi").await;
    assert_snapshot!(app.log_shape(), @"
    00 user   hi
    01 root    [MISSING_KEY: the instruction of root uses {name}, which is not in the session's state; set it, or write {name?}]
    ");
    assert!(matches!(ran.error(), RunError::MissingKey { key, .. } if key == "name"));
}

#[tokio::test]
async fn an_instruction_includes_text_artifacts() {
    let model = Fake::says([text("ok")]);
    let mut root = model.agent("root");
    root.instruction = "A {artifact.a.txt} B {artifact.b.txt} C {artifact.no?}.".to_owned();
    let app = app(root).await;
    let inline =
        Blob { data: "Ynl0ZXM=".to_owned(), mime_type: Some("text/plain".to_owned()), ..Blob::default() };
    app.artifacts.save(&key(), "a.txt", Part::text("text")).await.unwrap();
    app.artifacts.save(&key(), "b.txt", inline.into()).await.unwrap();
    app.say("hi").await.result.unwrap();
    assert_eq!(instruction(&model), "A text B bytes C .");
}

#[tokio::test]
async fn the_output_key_gets_the_final_text_without_thoughts() {
    let mut root = Fake::says([parts(vec![Part::thought("hm"), Part::text("42")])]).agent("root");
    root.output_key = Some("answer".to_owned());
    let app = app(root).await;
    app.say("hi").await.result.unwrap();
    assert_eq!(app.state()["answer"], "42");
}

#[tokio::test]
async fn an_answer_without_text_does_not_set_the_output_key() {
    let fake = tool("f", |_, _| async { Ok(ToolOutcome::Done(json!(1))) }).long_running();
    let mut root =
        Fake::says([parts(vec![call("f", json!({}))]), Reply::Items(vec![Ok(LlmResponse::default())])])
            .agent("root");
    root.output_key = Some("answer".to_owned());
    root.tools = vec![fake.arc()];
    let app = app_with_state(root, &[("answer", json!("old"))]).await;
    app.say("hi").await.result.unwrap();
    assert_eq!(app.state()["answer"], "old");
}

#[tokio::test]
async fn an_empty_answer_ends_the_turn() {
    let model = Fake::says([Reply::Items(vec![Ok(LlmResponse::default())])]);
    let mut root = model.agent("root");
    root.output_key = Some("answer".to_owned());
    let app = app(root).await;
    app.say("hi").await.result.unwrap();
    assert_eq!((model.asked().len(), app.log().len()), (1, 2));
}

#[tokio::test]
async fn run_metadata_is_on_every_event_and_message_metadata_on_the_message() {
    let fake = tool("f", |_, _| async { Ok(ToolOutcome::Done(json!(1))) });
    let mut root = Fake::says([parts(vec![call("f", json!({}))]), text("done")]).agent("root");
    root.tools = vec![fake.arc()];
    let app = app(root).await;
    let metadata = Map::from_iter([("a".to_owned(), json!(1))]);
    let mut request =
        configured("hi", RunConfig { custom_metadata: Some(metadata.clone()), ..RunConfig::default() });
    request.message_metadata = Map::from_iter([("b".to_owned(), json!(2))]);
    app.run(request).await.result.unwrap();
    let log = app.log();
    assert_eq!(Value::from(log[0].custom_metadata.clone().unwrap()), json!({"a": 1, "b": 2}));
    assert!(log[1..].iter().all(|event| event.custom_metadata.as_ref() == Some(&metadata)));
}

#[tokio::test]
async fn without_a_message_the_model_is_called_again() {
    let model = Fake::says([text("one"), text("two")]);
    let app = app(model.agent("root")).await;
    app.say("hi").await.result.unwrap();
    app.again().await.result.unwrap();
    assert_snapshot!(app.log_shape(), @"
    00 user   hi
    01 root   one
    02 root   two
    ");
    assert_snapshot!(contents_shape(&model.last_asked().contents), @"
    00 user   hi
    01 model  one
    ");
}

#[tokio::test]
async fn without_a_message_the_model_is_called_in_an_empty_session() {
    let app = app(Fake::says([text("one")]).agent("root")).await;
    app.again().await.result.unwrap();
    assert_eq!(app.log().len(), 1);
}

#[tokio::test]
async fn a_message_without_parts_is_stored_but_not_in_the_request() {
    let model = Fake::says([text("one"), text("two")]);
    let app = app(model.agent("root")).await;
    app.say("hi").await.result.unwrap();
    app.send(vec![]).await.result.unwrap();
    assert_eq!(app.log().len(), 4);
    assert_eq!(app.log()[2].content, Some(Content::new("user", vec![])));
    assert_eq!(model.last_asked().contents.len(), 2);
}

async fn calling_forever() -> App {
    let fake = tool("f", |_, _| async { Ok(ToolOutcome::Done(json!(1))) });
    let mut root = Fake::by_rule(|request| {
        if request.contents.len() > 30 { text("enough") } else { parts(vec![call("f", json!({}))]) }
    })
    .agent("root");
    root.tools = vec![fake.arc()];
    app(root).await
}

#[tokio::test]
async fn a_run_ends_at_the_limit_of_model_calls() {
    let app = calling_forever().await;
    let ran = app.run(configured("hi", RunConfig { max_llm_calls: 2, ..RunConfig::default() })).await;
    assert_snapshot!(app.log_shape(), @"
    00 user   hi
    01 root   → f#1()
    02 root   ← f#1 {result=1}
    03 root   → f#2()
    04 root   ← f#2 {result=1}
    05 root    [TOO_MANY_MODEL_CALLS: limit of 2 model calls reached]
    ");
    assert!(matches!(ran.error(), RunError::TooManyModelCalls { limit: 2 }));
}

#[tokio::test]
async fn a_limit_of_zero_is_unlimited() {
    let app = calling_forever().await;
    let ran = app.run(configured("hi", RunConfig { max_llm_calls: 0, ..RunConfig::default() })).await;
    assert_eq!(ran.text(), "enough");
}

#[tokio::test]
async fn a_failed_model_call_leaves_an_error_event_and_the_next_message_works() {
    let app =
        app(Fake::says([Reply::Items(vec![Err(LlmError::new("BOOM", "it broke"))]), text("hello")])
            .agent("root"))
        .await;
    let ran = app.say("hi").await;
    assert!(matches!(ran.error(), RunError::Model(error) if error.code == "BOOM"));
    app.say("again").await.result.unwrap();
    assert_snapshot!(app.log_shape(), @"
    00 user   hi
    01 root    [BOOM: it broke]
    02 user   again
    03 root   hello
    ");
}

#[tokio::test]
async fn a_refusal_of_the_model_is_an_answer() {
    let refusal = LlmResponse {
        error_code: Some("RESOURCE_EXHAUSTED".to_owned()),
        error_message: Some("quota".to_owned()),
        ..LlmResponse::default()
    };
    let app = app(Fake::says([Reply::Items(vec![Ok(refusal)])]).agent("root")).await;
    let ran = app.say("hi").await;
    ran.result.unwrap();
    assert_snapshot!(app.log_shape(), @"
    00 user   hi
    01 root    [RESOURCE_EXHAUSTED: quota]
    ");
}

#[tokio::test]
async fn response_metadata_is_on_the_event() {
    let metadata_with = |key: &str| json!({key: true}).as_object().cloned();
    let partial =
        LlmResponse { partial: true, custom_metadata: metadata_with("waiting"), ..LlmResponse::default() };
    let whole = LlmResponse {
        content: Some(Content::model("hello")),
        custom_metadata: metadata_with("another"),
        ..LlmResponse::default()
    };
    let app = app(Fake::says([Reply::Items(vec![Ok(partial), Ok(whole)])]).agent("root")).await;
    let shown = app.stream("hi").await.shown;
    let metadata: Vec<_> = shown.iter().map(|event| (event.partial, event.custom_metadata.clone())).collect();
    assert_eq!(metadata, [(Some(true), metadata_with("waiting")), (Some(false), metadata_with("another"))]);
    assert_eq!(app.log().len(), 2, "a partial response is not stored");
}

#[tokio::test]
async fn a_session_that_does_not_exist_is_an_error() {
    let app = app(Fake::says([text("never")]).agent("root")).await;
    let other = adk::session::SessionKey::new("app", "u", "other");
    let ran = app.run(RunRequest::message(other, Content::user("hi"))).await;
    assert!(matches!(ran.error(), RunError::SessionNotFound(key) if key.session_id == "other"));
}

#[tokio::test]
async fn the_role_of_an_answer_defaults_to_model() {
    let content = Some(Content { role: None, ..Content::model("x") });
    let reply = Reply::Items(vec![Ok(LlmResponse { content, ..LlmResponse::default() })]);
    let app = app(Fake::says([reply]).agent("root")).await;
    let shown: Vec<Event> = app.say("hi").await.shown;
    assert_eq!(shown[0].content.as_ref().unwrap().role.as_deref(), Some("model"));
}
