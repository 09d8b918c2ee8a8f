//! Property: for any sequence of messages, replies, late results and dropped runs, every request is legal and every call has
//! exactly the responses that it must have.

use crate::{
    common::{App, Fake, Reply, call, call_as, chunk, contents_shape, key, parts, text},
    cut_off::{busy, poll_times},
};
use adk::{
    content::{Content, FunctionCall, FunctionResponse, Part},
    error::LlmError,
    model::LlmRequest,
    notes::CONTINUE_NOTE,
    pending::{PendingCall, REQUEST_CONFIRMATION},
    runner::{Input, RunRequest},
};
use proptest::{collection::vec, option, prelude::*, sample::select};
use serde_json::json;
use std::collections::HashMap;
use testkit::property::{self, CaseTally};

#[derive(Clone, Debug)]
enum Move {
    Say(&'static str),
    /// A reply to the oldest question.
    Reply(bool),
    /// A late result of the oldest acknowledged call.
    Late,
    Again,
    Resume,
}

/// A move, and the number of polls after which its run is dropped.
fn moves() -> impl Strategy<Value = (Move, Option<usize>)> {
    let say = select(vec![
        "work",
        "same ids",
        "ask",
        "ask twice",
        "hand over",
        "ask and hand over",
        "break",
        "hello",
    ]);
    let kind = prop_oneof![
        4 => say.prop_map(Move::Say),
        3 => any::<bool>().prop_map(Move::Reply),
        2 => Just(Move::Late),
        1 => Just(Move::Again),
        2 => Just(Move::Resume),
    ];
    (kind, option::weighted(0.4, 0..40usize))
}

fn model(request: &LlmRequest) -> Reply {
    let last = request.contents.last().map(|last| last.text()).unwrap_or_default();
    let ask = || call("asks", json!({}));
    let hand_over = || call("transfer_to_agent", json!({"agent_name": "helper"}));
    match last.as_str() {
        "work" => parts(vec![call("works", json!({})), call("long", json!({}))]),
        "same ids" => {
            parts(vec![call_as("call_0", "works", json!({})), call_as("call_1", "long", json!({}))])
        }
        "ask" => parts(vec![ask(), call("works", json!({}))]),
        "ask twice" => parts(vec![ask(), ask()]),
        "hand over" => parts(vec![hand_over()]),
        "ask and hand over" => parts(vec![ask(), hand_over()]),
        "break" => {
            let broken = LlmError::new("BOOM", "it broke");
            Reply::Items(vec![Ok(chunk(Part::text("half"))), Err(broken)])
        }
        message => text(&format!("heard {message}")),
    }
}

fn input(app: &App, kind: &Move) -> Option<Input> {
    let pending = app.runner.sessions().pending(&key());
    let answer = |part: FunctionResponse| Input::Message(Content::new("user", vec![part.into()]));
    Some(match kind {
        Move::Say(text) => Input::Message(Content::user(*text)),
        Move::Reply(yes) => {
            let question = pending.questions.first()?;
            answer(FunctionResponse::new(&question.id, REQUEST_CONFIRMATION, json!({"confirmed": yes})))
        }
        Move::Late => {
            let call = pending.deferred.first()?;
            answer(FunctionResponse::new(call.id(), call.name(), json!("late")))
        }
        Move::Again => Input::Again,
        Move::Resume => Input::Resume,
    })
}

/// Responses follow their calls directly and in the same order, and there are no confirmations.
fn check(request: &LlmRequest) -> Result<(), TestCaseError> {
    let contents = &request.contents;
    let shape = || contents_shape(contents);
    let mut open: Vec<String> = Vec::new();
    for content in contents {
        let answered: Vec<String> = content.responses().map(FunctionResponse::id_or_name).collect();
        prop_assert_eq!(&answered, &open, "{}", shape());
        open = content.calls().map(FunctionCall::id_or_name).collect();
        let hidden = |part: &Part| part.call().is_some_and(|call| call.name == REQUEST_CONFIRMATION);
        prop_assert!(!content.parts.is_empty() && !content.parts.iter().any(hidden), "{}", shape());
    }
    prop_assert!(open.is_empty(), "{}", shape());
    Ok(())
}

/// The responses to one call.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct ResponseCount {
    /// Placeholders while a confirmation is open.
    provisional: usize,
    by_runner: usize,
    by_user: usize,
}

/// The number of responses to each call, by id. An id that is used again counts for the newest call.
fn response_counts(app: &App) -> HashMap<String, ResponseCount> {
    let mut counts: HashMap<String, ResponseCount> = HashMap::new();
    for event in app.log() {
        counts.extend(event.calls().map(|call| (call.id_or_name(), ResponseCount::default())));
        for id in event.responses().map(FunctionResponse::id_or_name) {
            let count = counts.get_mut(&id).unwrap();
            if event.is_from_user() {
                count.by_user += 1;
            } else if event.actions.requested_tool_confirmations.contains_key(&id) {
                count.provisional += 1;
            } else {
                count.by_runner += 1;
            }
        }
    }
    counts
}

fn late_results(app: &App, id: &str) -> usize {
    response_counts(app).get(id).map_or(0, |count| count.by_user)
}

/// Checks the number of responses of every call. `late` has the stored late results of acknowledged calls.
fn check_responses(app: &App, late: &HashMap<String, usize>) -> Result<(), TestCaseError> {
    let log = app.log();
    let calls: Vec<&FunctionCall> = log.iter().flat_map(|event| event.calls()).collect();
    let is_question = |call: &&FunctionCall| call.name == REQUEST_CONFIRMATION;
    let asked_by: HashMap<&str, String> = calls
        .iter()
        .filter(|call| is_question(call))
        .map(|call| {
            (call.args.as_ref().unwrap()["originalFunctionCall"]["id"].as_str().unwrap(), call.id_or_name())
        })
        .collect();
    let pending = app.runner.sessions().pending(&key());
    let counts = response_counts(app);
    for call in calls {
        let id = call.id_or_name();
        let is_deferred = pending.deferred.iter().any(|deferred| deferred.id() == id);
        let count = counts[&id];
        let (provisional, by_runner, by_user) = if is_question(&call) {
            // Either the user replies, or the runner withdraws the question.
            (0, 1 - count.by_user.min(1), count.by_user.min(1))
        } else if let Some(question) = asked_by.get(id.as_str()) {
            // A withdrawn question leaves the provisional response alone.
            (1, counts[question].by_user, 0)
        } else if is_deferred {
            (0, 1, late.get(&id).copied().unwrap_or_default())
        } else {
            (0, 1, 0)
        };
        let expected = ResponseCount { provisional, by_runner, by_user };
        prop_assert_eq!(count, expected, "responses to {} {}:\n{}", call.name, id, app.log_shape());
    }
    Ok(())
}

async fn play(moves: Vec<(Move, Option<usize>)>, tally: &CaseTally) -> Result<(), TestCaseError> {
    let fake = Fake::by_rule(model);
    let app = busy(&fake).await;
    let mut late: HashMap<String, usize> = HashMap::new();
    for (kind, cut) in moves {
        let Some(input) = input(&app, &kind) else { continue };
        tally.count("replies to questions", matches!(kind, Move::Reply(_)));
        tally.count("late results", matches!(kind, Move::Late));
        tally.count("dropped runs", cut.is_some());
        let request = RunRequest { input, ..RunRequest::message(key(), Content::default()) };
        let oldest = app.runner.sessions().pending(&key()).deferred.first().map(PendingCall::id);
        let before = oldest.as_ref().map_or(0, |id| late_results(&app, id));
        let run = Box::pin(app.runner.run(request, &|_| {}));
        let finished = poll_times(run, cut.unwrap_or(usize::MAX)).await;
        if let (Move::Late, Some(id)) = (kind, oldest) {
            let stored = late_results(&app, &id) - before;
            prop_assert!(
                stored == 1 || (stored == 0 && !finished),
                "{stored} late results of {id} were stored"
            );
            *late.entry(id).or_default() += stored;
        }
    }
    let answer = app.say("hello").await.text();
    prop_assert_eq!(answer, "heard hello", "{}", app.log_shape());
    for request in fake.asked() {
        check(&request)?;
    }
    tally.count("interrupted calls", app.log_shape().contains("outcome unknown"));
    tally.count("interrupted answers", app.log().iter().any(|event| event.is_interrupted_answer()));
    let continued =
        |request: &LlmRequest| request.contents.iter().any(|content| content.text() == CONTINUE_NOTE);
    tally.count("continued answers", fake.asked().iter().any(continued));
    tally.count("parallel calls", app.log().iter().any(|event| event.calls().count() > 1));
    let pending = app.runner.sessions().pending(&key());
    prop_assert!(pending.open_calls.is_empty() && pending.questions.is_empty());
    check_responses(&app, &late)
}

#[test]
fn any_sequence_of_runs_makes_legal_requests_and_exact_responses() {
    let tally = CaseTally::default();
    property::check(2_000, &vec(moves(), 1..12), |moves| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(play(moves, &tally))
    });
    tally.assert_covered();
}
