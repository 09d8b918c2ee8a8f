//! Builds agents from the configuration.

pub(crate) mod mcp;
mod models;
mod store;
mod tools;

pub(crate) use models::{default_model, endpoint, model_address, model_memory};
pub(crate) use store::{existing_store, open_for_import, open_served_store, open_store, readable_store};
pub(crate) use tools::{Toolbox, roots, rule_book, sandbox};

use crate::{
    args::Reasoning,
    config::{self, AgentConfig, BUILT_IN_APP, ModelName, Settings},
    screen::ModelUsage,
};
use ::tools::policy::{ApprovalMode, LazyCommandSandbox};
use adk::{
    agent::{AgentTree, LlmAgent},
    limits::RunLimits,
    model::GenerateContentConfig,
    tool::{EventPrice, Toolset},
    trace::Trace,
};
use anyhow::{Context, anyhow};
use bridge::{Agent, Bounds, Budget, ModeSwitch, References};
use serde_json::{Map, Value};
use session::Store;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use telemetry::Telemetry;

/// The instruction of the built-in agent.
const INSTRUCTION: &str = "You are Lango, a helpful assistant on the user's own machine. Use your tools when they help; \
     answer briefly and say plainly what you do not know.";

/// How many times a run may repeat a call with the same arguments and the same result.
const REPEATS: u32 = 5;

/// An app that accepts messages.
pub(crate) struct App {
    pub(crate) name: String,
    pub(crate) agent: Agent,
    /// The model of the root agent, as `provider/model`.
    pub(crate) model: String,
    /// A notice about the choice of the model.
    pub(crate) note: Option<String>,
    /// The approval mode, which may change while the app runs.
    pub(crate) mode: ModeSwitch,
    pub(crate) sandbox: LazyCommandSandbox,
}

/// The choices of a command, which override the configuration.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PlanOptions<'a> {
    pub(crate) app: Option<&'a str>,
    pub(crate) model: Option<&'a str>,
    pub(crate) reasoning: Option<Reasoning>,
    /// The approval mode, instead of that of the configuration.
    pub(crate) mode: Option<ApprovalMode>,
    /// Whether someone is available to approve calls.
    pub(crate) attended: bool,
    /// Whether the app is served, so that the mode of a session takes precedence.
    pub(crate) served: bool,
}

/// A configuration error of an agent outside of its files. The message is that of the cause.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AgentFault {
    #[error(transparent)]
    Model(anyhow::Error),
    #[error(transparent)]
    Tools(anyhow::Error),
    #[error("{}", file.display())]
    Tree { file: PathBuf, source: adk::error::TreeError },
}

/// The exporter of spans to the configured collector.
pub(crate) fn telemetry(settings: &Settings) -> anyhow::Result<Telemetry> {
    Telemetry::new(settings.telemetry.clone()).map_err(|error| anyhow!("telemetry.endpoint: {error}"))
}

/// An app whose configuration is valid, without a store.
pub(crate) struct Plan {
    pub(crate) name: String,
    root: LlmAgent,
    model: String,
    note: Option<String>,
    mode: ModeSwitch,
    sandbox: LazyCommandSandbox,
    budget: Budget,
    bounds: Bounds,
    references: References,
    /// The files that the app was read from.
    pub(crate) files: Vec<PathBuf>,
}

/// Plans the app that the command or the configuration names; without any, the built-in one.
pub(crate) async fn plan(settings: &Settings, options: PlanOptions<'_>) -> anyhow::Result<Plan> {
    let found = find_app(settings, options.app)?;
    // A named model needs no discovery.
    let is_named = options.model.is_some() || found.1.model.is_some();
    let (inherited, note) = if is_named {
        (settings.model.clone().unwrap_or_else(ModelName::demo), None)
    } else {
        default_model(settings).await
    };
    Ok(Plan { note, ..build_plan(settings, options, found, &inherited)? })
}

/// Plans the named app with an already resolved model for agents that name none.
pub(crate) fn plan_with(settings: &Settings, app: &str, model: &ModelName) -> anyhow::Result<Plan> {
    // Clients can answer approval questions at any later time.
    let options = PlanOptions { attended: true, served: true, ..PlanOptions::default() };
    build_plan(settings, options, find_app(settings, Some(app))?, model)
}

/// The names of the tools that the agents of an app may use; `None` for all tools.
pub(crate) fn tools_wanted(settings: &Settings, app: Option<&str>) -> anyhow::Result<Option<Vec<String>>> {
    Ok(tools_of_tree(&find_app(settings, app)?.1))
}

fn tools_of_tree(config: &AgentConfig) -> Option<Vec<String>> {
    let mut names = config.tools.clone()?;
    for sub in &config.sub_agents {
        names.extend(tools_of_tree(sub)?);
    }
    Some(names)
}

/// The name of the selected app.
pub(crate) fn app_name(settings: &Settings, app: Option<&str>) -> anyhow::Result<String> {
    Ok(find_app(settings, app)?.0)
}

fn find_app(settings: &Settings, wanted: Option<&str>) -> anyhow::Result<(String, AgentConfig)> {
    let found = settings.agents_dir.load_app(wanted.or(settings.app.as_deref()))?;
    Ok(found.unwrap_or_else(|| (BUILT_IN_APP.to_owned(), built_in())))
}

fn build_plan(
    settings: &Settings,
    options: PlanOptions<'_>,
    (name, config): (String, AgentConfig),
    inherited: &ModelName,
) -> anyhow::Result<Plan> {
    let file = config.file.clone();
    let command = options.model.map(|name| ModelName {
        name: name.to_owned(),
        base: PathBuf::new(),
        source: "--model".to_owned(),
    });
    let mode = ModeSwitch::new(options.mode.unwrap_or(settings.tools.mode));
    let mode = if options.served { mode.per_session() } else { mode };
    let wiring = Wiring {
        settings,
        tools: Toolbox::open(settings, options.attended, mode.clone()).map_err(AgentFault::Tools)?,
        command,
        reasoning: options.reasoning,
    };
    let servers = &wiring.tools.servers;
    let usable = servers.usable_with(tools_of_tree(&config).as_deref());
    let references = References::new(Arc::clone(servers), usable);
    let model = wiring.model_of(&config, inherited).name;
    let mut files = Vec::new();
    wiring.files_of(&config, inherited, &mut files);
    let root = wiring.agent(config, inherited)?;
    AgentTree::new(root.clone()).map_err(|source| AgentFault::Tree { file, source })?;
    let (budget, bounds) = (settings.budget, bounds(settings));
    let sandbox = wiring.tools.sandbox.clone();
    Ok(Plan { name, root, model, note: None, mode, sandbox, budget, bounds, references, files })
}

impl Plan {
    pub(crate) fn model(&self) -> &str {
        &self.model
    }

    pub(crate) fn open(self, store: Arc<dyn Store>, trace: Trace) -> anyhow::Result<App> {
        let Self { name, root, model, note, mode, sandbox, budget, bounds, references, .. } = self;
        let agent = Agent::new(store, root, budget)?;
        Ok(App {
            name,
            agent: agent.with_bounds(bounds).with_trace(trace).with_references(references),
            model,
            note,
            mode,
            sandbox,
        })
    }
}

/// The limits of each run, in the terminal and on a server.
fn bounds(settings: &Settings) -> Bounds {
    let config::Limits { tool_calls, time, tokens, cost } = settings.limits;
    let models = settings.models.clone();
    let price: EventPrice = Arc::new(move |event| ModelUsage::of(event, &models)?.cost);
    let tools = settings.tools.limits;
    Bounds {
        model_calls: settings.model_calls,
        // Longer than a command's own limit, which applies first.
        tool_time: Some(tools.max_time + tools.grace * 2),
        limits: RunLimits {
            tool_calls,
            time,
            tokens,
            cost: cost.map(|limit| (limit, price)),
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
    /// The model of the command line, which overrides that of every agent.
    command: Option<ModelName>,
    reasoning: Option<Reasoning>,
}

impl Wiring<'_> {
    fn agent(&self, config: AgentConfig, inherited: &ModelName) -> anyhow::Result<LlmAgent> {
        let model = self.model_of(&config, inherited);
        let adapter = models::adapter(self.settings, &model).map_err(AgentFault::Model)?;
        let (tools, toolsets) = self.tools_of(&config).map_err(AgentFault::Tools)?;
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

    /// The model of an agent: that of the command line, its own, or its parent's.
    fn model_of(&self, config: &AgentConfig, inherited: &ModelName) -> ModelName {
        let base = config.file.parent().unwrap_or(Path::new("")).to_path_buf();
        let source = config.file.display().to_string();
        let own = config.model.clone().map(|name| ModelName { name, base, source });
        self.command.clone().or(own).unwrap_or_else(|| inherited.clone())
    }

    /// The generation settings of an agent, merged by key: the command line overrides the agent, which overrides `[generate]`.
    fn settings_of(&self, own: &GenerateContentConfig) -> anyhow::Result<GenerateContentConfig> {
        let mut merged = json_object(&self.settings.generate)?;
        merged.extend(json_object(own)?);
        if let Some(reasoning) = self.reasoning {
            merged.shift_remove("thinking_config");
            merged.insert("thinkingConfig".to_owned(), reasoning.as_thinking_config());
        }
        Ok(serde_json::from_value(Value::Object(merged))?)
    }

    /// Collects the files of an agent and its sub-agents.
    fn files_of(&self, config: &AgentConfig, inherited: &ModelName, files: &mut Vec<PathBuf>) {
        let model = self.model_of(config, inherited);
        files.push(config.file.clone());
        files.extend(model.name.strip_prefix("scripted/").map(|script| model.base.join(script)));
        for sub in &config.sub_agents {
            self.files_of(sub, &model, files);
        }
    }

    /// The tools of an agent, and the toolsets of MCP servers, which are listed when they are used.
    fn tools_of(&self, config: &AgentConfig) -> anyhow::Result<(Tools, Vec<Arc<dyn Toolset>>)> {
        let registry = &self.tools.registry;
        let Some(names) = &config.tools else {
            let tools = registry.iter().map(|tool| self.tools.guarded(tool)).collect();
            return Ok((tools, self.tools.server_toolsets(None)));
        };
        let (own, of_servers): (Vec<&String>, Vec<&String>) =
            names.iter().partition(|name| registry.get(name).is_some() || !self.tools.servers.may_have(name));
        let find = |name: &&String| {
            registry.get(name).map(|tool| self.tools.guarded(tool)).with_context(|| {
                let known = self.tools.names();
                format!("{}: there is no tool {name:?}; the tools are {known}", config.file.display())
            })
        };
        let tools = own.iter().map(find).collect::<anyhow::Result<_>>()?;
        Ok((tools, self.tools.server_toolsets(Some(of_servers.into_iter().cloned().collect()))))
    }
}

type Tools = Vec<Arc<dyn adk::tool::Tool>>;

fn json_object(config: &GenerateContentConfig) -> anyhow::Result<Map<String, Value>> {
    Ok(serde_json::to_value(config)?.as_object().cloned().unwrap_or_default())
}
