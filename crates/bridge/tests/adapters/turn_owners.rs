//! Turns of several owners: dead owners do not block, live owners are waited for, and orphaned messages are answered.

use crate::common::{
    Backend, Elsewhere, Fake, OneAgent, RecordingStore, Shared, backends, calls, dead_owner, enqueue, finish,
    key, log, payload, queued, root, running, runs, say, start, stub, team, until,
};
use adk::{
    agent::LlmAgent,
    error::{RunError, ServiceError},
    runner::{RunConfig, RunRequest, StreamingMode},
};
use bridge::{
    Agent, Runs,
    runs::{self as bridge_runs, ReaderItem, RunOutcome, StartOptions},
};
use serde_json::{Map, json};
use session::{GoneOwner, RunStatus, TakeOver, TurnChange};
use std::{sync::Arc, time::Duration};
use tokio::{task::JoinHandle, time::Instant};

/// Far below the time after which a live owner is displaced, even on a slow machine.
async fn promptly(agent: &Agent, text: &str) -> String {
    let answer = tokio::time::timeout(Duration::from_secs(20), agent.run_and_collect(say(text)));
    answer.await.expect("the run waited for another owner").unwrap()
}

fn send(agent: &Agent, text: &str) -> JoinHandle<Result<String, RunError>> {
    let (agent, request) = (agent.clone(), say(text));
    tokio::spawn(async move { agent.run_and_collect(request).await })
}

#[tokio::test]
async fn run_of_a_dead_owner_is_finished_before_a_new_message() {
    for backend in backends() {
        let agent = start(&backend.store, root(&Fake::echo())).await;
        running(&backend.store, &dead_owner(&backend.store), "first").await;
        assert_eq!(promptly(&agent, "second").await, "re: second", "{}", backend.name);
        let expected = ["user: first", "root: re: first", "user: second", "root: re: second"];
        assert_eq!(log(&backend.store).await, expected, "{}", backend.name);
        assert!(runs(&backend.store).await.iter().all(|run| run.status == RunStatus::Done));
    }
}

#[tokio::test]
async fn new_message_waits_for_a_live_owner() {
    for backend in backends() {
        let model = Fake::echo();
        let agent = start(&backend.store, root(&model)).await;
        let elsewhere = Elsewhere::new(&backend);
        let lease = running(&backend.store, elsewhere.name(), "before").await;
        let sent = send(&agent, "hello");
        until(async || queued(&backend.store).await.len() == 1).await;
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(model.requests().is_empty(), "{}", backend.name);
        finish(&backend.store, lease).await;
        assert_eq!(sent.await.unwrap().unwrap(), "re: hello");
        assert!(queued(&backend.store).await.is_empty());
    }
}

#[tokio::test]
async fn queued_messages_of_a_dead_owner_are_answered_before_a_new_one() {
    for backend in backends() {
        let agent = start(&backend.store, root(&Fake::echo())).await;
        let dead = dead_owner(&backend.store);
        running(&backend.store, &dead, "first").await;
        enqueue(&backend.store, &dead, &payload("second").await).await;
        enqueue(&backend.store, &dead, &payload("third").await).await;
        assert_eq!(promptly(&agent, "fourth").await, "re: fourth");
        let expected: Vec<String> = ["first", "second", "third", "fourth"]
            .iter()
            .flat_map(|text| [format!("user: {text}"), format!("root: re: {text}")])
            .collect();
        assert_eq!(log(&backend.store).await, expected, "{}", backend.name);
        assert!(runs(&backend.store).await.iter().all(|run| run.status == RunStatus::Done));
    }
}

/// The tickets of two owners alternate; one owner dies while messages of the other wait in this process.
#[tokio::test]
async fn taken_over_runs_join_the_queue_by_ticket() {
    for backend in backends() {
        let (model, gate) = Fake::gated(Vec::new());
        let (turns, store) = (Runs::new(backend.store.clone()), &backend.store);
        let agent = start(store, root(&model)).await.with_turns(turns.turns().clone());
        let dead = dead_owner(store);
        let first = send(&agent, "1");
        until(async || model.requests().len() == 1).await;
        let mut sent = vec![first];
        for number in 2..=6 {
            if number % 2 == 0 {
                enqueue(store, &dead, &payload(&number.to_string()).await).await;
            } else {
                sent.push(send(&agent, &number.to_string()));
            }
            until(async || queued(store).await.len() == number - 1).await;
        }
        let recovery = turns.claim_orphans().await.unwrap();
        assert_eq!(recovery.len(), 3, "{}", backend.name);
        let recovering = tokio::spawn({
            let (turns, source) = (turns.clone(), Arc::new(OneAgent(agent)));
            async move { turns.recover(recovery, source).await }
        });
        gate.add_permits(6);
        for answer in sent {
            answer.await.unwrap().unwrap();
        }
        until(async || runs(store).await.iter().all(|run| run.status == RunStatus::Done)).await;
        recovering.abort();
        let messages: Vec<String> = log(store).await.into_iter().step_by(2).collect();
        let expected: Vec<String> = (1..=6).map(|number| format!("user: {number}")).collect();
        assert_eq!(messages, expected, "{}", backend.name);
    }
}

#[tokio::test]
async fn start_of_a_queued_message_settles_interrupted_calls() {
    for backend in backends() {
        let recording = RecordingStore::on(&backend.store);
        let store: Shared = recording.clone();
        let model = Fake::new(vec![calls("c1", "wait", json!({}))]);
        let tools = vec![stub(json!({"name": "wait", "delay_ms": 3_600_000}))];
        let agent = start(&store, LlmAgent { tools, ..root(&model) }).await;
        let cut_off = send(&agent, "wait");
        until(async || log(&store).await.len() == 2).await;
        cut_off.abort();
        until(async || runs(&store).await[0].status == RunStatus::Interrupted).await;
        enqueue(&store, &dead_owner(&store), &payload("left behind").await).await;
        recording.commits();
        promptly(&agent, "mine").await;
        let commits = recording.commits();
        let starts = commits.iter().filter(|commit| matches!(commit.turn, TurnChange::Start(_)));
        let stored: Vec<usize> = starts.map(|commit| commit.messages.len()).collect();
        assert_eq!(stored, [2, 1], "{}: the settling event is in the commit of the message", backend.name);
        assert_eq!(log(&store).await.iter().filter(|line| line.contains("interrupted")).count(), 1);
    }
}

#[tokio::test]
async fn corrected_run_stores_its_queued_message_once() {
    for backend in backends() {
        let ghost = calls("c1", "transfer_to_agent", json!({"agent_name": "ghost"}));
        let agent = start(&backend.store, team(&Fake::new(vec![ghost]))).await;
        enqueue(&backend.store, &dead_owner(&backend.store), &payload("left behind").await).await;
        promptly(&agent, "mine").await;
        let log = log(&backend.store).await;
        let answers: Vec<&String> = log.iter().filter(|line| line.starts_with("root: re: ")).collect();
        assert!(answers[0].starts_with("root: re: [System: Agent \"ghost\" does not exist."), "{log:?}");
        assert_eq!(answers[1..], ["root: re: mine"], "{}: {log:?}", backend.name);
    }
}

#[tokio::test]
async fn queued_messages_survive_store_faults() {
    for backend in backends() {
        let recording = RecordingStore::on(&backend.store);
        let store: Shared = recording.clone();
        let agent = start(&store, root(&Fake::echo())).await;
        let elsewhere = Elsewhere::new(&backend);
        let lease = running(&store, elsewhere.name(), "before").await;
        enqueue(&store, &dead_owner(&store), &payload("left behind").await).await;
        let sent = send(&agent, "mine");
        until(async || queued(&store).await.len() == 2).await;
        let failures = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counted = Arc::clone(&failures);
        recording.fail(move |commit| {
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            !commit.messages.is_empty()
        });
        finish(&store, lease).await;
        until(async || failures.load(std::sync::atomic::Ordering::Relaxed) > 3).await;
        assert_eq!(queued(&store).await.len(), 2, "{}", backend.name);
        recording.fail_nothing();
        assert_eq!(sent.await.unwrap().unwrap(), "re: mine");
        let expected =
            ["user: before", "user: left behind", "root: re: left behind", "user: mine", "root: re: mine"];
        assert_eq!(log(&store).await, expected, "{}", backend.name);
    }
}

#[tokio::test]
async fn invalid_queued_message_fails_and_does_not_block_the_queue() {
    for backend in backends() {
        let agent = start(&backend.store, root(&Fake::echo())).await;
        let dead = dead_owner(&backend.store);
        enqueue(&backend.store, &dead, "not a message").await;
        // A response to a call that does not exist.
        let queued = payload("left behind").await;
        let answer = r#"{"functionResponse":{"id":"c9","name":"f","response":{}}}"#;
        enqueue(&backend.store, &dead, &queued.replace(r#"{"text":"left behind"}"#, answer)).await;
        assert_eq!(promptly(&agent, "mine").await, "re: mine");
        assert_eq!(log(&backend.store).await, ["user: mine", "root: re: mine"], "{}", backend.name);
        let statuses: Vec<RunStatus> = runs(&backend.store).await.iter().map(|run| run.status).collect();
        assert_eq!(statuses, [RunStatus::Failed, RunStatus::Failed, RunStatus::Done], "{}", backend.name);
    }
}

#[tokio::test(start_paused = true)]
async fn owner_without_heartbeat_is_displaced_after_ten_seconds() {
    let backend = Backend::memory();
    let agent = start(&backend.store, root(&Fake::echo())).await;
    let elsewhere = Elsewhere::new(&backend);
    running(&backend.store, elsewhere.name(), "first").await;
    enqueue(&backend.store, elsewhere.name(), &payload("second").await).await;
    let began = Instant::now();
    assert_eq!(agent.run_and_collect(say("third")).await.unwrap(), "re: third");
    let waited = began.elapsed();
    assert!((Duration::from_secs(10)..Duration::from_secs(20)).contains(&waited), "{waited:?}");
    let messages: Vec<String> = log(&backend.store).await.into_iter().step_by(2).collect();
    assert_eq!(messages, ["user: first", "user: second", "user: third"]);
}

/// A message whose turn is in its model call, and the permits that let it continue.
async fn running_turn(store: &Shared) -> (JoinHandle<Result<String, RunError>>, Arc<tokio::sync::Semaphore>) {
    let (model, gate) = Fake::gated(Vec::new());
    let agent = start(store, root(&model)).await;
    let sent = send(&agent, "hello");
    until(async || model.requests().len() == 1).await;
    (sent, gate)
}

/// Makes another owner responsible for the running run.
async fn displace(store: &Shared, owner: &str) {
    let name = store.activity(&key()).await.unwrap().running.unwrap().owner;
    let gone = vec![GoneOwner { name, if_beats: None }];
    let change = TakeOver { gone, owner: owner.to_owned(), session: Some(key()) };
    assert_eq!(store.take_over(change).await.unwrap().len(), 1);
}

#[tokio::test]
async fn displaced_owner_is_fenced() {
    for backend in backends() {
        let (sent, gate) = running_turn(&backend.store).await;
        let elsewhere = Elsewhere::new(&backend);
        displace(&backend.store, elsewhere.name()).await;
        gate.add_permits(1);
        let error = sent.await.unwrap().unwrap_err();
        assert!(matches!(error, RunError::Service(ServiceError::Stale(_))), "{}: {error:?}", backend.name);
        assert_eq!(log(&backend.store).await, ["user: hello"]);
        let run = runs(&backend.store).await.remove(0);
        assert_eq!((run.status, run.owner.as_str()), (RunStatus::Running, elsewhere.name()));
    }
}

#[tokio::test(start_paused = true)]
async fn next_heartbeat_cancels_a_displaced_turn() {
    let backend = Backend::memory();
    let (sent, _gate) = running_turn(&backend.store).await;
    displace(&backend.store, "elsewhere#0").await;
    let result = tokio::time::timeout(Duration::from_secs(5), sent).await.expect("no heartbeat cancelled it");
    let error = result.unwrap().unwrap_err();
    assert!(matches!(error, RunError::Service(ServiceError::Stale(_))), "{error:?}");
    assert_eq!(log(&backend.store).await, ["user: hello"]);
}

#[tokio::test(start_paused = true)]
async fn heartbeats_are_sent_only_while_there_are_runs() {
    let recording = RecordingStore::on(&Backend::memory().store);
    let store: Shared = recording.clone();
    let (sent, gate) = running_turn(&store).await;
    tokio::time::sleep(Duration::from_secs(301)).await;
    assert_eq!(recording.heartbeats(), 150);
    gate.add_permits(1);
    assert_eq!(sent.await.unwrap().unwrap(), "re: hello");
    tokio::time::sleep(Duration::from_secs(301)).await;
    assert_eq!(recording.heartbeats(), 150);
}

/// The reader of a run that another process continues follows the log.
#[tokio::test]
async fn reader_of_a_displaced_run_follows_its_successor() {
    for backend in backends() {
        let (model, gate) = Fake::gated(Vec::new());
        let runs = Runs::new(backend.store.clone());
        let agent = start(&backend.store, root(&model)).await.with_turns(runs.turns().clone());
        let mut reader = runs.start(&agent, say("hello"), StartOptions::default()).await.unwrap();
        until(async || model.requests().len() == 1).await;
        let name = backend.store.activity(&key()).await.unwrap().running.unwrap().owner;
        let outside = backend.again();
        let echo = start(&outside, root(&Fake::echo())).await;
        let owner = dead_owner(&outside);
        let gone = vec![GoneOwner { name, if_beats: None }];
        let change = TakeOver { gone, owner, session: Some(key()) };
        backend.store.take_over(change).await.unwrap();
        // The first owner notices when it commits its answer; the successor answers in the meantime.
        echo.run_and_collect(say("next")).await.unwrap();
        gate.add_permits(1);
        let mut texts = Vec::new();
        while let ReaderItem::Entry(entry) = reader.next().await.unwrap() {
            texts.extend(entry.event.content.as_ref().map(adk::content::Content::text));
        }
        assert_eq!(texts, ["re: hello"], "{}", backend.name);
    }
}

/// As above, for a run that this process took over before it was displaced.
#[tokio::test]
async fn reader_of_a_recovered_run_follows_its_next_successor() {
    for backend in backends() {
        let (model, gate) = Fake::gated(Vec::new());
        let runs = Runs::new(backend.store.clone());
        let agent = start(&backend.store, root(&model)).await.with_turns(runs.turns().clone());
        running(&backend.store, &dead_owner(&backend.store), "hello").await;
        let recovery = runs.claim_orphans().await.unwrap();
        let recovering = tokio::spawn({
            let (runs, source) = (runs.clone(), Arc::new(OneAgent(agent)));
            async move { runs.recover(recovery, source).await }
        });
        until(async || model.requests().len() == 1).await;
        let mut reader = runs.reader(&key(), "hello", bridge_runs::Cursor::default()).await.unwrap().unwrap();
        let outside = backend.again();
        displace(&backend.store, &dead_owner(&outside)).await;
        let echo = start(&outside, root(&Fake::echo())).await;
        echo.run_and_collect(say("next")).await.unwrap();
        gate.add_permits(1);
        let mut texts = Vec::new();
        let end = loop {
            match reader.next().await.unwrap() {
                ReaderItem::Entry(entry) => {
                    texts.extend(entry.event.content.as_ref().map(adk::content::Content::text));
                }
                ReaderItem::End(end) => break end,
            }
        };
        recovering.abort();
        assert_eq!((texts, end), (vec!["re: hello".to_owned()], RunOutcome::Done), "{}", backend.name);
    }
}

/// A process that resumes a run has only the store: the run's options must be in it.
#[tokio::test]
async fn resumed_run_keeps_its_options() {
    for backend in backends() {
        let (model, _gate) = Fake::gated(Vec::new());
        let agent = start(&backend.store, root(&model)).await;
        let custom_metadata = Some(Map::from_iter([("ticket".to_owned(), json!(7))]));
        let config = RunConfig { streaming: StreamingMode::Sse, custom_metadata, ..RunConfig::default() };
        let request = RunRequest { config, ..say("hello") };
        let cut_off = tokio::spawn(async move { agent.run_and_collect(request).await });
        until(async || model.requests().len() == 1).await;
        let id = runs(&backend.store).await[0].id.clone();
        let outside = backend.again();
        displace(&backend.store, &dead_owner(&outside)).await;

        let resumed = Runs::new(outside.clone());
        let echo = start(&outside, root(&Fake::echo())).await.with_turns(resumed.turns().clone());
        let recovery = resumed.claim_orphans().await.unwrap();
        assert_eq!(recovery.len(), 1, "{}", backend.name);
        let recovering = tokio::spawn({
            let (runs, source) = (resumed.clone(), Arc::new(OneAgent(echo)));
            async move { runs.recover(recovery, source).await }
        });
        let mut reader = resumed.reader(&key(), &id, bridge_runs::Cursor::default()).await.unwrap().unwrap();
        let mut last = None;
        while let ReaderItem::Entry(entry) = reader.next().await.unwrap() {
            last = Some(entry.event);
        }
        recovering.abort();
        cut_off.abort();
        let answer = last.expect("the run was resumed and answered");
        assert_eq!(answer.content.as_ref().map(adk::content::Content::text).as_deref(), Some("re: hello"));
        assert_eq!(answer.partial, Some(false), "{}: it is streamed", backend.name);
        let metadata = answer.custom_metadata.clone().unwrap_or_default();
        assert_eq!(metadata.get("ticket"), Some(&json!(7)), "{}", backend.name);
    }
}
