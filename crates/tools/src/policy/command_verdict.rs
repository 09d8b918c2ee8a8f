//! The verdict on one simple command of a script.

use std::path::{Path, PathBuf};

use super::{Decision, PathScope, PolicyRule, read_only::git_config, script::ONLY_READS, shell::ShellWord};

/// The verdict on one command.
pub(super) struct CommandVerdict {
    pub(super) decision: Decision,
    pub(super) reason: String,
    /// Allowed because it only reads, and not by a rule.
    pub(super) is_read_only: bool,
    /// It asks in the mode `auto` too, and no stored rule allows it: it leaves the sandbox, or a rule says so.
    pub(super) is_firm: bool,
    /// The rule that would allow it.
    pub(super) offered: Option<PolicyRule>,
    /// The protected paths that it needs.
    pub(super) protected: Vec<PathBuf>,
    /// The setting that would allow it.
    pub(super) remedy: Option<String>,
}

impl CommandVerdict {
    fn new(decision: Decision, reason: impl Into<String>) -> Self {
        Self {
            decision,
            reason: reason.into(),
            is_read_only: false,
            is_firm: false,
            offered: None,
            protected: Vec::new(),
            remedy: None,
        }
    }

    pub(super) fn allow(reason: impl Into<String>) -> Self {
        Self::new(Decision::Allow, reason)
    }

    pub(super) fn read_only() -> Self {
        Self { is_read_only: true, ..Self::allow(ONLY_READS) }
    }

    pub(super) fn ask(reason: impl Into<String>) -> Self {
        Self::new(Decision::Ask, reason)
    }

    pub(super) fn deny(reason: impl Into<String>, remedy: Option<String>) -> Self {
        Self { remedy, ..Self::new(Decision::Deny, reason) }
    }

    /// It needs protected paths, and asks for them by name.
    pub(super) fn protected(reason: String, protected: Vec<PathBuf>) -> Self {
        Self { is_firm: true, protected, ..Self::ask(reason) }
    }

    /// The sandbox would refuse the network.
    pub(super) fn without_network(name: &str) -> Self {
        let remedy = "set `network = true` in [tools] of lango.toml to give commands the network; the tool fetch reads pages \
                      without that";
        Self::deny(format!("`{name}` needs the network, which commands do not have"), Some(remedy.to_owned()))
    }

    /// The sandbox would refuse to write there.
    pub(super) fn unwritable(path: &str) -> Self {
        let remedy = "name its directory in `roots` or `writable` of [tools] in lango.toml to allow that";
        Self::deny(format!("commands cannot write to `{path}`"), Some(remedy.to_owned()))
    }

    /// The sandbox refuses all additional privileges.
    pub(super) fn unprivileged(name: &str) -> Self {
        let remedy = "no setting allows that; the person can run it in a terminal";
        Self::deny(format!("`{name}` cannot gain privileges in the sandbox"), Some(remedy.to_owned()))
    }

    /// Turns a question that is not firm into a permission: in the mode `auto`, or by a rule for the whole script.
    pub(super) fn settle(&mut self, is_auto: bool, by_script: Option<&PolicyRule>) {
        if self.decision != Decision::Ask || self.is_firm {
            return;
        }
        if let Some(rule) = by_script {
            *self = Self::allow(format!("a rule says: {rule}"));
        } else if is_auto {
            *self = Self::allow("the mode auto allows what stays inside the sandbox");
        }
    }
}

/// The settings of git that a command changes.
pub(super) enum GitSettings {
    /// Those of the repository that it runs in.
    OfRepository,
    /// Those of a repository that it creates in this directory, relative to its own.
    New(PathBuf),
}

impl GitSettings {
    /// The file, as a person knows it.
    pub(super) fn shown(&self) -> PathBuf {
        match self {
            Self::OfRepository => PathBuf::from(".git/config"),
            Self::New(dir) => dir.join(".git/config"),
        }
    }

    /// The paths to write, in every directory that the script may be in.
    pub(super) fn files(&self, scope: &PathScope, directories: &[PathBuf]) -> Vec<PathBuf> {
        match self {
            Self::OfRepository => {
                let all = scope.candidates(Path::new(""), directories);
                all.flat_map(|dir| git_config::settings_files(&dir)).collect()
            }
            Self::New(dir) => scope.candidates(dir, directories).map(|dir| dir.join(".git")).collect(),
        }
    }
}

/// The settings of git that a command changes, if it does.
pub(super) fn git_settings(words: &[ShellWord]) -> Option<GitSettings> {
    let known: Vec<&str> = words.iter().map(|word| word.known().unwrap_or("$")).collect();
    let args = known.strip_prefix(&["git"])?;
    let operands: Vec<&str> = args.iter().copied().filter(|word| !word.starts_with('-')).collect();
    let has = |option: &str| args.contains(&option);
    let changes = match operands.as_slice() {
        ["config", rest @ ..] => {
            let reads = ["--get", "--get-all", "--list", "-l", "--get-regexp"].into_iter().any(has)
                || matches!(rest, ["get" | "list", ..] | [_]);
            !reads
        }
        ["remote", "add" | "remove" | "rm" | "rename" | "set-url" | "set-head" | "set-branches", ..]
        | ["submodule", "add" | "init" | "update" | "sync" | "deinit", ..]
        | ["worktree", "add" | "move" | "repair", ..] => true,
        ["branch", ..] => {
            ["-u", "--unset-upstream", "--edit-description"].into_iter().any(has)
                || args.iter().any(|word| word.starts_with("--set-upstream-to"))
        }
        ["push", ..] => has("-u") || has("--set-upstream"),
        ["init"] => return Some(GitSettings::New(PathBuf::new())),
        ["init", dir, ..] | ["clone", _, dir, ..] => return Some(GitSettings::New(dir.into())),
        ["clone", url] => {
            let name = url.trim_end_matches('/').rsplit(['/', ':']).next().unwrap_or_default();
            return Some(GitSettings::New(name.strip_suffix(".git").unwrap_or(name).into()));
        }
        _ => false,
    };
    changes.then_some(GitSettings::OfRepository)
}
