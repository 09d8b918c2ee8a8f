//! A run that is dropped at any await leaves a log on which the next message works.

use crate::common::{
    Elsewhere, Fake, Place, Recorder, call, calls, dead_owner, done, enqueue, key, log, payload, queued,
    root, running, runs, say, start, store_key, until,
};
use adk::{
    agent::LlmAgent,
    error::RunError,
    event::Event,
    session::{Session, SessionService},
};
use bridge::Agent;
use provider::{MessagePart, ModelMessage, ModelRequest, Role};
use serde_json::json;
use session::RunStatus;
use std::{
    future::{Future, poll_fn},
    sync::Arc,
    task::Poll,
    time::Duration,
};

/// When a future is dropped, counted in polls.
#[derive(Clone, Copy, Debug)]
enum Drop {
    /// While it waits for what it asked for.
    Waiting(usize),
    /// When what it asked for is there, before it hears of it.
    Answered(usize),
}

/// Polls a run until it is dropped; its answer if it was there earlier.
async fn polled<T>(run: impl Future<Output = T>, drop: Drop) -> Option<T> {
    let mut run = Box::pin(run);
    let mut polls = 0;
    poll_fn(move |context| {
        if matches!(drop, Drop::Answered(limit) if polls == limit) {
            return Poll::Ready(None);
        }
        polls += 1;
        match run.as_mut().poll(context) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending if matches!(drop, Drop::Waiting(limit) if polls == limit) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// An agent that calls two tools at once, then one, then answers.
async fn busy(place: &Place) -> (Agent, Arc<Fake>) {
    let both = vec![call("c1", "look", json!({})), call("c2", "look", json!({})), done()];
    let model = Fake::new(vec![both, calls("c3", "look", json!({}))]);
    let agent = LlmAgent { tools: vec![Recorder::new("look").adapted()], ..root(&model) };
    (start(&place.store, agent).await, model)
}

/// Every call is answered right behind it, by all of its answers and nothing else.
fn assert_legal(request: &ModelRequest) {
    let messages = &request.messages;
    for (message, next) in messages.iter().zip(messages.iter().skip(1).map(Some).chain([None])) {
        let calls: Vec<&str> = message.calls().map(|call| call.id.as_str()).collect();
        let answers: Vec<&str> =
            next.into_iter().flat_map(ModelMessage::results).map(|result| result.id.as_str()).collect();
        assert_eq!(calls, answers, "{messages:?}");
        assert!(!message.parts.is_empty());
    }
    assert!(matches!(messages.last().unwrap().role, Role::User | Role::Tool));
    assert!(matches!(
        messages.last().unwrap().parts.last(),
        Some(MessagePart::Text { .. } | MessagePart::Result(_))
    ));
}

/// Drops a run there and sends the next message. `false` if the run was over before.
async fn survives(place: &Place, drop: Drop) -> bool {
    let (agent, model) = busy(place).await;
    let dropped: Option<Result<String, RunError>> = polled(agent.run_and_collect(say("go")), drop).await;
    if let Some(answer) = dropped {
        assert_eq!(answer.unwrap(), "re: go");
        return false;
    }
    let waited = Duration::from_secs(20);
    let next = tokio::time::timeout(waited, agent.run_and_collect(say("next"))).await;
    next.unwrap_or_else(|_| panic!("{drop:?} on {} holds the session", place.name)).unwrap();
    model.requests().iter().for_each(assert_legal);
    let log = log(&place.store).await;
    let count = |text: &str| log.iter().map(|line| line.matches(text).count()).sum::<usize>();
    assert!(count("user: go") <= 1, "{drop:?} on {}: {log:?}", place.name);
    assert_eq!(count("user: next"), 1);
    for id in ["#c1{", "#c2{", "#c3{"] {
        // The call and its one answer, whichever it is; or neither.
        assert!([0, 2].contains(&count(id)), "{drop:?} on {}: {log:?}", place.name);
    }
    assert_eq!(log.last().unwrap(), "root: re: next", "{drop:?} on {}", place.name);
    until(async || runs(&place.store).await.iter().all(|run| run.status.is_terminal())).await;
    assert_eq!(runs(&place.store).await.last().unwrap().status, RunStatus::Done);
    assert!(queued(&place.store).await.is_empty());
    true
}

async fn survives_every_drop(place: impl Fn() -> Place, least: usize) {
    for kind in [Drop::Waiting, Drop::Answered] {
        let mut polls = 1;
        while survives(&place(), kind(polls)).await {
            polls += 1;
        }
        assert!(polls > least, "only {polls} places to drop at were found");
    }
}

#[tokio::test]
async fn a_run_may_be_dropped_at_any_await_in_memory() {
    // Nothing waits in memory but the tools and the tasks that claim.
    survives_every_drop(Place::memory, 2).await;
}

#[tokio::test]
async fn a_run_may_be_dropped_at_any_await_on_disk() {
    // Each of its commits, at least; what is answered at once is no place to drop it at.
    survives_every_drop(Place::sqlite, 4).await;
}

#[tokio::test]
async fn a_run_that_is_dropped_releases_its_lease_for_other_processes_too() {
    for place in crate::common::both() {
        let (model, _gate) = Fake::gated(Vec::new());
        let agent = start(&place.store, root(&model)).await;
        let sent = tokio::spawn(async move { agent.run_and_collect(say("go")).await });
        until(async || model.requests().len() == 1).await;
        // Another process knows only that this one is alive: the lease itself must be free.
        let outside = place.again();
        assert!(outside.activity(&store_key()).await.unwrap().running.is_some());
        sent.abort();
        until(async || outside.activity(&store_key()).await.unwrap().running.is_none()).await;
        assert_eq!(runs(&place.store).await[0].status, RunStatus::Interrupted, "{}", place.name);
        running(&outside, Elsewhere::new(&place).name(), "mine now").await;
    }
}

#[tokio::test]
async fn calls_that_were_cut_off_are_settled_once() {
    for place in crate::common::both() {
        // A model that was asked in vain has said its answer, so each attempt has one of its own, with ids of its own.
        let attempt = async |number: usize| {
            let both = ["a", "b"].map(|name| call(&format!("{name}{number}"), "look", json!({})));
            let model = Fake::new(vec![both.into_iter().chain([done()]).collect()]);
            let agent = LlmAgent { tools: vec![Recorder::new("look").adapted()], ..root(&model) };
            start(&place.store, agent).await
        };
        let mut polls = 0;
        // On until the calls are in the log and their answers are not.
        let agent = loop {
            polls += 1;
            let agent = attempt(polls).await;
            polled(agent.run_and_collect(say("go")), Drop::Waiting(polls)).await;
            if log(&place.store).await.iter().any(|line| line.contains("→look")) {
                break agent;
            }
        };
        for text in ["next", "and again"] {
            agent.run_and_collect(say(text)).await.unwrap();
        }
        let log = log(&place.store).await;
        let count = |what: &str| log.iter().map(|line| line.matches(what).count()).sum::<usize>();
        assert!(count("→look") >= 2, "{}: {log:?}", place.name);
        for id in (1..=polls).flat_map(|number| [format!("a{number}"), format!("b{number}")]) {
            let (made, answered) = (count(&format!("→look#{id}{{")), count(&format!("←look#{id}{{")));
            // An answer of the model that was dropped before it was stored left no call.
            assert!(made <= 1 && answered == made, "{id} on {}: {log:?}", place.name);
        }
        let session = agent.sessions().get(&key()).await.unwrap().unwrap();
        assert!(session.pending().open_calls.is_empty());
    }
}

fn drop_event(_: &Event) {}

#[tokio::test]
async fn a_continued_run_that_is_dropped_ends_itself_and_no_other_run_of_its_claim() {
    for place in crate::common::both() {
        let (model, gate) = Fake::gated(Vec::new());
        let agent = start(&place.store, root(&model)).await;
        let dead = dead_owner(&place.store);
        running(&place.store, &dead, "one").await;
        enqueue(&place.store, &dead, &payload("two").await).await;
        let continuing = agent.clone();
        let continued = tokio::spawn(async move { continuing.continue_orphans(say(""), &drop_event).await });
        until(async || model.requests().len() == 1).await;
        continued.abort();
        let statuses =
            async || -> Vec<RunStatus> { runs(&place.store).await.iter().map(|run| run.status).collect() };
        until(async || statuses().await[0] == RunStatus::Interrupted).await;
        assert_eq!(statuses().await[1], RunStatus::Queued, "{}", place.name);
        gate.add_permits(1);
        // The claim is held until the task that ended the first run is gone.
        until(async || agent.continue_orphans(say(""), &drop_event).await.unwrap()).await;
        assert_eq!(statuses().await[1], RunStatus::Done, "{}", place.name);
        assert_eq!(log(&place.store).await.last().unwrap(), "root: re: two");
    }
}
