//! The current tools of an app's agents. A toolset that does not respond in time is listed with the tools known so far.

use crate::app_registry::ServedApp;
use adk::{
    agent::{LlmAgent, Node},
    tool::{Tool, Toolset},
};
use futures::future::join_all;
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::time::timeout;

/// How long a toolset may take to list its tools.
const LIST_TIMEOUT: Duration = Duration::from_secs(1);

/// Tools by the name of their agent.
pub(crate) struct AgentTools(HashMap<String, Vec<Arc<dyn Tool>>>);

impl AgentTools {
    pub(crate) async fn list(app: &ServedApp) -> Self {
        let mut agents = Vec::new();
        collect_agents(app, app.agent.tree().root(), &mut agents);
        let tools = agents.into_iter().map(async |agent| (agent.name.clone(), list_tools(agent).await));
        Self(join_all(tools).await.into_iter().collect())
    }

    pub(crate) fn of_agent(&self, agent: &LlmAgent) -> &[Arc<dyn Tool>] {
        self.0.get(&agent.name).map(Vec::as_slice).unwrap_or_default()
    }
}

fn collect_agents<'a>(app: &'a ServedApp, node: &'a Node, agents: &mut Vec<&'a LlmAgent>) {
    agents.push(&node.agent);
    app.agent.tree().children(node).for_each(|child| collect_agents(app, child, agents));
}

async fn list_tools(agent: &LlmAgent) -> Vec<Arc<dyn Tool>> {
    let mut tools = agent.tools.clone();
    for toolset in join_all(agent.toolsets.iter().map(list_toolset)).await {
        tools.extend(toolset);
    }
    tools
}

async fn list_toolset(toolset: &Arc<dyn Toolset>) -> Vec<Arc<dyn Tool>> {
    let listed = Arc::clone(toolset);
    // On its own task: a server that is being started keeps starting after the timeout.
    let listing = tokio::spawn(async move { listed.tools().await });
    match timeout(LIST_TIMEOUT, listing).await {
        Ok(Ok(tools)) => tools,
        Ok(Err(_)) | Err(_) => toolset.known(),
    }
}
