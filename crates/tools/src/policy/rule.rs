//! Approval rules, with their JSON form and their display form.

use std::fmt;

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
