//! Turns of several owners: dead ones hold nobody up, living ones are waited for, and what they left behind is answered.

use crate::common::{
    ELSEWHERE, Fake, Place, Shared, Tap, both, calls, dead_owner, lease_of, log, payload, root, runs, say,
    start, store_key, stub, team, tickets, until,
};
use adk::{
    agent::LlmAgent,
    error::{RunError, ServiceError},
};
use bridge::Agent;
use serde_json::json;
use session::{NewRun, NewTicket, RunStatus};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

async fn push(store: &Shared, owner: &str, payload: &str) {
    let ticket = NewTicket { id: payload.to_owned(), owner: owner.to_owned(), payload: payload.to_owned() };
    store.push(&store_key(), ticket).await.unwrap();
}

/// Much less than a lease lasts, however slow the machine is.
async fn promptly(agent: &Agent, text: &str) -> String {
    let answer = tokio::time::timeout(Duration::from_secs(20), agent.run_and_collect(say(text)));
    answer.await.expect("somebody was waited for").unwrap()
}

#[tokio::test]
async fn the_lease_of_a_dead_owner_delays_nobody_and_its_run_is_interrupted() {
    for place in both() {
        let agent = start(&place.store, root(&Fake::echo())).await;
        let dead = dead_owner().await;
        lease_of(&place.store, &dead).await;
        let run = NewRun {
            id: "r1".into(),
            key: store_key(),
            status: RunStatus::Running,
            idempotency_key: None,
            owner: dead,
        };
        place.store.start(run).await.unwrap();
        assert_eq!(promptly(&agent, "hello").await, "re: hello", "{}", place.name);
        let runs = runs(&place.store).await;
        let statuses: Vec<RunStatus> = runs.iter().map(|run| run.status).collect();
        assert_eq!(statuses, [RunStatus::Interrupted, RunStatus::Done]);
    }
}

#[tokio::test]
async fn a_living_owner_is_waited_for() {
    for place in both() {
        let model = Fake::echo();
        let agent = start(&place.store, root(&model)).await;
        let lease = lease_of(&place.store, ELSEWHERE).await;
        let sent = tokio::spawn({
            let agent = agent.clone();
            async move { agent.run_and_collect(say("hello")).await }
        });
        until(async || tickets(&place.store).await.len() == 1).await;
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(model.requests().is_empty(), "{}", place.name);
        place.store.release(&lease).await.unwrap();
        assert_eq!(sent.await.unwrap().unwrap(), "re: hello");
        assert!(tickets(&place.store).await.is_empty());
    }
}

#[tokio::test]
async fn what_a_dead_owner_left_behind_is_answered_before_ones_own_message() {
    for place in both() {
        let agent = start(&place.store, root(&Fake::echo())).await;
        let dead = dead_owner().await;
        push(&place.store, &dead, &payload("first").await).await;
        push(&place.store, &dead, &payload("second").await).await;
        assert_eq!(promptly(&agent, "third").await, "re: third");
        let expected = [
            "user: first",
            "root: re: first",
            "user: second",
            "root: re: second",
            "user: third",
            "root: re: third",
        ];
        assert_eq!(log(&place.store).await, expected, "{}", place.name);
        assert!(tickets(&place.store).await.is_empty());
        assert!(runs(&place.store).await.iter().all(|run| run.status == RunStatus::Done));
    }
}

#[tokio::test]
async fn a_ticket_is_taken_by_its_message_and_not_by_what_is_settled_before_it() {
    for place in both() {
        let tap = Tap::on(&place.store);
        let store: Shared = tap.clone();
        let model = Fake::new(vec![calls("c1", "wait", json!({}))]);
        let tools = vec![stub(json!({"name": "wait", "delay_ms": 3_600_000}))];
        let agent = start(&store, LlmAgent { tools, ..root(&model) }).await;
        let cut_off = tokio::spawn({
            let agent = agent.clone();
            async move { agent.run_and_collect(say("wait")).await }
        });
        until(async || log(&store).await.len() == 2).await;
        cut_off.abort();
        push(&store, &dead_owner().await, &payload("left behind").await).await;
        tap.steps();
        promptly(&agent, "mine").await;
        let steps = tap.steps();
        let takers: Vec<_> = steps.iter().filter(|step| step.takes.is_some()).collect();
        assert_eq!(takers.len(), 2, "{}", place.name);
        for (taker, text) in takers.iter().zip(["left behind", "mine"]) {
            assert_eq!(taker.message.as_ref().unwrap().content, text);
        }
        assert_eq!(log(&store).await.iter().filter(|line| line.contains("interrupted")).count(), 1);
    }
}

#[tokio::test]
async fn a_ticket_is_taken_once_even_if_the_run_is_corrected() {
    for place in both() {
        let ghost = calls("c1", "transfer_to_agent", json!({"agent_name": "ghost"}));
        let agent = start(&place.store, team(&Fake::new(vec![ghost]))).await;
        push(&place.store, &dead_owner().await, &payload("left behind").await).await;
        promptly(&agent, "mine").await;
        let log = log(&place.store).await;
        let answers: Vec<&String> = log.iter().filter(|line| line.starts_with("root: re: ")).collect();
        assert!(answers[0].starts_with("root: re: [System: Agent \"ghost\" does not exist."), "{log:?}");
        assert_eq!(answers[1..], ["root: re: mine"], "{}: {log:?}", place.name);
    }
}

#[tokio::test]
async fn a_message_that_cannot_be_stored_now_is_not_forgotten() {
    for place in both() {
        let tap = Tap::on(&place.store);
        let store: Shared = tap.clone();
        let agent = start(&store, root(&Fake::echo())).await;
        push(&store, &dead_owner().await, &payload("left behind").await).await;
        tap.refuse(|step| step.message.is_some());
        let failed = agent.run_and_collect(say("mine")).await;
        assert!(
            matches!(failed, Err(RunError::Service(ServiceError::Store(_)))),
            "{}: {failed:?}",
            place.name
        );
        // Its sender knows that it failed; the other sender knows nothing.
        until(async || tickets(&store).await.len() == 1).await;
        tap.refuse_nothing();
        promptly(&agent, "again").await;
        let log = log(&store).await;
        assert_eq!(log, ["user: left behind", "root: re: left behind", "user: again", "root: re: again"]);
    }
}

#[tokio::test]
async fn what_can_never_be_answered_does_not_block_the_queue() {
    for place in both() {
        let agent = start(&place.store, root(&Fake::echo())).await;
        let dead = dead_owner().await;
        push(&place.store, &dead, "not a message").await;
        // An answer to a call that never was.
        let said = payload("left behind").await;
        let answer = r#"{"functionResponse":{"id":"c9","name":"f","response":{}}}"#;
        push(&place.store, &dead, &said.replace(r#"{"text":"left behind"}"#, answer)).await;
        assert_eq!(promptly(&agent, "mine").await, "re: mine");
        assert_eq!(log(&place.store).await, ["user: mine", "root: re: mine"], "{}", place.name);
        assert!(tickets(&place.store).await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_sender_elsewhere_that_does_not_take_its_turn_counts_as_gone() {
    let place = Place::memory();
    let agent = start(&place.store, root(&Fake::echo())).await;
    push(&place.store, ELSEWHERE, &payload("left behind").await).await;
    let began = Instant::now();
    assert_eq!(promptly(&agent, "mine").await, "re: mine");
    assert!(began.elapsed() >= Duration::from_secs(5), "it might have been alive");
    assert!(began.elapsed() <= Duration::from_secs(15), "it was waited for too long");
    let log = log(&place.store).await;
    assert_eq!(log, ["user: left behind", "root: re: left behind", "user: mine", "root: re: mine"]);
}

#[tokio::test(start_paused = true)]
async fn a_sender_elsewhere_whose_turn_is_not_free_is_waited_for() {
    let place = Place::memory();
    let agent = start(&place.store, root(&Fake::echo())).await;
    let lease = lease_of(&place.store, "elsewhere/boot/2/1#0").await;
    push(&place.store, ELSEWHERE, &payload("left behind").await).await;
    let sent = tokio::spawn(async move { agent.run_and_collect(say("mine")).await });
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert!(log(&place.store).await.is_empty());
    // Its sender takes it at last.
    place.store.release(&lease).await.unwrap();
    let number = tickets(&place.store).await[0].number;
    place.store.withdraw(&store_key(), number).await.unwrap();
    assert_eq!(sent.await.unwrap().unwrap(), "re: mine");
    assert_eq!(log(&place.store).await, ["user: mine", "root: re: mine"]);
}

/// A message under way in its model call, which can be let go on.
async fn under_way(
    store: &Shared,
) -> (tokio::task::JoinHandle<Result<String, RunError>>, Arc<tokio::sync::Semaphore>) {
    let (model, gate) = Fake::gated(Vec::new());
    let agent = start(store, root(&model)).await;
    let sent = tokio::spawn(async move { agent.run_and_collect(say("hello")).await });
    until(async || model.requests().len() == 1).await;
    (sent, gate)
}

#[tokio::test]
async fn an_owner_that_lost_its_lease_stores_nothing_more_and_its_run_ends() {
    for place in both() {
        let (sent, gate) = under_way(&place.store).await;
        lease_of(&place.store, ELSEWHERE).await;
        gate.add_permits(1);
        let error = sent.await.unwrap().unwrap_err();
        assert!(matches!(error, RunError::Service(ServiceError::Stale(_))), "{}: {error:?}", place.name);
        assert_eq!(log(&place.store).await, ["user: hello"]);
        assert_eq!(runs(&place.store).await[0].status, RunStatus::Failed);
    }
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_lost_its_lease_hears_of_it_while_it_waits_for_a_model() {
    let place = Place::memory();
    let (sent, _gate) = under_way(&place.store).await;
    lease_of(&place.store, ELSEWHERE).await;
    let heard = tokio::time::timeout(Duration::from_secs(11), sent).await.expect("nobody told it");
    let error = heard.unwrap().unwrap_err();
    assert!(matches!(error, RunError::Service(ServiceError::Stale(_))), "{error:?}");
    assert_eq!(log(&place.store).await, ["user: hello"]);
}

#[tokio::test(start_paused = true)]
async fn a_long_turn_renews_its_lease_and_a_finished_one_does_not() {
    let tap = Tap::on(&Place::memory().store);
    let store: Shared = tap.clone();
    let (sent, gate) = under_way(&store).await;
    tokio::time::sleep(Duration::from_secs(301)).await;
    assert_eq!(tap.renewals(), 30);
    gate.add_permits(1);
    assert_eq!(sent.await.unwrap().unwrap(), "re: hello");
    tokio::time::sleep(Duration::from_secs(301)).await;
    assert_eq!(tap.renewals(), 30);
}
