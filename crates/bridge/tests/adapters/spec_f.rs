//! F: how much of the history is shown, and whose words it is.

use crate::common::{
    Fake, Place, Shared, asked, both, calls, done, key, named_within, say, seen, start_within, store_key,
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

/// Fills the session with numbered messages of equal weight, and says what each weighs.
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
async fn spec_f1_messages_are_taken_from_the_newest_on_until_the_budget_is_used_up() {
    for place in both() {
        let weight = fill(&place.store, 40).await;
        let shown = newest(&place.store, Budget::new(400, None).unwrap()).await;
        assert_eq!(shown.len(), (400 / weight) as usize, "{}", place.name);
        assert!(shown.last().unwrap().starts_with("user: 0039"));
        assert!(shown[0].starts_with(&format!("user: {:04}", 40 - shown.len())));
    }
}

#[tokio::test]
async fn spec_f1_what_is_left_out_does_not_reach_the_model() {
    for place in both() {
        fill(&place.store, 40).await;
        let model = Fake::echo();
        let budget = Budget::new(400, None).unwrap();
        let agent = start_within(&place.store, named_within("root", &model, budget), budget).await;
        agent.run_and_collect(say("and now?")).await.unwrap();
        let sent = asked(&model).join("\n");
        assert!(sent.contains("0039") && sent.contains("and now?"), "{}: {sent}", place.name);
        assert!(!sent.contains("0010"), "{sent}");
        assert!(cost::of_messages(&model.last_request().messages) <= 400);
    }
}

#[tokio::test]
async fn spec_f1_what_must_be_there_and_does_not_fit_is_shortened_where_everybody_sees_it() {
    for place in both() {
        let model = Fake::new(vec![calls("c1", "report", json!({})), vec![text("Long."), done()]]);
        let budget = Budget::new(LEAST_TOKENS, None).unwrap();
        let tools = vec![stub(json!({"name": "report", "response": {"body": "word ".repeat(5_000)}}))];
        let root = LlmAgent { tools, ..named_within("root", &model, budget) };
        let agent = start_within(&place.store, root, budget).await;
        assert_eq!(agent.run_and_collect(say("report!")).await.unwrap(), "Long.", "{}", place.name);
        let request = model.last_request();
        assert!(cost::of_messages(&request.messages) <= LEAST_TOKENS);
        let call = request.messages.iter().flat_map(provider::ModelMessage::calls).next().unwrap();
        let answer = request.messages.iter().flat_map(provider::ModelMessage::results).next().unwrap();
        assert_eq!((call.id.as_str(), answer.id.as_str()), ("c1", "c1"));
        assert!(answer.response.to_string().contains("characters left out"), "{}", answer.response);
    }
}

#[tokio::test]
async fn spec_f2_a_budget_of_zero_is_the_default() {
    assert_eq!(Budget::new(0, None).unwrap().tokens(), 32_000);
    assert_eq!(Budget::new(0, None).unwrap(), Budget::default());
    let place = Place::memory();
    let weight = fill(&place.store, 1_500).await;
    let shown = newest(&place.store, Budget::new(0, None).unwrap()).await;
    assert_eq!(shown.len(), (DEFAULT_TOKENS / weight) as usize);
}

/// The author under which a row without one is shown, by its role.
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
fn spec_f3_a_row_without_an_author_is_the_users_or_the_agents() {
    assert_eq!(author("anna", "user"), "user");
    assert_eq!(author("anna", "assistant"), "anna");
}

#[test]
fn spec_f4_the_role_model_is_nobodys_name() {
    assert_eq!(author("anna", "model"), "anna");
    assert_eq!(author("", "model"), "lango-agent");
}

#[test]
fn spec_f5_an_unknown_role_and_a_tool_are_the_root_agents() {
    for role in ["narrator", "", "tool", "function"] {
        assert_eq!(author("anna", role), "anna", "{role:?}");
        assert_eq!(author("", role), "lango-agent", "{role:?}");
    }
}

#[tokio::test]
async fn spec_f3_f4_f5_rows_without_authors_are_the_agents_own_words_in_the_request() {
    for place in both() {
        let model = Fake::echo();
        let agent =
            start_within(&place.store, named_within("anna", &model, Budget::default()), Budget::default())
                .await;
        for (id, role) in [("1", "user"), ("2", "model"), ("3", "user"), ("4", "narrator")] {
            let row = SessionMessage {
                id: id.into(),
                role: role.into(),
                content: role.into(),
                ..SessionMessage::default()
            };
            place
                .store
                .commit(&store_key(), Commit { messages: vec![row], ..Commit::default() })
                .await
                .unwrap();
        }
        agent.run_and_collect(say("go")).await.unwrap();
        let sent = asked(&model);
        assert_eq!(sent[..3], ["user: user", "assistant: model", "user: user narrator go"], "{}", place.name);
    }
}

#[tokio::test]
async fn spec_f6_the_configured_budget_is_the_one_that_holds() {
    for place in both() {
        let weight = fill(&place.store, 60).await;
        for tokens in [300, 1_000] {
            let budget = Budget::new(tokens, None).unwrap();
            assert_eq!(budget.tokens(), tokens);
            let shown = newest(&place.store, budget).await;
            assert_eq!(shown.len(), (tokens / weight) as usize, "{}", place.name);
        }
    }
    assert_eq!(Budget::new(LEAST_TOKENS - 1, None), Err(BudgetError::TooSmall(LEAST_TOKENS - 1)));
    assert!(Budget::new(LEAST_TOKENS, None).is_ok());
}

#[tokio::test]
async fn spec_f7_a_cap_on_messages_holds_and_is_off_unless_set() {
    for place in both() {
        fill(&place.store, 30).await;
        assert_eq!(newest(&place.store, Budget::default()).await.len(), 30, "{}", place.name);
        let capped = newest(&place.store, Budget::new(0, Some(7)).unwrap()).await;
        assert_eq!(capped.len(), 7);
        assert!(capped[0].starts_with("user: 0023"));
    }
    assert_eq!(Budget::new(0, Some(0)), Err(BudgetError::NoMessages));
}

#[tokio::test]
async fn spec_f7_the_cap_never_parts_a_call_from_its_answers() {
    for place in both() {
        let service = SessionServiceAdapter::new(place.store.clone(), "root", Budget::default());
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
        // The cap cuts between the calls and their answers.
        let shown = newest(&place.store, Budget::new(0, Some(1)).unwrap()).await;
        assert_eq!(shown, ["root: →f#c1{} →f#c2{}", "root: ←f#c1{} ←f#c2{}"], "{}", place.name);
        service.append(&mut session, user("thanks")).await.unwrap();
        let shown = newest(&place.store, Budget::new(0, Some(2)).unwrap()).await;
        assert_eq!(shown, ["user: thanks"], "{}", place.name);
    }
}
