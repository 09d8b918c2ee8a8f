//! The tools that an app's agents have now, for whoever looks at them: nobody waits long for a server that says nothing.

use crate::app_registry::ServedApp;
use adk::{
    agent::{LlmAgent, Node},
    tool::{Tool, Toolset},
};
use futures::future::join_all;
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::time::timeout;

/// What takes longer is in the next answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// By the name of the agent.
pub(crate) struct AgentTools(HashMap<String, Vec<Arc<dyn Tool>>>);

impl AgentTools {
    pub(crate) async fn of(app: &ServedApp) -> Self {
        let mut agents = Vec::new();
        gather(app, app.agent.tree().root(), &mut agents);
        let all = agents.into_iter().map(async |agent| (agent.name.clone(), tools(agent).await));
        Self(join_all(all).await.into_iter().collect())
    }

    pub(crate) fn all(&self, agent: &LlmAgent) -> &[Arc<dyn Tool>] {
        self.0.get(&agent.name).map(Vec::as_slice).unwrap_or_default()
    }
}

fn gather<'a>(app: &'a ServedApp, node: &'a Node, agents: &mut Vec<&'a LlmAgent>) {
    agents.push(&node.agent);
    app.agent.tree().children(node).for_each(|child| gather(app, child, agents));
}

async fn tools(agent: &LlmAgent) -> Vec<Arc<dyn Tool>> {
    let mut all = agent.tools.clone();
    for more in join_all(agent.toolsets.iter().map(now)).await {
        all.extend(more);
    }
    all
}

async fn now(toolset: &Arc<dyn Toolset>) -> Vec<Arc<dyn Tool>> {
    let asked = Arc::clone(toolset);
    // A start that was begun goes on when nobody waits for it any more.
    let asking = tokio::spawn(async move { asked.tools().await });
    match timeout(PATIENCE, asking).await {
        Ok(Ok(tools)) => tools,
        Ok(Err(_)) | Err(_) => toolset.known(),
    }
}
