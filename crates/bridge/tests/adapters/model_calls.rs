//! Recipes of model calls: every request can be rebuilt from the log, byte for byte, also after a restart.

use crate::common::{
    Backend, Fake, Shared, backends, call, calls, done, failure, key, named, named_within, root, say, start,
    start_within, stub, team, text,
};
use adk::{
    agent::{IncludeContents, LlmAgent},
    content::{Content, FunctionResponse, Part},
    runner::RunRequest,
};
use bridge::{
    Agent, Budget, ModelAdapter,
    agent::inspect::{BodyCheck, CallSelection, RebuiltCall},
    model::{ModelSettings, ModelTarget},
};
use provider::{
    Error, ModelRequest, Omission, Provider, ProviderEndpoint, RemoteProvider, SecretString, StreamEvent,
    WireApi,
};
use serde_json::json;
use session::RecipeQuery;
use std::sync::Arc;
use testkit::{
    ProviderApi,
    mutated_streams::{self, StreamServer},
};

async fn rebuilt(agent: &Agent) -> Vec<RebuiltCall> {
    let mut calls = agent.model_calls(&key(), CallSelection::Newest(1_000)).await.unwrap();
    calls.reverse();
    calls
}

/// Checks that the calls of the session are these requests, by an agent that has nothing in memory.
async fn check(store: &Shared, root: LlmAgent, requests: &[ModelRequest], name: &str) {
    let agent = Agent::new(store.clone(), root, Budget::default()).unwrap();
    let calls = rebuilt(&agent).await;
    assert_eq!(calls.len(), requests.len(), "{name}");
    for (call, request) in calls.iter().zip(requests) {
        assert_eq!(&call.request, request, "{name}: {}", call.answer.id);
        assert_eq!(call.check, BodyCheck::Verified, "{name}: {}", call.answer.id);
        assert!(call.same_view);
    }
}

/// An error for which a fallback is asked.
fn denied() -> Vec<StreamEvent> {
    vec![StreamEvent::Error(Error::Auth { provider: "first".to_owned(), message: "denied".to_owned() })]
}

fn late(id: &str, name: &str) -> RunRequest {
    let part = Part::from(FunctionResponse::new(id, name, json!({"status": "ready"})));
    RunRequest::message(key(), Content::new("user", vec![part]))
}

#[tokio::test]
async fn requests_with_parallel_calls_and_state_are_rebuilt() {
    for Backend { store, name, .. } in backends() {
        let model = Fake::new(vec![
            vec![text("Looking."), call("c", "clock", json!({})), call("c", "clock", json!({})), done()],
            vec![text("It is noon."), done()],
        ]);
        let tools = vec![stub(json!({"name": "clock", "response": {"time": "noon"}}))];
        let instruction = "The user is {user:name?}.".to_owned();
        let team = LlmAgent { tools, instruction, ..root(&model) };
        let agent = start(&store, team.clone()).await;
        agent.run_and_collect(say("what time is it?")).await.unwrap();
        // The system instruction changes with the state, and the earlier requests do not.
        let mut request = say("and now?");
        request.state_delta.insert("user:name".to_owned(), json!("Ann"));
        agent.run_and_collect(request).await.unwrap();
        let requests = model.requests();
        assert!(format!("{:?}", requests[2]).contains("The user is Ann"), "{:?}", requests[2]);
        check(&store, team, &requests, name).await;
    }
}

#[tokio::test]
async fn requests_of_transferred_agents_are_rebuilt() {
    for Backend { store, name, .. } in backends() {
        let model = Fake::new(vec![calls("t", "transfer_to_agent", json!({"agent_name": "helper"}))]);
        let agent = start(&store, team(&model)).await;
        agent.run_and_collect(say("let somebody else do it")).await.unwrap();
        agent.run_and_collect(say("still there?")).await.unwrap();
        check(&store, team(&model), &model.requests(), name).await;
    }
}

#[tokio::test]
async fn requests_of_a_sliding_window_are_rebuilt() {
    for Backend { store, name, .. } in backends() {
        let (model, budget) = (Fake::echo(), Budget::new(300, None).unwrap());
        let agent = start_within(&store, named_within("root", &model, budget), budget).await;
        for number in 0..20 {
            agent.run_and_collect(say(&format!("{number} {}", "some words ".repeat(12)))).await.unwrap();
            if number == 11 {
                // The next turn reads its window from the store.
                agent.sessions().evict(&key());
            }
        }
        check(&store, named_within("root", &model, budget), &model.requests(), name).await;
    }
}

#[tokio::test]
async fn requests_without_earlier_turns_and_with_late_results_are_rebuilt() {
    for Backend { store, name, .. } in backends() {
        let model = Fake::new(vec![calls("job", "build", json!({}))]);
        let budget = Budget::new(256, None).unwrap();
        let tools = vec![stub(json!({"name": "build", "pending": true, "response": {"status": "started"}}))];
        let agent_with = || LlmAgent { tools: tools.clone(), ..named_within("root", &model, budget) };
        let agent = start_within(&store, agent_with(), budget).await;
        agent.run_and_collect(say("build it")).await.unwrap();
        for number in 0..6 {
            agent.run_and_collect(say(&format!("{number} {}", "some words ".repeat(12)))).await.unwrap();
        }
        agent.run_and_collect(late("job", "build")).await.unwrap();
        check(&store, agent_with(), &model.requests(), name).await;
    }
    for Backend { store, name, .. } in backends() {
        let model = Fake::echo();
        let forgetful = || LlmAgent { include_contents: IncludeContents::None, ..named("root", &model) };
        let agent = start(&store, forgetful()).await;
        agent.run_and_collect(say("one")).await.unwrap();
        agent.run_and_collect(say("two")).await.unwrap();
        check(&store, forgetful(), &model.requests(), name).await;
    }
}

#[tokio::test]
async fn failed_calls_and_fallbacks_name_the_request_that_counts() {
    for Backend { store, name, .. } in backends() {
        let first = Fake::called("first", vec![denied(), denied()]);
        let second =
            Fake::called("second", vec![vec![text("I am here."), done()], vec![failure("gone, too")]]);
        let target = |model: &Arc<Fake>, id: &str| {
            let provider: Arc<dyn Provider> = model.clone();
            ModelTarget::new(provider, id, Budget::default())
        };
        let adapter = || ModelAdapter::with_fallbacks(target(&first, "m1"), vec![target(&second, "m2")]);
        let agent = || LlmAgent::new("root", Arc::new(adapter()));
        let running = start(&store, agent()).await;
        running.run_and_collect(say("hello?")).await.unwrap();
        running.run_and_collect(say("again?")).await.unwrap_err();
        let requests = second.requests();
        assert_eq!((requests.len(), requests[0].model.as_str()), (2, "m2"), "{name}");
        check(&store, agent(), &requests, name).await;
    }
}

#[tokio::test]
async fn rebuilt_body_that_differs_from_the_hash_is_reported() {
    for Backend { store, name, .. } in backends() {
        let model = Fake::echo();
        let agent = start(&store, root(&model)).await;
        agent.run_and_collect(say("hello")).await.unwrap();
        // The same provider name with another wire format.
        let other = Arc::new(Renamed);
        let changed = LlmAgent::new("root", Arc::new(ModelAdapter::new(other, "", Budget::default())));
        let changed = Agent::new(store.clone(), changed, Budget::default()).unwrap();
        let [call] = &rebuilt(&changed).await[..] else { panic!("{name}: one call") };
        assert_eq!(call.check, BodyCheck::Differs);
        let removed = Fake::called("another", Vec::new());
        let removed = Agent::new(store.clone(), root(&removed), Budget::default()).unwrap();
        let [call] = &rebuilt(&removed).await[..] else { panic!("{name}: one call") };
        assert_eq!((call.check, &call.body), (BodyCheck::Unknown, &None));
        assert_eq!(call.request, model.requests()[0]);
    }
}

struct Renamed;

impl Provider for Renamed {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn stream(&self, _request: ModelRequest) -> provider::ModelStream {
        Box::pin(futures::stream::empty())
    }

    fn encode(&self, request: &ModelRequest) -> Option<provider::EncodedBody> {
        Some(bytes::Bytes::from(WireApi::Anthropic.encode("", request).to_string()).into())
    }
}

#[tokio::test]
async fn one_call_is_found_by_the_id_of_its_event() {
    for Backend { store, name, .. } in backends() {
        let agent = start(&store, root(&Fake::echo())).await;
        agent.run_and_collect(say("one")).await.unwrap();
        agent.run_and_collect(say("two")).await.unwrap();
        let all = rebuilt(&agent).await;
        let found = agent.model_calls(&key(), CallSelection::Event(&all[0].answer.id)).await.unwrap();
        assert_eq!(found.len(), 1, "{name}");
        assert_eq!(found[0].request, all[0].request);
        assert!(agent.model_calls(&key(), CallSelection::Event("other")).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn texts_of_a_recipe_are_stored_once_per_session_in_memory() {
    let Backend { store, .. } = backends().into_iter().next().unwrap();
    let recording = crate::common::RecordingStore::on(&store);
    let model = Fake::echo();
    let shared: Shared = recording.clone();
    let agent = start(&shared, root(&model)).await;
    for number in 0..3 {
        agent.run_and_collect(say(&number.to_string())).await.unwrap();
    }
    let texts: Vec<usize> =
        recording.commits().iter().filter_map(|commit| Some(commit.recipe.as_ref()?.texts.len())).collect();
    assert_eq!(texts, [2, 0, 0]);
    assert_eq!(store.recipes(&key(), RecipeQuery::Newest(9)).await.unwrap().len(), 3);
}

#[tokio::test]
async fn model_settings_are_part_of_the_recipe() {
    const SECRET: &str = "tenant-canary-77aa";
    let server = StreamServer::start().unwrap();
    for (api, wire) in [
        (ProviderApi::OpenAi, WireApi::Chat),
        (ProviderApi::Responses, WireApi::Responses),
        (ProviderApi::Anthropic, WireApi::Anthropic),
        (ProviderApi::Gemini, WireApi::Gemini),
        (ProviderApi::Ollama, WireApi::Ollama),
    ] {
        let endpoint = ProviderEndpoint {
            body_variables: vec![("TENANT".to_owned(), SecretString::new(SECRET))],
            ..ProviderEndpoint::new(api.name(), wire, server.url())
        };
        let settings = ModelSettings {
            parallel_tool_calls: Some(false),
            prompt_cache_key: true,
            enforces_schema: true,
            extra_body: json!({"user": "of ${TENANT}"}).as_object().unwrap().clone(),
            missing: vec![Omission::Reasoning],
            confirmed: Vec::new(),
        };
        let target = ModelTarget::new(Arc::new(RemoteProvider::new(endpoint)), "m1", Budget::default());
        let model = ModelAdapter::with_fallbacks(target.with_settings(settings), Vec::new());
        let config = json!({"responseSchema": {"type": "object", "properties": {"a": {"type": "string"}}}, "thinkingConfig": {"thinkingLevel": "LOW"}});
        let root = LlmAgent {
            config: serde_json::from_value(config).unwrap(),
            tools: vec![crate::common::Recorder::new("look").adapted()],
            ..LlmAgent::new("root", Arc::new(model))
        };
        let Backend { store, .. } = Backend::memory();
        let agent = start(&store, root).await;
        server.play(mutated_streams::unchanged(api, "text"));
        agent.run_and_collect(say("hello")).await.unwrap();
        let sent = server.requests().remove(0).to_string();
        let [call] = &rebuilt(&agent).await[..] else { panic!("one call") };
        assert_eq!(call.check, BodyCheck::Verified, "{api:?}");
        let shown = String::from_utf8(call.body.clone().unwrap()).unwrap();
        assert!(sent.contains(SECRET) && !shown.contains(SECRET), "{shown}");
        let [sent, shown]: [serde_json::Value; 2] =
            [sent.replace(SECRET, "${TENANT}"), shown].map(|body| serde_json::from_str(&body).unwrap());
        assert_eq!(sent, shown, "{api:?}");
        assert_eq!(shown["user"], "of ${TENANT}");
    }
}
