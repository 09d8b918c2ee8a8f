//! Requests that a server rejects for a part that it does not support: left out, remembered, or answered by the fallback.

use crate::common::{Fake, backends, done, key, say, start, text};
use adk::{
    agent::LlmAgent,
    content::Content,
    model::{ContentRef, FunctionDeclaration, GenerateContentConfig, Llm, LlmRequest, LlmResponse},
};
use bridge::{
    Budget, ModelAdapter,
    agent::inspect::{BodyCheck, CallSelection},
    model::{ModelAddress, ModelMemory, ModelTarget, NOTICE},
};
use futures::StreamExt;
use insta::assert_snapshot;
use provider::{Error, Omission, StreamEvent};
use serde_json::json;
use std::sync::Arc;

fn rejected(what: Omission) -> Vec<StreamEvent> {
    let (provider, message) = ("one".to_owned(), "no".to_owned());
    vec![StreamEvent::Error(Error::Unsupported { provider, message, what })]
}

fn field(name: &str) -> Omission {
    Omission::Field(name.to_owned())
}

fn hello() -> Vec<StreamEvent> {
    vec![text("Hello"), done()]
}

fn request() -> LlmRequest {
    let look = FunctionDeclaration {
        description: "Looks.".to_owned(),
        name: "look".to_owned(),
        parameters_json_schema: json!({"type": "object"}),
    };
    let config =
        GenerateContentConfig { temperature: Some(0.5), seed: Some(1), ..GenerateContentConfig::default() };
    let contents = vec![ContentRef::from(Content::user("hi"))];
    LlmRequest { contents, config, tools: vec![look], ..LlmRequest::default() }
}

fn target(fake: &Arc<Fake>, model: &str, memory: &Arc<ModelMemory>) -> ModelTarget {
    let address = ModelAddress { model: model.to_owned(), ..ModelAddress::default() };
    ModelTarget::new(fake.clone(), model, Budget::default()).with_memory(memory.clone(), address)
}

/// The responses of a call, one line each.
async fn picture(model: &ModelAdapter) -> String {
    let responses: Vec<_> = model.generate(request(), true).collect().await;
    let line = |response: &Result<LlmResponse, adk::error::LlmError>| match response {
        Ok(response) => {
            let text = response.content.as_ref().map(Content::text).unwrap_or_default();
            let notice =
                response.custom_metadata.as_ref().map(|metadata| metadata[NOTICE]["message"].to_string());
            format!("{text} {}", notice.unwrap_or_default()).trim().to_owned()
        }
        Err(error) => format!("! {} {error}", error.code),
    };
    responses.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn several_fields_are_left_out_one_after_the_other() {
    let fake =
        Fake::called("one", vec![rejected(field("seed")), rejected(field("temperature")), hello(), hello()]);
    let memory = Arc::new(ModelMemory::default());
    let model = ModelAdapter::with_fallbacks(target(&fake, "small", &memory), Vec::new());
    assert_snapshot!(picture(&model).await, @r#"
    "one does not support `seed`; retrying without it"
    "one does not support `temperature`; retrying without it"
    Hello
    Hello "one/small answered without `seed`, `temperature`, which it does not support"
    "#);
    assert_eq!(picture(&model).await, "Hello\nHello", "remembered, and not reported again");
    let omitted: Vec<usize> = fake.requests().iter().map(|request| request.omitted.len()).collect();
    assert_eq!(omitted, [0, 1, 2, 2]);
}

#[tokio::test]
async fn a_part_that_is_rejected_although_it_was_left_out_is_an_error() {
    let fake = Fake::called("one", vec![rejected(field("seed")), rejected(field("seed")), hello()]);
    let memory = Arc::new(ModelMemory::default());
    let model = ModelAdapter::with_fallbacks(target(&fake, "small", &memory), Vec::new());
    assert_snapshot!(picture(&model).await, @r#"
    "one does not support `seed`; retrying without it"
    ! UNSUPPORTED one does not support `seed`: no
    "#);
    // A conclusion that did not help is not remembered.
    assert_eq!(model.request(&request()).omitted, []);
}

#[tokio::test]
async fn a_missing_capability_uses_the_fallback_and_later_calls_ask_it_at_once() {
    let (first, second) =
        (Fake::called("one", vec![rejected(Omission::Tools)]), Fake::called("two", vec![hello(), hello()]));
    let memory = Arc::new(ModelMemory::default());
    let model = ModelAdapter::with_fallbacks(
        target(&first, "small", &memory),
        vec![target(&second, "large", &memory)],
    );
    assert_snapshot!(picture(&model).await, @r#"
    "one does not support tool use; asking two/large instead"
    Hello
    Hello "two/large answered; one/small: one does not support tool use: no"
    "#);
    assert_snapshot!(picture(&model).await, @r#"
    "one does not support tool use; asking two/large instead"
    Hello
    Hello "two/large answered; one/small: one does not support tool use: remembered"
    "#);
    assert_eq!((first.requests().len(), second.requests().len()), (1, 2));
}

#[tokio::test]
async fn without_a_fallback_tool_use_is_left_out() {
    let fake = Fake::called("one", vec![rejected(Omission::Tools), hello(), hello()]);
    let memory = Arc::new(ModelMemory::default());
    let model = ModelAdapter::with_fallbacks(target(&fake, "small", &memory), Vec::new());
    assert_snapshot!(picture(&model).await, @r#"
    "one does not support tool use; retrying without it"
    Hello
    Hello "one/small answered without tool use, which it does not support"
    "#);
    assert_snapshot!(picture(&model).await, @r#"
    "without tool use, which the model does not support; `lango models` shows more"
    Hello
    Hello
    "#);
}

#[tokio::test]
async fn the_rebuilt_request_leaves_out_the_same() {
    for backend in backends() {
        let fake = Fake::called("one", vec![rejected(field("temperature")), hello()]);
        let memory = Arc::new(ModelMemory::default());
        let model = ModelAdapter::with_fallbacks(target(&fake, "small", &memory), Vec::new());
        let config = GenerateContentConfig { temperature: Some(0.5), ..GenerateContentConfig::default() };
        let agent = LlmAgent { config, ..LlmAgent::new("root", Arc::new(model)) };
        let agent = start(&backend.store, agent).await;
        agent.run_and_collect(say("hi")).await.unwrap();
        let calls = agent.model_calls(&key(), CallSelection::Newest(1)).await.unwrap();
        assert_eq!(calls[0].check, BodyCheck::Verified);
        let body = String::from_utf8(calls[0].body.clone().unwrap()).unwrap();
        assert!(!body.contains("temperature"), "{body}");
    }
}
