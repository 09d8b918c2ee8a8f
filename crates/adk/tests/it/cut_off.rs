//! Cancelled and dropped turns: the log stays legal, and the next message works.

use crate::common::{App, Fake, Reply, app, call, call_as, contents_shape, key, parts, text, tool};
use adk::{
    content::{Content, Part},
    error::RunError,
    event::{Event, ToolConfirmation},
    model::LlmRequest,
    pending::REQUEST_CONFIRMATION,
    runner::{Input, RunRequest},
    tool::ToolOutcome,
};
use futures::future::LocalBoxFuture;
use insta::assert_snapshot;
use serde_json::json;
use std::{
    collections::HashMap,
    task::{Context, Waker},
};
use tokio_util::sync::CancellationToken;

/// The agent `root` with the tools `works`, `hangs`, `asks` (needs a confirmation) and `long`, and the sub-agent `helper`.
pub(crate) async fn busy(model: &Fake) -> App {
    let asks = |context: adk::tool::ToolContext, _| async move {
        tokio::task::yield_now().await;
        Ok(match context.confirmation {
            None => ToolOutcome::Ask(ToolConfirmation::default()),
            Some(_) => ToolOutcome::Done(json!("confirmed")),
        })
    };
    let works = |_, _| async {
        tokio::task::yield_now().await;
        Ok(ToolOutcome::Done(json!("worked")))
    };
    let mut root = model.agent("root");
    root.tools = vec![
        tool("works", works).arc(),
        tool("hangs", |_, _| std::future::pending()).arc(),
        tool("asks", asks).arc(),
        tool("long", works).long_running().arc(),
    ];
    root.sub_agents = vec![model.agent("helper")];
    app(root).await
}

pub(crate) fn left(app: &App, author: &str, parts: Vec<Part>) {
    let role = if author == "user" { "user" } else { "model" };
    let mut event = Event::new("e-old", author);
    event.content = Some(Content::new(role, parts));
    app.runner.sessions().leave(&key(), event);
}

#[tokio::test]
async fn open_calls_are_settled_before_the_next_message() {
    let model = Fake::says([text("hello")]);
    let app = busy(&model).await;
    left(&app, "user", vec![Part::text("hi")]);
    left(&app, "root", vec![call_as("1", "works", json!({})), call_as("2", "works", json!({}))]);
    let ran = app.say("still there?").await;
    assert_snapshot!(app.log_shape(), @r#"
    00 user   hi
    01 root   → works#1() | → works#2()
    02 root   ← works#1 {error="interrupted, outcome unknown: the call was cut off and may or may not have taken effect"} | ← works#2 {error="interrupted, outcome unknown: the call was cut off and may or may not have taken effect"}
    03 user   still there?
    04 root   hello
    "#);
    let settled = &app.log()[2];
    assert_eq!((settled.invocation_id.as_str(), settled.node_info.path.as_str()), ("e-old", "root@1"));
    // The settling event belongs to the earlier run.
    assert_snapshot!(ran.shape(), @"00 root   hello");
    assert_snapshot!(contents_shape(&model.last_asked().contents), @r#"
    00 user   hi
    01 model  → works#1() | → works#2()
    02 user   ← works#1 {error="interrupted, outcome unknown: the call was cut off and may or may not have taken effect"} | ← works#2 {error="interrupted, outcome unknown: the call was cut off and may or may not have taken effect"}
    03 user   still there?
    "#);
}

#[tokio::test]
async fn open_calls_are_settled_without_a_message() {
    let model = Fake::says([text("hello")]);
    let app = busy(&model).await;
    left(&app, "root", vec![call_as("1", "works", json!({}))]);
    app.again().await.result.unwrap();
    assert_eq!(answers(&app)["1"], 1);
}

#[tokio::test]
async fn a_resumed_run_executes_its_open_calls_in_its_invocation() {
    let app = busy(&Fake::says([text("hello")])).await;
    left(&app, "user", vec![Part::text("hi")]);
    left(&app, "root", vec![call_as("1", "works", json!({}))]);
    app.resume().await.result.unwrap();
    assert_snapshot!(app.log_shape(), @r#"
    00 user   hi
    01 root   → works#1()
    02 root   ← works#1 {result="worked"}
    03 root   hello
    "#);
    assert!(app.log().iter().all(|event| event.invocation_id == "e-old"));
    app.resume().await.result.unwrap();
    assert_eq!(app.log().len(), 4);
}

#[tokio::test]
async fn a_late_result_finds_a_call_without_an_acknowledgement() {
    let app = busy(&Fake::says([text("hello")])).await;
    left(&app, "user", vec![Part::text("hi")]);
    let mut event = Event::new("e-old", "root");
    event.content = Some(Content::new("model", vec![call_as("1", "long", json!({}))]));
    event.long_running_tool_ids = Some(vec!["1".to_owned()]);
    app.runner.sessions().leave(&key(), event);
    let ran = app.send(vec![app.result_of("long", 0, json!("late"))]).await;
    assert_eq!(ran.text(), "hello");
    assert_eq!(app.log().last().unwrap().invocation_id, "e-old");
}

async fn cancelled_during(reply: Reply, cancel_when: impl Fn(&App) -> bool) -> (App, Vec<Event>) {
    let app = busy(&Fake::says([reply, text("hello")])).await;
    let cancel = CancellationToken::new();
    let request = RunRequest { cancel: cancel.clone(), ..RunRequest::message(key(), Content::user("hi")) };
    let watch = async {
        while !cancel_when(&app) {
            tokio::task::yield_now().await;
        }
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        cancel.cancel();
    };
    let (ran, ()) = futures::join!(app.run(request), watch);
    assert!(matches!(ran.result, Err(RunError::Cancelled)));
    (app, ran.shown)
}

#[tokio::test]
async fn cancelling_during_a_model_call_keeps_the_message() {
    let (app, _) = cancelled_during(Reply::Hangs, |app| app.log().len() == 1).await;
    assert_eq!(app.say("again").await.text(), "hello");
    assert_snapshot!(app.log_shape(), @"
    00 user   hi
    01 user   again
    02 root   hello
    ");
}

#[tokio::test]
async fn cancelling_during_tool_calls_keeps_known_results() {
    let calls = parts(vec![call("works", json!({})), call("hangs", json!({}))]);
    let (app, shown) = cancelled_during(calls, |app| app.log().len() == 2).await;
    assert_eq!(shown.len(), 2);
    assert_eq!(app.say("again").await.text(), "hello");
    assert_snapshot!(app.log_shape(), @r#"
    00 user   hi
    01 root   → works#1() | → hangs#2()
    02 root   ← works#1 {result="worked"} | ← hangs#2 {error="interrupted, outcome unknown: the call was cut off and may or may not have taken effect"}
    03 user   again
    04 root   hello
    "#);
}

/// The number of final responses to each call, without the provisional responses of unconfirmed calls.
pub(crate) fn answers(app: &App) -> HashMap<String, usize> {
    let mut answers: HashMap<String, usize> = HashMap::new();
    for event in app.log() {
        for call in event.calls() {
            answers.insert(call.id.clone().unwrap(), 0);
        }
        for response in event.responses() {
            let waits =
                event.actions.requested_tool_confirmations.contains_key(response.id.as_ref().unwrap());
            *answers.get_mut(response.id.as_ref().unwrap()).unwrap() += usize::from(!waits);
        }
    }
    answers
}

/// Replies to the last message, independent of the history.
fn obedient(request: &LlmRequest) -> Reply {
    let last = request.contents.last().unwrap();
    if last.responses().next().is_some() || last.text().contains("another agent") {
        return text("done");
    }
    match last.text().as_str() {
        "work" => parts(vec![call("works", json!({})), call("works", json!({})), call("long", json!({}))]),
        "ask" => parts(vec![call("asks", json!({})), call("works", json!({}))]),
        "transfer" => parts(vec![call("transfer_to_agent", json!({"agent_name": "helper"}))]),
        message => text(&format!("you said {message}")),
    }
}

/// Polls a future `times` times; `true` if it completed.
pub(crate) async fn poll_times(mut future: LocalBoxFuture<'_, Result<(), RunError>>, times: usize) -> bool {
    for _ in 0..times {
        let poll = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if poll.is_ready() {
            return true;
        }
        // Lets spawned tasks run.
        for _ in 0..4 {
            tokio::task::yield_now().await;
        }
    }
    false
}

/// Drops a run after n polls, for every n, and checks the log each time.
async fn drop_everywhere(prepare: &[&str], input: impl Fn(&App) -> Input) {
    let mut cuts = 0;
    for polls in 0.. {
        let app = busy(&Fake::by_rule(obedient)).await;
        for text in prepare {
            app.say(text).await.result.unwrap();
        }
        let request = RunRequest { input: input(&app), ..RunRequest::message(key(), Content::default()) };
        let finished = poll_times(Box::pin(app.runner.run(request, &|_| {})), polls).await;
        assert_eq!(app.say("hello").await.text(), "you said hello", "{}", app.log_shape());
        for (id, count) in answers(&app) {
            let asked =
                app.log().iter().any(|event| event.actions.requested_tool_confirmations.contains_key(&id));
            assert!(
                count == 1 || (asked && count == 0),
                "{count} responses to {id} after {polls} polls:\n{}",
                app.log_shape()
            );
        }
        if finished {
            break;
        }
        cuts += 1;
    }
    assert!(cuts > 5, "only {cuts} await points");
}

#[tokio::test]
async fn a_turn_with_tools_can_be_dropped_at_any_await() {
    drop_everywhere(&[], |_| Input::Message(Content::user("work"))).await;
}

#[tokio::test]
async fn a_turn_with_a_question_can_be_dropped_at_any_await() {
    drop_everywhere(&[], |_| Input::Message(Content::user("ask"))).await;
}

#[tokio::test]
async fn a_turn_with_a_reply_can_be_dropped_at_any_await() {
    let yes = |app: &App| {
        let part = app.result_of(REQUEST_CONFIRMATION, 0, json!({"confirmed": true}));
        Input::Message(Content::new("user", vec![part]))
    };
    drop_everywhere(&["ask"], yes).await;
}

#[tokio::test]
async fn a_transfer_can_be_dropped_at_any_await() {
    drop_everywhere(&[], |_| Input::Message(Content::user("transfer"))).await;
}

#[tokio::test]
async fn settling_can_be_dropped_at_any_await() {
    drop_everywhere(&["ask"], |_| Input::Message(Content::user("work"))).await;
}
