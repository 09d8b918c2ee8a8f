//! The agents of the matrix with their tools. A tool reports that it runs before it does.

use crate::{
    case::Scenario,
    model::{Model, SharedState, done},
    report::Line,
};
use adk::agent::LlmAgent;
use bridge::{Agent, Bounds, Budget, ModelAdapter, ToolAdapter, Turns};
use futures::future::BoxFuture;
use serde_json::json;
use session::Store;
use std::{sync::Arc, time::Duration};
use tools::{Effect, Safety, Spec, ToolReply, ToolRequest, ToolsError};

struct ReportingTool {
    spec: Spec,
    shared: Arc<SharedState>,
}

impl tools::Tool for ReportingTool {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn call(&self, request: ToolRequest) -> BoxFuture<'_, Result<ToolReply, ToolsError>> {
        Box::pin(async move {
            self.shared.out.report(Line::ToolRan { tool: self.spec.name.clone(), call: request.id });
            if self.shared.aborts
                && self.shared.scenario == Scenario::ParallelTools
                && self.spec.effect == Effect::Once
            {
                self.shared.abort().await;
            }
            if self.spec.long_running {
                return Ok(ToolReply::Pending(Some(json!({"status": "started"}))));
            }
            Ok(ToolReply::Done(done(&self.spec.name)))
        })
    }
}

fn tools(shared: &Arc<SharedState>) -> Vec<Arc<dyn adk::tool::Tool>> {
    let parameters = || json!({"type": "object", "properties": {}});
    let acting = |name, effect| Spec::new(name, "Acts.", parameters(), Safety::default(), effect);
    let specs = [
        Spec::read_only("look", "Looks.", parameters()),
        acting("act", Effect::Once),
        acting("repeat", Effect::Idempotent),
        Spec { confirm: true, ..acting("danger", Effect::Once) },
        Spec { long_running: true, ..acting("job", Effect::Idempotent) },
    ];
    let adapted = |spec| -> Arc<dyn adk::tool::Tool> {
        Arc::new(ToolAdapter::new(Arc::new(ReportingTool { spec, shared: Arc::clone(shared) })))
    };
    specs.into_iter().map(adapted).collect()
}

fn llm(name: &'static str, shared: &Arc<SharedState>) -> LlmAgent {
    let model = Arc::new(Model { agent: name, shared: Arc::clone(shared) });
    let tools = if name == "root" { tools(shared) } else { Vec::new() };
    LlmAgent { tools, ..LlmAgent::new(name, Arc::new(ModelAdapter::new(model, "m1", Budget::default()))) }
}

/// `root` with the sub-agent `helper`.
pub(crate) fn agent(store: &Arc<dyn Store>, turns: &Turns, shared: &Arc<SharedState>) -> Agent {
    let root = LlmAgent { sub_agents: vec![llm("helper", shared)], ..llm("root", shared) };
    // Virtual time may pass while a thread writes.
    let bounds = Bounds { tool_time: Some(Duration::from_hours(24 * 30)), ..Bounds::default() };
    let agent = Agent::new(Arc::clone(store), root, Budget::default()).unwrap();
    agent.with_turns(turns.clone()).with_bounds(bounds)
}
