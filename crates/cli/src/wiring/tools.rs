//! The tools that agents may have, and what stands between them and a model's calls.

use crate::config::Settings;
use adk::tool::Tool;
use bridge::{Guard, ToolAdapter};
use std::{path::PathBuf, sync::Arc};
use tools::{
    Kept, Registry, RuleBook,
    exec::{Cage, Confinement, LazyCage, Shell, confine::Wanted},
    files::Root,
    stub::Stub,
};

/// All tools of this configuration.
pub(crate) struct Toolbox {
    pub(crate) registry: Registry,
    guard: Arc<Guard>,
}

impl Toolbox {
    /// Nothing is made on the disk and no process is started before a tool needs it.
    pub(crate) fn open(settings: &Settings, attended: bool) -> anyhow::Result<Self> {
        let said = &settings.tools;
        let root = Root::new(&said.root)?;
        let kept = Kept::new(&settings.home.join("kept")).at_most(said.keep_bytes).masking(said.mask.clone());
        let guard =
            Guard::new(said.policy.clone(), rule_book(settings), root.path().to_owned(), said.mask.clone());
        let guard = if attended { guard } else { guard.unattended() };
        let shell = Shell {
            root,
            kept,
            environment: said.environment.clone(),
            cage: LazyCage::new(wanted(settings)),
            limits: said.limits,
        };
        let mut registry = tools::all_built_in(shell)?;
        for stub in &settings.stubs {
            registry.add("stubs in lango.toml", Arc::new(Stub::from(stub.clone())))?;
        }
        Ok(Self { registry, guard: Arc::new(guard) })
    }

    /// A tool as agents have it.
    pub(crate) fn arm(&self, tool: &Arc<dyn tools::Tool>) -> Arc<dyn Tool> {
        Arc::new(ToolAdapter::new(Arc::clone(tool)).guarded(Arc::clone(&self.guard)))
    }

    pub(crate) fn names(&self) -> String {
        self.registry.iter().map(|tool| tool.spec().name.as_str()).collect::<Vec<_>>().join(", ")
    }
}

/// What people have allowed for good.
pub(crate) fn rule_book(settings: &Settings) -> RuleBook {
    RuleBook::new(&settings.home.join("rules.jsonl"))
}

/// What keeps commands from the rest of this machine. It starts processes to find out.
pub(crate) fn confinement(settings: &Settings) -> Confinement {
    Cage::build(wanted(settings)).confinement().clone()
}

fn wanted(settings: &Settings) -> Wanted {
    let said = &settings.tools;
    let mut writable = vec![said.root.clone(), said.environment.tmp.clone()];
    writable.extend(said.writable.iter().cloned());
    Wanted { helper: ourselves(), writable, network: said.network, path: said.environment.path.clone() }
}

/// This very program, also after another was put in its place.
fn ourselves() -> PathBuf {
    if cfg!(target_os = "linux") {
        PathBuf::from(format!("/proc/{}/exe", std::process::id()))
    } else {
        std::env::current_exe().unwrap_or_default()
    }
}
