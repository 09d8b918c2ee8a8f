//! Agents and the tree that they form.

use crate::{
    error::TreeError,
    flow::transfer::TRANSFER,
    model::{GenerateContentConfig, Llm},
    pending::is_question_name,
    tool::{Tool, Toolset},
};
use serde::{Deserialize, Serialize};
use std::{collections::HashMap, fmt, sync::Arc};
use tokio_util::sync::CancellationToken;

/// The part of the history in an agent's requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IncludeContents {
    #[default]
    Default,
    /// Only the current turn.
    None,
}

/// An agent driven by a language model.
#[derive(Clone)]
pub struct LlmAgent {
    pub name: String,
    pub description: String,
    pub instruction: String,
    pub model: Arc<dyn Llm>,
    pub tools: Vec<Arc<dyn Tool>>,
    /// Dynamic tools. On a name clash, the tool in `tools` wins.
    pub toolsets: Vec<Arc<dyn Toolset>>,
    pub sub_agents: Vec<LlmAgent>,
    pub config: GenerateContentConfig,
    pub include_contents: IncludeContents,
    /// The state key that the agent's final text is written to.
    pub output_key: Option<String>,
    pub disallow_transfer_to_parent: bool,
    pub disallow_transfer_to_peers: bool,
}

impl LlmAgent {
    pub fn new(name: impl Into<String>, model: Arc<dyn Llm>) -> Self {
        Self {
            name: name.into(),
            description: String::new(),
            instruction: String::new(),
            model,
            tools: Vec::new(),
            toolsets: Vec::new(),
            sub_agents: Vec::new(),
            config: GenerateContentConfig::default(),
            include_contents: IncludeContents::default(),
            output_key: None,
            disallow_transfer_to_parent: false,
            disallow_transfer_to_peers: false,
        }
    }
}

impl fmt::Debug for LlmAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LlmAgent")
            .field("name", &self.name)
            .field("sub_agents", &self.sub_agents)
            .finish_non_exhaustive()
    }
}

/// A tool of an agent with its compiled JSON Schema.
pub(crate) struct CompiledTool {
    pub(crate) tool: Arc<dyn Tool>,
    pub(crate) schema: jsonschema::Validator,
}

/// An agent and its position in the tree.
pub struct Node {
    pub agent: LlmAgent,
    /// The path from the root, in the format of ADK's `nodeInfo.path`.
    pub path: String,
    parent: Option<usize>,
    children: Vec<usize>,
    pub(crate) tools: HashMap<String, CompiledTool>,
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Node {
    /// All current tools, the agent's own first; `None` if `cancel` fires while a toolset is listed.
    pub(crate) async fn all_tools(&self, cancel: &CancellationToken) -> Option<Vec<Arc<dyn Tool>>> {
        let mut all = self.agent.tools.clone();
        for toolset in &self.agent.toolsets {
            let listed = cancel.run_until_cancelled(toolset.tools()).await?;
            let is_free = |tool: &Arc<dyn Tool>| {
                let name = &tool.declaration().name;
                !all.iter().any(|known| known.declaration().name == *name) && !is_reserved(name)
            };
            let listed: Vec<_> = listed.into_iter().filter(is_free).collect();
            all.extend(listed);
        }
        Some(all)
    }
}

/// All agents of an app. Construction checks that names are unique and tool schemas compile.
#[derive(Debug)]
pub struct AgentTree {
    nodes: Vec<Node>,
    by_name: HashMap<String, usize>,
}

impl AgentTree {
    pub fn new(root: LlmAgent) -> Result<Self, TreeError> {
        let mut tree = Self { nodes: Vec::new(), by_name: HashMap::new() };
        tree.add(root, None)?;
        Ok(tree)
    }

    fn add(&mut self, mut agent: LlmAgent, parent: Option<usize>) -> Result<usize, TreeError> {
        if !is_name(&agent.name) {
            return Err(TreeError::BadName(agent.name));
        }
        let index = self.nodes.len();
        if self.by_name.insert(agent.name.clone(), index).is_some() {
            return Err(TreeError::DuplicateAgent(agent.name));
        }
        let above = parent.map_or(String::new(), |parent| format!("{}/", self.nodes[parent].path));
        let path = format!("{above}{}@1", agent.name);
        let children = std::mem::take(&mut agent.sub_agents);
        let tools = compile_tools(&agent)?;
        self.nodes.push(Node { agent, path, parent, children: Vec::new(), tools });
        for child in children {
            let child = self.add(child, Some(index))?;
            self.nodes[index].children.push(child);
        }
        Ok(index)
    }

    pub fn root(&self) -> &Node {
        &self.nodes[0]
    }

    pub fn find(&self, name: &str) -> Option<&Node> {
        self.by_name.get(name).map(|&index| &self.nodes[index])
    }

    /// The agent with that name, or the root if the tree has no such agent (any more).
    pub fn find_or_root(&self, name: Option<&str>) -> &Node {
        name.and_then(|name| self.find(name)).unwrap_or_else(|| self.root())
    }

    /// Whether the agent stays active over turns: true if transfers to the parent are allowed all the way to the root.
    pub fn is_sticky(&self, node: &Node) -> bool {
        let up = |node: &&Node| node.parent.map(|parent| &self.nodes[parent]);
        std::iter::successors(Some(node), up).all(|node| !node.agent.disallow_transfer_to_parent)
    }

    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter()
    }

    /// The direct sub-agents of a node.
    pub fn children(&self, node: &Node) -> impl Iterator<Item = &Node> {
        node.children.iter().map(|&index| &self.nodes[index])
    }

    /// The agents that this agent may transfer to: its children, its parent, its siblings.
    pub fn targets(&self, node: &Node) -> Vec<&Node> {
        let mut targets: Vec<&Node> = self.children(node).collect();
        let Some(parent) = node.parent.map(|index| &self.nodes[index]) else { return targets };
        if !node.agent.disallow_transfer_to_parent {
            targets.push(parent);
        }
        if !node.agent.disallow_transfer_to_peers {
            targets.extend(self.children(parent).filter(|peer| peer.agent.name != node.agent.name));
        }
        targets
    }
}

fn is_name(name: &str) -> bool {
    let mut letters = name.chars();
    name != "user"
        && letters.next().is_some_and(|first| first.is_alphabetic() || first == '_')
        && letters.all(|letter| letter.is_alphanumeric() || letter == '_' || letter == '-')
}

fn is_reserved(tool: &str) -> bool {
    tool == TRANSFER || is_question_name(tool)
}

fn compile_tools(agent: &LlmAgent) -> Result<HashMap<String, CompiledTool>, TreeError> {
    let mut compiled = HashMap::new();
    for tool in &agent.tools {
        let declaration = tool.declaration();
        let name = declaration.name.clone();
        if is_reserved(&name) {
            return Err(TreeError::ReservedTool { agent: agent.name.clone(), tool: name });
        }
        let schema = jsonschema::validator_for(&declaration.parameters_json_schema).map_err(|error| {
            TreeError::BadSchema { agent: agent.name.clone(), tool: name.clone(), message: error.to_string() }
        })?;
        if compiled.insert(name.clone(), CompiledTool { tool: Arc::clone(tool), schema }).is_some() {
            return Err(TreeError::DuplicateTool { agent: agent.name.clone(), tool: name });
        }
    }
    Ok(compiled)
}
