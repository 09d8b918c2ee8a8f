//! All servers of one app, started side by side when their tools are first asked for.

use std::{
    collections::HashSet,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use futures::future::join_all;

use super::{
    Ground, ServerConfig, name,
    server::{Known, Server},
    tool::ServerTool,
};
use crate::Tool;

pub struct Servers {
    all: Vec<Arc<Server>>,
    /// Names of tools that are not theirs.
    taken: HashSet<String>,
    last: Mutex<Option<(Vec<u64>, Vec<Listed>)>>,
}

/// A tool, and the server that has it.
#[derive(Clone)]
pub struct Listed {
    pub server: String,
    pub tool: Arc<dyn Tool>,
}

impl Servers {
    /// Nothing is started yet.
    pub fn new(configs: Vec<ServerConfig>, taken: HashSet<String>, ground: &Ground) -> Self {
        let all = configs.into_iter().map(|config| Arc::new(Server::new(config, ground.clone()))).collect();
        Self { all, taken, last: Mutex::default() }
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether a tool of that name could be one of theirs, as far as can be told without starting any.
    pub fn may_have(&self, tool: &str) -> bool {
        self.all.iter().any(|server| {
            let prefix = name::name(&server.config.name, "", &HashSet::new());
            tool.starts_with(&prefix)
        })
    }

    /// The tools that there are now. A server that cannot be asked has none, or those that it had.
    pub async fn tools(&self) -> Vec<Listed> {
        join_all(self.all.iter().map(Server::ask)).await;
        self.known()
    }

    /// The tools that are known without asking anybody.
    pub fn known(&self) -> Vec<Listed> {
        let known: Vec<_> = self.all.iter().map(|server| server.known().clone()).collect();
        let versions: Vec<u64> = known.iter().map(|known| known.version).collect();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, listed)) = last.as_ref().filter(|(of, _)| *of == versions) {
            return listed.clone();
        }
        let mut taken = self.taken.clone();
        let mut listed = Vec::new();
        for (server, Known { tools, .. }) in self.all.iter().zip(&known) {
            let is_wanted = |tool: &&rmcp::model::Tool| {
                server.config.tools.get(tool.name.as_ref()).is_none_or(|said| said.enabled)
            };
            for tool in tools.iter().filter(is_wanted) {
                let name = name::name(&server.config.name, &tool.name, &taken);
                taken.insert(name.clone());
                let tool = Arc::new(ServerTool::new(&name, Arc::clone(server), tool));
                listed.push(Listed { server: server.config.name.clone(), tool });
            }
        }
        *last = Some((versions, listed.clone()));
        listed
    }

    /// What is wrong with servers, as far as they were asked: the name of each, and a sentence with what to do.
    pub fn problems(&self) -> Vec<(String, String)> {
        let named =
            |server: &Arc<Server>| Some((server.config.name.clone(), server.known().problem.clone()?));
        self.all.iter().filter_map(named).collect()
    }
}

impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.all.iter().map(|server| &server.config.name)).finish()
    }
}

impl fmt::Debug for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listed").field("tool", self.tool.spec()).finish_non_exhaustive()
    }
}
