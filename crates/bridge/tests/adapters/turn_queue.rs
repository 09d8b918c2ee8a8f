//! One turn at a time for each session: in order, none lost, none interleaved.

use crate::common::{
    Fake, Place, Shared, Tap, both, calls, key, log, queued, root, runs, say, start, store_key, stub, until,
};
use adk::{agent::LlmAgent, error::RunError, runner::RunRequest};
use bridge::{Agent, Budget};
use futures::future::join_all;
use serde_json::json;
use session::RunStatus;
use std::sync::Arc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

fn send(agent: &Agent, request: RunRequest) -> JoinHandle<Result<String, RunError>> {
    let agent = agent.clone();
    tokio::spawn(async move { agent.run_and_collect(request).await })
}

#[tokio::test]
async fn messages_are_answered_one_by_one_in_the_order_in_which_they_came() {
    for place in both() {
        let (model, gate) = Fake::gated(Vec::new());
        let agent = start(&place.store, root(&model)).await;
        let mut sent = Vec::new();
        for number in 0..8 {
            sent.push(send(&agent, say(&format!("message {number}"))));
            // The first is under way, the others have a ticket each.
            until(async || model.requests().len() + queued(&place.store).await.len() == number + 1).await;
        }
        assert_eq!(model.requests().len(), 1, "{}", place.name);
        gate.add_permits(8);
        let mut expected = Vec::new();
        for (number, answer) in join_all(sent).await.into_iter().enumerate() {
            assert_eq!(answer.unwrap().unwrap(), format!("re: message {number}"));
            expected.push(format!("user: message {number}"));
            expected.push(format!("root: re: message {number}"));
        }
        assert_eq!(log(&place.store).await, expected, "{}", place.name);
        assert!(queued(&place.store).await.is_empty());
    }
}

/// An agent that is held up where it reads the session.
async fn held_up(place: &Place) -> (Arc<Tap>, Agent) {
    let model = Fake::echo();
    start(&place.store, root(&model)).await;
    let tap = Tap::on(&place.store);
    tap.hold_loads(true);
    let agent = Agent::new(tap.clone(), root(&model), Budget::default()).unwrap();
    (tap, agent)
}

async fn let_others_work() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_message_does_not_overtake_one_that_is_still_reading_the_session() {
    for place in both() {
        let (tap, agent) = held_up(&place).await;
        let mut sent = Vec::new();
        for text in ["one", "two", "three"] {
            sent.push(send(&agent, say(text)));
            until(async || tap.loads() > 0 || sent.len() > 1).await;
            let_others_work().await;
        }
        tap.hold_loads(false);
        for (answer, expected) in join_all(sent).await.into_iter().zip(["re: one", "re: two", "re: three"]) {
            assert_eq!(answer.unwrap().unwrap(), expected, "{}", place.name);
        }
        let said: Vec<String> = log(&place.store).await.into_iter().step_by(2).collect();
        assert_eq!(said, ["user: one", "user: two", "user: three"], "{}", place.name);
        assert!(queued(&place.store).await.is_empty());
    }
}

#[tokio::test]
async fn whoever_leaves_before_the_message_is_stored_lets_the_next_one_in() {
    for place in both() {
        let (tap, agent) = held_up(&place).await;
        let reads = send(&agent, say("reads"));
        until(async || tap.loads() > 0).await;
        let dropped = send(&agent, say("dropped"));
        let cancel = CancellationToken::new();
        let cancelled = send(&agent, RunRequest { cancel: cancel.clone(), ..say("cancelled") });
        let stays = send(&agent, say("stays"));
        let_others_work().await;
        dropped.abort();
        cancel.cancel();
        assert!(matches!(cancelled.await.unwrap(), Err(RunError::Cancelled)), "{}", place.name);
        reads.abort();
        tap.hold_loads(false);
        assert_eq!(stays.await.unwrap().unwrap(), "re: stays", "{}", place.name);
        assert_eq!(log(&place.store).await, ["user: stays", "root: re: stays"], "{}", place.name);
        assert!(queued(&place.store).await.is_empty());
    }
}

#[tokio::test]
async fn a_message_that_fails_before_it_is_stored_lets_the_next_one_in() {
    for place in both() {
        let tap = Tap::on(&place.store);
        let agent = start(&(tap.clone() as Shared), root(&Fake::echo())).await;
        tap.fail(|commit| commit.messages.iter().any(|message| message.content == "one"));
        tap.hold_loads(true);
        let first = send(&agent, say("one"));
        let second = send(&agent, say("two"));
        let_others_work().await;
        tap.hold_loads(false);
        assert!(first.await.unwrap().is_err(), "{}", place.name);
        assert_eq!(second.await.unwrap().unwrap(), "re: two", "{}", place.name);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_that_come_at_once_are_neither_lost_nor_mixed() {
    for place in both() {
        let tools = || vec![stub(json!({"name": "clock", "response": {"time": "noon"}}))];
        let model = Fake::new((0..8).map(|n| calls(&format!("c{n}"), "clock", json!({}))).collect());
        // Two processes on one store, four messages each.
        let here = start(&place.store, LlmAgent { tools: tools(), ..root(&model) }).await;
        let there = start(&place.again(), LlmAgent { tools: tools(), ..root(&model) }).await;
        let sent =
            (0..8).map(|n| send(if n % 2 == 0 { &here } else { &there }, say(&format!("message {n}"))));
        for answer in join_all(sent.collect::<Vec<_>>()).await {
            answer.unwrap().unwrap();
        }
        let log = log(&place.store).await;
        let said: Vec<&String> = log.iter().filter(|line| line.starts_with("user: ")).collect();
        assert_eq!(said.len(), 8, "{}: {log:?}", place.name);
        for turn in log.split(|line| line.starts_with("user: ")).filter(|turn| !turn.is_empty()) {
            // A turn is what stands between two messages, and its calls are answered in it.
            assert!(turn.last().unwrap().starts_with("root: re: "), "{}: {log:?}", place.name);
            let count = |mark: &str| turn.iter().filter(|line| line.contains(mark)).count();
            assert_eq!(count("→clock"), count("←clock"), "{}: {log:?}", place.name);
        }
        assert!(runs(&place.store).await.iter().all(|run| run.status == RunStatus::Done));
        assert!(queued(&place.store).await.is_empty());
    }
}

#[tokio::test]
async fn sessions_do_not_wait_for_each_other() {
    for place in both() {
        let (model, gate) = Fake::gated(Vec::new());
        let agent = start(&place.store, root(&model)).await;
        let other = crate::common::session_key("s2");
        agent.sessions().get_or_create(&other).await.unwrap();
        let first = send(&agent, say("one"));
        let second = send(&agent, RunRequest { key: other, ..say("two") });
        until(async || model.requests().len() == 2).await;
        gate.add_permits(2);
        assert_eq!(first.await.unwrap().unwrap(), "re: one", "{}", place.name);
        assert_eq!(second.await.unwrap().unwrap(), "re: two");
    }
}

#[tokio::test]
async fn a_waiting_message_is_durable() {
    for place in both() {
        let (model, gate) = Fake::gated(Vec::new());
        let agent = start(&place.store, root(&model)).await;
        let first = send(&agent, say("one"));
        until(async || model.requests().len() == 1).await;
        let second = send(&agent, say("two"));
        // As another process sees it.
        let outside = place.again();
        until(async || queued(&outside).await.len() == 1).await;
        let id = queued(&outside).await.remove(0).id;
        let payload = outside.payload(&store_key(), &id).await.unwrap().unwrap();
        assert!(payload.contains("two"), "{}", place.name);
        assert_eq!(log(&outside).await, ["user: one"]);
        gate.add_permits(2);
        first.await.unwrap().unwrap();
        second.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_waiting_message_outlasts_a_store_that_is_too_busy_for_a_while() {
    for place in both() {
        let tap = Tap::on(&place.store);
        let (model, gate) = Fake::gated(Vec::new());
        let agent = start(&(tap.clone() as Shared), root(&model)).await;
        let first = send(&agent, say("one"));
        until(async || model.requests().len() == 1).await;
        let second = send(&agent, say("two"));
        until(async || queued(&place.store).await.len() == 1).await;
        tap.be_busy(3);
        until(async || !tap.is_busy()).await;
        gate.add_permits(2);
        first.await.unwrap().unwrap();
        assert_eq!(second.await.unwrap().unwrap(), "re: two", "{}", place.name);
    }
}

#[tokio::test]
async fn a_message_that_is_cancelled_while_it_waits_is_withdrawn() {
    for place in both() {
        let (model, gate) = Fake::gated(Vec::new());
        let agent = start(&place.store, root(&model)).await;
        let first = send(&agent, say("one"));
        until(async || model.requests().len() == 1).await;
        let cancel = CancellationToken::new();
        let second = send(&agent, RunRequest { cancel: cancel.clone(), ..say("two") });
        until(async || queued(&place.store).await.len() == 1).await;
        let third = send(&agent, say("three"));
        until(async || queued(&place.store).await.len() == 2).await;
        cancel.cancel();
        assert!(matches!(second.await.unwrap(), Err(RunError::Cancelled)), "{}", place.name);
        assert_eq!(queued(&place.store).await.len(), 1);
        gate.add_permits(2);
        first.await.unwrap().unwrap();
        assert_eq!(third.await.unwrap().unwrap(), "re: three");
        assert_eq!(log(&place.store).await, ["user: one", "root: re: one", "user: three", "root: re: three"]);
    }
}

#[tokio::test]
async fn a_message_that_is_dropped_while_it_waits_holds_nobody_up() {
    for place in both() {
        let (model, gate) = Fake::gated(Vec::new());
        let agent = start(&place.store, root(&model)).await;
        let first = send(&agent, say("one"));
        until(async || model.requests().len() == 1).await;
        let second = send(&agent, say("two"));
        until(async || queued(&place.store).await.len() == 1).await;
        second.abort();
        until(async || queued(&place.store).await.is_empty()).await;
        let third = send(&agent, say("three"));
        gate.add_permits(2);
        first.await.unwrap().unwrap();
        assert_eq!(third.await.unwrap().unwrap(), "re: three", "{}", place.name);
        assert!(!log(&place.store).await.contains(&"user: two".to_owned()));
    }
}

#[tokio::test]
async fn a_message_that_was_cancelled_before_it_came_leaves_no_trace() {
    for place in both() {
        let agent = start(&place.store, root(&Fake::echo())).await;
        let cancel = CancellationToken::new();
        cancel.cancel();
        let refused = agent.run_and_collect(RunRequest { cancel, ..say("one") }).await;
        assert!(matches!(refused, Err(RunError::Cancelled)), "{}", place.name);
        assert!(log(&place.store).await.is_empty());
        assert!(runs(&place.store).await.is_empty());
    }
}

#[tokio::test]
async fn a_message_to_no_session_says_so() {
    for place in both() {
        let agent = start(&place.store, root(&Fake::echo())).await;
        let missing = crate::common::session_key("missing");
        let refused = agent.run_and_collect(RunRequest { key: missing.clone(), ..say("one") }).await;
        assert!(matches!(refused, Err(RunError::SessionNotFound(key)) if key == missing), "{}", place.name);
        assert_ne!(missing, key());
    }
}
