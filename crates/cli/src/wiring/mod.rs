//! From the configuration to an agent that can take messages.

pub(crate) mod mcp;
mod models;
mod store;
mod tools;

pub(crate) use models::{chosen, endpoint};
pub(crate) use store::{existing_store, open_file, open_served_store, open_store, readable_store};
pub(crate) use tools::{Toolbox, confinement, roots, rule_book};

use crate::{
    args::Reasoning,
    config::{self, AgentConfig, BUILT_IN_APP, ModelName, Settings},
    screen::Spent,
};
use adk::{
    agent::{AgentTree, LlmAgent},
    limits::RunLimits,
    model::GenerateContentConfig,
    tool::{EventPrice, Toolset},
    trace::Trace,
};
use anyhow::{Context, anyhow};
use bridge::{Agent, Bounds, Budget};
use serde_json::{Map, Value};
use session::Store;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use telemetry::Telemetry;

/// What the agent without a configuration is told.
const INSTRUCTION: &str = "You are Lango, a helpful assistant on the user's own machine. Use your tools when they help; \
     answer briefly and say plainly what you do not know.";

/// How often a run may do the same thing without anything new.
const REPEATS: u32 = 5;

/// An app, ready to talk to.
pub(crate) struct App {
    pub(crate) name: String,
    pub(crate) agent: Agent,
    /// The model that the root agent uses, as people write it.
    pub(crate) model: String,
    /// What to say of the choice of the model.
    pub(crate) note: Option<String>,
}

/// What a command asks for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wanted<'a> {
    pub(crate) app: Option<&'a str>,
    pub(crate) model: Option<&'a str>,
    pub(crate) reasoning: Option<Reasoning>,
    /// Whether somebody is there who can be asked whether a call may run.
    pub(crate) attended: bool,
}

/// What sends traces to the configured collector.
pub(crate) fn telemetry(settings: &Settings) -> anyhow::Result<Telemetry> {
    Telemetry::new(settings.telemetry.clone()).map_err(|error| anyhow!("telemetry.endpoint: {error}"))
}

/// An app that is sound as far as its configuration goes. Nothing is stored yet.
pub(crate) struct Plan {
    pub(crate) name: String,
    root: LlmAgent,
    model: String,
    note: Option<String>,
    budget: Budget,
    bounds: Bounds,
    /// What it was read from.
    pub(crate) files: Vec<PathBuf>,
}

/// The app that the command or the configuration names; without any, the built-in agent.
pub(crate) async fn plan(settings: &Settings, wanted: Wanted<'_>) -> anyhow::Result<Plan> {
    let found = find_app(settings, wanted.app)?;
    // Nobody looks for a model where one is named.
    let is_named = wanted.model.is_some() || found.1.model.is_some();
    let (inherited, note) = if is_named {
        (settings.model.clone().unwrap_or_else(ModelName::demo), None)
    } else {
        chosen(settings).await
    };
    Ok(Plan { note, ..put_together(settings, wanted, found, &inherited)? })
}

/// An app by its name, with a model that was chosen before for agents that name none.
pub(crate) fn plan_with(settings: &Settings, app: &str, model: &ModelName) -> anyhow::Result<Plan> {
    // Clients are asked, and answer when they like.
    let wanted = Wanted { attended: true, ..Wanted::default() };
    put_together(settings, wanted, find_app(settings, Some(app))?, model)
}

/// The tools that the agents of an app may have, by name; `None` for all there are.
pub(crate) fn tools_wanted(settings: &Settings, app: Option<&str>) -> anyhow::Result<Option<Vec<String>>> {
    fn of(config: &AgentConfig) -> Option<Vec<String>> {
        let mut names = config.tools.clone()?;
        for sub in &config.sub_agents {
            names.extend(of(sub)?);
        }
        Some(names)
    }
    Ok(of(&find_app(settings, app)?.1))
}

/// The name of that app.
pub(crate) fn app_name(settings: &Settings, app: Option<&str>) -> anyhow::Result<String> {
    Ok(find_app(settings, app)?.0)
}

fn find_app(settings: &Settings, wanted: Option<&str>) -> anyhow::Result<(String, AgentConfig)> {
    let found = config::load_app(&settings.agents_dir, wanted.or(settings.app.as_deref()))?;
    Ok(found.unwrap_or_else(|| (BUILT_IN_APP.to_owned(), built_in())))
}

fn put_together(
    settings: &Settings,
    wanted: Wanted<'_>,
    (name, config): (String, AgentConfig),
    inherited: &ModelName,
) -> anyhow::Result<Plan> {
    let file = config.file.clone();
    let command = wanted.model.map(|name| ModelName {
        name: name.to_owned(),
        base: PathBuf::new(),
        said: "--model".to_owned(),
    });
    let wiring = Wiring {
        settings,
        tools: Toolbox::open(settings, wanted.attended)?,
        command,
        reasoning: wanted.reasoning,
    };
    let model = wiring.model_of(&config, inherited).name;
    let mut files = Vec::new();
    wiring.files_of(&config, inherited, &mut files);
    let root = wiring.agent(config, inherited)?;
    AgentTree::new(root.clone()).with_context(|| file.display().to_string())?;
    let (budget, bounds) = (settings.budget, bounds(settings));
    Ok(Plan { name, root, model, note: None, budget, bounds, files })
}

impl Plan {
    pub(crate) fn model(&self) -> &str {
        &self.model
    }

    pub(crate) fn open(self, store: Arc<dyn Store>, trace: Trace) -> anyhow::Result<App> {
        let Self { name, root, model, note, budget, bounds, .. } = self;
        Ok(App {
            name,
            agent: Agent::new(store, root, budget)?.with_bounds(bounds).with_trace(trace),
            model,
            note,
        })
    }
}

/// What the runs of every agent may use, here and on the server.
fn bounds(settings: &Settings) -> Bounds {
    let config::Limits { tool_calls, time, tokens, cost } = settings.limits;
    let models = settings.models.clone();
    let price: EventPrice = Arc::new(move |event| Spent::of(event, &models)?.cost);
    let tools = settings.tools.limits;
    Bounds {
        model_calls: settings.model_calls,
        // A command ends by its own limit first.
        tool_time: Some(tools.max_time + tools.grace * 2),
        limits: RunLimits {
            tool_calls,
            time,
            tokens,
            cost: cost.map(|most| (most, price)),
            repeats: Some(REPEATS),
        },
    }
}

fn built_in() -> AgentConfig {
    AgentConfig {
        name: bridge::store::row::DEFAULT_AGENT.to_owned(),
        description: "Answers questions with the tools at hand.".to_owned(),
        instruction: INSTRUCTION.to_owned(),
        model: None,
        tools: None,
        sub_agents: Vec::new(),
        generate: GenerateContentConfig::default(),
        include_contents: adk::agent::IncludeContents::default(),
        output_key: None,
        disallow_transfer_to_parent: false,
        disallow_transfer_to_peers: false,
        file: PathBuf::from("lango.toml"),
    }
}

struct Wiring<'a> {
    settings: &'a Settings,
    tools: Toolbox,
    /// The model of the command line, which wins over every agent's.
    command: Option<ModelName>,
    reasoning: Option<Reasoning>,
}

impl Wiring<'_> {
    fn agent(&self, config: AgentConfig, inherited: &ModelName) -> anyhow::Result<LlmAgent> {
        let model = self.model_of(&config, inherited);
        let adapter = models::adapter(self.settings, &model)?;
        let (tools, toolsets) = self.tools_of(&config)?;
        let sub_agents =
            config.sub_agents.into_iter().map(|sub| self.agent(sub, &model)).collect::<Result<_, _>>()?;
        Ok(LlmAgent {
            description: config.description,
            instruction: config.instruction,
            tools,
            toolsets,
            sub_agents,
            config: self.settings_of(&config.generate)?,
            include_contents: config.include_contents,
            output_key: config.output_key,
            disallow_transfer_to_parent: config.disallow_transfer_to_parent,
            disallow_transfer_to_peers: config.disallow_transfer_to_peers,
            ..LlmAgent::new(config.name, Arc::new(adapter))
        })
    }

    /// The command's, the agent's own, or its parent's.
    fn model_of(&self, config: &AgentConfig, inherited: &ModelName) -> ModelName {
        let base = config.file.parent().unwrap_or(Path::new("")).to_path_buf();
        let said = config.file.display().to_string();
        let own = config.model.clone().map(|name| ModelName { name, base, said });
        self.command.clone().or(own).unwrap_or_else(|| inherited.clone())
    }

    /// The command's, the agent's own, or those of all agents, each by its name.
    fn settings_of(&self, own: &GenerateContentConfig) -> anyhow::Result<GenerateContentConfig> {
        let mut merged = json_object(&self.settings.generate)?;
        merged.extend(json_object(own)?);
        if let Some(reasoning) = self.reasoning {
            merged.shift_remove("thinking_config");
            merged.insert("thinkingConfig".to_owned(), reasoning.as_thinking_config());
        }
        Ok(serde_json::from_value(Value::Object(merged))?)
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

    /// Its tools, and those that servers will have once they are started.
    fn tools_of(&self, config: &AgentConfig) -> anyhow::Result<(Tools, Vec<Arc<dyn Toolset>>)> {
        let registry = &self.tools.registry;
        let Some(names) = &config.tools else {
            let tools = registry.iter().map(|tool| self.tools.arm(tool)).collect();
            return Ok((tools, self.tools.arm_servers(None)));
        };
        let (own, of_servers): (Vec<&String>, Vec<&String>) =
            names.iter().partition(|name| registry.get(name).is_some() || !self.tools.servers.may_have(name));
        let find = |name: &&String| {
            registry.get(name).map(|tool| self.tools.arm(tool)).with_context(|| {
                let known = self.tools.names();
                format!("{}: there is no tool {name:?}; there is {known}", config.file.display())
            })
        };
        let tools = own.iter().map(find).collect::<anyhow::Result<_>>()?;
        Ok((tools, self.tools.arm_servers(Some(of_servers.into_iter().cloned().collect()))))
    }
}

type Tools = Vec<Arc<dyn adk::tool::Tool>>;

fn json_object(config: &GenerateContentConfig) -> anyhow::Result<Map<String, Value>> {
    Ok(serde_json::to_value(config)?.as_object().cloned().unwrap_or_default())
}
