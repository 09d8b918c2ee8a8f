//! `[tools]` and `[approval]` in `lango.toml`: what tools can reach, and which of their calls may run unasked.

use super::{ConfigError, Env, models::Seconds};
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};
use tools::{
    Mask, Safety,
    exec::{Environment, Limits},
    policy::{Decision, Policy, Rule, Subject},
};

/// How many bytes of outputs are kept if nobody says.
const KEPT_MB: u64 = 1_024;

/// As it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(super) struct Tools {
    root: Option<PathBuf>,
    writable: Vec<PathBuf>,
    network: bool,
    #[serde(rename = "timeoutS", alias = "timeout_s")]
    timeout: Option<Seconds>,
    #[serde(rename = "maxTimeoutS", alias = "max_timeout_s")]
    max_timeout: Option<Seconds>,
    #[serde(alias = "keep_mb")]
    keep_mb: Option<u64>,
}

/// What may run unasked, by class, by tool and by command.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Approval {
    read: Option<Decision>,
    write: Option<Decision>,
    execute: Option<Decision>,
    network: Option<Decision>,
    tools: BTreeMap<String, Decision>,
    /// By the words that a command begins with.
    commands: BTreeMap<String, Decision>,
}

/// As it is meant.
#[derive(Clone, Debug)]
pub(crate) struct ToolSettings {
    /// What tools see of the disk.
    pub(crate) root: PathBuf,
    /// Where else commands may write.
    pub(crate) writable: Vec<PathBuf>,
    /// Whether commands may use the network.
    pub(crate) network: bool,
    pub(crate) limits: Limits,
    pub(crate) keep_bytes: u64,
    pub(crate) environment: Environment,
    pub(crate) policy: Policy,
    /// Secrets of the configuration.
    pub(crate) mask: Mask,
}

impl Tools {
    /// Paths are relative to the file; what is not said is the working directory.
    pub(super) fn meant(
        self,
        approval: Approval,
        (workdir, home, base): (&Path, &Path, &Path),
        (env, secrets): (&Env, Vec<String>),
    ) -> Result<ToolSettings, ConfigError> {
        let token = env.secret("LANGO_SERVER_TOKEN")?.map(|token| token.trim().to_owned());
        let usual = Limits::default();
        let time = self.timeout.map_or(usual.time, Seconds::time);
        let max_time = self.max_timeout.map_or(usual.max_time, Seconds::time).max(time);
        let environment = Environment {
            path: env.text("PATH")?.unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".to_owned()),
            home: env.path("HOME").unwrap_or_else(|| workdir.to_owned()).display().to_string(),
            lang: env.text("LANG")?.unwrap_or_else(|| "C.UTF-8".to_owned()),
            tmp: home.join("tmp"),
        };
        Ok(ToolSettings {
            root: self.root.map_or_else(|| workdir.to_owned(), |root| base.join(root)),
            writable: self.writable.into_iter().map(|path| base.join(path)).collect(),
            network: self.network,
            limits: Limits { time, max_time, ..usual },
            keep_bytes: self.keep_mb.unwrap_or(KEPT_MB) << 20,
            environment,
            policy: approval.policy(),
            mask: Mask::new(secrets.into_iter().chain(token)),
        })
    }
}

impl Approval {
    fn policy(self) -> Policy {
        let classes = [
            (Safety::Read, self.read),
            (Safety::Write, self.write),
            (Safety::Execute, self.execute),
            (Safety::Network, self.network),
        ];
        let classes = classes.into_iter().filter_map(|(class, said)| Some((Subject::Class(class), said?)));
        let tools = self.tools.into_iter().map(|(name, said)| (Subject::Tool(name), said));
        let words = |text: String| text.split_whitespace().map(str::to_owned).collect();
        let commands = self.commands.into_iter().map(|(text, said)| (Subject::Command(words(text)), said));
        let all = classes.chain(tools).chain(commands);
        Policy { rules: all.map(|(subject, said)| Rule::new(subject, said)).collect() }
    }
}
