//! The tool `recall` and ADK's memory tools: scope, neighbours, taint, and the prefix of requests.

use crate::common::{
    Backend, Fake, Shared, backends, calls, done, key, last_request, log, root, say, session_key, start, text,
};
use adk::{
    agent::LlmAgent,
    content::Content,
    runner::RunRequest,
    session::{Session, SessionKey},
    tool::Tool,
};
use bridge::{
    Agent, LazyMemory, Memory, ToolAdapter,
    memory::{adk_tools::LoadMemory, recall::Recall},
    tools::guard::UNTRUSTED,
};
use insta::{allow_duplicates, assert_snapshot};
use serde_json::{Value, json};
use session::{Commit, Scope, StateChange};
use std::sync::Arc;

fn memory(store: &Shared) -> LazyMemory {
    let memory = LazyMemory::default();
    memory.open(store.clone());
    memory
}

fn adapted(tool: impl tools::Tool + 'static) -> Vec<Arc<dyn Tool>> {
    vec![Arc::new(ToolAdapter::new(Arc::new(tool)))]
}

/// Sends messages to a session; the model echoes them.
async fn talk(backend: &Backend, key: &SessionKey, messages: &[&str]) {
    let agent = Agent::new(backend.again(), root(&Fake::echo()), bridge::Budget::default()).unwrap();
    agent.sessions().get_or_create(key).await.unwrap();
    for text in messages {
        let request = RunRequest::message(key.clone(), Content::user(*text));
        agent.run_and_collect(request).await.unwrap();
    }
}

/// Lets the agent call a tool once, and returns the result without times.
async fn called(store: &Shared, tool: Vec<Arc<dyn Tool>>, (name, args): (&str, Value)) -> Value {
    let model = Fake::new(vec![calls("c1", name, args), vec![text("Ok."), done()]]);
    let agent = start(store, LlmAgent { tools: tool, ..root(&model) }).await;
    agent.run_and_collect(say("look it up: zebra")).await.unwrap();
    let session = agent.sessions().get_or_create(&key()).await.unwrap();
    let response = Session::events(&session).iter().rev().find_map(|event| event.responses().next().cloned());
    let mut value = Value::Object(response.unwrap().response.unwrap());
    for result in value.get_mut("results").and_then(Value::as_array_mut).into_iter().flatten() {
        for message in result["messages"].as_array_mut().unwrap() {
            message.as_object_mut().unwrap().shift_remove("time");
        }
    }
    for entry in value.get_mut("memories").and_then(Value::as_array_mut).into_iter().flatten() {
        entry.as_object_mut().unwrap().shift_remove("timestamp");
    }
    value
}

async fn recalled(backend: &Backend, args: Value) -> Value {
    let tools = adapted(Recall::new(memory(&backend.store)));
    called(&backend.again(), tools, ("recall", args)).await
}

#[tokio::test]
async fn recall_returns_a_message_with_its_neighbours() {
    for backend in backends() {
        let other = session_key("other");
        talk(&backend, &other, &["hello", "my zebra is called Zoe", "what else"]).await;
        let found = recalled(&backend, json!({"query": "zebra"})).await;
        allow_duplicates! {
            assert_snapshot!(found, @r#"{"results":[{"session":"other","messages":[{"seq":2,"author":"root","text":"re: hello"},{"seq":3,"author":"user","text":"my zebra is called Zoe"},{"seq":4,"author":"root","text":"re: my zebra is called Zoe"},{"seq":5,"author":"user","text":"what else"},{"seq":6,"author":"root","text":"re: what else"}]}]}"#);
        }
    }
}

#[tokio::test]
async fn recall_finds_nothing_of_other_users_and_apps() {
    for backend in backends() {
        let mine = key();
        for (app, user) in [(mine.app_name.as_str(), "bob"), ("foreign", mine.user_id.as_str())] {
            talk(&backend, &SessionKey::new(app, user, "zoo"), &["my zebra is called Zoe"]).await;
        }
        let nothing = json!({"results": []});
        assert_eq!(recalled(&backend, json!({"query": "zebra Zoe"})).await, nothing, "{}", backend.name);
        for args in [json!({"session": "zoo"}), json!({"session": "zoo", "from": 1, "to": 9})] {
            let found = recalled(&backend, args).await;
            assert_eq!(found["results"], json!([]), "{}: {found}", backend.name);
            assert_eq!(found["note"], "this user has no conversation \"zoo\" with this app");
        }
    }
}

#[tokio::test]
async fn recall_reads_a_range_in_pages() {
    for backend in backends() {
        let other = session_key("other");
        let texts: Vec<String> = (0..15).map(|n| format!("message {n}")).collect();
        talk(&backend, &other, &texts.iter().map(String::as_str).collect::<Vec<_>>()).await;
        let first = recalled(&backend, json!({"session": "other", "from": 1, "to": 30})).await;
        let seqs = |found: &Value| -> Vec<u64> {
            let messages = found["results"][0]["messages"].as_array().unwrap();
            messages.iter().map(|message| message["seq"].as_u64().unwrap()).collect()
        };
        assert_eq!(
            (seqs(&first).len(), first["next_from"].as_u64()),
            (20, seqs(&first).last().map(|seq| seq + 1))
        );
        let newest = recalled(&backend, json!({"session": "other"})).await;
        assert_eq!(seqs(&newest).len(), 10);
        assert_eq!(newest["title"], "message 0");
    }
}

#[tokio::test]
async fn recalled_text_of_an_untrusted_session_taints_the_session() {
    for backend in backends() {
        let (tainted, clean) = (session_key("tainted"), session_key("clean"));
        talk(&backend, &tainted, &["an okapi from the web"]).await;
        talk(&backend, &clean, &["a giraffe from the user"]).await;
        let mark = StateChange {
            scope: Scope::Session,
            key: UNTRUSTED.into(),
            value: "fetch of https://x.example".into(),
        };
        let cleared = StateChange { value: Value::Null, ..mark.clone() };
        for change in [mark, cleared] {
            backend
                .store
                .commit(&tainted, Commit { state: vec![change], ..Commit::default() })
                .await
                .unwrap();
        }
        let state = async || {
            let agent = start(&backend.again(), root(&Fake::echo())).await;
            let session = agent.sessions().get_or_create(&key()).await.unwrap();
            Session::state(&session).get(UNTRUSTED).cloned()
        };
        recalled(&backend, json!({"query": "giraffe"})).await;
        assert_eq!(state().await, None, "{}", backend.name);
        recalled(&backend, json!({"query": "okapi"})).await;
        let source = "recalled from an earlier conversation (fetch of https://x.example)";
        assert_eq!(state().await, Some(source.into()), "{}", backend.name);
    }
}

#[tokio::test]
async fn load_memory_finds_only_sessions_that_were_added() {
    for backend in backends() {
        let other = session_key("other");
        talk(&backend, &other, &["my zebra is called Zoe"]).await;
        let load = async || {
            let tools = adapted(LoadMemory::new(memory(&backend.store)));
            called(&backend.again(), tools, ("load_memory", json!({"query": "zebra"}))).await
        };
        assert_eq!(load().await, json!({"memories": []}), "{}", backend.name);
        Memory::new(backend.store.clone()).add_session(&other).await.unwrap();
        let loaded = load().await;
        allow_duplicates! {
            assert_snapshot!(loaded, @r#"{"memories":[{"content":{"role":"user","parts":[{"text":"my zebra is called Zoe"}]},"author":"user"},{"content":{"role":"model","parts":[{"text":"re: my zebra is called Zoe"}]},"author":"root"}]}"#);
        }
    }
}

#[tokio::test]
async fn preloaded_memory_stays_behind_the_message_that_it_was_found_for() {
    for backend in backends() {
        let other = session_key("other");
        talk(&backend, &other, &["my zebra is called Zoe"]).await;
        Memory::new(backend.store.clone()).add_session(&other).await.unwrap();
        let model = Fake::echo();
        let store = backend.again();
        let agent = start(&store, root(&model)).await.with_preloaded_memory(memory(&store));
        agent.run_and_collect(say("how is my zebra?")).await.unwrap();
        let first = last_request(&model);
        assert_eq!(first.len(), 1, "{first:?}");
        assert!(
            first[0].contains("my zebra is called Zoe") && first[0].starts_with("user: how is my zebra?"),
            "{first:?}"
        );
        // The memory changes; what was shown does not.
        backend.store.delete(&other).await.unwrap();
        agent.run_and_collect(say("and the giraffe?")).await.unwrap();
        let second = last_request(&model);
        assert_eq!(second[0], first[0], "{}", backend.name);
        assert_eq!(second.last().unwrap(), "user: and the giraffe?");
        assert_eq!(log(&store).await[0], "user: how is my zebra?", "the content is that of the user");
    }
}
