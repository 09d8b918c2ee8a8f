//! From the configuration to an agent that can take messages.

use crate::config::{self, AgentConfig, BUILT_IN_APP, ConfigError, ModelName, Settings};
use adk::agent::{AgentTree, LlmAgent};
use anyhow::{Context, bail};
use bridge::{Agent, Budget, ModelAdapter, ToolAdapter};
use provider::{Provider, demo::Demo, scripted::Scripted};
use session::{
    Store,
    sqlite::{Options, SqliteStore},
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use tools::{Registry, stub::Stub};

/// What the agent without a configuration is told.
const INSTRUCTION: &str = "You are Lango, a helpful assistant on the user's own machine. Use your tools when they help; \
     answer briefly and say plainly what you do not know.";

/// An app, ready to talk to.
pub(crate) struct App {
    pub(crate) name: String,
    pub(crate) agent: Agent,
    /// The model that the root agent uses, as people write it.
    pub(crate) model: String,
}

/// Opens the store, making it if there is none.
pub(crate) fn open_store(settings: &Settings) -> anyhow::Result<Arc<dyn Store>> {
    Ok(Arc::new(open_file(settings)?))
}

/// The same, as what it is.
pub(crate) fn open_file(settings: &Settings) -> anyhow::Result<SqliteStore> {
    let path = &settings.database;
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir).with_context(|| {
            format!("{} cannot be made; set LANGO_HOME to a directory that can be written", dir.display())
        })?;
    }
    Ok(SqliteStore::open(path, Options::default())?)
}

/// The store if there is one: whoever only looks leaves nothing behind.
pub(crate) fn existing_store(settings: &Settings) -> anyhow::Result<Option<Arc<dyn Store>>> {
    // A file that cannot be seen is not one that is missing.
    let missing = matches!(settings.database.try_exists(), Ok(false));
    if missing { Ok(None) } else { open_store(settings).map(Some) }
}

/// An app that is sound as far as its configuration goes. Nothing is stored yet.
pub(crate) struct Plan {
    pub(crate) name: String,
    root: LlmAgent,
    model: String,
    budget: Budget,
    /// What it was read from.
    pub(crate) files: Vec<PathBuf>,
}

/// The app that the command or the configuration names; without any, the built-in agent.
pub(crate) fn plan(settings: &Settings, wanted: Option<&str>, model: Option<&str>) -> anyhow::Result<Plan> {
    let wanted = wanted.or(settings.app.as_deref());
    let (name, config) = match config::load_app(&settings.agents_dir, wanted)? {
        Some(found) => found,
        None => (BUILT_IN_APP.to_owned(), built_in()),
    };
    let file = config.file.clone();
    let command = model.map(|name| ModelName {
        name: name.to_owned(),
        base: PathBuf::new(),
        said: "--model".to_owned(),
    });
    let fallback = settings.model.clone().unwrap_or_else(demo);
    let wiring = Wiring { tools: tools(settings)?, command, budget: settings.budget };
    let model = wiring.model_of(&config, &fallback).name;
    let mut files = Vec::new();
    wiring.files_of(&config, &fallback, &mut files);
    let root = wiring.agent(config, &fallback)?;
    AgentTree::new(root.clone()).with_context(|| file.display().to_string())?;
    Ok(Plan { name, root, model, budget: settings.budget, files })
}

impl Plan {
    pub(crate) fn open(self, store: Arc<dyn Store>) -> anyhow::Result<App> {
        Ok(App { name: self.name, agent: Agent::new(store, self.root, self.budget)?, model: self.model })
    }
}

fn demo() -> ModelName {
    ModelName { name: "demo".to_owned(), base: PathBuf::new(), said: String::new() }
}

fn built_in() -> AgentConfig {
    AgentConfig {
        name: bridge::row::DEFAULT_AGENT.to_owned(),
        description: "Answers questions with the tools at hand.".to_owned(),
        instruction: INSTRUCTION.to_owned(),
        model: None,
        tools: None,
        sub_agents: Vec::new(),
        generate: adk::model::GenerateContentConfig::default(),
        include_contents: adk::agent::IncludeContents::default(),
        output_key: None,
        disallow_transfer_to_parent: false,
        disallow_transfer_to_peers: false,
        file: PathBuf::from("lango.toml"),
    }
}

fn tools(settings: &Settings) -> anyhow::Result<Registry> {
    let mut registry = tools::built_in(&settings.workdir)?;
    for stub in &settings.stubs {
        registry.add("stubs in lango.toml", Arc::new(Stub::from(stub.clone())))?;
    }
    Ok(registry)
}

struct Wiring {
    tools: Registry,
    /// The model of the command line, which wins over every agent's.
    command: Option<ModelName>,
    budget: Budget,
}

impl Wiring {
    fn agent(&self, config: AgentConfig, inherited: &ModelName) -> anyhow::Result<LlmAgent> {
        let model = self.model_of(&config, inherited);
        let (provider, name) = self::model(&model)?;
        let tools = self.tools_of(&config)?;
        let sub_agents =
            config.sub_agents.into_iter().map(|sub| self.agent(sub, &model)).collect::<Result<_, _>>()?;
        Ok(LlmAgent {
            description: config.description,
            instruction: config.instruction,
            tools,
            sub_agents,
            config: config.generate,
            include_contents: config.include_contents,
            output_key: config.output_key,
            disallow_transfer_to_parent: config.disallow_transfer_to_parent,
            disallow_transfer_to_peers: config.disallow_transfer_to_peers,
            ..LlmAgent::new(config.name, Arc::new(ModelAdapter::new(provider, name, self.budget)))
        })
    }

    /// The command's, the agent's own, or its parent's.
    fn model_of(&self, config: &AgentConfig, inherited: &ModelName) -> ModelName {
        let base = config.file.parent().unwrap_or(Path::new("")).to_path_buf();
        let said = config.file.display().to_string();
        let own = config.model.clone().map(|name| ModelName { name, base, said });
        self.command.clone().or(own).unwrap_or_else(|| inherited.clone())
    }

    /// The files that an agent and its sub-agents are made of.
    fn files_of(&self, config: &AgentConfig, inherited: &ModelName, files: &mut Vec<PathBuf>) {
        let model = self.model_of(config, inherited);
        files.push(config.file.clone());
        files.extend(model.name.strip_prefix("scripted/").map(|script| model.base.join(script)));
        for sub in &config.sub_agents {
            self.files_of(sub, &model, files);
        }
    }

    fn tools_of(&self, config: &AgentConfig) -> anyhow::Result<Vec<Arc<dyn adk::tool::Tool>>> {
        let adapt = |tool: &Arc<dyn tools::Tool>| -> Arc<dyn adk::tool::Tool> {
            Arc::new(ToolAdapter::new(Arc::clone(tool)))
        };
        let Some(names) = &config.tools else { return Ok(self.tools.iter().map(adapt).collect()) };
        let find = |name: &String| {
            self.tools.get(name).map(adapt).with_context(|| {
                let known: Vec<&str> = self.tools.iter().map(|tool| tool.spec().name.as_str()).collect();
                format!("{}: there is no tool {name:?}; there is {}", config.file.display(), known.join(", "))
            })
        };
        names.iter().map(find).collect()
    }
}

/// A model by its name: `demo`, or `scripted/<file>`.
fn model(model: &ModelName) -> anyhow::Result<(Arc<dyn Provider>, String)> {
    let (provider, name) = model.name.split_once('/').unwrap_or((&model.name, ""));
    match provider {
        "demo" => Ok((Arc::new(Demo), name.to_owned())),
        "scripted" if !name.is_empty() => {
            let path = model.base.join(name);
            if !path.exists() {
                return Err(ConfigError::Missing { path, named_by: model.said.clone() }.into());
            }
            let script = Scripted::from_file(&path).map_err(|error| config::in_script(&path, error))?;
            let name = script.model().unwrap_or(name).to_owned();
            Ok((Arc::new(script), name))
        }
        _ => bail!(
            "{}: {:?} is not a model that this version knows; use `demo` or `scripted/FILE`",
            model.said,
            model.name
        ),
    }
}
