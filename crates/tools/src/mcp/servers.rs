//! All servers of one app, started concurrently when their tools are first requested.

use lock::LockExt;
use std::{
    collections::HashSet,
    fmt,
    sync::{Arc, Mutex},
};

use futures::future::join_all;

use super::{
    McpOffer, McpServerConfig, ServerEnv,
    server::{McpServer, ServerSnapshot},
    tool::McpTool,
    tool_name::unique_name,
};
use crate::Tool;

/// The MCP servers of one app.
pub struct McpServers {
    all: Vec<Arc<McpServer>>,
    /// Names of other tools, which server tools must not use.
    taken: HashSet<String>,
    /// The last result of [`Self::known`], with the version of each server.
    cache: Mutex<Option<(Vec<u64>, Vec<ListedTool>)>>,
}

/// A tool with the name of its server.
#[derive(Clone)]
pub struct ListedTool {
    pub server: String,
    pub tool: Arc<dyn Tool>,
}

impl McpServers {
    /// Does not start any server yet.
    pub fn new(configs: Vec<McpServerConfig>, taken: HashSet<String>, env: &ServerEnv) -> Self {
        let all = configs.into_iter().map(|config| Arc::new(McpServer::new(config, env.clone()))).collect();
        Self { all, taken, cache: Mutex::default() }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<McpServer>> {
        self.all.iter()
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether a tool of that name may belong to one of the servers. It starts none of them.
    pub fn may_have(&self, tool: &str) -> bool {
        self.all.iter().any(|server| server.may_have(tool))
    }

    /// The names of the servers whose tools an agent with these tools may use; `None` for all tools.
    pub fn usable_with(&self, tools: Option<&[String]>) -> Vec<String> {
        let is_usable = |server: &&Arc<McpServer>| {
            tools.is_none_or(|tools| tools.iter().any(|tool| server.may_have(tool)))
        };
        self.all.iter().filter(is_usable).map(|server| server.config.name.clone()).collect()
    }

    /// The current tools. For a server that is unavailable, these are its last known tools.
    pub async fn tools(&self) -> Vec<ListedTool> {
        join_all(self.all.iter().map(McpServer::refresh)).await;
        self.known()
    }

    /// The last known tools, without contacting any server.
    pub fn known(&self) -> Vec<ListedTool> {
        let snapshots: Vec<_> = self.all.iter().map(|server| server.snapshot().clone()).collect();
        let versions: Vec<u64> = snapshots.iter().map(|snapshot| snapshot.version).collect();
        let mut cache = self.cache.locked();
        if let Some((_, listed)) = cache.as_ref().filter(|(cached, _)| *cached == versions) {
            return listed.clone();
        }
        let mut taken = self.taken.clone();
        let mut listed = Vec::new();
        for (server, ServerSnapshot { tools, .. }) in self.all.iter().zip(&snapshots) {
            let is_enabled = |tool: &&rmcp::model::Tool| {
                server.config.tools.get(tool.name.as_ref()).is_none_or(|config| config.enabled)
            };
            for tool in tools.iter().filter(is_enabled) {
                let name = unique_name(&server.config.name, &tool.name, &taken);
                taken.insert(name.clone());
                let tool = Arc::new(McpTool::new(&name, Arc::clone(server), tool));
                listed.push(ListedTool { server: server.config.name.clone(), tool });
            }
        }
        *cache = Some((versions, listed.clone()));
        listed
    }

    /// The resources and prompts of all servers that are available.
    pub async fn offers(&self) -> Vec<McpOffer> {
        join_all(self.all.iter().map(|server| server.offers())).await.concat()
    }

    /// The current problems: the name of each affected server, and a sentence that says what to do.
    pub fn problems(&self) -> Vec<(String, String)> {
        let problem =
            |server: &Arc<McpServer>| Some((server.config.name.clone(), server.snapshot().problem.clone()?));
        self.all.iter().filter_map(problem).collect()
    }
}

impl fmt::Debug for McpServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.all.iter().map(|server| &server.config.name)).finish()
    }
}

impl fmt::Debug for ListedTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListedTool").field("tool", self.tool.spec()).finish_non_exhaustive()
    }
}
