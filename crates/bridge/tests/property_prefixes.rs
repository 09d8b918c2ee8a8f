//! For any log, a request that continues a kept prefix equals the request that is built from the whole log, in every wire
//! format.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test at its line")]

#[path = "generate/logs.rs"]
mod logs;
#[path = "generate/view.rs"]
mod view;

use adk::prefix::Prefixes;
use bridge::EventsAdapter;
use logs::Log;
use proptest::prelude::*;
use provider::{ModelRequest, WireApi};
use testkit::property::{CaseTally, check};
use view::AGENT;

const FORMATS: [(WireApi, &str); 6] = [
    (WireApi::Chat, "https://api.openai.com/v1"),
    (WireApi::Chat, "https://api.deepseek.com/v1"),
    (WireApi::Responses, ""),
    (WireApi::Anthropic, ""),
    (WireApi::Gemini, ""),
    (WireApi::Ollama, ""),
];

/// Requests of a growing log, all with the prefixes of one session.
fn check_growing(log: &Log, step: usize, tally: &CaseTally) -> Result<(), TestCaseError> {
    let events = EventsAdapter::new(AGENT, &log.rows, log.budget, log.cut);
    let prefixes = FORMATS.map(|_| Prefixes::default());
    let mut last = 0;
    for length in (1..=events.len()).filter(|length| length % step == 0 || *length == events.len()) {
        let whole = view::of_first(&events, length, log.budget);
        for ((api, server), prefixes) in FORMATS.iter().zip(&prefixes) {
            let (request, has_prefix) = view::with_prefix(&events, length, log.budget, prefixes);
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
    check(400, &(logs::conversation(), 1_usize..5), |(log, step)| check_growing(&log, step, &tally));
    tally.assert_covered();
}

#[test]
fn request_of_a_damaged_log_does_not_depend_on_its_prefix() {
    let tally = CaseTally::default();
    check(400, &(logs::log(), 1_usize..5), |(log, step)| check_growing(&log, step, &tally));
}
