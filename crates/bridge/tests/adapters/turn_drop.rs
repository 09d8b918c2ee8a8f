//! A run that is dropped at any await point leaves a log on which the next message works.

use crate::common::{
    Backend, Elsewhere, Fake, Recorder, call, calls, dead_owner, done, enqueue, key, log, payload, queued,
    root, running, runs, say, start, until,
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

/// The poll at which a future is dropped.
#[derive(Clone, Copy, Debug)]
enum Drop {
    /// While the operation it awaits is pending.
    Waiting(usize),
    /// After the awaited operation is complete, before the next poll.
    Answered(usize),
}

/// Polls a run until it is dropped; returns its output if it was ready earlier.
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

/// An agent that calls two tools in parallel, then one, then answers.
async fn busy(backend: &Backend) -> (Agent, Arc<Fake>) {
    let both = vec![call("c1", "look", json!({})), call("c2", "look", json!({})), done()];
    let model = Fake::new(vec![both, calls("c3", "look", json!({}))]);
    let agent = LlmAgent { tools: vec![Recorder::new("look").adapted()], ..root(&model) };
    (start(&backend.store, agent).await, model)
}

/// The results of a message's calls follow it directly and completely.
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

/// Drops a run at this point and sends the next message. `false` if the run was over before.
async fn survives(backend: &Backend, drop: Drop) -> bool {
    let (agent, model) = busy(backend).await;
    let dropped: Option<Result<String, RunError>> = polled(agent.run_and_collect(say("go")), drop).await;
    if let Some(answer) = dropped {
        assert_eq!(answer.unwrap(), "re: go");
        return false;
    }
    let waited = Duration::from_secs(20);
    let next = tokio::time::timeout(waited, agent.run_and_collect(say("next"))).await;
    next.unwrap_or_else(|_| panic!("{drop:?} on {} holds the session", backend.name)).unwrap();
    model.requests().iter().for_each(assert_legal);
    let log = log(&backend.store).await;
    let count = |text: &str| log.iter().map(|line| line.matches(text).count()).sum::<usize>();
    assert!(count("user: go") <= 1, "{drop:?} on {}: {log:?}", backend.name);
    assert_eq!(count("user: next"), 1);
    for id in ["#c1{", "#c2{", "#c3{"] {
        // The call with exactly one result, or neither.
        assert!([0, 2].contains(&count(id)), "{drop:?} on {}: {log:?}", backend.name);
    }
    assert_eq!(log.last().unwrap(), "root: re: next", "{drop:?} on {}", backend.name);
    until(async || runs(&backend.store).await.iter().all(|run| run.status.is_terminal())).await;
    assert_eq!(runs(&backend.store).await.last().unwrap().status, RunStatus::Done);
    assert!(queued(&backend.store).await.is_empty());
    true
}

async fn survives_every_drop(backend: impl Fn() -> Backend, least: usize) {
    for kind in [Drop::Waiting, Drop::Answered] {
        let mut polls = 1;
        while survives(&backend(), kind(polls)).await {
            polls += 1;
        }
        assert!(polls > least, "only {polls} places to drop at were found");
    }
}

#[tokio::test]
async fn run_can_be_dropped_at_any_await_in_memory() {
    // In memory only the tools and the owner tasks are pending.
    survives_every_drop(Backend::memory, 2).await;
}

#[tokio::test]
async fn run_can_be_dropped_at_any_await_on_disk() {
    // At least each of its commits; an operation that is ready at once is no await point.
    survives_every_drop(Backend::sqlite, 4).await;
}

#[tokio::test]
async fn dropped_run_releases_its_lease_for_other_processes() {
    for backend in crate::common::backends() {
        let (model, _gate) = Fake::gated(Vec::new());
        let agent = start(&backend.store, root(&model)).await;
        let sent = tokio::spawn(async move { agent.run_and_collect(say("go")).await });
        until(async || model.requests().len() == 1).await;
        // Another process only knows that this one is alive: the lease itself must be free.
        let outside = backend.again();
        assert!(outside.activity(&key()).await.unwrap().running.is_some());
        sent.abort();
        until(async || outside.activity(&key()).await.unwrap().running.is_none()).await;
        assert_eq!(runs(&backend.store).await[0].status, RunStatus::Interrupted, "{}", backend.name);
        running(&outside, Elsewhere::new(&backend).name(), "mine now").await;
    }
}

#[tokio::test]
async fn interrupted_calls_are_settled_once() {
    for backend in crate::common::backends() {
        // A dropped model call has consumed its answer, so each attempt has its own, with its own ids.
        let attempt = async |number: usize| {
            let both = ["a", "b"].map(|name| call(&format!("{name}{number}"), "look", json!({})));
            let model = Fake::new(vec![both.into_iter().chain([done()]).collect()]);
            let agent = LlmAgent { tools: vec![Recorder::new("look").adapted()], ..root(&model) };
            start(&backend.store, agent).await
        };
        let mut polls = 0;
        // Until the calls are in the log and their results are not.
        let agent = loop {
            polls += 1;
            let agent = attempt(polls).await;
            polled(agent.run_and_collect(say("go")), Drop::Waiting(polls)).await;
            if log(&backend.store).await.iter().any(|line| line.contains("→look")) {
                break agent;
            }
        };
        for text in ["next", "and again"] {
            agent.run_and_collect(say(text)).await.unwrap();
        }
        let log = log(&backend.store).await;
        let count = |what: &str| log.iter().map(|line| line.matches(what).count()).sum::<usize>();
        assert!(count("→look") >= 2, "{}: {log:?}", backend.name);
        for id in (1..=polls).flat_map(|number| [format!("a{number}"), format!("b{number}")]) {
            let (made, answered) = (count(&format!("→look#{id}{{")), count(&format!("←look#{id}{{")));
            // A model response that was dropped before its commit left no call.
            assert!(made <= 1 && answered == made, "{id} on {}: {log:?}", backend.name);
        }
        let session = agent.sessions().get(&key()).await.unwrap().unwrap();
        assert!(session.pending().open_calls.is_empty());
    }
}

fn drop_event(_: &Event) {}

#[tokio::test]
async fn dropped_resumed_run_ends_alone_among_the_runs_of_its_claim() {
    for backend in crate::common::backends() {
        let (model, gate) = Fake::gated(Vec::new());
        let agent = start(&backend.store, root(&model)).await;
        let dead = dead_owner(&backend.store);
        running(&backend.store, &dead, "one").await;
        enqueue(&backend.store, &dead, &payload("two").await).await;
        let continuing = agent.clone();
        let continued = tokio::spawn(async move { continuing.continue_orphans(say(""), &drop_event).await });
        until(async || model.requests().len() == 1).await;
        continued.abort();
        let statuses =
            async || -> Vec<RunStatus> { runs(&backend.store).await.iter().map(|run| run.status).collect() };
        until(async || statuses().await[0] == RunStatus::Interrupted).await;
        assert_eq!(statuses().await[1], RunStatus::Queued, "{}", backend.name);
        gate.add_permits(1);
        // The claim is held until the task that ended the first run is done.
        until(async || agent.continue_orphans(say(""), &drop_event).await.unwrap()).await;
        assert_eq!(statuses().await[1], RunStatus::Done, "{}", backend.name);
        assert_eq!(log(&backend.store).await.last().unwrap(), "root: re: two");
    }
}
