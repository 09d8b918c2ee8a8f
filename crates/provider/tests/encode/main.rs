//! Whatever a repaired history holds, every request that leaves is legal, keeps calls and results together, and begins
//! with the request before it.

mod made;
mod wire;

use made::{Made, Tally};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use provider::{Request, anthropic, gemini, ollama, openai, responses};
use serde_json::Value;
use std::{cell::RefCell, collections::HashSet};
use testkit::{ProviderApi, legal};
use wire::Wire;

/// For each law, and each for all wire formats.
const CASES: u32 = 1000;

type Encode = fn(&Request, bool) -> Value;

const ENCODERS: [(ProviderApi, Encode); 5] = [
    (ProviderApi::OpenAi, openai::encode),
    (ProviderApi::Responses, responses::encode),
    (ProviderApi::Anthropic, anthropic::encode),
    (ProviderApi::Gemini, gemini::encode),
    (ProviderApi::Ollama, ollama::encode),
];

/// Runs a law over generated requests. A run that met no hard case has proved nothing, and fails.
fn for_all(law: impl Fn(&Made, ProviderApi, Encode) -> Result<(), String>) {
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let tally = RefCell::new(Tally::default());
    let outcome = runner.run(&made::requests(), |made| {
        tally.borrow_mut().count(&made.request);
        for (api, encode) in ENCODERS {
            law(&made, api, encode).map_err(|broken| TestCaseError::fail(format!("{api:?}: {broken}")))?;
        }
        Ok(())
    });
    let broken = outcome.err().map(|broken| broken.to_string()).unwrap_or_default();
    assert!(broken.is_empty(), "{broken}");
    tally.borrow().demand();
}

#[test]
fn every_encoded_request_is_legal_for_its_provider() {
    for_all(|made, api, encode| {
        for stream in [true, false] {
            let body = encode(&made.request, stream);
            let broken = legal::check(api, &body);
            if let Some(violation) = broken.first() {
                return Err(format!("{violation}\n{body:#}"));
            }
        }
        Ok(())
    });
}

#[test]
fn every_result_keeps_its_call_under_an_id_of_its_own() {
    for_all(|made, api, encode| {
        let wire = Wire::read(api, &encode(&made.request, false));
        let ids: HashSet<&String> = wire.calls.iter().map(|(id, _)| id).collect();
        if ids.len() != wire.calls.len() || wire.calls.len() != made.calls.len() {
            return Err(format!("{} calls became {:?}", made.calls.len(), wire.calls));
        }
        for ((id, number), call) in wire.calls.iter().zip(&made.calls) {
            if *number != call.number {
                return Err(format!("the calls changed places: {:?}", wire.calls));
            }
            let first = !made
                .calls
                .iter()
                .take_while(|other| other.number != call.number)
                .any(|other| other.id == call.id);
            let taken =
                wire.calls.iter().take_while(|(other, _)| other != id).any(|(other, _)| *other == call.id);
            if first && !taken && wire::is_legal(api, &call.id) && *id != call.id {
                return Err(format!("{:?} was legal and new, and became {id:?}", call.id));
            }
        }
        let answers: Vec<&(String, u64)> = wire.results.iter().collect();
        let stray = answers.iter().find(|answer| !wire.calls.contains(answer));
        match stray {
            Some(answer) => Err(format!("{answer:?} answers another call than it did")),
            None if answers.len() != wire.calls.len() => Err("a result is missing".to_owned()),
            None => Ok(()),
        }
    });
}

#[test]
fn an_older_request_is_the_beginning_of_a_newer_one() {
    for_all(|made, api, encode| {
        let whole = wire::messages(api, &encode(&made.request, false));
        for cut in made.cuts() {
            let mut older = made.request.clone();
            older.messages.truncate(cut);
            let mut older = wire::messages(api, &encode(&older, false));
            // What follows may be merged into the last one.
            older.pop();
            if !whole.starts_with(&older) {
                return Err(format!("cut after {cut} messages:\n{older:#?}\n{whole:#?}"));
            }
        }
        Ok(())
    });
}

#[test]
fn signatures_leave_byte_for_byte() {
    for_all(|made, api, encode| {
        let body = encode(&made.request, false).to_string();
        let lost = made.signatures(api).into_iter().find(|signature| !body.contains(signature.as_str()));
        lost.map_or(Ok(()), |signature| Err(format!("{signature} is lost")))
    });
}
