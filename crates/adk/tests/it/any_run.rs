//! Any sequence of messages, answers, late results and cuts: every request is legal, and every call is closed.

use crate::{
    common::{App, Fake, Reply, call, call_as, contents_shape, key, parts, piece, text},
    cut_off::{answers, busy, poll_times},
};
use adk::{
    content::{Content, FunctionCall, FunctionResponse, Part},
    error::LlmError,
    model::LlmRequest,
    notes::CONTINUE_NOTE,
    pending::REQUEST_CONFIRMATION,
    runner::{Input, RunRequest},
};
use proptest::{collection::vec, option, prelude::*, sample::select};
use serde_json::json;
use testkit::property::{self, Tally};

#[derive(Clone, Debug)]
enum Move {
    Say(&'static str),
    /// The oldest question.
    Answer(bool),
    /// The oldest call that runs long.
    Late,
    Again,
    Resume,
}

/// A move, and after how many polls it is cut off.
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
        3 => any::<bool>().prop_map(Move::Answer),
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
            Reply::Items(vec![Ok(piece(Part::text("half"))), Err(broken)])
        }
        said => text(&format!("heard {said}")),
    }
}

fn input(app: &App, kind: &Move) -> Option<Input> {
    let pending = app.runner.sessions().pending(&key());
    let answer = |part: FunctionResponse| Input::Message(Content::new("user", vec![part.into()]));
    Some(match kind {
        Move::Say(text) => Input::Message(Content::user(*text)),
        Move::Answer(yes) => {
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

/// Calls and answers stand side by side, in the same order, and nothing of what people were asked is there.
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

async fn play(moves: Vec<(Move, Option<usize>)>, tally: &Tally) -> Result<(), TestCaseError> {
    let fake = Fake::by_rule(model);
    let app = busy(&fake).await;
    for (kind, cut) in moves {
        let Some(input) = input(&app, &kind) else { continue };
        tally.count("answers to questions", matches!(kind, Move::Answer(_)));
        tally.count("late results", matches!(kind, Move::Late));
        tally.count("cuts", cut.is_some());
        let request = RunRequest { input, ..RunRequest::message(key(), Content::default()) };
        let run = Box::pin(app.runner.run(request, &|_| {}));
        poll_times(run, cut.unwrap_or(usize::MAX)).await;
    }
    let said = app.say("hello").await.text();
    prop_assert_eq!(said, "heard hello", "{}", app.log_shape());
    for request in fake.asked() {
        check(&request)?;
    }
    tally.count("interrupted calls", app.log_shape().contains("outcome unknown"));
    tally.count("interrupted answers", app.log().iter().any(|event| event.is_interrupted_answer()));
    let continued = |request: &LlmRequest| request.contents.iter().any(|said| said.text() == CONTINUE_NOTE);
    tally.count("continued answers", fake.asked().iter().any(continued));
    tally.count("parallel calls", app.log().iter().any(|event| event.calls().count() > 1));
    let pending = app.runner.sessions().pending(&key());
    prop_assert!(pending.open_calls.is_empty() && pending.questions.is_empty());
    for (id, count) in answers(&app) {
        let deferred = pending.deferred.iter().any(|call| call.id() == id);
        let asked =
            app.log().iter().any(|event| event.actions.requested_tool_confirmations.contains_key(&id));
        prop_assert!(count == 1 || deferred || asked, "{count} answers for {id}:\n{}", app.log_shape());
    }
    Ok(())
}

#[test]
fn whatever_happens_requests_are_legal_and_the_next_message_is_answered() {
    let tally = Tally::default();
    property::check(2_000, &vec(moves(), 1..12), |moves| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(play(moves, &tally))
    });
    tally.judge();
}
