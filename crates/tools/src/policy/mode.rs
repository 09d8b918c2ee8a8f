//! The approval mode: how much runs without a question.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// How much runs without a question. Rules of the configuration apply in every mode except `plan`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalMode {
    /// Nothing that acts runs.
    Plan,
    /// Whatever acts asks, unless a rule allows it.
    #[default]
    Ask,
    /// File edits inside the roots run.
    Edits,
    /// Whatever stays inside the sandbox runs.
    Auto,
}

impl ApprovalMode {
    pub const ALL: [Self; 4] = [Self::Plan, Self::Ask, Self::Edits, Self::Auto];

    pub fn name(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Ask => "ask",
            Self::Edits => "edits",
            Self::Auto => "auto",
        }
    }

    /// Whether the mode is available only with a complete `workspace` profile, and ends when untrusted text enters the
    /// conversation.
    pub fn is_permissive(self) -> bool {
        matches!(self, Self::Edits | Self::Auto)
    }
}

impl fmt::Display for ApprovalMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ApprovalMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|mode| mode.name() == text);
        found.ok_or_else(|| format!("there is no mode {text:?}; the modes are plan, ask, edits and auto"))
    }
}
