//! Spec H, I: a provider's stream as ADK responses, and the text of a run.

use crate::common::{
    Fake, backends, call, calls, done, failure, root, say, say_streaming, start, stub, text,
};
use adk::{
    agent::LlmAgent,
    content::{Content, Part},
    error::LlmError,
    event::Event,
    model::{Llm, LlmRequest, LlmResponse},
};
use bridge::{Budget, ModelAdapter, agent::collect::AnswerCollector, model::RetryPolicy};
use futures::StreamExt;
use provider::StreamEvent;
use serde_json::json;

async fn generate(events: Vec<StreamEvent>, stream: bool) -> Vec<Result<LlmResponse, LlmError>> {
    let once = RetryPolicy { attempts: 1, ..RetryPolicy::default() };
    let adapter = ModelAdapter::new(Fake::new(vec![events]), "m1", Budget::default()).with_retries(once);
    let request = LlmRequest { contents: vec![Content::user("hi").into()], ..LlmRequest::default() };
    adapter.generate(request, stream).collect().await
}

fn hello() -> Vec<StreamEvent> {
    vec![text("Hello "), text("world"), done()]
}

fn text_of(response: &LlmResponse) -> String {
    response.content.as_ref().map(Content::text).unwrap_or_default()
}

#[tokio::test]
async fn spec_h1_without_streaming_there_is_one_final_response() {
    let responses = generate(hello(), false).await;
    let [Ok(whole)] = &responses[..] else { panic!("{responses:?}") };
    assert_eq!((text_of(whole).as_str(), whole.partial, whole.turn_complete), ("Hello world", false, true));
    assert_eq!(whole.content.as_ref().unwrap().parts, [Part::text("Hello world")]);
}

#[tokio::test]
async fn spec_h2_call_is_in_the_final_response() {
    let responses = generate(calls("c1", "clock", json!({"zone": "UTC"})), false).await;
    let [Ok(whole)] = &responses[..] else { panic!("{responses:?}") };
    let call = whole.content.as_ref().unwrap().calls().next().unwrap();
    assert_eq!((call.id.as_deref(), call.name.as_str()), (Some("c1"), "clock"));
    assert_eq!(call.args, json!({"zone": "UTC"}).as_object().cloned());
    assert!(whole.turn_complete && !whole.partial);
}

#[tokio::test]
async fn spec_h2_text_and_parallel_calls_keep_their_order() {
    for stream in [false, true] {
        let events = vec![
            text("First "),
            text("this:"),
            call("c1", "a", json!({})),
            call("", "a", json!({})),
            text("then."),
            done(),
        ];
        let responses = generate(events, stream).await;
        let whole = responses.last().unwrap().as_ref().unwrap();
        let parts = &whole.content.as_ref().unwrap().parts;
        let shape: Vec<String> = parts
            .iter()
            .map(|part| {
                part.as_text().map_or_else(|| format!("{:?}", part.call().unwrap().id), str::to_owned)
            })
            .collect();
        assert_eq!(shape, ["First this:", r#"Some("c1")"#, "None", "then."], "stream {stream}");
    }
}

#[tokio::test]
async fn spec_h3_streaming_yields_a_partial_per_delta_and_then_the_final_response() {
    let responses = generate(hello(), true).await;
    let responses: Vec<_> = responses.into_iter().map(Result::unwrap).collect();
    let shape: Vec<_> = responses.iter().map(|one| (text_of(one), one.partial, one.turn_complete)).collect();
    let expected = [("Hello ", true, false), ("world", true, false), ("Hello world", false, true)];
    assert_eq!(shape, expected.map(|(text, partial, complete)| (text.to_owned(), partial, complete)));
}

#[tokio::test]
async fn spec_h3_opaque_data_and_calls_are_in_the_final_response_only() {
    let events = vec![
        StreamEvent::Thought { text: "Let me ".into(), signature: None },
        text(""),
        StreamEvent::Thought { text: "see.".into(), signature: Some("c2ln".into()) },
        text("Done"),
        StreamEvent::TextDelta { text: String::new(), signature: Some("dGV4dA==".into()) },
        call("c1", "clock", json!({})),
        done(),
    ];
    let responses = generate(events, true).await;
    let (whole, partials) = responses.split_last().unwrap();
    let parts = whole.as_ref().unwrap().content.clone().unwrap().parts;
    assert_eq!(parts.len(), 3);
    assert_eq!(parts[0], Part { thought_signature: Some("c2ln".into()), ..Part::thought("Let me see.") });
    assert_eq!(parts[1], Part { thought_signature: Some("dGV4dA==".into()), ..Part::text("Done") });
    assert_eq!(partials.len(), 3, "an empty delta yields no partial response");
    for partial in partials {
        let parts = &partial.as_ref().unwrap().content.as_ref().unwrap().parts;
        assert!(parts.iter().all(|part| part.thought_signature.is_none() && part.call().is_none()));
    }
}

#[tokio::test]
async fn spec_h4_error_is_yielded_at_once_and_ends_the_stream() {
    for stream in [false, true] {
        let events = vec![text("Hel"), failure("on fire"), text("lo"), done()];
        let responses = generate(events, stream).await;
        assert_eq!(responses.len(), if stream { 2 } else { 1 });
        let error = responses.last().unwrap().as_ref().unwrap_err();
        assert_eq!((error.code.as_str(), error.message.as_str()), ("BROKEN", "on fire"));
    }
}

#[tokio::test]
async fn spec_h4_truncated_stream_is_an_error() {
    for stream in [false, true] {
        let responses = generate(vec![text("Hel")], stream).await;
        assert_eq!(responses.last().unwrap().as_ref().unwrap_err().code, "TRUNCATED");
    }
}

#[tokio::test]
async fn spec_i1_text_of_a_streamed_run_is_that_of_its_partials() {
    for backend in backends() {
        let model = Fake::new(vec![hello()]);
        let agent = start(&backend.store, root(&model)).await;
        assert_eq!(
            agent.run_and_collect(say_streaming("hi")).await.unwrap(),
            "Hello world",
            "{}",
            backend.name
        );
    }
}

#[test]
fn spec_i1_partials_take_precedence_over_a_different_final_text() {
    let event = |text: &str, partial: bool| Event {
        content: Some(Content::model(text)),
        partial: Some(partial),
        ..Event { id: "1".into(), ..Event::new("e-1", "root") }
    };
    let mut collector = AnswerCollector::default();
    for event in [event("Hel", true), event("lo", true), event("HELLO", false)] {
        collector.push(&event);
    }
    assert_eq!(collector.into_text(), "Hello");
}

#[tokio::test]
async fn spec_i2_text_of_a_run_without_partials_is_that_of_its_final_event() {
    for backend in backends() {
        let model = Fake::new(vec![hello()]);
        let agent = start(&backend.store, root(&model)).await;
        assert_eq!(agent.run_and_collect(say("hi")).await.unwrap(), "Hello world", "{}", backend.name);
    }
}

#[tokio::test]
async fn spec_i_is_decided_for_each_model_call_of_a_tool_loop() {
    for request in [say("time?"), say_streaming("time?")] {
        let model = Fake::new(vec![
            vec![text("Let me "), text("look."), call("c1", "clock", json!({})), done()],
            calls("c2", "clock", json!({})),
            vec![
                StreamEvent::Thought { text: "hm".into(), signature: None },
                text("No"),
                text("on."),
                done(),
            ],
        ]);
        let tools = vec![stub(json!({"name": "clock", "response": {"time": "noon"}}))];
        let agent = start(&backends()[0].store, LlmAgent { tools, ..root(&model) }).await;
        assert_eq!(agent.run_and_collect(request).await.unwrap(), "Let me look.\nNoon.");
    }
}

#[test]
fn spec_i_streamed_thoughts_do_not_replace_the_final_text() {
    let event = |part: Part, partial: bool| Event {
        content: Some(Content::new("model", vec![part])),
        partial: Some(partial),
        ..Event { id: "1".into(), ..Event::new("e-1", "root") }
    };
    let mut collector = AnswerCollector::default();
    collector.push(&event(Part::thought("hm"), true));
    collector.push(&event(Part::text("Noon."), false));
    assert_eq!(collector.into_text(), "Noon.");
}
