//! One turn at a time in each session: in order, none lost, none interleaved.

use crate::common::{
    Backend, Fake, RecordingStore, Shared, backends, calls, key, log, queued, root, runs, say, start, stub,
    until,
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
async fn messages_are_answered_one_by_one_in_order_of_arrival() {
    for backend in backends() {
        let (model, gate) = Fake::gated(Vec::new());
        let agent = start(&backend.store, root(&model)).await;
        let mut sent = Vec::new();
        for number in 0..8 {
            sent.push(send(&agent, say(&format!("message {number}"))));
            // The first is running, the others are queued.
            until(async || model.requests().len() + queued(&backend.store).await.len() == number + 1).await;
        }
        assert_eq!(model.requests().len(), 1, "{}", backend.name);
        gate.add_permits(8);
        let mut expected = Vec::new();
        for (number, answer) in join_all(sent).await.into_iter().enumerate() {
            assert_eq!(answer.unwrap().unwrap(), format!("re: message {number}"));
            expected.push(format!("user: message {number}"));
            expected.push(format!("root: re: message {number}"));
        }
        assert_eq!(log(&backend.store).await, expected, "{}", backend.name);
        assert!(queued(&backend.store).await.is_empty());
    }
}

/// An agent that is blocked when it loads the session.
async fn blocked_on_load(backend: &Backend) -> (Arc<RecordingStore>, Agent) {
    let model = Fake::echo();
    start(&backend.store, root(&model)).await;
    let recording = RecordingStore::on(&backend.store);
    recording.hold_loads(true);
    let agent = Agent::new(recording.clone(), root(&model), Budget::default()).unwrap();
    (recording, agent)
}

async fn yield_to_other_tasks() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn message_does_not_overtake_an_earlier_one_that_is_loading_the_session() {
    for backend in backends() {
        let (recording, agent) = blocked_on_load(&backend).await;
        let mut sent = Vec::new();
        for text in ["one", "two", "three"] {
            sent.push(send(&agent, say(text)));
            until(async || recording.loads() > 0 || sent.len() > 1).await;
            yield_to_other_tasks().await;
        }
        recording.hold_loads(false);
        for (answer, expected) in join_all(sent).await.into_iter().zip(["re: one", "re: two", "re: three"]) {
            assert_eq!(answer.unwrap().unwrap(), expected, "{}", backend.name);
        }
        let messages: Vec<String> = log(&backend.store).await.into_iter().step_by(2).collect();
        assert_eq!(messages, ["user: one", "user: two", "user: three"], "{}", backend.name);
        assert!(queued(&backend.store).await.is_empty());
    }
}

#[tokio::test]
async fn dropped_arrival_admits_the_next_message() {
    for backend in backends() {
        let (recording, agent) = blocked_on_load(&backend).await;
        let reads = send(&agent, say("reads"));
        until(async || recording.loads() > 0).await;
        let dropped = send(&agent, say("dropped"));
        let cancel = CancellationToken::new();
        let cancelled = send(&agent, RunRequest { cancel: cancel.clone(), ..say("cancelled") });
        let stays = send(&agent, say("stays"));
        yield_to_other_tasks().await;
        dropped.abort();
        cancel.cancel();
        assert!(matches!(cancelled.await.unwrap(), Err(RunError::Cancelled)), "{}", backend.name);
        reads.abort();
        recording.hold_loads(false);
        assert_eq!(stays.await.unwrap().unwrap(), "re: stays", "{}", backend.name);
        assert_eq!(log(&backend.store).await, ["user: stays", "root: re: stays"], "{}", backend.name);
        assert!(queued(&backend.store).await.is_empty());
    }
}

#[tokio::test]
async fn failed_arrival_admits_the_next_message() {
    for backend in backends() {
        let recording = RecordingStore::on(&backend.store);
        let agent = start(&(recording.clone() as Shared), root(&Fake::echo())).await;
        recording.fail(|commit| commit.messages.iter().any(|message| message.content == "one"));
        recording.hold_loads(true);
        let first = send(&agent, say("one"));
        let second = send(&agent, say("two"));
        yield_to_other_tasks().await;
        recording.hold_loads(false);
        assert!(first.await.unwrap().is_err(), "{}", backend.name);
        assert_eq!(second.await.unwrap().unwrap(), "re: two", "{}", backend.name);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_messages_are_neither_lost_nor_interleaved() {
    for backend in backends() {
        let tools = || vec![stub(json!({"name": "clock", "response": {"time": "noon"}}))];
        let model = Fake::new((0..8).map(|n| calls(&format!("c{n}"), "clock", json!({}))).collect());
        // Two processes on one store, four messages each.
        let here = start(&backend.store, LlmAgent { tools: tools(), ..root(&model) }).await;
        let there = start(&backend.again(), LlmAgent { tools: tools(), ..root(&model) }).await;
        let sent =
            (0..8).map(|n| send(if n % 2 == 0 { &here } else { &there }, say(&format!("message {n}"))));
        for answer in join_all(sent.collect::<Vec<_>>()).await {
            answer.unwrap().unwrap();
        }
        let log = log(&backend.store).await;
        let messages: Vec<&String> = log.iter().filter(|line| line.starts_with("user: ")).collect();
        assert_eq!(messages.len(), 8, "{}: {log:?}", backend.name);
        for turn in log.split(|line| line.starts_with("user: ")).filter(|turn| !turn.is_empty()) {
            // A turn lies between two messages, and the calls of a turn have their results in it.
            assert!(turn.last().unwrap().starts_with("root: re: "), "{}: {log:?}", backend.name);
            let count = |mark: &str| turn.iter().filter(|line| line.contains(mark)).count();
            assert_eq!(count("→clock"), count("←clock"), "{}: {log:?}", backend.name);
        }
        assert!(runs(&backend.store).await.iter().all(|run| run.status == RunStatus::Done));
        assert!(queued(&backend.store).await.is_empty());
    }
}

#[tokio::test]
async fn turns_of_different_sessions_run_concurrently() {
    for backend in backends() {
        let (model, gate) = Fake::gated(Vec::new());
        let agent = start(&backend.store, root(&model)).await;
        let other = crate::common::session_key("s2");
        agent.sessions().get_or_create(&other).await.unwrap();
        let first = send(&agent, say("one"));
        let second = send(&agent, RunRequest { key: other, ..say("two") });
        until(async || model.requests().len() == 2).await;
        gate.add_permits(2);
        assert_eq!(first.await.unwrap().unwrap(), "re: one", "{}", backend.name);
        assert_eq!(second.await.unwrap().unwrap(), "re: two");
    }
}

#[tokio::test]
async fn queued_message_is_durable() {
    for backend in backends() {
        let (model, gate) = Fake::gated(Vec::new());
        let agent = start(&backend.store, root(&model)).await;
        let first = send(&agent, say("one"));
        until(async || model.requests().len() == 1).await;
        let second = send(&agent, say("two"));
        // As another process sees it.
        let outside = backend.again();
        until(async || queued(&outside).await.len() == 1).await;
        let id = queued(&outside).await.remove(0).id;
        let payload = outside.payload(&key(), &id).await.unwrap().unwrap();
        assert!(payload.contains("two"), "{}", backend.name);
        assert_eq!(log(&outside).await, ["user: one"]);
        gate.add_permits(2);
        first.await.unwrap().unwrap();
        second.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn queued_message_survives_an_overloaded_store() {
    for backend in backends() {
        let recording = RecordingStore::on(&backend.store);
        let (model, gate) = Fake::gated(Vec::new());
        let agent = start(&(recording.clone() as Shared), root(&model)).await;
        let first = send(&agent, say("one"));
        until(async || model.requests().len() == 1).await;
        let second = send(&agent, say("two"));
        until(async || queued(&backend.store).await.len() == 1).await;
        recording.be_busy(3);
        until(async || !recording.is_busy()).await;
        gate.add_permits(2);
        first.await.unwrap().unwrap();
        assert_eq!(second.await.unwrap().unwrap(), "re: two", "{}", backend.name);
    }
}

#[tokio::test]
async fn cancelled_queued_message_is_withdrawn() {
    for backend in backends() {
        let (model, gate) = Fake::gated(Vec::new());
        let agent = start(&backend.store, root(&model)).await;
        let first = send(&agent, say("one"));
        until(async || model.requests().len() == 1).await;
        let cancel = CancellationToken::new();
        let second = send(&agent, RunRequest { cancel: cancel.clone(), ..say("two") });
        until(async || queued(&backend.store).await.len() == 1).await;
        let third = send(&agent, say("three"));
        until(async || queued(&backend.store).await.len() == 2).await;
        cancel.cancel();
        assert!(matches!(second.await.unwrap(), Err(RunError::Cancelled)), "{}", backend.name);
        assert_eq!(queued(&backend.store).await.len(), 1);
        gate.add_permits(2);
        first.await.unwrap().unwrap();
        assert_eq!(third.await.unwrap().unwrap(), "re: three");
        assert_eq!(
            log(&backend.store).await,
            ["user: one", "root: re: one", "user: three", "root: re: three"]
        );
    }
}

#[tokio::test]
async fn dropped_queued_message_does_not_block_the_queue() {
    for backend in backends() {
        let (model, gate) = Fake::gated(Vec::new());
        let agent = start(&backend.store, root(&model)).await;
        let first = send(&agent, say("one"));
        until(async || model.requests().len() == 1).await;
        let second = send(&agent, say("two"));
        until(async || queued(&backend.store).await.len() == 1).await;
        second.abort();
        until(async || queued(&backend.store).await.is_empty()).await;
        let third = send(&agent, say("three"));
        gate.add_permits(2);
        first.await.unwrap().unwrap();
        assert_eq!(third.await.unwrap().unwrap(), "re: three", "{}", backend.name);
        assert!(!log(&backend.store).await.contains(&"user: two".to_owned()));
    }
}

#[tokio::test]
async fn message_cancelled_before_arrival_stores_nothing() {
    for backend in backends() {
        let agent = start(&backend.store, root(&Fake::echo())).await;
        let cancel = CancellationToken::new();
        cancel.cancel();
        let refused = agent.run_and_collect(RunRequest { cancel, ..say("one") }).await;
        assert!(matches!(refused, Err(RunError::Cancelled)), "{}", backend.name);
        assert!(log(&backend.store).await.is_empty());
        assert!(runs(&backend.store).await.is_empty());
    }
}

#[tokio::test]
async fn message_to_an_unknown_session_is_not_found() {
    for backend in backends() {
        let agent = start(&backend.store, root(&Fake::echo())).await;
        let missing = crate::common::session_key("missing");
        let refused = agent.run_and_collect(RunRequest { key: missing.clone(), ..say("one") }).await;
        assert!(matches!(refused, Err(RunError::SessionNotFound(key)) if key == missing), "{}", backend.name);
        assert_ne!(missing, key());
    }
}
