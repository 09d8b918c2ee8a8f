//! Approval rules, with their JSON form and their display form.

use std::{
    fmt,
    path::{Component, Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::Safety;

/// The decision on a call, from the mildest to the strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    Allow,
    Ask,
    Deny,
}

/// What a rule applies to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// All tools of a class.
    Class(Safety),
    /// One tool.
    Tool(String),
    /// Commands that begin with these words.
    Command(Vec<String>),
    /// The command with exactly these words.
    Exactly(Vec<String>),
    /// The script with exactly this text.
    Script(String),
    /// One file tool, for the files that match a pattern.
    Path(PathPattern),
}

/// The files that a rule for a file tool applies to: `src/**` is everything below `src`, any other pattern is one file. Paths
/// are relative to the first root, or absolute in another root.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PathPattern {
    pub tool: String,
    pub pattern: String,
}

impl PathPattern {
    /// The narrowest useful pattern for a file: its directory, or the file itself if it is directly inside a root.
    pub(super) fn around(tool: &str, target: &str, roots: &[PathBuf]) -> Self {
        let parent = Path::new(target).parent().filter(|parent| !parent.as_os_str().is_empty());
        let is_root = |parent: &&Path| roots.iter().any(|root| root == parent);
        let pattern = match parent.filter(|parent| !is_root(parent)) {
            Some(parent) => format!("{}/**", parent.display()),
            None => target.to_owned(),
        };
        Self { tool: tool.to_owned(), pattern }
    }

    pub(super) fn matches(&self, tool: &str, target: &str) -> bool {
        let target = Path::new(target);
        let is_plain =
            target.components().all(|part| matches!(part, Component::Normal(_) | Component::RootDir));
        let fits = match self.pattern.strip_suffix("/**") {
            Some(dir) => target != Path::new(dir) && target.starts_with(dir) && !dir.is_empty(),
            None => target == Path::new(&self.pattern),
        };
        self.tool == tool && is_plain && fits
    }
}

/// One line of a policy: `{"decision": "allow", "command": ["cargo", "test"]}`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PolicyRule {
    pub decision: Decision,
    #[serde(flatten)]
    pub subject: Subject,
}

impl PolicyRule {
    pub fn new(subject: Subject, decision: Decision) -> Self {
        Self { decision, subject }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        })
    }
}

impl fmt::Display for PolicyRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decision = self.decision;
        match &self.subject {
            Subject::Class(class) => write!(f, "{decision} {}", name(*class)),
            Subject::Tool(tool) => write!(f, "{decision} the tool {tool}"),
            Subject::Command(words) => write!(f, "{decision} `{} …`", words.join(" ")),
            Subject::Exactly(words) => write!(f, "{decision} `{}`", words.join(" ")),
            Subject::Script(text) => write!(f, "{decision} `{text}`"),
            Subject::Path(PathPattern { tool, pattern }) => write!(f, "{decision} {tool} on `{pattern}`"),
        }
    }
}

fn name(class: Safety) -> &'static str {
    match class {
        Safety::Read => "reading",
        Safety::Write => "writing",
        Safety::Execute => "running programs",
        Safety::Network => "the network",
    }
}
