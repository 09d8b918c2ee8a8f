//! Spec J–M: ids, names and data of calls and responses in rows.

use crate::common::{
    Fake, Recorder, Shared, backends, call, done, key, last_request, log, root, say, seen, start, text,
};
use adk::{
    agent::LlmAgent,
    content::{Content, FunctionCall, FunctionResponse, Part},
    event::Event,
    session::{Session, SessionService},
};
use bridge::{Budget, SessionAdapter, SessionServiceAdapter};
use serde_json::{Value, json};
use session::{Commit, PageRequest, Seq, SessionMessage, ToolCall};

fn function_call(id: Option<&str>, name: &str, args: &Value) -> Part {
    FunctionCall {
        id: id.map(str::to_owned),
        args: args.as_object().cloned(),
        name: name.into(),
        ..FunctionCall::default()
    }
    .into()
}

fn function_response(id: Option<&str>, name: &str, response: &Value) -> Part {
    FunctionResponse {
        id: id.map(str::to_owned),
        name: name.into(),
        response: response.as_object().cloned(),
        ..FunctionResponse::default()
    }
    .into()
}

fn by_agent(role: &str, parts: Vec<Part>) -> Event {
    Event { content: Some(Content::new(role, parts)), ..Event::new("e-1", "root") }
}

/// Appends an event to a new session; returns its row and the session as loaded again.
async fn append(store: &Shared, event: Event) -> (SessionMessage, SessionAdapter) {
    let service = SessionServiceAdapter::new(store.clone(), "root", Budget::default());
    let mut session = service.get_or_create(&key()).await.unwrap();
    service.append(&mut session, event).await.unwrap();
    let page = PageRequest { after: Seq::START, limit: 100, max_bytes: usize::MAX };
    let row = store.read(&key(), page).await.unwrap().pop().unwrap().message;
    (row, service.get(&key()).await.unwrap().unwrap())
}

#[tokio::test]
async fn spec_j1_call_id_is_stored_and_restored_unchanged() {
    for backend in backends() {
        let event =
            by_agent("model", vec![function_call(Some("adk-uuid-123"), "exec", &json!({"cmd": "ls"}))]);
        let (row, session) = append(&backend.store, event.clone()).await;
        let stored = &row.tool_calls[0];
        assert_eq!((stored.id.as_str(), stored.name.as_str()), ("adk-uuid-123", "exec"), "{}", backend.name);
        assert_eq!(serde_json::from_str::<Value>(&stored.input).unwrap(), json!({"cmd": "ls"}));
        assert_eq!(session.events()[0].as_ref(), &event);
    }
}

#[tokio::test]
async fn spec_j2_missing_call_id_is_derived_from_the_tool_name() {
    for backend in backends() {
        let event = by_agent("model", vec![function_call(None, "search", &json!({}))]);
        let (row, _) = append(&backend.store, event).await;
        assert_eq!(row.tool_calls[0].id, "call_search", "{}", backend.name);
    }
}

#[tokio::test]
async fn spec_j2_missing_ids_of_parallel_calls_are_unique() {
    for backend in backends() {
        let search = || function_call(None, "search", &json!({}));
        let named = function_call(Some("call_search_2"), "search", &json!({}));
        let (row, session) = append(&backend.store, by_agent("model", vec![search(), named, search()])).await;
        let ids: Vec<&str> = row.tool_calls.iter().map(|call| call.id.as_str()).collect();
        assert_eq!(ids[0], "call_search", "{}", backend.name);
        assert_eq!(ids[1], "call_search_2");
        assert!(!ids[..2].contains(&ids[2]), "{ids:?}");
        assert_eq!(session.events()[0].calls().count(), 3);
    }
}

#[tokio::test]
async fn spec_j_runner_creates_call_ids_before_it_stores_them() {
    for backend in backends() {
        let twice = vec![
            call("", "weather", json!({"city": "Oslo"})),
            call("", "weather", json!({"city": "Rome"})),
            done(),
        ];
        let model = Fake::new(vec![twice, vec![text("Fine."), done()]]);
        let tool = Recorder::new("weather");
        let agent = start(&backend.store, LlmAgent { tools: vec![tool.adapted()], ..root(&model) }).await;
        agent.run_and_collect(say("weather?")).await.unwrap();
        let ids: Vec<String> = tool.calls().into_iter().map(|(id, _)| id).collect();
        assert!(ids.iter().all(|id| id.starts_with("adk-")), "{}: {ids:?}", backend.name);
        assert_ne!(ids[0], ids[1]);
        let sent = last_request(&model);
        for id in &ids {
            assert!(sent[1].contains(id.as_str()) && sent[2].contains(id.as_str()), "{sent:?}");
            assert!(log(&backend.store).await[1].contains(id.as_str()));
        }
    }
}

#[tokio::test]
async fn spec_k1_response_is_stored_with_id_and_name_and_as_content() {
    for backend in backends() {
        let response = json!({"output": "file.txt"});
        let event = by_agent("user", vec![function_response(Some("adk-uuid-123"), "exec", &response)]);
        let (row, _) = append(&backend.store, event).await;
        let [stored] = &row.tool_calls[..] else { panic!("{row:?}") };
        assert_eq!((stored.id.as_str(), stored.name.as_str()), ("adk-uuid-123", "exec"), "{}", backend.name);
        assert_eq!(stored.output, r#"{"output":"file.txt"}"#);
        assert_eq!(row.content, stored.output);
        assert_eq!(row.role, "tool");
    }
}

#[tokio::test]
async fn spec_k1_parallel_responses_are_all_stored() {
    for backend in backends() {
        let parts = vec![
            function_response(Some("c1"), "exec", &json!({"output": 1})),
            function_response(None, "exec", &json!({"output": 2})),
            function_response(None, "exec", &json!({"output": 3})),
        ];
        let (row, session) = append(&backend.store, by_agent("user", parts)).await;
        let stored: Vec<_> =
            row.tool_calls.iter().map(|call| (call.id.as_str(), call.output.as_str())).collect();
        let expected =
            [("c1", r#"{"output":1}"#), ("call_exec", r#"{"output":2}"#), ("call_exec_2", r#"{"output":3}"#)];
        assert_eq!(stored, expected, "{}", backend.name);
        assert_eq!(row.content, r#"{"output":1}{"output":2}{"output":3}"#);
        assert_eq!(session.events()[0].responses().count(), 3);
    }
}

fn tool_call(id: &str, name: &str, input: &str, output: &str) -> ToolCall {
    let (id, name) = (id.to_owned(), name.to_owned());
    ToolCall { id, name, input: input.into(), output: output.into(), ..ToolCall::default() }
}

/// The session of rows without `meta`.
async fn session_of_rows(store: &Shared, rows: Vec<(&str, &str, Vec<ToolCall>)>) -> SessionAdapter {
    let service = SessionServiceAdapter::new(store.clone(), "root", Budget::default());
    service.get_or_create(&key()).await.unwrap();
    for (number, (role, content, tool_calls)) in rows.into_iter().enumerate() {
        let (role, content) = (role.to_owned(), content.to_owned());
        let message =
            SessionMessage { id: number.to_string(), role, content, tool_calls, ..SessionMessage::default() };
        store.commit(&key(), Commit { messages: vec![message], ..Commit::default() }).await.unwrap();
    }
    service.get(&key()).await.unwrap().unwrap()
}

#[tokio::test]
async fn spec_l1_calls_of_an_assistant_row_become_parts() {
    for backend in backends() {
        let calls = vec![
            tool_call("adk-uuid-123", "exec", r#"{"cmd":"ls"}"#, ""),
            tool_call("adk-uuid-124", "exec", r#"{"cmd":"pwd"}"#, ""),
        ];
        let session = session_of_rows(&backend.store, vec![("assistant", "Looking.", calls)]).await;
        let expected = r#"root: Looking. →exec#adk-uuid-123{"cmd":"ls"} →exec#adk-uuid-124{"cmd":"pwd"}"#;
        assert_eq!(seen(session.events()), [expected], "{}", backend.name);
        assert_eq!(session.events()[0].content.as_ref().unwrap().role.as_deref(), Some("model"));
    }
}

#[tokio::test]
async fn spec_m1_outputs_of_a_row_become_responses_with_the_role_function() {
    // Responses were once stored with the role `user`: they are recognised by their output.
    for role in ["tool", "function", "user"] {
        for backend in backends() {
            let outputs = vec![
                tool_call("adk-uuid-123", "exec", "", r#"{"result":"ok"}"#),
                tool_call("adk-uuid-124", "exec", "", r#"{"result":"too"}"#),
            ];
            let row = (role, r#"{"result":"ok"}{"result":"too"}"#, outputs);
            let session = session_of_rows(&backend.store, vec![row]).await;
            let responses = r#"←exec#adk-uuid-123{"result":"ok"} ←exec#adk-uuid-124{"result":"too"}"#;
            assert_eq!(seen(session.events()), [format!("root: {responses}")], "{}", backend.name);
            assert_eq!(session.events()[0].content.as_ref().unwrap().role.as_deref(), Some("function"));
        }
    }
}

#[tokio::test]
async fn spec_m1_event_of_text_and_responses_has_the_role_function() {
    for backend in backends() {
        let response = function_response(Some("c1"), "exec", &json!({"ok": true}));
        let (_, session) =
            append(&backend.store, by_agent("user", vec![Part::text("done: "), response])).await;
        let content = session.events()[0].content.as_ref().unwrap();
        assert_eq!(content.role.as_deref(), Some("function"), "{}", backend.name);
    }
}

#[tokio::test]
async fn spec_j2_calls_and_responses_without_ids_leave_no_call_open() {
    for backend in backends() {
        let service = SessionServiceAdapter::new(backend.store.clone(), "root", Budget::default());
        let mut session = service.get_or_create(&key()).await.unwrap();
        let search = || function_call(None, "search", &json!({}));
        service.append(&mut session, by_agent("model", vec![search(), search()])).await.unwrap();
        assert_eq!(session.pending().open_calls.len(), 2, "{}", backend.name);
        let result = || function_response(None, "search", &json!({}));
        service.append(&mut session, by_agent("user", vec![result(), result()])).await.unwrap();
        assert_eq!(session.pending().open_calls, [], "{}", backend.name);
        let reloaded = service.get(&key()).await.unwrap().unwrap();
        assert_eq!(reloaded.pending().open_calls, [], "{}", backend.name);
    }
}

#[tokio::test]
async fn spec_m1_row_and_wire_keep_the_wire_role() {
    for backend in backends() {
        let service = SessionServiceAdapter::new(backend.store.clone(), "root", Budget::default());
        let mut session = service.get_or_create(&key()).await.unwrap();
        let event = by_agent("user", vec![function_response(Some("c1"), "exec", &json!({"ok": true}))]);
        let wire = service.append(&mut session, event.clone()).await.unwrap();
        assert_eq!(wire.as_ref(), &event, "{}", backend.name);
        assert_eq!(session.events()[0].content.as_ref().unwrap().role.as_deref(), Some("function"));
    }
}
