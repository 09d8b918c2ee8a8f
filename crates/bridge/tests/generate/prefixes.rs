//! For any log, a request that continues a kept prefix equals the request that is built from the whole log, in every wire
//! format.

use super::{
    logs::{self, Age, Log, Row, budget, chunk, event, name, number, object, own, response_to, text_events},
    view::{AGENT, MODEL, Silent, frame, history},
};
use adk::{
    content::FunctionCall,
    event::Event,
    flow::contents::{HistoryView, contents},
    model::LlmRequest,
    prefix::Prefixes,
    window::LogRow,
};
use bridge::{Budget, EventsAdapter, ModelAdapter};
use proptest::{collection::vec, option::of, prelude::*};
use provider::{ModelRequest, WireApi};
use serde_json::Map;
use std::sync::Arc;
use testkit::property::{CaseTally, check};

const FORMATS: [(WireApi, &str); 6] = [
    (WireApi::Chat, "https://api.openai.com/v1"),
    (WireApi::Chat, "https://api.deepseek.com/v1"),
    (WireApi::Responses, ""),
    (WireApi::Anthropic, ""),
    (WireApi::Gemini, ""),
    (WireApi::Ollama, ""),
];

/// As [`logs::log`], with many orderly exchanges in between, and a budget that is seldom exceeded.
fn conversation() -> impl Strategy<Value = Log> {
    let orderly = (text_events("user", "user"), of(answered_calls()), text_events(AGENT, "model"));
    let orderly = orderly.prop_map(|(question, calls, answer)| {
        let events = question.into_iter().chain(calls.into_iter().flatten()).chain(answer);
        events.map(|event| Row { event, age: Age::Ours }).collect()
    });
    let chunks = vec(prop_oneof![6 => orderly, 1 => chunk()], 1..12);
    let budget = prop_oneof![1 => budget(), 3 => Just(Budget::new(8_000, None).unwrap())];
    (chunks, of(0_usize..6), budget).prop_map(|(chunks, skip, budget)| {
        let rows: Vec<Row> = chunks.into_iter().flatten().take(60).collect();
        let skip = skip.unwrap_or(0).min(rows.len());
        Log { rows: number(rows).split_off(skip), cut: skip > 0, budget }
    })
}

/// A call with its result.
fn answered_calls() -> impl Strategy<Value = Vec<Event>> {
    let id = prop_oneof![Just("call_0".to_owned()), "adk-[0-9a-f]{8}"];
    (id, name(), object(), object(), any::<bool>()).prop_map(|(id, name, args, answer, ours)| {
        let call = FunctionCall { id: Some(id), name, args, extra: Map::new() };
        let mut asked = event(AGENT, "model", vec![call.clone().into()]);
        own(&mut asked, ours);
        vec![asked, event(AGENT, "user", vec![response_to(&call, answer)])]
    })
}

/// The request for the first `length` events with the prefix that is kept for them, and whether it has one.
fn with_prefix(
    events: &EventsAdapter,
    length: usize,
    budget: Budget,
    prefixes: &Prefixes,
) -> (ModelRequest, bool) {
    let view = history(&events.all()[..length]);
    let rows: Vec<LogRow> = (0..length).map(|index| LogRow { seq: index as u64 + 1, tokens: 1 }).collect();
    let divided = prefixes.divide(view, &rows);
    let start = divided.as_ref().map_or(0, |divided| divided.events);
    let contents = contents(HistoryView { events: &view.events[start..], ..view });
    let prefix = divided.map(|divided| divided.prefix);
    let asked = LlmRequest { contents, prefix, ..frame(events) };
    let has_prefix = asked.prefix.is_some();
    (ModelAdapter::new(Arc::new(Silent), MODEL, budget).request(&asked), has_prefix)
}

/// The request for the first `length` events, built as a whole.
fn of_first(events: &EventsAdapter, length: usize, budget: Budget) -> ModelRequest {
    let asked = LlmRequest { contents: contents(history(&events.all()[..length])), ..frame(events) };
    ModelAdapter::new(Arc::new(Silent), MODEL, budget).request(&asked)
}

/// Requests of a growing log, all with the prefixes of one session.
fn check_growing(log: &Log, step: usize, tally: &CaseTally) -> Result<(), TestCaseError> {
    let events = EventsAdapter::new(AGENT, &log.rows, log.budget, log.cut);
    let prefixes = FORMATS.map(|_| Prefixes::default());
    let mut last = 0;
    for length in (1..=events.len()).filter(|length| length % step == 0 || *length == events.len()) {
        let whole = of_first(&events, length, log.budget);
        for ((api, server), prefixes) in FORMATS.iter().zip(&prefixes) {
            let (request, has_prefix) = with_prefix(&events, length, log.budget, prefixes);
            prop_assert_eq!(&*request.with_all_messages(), &whole, "of {} events", length);
            let (body, expected) = (bytes(*api, server, &request), api.encode(server, &whole).to_string());
            prop_assert_eq!(body, expected, "{:?} of {} events", api, length);
            tally.count("prefixes", has_prefix);
            tally.count("prefixes of legal messages", request.prefix.is_some());
            tally.count("logs without a prefix", !has_prefix && length > 4);
            let reused = request.prefix.as_ref().map_or(0, |prefix| prefix.messages().len());
            tally.count("prefixes that grow", reused > last && last > 0);
            tally.count("prefixes that a later event changes", reused < last);
            last = if *api == WireApi::Ollama { reused } else { last };
        }
    }
    Ok(())
}

fn bytes(api: WireApi, server: &str, request: &ModelRequest) -> String {
    String::from_utf8(api.encode_to_bytes(server, request)).unwrap()
}

#[test]
fn request_with_a_prefix_equals_the_request_of_the_whole_log() {
    let tally = CaseTally::default();
    check(400, &(conversation(), 1_usize..5), |(log, step)| check_growing(&log, step, &tally));
    tally.assert_covered();
}

#[test]
fn request_of_a_damaged_log_does_not_depend_on_its_prefix() {
    let tally = CaseTally::default();
    check(400, &(logs::log(), 1_usize..5), |(log, step)| check_growing(&log, step, &tally));
}
