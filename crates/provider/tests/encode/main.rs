//! Properties of encoded requests for any repaired history: each is legal, keeps calls and results together, and
//! extends the previous request.

mod generated;
mod prefixes;
mod wire_calls;

use generated::{CaseTally, GeneratedRequest};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use provider::{ModelRequest, anthropic, gemini, ollama, openai, responses};
use serde_json::Value;
use std::{cell::RefCell, collections::HashSet};
use testkit::{ProviderApi, legal};
use wire_calls::WireCalls;

/// Cases per property; each case covers all wire formats.
const CASES: u32 = 1000;

type Encode = fn(&ModelRequest, bool) -> Value;

const ENCODERS: [(ProviderApi, Encode); 5] = [
    (ProviderApi::OpenAi, openai::encode),
    (ProviderApi::Responses, responses::encode),
    (ProviderApi::Anthropic, anthropic::encode),
    (ProviderApi::Gemini, gemini::encode),
    (ProviderApi::Ollama, ollama::encode),
];

/// Checks a property for generated requests. A run without hard cases proves nothing and fails.
fn for_all(property: impl Fn(&GeneratedRequest, ProviderApi, Encode) -> Result<(), String>) {
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let tally = RefCell::new(CaseTally::default());
    let outcome = runner.run(&generated::requests(), |generated| {
        tally.borrow_mut().count(&generated.request);
        for (api, encode) in ENCODERS {
            property(&generated, api, encode)
                .map_err(|violation| TestCaseError::fail(format!("{api:?}: {violation}")))?;
        }
        Ok(())
    });
    let violation = outcome.err().map(|violation| violation.to_string()).unwrap_or_default();
    assert!(violation.is_empty(), "{violation}");
    tally.borrow().assert_hard_cases();
}

#[test]
fn encoded_requests_are_legal_for_their_provider() {
    for_all(|generated, api, encode| {
        for stream in [true, false] {
            let body = encode(&generated.request, stream);
            let violation = legal::check(api, &body);
            if let Some(violation) = violation.first() {
                return Err(format!("{violation}\n{body:#}"));
            }
        }
        Ok(())
    });
}

#[test]
fn results_keep_their_calls_under_unique_ids() {
    for_all(|generated, api, encode| {
        let wire = WireCalls::read(api, &encode(&generated.request, false));
        let ids: HashSet<&String> = wire.calls.iter().map(|(id, _)| id).collect();
        if ids.len() != wire.calls.len() || wire.calls.len() != generated.calls.len() {
            return Err(format!("{} calls became {:?}", generated.calls.len(), wire.calls));
        }
        for ((id, number), call) in wire.calls.iter().zip(&generated.calls) {
            if *number != call.number {
                return Err(format!("the order of the calls changed: {:?}", wire.calls));
            }
            let first = !generated
                .calls
                .iter()
                .take_while(|other| other.number != call.number)
                .any(|other| other.id == call.id);
            let taken =
                wire.calls.iter().take_while(|(other, _)| other != id).any(|(other, _)| *other == call.id);
            if first && !taken && wire_calls::is_legal(api, &call.id) && *id != call.id {
                return Err(format!("the legal and unique id {:?} became {id:?}", call.id));
            }
        }
        let answers: Vec<&(String, u64)> = wire.results.iter().collect();
        let stray = answers.iter().find(|answer| !wire.calls.contains(answer));
        match stray {
            Some(answer) => Err(format!("{answer:?} belongs to another call")),
            None if answers.len() != wire.calls.len() => Err("a result is missing".to_owned()),
            None => Ok(()),
        }
    });
}

#[test]
fn earlier_request_is_a_prefix_of_a_later_one() {
    for_all(|generated, api, encode| {
        let whole = wire_calls::messages(api, &encode(&generated.request, false));
        for length in generated.earlier_lengths() {
            let mut older = generated.request.clone();
            older.messages.truncate(length);
            let mut older = wire_calls::messages(api, &encode(&older, false));
            // A later message may be merged into the last one.
            older.pop();
            if !whole.starts_with(&older) {
                return Err(format!("cut after {length} messages:\n{older:#?}\n{whole:#?}"));
            }
        }
        Ok(())
    });
}

#[test]
fn signatures_are_encoded_verbatim() {
    for_all(|generated, api, encode| {
        let body = encode(&generated.request, false).to_string();
        let lost = generated.signatures(api).into_iter().find(|signature| !body.contains(signature.as_str()));
        lost.map_or(Ok(()), |signature| Err(format!("signature {signature} is missing")))
    });
}
