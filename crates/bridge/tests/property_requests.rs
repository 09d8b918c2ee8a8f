//! For any log, the request is legal, fits the budget, and contains the user's messages.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test at its line")]

#[path = "generate/legal.rs"]
mod legal;
#[path = "generate/logs.rs"]
mod logs;
#[path = "generate/prefixes.rs"]
mod prefixes;
#[path = "generate/tally.rs"]
mod tally;
#[path = "generate/view.rs"]
mod view;

use adk::{
    content::Content,
    event::Event,
    notes::CONTINUE_NOTE,
    session::{Session, SessionKey, SessionService},
};
use bridge::{
    Budget, EventsAdapter, SessionServiceAdapter,
    view::{cost, history},
};
use logs::Log;
use proptest::prelude::*;
use provider::{MessagePart, ModelMessage, ModelRequest, Role};
use session::{Commit, Store, memory::MemoryStore};
use std::sync::Arc;
use testkit::property::{CaseTally, check};
use view::AGENT;

fn request(log: &Log) -> ModelRequest {
    view::request(&log.rows, log.budget, log.cut)
}

#[test]
fn request_of_any_log_is_legal_and_fits() {
    let tally = CaseTally::default();
    check(4_000, &logs::log(), |log| {
        let request = request(&log);
        tally::log(&tally, &log);
        tally::request(&tally, &request.messages);
        assert_legal_and_fitting(&request, &log)
    });
    tally.assert_covered();
}

fn assert_legal_and_fitting(request: &ModelRequest, log: &Log) -> Result<(), TestCaseError> {
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

/// The length of the newest exchange with the preamble that it needs.
fn newest_exchange(messages: &[ModelMessage]) -> usize {
    // An interrupted answer and its continue note.
    if texts(&messages[messages.len() - 1..]) == CONTINUE_NOTE {
        return 3;
    }
    let answers = messages.iter().rev().take_while(|message| message.role == Role::Tool).count();
    if answers > 0 { answers + 2 } else { 1 }
}

/// As above through a store, which reads no more than the budget needs.
#[test]
fn request_of_any_stored_log_is_legal_and_fits() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let tally = CaseTally::default();
    check(500, &logs::log(), |log| {
        let service = SessionServiceAdapter::new(Arc::clone(&store), AGENT, log.budget);
        let key = SessionKey::new("app", "user", adk::event::mint_id());
        let session = runtime.block_on(async {
            service.create(key.clone(), serde_json::Map::new()).await.unwrap();
            let stored_key = key.clone();
            for row in &log.rows {
                let id = format!("{}-{}", row.seq.0, row.message.id);
                let message = session::SessionMessage { id, ..row.message.clone() };
                store.commit(&stored_key, Commit::message(message)).await.unwrap();
            }
            service.get(&key).await.unwrap().unwrap()
        });
        let request = view::of_events(session.events_adapter(), log.budget);
        tally.count("tails", session.events().len() < log.rows.len());
        let (user_request, text) = (
            session.events_adapter().user_request().filter(|_| !has_ambiguous_author(session.events())),
            texts(&request.messages),
        );
        tally.count("tasks before the tail", user_request.is_some());
        let begins_with_it = request.messages.get(1).is_some_and(is_by_user);
        if let Some(user_request) = user_request.filter(|_| !begins_with_it) {
            let quoted = text.matches("The request was: ").count() == 1;
            prop_assert!(quoted, "{user_request} is not in {text}");
        }
        assert_legal_and_fitting(&request, &log)
    });
    tally.assert_covered();
}

/// Whether a message has a text of the user.
fn is_by_user(message: &ModelMessage) -> bool {
    let is_text = |part: &MessagePart| matches!(part, MessagePart::Text { note: false, .. });
    message.role == Role::User && message.parts.iter().any(is_text)
}

#[test]
fn user_messages_are_in_the_request() {
    let tally = CaseTally::default();
    let no_limit = Budget::new(u32::MAX, None).unwrap();
    check(2_000, &logs::log(), |log| {
        let window = EventsAdapter::new(AGENT, &log.rows, log.budget, log.cut);
        let (whole, request) = (view::of_events(&window, no_limit), request(&log));
        let (tags, text) = (user_tags(window.all()), texts(&request.messages));
        for tag in &tags {
            prop_assert!(texts(&whole.messages).contains(tag), "{tag} is not in {whole:#?}");
        }
        let conversation = &whole.messages[1..];
        let most = log.budget.max_messages().unwrap_or(usize::MAX);
        let fits = cost::of_messages(conversation) <= log.budget.tokens() && conversation.len() <= most;
        tally.count("histories that fit", fits && !tags.is_empty());
        tally.count("histories that do not", !fits && tags.len() > 1);
        // A request before the window is quoted within the available room.
        prop_assert!(!fits || window.user_request().is_some() || request == whole, "{request:#?}");
        // Older messages may be removed; the last one is there, if only its ends.
        if let Some(last) = tags.last().filter(|_| !has_ambiguous_author(window.all())) {
            let is_shortened = !text.contains(last);
            tally.count("last messages that are shortened", is_shortened);
            prop_assert!(
                !is_shortened || newest_user_text(&request).contains(LEFT_OUT),
                "{last} is not in {text}"
            );
        }
        Ok(())
    });
    tally.assert_covered();
}

/// The mark in a truncated text.
const LEFT_OUT: &str = "characters left out";

/// The newest message with the user's role.
fn newest_user_text(request: &ModelRequest) -> String {
    let newest = request.messages.iter().rfind(|message| message.role == Role::User);
    texts(newest.map(std::slice::from_ref).unwrap_or_default())
}

/// The tags of the user's texts, oldest first.
fn user_tags(events: &[Arc<Event>]) -> Vec<String> {
    let by_user = events.iter().filter(|event| event.is_from_user());
    let contents = by_user.flat_map(|event| &event.content).filter(|content| !has_agent_role(content));
    let parts = contents.flat_map(|content| &content.parts);
    let texts = parts.filter(|part| !part.is_thought()).filter_map(adk::content::Part::as_text);
    let tag = |text: &str| text.split_inclusive('#').take(2).collect::<String>();
    texts.filter(|text| text.starts_with('#')).map(tag).collect()
}

/// Whether an agent's text could be mistaken for the user's.
fn has_ambiguous_author(events: &[Arc<Event>]) -> bool {
    events.iter().any(|event| event.author == AGENT && has_user_role(event))
}

fn has_user_role(event: &Event) -> bool {
    let content = event.content.as_ref().filter(|content| !has_agent_role(content));
    let is_text = |part: &adk::content::Part| part.call().is_none() && part.response().is_none();
    content.is_some_and(|content| content.parts.iter().any(is_text))
}

/// A content with the user as author and the agent's role.
fn has_agent_role(content: &Content) -> bool {
    matches!(content.role.as_deref(), Some("model" | "assistant"))
}

fn texts(messages: &[ModelMessage]) -> String {
    let parts = messages.iter().flat_map(|message| &message.parts);
    let texts = parts.filter_map(|part| match part {
        MessagePart::Text { text, .. } => Some(text.as_str()),
        MessagePart::Thought { .. }
        | MessagePart::Call(_)
        | MessagePart::Result(_)
        | MessagePart::Media(_) => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

#[test]
fn repair_is_idempotent() {
    check(2_000, &logs::log(), |log| {
        let repaired = request(&log).messages.split_off(1);
        prop_assert_eq!(history::repair(repaired.clone()), repaired);
        Ok(())
    });
}
