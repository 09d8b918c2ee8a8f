//! Spec A–E: the agent, sessions and their events, system instructions, tools.

use crate::common::{
    Fake, Recorder, backends, call, calls, done, key, last_request, log, root, say, seen, start, stub, text,
};
use adk::{
    agent::LlmAgent,
    content::{Content, Part},
    error::TreeError,
    event::Event,
    model::{GenerateContentConfig, Llm, LlmRequest},
    session::{Session, SessionService},
};
use bridge::{Agent, Budget, ModelAdapter, SessionServiceAdapter};
use futures::StreamExt;
use serde_json::{Map, json};
use session::{Commit, PageRequest, Seq, SessionMessage};

#[tokio::test]
async fn spec_a1_agent_has_the_selected_model_and_tools() {
    let model = Fake::echo();
    let tools = vec![stub(json!({"name": "weather"})), stub(json!({"name": "clock"}))];
    let store = backends()[0].store.clone();
    let agent = start(&store, LlmAgent { tools, ..root(&model) }).await;
    assert_eq!(agent.tree().root().agent.model.name(), "fake/m1");
    agent.run_and_collect(say("hi")).await.unwrap();
    let request = model.last_request();
    assert_eq!(request.model, "m1");
    let names: Vec<&str> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["weather", "clock"]);
}

#[tokio::test]
async fn spec_a1_duplicate_agent_names_are_refused() {
    let model = Fake::echo();
    let twins = LlmAgent { sub_agents: vec![root(&model)], ..root(&model) };
    let refused = Agent::new(backends()[0].store.clone(), twins, Budget::default()).unwrap_err();
    assert_eq!(refused, TreeError::DuplicateAgent("root".to_owned()));
}

fn service(store: &crate::common::Shared) -> SessionServiceAdapter {
    SessionServiceAdapter::new(store.clone(), "root", Budget::default())
}

fn user(text: &str) -> Event {
    Event { content: Some(Content::user(text)), ..Event::new("e-1", "user") }
}

#[tokio::test]
async fn spec_b1_stored_session_is_loaded_as_an_adk_session() {
    for backend in backends() {
        let service = service(&backend.store);
        let state = json!({"mood": "good", "user:lang": "de", "temp:draft": 1}).as_object().cloned().unwrap();
        service.create(key(), state).await.unwrap();
        for (id, role, content) in [("1", "user", "hello"), ("2", "assistant", "hi")] {
            let row = SessionMessage {
                id: id.into(),
                role: role.into(),
                content: content.into(),
                ..SessionMessage::default()
            };
            let step = Commit { messages: vec![row], ..Commit::default() };
            backend.store.commit(&key(), step).await.unwrap();
        }
        let session = service.get(&key()).await.unwrap().unwrap();
        assert_eq!(seen(session.events()), ["user: hello", "root: hi"], "{}", backend.name);
        assert_eq!(session.key(), &key());
        assert_eq!(session.state_adapter().get("mood"), Some(&json!("good")));
        assert_eq!(session.state_adapter().get("user:lang"), Some(&json!("de")));
        assert_eq!(session.state().len(), 2, "temporary state is not stored");
        let roles: Vec<_> =
            session.events().iter().filter_map(|event| event.content.as_ref()?.role.clone()).collect();
        assert_eq!(roles, ["user", "model"]);
    }
}

#[tokio::test]
async fn spec_b2_append_stores_messages_and_state_and_updates_the_session() {
    for backend in backends() {
        let service = service(&backend.store);
        let mut session = service.create(key(), Map::new()).await.unwrap();
        let mut event = user("hello");
        event.actions.state_delta = json!({"n": 1, "app:v": 2, "temp:t": 3}).as_object().cloned().unwrap();
        let appended = service.append(&mut session, event).await.unwrap();
        assert!(!appended.actions.state_delta.contains_key("temp:t"), "{}", backend.name);
        assert_eq!(session.state_adapter().get("temp:t"), Some(&json!(3)));
        assert_eq!(seen(session.events()), ["user: hello"]);
        let again = service.get(&key()).await.unwrap().unwrap();
        assert_eq!(again.events(), session.events());
        assert_eq!(again.state(), json!({"n": 1, "app:v": 2}).as_object().unwrap());
    }
}

#[tokio::test]
async fn spec_c1_user_event_is_stored_and_visible_in_the_session_object() {
    for backend in backends() {
        let service = service(&backend.store);
        let mut session = service.create(key(), Map::new()).await.unwrap();
        service.append(&mut session, user("hello")).await.unwrap();
        assert_eq!(log(&backend.store).await, ["user: hello"], "{}", backend.name);
        assert_eq!(seen(session.events_adapter().all()), ["user: hello"]);
        assert_eq!(session.events_adapter().at(0).unwrap().content, Some(Content::user("hello")));
    }
}

#[tokio::test]
async fn spec_c1_repeated_event_is_visible_once() {
    for backend in backends() {
        let service = service(&backend.store);
        let mut session = service.create(key(), Map::new()).await.unwrap();
        let mut unaware = service.get(&key()).await.unwrap().unwrap();
        let event = user("hello");
        for _ in 0..2 {
            service.append(&mut session, event.clone()).await.unwrap();
        }
        assert_eq!(seen(session.events()), ["user: hello"], "{}", backend.name);
        // The first attempt was stored, but not acknowledged.
        service.append(&mut unaware, event).await.unwrap();
        assert_eq!(unaware.events(), session.events());
        assert_eq!(log(&backend.store).await, ["user: hello"]);
    }
}

#[tokio::test]
async fn spec_c2_events_are_in_order_of_insertion() {
    for backend in backends() {
        let service = service(&backend.store);
        let mut session = service.create(key(), Map::new()).await.unwrap();
        let texts: Vec<String> = (0..20).map(|n| format!("message {n}")).collect();
        for text in &texts {
            // All with the same timestamp: the order does not depend on the clock.
            service.append(&mut session, Event { timestamp: 1.0, ..user(text) }).await.unwrap();
        }
        let expected: Vec<String> = texts.iter().map(|text| format!("user: {text}")).collect();
        assert_eq!(seen(session.events()), expected, "{}", backend.name);
        assert_eq!(log(&backend.store).await, expected);
    }
}

#[tokio::test]
async fn spec_c3_state_delta_alone_is_stored_without_a_message() {
    for backend in backends() {
        let service = service(&backend.store);
        let mut session = service.create(key(), Map::new()).await.unwrap();
        let mut event = Event::new("e-1", "user");
        event.actions.state_delta = json!({"n": 1}).as_object().cloned().unwrap();
        service.append(&mut session, event).await.unwrap();
        assert!(session.events().is_empty(), "{}", backend.name);
        assert!(log(&backend.store).await.is_empty());
        assert_eq!(session.state()["n"], 1);
        assert_eq!(service.get(&key()).await.unwrap().unwrap().state()["n"], 1);
        let page = PageRequest { after: Seq::START, limit: 10, max_bytes: usize::MAX };
        let changes = backend.store.state_changes(&key(), page).await.unwrap();
        assert_eq!((changes.len(), changes[0].seq, &changes[0].key), (1, Seq(1), &"n".to_owned()));
    }
}

#[tokio::test]
async fn spec_c3_temporary_state_delta_alone_is_no_message() {
    for backend in backends() {
        let service = service(&backend.store);
        let mut session = service.create(key(), Map::new()).await.unwrap();
        let mut event = Event::new("e-1", "root");
        event.actions.state_delta = json!({"temp:n": 1}).as_object().cloned().unwrap();
        service.append(&mut session, event).await.unwrap();
        assert!(session.events().is_empty(), "{}", backend.name);
        assert!(log(&backend.store).await.is_empty());
        assert_eq!(session.state()["temp:n"], 1);
        assert!(service.get(&key()).await.unwrap().unwrap().state().is_empty());
    }
}

async fn ask(instruction: Option<Content>) -> Vec<String> {
    let model = Fake::echo();
    let adapter = ModelAdapter::new(model.clone(), "m1", Budget::default());
    let request = LlmRequest {
        contents: vec![Content::user("hello").into()],
        config: GenerateContentConfig { system_instruction: instruction, ..GenerateContentConfig::default() },
        ..LlmRequest::default()
    };
    adapter.generate(request, false).collect::<Vec<_>>().await;
    last_request(&model)
}

#[tokio::test]
async fn spec_d1_instruction_is_the_first_message() {
    assert_eq!(ask(Some(Content::user("Be kind."))).await, ["system: Be kind.", "user: hello"]);
}

#[tokio::test]
async fn spec_d1_every_request_of_a_turn_starts_with_the_instruction() {
    let model = Fake::new(vec![calls("c1", "clock", json!({}))]);
    let tools = vec![stub(json!({"name": "clock"}))];
    let agent = LlmAgent { instruction: "Be kind.".into(), tools, ..root(&model) };
    let agent = start(&backends()[0].store, agent).await;
    agent.run_and_collect(say("hello")).await.unwrap();
    assert_eq!(model.requests().len(), 2);
    for request in model.requests() {
        assert_eq!(crate::common::messages(&request.messages)[0], "system: Be kind.");
    }
}

#[tokio::test]
async fn spec_d2_without_instruction_only_the_contents_are_sent() {
    assert_eq!(ask(None).await, ["user: hello"]);
    assert_eq!(ask(Some(Content::default())).await, ["user: hello"]);
}

#[tokio::test]
async fn spec_d3_instruction_texts_are_joined_by_newlines() {
    let parts = vec![Part::text("Be kind."), Part::text("Be brief.")];
    assert_eq!(ask(Some(Content::new("user", parts))).await, ["system: Be kind.\nBe brief.", "user: hello"]);
}

#[tokio::test]
async fn spec_e1_adapter_converts_a_call_and_its_result() {
    for backend in backends() {
        let model =
            Fake::new(vec![calls("c1", "weather", json!({"city": "Oslo"})), vec![text("Cold."), done()]]);
        let tool = Recorder::new("weather");
        let agent = start(&backend.store, LlmAgent { tools: vec![tool.adapted()], ..root(&model) }).await;
        assert_eq!(agent.run_and_collect(say("weather?")).await.unwrap(), "Cold.", "{}", backend.name);
        assert_eq!(tool.calls(), [("c1".to_owned(), json!({"city": "Oslo"}))]);
        assert_eq!(
            last_request(&model),
            [
                "user: weather?",
                r#"assistant: →weather#c1{"city":"Oslo"}"#,
                r#"tool: ←weather#c1{"given":{"city":"Oslo"}}"#,
            ]
        );
    }
}

#[tokio::test]
async fn spec_e1_parallel_calls_all_run_although_one_fails() {
    for backend in backends() {
        let model = Fake::new(vec![
            vec![
                call("c1", "weather", json!({"city": "Oslo"})),
                call("c2", "broken", json!({})),
                call("c3", "weather", json!({"city": "Rome"})),
                call("c4", "weather", json!({"city": 7})),
                done(),
            ],
            vec![text("Mixed."), done()],
        ]);
        let tool = Recorder::new("weather");
        let broken = stub(json!({"name": "broken", "fail": "out of order"}));
        let agent =
            start(&backend.store, LlmAgent { tools: vec![tool.adapted(), broken], ..root(&model) }).await;
        agent.run_and_collect(say("weather?")).await.unwrap();
        assert_eq!(tool.calls().len(), 2, "{}: the third call does not fit the schema", backend.name);
        let answers = last_request(&model).pop().unwrap();
        assert!(answers.starts_with(r#"tool: ←weather#c1{"given":{"city":"Oslo"}} ←broken#c2{"error":"#));
        assert!(
            answers.contains(r#"←weather#c3{"given":{"city":"Rome"}} ←weather#c4{"error":"#),
            "{answers}"
        );
        assert!(answers.contains("out of order"));
    }
}
