//! Whatever the log holds, the request that leaves is legal, fits, and says what the user said.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

#[path = "generate/legal.rs"]
mod legal;
#[path = "generate/logs.rs"]
mod logs;
#[path = "generate/run.rs"]
mod run;
#[path = "generate/tally.rs"]
mod tally;
#[path = "generate/view.rs"]
mod view;

use adk::{
    content::Content,
    session::{Session, SessionKey, SessionService},
};
use bridge::{EventsAdapter, SessionServiceAdapter, cost, history};
use logs::Log;
use proptest::prelude::*;
use provider::{Message, Part, Request, Role};
use run::check;
use session::{Append, Store, memory::MemoryStore};
use std::sync::Arc;
use tally::Tally;
use view::AGENT;

fn request(log: &Log) -> Request {
    view::request(&log.rows, log.budget, log.cut)
}

#[test]
fn any_log_makes_a_request_that_is_legal_and_fits() {
    let tally = Tally::default();
    check(4_000, &logs::log(), |log| {
        let request = request(&log);
        tally.log(&log);
        tally.request(&request.messages);
        assert_lawful(&request, &log)
    });
    tally.judge();
}

fn assert_lawful(request: &Request, log: &Log) -> Result<(), TestCaseError> {
    let (system, messages) = request.messages.split_first().unwrap();
    prop_assert_eq!(system.role, Role::System);
    prop_assert!(!messages.is_empty());
    let fault = legal::fault(messages);
    prop_assert!(fault.is_none(), "{}", fault.unwrap_or_default());
    let weight = cost::of_messages(messages);
    prop_assert!(weight <= log.budget.tokens(), "{weight} of {}: {messages:#?}", log.budget.tokens());
    let most = log.budget.max_messages().unwrap_or(usize::MAX);
    prop_assert!(messages.len() <= most.max(newest_exchange(messages)), "{} messages", messages.len());
    for (api, body, _) in view::encodings(request) {
        let violations = testkit::legal::check(api, &body);
        prop_assert!(violations.is_empty(), "{api:?}: {violations:#?} in {body:#}");
    }
    Ok(())
}

/// The length of the newest exchange with the opening that it needs.
fn newest_exchange(messages: &[Message]) -> usize {
    let answers = messages.iter().rev().take_while(|message| message.role == Role::Tool).count();
    if answers > 0 { answers + 2 } else { 1 }
}

/// The same through a store, which reads no more than the budget asks for.
#[test]
fn any_log_in_a_store_makes_a_request_that_is_legal_and_fits() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let tally = Tally::default();
    check(500, &logs::log(), |log| {
        let service = SessionServiceAdapter::new(Arc::clone(&store), AGENT, log.budget);
        let key = SessionKey::new("app", "user", adk::event::mint_id());
        let session = runtime.block_on(async {
            service.create(key.clone(), serde_json::Map::new()).await.unwrap();
            let stored_key = session::SessionKey::new(&key.app_name, &key.user_id, &key.session_id);
            for row in &log.rows {
                let id = format!("{}-{}", row.seq.0, row.message.id);
                let message = Some(session::Message { id, ..row.message.clone() });
                store.append(&stored_key, Append { message, ..Append::default() }).await.unwrap();
            }
            service.get(&key).await.unwrap().unwrap()
        });
        let request = view::of_events(session.events(), log.budget);
        tally.count("tails", session.events().len() < log.rows.len());
        assert_lawful(&request, &log)
    });
    tally.judge();
}

#[test]
fn what_the_user_said_is_in_the_request() {
    let tally = Tally::default();
    check(2_000, &logs::log(), |log| {
        let request = request(&log);
        let said = texts(&request.messages);
        let left_out = said.contains("characters left out");
        let opened = said.contains("[Earlier messages are not shown.]");
        let tags = user_tags(&log);
        tally.count("nothing left out", !left_out && !opened && !tags.is_empty());
        tally.count("something left out", left_out || opened);
        let most = log.budget.max_messages();
        for (newer, tag) in tags.iter().rev().enumerate() {
            // Older messages may have left the window; the last one never does.
            let may_be_gone = newer > 0 && (opened || left_out || most.is_some() || log.cut);
            prop_assert!(may_be_gone || left_out || said.contains(tag), "{tag} is not in {said}");
        }
        Ok(())
    });
    tally.judge();
}

/// The marks of the user's texts in the window, oldest first.
fn user_tags(log: &Log) -> Vec<String> {
    let adapter = EventsAdapter::new(AGENT, &log.rows, log.budget, log.cut);
    let by_user = adapter.all().iter().filter(|event| event.is_from_user());
    let contents = by_user.flat_map(|event| &event.content).filter(|content| !is_in_agents_mouth(content));
    let parts = contents.flat_map(|content| &content.parts);
    let texts = parts.filter(|part| !part.is_thought()).filter_map(adk::content::Part::as_text);
    let tag = |text: &str| text.split_inclusive('#').take(2).collect::<String>();
    texts.filter(|text| text.starts_with('#')).map(tag).collect()
}

/// What is the user's by its author and the agent's by its role.
fn is_in_agents_mouth(content: &Content) -> bool {
    matches!(content.role.as_deref(), Some("model" | "assistant"))
}

fn texts(messages: &[Message]) -> String {
    let parts = messages.iter().flat_map(|message| &message.parts);
    let texts = parts.filter_map(|part| match part {
        Part::Text { text, .. } => Some(text.as_str()),
        Part::Thought { .. } | Part::Call(_) | Part::Result(_) | Part::Media(_) => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

#[test]
fn what_is_repaired_needs_no_second_repair() {
    check(2_000, &logs::log(), |log| {
        let repaired = request(&log).messages.split_off(1);
        prop_assert_eq!(history::repair(repaired.clone()), repaired);
        Ok(())
    });
}
