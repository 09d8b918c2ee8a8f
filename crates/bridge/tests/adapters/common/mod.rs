//! Test support: both stores, a scripted model, and line renderings of logs and requests.

mod model;
mod picture;
mod queue;
mod recording_store;
mod stores;

pub(crate) use model::{Fake, call, calls, done, failure, text};
pub(crate) use picture::{last_request, log, messages, seen};
pub(crate) use queue::{Elsewhere, dead_owner, enqueue, finish, payload, queued, running, until};
pub(crate) use recording_store::RecordingStore;
pub(crate) use stores::{Backend, Shared, backends, key, runs, session_key};

use adk::{
    agent::LlmAgent,
    content::Content,
    runner::{RunConfig, RunRequest, StreamingMode},
};
use bridge::{Agent, Budget, ModelAdapter, ToolAdapter};
use futures::future::BoxFuture;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tools::{
    Spec, ToolReply, ToolRequest, ToolsError,
    stub::{StubConfig, StubTool},
};

/// An agent without sub-agents, named `root`.
pub(crate) fn root(model: &Arc<Fake>) -> LlmAgent {
    named("root", model)
}

pub(crate) fn named(name: &str, model: &Arc<Fake>) -> LlmAgent {
    named_within(name, model, Budget::default())
}

pub(crate) fn named_within(name: &str, model: &Arc<Fake>, budget: Budget) -> LlmAgent {
    LlmAgent::new(name, Arc::new(ModelAdapter::new(model.clone(), "m1", budget)))
}

/// `root` with the sub-agent `helper`.
pub(crate) fn team(model: &Arc<Fake>) -> LlmAgent {
    LlmAgent { sub_agents: vec![named("helper", model)], ..root(model) }
}

/// The agent of a process that has just started, with the session of [`key`].
pub(crate) async fn start(store: &Shared, root: LlmAgent) -> Agent {
    start_within(store, root, Budget::default()).await
}

pub(crate) async fn start_within(store: &Shared, root: LlmAgent, budget: Budget) -> Agent {
    let agent = Agent::new(store.clone(), root, budget).unwrap();
    agent.sessions().get_or_create(&key()).await.unwrap();
    agent
}

pub(crate) fn say(text: &str) -> RunRequest {
    RunRequest::message(key(), Content::user(text))
}

pub(crate) fn say_streaming(text: &str) -> RunRequest {
    let config = RunConfig { streaming: StreamingMode::Sse, ..RunConfig::default() };
    RunRequest { config, ..say(text) }
}

/// A tool that is configured as a stub.
pub(crate) fn stub(config: Value) -> Arc<dyn adk::tool::Tool> {
    let config: StubConfig = serde_json::from_value(config).unwrap();
    Arc::new(ToolAdapter::new(Arc::new(StubTool::from(config))))
}

/// A tool that records its calls and returns its arguments.
pub(crate) struct Recorder {
    spec: Spec,
    pub(crate) calls: Mutex<Vec<(String, Value)>>,
}

impl Recorder {
    pub(crate) fn new(name: &str) -> Arc<Self> {
        let parameters = json!({"type": "object", "properties": {"city": {"type": "string"}}});
        Arc::new(Self { spec: Spec::read_only(name, "Remembers.", parameters), calls: Mutex::default() })
    }

    pub(crate) fn adapted(self: &Arc<Self>) -> Arc<dyn adk::tool::Tool> {
        Arc::new(ToolAdapter::new(self.clone()))
    }

    pub(crate) fn calls(&self) -> Vec<(String, Value)> {
        self.calls.lock().unwrap().clone()
    }
}

impl tools::Tool for Recorder {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn call(&self, request: ToolRequest) -> BoxFuture<'_, Result<ToolReply, ToolsError>> {
        let args = Value::Object(request.args);
        self.calls.lock().unwrap().push((request.id, args.clone()));
        Box::pin(async move { Ok(ToolReply::Done(json!({"given": args}))) })
    }
}

/// Recovery for a process with one agent. A problem fails the test.
pub(crate) struct OneAgent(pub(crate) Agent);

impl bridge::runs::RecoverySource for OneAgent {
    fn agent(&self, _: &str) -> Result<Agent, String> {
        Ok(self.0.clone())
    }

    fn report(&self, problem: &str) {
        panic!("{problem}");
    }
}
