//! A session that was used lately is not read again, and whatever happened to it elsewhere is seen all the same.

use crate::common::{
    Fake, Place, Shared, Tap, asked, both, calls, done, key, named_within, root, say, session_key, start,
    start_within, store_key, stub, text,
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

/// An agent whose instruction shows the state of each scope.
fn telling(model: &Arc<Fake>) -> LlmAgent {
    LlmAgent { instruction: "{app:a?} {user:u?} {s?}".into(), ..root(model) }
}

/// After a turn of its own, an agent and what looks at its store.
async fn after_a_turn(place: &Place, root: LlmAgent) -> (Arc<Tap>, Agent) {
    let tap = Tap::on(&place.store);
    let store: Shared = tap.clone();
    let agent = start(&store, root).await;
    agent.run_and_collect(say("one")).await.unwrap();
    tap.loads();
    (tap, agent)
}

#[tokio::test]
async fn a_turn_after_another_reads_nothing() {
    for place in both() {
        let model = Fake::echo();
        let (tap, agent) = after_a_turn(&place, root(&model)).await;
        for words in ["two", "three"] {
            assert_eq!(agent.run_and_collect(say(words)).await.unwrap(), format!("re: {words}"));
        }
        assert_eq!((tap.loads(), tap.lookups()), (0, 0), "{}", place.name);
        let steps = tap.commits();
        assert_eq!(steps.len(), 6, "two for each turn");
        assert_eq!(
            asked(&model),
            ["user: one", "assistant: re: one", "user: two", "assistant: re: two", "user: three"]
        );
    }
}

#[tokio::test]
async fn a_turn_of_another_process_is_seen() {
    for place in both() {
        let model = Fake::echo();
        let (tap, agent) = after_a_turn(&place, root(&model)).await;
        let elsewhere = start(&place.again(), root(&Fake::echo())).await;
        elsewhere.run_and_collect(say("two")).await.unwrap();
        assert_eq!(agent.run_and_collect(say("three")).await.unwrap(), "re: three");
        assert_eq!(
            asked(&model),
            ["user: one", "assistant: re: one", "user: two", "assistant: re: two", "user: three"],
            "{}",
            place.name
        );
        assert_eq!(tap.loads(), 1, "{}: what was in memory was out of date", place.name);
    }
}

#[tokio::test]
async fn state_that_changed_meanwhile_is_seen_in_every_scope() {
    for place in both() {
        let model = Fake::echo();
        let (tap, agent) = after_a_turn(&place, telling(&model)).await;
        let other = session::SessionKey::new("app", "ann", "other");
        agent.sessions().get_or_create(&session_key("other")).await.unwrap();
        tap.loads();
        let shared = vec![set(Scope::App, "a", "apple"), set(Scope::User, "u", "plum")];
        place.store.commit(&other, Commit { state: shared, ..Commit::default() }).await.unwrap();
        agent.run_and_collect(say("two")).await.unwrap();
        assert_eq!(asked(&model)[0], "system: apple plum ", "{}", place.name);
        assert_eq!(tap.loads(), 0, "shared state comes with the first step");
        let own = vec![set(Scope::Session, "s", "pear")];
        place.store.commit(&store_key(), Commit { state: own, ..Commit::default() }).await.unwrap();
        agent.run_and_collect(say("three")).await.unwrap();
        assert_eq!(asked(&model)[0], "system: apple plum pear", "{}", place.name);
        assert_eq!(tap.loads(), 1);
    }
}

#[tokio::test]
async fn state_of_the_session_stays_and_what_was_for_one_turn_does_not() {
    for place in both() {
        let model = Fake::echo();
        let instruction = "{kept?} {temp:passing?}".into();
        let (tap, agent) = after_a_turn(&place, LlmAgent { instruction, ..root(&model) }).await;
        let state = json!({"kept": "here", "temp:passing": "now"}).as_object().unwrap().clone();
        let request = RunRequest { state_delta: state, ..say("two") };
        agent.run_and_collect(request).await.unwrap();
        assert_eq!(asked(&model)[0], "system: here now", "{}", place.name);
        agent.run_and_collect(say("three")).await.unwrap();
        assert_eq!(asked(&model)[0], "system: here ", "{}", place.name);
        assert_eq!(tap.loads(), 0);
    }
}

#[tokio::test]
async fn a_session_that_was_deleted_is_not_found_and_one_made_again_is_new() {
    for place in both() {
        let model = Fake::echo();
        let (_, agent) = after_a_turn(&place, root(&model)).await;
        place.store.delete(&store_key()).await.unwrap();
        let gone = agent.run_and_collect(say("two")).await;
        assert!(matches!(gone, Err(RunError::SessionNotFound(_))), "{}: {gone:?}", place.name);
        agent.sessions().get_or_create(&key()).await.unwrap();
        agent.run_and_collect(say("three")).await.unwrap();
        place.store.delete(&store_key()).await.unwrap();
        agent.sessions().get_or_create(&key()).await.unwrap();
        agent.run_and_collect(say("four")).await.unwrap();
        assert_eq!(asked(&model), ["user: four"], "{}", place.name);
    }
}

#[tokio::test]
async fn a_session_that_waits_for_a_person_is_read() {
    for place in both() {
        let model = Fake::new(vec![vec![text("Yes?"), done()], calls("c1", "danger", json!({}))]);
        let tools = vec![stub(json!({"name": "danger", "confirm": true}))];
        let (tap, agent) = after_a_turn(&place, LlmAgent { tools, ..root(&model) }).await;
        agent.run_and_collect(say("go")).await.unwrap();
        assert_eq!(tap.loads(), 0);
        agent.run_and_collect(say("something else")).await.unwrap();
        assert!(tap.loads() > 0, "{}", place.name);
    }
}

#[tokio::test]
async fn what_was_read_in_between_does_not_take_the_session_out_of_memory() {
    for place in both() {
        let (tap, agent) = after_a_turn(&place, root(&Fake::echo())).await;
        let session = agent.sessions().get(&key()).await.unwrap().unwrap();
        assert_eq!(session.events().len(), 2);
        assert_eq!(tap.loads(), 1);
        agent.run_and_collect(say("two")).await.unwrap();
        assert_eq!(tap.loads(), 0, "{}", place.name);
    }
}

#[tokio::test]
async fn a_history_that_outgrew_its_budget_is_read_from_where_the_budget_says() {
    for place in both() {
        let model = Fake::echo();
        let budget = Budget::new(256, None).unwrap();
        let tap = Tap::on(&place.store);
        let store: Shared = tap.clone();
        let agent = start_within(&store, named_within("root", &model, budget), budget).await;
        let long = "many words ".repeat(20);
        tap.loads();
        let mut reads = 0;
        for _ in 0..12 {
            agent.run_and_collect(RunRequest::message(key(), Content::user(long.clone()))).await.unwrap();
            reads += tap.loads();
        }
        assert!((2..12).contains(&reads), "{}: read {reads} times", place.name);
        assert_eq!(tap.lookups(), 0, "{}: what the user said is in what was read", place.name);
    }
}
