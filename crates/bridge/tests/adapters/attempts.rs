//! Model calls with errors: retries, shortened conversations, fallbacks, and the notices about them.

use crate::common::{Fake, backends, call, done, key, log, messages, say, say_streaming, start, text};
use adk::{
    agent::LlmAgent,
    content::Content,
    error::{LlmError, RunError},
    event::Event,
    model::{GenerateContentConfig, Llm, LlmRequest, LlmResponse},
    session::{Session, SessionService},
};
use bridge::{
    Budget, ModelAdapter,
    model::{ModelTarget, NOTICE, Notice, NoticeKind, RetryPolicy},
};
use futures::StreamExt;
use insta::assert_snapshot;
use provider::{Done, Error, FinishReason, MessagePart, ModelMessage, Role, StreamEvent};
use serde_json::json;
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::time::Instant;

fn retries() -> RetryPolicy {
    RetryPolicy { jitter: || 1.0, ..RetryPolicy::default() }
}

fn slow_down(seconds: Option<f64>) -> Vec<StreamEvent> {
    let retry_after = seconds.map(Duration::from_secs_f64);
    let (provider, message) = ("one".to_owned(), "60 requests a minute".to_owned());
    vec![StreamEvent::Error(Error::RateLimited { provider, message, retry_after })]
}

fn transient() -> StreamEvent {
    let (provider, message) = ("one".to_owned(), "overloaded".to_owned());
    StreamEvent::Error(Error::Transient { provider, message, retry_after: None, source: None })
}

fn auth(provider: &str) -> Vec<StreamEvent> {
    let (provider, message) = (provider.to_owned(), "not a key".to_owned());
    vec![StreamEvent::Error(Error::Auth { provider, message })]
}

fn overflow(message: &str) -> Vec<StreamEvent> {
    let (provider, message) = ("one".to_owned(), message.to_owned());
    vec![StreamEvent::Error(Error::ContextOverflow { provider, message })]
}

fn hello() -> Vec<StreamEvent> {
    vec![text("Hello"), text(" there"), done()]
}

/// A model with a fallback.
fn two(first: &Arc<Fake>, second: &Arc<Fake>) -> ModelAdapter {
    let target = |fake: &Arc<Fake>, model: &str| ModelTarget::new(fake.clone(), model, Budget::default());
    ModelAdapter::with_fallbacks(target(first, "small"), vec![target(second, "large")])
        .with_retries(retries())
}

fn one(fake: &Arc<Fake>) -> ModelAdapter {
    ModelAdapter::new(fake.clone(), "small", Budget::default()).with_retries(retries())
}

fn request() -> LlmRequest {
    LlmRequest { contents: vec![Content::user("hi").into()], ..LlmRequest::default() }
}

/// The responses of a call, one line each.
async fn picture(model: &ModelAdapter, stream: bool) -> String {
    let responses: Vec<_> = model.generate(request(), stream).collect().await;
    responses.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn line(response: &Result<LlmResponse, LlmError>) -> String {
    let response = match response {
        Ok(response) => response,
        Err(error) => return format!("! {} {error}", error.code),
    };
    let text = response.content.as_ref().map(Content::text).unwrap_or_default();
    let mark = if response.partial { "…" } else { "=" };
    let notice = response.custom_metadata.as_ref().map(|metadata| metadata[NOTICE].to_string());
    [Some(format!("{mark} {text}")), response.model_version.clone(), notice]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(" ")
}

#[tokio::test(start_paused = true)]
async fn retry_wait_is_announced_every_second() {
    let fake = Fake::called("one", vec![slow_down(Some(2.5)), hello()]);
    let start = Instant::now();
    assert_snapshot!(picture(&one(&fake), true).await, @r#"
    …  {"kind":"retry","message":"rate limit at one reached","model":"one/small","seconds":3,"attempt":1}
    …  {"kind":"retry","message":"rate limit at one reached","model":"one/small","seconds":2,"attempt":1}
    …  {"kind":"retry","message":"rate limit at one reached","model":"one/small","seconds":1,"attempt":1}
    … Hello
    …  there
    = Hello there
    "#);
    assert_eq!(start.elapsed(), Duration::from_millis(2_500));
    assert_eq!(fake.requests()[0], fake.requests()[1]);
}

#[tokio::test(start_paused = true)]
async fn retry_after_zero_retries_at_once_with_a_notice() {
    let fake = Fake::called("one", vec![slow_down(Some(0.0)), hello()]);
    let rendered = picture(&one(&fake), true).await;
    assert!(
        rendered.contains(r#""seconds":0,"attempt":1}"#) && rendered.ends_with("= Hello there"),
        "{rendered}"
    );
}

#[tokio::test(start_paused = true)]
async fn retry_without_streaming_sends_no_notice() {
    let fake = Fake::called("one", vec![slow_down(Some(2.5)), hello()]);
    assert_eq!(picture(&one(&fake), false).await, "= Hello there");
}

#[tokio::test(start_paused = true)]
async fn final_error_states_the_number_of_attempts() {
    let fake = Fake::called("one", (0..9).map(|_| vec![transient()]).collect());
    let start = Instant::now();
    assert_snapshot!(picture(&one(&fake), false).await, @"! TRANSIENT one is temporarily unavailable: overloaded; gave up after 4 attempts");
    assert_eq!(start.elapsed(), Duration::from_millis(3_500));
    assert_eq!(fake.requests().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn requested_wait_above_the_limit_is_an_error() {
    let fake = Fake::called("one", vec![slow_down(Some(300.0))]);
    let start = Instant::now();
    assert_snapshot!(picture(&one(&fake), true).await, @"! RATE_LIMITED rate limit at one reached: 60 requests a minute; the requested wait of 300s exceeds the limit of 60s");
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn no_retry_after_the_first_streamed_text() {
    let (first, second) =
        (Fake::called("one", vec![vec![text("Hel"), transient()]]), Fake::called("two", vec![]));
    let rendered = picture(&two(&first, &second), true).await;
    assert!(rendered.ends_with("! TRANSIENT one is temporarily unavailable: overloaded"), "{rendered}");
    assert_eq!((first.requests().len(), second.requests().len()), (1, 0));
}

fn thought() -> StreamEvent {
    StreamEvent::Thought { text: "hm".to_owned(), signature: None }
}

fn ends(finish: FinishReason) -> StreamEvent {
    StreamEvent::Done(Done::new(finish, None))
}

#[tokio::test(start_paused = true)]
async fn streamed_reasoning_does_not_prevent_a_retry() {
    let fake = Fake::called("one", vec![vec![thought(), transient()], hello()]);
    assert!(picture(&one(&fake), true).await.ends_with("= Hello there"));
    assert_eq!(fake.requests().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn answer_without_text_and_calls_is_retried_and_then_an_error() {
    for stream in [false, true] {
        let answers = |answer: fn() -> Vec<StreamEvent>| (0..9).map(|_| answer()).collect();
        let empty = Fake::called("one", answers(|| vec![text(" "), done()]));
        let rendered = picture(&one(&empty), stream).await;
        assert!(
            rendered.ends_with("! EMPTY_ANSWER one sent an empty answer; gave up after 4 attempts"),
            "{rendered}"
        );
        assert_eq!(empty.requests().len(), 4);
        let reasoning = Fake::called("one", answers(|| vec![thought(), done()]));
        let rendered = picture(&one(&reasoning), stream).await;
        assert!(
            rendered.ends_with(
                "! REASONING_ONLY one sent only reasoning and no answer; gave up after 4 attempts"
            ),
            "{rendered}"
        );
    }
}

#[tokio::test]
async fn fallback_answers_if_the_output_limit_or_a_filter_left_nothing() {
    let filtered = FinishReason::Filtered { code: "SAFETY".to_owned(), message: "unsafe".to_owned() };
    for finish in [FinishReason::Length, filtered] {
        let first = Fake::called("one", vec![vec![thought(), ends(finish)]]);
        let second = Fake::called("two", vec![hello()]);
        let rendered = picture(&two(&first, &second), true).await;
        assert!(rendered.contains("\n= Hello there large"), "{rendered}");
        assert_eq!((first.requests().len(), second.requests().len()), (1, 1));
    }
}

#[tokio::test]
async fn answer_that_the_output_limit_cut_off_has_a_notice() {
    let fake = Fake::called("one", vec![vec![text("Hel"), ends(FinishReason::Length)]]);
    assert_snapshot!(picture(&one(&fake), true).await, @r#"
    … Hel
    …  {"kind":"cut","message":"the output limit of one/small cut the answer off","model":"one/small"}
    = Hel {"kind":"cut","message":"the output limit of one/small cut the answer off","model":"one/small"}
    "#);
}

#[tokio::test(start_paused = true)]
async fn failed_attempt_without_streaming_leaves_no_part() {
    let cut_off = vec![text("Hel"), call("c1", "look", json!({}))];
    let failed = vec![text("Hell"), transient()];
    let fake = Fake::called("one", vec![cut_off, failed, hello()]);
    assert_eq!(picture(&one(&fake), false).await, "= Hello there");
}

#[tokio::test(start_paused = true)]
async fn unstreamed_tool_call_does_not_prevent_a_retry() {
    let cut_off = vec![call("c1", "look", json!({}))];
    let fake = Fake::called("one", vec![cut_off, hello()]);
    assert_snapshot!(picture(&one(&fake), true).await, @r#"
    …  {"kind":"retry","message":"one ended the stream before the answer was complete","model":"one/small","seconds":1,"attempt":1}
    … Hello
    …  there
    = Hello there
    "#);
}

#[tokio::test]
async fn fallback_answers_under_its_own_name() {
    let (first, second) = (Fake::called("one", vec![auth("one")]), Fake::called("two", vec![hello()]));
    assert_snapshot!(picture(&two(&first, &second), true).await, @r#"
    …  {"kind":"fallback","message":"one rejected the API key; asking two/large instead","model":"two/large"}
    … Hello
    …  there
    = Hello there large {"kind":"fallback","message":"two/large answered; one/small: one rejected the API key: not a key","model":"two/large"}
    "#);
    assert_eq!((&*first.last_request().model, &*second.last_request().model), ("small", "large"));
}

#[tokio::test(start_paused = true)]
async fn fallback_only_after_all_retries_of_the_first_model() {
    let first = Fake::called("one", (0..9).map(|_| vec![transient()]).collect());
    let second = Fake::called("two", vec![vec![transient()], hello()]);
    let rendered = picture(&two(&first, &second), false).await;
    assert!(rendered.starts_with("= Hello there large "), "{rendered}");
    assert_eq!((first.requests().len(), second.requests().len()), (4, 2));
}

#[tokio::test]
async fn error_lists_the_failures_of_all_models() {
    let (first, second) = (Fake::called("one", vec![auth("one")]), Fake::called("two", vec![auth("two")]));
    assert_snapshot!(picture(&two(&first, &second), false).await, @"! AUTH one/small: one rejected the API key: not a key; two/large: two rejected the API key: not a key");
}

#[tokio::test]
async fn refusal_and_bad_request_do_not_fall_back() {
    let (provider, message) = (|| "one".to_owned(), || "no".to_owned());
    for error in [
        Error::Refused { provider: provider(), message: message() },
        Error::BadRequest { provider: provider(), message: message() },
    ] {
        let code = error.code().to_owned();
        let (first, second) =
            (Fake::called("one", vec![vec![StreamEvent::Error(error)]]), Fake::called("two", vec![]));
        let rendered = picture(&two(&first, &second), true).await;
        assert!(rendered.starts_with(&format!("! {code} ")), "{rendered}");
        assert!(second.requests().is_empty());
    }
}

#[tokio::test]
async fn signatures_of_the_failed_model_are_not_sent_to_the_fallback() {
    for backend in backends() {
        let signed = |text: &str, signature: &str| StreamEvent::TextDelta {
            text: text.to_owned(),
            signature: Some(signature.to_owned()),
        };
        let first = Fake::called(
            "one",
            vec![vec![signed("One.", "c2ln"), done()], auth("one"), vec![text("Back."), done()]],
        );
        let second = Fake::called("two", vec![vec![signed("Two.", "dHdv"), done()]]);
        let agent = LlmAgent::new("root", Arc::new(two(&first, &second)));
        let agent = start(&backend.store, agent).await;
        for words in ["a", "b", "c"] {
            agent.run_and_collect(say(words)).await.unwrap();
        }
        let signatures = |messages: &[ModelMessage]| -> Vec<(String, Option<String>)> {
            let parts = messages
                .iter()
                .filter(|message| message.role == Role::Assistant)
                .flat_map(|message| &message.parts);
            parts
                .map(|part| match part {
                    MessagePart::Text { text, signature, .. } => (text.to_string(), signature.clone()),
                    other => panic!("{other:?}"),
                })
                .collect()
        };
        let own = Some("c2ln".to_owned());
        assert_eq!(
            signatures(&second.last_request().messages),
            [("One.".to_owned(), None)],
            "{}",
            backend.name
        );
        let back = [("One.".to_owned(), own), ("Two.".to_owned(), None)];
        assert_eq!(signatures(&first.last_request().messages), back, "{}", backend.name);
        let session = agent.sessions().get(&key()).await.unwrap().unwrap();
        let notice = session_notice(&session, "Two.");
        assert_eq!((notice.kind, notice.model.as_str()), (NoticeKind::Fallback, "two/large"));
    }
}

fn session_notice(session: &impl Session, text: &str) -> Notice {
    let event = session
        .events()
        .iter()
        .find(|event| event.content.as_ref().is_some_and(|content| content.text() == text));
    Notice::from_event(event.unwrap()).unwrap()
}

fn long_talk() -> LlmRequest {
    let words = |n: usize| Content::user(format!("{n} {}", "word ".repeat(500)));
    let contents = (0..20).flat_map(|n| [words(n), Content::model(format!("heard {n}"))]);
    let contents = contents.chain([Content::user("and now?")]).map(Into::into).collect();
    LlmRequest { contents, ..LlmRequest::default() }
}

fn weight(fake: &Fake, at: usize) -> u32 {
    bridge::view::cost::of_messages(&fake.requests()[at].messages)
}

#[tokio::test]
async fn context_overflow_shortens_the_conversation_once_with_a_notice() {
    let fake = Fake::called("one", vec![overflow("too long"), hello()]);
    let model = one(&fake);
    let responses: Vec<_> = model.generate(long_talk(), true).collect().await;
    assert_snapshot!(responses.iter().map(line).collect::<Vec<_>>().join("\n"), @r#"
    …  {"kind":"shorter","message":"the conversation is too long for the model; retrying with a shortened conversation","model":"one/small"}
    … Hello
    …  there
    = Hello there
    "#);
    assert!(weight(&fake, 1) <= weight(&fake, 0) / 2, "{} {}", weight(&fake, 0), weight(&fake, 1));
    let last = fake.last_request().messages;
    assert_eq!(messages(&last).last().unwrap(), "user: and now?");
}

#[tokio::test]
async fn stated_context_size_is_remembered() {
    let fake =
        Fake::called("one", vec![overflow("the maximum context length is 2000 tokens"), hello(), hello()]);
    let model = one(&fake);
    for _ in 0..2 {
        let responses: Vec<_> = model.generate(long_talk(), false).collect().await;
        assert!(responses[0].is_ok(), "{responses:?}");
    }
    assert!(weight(&fake, 1) <= 1_600, "{}", weight(&fake, 1));
    assert!(weight(&fake, 2) <= 1_600, "{}", weight(&fake, 2));
    assert_eq!(fake.requests().len(), 3, "the second call needs no second attempt");
}

#[tokio::test]
async fn context_size_that_no_message_states_grows_after_a_success() {
    let fake = Fake::called("one", vec![overflow("too long"), hello(), hello(), hello()]);
    let model = one(&fake);
    for _ in 0..3 {
        let responses: Vec<_> = model.generate(long_talk(), false).collect().await;
        assert!(responses[0].is_ok(), "{responses:?}");
    }
    let weights: [u32; 4] = std::array::from_fn(|at| weight(&fake, at));
    let [whole, half, larger, last] = weights;
    assert!(half <= whole / 2 && half < larger && larger < whole, "{weights:?}");
    assert!(last >= larger && last < whole, "{weights:?}");
}

#[tokio::test]
async fn request_fits_the_configured_context() {
    let fake = Fake::called("one", vec![]);
    let target = ModelTarget::new(fake.clone(), "small", Budget::default()).with_context(Some(4_000));
    let model = ModelAdapter::with_fallbacks(target, Vec::new());
    model.generate(long_talk(), false).collect::<Vec<_>>().await;
    assert!((2_000..=3_200).contains(&weight(&fake, 0)), "{}", weight(&fake, 0));
}

#[tokio::test]
async fn second_context_overflow_falls_back_or_fails() {
    let fake = Fake::called("one", vec![overflow("too long"), overflow("too long")]);
    let responses: Vec<_> = one(&fake).generate(long_talk(), false).collect().await;
    assert_snapshot!(line(&responses[0]), @"! CONTEXT_OVERFLOW the conversation is too long for the model: too long; a shortened conversation does not fit either");
    let first = Fake::called("one", vec![overflow("too long"), overflow("too long")]);
    let second = Fake::called("two", vec![hello()]);
    let responses: Vec<_> = two(&first, &second).generate(long_talk(), false).collect().await;
    assert!(line(&responses[0]).starts_with("= Hello there large"), "{responses:?}");
    assert_eq!(weight(&second, 0), weight(&first, 0), "the fallback gets the whole conversation");
}

#[tokio::test]
async fn context_overflow_at_the_minimum_budget_is_final() {
    let fake = Fake::called("one", vec![overflow("too long")]);
    assert_eq!(
        picture(&one(&fake), true).await,
        "! CONTEXT_OVERFLOW the conversation is too long for the model: too long"
    );
    assert_eq!(fake.requests().len(), 1);
}

#[tokio::test]
async fn warning_is_sent_once() {
    let warned = || vec![StreamEvent::Warning("seed has no effect".to_owned()), text("Hello"), done()];
    let fake = Fake::called("one", vec![warned(), warned()]);
    let model = one(&fake);
    assert_snapshot!(picture(&model, true).await, @r#"
    …  {"kind":"warning","message":"seed has no effect","model":"one/small"}
    … Hello
    = Hello
    "#);
    assert_eq!(picture(&model, true).await, "… Hello\n= Hello");
}

#[tokio::test]
async fn settings_without_effect_are_warned_of_once() {
    let fake = Fake::called("one", vec![hello(), hello()]);
    let config: GenerateContentConfig =
        serde_json::from_value(json!({"candidateCount": 40, "temperature": 0.5, "logprobs": 1})).unwrap();
    let model = one(&fake);
    let ask = async || -> Vec<_> {
        model.generate(LlmRequest { config: config.clone(), ..request() }, true).collect().await
    };
    assert_snapshot!(line(&ask().await[0]), @r#"…  {"kind":"warning","message":"these settings have no effect: candidateCount, logprobs","model":"one/small"}"#);
    assert_eq!(line(&ask().await[0]), "… Hello");
    assert_eq!(fake.last_request().options.temperature, Some(0.5));
}

#[tokio::test(start_paused = true)]
async fn notice_is_streamed_and_never_stored() {
    for backend in backends() {
        let fake = Fake::called("one", vec![slow_down(Some(2.0)), hello()]);
        let agent = start(&backend.store, LlmAgent::new("root", Arc::new(one(&fake)))).await;
        let streamed: Mutex<Vec<Event>> = Mutex::default();
        agent
            .run(say_streaming("hi"), &|event: &Event| streamed.lock().unwrap().push(event.clone()))
            .await
            .unwrap();
        let streamed = streamed.into_inner().unwrap();
        let seconds: Vec<_> =
            streamed.iter().filter_map(Notice::from_event).filter_map(|notice| notice.seconds).collect();
        assert_eq!(seconds, [2, 1], "{}", backend.name);
        assert!(streamed.iter().filter(|event| Notice::from_event(event).is_some()).all(Event::is_partial));
        assert_eq!(log(&backend.store).await, ["user: hi", "root: Hello there"], "{}", backend.name);
    }
}

#[tokio::test(start_paused = true)]
async fn cancellation_ends_a_retry_wait() {
    for backend in backends() {
        let fake = Fake::called("one", vec![slow_down(Some(60.0))]);
        let agent = start(&backend.store, LlmAgent::new("root", Arc::new(one(&fake)))).await;
        let request = say_streaming("hi");
        let cancel = request.cancel.clone();
        let last = Mutex::new(None);
        let stop = |event: &Event| {
            let left = Notice::from_event(event).and_then(|notice| notice.seconds);
            *last.lock().unwrap() = left;
            if left == Some(57) {
                cancel.cancel();
            }
        };
        let result = agent.run(request, &stop).await;
        assert!(matches!(result, Err(RunError::Cancelled)), "{}: {result:?}", backend.name);
        assert_eq!(*last.lock().unwrap(), Some(57), "{}", backend.name);
        assert_eq!(fake.requests().len(), 1);
    }
}

#[tokio::test]
async fn reasoning_in_tags_is_a_thought_part() {
    let fake = Fake::called(
        "one",
        vec![vec![text("<thi"), text("nk>Hm.</think>\n\nHello"), text(" there"), done()]],
    );
    let responses: Vec<_> = one(&fake).generate(request(), true).collect().await;
    let parts = |response: &Result<LlmResponse, LlmError>| {
        let content = response.as_ref().unwrap().content.clone().unwrap_or_default();
        let part = |part: &adk::content::Part| {
            format!("{}{:?}", if part.is_thought() { "~" } else { "" }, part.as_text())
        };
        content.parts.iter().map(part).collect::<Vec<_>>().join(" ")
    };
    assert_snapshot!(responses.iter().map(parts).collect::<Vec<_>>().join("\n"), @r#"
    ~Some("Hm.") Some("Hello")
    Some(" there")
    ~Some("Hm.") Some("Hello there")
    "#);
}
