//! The session cache: a cached session is not loaded again, and changes by other processes invalidate it.

use crate::common::{
    Backend, Fake, RecordingStore, Shared, backends, calls, done, key, last_request, named_within, root, say,
    session_key, start, start_within, stub, text,
};
use adk::{
    agent::LlmAgent,
    content::Content,
    error::RunError,
    runner::RunRequest,
    session::{Session, SessionService},
};
use bridge::{Agent, Budget};
use serde_json::json;
use session::{Commit, Scope, StateChange};
use std::sync::Arc;

fn set(scope: Scope, key: &str, value: &str) -> StateChange {
    StateChange { scope, key: key.into(), value: value.into() }
}

/// An agent whose instruction contains the state of each scope.
fn with_state_in_instruction(model: &Arc<Fake>) -> LlmAgent {
    LlmAgent { instruction: "{app:a?} {user:u?} {s?}".into(), ..root(model) }
}

/// An agent after one turn, and its recording store.
async fn after_a_turn(backend: &Backend, root: LlmAgent) -> (Arc<RecordingStore>, Agent) {
    let recording = RecordingStore::on(&backend.store);
    let store: Shared = recording.clone();
    let agent = start(&store, root).await;
    agent.run_and_collect(say("one")).await.unwrap();
    recording.loads();
    (recording, agent)
}

#[tokio::test]
async fn second_turn_starts_from_the_cache() {
    for backend in backends() {
        let model = Fake::echo();
        let (recording, agent) = after_a_turn(&backend, root(&model)).await;
        for words in ["two", "three"] {
            assert_eq!(agent.run_and_collect(say(words)).await.unwrap(), format!("re: {words}"));
        }
        assert_eq!((recording.loads(), recording.lookups()), (0, 0), "{}", backend.name);
        let steps = recording.commits();
        assert_eq!(steps.len(), 6, "two commits per turn");
        assert_eq!(
            last_request(&model),
            ["user: one", "assistant: re: one", "user: two", "assistant: re: two", "user: three"]
        );
    }
}

#[tokio::test]
async fn turn_of_another_process_invalidates_the_cache() {
    for backend in backends() {
        let model = Fake::echo();
        let (recording, agent) = after_a_turn(&backend, root(&model)).await;
        let elsewhere = start(&backend.again(), root(&Fake::echo())).await;
        elsewhere.run_and_collect(say("two")).await.unwrap();
        assert_eq!(agent.run_and_collect(say("three")).await.unwrap(), "re: three");
        assert_eq!(
            last_request(&model),
            ["user: one", "assistant: re: one", "user: two", "assistant: re: two", "user: three"],
            "{}",
            backend.name
        );
        assert_eq!(recording.loads(), 1, "{}: the cached session was stale", backend.name);
    }
}

#[tokio::test]
async fn concurrent_state_changes_are_visible_in_every_scope() {
    for backend in backends() {
        let model = Fake::echo();
        let (recording, agent) = after_a_turn(&backend, with_state_in_instruction(&model)).await;
        let other = session::SessionKey::new("app", "ann", "other");
        agent.sessions().get_or_create(&session_key("other")).await.unwrap();
        recording.loads();
        let shared = vec![set(Scope::App, "a", "apple"), set(Scope::User, "u", "plum")];
        backend.store.commit(&other, Commit { state: shared, ..Commit::default() }).await.unwrap();
        agent.run_and_collect(say("two")).await.unwrap();
        assert_eq!(last_request(&model)[0], "system: apple plum ", "{}", backend.name);
        assert_eq!(recording.loads(), 0, "the first commit returns the shared state");
        let own = vec![set(Scope::Session, "s", "pear")];
        backend.store.commit(&key(), Commit { state: own, ..Commit::default() }).await.unwrap();
        agent.run_and_collect(say("three")).await.unwrap();
        assert_eq!(last_request(&model)[0], "system: apple plum pear", "{}", backend.name);
        assert_eq!(recording.loads(), 1);
    }
}

#[tokio::test]
async fn cached_session_keeps_session_state_and_drops_temporary_state() {
    for backend in backends() {
        let model = Fake::echo();
        let instruction = "{kept?} {temp:passing?}".into();
        let (recording, agent) = after_a_turn(&backend, LlmAgent { instruction, ..root(&model) }).await;
        let state = json!({"kept": "here", "temp:passing": "now"}).as_object().unwrap().clone();
        let request = RunRequest { state_delta: state, ..say("two") };
        agent.run_and_collect(request).await.unwrap();
        assert_eq!(last_request(&model)[0], "system: here now", "{}", backend.name);
        agent.run_and_collect(say("three")).await.unwrap();
        assert_eq!(last_request(&model)[0], "system: here ", "{}", backend.name);
        assert_eq!(recording.loads(), 0);
    }
}

#[tokio::test]
async fn deleted_session_is_not_found_and_a_recreated_one_is_empty() {
    for backend in backends() {
        let model = Fake::echo();
        let (_, agent) = after_a_turn(&backend, root(&model)).await;
        backend.store.delete(&key()).await.unwrap();
        let gone = agent.run_and_collect(say("two")).await;
        assert!(matches!(gone, Err(RunError::SessionNotFound(_))), "{}: {gone:?}", backend.name);
        agent.sessions().get_or_create(&key()).await.unwrap();
        agent.run_and_collect(say("three")).await.unwrap();
        backend.store.delete(&key()).await.unwrap();
        agent.sessions().get_or_create(&key()).await.unwrap();
        agent.run_and_collect(say("four")).await.unwrap();
        assert_eq!(last_request(&model), ["user: four"], "{}", backend.name);
    }
}

#[tokio::test]
async fn session_with_an_open_question_is_not_cached() {
    for backend in backends() {
        let model = Fake::new(vec![vec![text("Yes?"), done()], calls("c1", "danger", json!({}))]);
        let tools = vec![stub(json!({"name": "danger", "confirm": true}))];
        let (recording, agent) = after_a_turn(&backend, LlmAgent { tools, ..root(&model) }).await;
        agent.run_and_collect(say("go")).await.unwrap();
        assert_eq!(recording.loads(), 0);
        agent.run_and_collect(say("something else")).await.unwrap();
        assert!(recording.loads() > 0, "{}", backend.name);
    }
}

#[tokio::test]
async fn read_between_turns_leaves_the_session_in_the_cache() {
    for backend in backends() {
        let (recording, agent) = after_a_turn(&backend, root(&Fake::echo())).await;
        let session = agent.sessions().get(&key()).await.unwrap().unwrap();
        assert_eq!(session.events().len(), 2);
        assert_eq!(recording.loads(), 1);
        agent.run_and_collect(say("two")).await.unwrap();
        assert_eq!(recording.loads(), 0, "{}", backend.name);
    }
}

#[tokio::test]
async fn history_above_its_budget_stays_in_the_cache_from_its_front() {
    for backend in backends() {
        let model = Fake::echo();
        let budget = Budget::new(256, None).unwrap();
        let recording = RecordingStore::on(&backend.store);
        let store: Shared = recording.clone();
        let agent = start_within(&store, named_within("root", &model, budget), budget).await;
        let long = "many words ".repeat(20);
        recording.loads();
        for _ in 0..12 {
            agent.run_and_collect(RunRequest::message(key(), Content::user(long.clone()))).await.unwrap();
        }
        // The first turn reads the new session.
        assert_eq!(recording.loads(), 1, "{}", backend.name);
        let session = agent.sessions().get(&key()).await.unwrap().unwrap();
        assert!(session.events().len() < 12, "{}: {} events", backend.name, session.events().len());
        assert_eq!(recording.lookups(), 0, "{}: the request is within the loaded tail", backend.name);
    }
}
