//! Runs on tasks of their own: readers come, go and come back.

use crate::common::{
    ELSEWHERE, Fake, Shared, Tap, both, calls, dead_owner, done, key, log, say, say_streaming, start,
    store_key, stub, text, until,
};
use adk::agent::LlmAgent;
use bridge::{
    Agent, Budget, Runs,
    runs::{End, Entry, Place, Reader, RunStatus, Terms},
};
use serde_json::json;
use session::{Append, Enter, NewRun};
use std::{sync::Arc, time::Duration};

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

impl Said for Entry {
    fn said(&self) -> String {
        self.event.content.as_ref().map(adk::content::Content::said).unwrap_or_default()
    }
}

async fn rest(reader: &mut Reader) -> (Vec<Entry>, End) {
    let mut entries = Vec::new();
    loop {
        match reader.next().await.unwrap() {
            Ok(entry) => entries.push(entry),
            Err(end) => return (entries, end),
        }
    }
}

fn ids(entries: &[Entry]) -> Vec<String> {
    entries.iter().map(|entry| entry.place.to_id()).collect()
}

async fn runs_on(store: &Shared, root: LlmAgent) -> (Runs, Agent) {
    (Runs::new(store.clone()), start(store, root).await)
}

#[tokio::test]
async fn a_reader_that_comes_back_anywhere_sees_every_event_once() {
    for place in both() {
        let (runs, agent) = runs_on(&place.store, root(&talkative())).await;
        let mut first = runs.start(&agent, say_streaming("time?"), Terms::default()).await.unwrap();
        let (all, end) = rest(&mut first).await;
        assert_eq!(end, End::Done);
        // A call, its answer, four pieces and the whole.
        assert_eq!(all.len(), 7, "{}", place.name);
        for seen in 0..=all.len() {
            let last = all[..seen].last().map(|entry| entry.place.to_id());
            let after = last.and_then(|id| Place::from_id(&id)).unwrap_or_default();
            let mut again = runs.reader(&key(), first.id(), after).await.unwrap().unwrap();
            assert_eq!(ids(&rest(&mut again).await.0), ids(&all[seen..]));
        }
    }
}

#[tokio::test]
async fn after_a_restart_the_log_has_what_was_stored_of_a_run() {
    for place in both() {
        let (runs, agent) = runs_on(&place.store, root(&talkative())).await;
        let mut first = runs.start(&agent, say_streaming("time?"), Terms::default()).await.unwrap();
        let (all, _) = rest(&mut first).await;
        runs.start(&agent, say("and now?"), Terms::default()).await.unwrap().next().await.unwrap().unwrap();
        runs.idle().await;
        let restarted = Runs::new(place.store.clone());
        let stored: Vec<&Entry> = all.iter().filter(|entry| entry.place.partial == 0).collect();
        for seen in 0..=stored.len() {
            let after = stored[..seen].last().map(|entry| entry.place).unwrap_or_default();
            let mut reader = restarted.reader(&key(), first.id(), after).await.unwrap().unwrap();
            let (entries, end) = rest(&mut reader).await;
            let json: Vec<&str> = entries.iter().map(|entry| &*entry.json).collect();
            assert_eq!(json, stored[seen..].iter().map(|entry| &*entry.json).collect::<Vec<_>>());
            assert_eq!(end, End::Done, "{}", place.name);
        }
        assert!(restarted.reader(&key(), "never", Place::default()).await.unwrap().is_none());
    }
}

#[tokio::test]
async fn a_run_goes_on_when_its_reader_leaves() {
    for place in both() {
        let (model, gate) = Fake::gated(vec![vec![text("late"), done()]]);
        let (runs, agent) = runs_on(&place.store, root(&model)).await;
        let reader = runs.start(&agent, say("hello"), Terms::default()).await.unwrap();
        let id = reader.id().to_owned();
        drop(reader);
        gate.add_permits(1);
        runs.idle().await;
        let view = runs.view(&key(), &id).await.unwrap().unwrap();
        assert_eq!(view.status, RunStatus::Done, "{}", place.name);
        let mut again = runs.reader(&key(), &id, Place::default()).await.unwrap().unwrap();
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

fn keyed(key: &str) -> Terms {
    Terms { idempotency_key: Some(key.to_owned()), ..Terms::default() }
}

/// A run that was written down under the key `once`, and of which nothing else was.
async fn register(store: &Shared, owner: &str) {
    let run = NewRun {
        id: "registered".to_owned(),
        key: store_key(),
        status: RunStatus::Queued,
        idempotency_key: Some("once".to_owned()),
        owner: owner.to_owned(),
    };
    store.start(run).await.unwrap();
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
async fn a_request_that_is_repeated_to_another_process_waits_for_the_one_that_was_first() {
    for place in both() {
        let (tap, here, agent) = held_up(&place, &Fake::echo()).await;
        let (there, other) = runs_on(&place.again(), root(&Fake::echo())).await;
        let mut first = here.start(&agent, say("pay 10"), keyed("once")).await.unwrap();
        until(async || tap.loads() > 0).await;
        let repeated = tokio::spawn(async move {
            let mut reader = there.start(&other, say("pay 10"), keyed("once")).await.unwrap();
            (reader.id().to_owned(), rest(&mut reader).await)
        });
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(!repeated.is_finished(), "{}", place.name);
        tap.hold_loads(false);
        let (id, (entries, end)) = repeated.await.unwrap();
        assert_eq!((id.as_str(), end), (first.id(), End::Done), "{}", place.name);
        assert_eq!(ids(&entries), ids(&rest(&mut first).await.0));
        assert_eq!(log(&place.store).await, ["user: pay 10", "root: re: pay 10"], "{}", place.name);
    }
}

#[tokio::test]
async fn a_run_is_accepted_when_its_message_is_stored_and_not_when_its_key_is() {
    for place in both() {
        for terms in [Terms::default(), keyed("once")] {
            let (tap, runs, agent) = held_up(&place, &Fake::echo()).await;
            let before = log(&place.store).await.len();
            let reader = runs.start(&agent, say("keep me"), terms).await.unwrap();
            let (asked, id) = (runs.clone(), reader.id().to_owned());
            let accepted = tokio::spawn(async move { asked.stored(&key(), &id).await.unwrap().unwrap() });
            until(async || tap.loads() > 0).await;
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            assert!(!accepted.is_finished(), "{}", place.name);
            tap.hold_loads(false);
            assert_ne!(accepted.await.unwrap().status, RunStatus::Queued, "{}", place.name);
            assert_eq!(log(&place.store).await[before], "user: keep me");
            runs.idle().await;
        }
    }
}

#[tokio::test]
async fn a_run_with_a_key_that_has_to_wait_is_accepted_with_its_ticket() {
    for place in both() {
        let (model, gate) = Fake::gated(Vec::new());
        let (runs, agent) = runs_on(&place.store, root(&model)).await;
        runs.start(&agent, say("one"), Terms::default()).await.unwrap();
        until(async || !model.requests().is_empty()).await;
        let waits = runs.start(&agent, say("two"), keyed("once")).await.unwrap();
        let view = runs.stored(&key(), waits.id()).await.unwrap().unwrap();
        assert_eq!((view.status, view.position), (RunStatus::Queued, Some(0)), "{}", place.name);
        gate.add_permits(2);
        runs.idle().await;
    }
}

#[tokio::test]
async fn a_run_whose_process_died_before_its_message_was_stored_is_taken_up_by_the_repeated_request() {
    for place in both() {
        let (runs, agent) = runs_on(&place.store, root(&Fake::echo())).await;
        register(&place.store, &dead_owner().await).await;
        let mut taken = runs.start(&agent, say("again"), keyed("once")).await.unwrap();
        assert_eq!(rest(&mut taken).await.1, End::Done, "{}", place.name);
        assert_eq!(taken.id(), "registered");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_of_a_process_elsewhere_that_stores_no_message_is_taken_up_after_a_while() {
    let place = crate::common::Place::memory();
    let (runs, agent) = runs_on(&place.store, root(&Fake::echo())).await;
    register(&place.store, ELSEWHERE).await;
    let began = tokio::time::Instant::now();
    let mut taken = runs.start(&agent, say("again"), keyed("once")).await.unwrap();
    assert!(began.elapsed() >= Duration::from_secs(5), "it might have been alive");
    assert_eq!((rest(&mut taken).await.1, taken.id()), (End::Done, "registered"));
}

#[tokio::test]
async fn a_run_that_is_taken_up_twice_at_the_same_time_is_one_run() {
    for place in both() {
        let (runs, agent) = runs_on(&place.store, root(&Fake::echo())).await;
        register(&place.store, &dead_owner().await).await;
        let again = || runs.start(&agent, say("again"), keyed("once"));
        let (one, other) = tokio::join!(again(), again());
        for reader in [one, other] {
            let mut reader = reader.unwrap();
            assert_eq!((rest(&mut reader).await.1, reader.id()), (End::Done, "registered"), "{}", place.name);
        }
        assert_eq!(log(&place.store).await, ["user: again", "root: re: again"], "{}", place.name);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_are_answered_in_the_order_in_which_they_were_begun() {
    for place in both() {
        let (runs, agent) = runs_on(&place.store, root(&Fake::echo())).await;
        let texts: Vec<String> = (0..16).map(|number| format!("user: {number}")).collect();
        for text in &texts {
            let terms = if text.ends_with('3') { keyed(text) } else { Terms::default() };
            runs.start(&agent, say(&text["user: ".len()..]), terms).await.unwrap();
        }
        runs.idle().await;
        let said: Vec<String> = log(&place.store).await.into_iter().step_by(2).collect();
        assert_eq!(said, texts, "{}", place.name);
    }
}

#[tokio::test]
async fn a_run_that_two_processes_take_up_is_answered_once() {
    for place in both() {
        let (tap, here, agent) = held_up(&place, &Fake::echo()).await;
        let (there, other) = runs_on(&place.again(), root(&Fake::echo())).await;
        register(&place.store, &dead_owner().await).await;
        let mut slow = here.start(&agent, say("pay 10"), keyed("once")).await.unwrap();
        let mut quick = there.start(&other, say("pay 10"), keyed("once")).await.unwrap();
        assert_eq!((slow.id(), rest(&mut quick).await.1), ("registered", End::Done), "{}", place.name);
        tap.hold_loads(false);
        assert!(matches!(rest(&mut slow).await.1, End::Failed { .. }), "{}", place.name);
        assert_eq!(log(&place.store).await, ["user: pay 10", "root: re: pay 10"], "{}", place.name);
        let view = here.view(&key(), "registered").await.unwrap().unwrap();
        assert_eq!(view.status, RunStatus::Done);
    }
}

#[tokio::test]
async fn a_cancelled_run_ends_and_the_next_message_is_answered() {
    for place in both() {
        let (model, gate) = Fake::gated(vec![vec![text("never"), done()]]);
        let (runs, agent) = runs_on(&place.store, root(&model)).await;
        let mut cut = runs.start(&agent, say("hello"), Terms::default()).await.unwrap();
        until(|| async { !model.requests().is_empty() }).await;
        let mut waits = runs.start(&agent, say("and?"), Terms::default()).await.unwrap();
        let mut given_up = runs.start(&agent, say("or not"), Terms::default()).await.unwrap();
        until(|| async { crate::common::tickets(&place.store).await.len() == 2 }).await;
        assert_eq!((runs.running(), runs.is_running(&key())), (3, true));
        assert!(runs.cancel(&key(), given_up.id()));
        assert_eq!(rest(&mut given_up).await.1, End::Cancelled);
        assert!(runs.cancel(&key(), cut.id()));
        assert_eq!(rest(&mut cut).await.1, End::Cancelled, "{}", place.name);
        gate.add_permits(1);
        assert_eq!(rest(&mut waits).await.1, End::Done);
        assert!(!runs.cancel(&key(), cut.id()) && !runs.cancel(&key(), "never"));
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
            readers.push(runs.start(&agent, say(text), Terms::default()).await.unwrap());
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
async fn a_run_that_a_crash_cut_goes_on_from_its_last_stored_event() {
    for place in both() {
        let (runs, agent) = runs_on(&place.store, root(&Fake::echo())).await;
        let owner = dead_owner().await;
        let run = NewRun {
            id: "cut".to_owned(),
            key: store_key(),
            status: RunStatus::Running,
            idempotency_key: None,
            owner: owner.clone(),
        };
        let mut said = adk::event::Event::new("e-1", "user");
        said.content = Some(adk::content::Content::user("hello"));
        let step = Append {
            message: Some(bridge::row::save(&said).unwrap()),
            enters: Some(Enter { owner, ttl: Duration::from_hours(1), follows: None }),
            starts: Some(run),
            ..Append::default()
        };
        place.store.append(&store_key(), step).await.unwrap();
        let mut reader = runs.reader(&key(), "cut", Place::default()).await.unwrap().unwrap();
        runs.take_up(&agent, &key()).await.unwrap();
        let (entries, end) = rest(&mut reader).await;
        assert_eq!((entries[0].said().as_str(), end), ("re: hello", End::Done), "{}", place.name);
        assert_eq!(entries[0].event.invocation_id, "e-1");
        let view = runs.view(&key(), "cut").await.unwrap().unwrap();
        assert_eq!(view.status, RunStatus::Done);
    }
}
