//! The request after an interrupted answer, for each provider: the streamed part is the assistant's message, and the
//! request is legal.

use crate::common::{
    Backend, Fake, backends, call, calls, failure, log, root, say, say_streaming, start, stub, text,
};
use adk::{
    agent::LlmAgent,
    error::RunError,
    runner::{Input, RunRequest},
};
use bridge::Agent;
use insta::assert_snapshot;
use provider::{ModelRequest, StreamEvent};
use serde_json::{Value, json};
use std::sync::Arc;
use testkit::{ProviderApi, legal};

/// Parts of an answer, then an error.
fn breaks(chunks: impl IntoIterator<Item = StreamEvent>) -> Vec<StreamEvent> {
    chunks.into_iter().chain([failure("it broke")]).collect()
}

fn signed_thought(words: &str) -> StreamEvent {
    StreamEvent::Thought { text: words.to_owned(), signature: Some("c2lnbmF0dXJl".to_owned()) }
}

fn with_tool(model: &Arc<Fake>) -> LlmAgent {
    LlmAgent { tools: vec![stub(json!({"name": "look", "response": {"sky": "clear"}}))], ..root(model) }
}

async fn interrupted(agent: &Agent, request: RunRequest) {
    let ran = agent.run(request, &|_| {}).await;
    assert!(matches!(ran, Err(RunError::Model(_))), "{ran:?}");
}

fn again() -> RunRequest {
    RunRequest { input: Input::Again, ..say_streaming("") }
}

/// The newest request in the encoding of each provider, one item per line. All are legal.
fn sent(model: &Fake) -> String {
    let request: ModelRequest = model.last_request();
    let encodings = [
        (ProviderApi::OpenAi, provider::openai::encode(&request, true), "messages"),
        (ProviderApi::Responses, provider::responses::encode(&request, true), "input"),
        (ProviderApi::Anthropic, provider::anthropic::encode(&request, true), "messages"),
        (ProviderApi::Gemini, provider::gemini::encode(&request, true), "contents"),
        (ProviderApi::Ollama, provider::ollama::encode(&request, true), "messages"),
    ];
    let mut lines = Vec::new();
    for (api, body, list) in encodings {
        assert_eq!(legal::check(api, &body), [], "{api:?}: {body:#}");
        lines.push(format!("{api:?}"));
        let items = body[list].as_array().unwrap().iter();
        lines.extend(items.map(|item| format!("  {}", without_marks(item.clone()))));
    }
    lines.join("\n").replace(adk::notes::CONTINUE_NOTE, "NOTE")
}

/// Removes cache markers.
fn without_marks(mut value: Value) -> Value {
    match &mut value {
        Value::Object(map) => {
            map.shift_remove("cache_control");
            map.values_mut().for_each(|value| *value = without_marks(value.take()));
        }
        Value::Array(items) => items.iter_mut().for_each(|value| *value = without_marks(value.take())),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    value
}

#[tokio::test]
async fn resumed_answer_continues_after_the_continue_note() {
    let backend = Backend::memory();
    let chunks = [signed_thought("hm"), text("Hel"), text("lo ")];
    let model = Fake::new(vec![breaks(chunks)]);
    let agent = start(&backend.store, root(&model)).await;
    interrupted(&agent, say_streaming("hi")).await;
    agent.run(again(), &|_| {}).await.unwrap();
    assert_snapshot!(sent(&model), @r#"
    OpenAi
      {"role":"user","content":"hi"}
      {"role":"assistant","content":"Hello "}
      {"role":"user","content":"NOTE"}
    Responses
      {"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}
      {"type":"message","role":"assistant","content":[{"type":"output_text","text":"Hello "}]}
      {"type":"message","role":"user","content":[{"type":"input_text","text":"NOTE"}]}
    Anthropic
      {"role":"user","content":[{"type":"text","text":"hi"}]}
      {"role":"assistant","content":[{"type":"text","text":"Hello "}]}
      {"role":"user","content":[{"type":"text","text":"NOTE"}]}
    Gemini
      {"role":"user","parts":[{"text":"hi"}]}
      {"role":"model","parts":[{"text":"Hello "}]}
      {"role":"user","parts":[{"text":"NOTE"}]}
    Ollama
      {"role":"user","content":"hi"}
      {"role":"assistant","content":"Hello "}
      {"role":"user","content":"NOTE"}
    "#);
}

#[tokio::test]
async fn new_message_follows_the_interrupted_answer() {
    let backend = Backend::memory();
    let model = Fake::new(vec![breaks([signed_thought("hm"), text("Hello ")])]);
    let agent = start(&backend.store, root(&model)).await;
    interrupted(&agent, say_streaming("hi")).await;
    agent.run(say("go on"), &|_| {}).await.unwrap();
    assert_snapshot!(sent(&model), @r#"
    OpenAi
      {"role":"user","content":"hi"}
      {"role":"assistant","content":"Hello "}
      {"role":"user","content":"go on"}
    Responses
      {"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}
      {"type":"message","role":"assistant","content":[{"type":"output_text","text":"Hello "}]}
      {"type":"message","role":"user","content":[{"type":"input_text","text":"go on"}]}
    Anthropic
      {"role":"user","content":[{"type":"text","text":"hi"}]}
      {"role":"assistant","content":[{"type":"text","text":"Hello "}]}
      {"role":"user","content":[{"type":"text","text":"go on"}]}
    Gemini
      {"role":"user","parts":[{"text":"hi"}]}
      {"role":"model","parts":[{"text":"Hello "}]}
      {"role":"user","parts":[{"text":"go on"}]}
    Ollama
      {"role":"user","content":"hi"}
      {"role":"assistant","content":"Hello "}
      {"role":"user","content":"go on"}
    "#);
}

#[tokio::test]
async fn twice_interrupted_answer_is_continued_twice() {
    let backend = Backend::memory();
    let model = Fake::new(vec![breaks([text("Hel")]), breaks([text("lo, ")])]);
    let agent = start(&backend.store, root(&model)).await;
    interrupted(&agent, say_streaming("hi")).await;
    interrupted(&agent, again()).await;
    agent.run(again(), &|_| {}).await.unwrap();
    let resumed = model.last_request();
    assert_snapshot!(sent(&model), @r#"
    OpenAi
      {"role":"user","content":"hi"}
      {"role":"assistant","content":"Hel"}
      {"role":"user","content":"NOTE"}
      {"role":"assistant","content":"lo, "}
      {"role":"user","content":"NOTE"}
    Responses
      {"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}
      {"type":"message","role":"assistant","content":[{"type":"output_text","text":"Hel"}]}
      {"type":"message","role":"user","content":[{"type":"input_text","text":"NOTE"}]}
      {"type":"message","role":"assistant","content":[{"type":"output_text","text":"lo, "}]}
      {"type":"message","role":"user","content":[{"type":"input_text","text":"NOTE"}]}
    Anthropic
      {"role":"user","content":[{"type":"text","text":"hi"}]}
      {"role":"assistant","content":[{"type":"text","text":"Hel"}]}
      {"role":"user","content":[{"type":"text","text":"NOTE"}]}
      {"role":"assistant","content":[{"type":"text","text":"lo, "}]}
      {"role":"user","content":[{"type":"text","text":"NOTE"}]}
    Gemini
      {"role":"user","parts":[{"text":"hi"}]}
      {"role":"model","parts":[{"text":"Hel"}]}
      {"role":"user","parts":[{"text":"NOTE"}]}
      {"role":"model","parts":[{"text":"lo, "}]}
      {"role":"user","parts":[{"text":"NOTE"}]}
    Ollama
      {"role":"user","content":"hi"}
      {"role":"assistant","content":"Hel"}
      {"role":"user","content":"NOTE"}
      {"role":"assistant","content":"lo, "}
      {"role":"user","content":"NOTE"}
    "#);
    agent.run(say("thanks"), &|_| {}).await.unwrap();
    assert!(model.last_request().messages.starts_with(&resumed.messages));
}

#[tokio::test]
async fn answer_interrupted_after_a_tool_result_is_continued() {
    let backend = Backend::memory();
    let looks = calls("c1", "look", json!({}));
    let model = Fake::new(vec![looks, breaks([text("The sky "), text("is")])]);
    let agent = start(&backend.store, with_tool(&model)).await;
    interrupted(&agent, say_streaming("weather?")).await;
    agent.run(again(), &|_| {}).await.unwrap();
    assert_snapshot!(sent(&model), @r#"
    OpenAi
      {"role":"user","content":"weather?"}
      {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"look","arguments":"{}"}}]}
      {"role":"tool","tool_call_id":"c1","content":"{\"sky\":\"clear\"}"}
      {"role":"assistant","content":"The sky is"}
      {"role":"user","content":"NOTE"}
    Responses
      {"type":"message","role":"user","content":[{"type":"input_text","text":"weather?"}]}
      {"type":"function_call","call_id":"c1","name":"look","arguments":"{}"}
      {"type":"function_call_output","call_id":"c1","output":"{\"sky\":\"clear\"}"}
      {"type":"message","role":"assistant","content":[{"type":"output_text","text":"The sky is"}]}
      {"type":"message","role":"user","content":[{"type":"input_text","text":"NOTE"}]}
    Anthropic
      {"role":"user","content":[{"type":"text","text":"weather?"}]}
      {"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"look","input":{}}]}
      {"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"{\"sky\":\"clear\"}"}]}
      {"role":"assistant","content":[{"type":"text","text":"The sky is"}]}
      {"role":"user","content":[{"type":"text","text":"NOTE"}]}
    Gemini
      {"role":"user","parts":[{"text":"weather?"}]}
      {"role":"model","parts":[{"functionCall":{"id":"c1","name":"look","args":{}}}]}
      {"role":"user","parts":[{"functionResponse":{"id":"c1","name":"look","response":{"sky":"clear"}}}]}
      {"role":"model","parts":[{"text":"The sky is"}]}
      {"role":"user","parts":[{"text":"NOTE"}]}
    Ollama
      {"role":"user","content":"weather?"}
      {"role":"assistant","content":"","tool_calls":[{"id":"c1","function":{"name":"look","arguments":{}}}]}
      {"role":"tool","tool_name":"look","tool_call_id":"c1","content":"{\"sky\":\"clear\"}"}
      {"role":"assistant","content":"The sky is"}
      {"role":"user","content":"NOTE"}
    "#);
}

#[tokio::test]
async fn text_around_incomplete_calls_is_stored_without_the_calls() {
    for backend in backends() {
        let chunks = [text("I look. "), call("c1", "look", json!({})), text("Then")];
        let model = Fake::new(vec![breaks(chunks)]);
        let agent = start(&backend.store, with_tool(&model)).await;
        interrupted(&agent, say_streaming("weather?")).await;
        assert_eq!(log(&backend.store).await, ["user: weather?", "root: I look. Then", "root: !BROKEN"]);
        agent.run(say("and?"), &|_| {}).await.unwrap();
        assert!(!sent(&model).contains("c1"), "{}", backend.name);
    }
}

#[tokio::test]
async fn interrupted_answer_without_text_leaves_the_request_unchanged() {
    for chunks in [vec![text(" \n")], vec![signed_thought("hm")], vec![signed_thought("hm"), text("\n\n")]] {
        let backend = Backend::memory();
        let model = Fake::new(vec![breaks(chunks)]);
        let agent = start(&backend.store, root(&model)).await;
        interrupted(&agent, say_streaming("hi")).await;
        let before = sent(&model);
        agent.run(again(), &|_| {}).await.unwrap();
        assert_eq!(sent(&model), before);
        let rows = log(&backend.store).await;
        assert!(rows.iter().all(|row| !row.contains("c2ln")), "{rows:?}");
    }
}

#[tokio::test]
async fn unstreamed_interrupted_answer_is_not_stored() {
    for backend in backends() {
        let model = Fake::new(vec![breaks([text("Hello")])]);
        let agent = start(&backend.store, root(&model)).await;
        interrupted(&agent, say("hi")).await;
        assert_eq!(log(&backend.store).await, ["user: hi", "root: !BROKEN"], "{}", backend.name);
    }
}
