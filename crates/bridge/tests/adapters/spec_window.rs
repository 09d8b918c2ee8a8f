//! Spec F: the window of the history, and the authors of rows.

use crate::common::{
    Backend, Fake, Shared, backends, calls, done, key, last_request, named_within, say, seen, start_within,
    stub, text,
};
use adk::{
    agent::LlmAgent,
    content::{Content, FunctionCall, FunctionResponse, Part},
    event::Event,
    session::{Session, SessionService},
};
use bridge::{
    Budget, EventsAdapter, SessionServiceAdapter,
    view::{
        budget::{BudgetError, DEFAULT_TOKENS, LEAST_TOKENS},
        cost,
    },
};
use serde_json::json;
use session::{Commit, SessionMessage, StoredMessage};

fn user(text: &str) -> Event {
    Event { content: Some(Content::user(text)), ..Event::new("e-1", "user") }
}

/// Fills the session with numbered messages of equal cost and returns the cost of one.
async fn fill(store: &Shared, count: usize) -> u32 {
    let service = SessionServiceAdapter::new(store.clone(), "root", Budget::default());
    let mut session = service.get_or_create(&key()).await.unwrap();
    let texts = (0..count).map(|n| format!("{n:04} {}", "some words ".repeat(8)));
    for text in texts {
        service.append(&mut session, user(&text)).await.unwrap();
    }
    cost::of_content(&Content::user(format!("{:04} {}", 0, "some words ".repeat(8))))
}

async fn newest(store: &Shared, budget: Budget) -> Vec<String> {
    let service = SessionServiceAdapter::new(store.clone(), "root", budget);
    seen(service.get(&key()).await.unwrap().unwrap().events())
}

#[tokio::test]
async fn spec_f1_window_extends_from_the_newest_message_until_the_budget_is_used() {
    for backend in backends() {
        let weight = fill(&backend.store, 40).await;
        let window = newest(&backend.store, Budget::new(400, None).unwrap()).await;
        assert_eq!(window.len(), (400 / weight) as usize, "{}", backend.name);
        assert!(window.last().unwrap().starts_with("user: 0039"));
        assert!(window[0].starts_with(&format!("user: {:04}", 40 - window.len())));
    }
}

#[tokio::test]
async fn spec_f1_messages_outside_the_window_are_not_sent() {
    for backend in backends() {
        fill(&backend.store, 40).await;
        let model = Fake::echo();
        let budget = Budget::new(400, None).unwrap();
        let agent = start_within(&backend.store, named_within("root", &model, budget), budget).await;
        agent.run_and_collect(say("and now?")).await.unwrap();
        let sent = last_request(&model).join("\n");
        assert!(sent.contains("0039") && sent.contains("and now?"), "{}: {sent}", backend.name);
        assert!(!sent.contains("0010"), "{sent}");
        assert!(cost::of_messages(&model.last_request().messages) <= 400);
    }
}

#[tokio::test]
async fn spec_f1_exchange_larger_than_the_budget_is_truncated_with_a_mark() {
    for backend in backends() {
        let model = Fake::new(vec![calls("c1", "report", json!({})), vec![text("Long."), done()]]);
        let budget = Budget::new(LEAST_TOKENS, None).unwrap();
        let tools = vec![stub(json!({"name": "report", "response": {"body": "word ".repeat(5_000)}}))];
        let root = LlmAgent { tools, ..named_within("root", &model, budget) };
        let agent = start_within(&backend.store, root, budget).await;
        assert_eq!(agent.run_and_collect(say("report!")).await.unwrap(), "Long.", "{}", backend.name);
        let request = model.last_request();
        assert!(cost::of_messages(&request.messages) <= LEAST_TOKENS);
        let call = request.messages.iter().flat_map(provider::ModelMessage::calls).next().unwrap();
        let answer = request.messages.iter().flat_map(provider::ModelMessage::results).next().unwrap();
        assert_eq!((call.id.as_str(), answer.id.as_str()), ("c1", "c1"));
        assert!(answer.response.to_string().contains("characters left out"), "{}", answer.response);
    }
}

#[tokio::test]
async fn spec_f2_zero_budget_is_the_default() {
    assert_eq!(Budget::new(0, None).unwrap().tokens(), 32_000);
    assert_eq!(Budget::new(0, None).unwrap(), Budget::default());
    let backend = Backend::memory();
    let weight = fill(&backend.store, 1_500).await;
    let window = newest(&backend.store, Budget::new(0, None).unwrap()).await;
    assert_eq!(window.len(), (DEFAULT_TOKENS / weight) as usize);
}

/// The author of a row without one, by its role.
fn author(root: &str, role: &str) -> String {
    let message = SessionMessage {
        id: "1".into(),
        role: role.into(),
        content: "x".into(),
        ..SessionMessage::default()
    };
    let rows = [StoredMessage { seq: session::Seq(1), message }];
    let events = EventsAdapter::new(root, &rows, Budget::default(), false);
    events.at(0).unwrap().author.clone()
}

#[test]
fn spec_f3_missing_author_is_the_user_or_the_agent() {
    assert_eq!(author("anna", "user"), "user");
    assert_eq!(author("anna", "assistant"), "anna");
}

#[test]
fn spec_f4_role_model_is_not_an_author() {
    assert_eq!(author("anna", "model"), "anna");
    assert_eq!(author("", "model"), "lango-agent");
}

#[test]
fn spec_f5_unknown_role_and_tool_belong_to_the_root_agent() {
    for role in ["narrator", "", "tool", "function"] {
        assert_eq!(author("anna", role), "anna", "{role:?}");
        assert_eq!(author("", role), "lango-agent", "{role:?}");
    }
}

#[tokio::test]
async fn spec_f3_f4_f5_rows_without_author_are_sent_as_the_agents_messages() {
    for backend in backends() {
        let model = Fake::echo();
        let agent =
            start_within(&backend.store, named_within("anna", &model, Budget::default()), Budget::default())
                .await;
        for (id, role) in [("1", "user"), ("2", "model"), ("3", "user"), ("4", "narrator")] {
            let row = SessionMessage {
                id: id.into(),
                role: role.into(),
                content: role.into(),
                ..SessionMessage::default()
            };
            backend.store.commit(&key(), Commit { messages: vec![row], ..Commit::default() }).await.unwrap();
        }
        agent.run_and_collect(say("go")).await.unwrap();
        let sent = last_request(&model);
        assert_eq!(
            sent[..3],
            ["user: user", "assistant: model", "user: user narrator go"],
            "{}",
            backend.name
        );
    }
}

#[tokio::test]
async fn spec_f6_configured_budget_applies() {
    for backend in backends() {
        let weight = fill(&backend.store, 60).await;
        for tokens in [300, 1_000] {
            let budget = Budget::new(tokens, None).unwrap();
            assert_eq!(budget.tokens(), tokens);
            let window = newest(&backend.store, budget).await;
            assert_eq!(window.len(), (tokens / weight) as usize, "{}", backend.name);
        }
    }
    assert_eq!(Budget::new(LEAST_TOKENS - 1, None), Err(BudgetError::TooSmall(LEAST_TOKENS - 1)));
    assert!(Budget::new(LEAST_TOKENS, None).is_ok());
}

#[tokio::test]
async fn spec_f7_message_cap_holds_and_is_off_by_default() {
    for backend in backends() {
        fill(&backend.store, 30).await;
        assert_eq!(newest(&backend.store, Budget::default()).await.len(), 30, "{}", backend.name);
        let capped = newest(&backend.store, Budget::new(0, Some(7)).unwrap()).await;
        assert_eq!(capped.len(), 7);
        assert!(capped[0].starts_with("user: 0023"));
    }
    assert_eq!(Budget::new(0, Some(0)), Err(BudgetError::NoMessages));
}

#[tokio::test]
async fn spec_f7_message_cap_never_separates_a_call_from_its_results() {
    for backend in backends() {
        let service = SessionServiceAdapter::new(backend.store.clone(), "root", Budget::default());
        let mut session = service.get_or_create(&key()).await.unwrap();
        service.append(&mut session, user("two things")).await.unwrap();
        let call = |id: &str| {
            Part::from(FunctionCall { id: Some(id.into()), name: "f".into(), ..FunctionCall::default() })
        };
        let answer = |id: &str| {
            Part::from(FunctionResponse {
                id: Some(id.into()),
                name: "f".into(),
                ..FunctionResponse::default()
            })
        };
        let asks = Content::new("model", vec![call("c1"), call("c2")]);
        let answers = Content::new("user", vec![answer("c1"), answer("c2")]);
        for content in [asks, answers] {
            service
                .append(&mut session, Event { content: Some(content), ..Event::new("e-1", "root") })
                .await
                .unwrap();
        }
        // The cap would separate the calls from their results.
        let window = newest(&backend.store, Budget::new(0, Some(1)).unwrap()).await;
        assert_eq!(window, ["root: →f#c1{} →f#c2{}", "root: ←f#c1{} ←f#c2{}"], "{}", backend.name);
        service.append(&mut session, user("thanks")).await.unwrap();
        let window = newest(&backend.store, Budget::new(0, Some(2)).unwrap()).await;
        assert_eq!(window, ["user: thanks"], "{}", backend.name);
    }
}
