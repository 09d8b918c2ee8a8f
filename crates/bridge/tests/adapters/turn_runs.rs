//! Runs on their own tasks: readers connect, disconnect and reconnect.

use crate::common::{
    Fake, OneAgent, RecordingStore, Shared, backends, calls, dead_owner, done, enqueue, key, log, payload,
    queued, running, say, say_streaming, start, stub, text, until,
};
use adk::agent::LlmAgent;
use bridge::{
    Agent, Budget, Runs,
    runs::{
        CancelOutcome, Cursor, Reader, ReaderItem, RunEntry, RunOutcome, RunStatus, StartError, StartOptions,
    },
};
use serde_json::json;
use session::TurnChange;
use std::sync::Arc;
use tokio::task::JoinHandle;

fn root(model: &Arc<Fake>) -> LlmAgent {
    LlmAgent { tools: vec![stub(json!({"name": "clock"}))], ..crate::common::root(model) }
}

/// A tool call, then an answer in four deltas.
fn talkative() -> Arc<Fake> {
    let chunks = ["It ", "is ", "noon ", "now."].map(text);
    Fake::new(vec![calls("c1", "clock", json!({})), chunks.into_iter().chain([done()]).collect()])
}

/// The text of an entry.
trait EntryText {
    fn text(&self) -> String;
}

impl EntryText for RunEntry {
    fn text(&self) -> String {
        self.event.content.as_ref().map(adk::content::Content::text).unwrap_or_default()
    }
}

async fn rest(reader: &mut Reader) -> (Vec<RunEntry>, RunOutcome) {
    let mut entries = Vec::new();
    loop {
        match reader.next().await.unwrap() {
            ReaderItem::Entry(entry) => entries.push(entry),
            ReaderItem::End(end) => return (entries, end),
        }
    }
}

fn ids(entries: &[RunEntry]) -> Vec<String> {
    entries.iter().map(|entry| entry.cursor.to_id()).collect()
}

async fn runs_on(store: &Shared, root: LlmAgent) -> (Runs, Agent) {
    (Runs::new(store.clone()), start(store, root).await)
}

#[tokio::test]
async fn reader_resuming_at_any_cursor_sees_every_event_once() {
    for backend in backends() {
        let (runs, agent) = runs_on(&backend.store, root(&talkative())).await;
        let mut first = runs.start(&agent, say_streaming("time?"), StartOptions::default()).await.unwrap();
        let (all, end) = rest(&mut first).await;
        assert_eq!(end, RunOutcome::Done);
        // A call, its result, four partial events and the final event.
        assert_eq!(all.len(), 7, "{}", backend.name);
        for seen in 0..=all.len() {
            let last = all[..seen].last().map(|entry| entry.cursor.to_id());
            let after = last.and_then(|id| Cursor::from_id(&id)).unwrap_or_default();
            let mut again = runs.reader(&key(), first.id(), after).await.unwrap().unwrap();
            assert_eq!(ids(&rest(&mut again).await.0), ids(&all[seen..]));
        }
    }
}

#[tokio::test]
async fn stored_events_of_a_run_are_readable_after_a_restart() {
    for backend in backends() {
        let (runs, agent) = runs_on(&backend.store, root(&talkative())).await;
        let mut first = runs.start(&agent, say_streaming("time?"), StartOptions::default()).await.unwrap();
        let (all, _) = rest(&mut first).await;
        let mut second = runs.start(&agent, say("and now?"), StartOptions::default()).await.unwrap();
        assert!(matches!(second.next().await.unwrap(), ReaderItem::Entry(_)));
        runs.idle().await;
        let restarted = Runs::new(backend.store.clone());
        let stored: Vec<&RunEntry> = all.iter().filter(|entry| entry.cursor.partial == 0).collect();
        for seen in 0..=stored.len() {
            let after = stored[..seen].last().map(|entry| entry.cursor).unwrap_or_default();
            let mut reader = restarted.reader(&key(), first.id(), after).await.unwrap().unwrap();
            let (entries, end) = rest(&mut reader).await;
            let json: Vec<&str> = entries.iter().map(|entry| &*entry.json).collect();
            assert_eq!(json, stored[seen..].iter().map(|entry| &*entry.json).collect::<Vec<_>>());
            assert_eq!(end, RunOutcome::Done, "{}", backend.name);
        }
        assert!(restarted.reader(&key(), "never", Cursor::default()).await.unwrap().is_none());
    }
}

#[tokio::test]
async fn run_continues_when_its_reader_disconnects() {
    for backend in backends() {
        let (model, gate) = Fake::gated(vec![vec![text("late"), done()]]);
        let (runs, agent) = runs_on(&backend.store, root(&model)).await;
        let reader = runs.start(&agent, say("hello"), StartOptions::default()).await.unwrap();
        let id = reader.id().to_owned();
        drop(reader);
        gate.add_permits(1);
        runs.idle().await;
        let view = runs.view(&key(), &id).await.unwrap().unwrap();
        assert_eq!(view.status, RunStatus::Done, "{}", backend.name);
        let mut again = runs.reader(&key(), &id, Cursor::default()).await.unwrap().unwrap();
        assert_eq!(rest(&mut again).await.0[0].text(), "late");
    }
}

#[tokio::test]
async fn repeated_idempotency_key_returns_the_first_run() {
    for backend in backends() {
        let (runs, agent) = runs_on(&backend.store, root(&Fake::echo())).await;
        let mut first = runs.start(&agent, say("hello"), keyed("once")).await.unwrap();
        let mut second = runs.start(&agent, say("hello"), keyed("once")).await.unwrap();
        assert_eq!(first.id(), second.id());
        assert_eq!(ids(&rest(&mut first).await.0), ids(&rest(&mut second).await.0));
        let restarted = Runs::new(backend.store.clone());
        let third = restarted.start(&agent, say("hello"), keyed("once")).await.unwrap();
        assert_eq!(third.id(), first.id(), "{}", backend.name);
        assert_eq!(log(&backend.store).await.len(), 2);
    }
}

fn keyed(key: &str) -> StartOptions {
    StartOptions { idempotency_key: Some(key.to_owned()), ..StartOptions::default() }
}

/// The runs of a process with a recording store that blocks loads of the session.
async fn blocked_on_load(
    backend: &crate::common::Backend,
    model: &Arc<Fake>,
) -> (Arc<RecordingStore>, Runs, Agent) {
    start(&backend.store, root(model)).await;
    let recording = RecordingStore::on(&backend.store);
    let store: Shared = recording.clone();
    recording.hold_loads(true);
    let agent = Agent::new(store.clone(), root(model), Budget::default()).unwrap();
    (recording, Runs::new(store), agent)
}

#[tokio::test]
async fn idempotency_key_holds_across_processes() {
    for backend in backends() {
        let (recording, here, agent) = blocked_on_load(&backend, &Fake::echo()).await;
        let (there, other) = runs_on(&backend.again(), root(&Fake::echo())).await;
        let slow = spawn_start(&here, agent, "pay 10", keyed("once"));
        until(async || recording.loads() > 0).await;
        // Nothing is stored yet, so the other process is first.
        let mut quick = there.start(&other, say("pay 10"), keyed("once")).await.unwrap();
        let (answered, end) = rest(&mut quick).await;
        assert_eq!(end, RunOutcome::Done, "{}", backend.name);
        recording.hold_loads(false);
        let mut slow = slow.await.unwrap();
        assert_eq!(slow.id(), quick.id());
        assert_eq!(ids(&rest(&mut slow).await.0), ids(&answered), "{}", backend.name);
        assert_eq!(log(&backend.store).await, ["user: pay 10", "root: re: pay 10"], "{}", backend.name);
    }
}

fn spawn_start(runs: &Runs, agent: Agent, text: &'static str, options: StartOptions) -> JoinHandle<Reader> {
    let runs = runs.clone();
    tokio::spawn(async move { runs.start(&agent, say(text), options).await.unwrap() })
}

#[tokio::test]
async fn run_is_accepted_when_its_message_is_stored() {
    for backend in backends() {
        for options in [StartOptions::default(), keyed("once")] {
            let (recording, runs, agent) = blocked_on_load(&backend, &Fake::echo()).await;
            let before = log(&backend.store).await.len();
            let starting = spawn_start(&runs, agent, "keep me", options);
            until(async || recording.loads() > 0).await;
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            assert!(!starting.is_finished(), "{}", backend.name);
            recording.hold_loads(false);
            let reader = starting.await.unwrap();
            assert_eq!(log(&backend.store).await[before], "user: keep me");
            let view = runs.view(&key(), reader.id()).await.unwrap().unwrap();
            assert_ne!(view.status, RunStatus::Queued, "{}", backend.name);
            runs.idle().await;
        }
    }
}

#[tokio::test]
async fn queued_run_is_accepted_with_its_ticket() {
    for backend in backends() {
        let (model, gate) = Fake::gated(Vec::new());
        let (runs, agent) = runs_on(&backend.store, root(&model)).await;
        runs.start(&agent, say("one"), StartOptions::default()).await.unwrap();
        let waits = runs.start(&agent, say("two"), keyed("once")).await.unwrap();
        let view = runs.view(&key(), waits.id()).await.unwrap().unwrap();
        assert_eq!((view.status, view.position), (RunStatus::Queued, Some(0)), "{}", backend.name);
        gate.add_permits(2);
        runs.idle().await;
    }
}

#[tokio::test]
async fn reused_idempotency_key_is_refused_and_stores_nothing() {
    for backend in backends() {
        let (runs, agent) = runs_on(&backend.store, root(&Fake::echo())).await;
        let other_session = crate::common::session_key("s2");
        agent.sessions().get_or_create(&other_session).await.unwrap();
        runs.start(&agent, say("pay 10"), keyed("once")).await.unwrap();
        runs.idle().await;
        let elsewhere = adk::runner::RunRequest { key: other_session, ..say("pay 10") };
        for other in [say("pay 20"), say_streaming("pay 10"), elsewhere] {
            let refused = runs.start(&agent, other, keyed("once")).await;
            assert!(matches!(refused, Err(StartError::KeyReused)), "{}", backend.name);
        }
        runs.idle().await;
        assert_eq!(log(&backend.store).await, ["user: pay 10", "root: re: pay 10"], "{}", backend.name);
    }
}

#[tokio::test]
async fn failed_start_leaves_its_idempotency_key_free() {
    for backend in backends() {
        let recording = RecordingStore::on(&backend.store);
        let store: Shared = recording.clone();
        let (runs, agent) = runs_on(&store, root(&Fake::echo())).await;
        recording.fail(|commit| matches!(commit.turn, TurnChange::Start(_)));
        let failed = runs.start(&agent, say("pay 10"), keyed("once")).await;
        assert!(matches!(failed, Err(StartError::Run(_))), "{}", backend.name);
        assert!(store.runs(&key(), 9).await.unwrap().is_empty());
        recording.fail_nothing();
        let mut reader = runs.start(&agent, say("pay 10"), keyed("once")).await.unwrap();
        assert_eq!(rest(&mut reader).await.1, RunOutcome::Done, "{}", backend.name);
        assert_eq!(log(&backend.store).await, ["user: pay 10", "root: re: pay 10"], "{}", backend.name);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_are_answered_in_order_of_start() {
    for backend in backends() {
        let (runs, agent) = runs_on(&backend.store, root(&Fake::echo())).await;
        let texts: Vec<String> = (0..16).map(|number| format!("user: {number}")).collect();
        for text in &texts {
            let options = if text.ends_with('3') { keyed(text) } else { StartOptions::default() };
            runs.start(&agent, say(&text["user: ".len()..]), options).await.unwrap();
        }
        runs.idle().await;
        let messages: Vec<String> = log(&backend.store).await.into_iter().step_by(2).collect();
        assert_eq!(messages, texts, "{}", backend.name);
    }
}

async fn cancel(runs: &Runs, id: &str) -> CancelOutcome {
    runs.cancel(&key(), id).await.unwrap()
}

#[tokio::test]
async fn cancelled_run_ends_and_the_next_message_is_answered() {
    for backend in backends() {
        let (model, gate) = Fake::gated(vec![vec![text("never"), done()]]);
        let (runs, agent) = runs_on(&backend.store, root(&model)).await;
        let mut cut = runs.start(&agent, say("hello"), StartOptions::default()).await.unwrap();
        until(|| async { !model.requests().is_empty() }).await;
        let mut waits = runs.start(&agent, say("and?"), StartOptions::default()).await.unwrap();
        let mut given_up = runs.start(&agent, say("or not"), StartOptions::default()).await.unwrap();
        until(|| async { queued(&backend.store).await.len() == 2 }).await;
        assert_eq!((runs.running(), runs.is_running(&key())), (3, true));
        assert_eq!(cancel(&runs, given_up.id()).await, CancelOutcome::Over, "{}", backend.name);
        assert_eq!(rest(&mut given_up).await.1, RunOutcome::Cancelled);
        assert_eq!(cancel(&runs, cut.id()).await, CancelOutcome::Over);
        assert_eq!(rest(&mut cut).await.1, RunOutcome::Cancelled, "{}", backend.name);
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

async fn runs_or_waits_at(runs: &Runs, id: &str, position: usize) -> bool {
    let view = runs.view(&key(), id).await.unwrap();
    // A run that is neither yet has no position.
    view.is_some_and(|view| match position.checked_sub(1) {
        None => view.status == RunStatus::Running,
        waits => view.position == waits,
    })
}

#[tokio::test]
async fn queued_run_has_a_queue_position() {
    for backend in backends() {
        let (model, gate) = Fake::gated(Vec::new());
        let (runs, agent) = runs_on(&backend.store, root(&model)).await;
        let mut readers = Vec::new();
        for text in ["one", "two", "three"] {
            readers.push(runs.start(&agent, say(text), StartOptions::default()).await.unwrap());
            let expected = readers.len() - 1;
            let id = readers[expected].id().to_owned();
            until(|| runs_or_waits_at(&runs, &id, expected)).await;
        }
        gate.add_permits(3);
        for (reader, text) in readers.iter_mut().zip(["re: one", "re: two", "re: three"]) {
            assert_eq!(rest(reader).await.0[0].text(), text, "{}", backend.name);
        }
    }
}

#[tokio::test]
async fn runs_of_a_dead_owner_resume_in_order() {
    for backend in backends() {
        let (runs, agent) = runs_on(&backend.store, root(&Fake::echo())).await;
        let dead = dead_owner(&backend.store);
        running(&backend.store, &dead, "hello").await;
        enqueue(&backend.store, &dead, &payload("and then?").await).await;
        let mut reader = runs.reader(&key(), "hello", Cursor::default()).await.unwrap().unwrap();
        let recovery = runs.claim_orphans().await.unwrap();
        assert_eq!(recovery.len(), 2, "{}", backend.name);
        // A message that arrives before they have started is answered after them.
        let newer = tokio::spawn({
            let (runs, agent) = (runs.clone(), agent.clone());
            async move {
                let mut reader = runs.start(&agent, say("last"), StartOptions::default()).await.unwrap();
                rest(&mut reader).await
            }
        });
        until(async || queued(&backend.store).await.len() == 2).await;
        let recovering = tokio::spawn({
            let (runs, source) = (runs.clone(), Arc::new(OneAgent(agent)));
            async move { runs.recover(recovery, source).await }
        });
        let (entries, end) = rest(&mut reader).await;
        assert_eq!((entries[0].text().as_str(), end), ("re: hello", RunOutcome::Done), "{}", backend.name);
        assert_eq!(entries[0].event.invocation_id, "hello");
        assert_eq!(entries.len(), 1, "{}: a reader receives the events of its own run only", backend.name);
        assert_eq!(newer.await.unwrap().1, RunOutcome::Done);
        recovering.abort();
        let messages: Vec<String> = log(&backend.store).await.into_iter().step_by(2).collect();
        assert_eq!(messages, ["user: hello", "user: and then?", "user: last"], "{}", backend.name);
        let all = runs.list(&key(), 9).await.unwrap();
        assert!(all.iter().all(|run| run.status == RunStatus::Done), "{all:?}");
    }
}

#[tokio::test]
async fn many_queued_messages_of_a_dead_owner_are_answered() {
    for backend in backends() {
        let (runs, agent) = runs_on(&backend.store, root(&Fake::echo())).await;
        let dead = dead_owner(&backend.store);
        running(&backend.store, &dead, "0").await;
        let template = payload("NUMBER").await;
        for number in 1..=40 {
            enqueue(&backend.store, &dead, &template.replace("NUMBER", &number.to_string())).await;
        }
        let recovery = runs.claim_orphans().await.unwrap();
        let recovering = tokio::spawn({
            let (runs, source) = (runs.clone(), Arc::new(OneAgent(agent)));
            async move { runs.recover(recovery, source).await }
        });
        until(async || log(&backend.store).await.len() == 82).await;
        until(async || {
            let all = backend.store.runs(&key(), 100).await.unwrap();
            all.iter().all(|run| run.status == RunStatus::Done)
        })
        .await;
        recovering.abort();
        let messages: Vec<String> = log(&backend.store).await.into_iter().step_by(2).collect();
        assert_eq!(messages, (0..=40).map(|number| format!("user: {number}")).collect::<Vec<_>>());
    }
}
