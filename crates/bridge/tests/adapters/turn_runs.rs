//! Runs on tasks of their own: readers come, go and come back.

use crate::common::{
    Fake, OneAgent, Shared, Tap, both, calls, dead_owner, done, enqueue, key, log, payload, queued, running,
    say, say_streaming, start, store_key, stub, text, until,
};
use adk::agent::LlmAgent;
use bridge::{
    Agent, Budget, Runs,
    runs::{CancelOutcome, Cursor, Reader, RunEntry, RunOutcome, RunStatus, StartError, StartOptions},
};
use serde_json::json;
use session::TurnChange;
use std::sync::Arc;
use tokio::task::JoinHandle;

fn root(model: &Arc<Fake>) -> LlmAgent {
    LlmAgent { tools: vec![stub(json!({"name": "clock"}))], ..crate::common::root(model) }
}

/// A tool call, then an answer in four pieces.
fn talkative() -> Arc<Fake> {
    let pieces = ["It ", "is ", "noon ", "now."].map(text);
    Fake::new(vec![calls("c1", "clock", json!({})), pieces.into_iter().chain([done()]).collect()])
}

/// What an entry says.
trait Said {
    fn said(&self) -> String;
}

impl Said for RunEntry {
    fn said(&self) -> String {
        self.event.content.as_ref().map(adk::content::Content::text).unwrap_or_default()
    }
}

async fn rest(reader: &mut Reader) -> (Vec<RunEntry>, RunOutcome) {
    let mut entries = Vec::new();
    loop {
        match reader.next().await.unwrap() {
            Ok(entry) => entries.push(entry),
            Err(end) => return (entries, end),
        }
    }
}

fn ids(entries: &[RunEntry]) -> Vec<String> {
    entries.iter().map(|entry| entry.place.to_id()).collect()
}

async fn runs_on(store: &Shared, root: LlmAgent) -> (Runs, Agent) {
    (Runs::new(store.clone()), start(store, root).await)
}

#[tokio::test]
async fn a_reader_that_comes_back_anywhere_sees_every_event_once() {
    for place in both() {
        let (runs, agent) = runs_on(&place.store, root(&talkative())).await;
        let mut first = runs.start(&agent, say_streaming("time?"), StartOptions::default()).await.unwrap();
        let (all, end) = rest(&mut first).await;
        assert_eq!(end, RunOutcome::Done);
        // A call, its answer, four pieces and the whole.
        assert_eq!(all.len(), 7, "{}", place.name);
        for seen in 0..=all.len() {
            let last = all[..seen].last().map(|entry| entry.place.to_id());
            let after = last.and_then(|id| Cursor::from_id(&id)).unwrap_or_default();
            let mut again = runs.reader(&key(), first.id(), after).await.unwrap().unwrap();
            assert_eq!(ids(&rest(&mut again).await.0), ids(&all[seen..]));
        }
    }
}

#[tokio::test]
async fn after_a_restart_the_log_has_what_was_stored_of_a_run() {
    for place in both() {
        let (runs, agent) = runs_on(&place.store, root(&talkative())).await;
        let mut first = runs.start(&agent, say_streaming("time?"), StartOptions::default()).await.unwrap();
        let (all, _) = rest(&mut first).await;
        runs.start(&agent, say("and now?"), StartOptions::default())
            .await
            .unwrap()
            .next()
            .await
            .unwrap()
            .unwrap();
        runs.idle().await;
        let restarted = Runs::new(place.store.clone());
        let stored: Vec<&RunEntry> = all.iter().filter(|entry| entry.place.partial == 0).collect();
        for seen in 0..=stored.len() {
            let after = stored[..seen].last().map(|entry| entry.place).unwrap_or_default();
            let mut reader = restarted.reader(&key(), first.id(), after).await.unwrap().unwrap();
            let (entries, end) = rest(&mut reader).await;
            let json: Vec<&str> = entries.iter().map(|entry| &*entry.json).collect();
            assert_eq!(json, stored[seen..].iter().map(|entry| &*entry.json).collect::<Vec<_>>());
            assert_eq!(end, RunOutcome::Done, "{}", place.name);
        }
        assert!(restarted.reader(&key(), "never", Cursor::default()).await.unwrap().is_none());
    }
}

#[tokio::test]
async fn a_run_goes_on_when_its_reader_leaves() {
    for place in both() {
        let (model, gate) = Fake::gated(vec![vec![text("late"), done()]]);
        let (runs, agent) = runs_on(&place.store, root(&model)).await;
        let reader = runs.start(&agent, say("hello"), StartOptions::default()).await.unwrap();
        let id = reader.id().to_owned();
        drop(reader);
        gate.add_permits(1);
        runs.idle().await;
        let view = runs.view(&key(), &id).await.unwrap().unwrap();
        assert_eq!(view.status, RunStatus::Done, "{}", place.name);
        let mut again = runs.reader(&key(), &id, Cursor::default()).await.unwrap().unwrap();
        assert_eq!(rest(&mut again).await.0[0].said(), "late");
    }
}

#[tokio::test]
async fn a_repeated_request_is_the_run_that_was_first() {
    for place in both() {
        let (runs, agent) = runs_on(&place.store, root(&Fake::echo())).await;
        let mut first = runs.start(&agent, say("hello"), keyed("once")).await.unwrap();
        let mut second = runs.start(&agent, say("hello"), keyed("once")).await.unwrap();
        assert_eq!(first.id(), second.id());
        assert_eq!(ids(&rest(&mut first).await.0), ids(&rest(&mut second).await.0));
        let restarted = Runs::new(place.store.clone());
        let third = restarted.start(&agent, say("hello"), keyed("once")).await.unwrap();
        assert_eq!(third.id(), first.id(), "{}", place.name);
        assert_eq!(log(&place.store).await.len(), 2);
    }
}

fn keyed(key: &str) -> StartOptions {
    StartOptions { idempotency_key: Some(key.to_owned()), ..StartOptions::default() }
}

/// The runs of a process whose store shows what passes through it, and which is held up where it reads the session.
async fn held_up(place: &crate::common::Place, model: &Arc<Fake>) -> (Arc<Tap>, Runs, Agent) {
    start(&place.store, root(model)).await;
    let tap = Tap::on(&place.store);
    let store: Shared = tap.clone();
    tap.hold_loads(true);
    let agent = Agent::new(store.clone(), root(model), Budget::default()).unwrap();
    (tap, Runs::new(store), agent)
}

#[tokio::test]
async fn a_request_that_is_repeated_to_another_process_is_one_run() {
    for place in both() {
        let (tap, here, agent) = held_up(&place, &Fake::echo()).await;
        let (there, other) = runs_on(&place.again(), root(&Fake::echo())).await;
        let slow = spawn_start(&here, agent, "pay 10", keyed("once"));
        until(async || tap.loads() > 0).await;
        // Nothing is stored yet, so the other process is the first.
        let mut quick = there.start(&other, say("pay 10"), keyed("once")).await.unwrap();
        let (answered, end) = rest(&mut quick).await;
        assert_eq!(end, RunOutcome::Done, "{}", place.name);
        tap.hold_loads(false);
        let mut slow = slow.await.unwrap();
        assert_eq!(slow.id(), quick.id());
        assert_eq!(ids(&rest(&mut slow).await.0), ids(&answered), "{}", place.name);
        assert_eq!(log(&place.store).await, ["user: pay 10", "root: re: pay 10"], "{}", place.name);
    }
}

fn spawn_start(runs: &Runs, agent: Agent, text: &'static str, options: StartOptions) -> JoinHandle<Reader> {
    let runs = runs.clone();
    tokio::spawn(async move { runs.start(&agent, say(text), options).await.unwrap() })
}

#[tokio::test]
async fn a_run_is_accepted_when_its_message_is_stored_and_not_before() {
    for place in both() {
        for options in [StartOptions::default(), keyed("once")] {
            let (tap, runs, agent) = held_up(&place, &Fake::echo()).await;
            let before = log(&place.store).await.len();
            let starting = spawn_start(&runs, agent, "keep me", options);
            until(async || tap.loads() > 0).await;
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            assert!(!starting.is_finished(), "{}", place.name);
            tap.hold_loads(false);
            let reader = starting.await.unwrap();
            assert_eq!(log(&place.store).await[before], "user: keep me");
            let view = runs.view(&key(), reader.id()).await.unwrap().unwrap();
            assert_ne!(view.status, RunStatus::Queued, "{}", place.name);
            runs.idle().await;
        }
    }
}

#[tokio::test]
async fn a_queued_run_is_accepted_with_its_ticket() {
    for place in both() {
        let (model, gate) = Fake::gated(Vec::new());
        let (runs, agent) = runs_on(&place.store, root(&model)).await;
        runs.start(&agent, say("one"), StartOptions::default()).await.unwrap();
        let waits = runs.start(&agent, say("two"), keyed("once")).await.unwrap();
        let view = runs.view(&key(), waits.id()).await.unwrap().unwrap();
        assert_eq!((view.status, view.position), (RunStatus::Queued, Some(0)), "{}", place.name);
        gate.add_permits(2);
        runs.idle().await;
    }
}

#[tokio::test]
async fn a_key_that_was_used_for_another_request_is_refused_and_nothing_is_stored() {
    for place in both() {
        let (runs, agent) = runs_on(&place.store, root(&Fake::echo())).await;
        let other_session = crate::common::session_key("s2");
        agent.sessions().get_or_create(&other_session).await.unwrap();
        runs.start(&agent, say("pay 10"), keyed("once")).await.unwrap();
        runs.idle().await;
        let elsewhere = adk::runner::RunRequest { key: other_session, ..say("pay 10") };
        for other in [say("pay 20"), say_streaming("pay 10"), elsewhere] {
            let refused = runs.start(&agent, other, keyed("once")).await;
            assert!(matches!(refused, Err(StartError::KeyReused)), "{}", place.name);
        }
        runs.idle().await;
        assert_eq!(log(&place.store).await, ["user: pay 10", "root: re: pay 10"], "{}", place.name);
    }
}

#[tokio::test]
async fn a_request_that_could_not_be_stored_leaves_its_key_free() {
    for place in both() {
        let tap = Tap::on(&place.store);
        let store: Shared = tap.clone();
        let (runs, agent) = runs_on(&store, root(&Fake::echo())).await;
        tap.fail(|commit| matches!(commit.turn, TurnChange::Start(_)));
        let failed = runs.start(&agent, say("pay 10"), keyed("once")).await;
        assert!(matches!(failed, Err(StartError::Run(_))), "{}", place.name);
        assert!(store.runs(&store_key(), 9).await.unwrap().is_empty());
        tap.fail_nothing();
        let mut reader = runs.start(&agent, say("pay 10"), keyed("once")).await.unwrap();
        assert_eq!(rest(&mut reader).await.1, RunOutcome::Done, "{}", place.name);
        assert_eq!(log(&place.store).await, ["user: pay 10", "root: re: pay 10"], "{}", place.name);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_are_answered_in_the_order_in_which_they_were_begun() {
    for place in both() {
        let (runs, agent) = runs_on(&place.store, root(&Fake::echo())).await;
        let texts: Vec<String> = (0..16).map(|number| format!("user: {number}")).collect();
        for text in &texts {
            let options = if text.ends_with('3') { keyed(text) } else { StartOptions::default() };
            runs.start(&agent, say(&text["user: ".len()..]), options).await.unwrap();
        }
        runs.idle().await;
        let said: Vec<String> = log(&place.store).await.into_iter().step_by(2).collect();
        assert_eq!(said, texts, "{}", place.name);
    }
}

async fn cancel(runs: &Runs, id: &str) -> CancelOutcome {
    runs.cancel(&key(), id).await.unwrap()
}

#[tokio::test]
async fn a_cancelled_run_ends_and_the_next_message_is_answered() {
    for place in both() {
        let (model, gate) = Fake::gated(vec![vec![text("never"), done()]]);
        let (runs, agent) = runs_on(&place.store, root(&model)).await;
        let mut cut = runs.start(&agent, say("hello"), StartOptions::default()).await.unwrap();
        until(|| async { !model.requests().is_empty() }).await;
        let mut waits = runs.start(&agent, say("and?"), StartOptions::default()).await.unwrap();
        let mut given_up = runs.start(&agent, say("or not"), StartOptions::default()).await.unwrap();
        until(|| async { queued(&place.store).await.len() == 2 }).await;
        assert_eq!((runs.running(), runs.is_running(&key())), (3, true));
        assert_eq!(cancel(&runs, given_up.id()).await, CancelOutcome::Over, "{}", place.name);
        assert_eq!(rest(&mut given_up).await.1, RunOutcome::Cancelled);
        assert_eq!(cancel(&runs, cut.id()).await, CancelOutcome::Over);
        assert_eq!(rest(&mut cut).await.1, RunOutcome::Cancelled, "{}", place.name);
        gate.add_permits(1);
        assert_eq!(rest(&mut waits).await.1, RunOutcome::Done);
        assert_eq!(cancel(&runs, cut.id()).await, CancelOutcome::Over);
        assert_eq!(cancel(&runs, "never").await, CancelOutcome::NotFound);
        assert!(!runs.is_running(&key()));
        let statuses: Vec<RunStatus> =
            runs.list(&key(), 9).await.unwrap().into_iter().map(|run| run.status).collect();
        assert_eq!(statuses, [RunStatus::Cancelled, RunStatus::Done, RunStatus::Cancelled]);
    }
}

async fn runs_or_waits_at(runs: &Runs, id: &str, place: usize) -> bool {
    let view = runs.view(&key(), id).await.unwrap();
    // One that is neither yet is on its way, and has no position either.
    view.is_some_and(|view| match place.checked_sub(1) {
        None => view.status == RunStatus::Running,
        waits => view.position == waits,
    })
}

#[tokio::test]
async fn a_run_that_waits_has_a_position() {
    for place in both() {
        let (model, gate) = Fake::gated(Vec::new());
        let (runs, agent) = runs_on(&place.store, root(&model)).await;
        let mut readers = Vec::new();
        for text in ["one", "two", "three"] {
            readers.push(runs.start(&agent, say(text), StartOptions::default()).await.unwrap());
            let expected = readers.len() - 1;
            let id = readers[expected].id().to_owned();
            until(|| runs_or_waits_at(&runs, &id, expected)).await;
        }
        gate.add_permits(3);
        for (reader, text) in readers.iter_mut().zip(["re: one", "re: two", "re: three"]) {
            assert_eq!(rest(reader).await.0[0].said(), text, "{}", place.name);
        }
    }
}

#[tokio::test]
async fn the_runs_of_a_dead_owner_continue_in_their_order() {
    for place in both() {
        let (runs, agent) = runs_on(&place.store, root(&Fake::echo())).await;
        let dead = dead_owner(&place.store);
        running(&place.store, &dead, "hello").await;
        enqueue(&place.store, &dead, &payload("and then?").await).await;
        let mut reader = runs.reader(&key(), "hello", Cursor::default()).await.unwrap().unwrap();
        let recovery = runs.claim_orphans().await.unwrap();
        assert_eq!(recovery.len(), 2, "{}", place.name);
        // A message that comes before they are started is answered after them.
        let newer = tokio::spawn({
            let (runs, agent) = (runs.clone(), agent.clone());
            async move {
                let mut reader = runs.start(&agent, say("last"), StartOptions::default()).await.unwrap();
                rest(&mut reader).await
            }
        });
        until(async || queued(&place.store).await.len() == 2).await;
        let recovering = tokio::spawn({
            let (runs, source) = (runs.clone(), Arc::new(OneAgent(agent)));
            async move { runs.recover(recovery, source).await }
        });
        let (entries, end) = rest(&mut reader).await;
        assert_eq!((entries[0].said().as_str(), end), ("re: hello", RunOutcome::Done), "{}", place.name);
        assert_eq!(entries[0].event.invocation_id, "hello");
        assert_eq!(entries.len(), 1, "{}: a reader receives the events of its own run only", place.name);
        assert_eq!(newer.await.unwrap().1, RunOutcome::Done);
        recovering.abort();
        let said: Vec<String> = log(&place.store).await.into_iter().step_by(2).collect();
        assert_eq!(said, ["user: hello", "user: and then?", "user: last"], "{}", place.name);
        let all = runs.list(&key(), 9).await.unwrap();
        assert!(all.iter().all(|run| run.status == RunStatus::Done), "{all:?}");
    }
}

#[tokio::test]
async fn any_number_of_queued_messages_of_a_dead_owner_is_answered() {
    for place in both() {
        let (runs, agent) = runs_on(&place.store, root(&Fake::echo())).await;
        let dead = dead_owner(&place.store);
        running(&place.store, &dead, "0").await;
        let template = payload("NUMBER").await;
        for number in 1..=40 {
            enqueue(&place.store, &dead, &template.replace("NUMBER", &number.to_string())).await;
        }
        let recovery = runs.claim_orphans().await.unwrap();
        let recovering = tokio::spawn({
            let (runs, source) = (runs.clone(), Arc::new(OneAgent(agent)));
            async move { runs.recover(recovery, source).await }
        });
        until(async || log(&place.store).await.len() == 82).await;
        until(async || {
            let all = place.store.runs(&store_key(), 100).await.unwrap();
            all.iter().all(|run| run.status == RunStatus::Done)
        })
        .await;
        recovering.abort();
        let said: Vec<String> = log(&place.store).await.into_iter().step_by(2).collect();
        assert_eq!(said, (0..=40).map(|number| format!("user: {number}")).collect::<Vec<_>>());
    }
}
