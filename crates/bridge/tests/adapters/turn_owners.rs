//! Turns of several owners: dead ones block nobody, living ones are waited for, and what they left is answered.

use crate::common::{
    Elsewhere, Fake, OneAgent, Place, Shared, Tap, both, calls, dead_owner, enqueue, finish, key, log,
    payload, queued, root, running, runs, say, start, store_key, stub, team, until,
};
use adk::{
    agent::LlmAgent,
    error::{RunError, ServiceError},
    runner::{RunConfig, RunRequest, StreamingMode},
};
use bridge::{
    Agent, Runs,
    runs::{self as bridge_runs, RunOutcome, StartOptions},
};
use serde_json::{Map, json};
use session::{GoneOwner, RunStatus, TakeOver, TurnChange};
use std::{sync::Arc, time::Duration};
use tokio::{task::JoinHandle, time::Instant};

/// Much less than it takes to displace an owner that is alive, however slow the machine is.
async fn promptly(agent: &Agent, text: &str) -> String {
    let answer = tokio::time::timeout(Duration::from_secs(20), agent.run_and_collect(say(text)));
    answer.await.expect("the run waited for another owner").unwrap()
}

fn send(agent: &Agent, text: &str) -> JoinHandle<Result<String, RunError>> {
    let (agent, request) = (agent.clone(), say(text));
    tokio::spawn(async move { agent.run_and_collect(request).await })
}

#[tokio::test]
async fn the_run_of_a_dead_owner_is_finished_before_a_new_message() {
    for place in both() {
        let agent = start(&place.store, root(&Fake::echo())).await;
        running(&place.store, &dead_owner(&place.store), "first").await;
        assert_eq!(promptly(&agent, "second").await, "re: second", "{}", place.name);
        let expected = ["user: first", "root: re: first", "user: second", "root: re: second"];
        assert_eq!(log(&place.store).await, expected, "{}", place.name);
        assert!(runs(&place.store).await.iter().all(|run| run.status == RunStatus::Done));
    }
}

#[tokio::test]
async fn a_living_owner_is_waited_for() {
    for place in both() {
        let model = Fake::echo();
        let agent = start(&place.store, root(&model)).await;
        let elsewhere = Elsewhere::new(&place);
        let lease = running(&place.store, elsewhere.name(), "before").await;
        let sent = send(&agent, "hello");
        until(async || queued(&place.store).await.len() == 1).await;
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(model.requests().is_empty(), "{}", place.name);
        finish(&place.store, lease).await;
        assert_eq!(sent.await.unwrap().unwrap(), "re: hello");
        assert!(queued(&place.store).await.is_empty());
    }
}

#[tokio::test]
async fn messages_that_a_dead_owner_queued_are_answered_before_a_new_one() {
    for place in both() {
        let agent = start(&place.store, root(&Fake::echo())).await;
        let dead = dead_owner(&place.store);
        running(&place.store, &dead, "first").await;
        enqueue(&place.store, &dead, &payload("second").await).await;
        enqueue(&place.store, &dead, &payload("third").await).await;
        assert_eq!(promptly(&agent, "fourth").await, "re: fourth");
        let expected: Vec<String> = ["first", "second", "third", "fourth"]
            .iter()
            .flat_map(|text| [format!("user: {text}"), format!("root: re: {text}")])
            .collect();
        assert_eq!(log(&place.store).await, expected, "{}", place.name);
        assert!(runs(&place.store).await.iter().all(|run| run.status == RunStatus::Done));
    }
}

/// The tickets of two owners alternate; one of them dies while the messages of the other wait in this process.
#[tokio::test]
async fn queued_runs_that_are_taken_over_join_the_queue_by_their_tickets() {
    for place in both() {
        let (model, gate) = Fake::gated(Vec::new());
        let (turns, store) = (Runs::new(place.store.clone()), &place.store);
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
        assert_eq!(recovery.len(), 3, "{}", place.name);
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
        let said: Vec<String> = log(store).await.into_iter().step_by(2).collect();
        let expected: Vec<String> = (1..=6).map(|number| format!("user: {number}")).collect();
        assert_eq!(said, expected, "{}", place.name);
    }
}

#[tokio::test]
async fn a_queued_message_starts_with_what_settles_the_past() {
    for place in both() {
        let tap = Tap::on(&place.store);
        let store: Shared = tap.clone();
        let model = Fake::new(vec![calls("c1", "wait", json!({}))]);
        let tools = vec![stub(json!({"name": "wait", "delay_ms": 3_600_000}))];
        let agent = start(&store, LlmAgent { tools, ..root(&model) }).await;
        let cut_off = send(&agent, "wait");
        until(async || log(&store).await.len() == 2).await;
        cut_off.abort();
        until(async || runs(&store).await[0].status == RunStatus::Interrupted).await;
        enqueue(&store, &dead_owner(&store), &payload("left behind").await).await;
        tap.commits();
        promptly(&agent, "mine").await;
        let commits = tap.commits();
        let starts = commits.iter().filter(|commit| matches!(commit.turn, TurnChange::Start(_)));
        let stored: Vec<usize> = starts.map(|commit| commit.messages.len()).collect();
        assert_eq!(stored, [2, 1], "{}: the settling event is in the commit of the message", place.name);
        assert_eq!(log(&store).await.iter().filter(|line| line.contains("interrupted")).count(), 1);
    }
}

#[tokio::test]
async fn a_queued_message_is_stored_once_even_if_its_run_is_corrected() {
    for place in both() {
        let ghost = calls("c1", "transfer_to_agent", json!({"agent_name": "ghost"}));
        let agent = start(&place.store, team(&Fake::new(vec![ghost]))).await;
        enqueue(&place.store, &dead_owner(&place.store), &payload("left behind").await).await;
        promptly(&agent, "mine").await;
        let log = log(&place.store).await;
        let answers: Vec<&String> = log.iter().filter(|line| line.starts_with("root: re: ")).collect();
        assert!(answers[0].starts_with("root: re: [System: Agent \"ghost\" does not exist."), "{log:?}");
        assert_eq!(answers[1..], ["root: re: mine"], "{}: {log:?}", place.name);
    }
}

#[tokio::test]
async fn queued_messages_wait_for_a_store_that_fails() {
    for place in both() {
        let tap = Tap::on(&place.store);
        let store: Shared = tap.clone();
        let agent = start(&store, root(&Fake::echo())).await;
        let elsewhere = Elsewhere::new(&place);
        let lease = running(&store, elsewhere.name(), "before").await;
        enqueue(&store, &dead_owner(&store), &payload("left behind").await).await;
        let sent = send(&agent, "mine");
        until(async || queued(&store).await.len() == 2).await;
        let failures = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counted = Arc::clone(&failures);
        tap.fail(move |commit| {
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            !commit.messages.is_empty()
        });
        finish(&store, lease).await;
        until(async || failures.load(std::sync::atomic::Ordering::Relaxed) > 3).await;
        assert_eq!(queued(&store).await.len(), 2, "{}", place.name);
        tap.fail_nothing();
        assert_eq!(sent.await.unwrap().unwrap(), "re: mine");
        let expected =
            ["user: before", "user: left behind", "root: re: left behind", "user: mine", "root: re: mine"];
        assert_eq!(log(&store).await, expected, "{}", place.name);
    }
}

#[tokio::test]
async fn a_queued_message_that_can_never_be_answered_fails_and_does_not_block_the_queue() {
    for place in both() {
        let agent = start(&place.store, root(&Fake::echo())).await;
        let dead = dead_owner(&place.store);
        enqueue(&place.store, &dead, "not a message").await;
        // A response to a call that does not exist.
        let said = payload("left behind").await;
        let answer = r#"{"functionResponse":{"id":"c9","name":"f","response":{}}}"#;
        enqueue(&place.store, &dead, &said.replace(r#"{"text":"left behind"}"#, answer)).await;
        assert_eq!(promptly(&agent, "mine").await, "re: mine");
        assert_eq!(log(&place.store).await, ["user: mine", "root: re: mine"], "{}", place.name);
        let statuses: Vec<RunStatus> = runs(&place.store).await.iter().map(|run| run.status).collect();
        assert_eq!(statuses, [RunStatus::Failed, RunStatus::Failed, RunStatus::Done], "{}", place.name);
    }
}

#[tokio::test(start_paused = true)]
async fn an_owner_without_heartbeat_is_displaced_after_ten_seconds_and_its_messages_are_answered() {
    let place = Place::memory();
    let agent = start(&place.store, root(&Fake::echo())).await;
    let elsewhere = Elsewhere::new(&place);
    running(&place.store, elsewhere.name(), "first").await;
    enqueue(&place.store, elsewhere.name(), &payload("second").await).await;
    let began = Instant::now();
    assert_eq!(agent.run_and_collect(say("third")).await.unwrap(), "re: third");
    let waited = began.elapsed();
    assert!((Duration::from_secs(10)..Duration::from_secs(20)).contains(&waited), "{waited:?}");
    let said: Vec<String> = log(&place.store).await.into_iter().step_by(2).collect();
    assert_eq!(said, ["user: first", "user: second", "user: third"]);
}

/// A message whose turn is in its model call, with the permits that let it continue.
async fn under_way(store: &Shared) -> (JoinHandle<Result<String, RunError>>, Arc<tokio::sync::Semaphore>) {
    let (model, gate) = Fake::gated(Vec::new());
    let agent = start(store, root(&model)).await;
    let sent = send(&agent, "hello");
    until(async || model.requests().len() == 1).await;
    (sent, gate)
}

/// Makes another owner responsible for the running run.
async fn displace(store: &Shared, owner: &str) {
    let name = store.activity(&store_key()).await.unwrap().running.unwrap().owner;
    let gone = vec![GoneOwner { name, if_beats: None }];
    let change = TakeOver { gone, owner: owner.to_owned(), session: Some(store_key()) };
    assert_eq!(store.take_over(change).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_displaced_owner_stores_nothing_more() {
    for place in both() {
        let (sent, gate) = under_way(&place.store).await;
        let elsewhere = Elsewhere::new(&place);
        displace(&place.store, elsewhere.name()).await;
        gate.add_permits(1);
        let error = sent.await.unwrap().unwrap_err();
        assert!(matches!(error, RunError::Service(ServiceError::Stale(_))), "{}: {error:?}", place.name);
        assert_eq!(log(&place.store).await, ["user: hello"]);
        let run = runs(&place.store).await.remove(0);
        assert_eq!((run.status, run.owner.as_str()), (RunStatus::Running, elsewhere.name()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_displaced_owner_is_told_by_its_next_heartbeat() {
    let place = Place::memory();
    let (sent, _gate) = under_way(&place.store).await;
    displace(&place.store, "elsewhere#0").await;
    let told = tokio::time::timeout(Duration::from_secs(5), sent).await.expect("no heartbeat told it");
    let error = told.unwrap().unwrap_err();
    assert!(matches!(error, RunError::Service(ServiceError::Stale(_))), "{error:?}");
    assert_eq!(log(&place.store).await, ["user: hello"]);
}

#[tokio::test(start_paused = true)]
async fn a_process_sends_heartbeats_only_while_it_has_runs() {
    let tap = Tap::on(&Place::memory().store);
    let store: Shared = tap.clone();
    let (sent, gate) = under_way(&store).await;
    tokio::time::sleep(Duration::from_secs(301)).await;
    assert_eq!(tap.heartbeats(), 150);
    gate.add_permits(1);
    assert_eq!(sent.await.unwrap().unwrap(), "re: hello");
    tokio::time::sleep(Duration::from_secs(301)).await;
    assert_eq!(tap.heartbeats(), 150);
}

/// The reader of a run that another process continues reads on in the log.
#[tokio::test]
async fn the_reader_of_a_displaced_run_receives_the_events_of_its_successor() {
    for place in both() {
        let (model, gate) = Fake::gated(Vec::new());
        let runs = Runs::new(place.store.clone());
        let agent = start(&place.store, root(&model)).await.with_turns(runs.turns().clone());
        let mut reader = runs.start(&agent, say("hello"), StartOptions::default()).await.unwrap();
        until(async || model.requests().len() == 1).await;
        let name = place.store.activity(&store_key()).await.unwrap().running.unwrap().owner;
        let outside = place.again();
        let echo = start(&outside, root(&Fake::echo())).await;
        let owner = dead_owner(&outside);
        let gone = vec![GoneOwner { name, if_beats: None }];
        let change = TakeOver { gone, owner, session: Some(store_key()) };
        place.store.take_over(change).await.unwrap();
        // The first owner finds out when it stores its answer; the successor answers meanwhile.
        echo.run_and_collect(say("next")).await.unwrap();
        gate.add_permits(1);
        let mut said = Vec::new();
        while let Ok(entry) = reader.next().await.unwrap() {
            said.extend(entry.event.content.as_ref().map(adk::content::Content::text));
        }
        assert_eq!(said, ["re: hello"], "{}", place.name);
    }
}

/// The same for a run that this process took over itself before it was displaced.
#[tokio::test]
async fn the_reader_of_a_recovered_run_receives_the_events_of_its_next_successor() {
    for place in both() {
        let (model, gate) = Fake::gated(Vec::new());
        let runs = Runs::new(place.store.clone());
        let agent = start(&place.store, root(&model)).await.with_turns(runs.turns().clone());
        running(&place.store, &dead_owner(&place.store), "hello").await;
        let recovery = runs.claim_orphans().await.unwrap();
        let recovering = tokio::spawn({
            let (runs, source) = (runs.clone(), Arc::new(OneAgent(agent)));
            async move { runs.recover(recovery, source).await }
        });
        until(async || model.requests().len() == 1).await;
        let mut reader = runs.reader(&key(), "hello", bridge_runs::Cursor::default()).await.unwrap().unwrap();
        let outside = place.again();
        displace(&place.store, &dead_owner(&outside)).await;
        let echo = start(&outside, root(&Fake::echo())).await;
        echo.run_and_collect(say("next")).await.unwrap();
        gate.add_permits(1);
        let mut said = Vec::new();
        let end = loop {
            match reader.next().await.unwrap() {
                Ok(entry) => said.extend(entry.event.content.as_ref().map(adk::content::Content::text)),
                Err(end) => break end,
            }
        };
        recovering.abort();
        assert_eq!((said, end), (vec!["re: hello".to_owned()], RunOutcome::Done), "{}", place.name);
    }
}

/// A process that resumes a run has nothing but the store: how the run was asked to work must be there too.
#[tokio::test]
async fn a_resumed_run_keeps_the_options_that_it_was_started_with() {
    for place in both() {
        let (model, _gate) = Fake::gated(Vec::new());
        let agent = start(&place.store, root(&model)).await;
        let custom_metadata = Some(Map::from_iter([("ticket".to_owned(), json!(7))]));
        let config = RunConfig { streaming: StreamingMode::Sse, custom_metadata, ..RunConfig::default() };
        let request = RunRequest { config, ..say("hello") };
        let cut_off = tokio::spawn(async move { agent.run_and_collect(request).await });
        until(async || model.requests().len() == 1).await;
        let id = runs(&place.store).await[0].id.clone();
        let outside = place.again();
        displace(&place.store, &dead_owner(&outside)).await;

        let resumed = Runs::new(outside.clone());
        let echo = start(&outside, root(&Fake::echo())).await.with_turns(resumed.turns().clone());
        let recovery = resumed.claim_orphans().await.unwrap();
        assert_eq!(recovery.len(), 1, "{}", place.name);
        let recovering = tokio::spawn({
            let (runs, source) = (resumed.clone(), Arc::new(OneAgent(echo)));
            async move { runs.recover(recovery, source).await }
        });
        let mut reader = resumed.reader(&key(), &id, bridge_runs::Cursor::default()).await.unwrap().unwrap();
        let mut last = None;
        while let Ok(entry) = reader.next().await.unwrap() {
            last = Some(entry.event);
        }
        recovering.abort();
        cut_off.abort();
        let answer = last.expect("the run was resumed and answered");
        assert_eq!(answer.content.as_ref().map(adk::content::Content::text).as_deref(), Some("re: hello"));
        assert_eq!(answer.partial, Some(false), "{}: it is streamed", place.name);
        let metadata = answer.custom_metadata.clone().unwrap_or_default();
        assert_eq!(metadata.get("ticket"), Some(&json!(7)), "{}", place.name);
    }
}
