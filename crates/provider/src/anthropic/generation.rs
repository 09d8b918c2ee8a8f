//! What changed for a request from one generation of Claude to the next, by the model's name.

use crate::encoding;

/// Each takes what the one before it takes, but for what is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ClaudeGeneration {
    /// Up to 4.5, and every model of another maker: thinks if it is given a number of tokens for it.
    Budgeted,
    /// 4.6: decides itself how long to think, by effort.
    Adaptive,
    /// 4.7: takes no temperature, and shows its thoughts only when asked to.
    Unsampled,
    /// 5: thinks unless it is told not to.
    Eager,
    /// 5.5, Fable and Mythos: always think, and cannot be made to call a tool.
    Pensive,
}

impl ClaudeGeneration {
    pub(super) fn of(model: &str) -> Self {
        let Some(version) = encoding::model_version(model, "claude") else {
            return Self::Budgeted;
        };
        if version >= (5, 5) || model.contains("fable") || model.contains("mythos") {
            return Self::Pensive;
        }
        match version {
            (5.., _) => Self::Eager,
            (4, 7..) => Self::Unsampled,
            (4, 6) => Self::Adaptive,
            (0..=4, _) => Self::Budgeted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;

    #[test]
    fn a_models_name_tells_its_generation() {
        let names = [
            "claude-3-7-sonnet-20250219",
            "claude-sonnet-4-20250514",
            "claude-opus-4-5-20251101",
            "us.anthropic.claude-haiku-4-5-20251001-v1:0",
            "anthropic/claude-sonnet-4.6",
            "claude-opus-4-8",
            "claude-sonnet-5",
            "claude-opus-5-5",
            "claude-fable-5",
            "claude-mythos-preview",
            "smollm2-135m",
            "",
        ];
        let lines: Vec<String> =
            names.iter().map(|name| format!("{:?} {name}", ClaudeGeneration::of(name))).collect();
        assert_snapshot!(lines.join("\n"), @"
        Budgeted claude-3-7-sonnet-20250219
        Budgeted claude-sonnet-4-20250514
        Budgeted claude-opus-4-5-20251101
        Budgeted us.anthropic.claude-haiku-4-5-20251001-v1:0
        Adaptive anthropic/claude-sonnet-4.6
        Unsampled claude-opus-4-8
        Eager claude-sonnet-5
        Pensive claude-opus-5-5
        Pensive claude-fable-5
        Pensive claude-mythos-preview
        Budgeted smollm2-135m
        Budgeted
        ");
    }
}
