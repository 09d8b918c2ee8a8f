//! The Claude generations, by model name, and how their request parameters differ.

use crate::encoding;

/// Each generation accepts what the previous one accepts, except for the stated differences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ClaudeGeneration {
    /// Up to 4.5, and all models of other vendors: thinking needs a token budget.
    Budgeted,
    /// 4.6: adaptive thinking, controlled by effort.
    Adaptive,
    /// 4.7: no temperature; thoughts are shown only on request.
    NoSampling,
    /// 5: thinks unless thinking is disabled.
    ThinksByDefault,
    /// 5.5, Fable and Mythos: always think, and cannot be forced to call a tool.
    AlwaysThinks,
}

impl ClaudeGeneration {
    pub(super) fn from_model(model: &str) -> Self {
        let Some(version) = encoding::model_version(model, "claude") else {
            return Self::Budgeted;
        };
        if version >= (5, 5) || model.contains("fable") || model.contains("mythos") {
            return Self::AlwaysThinks;
        }
        match version {
            (5.., _) => Self::ThinksByDefault,
            (4, 7..) => Self::NoSampling,
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
    fn generation_is_derived_from_the_model_name() {
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
            names.iter().map(|name| format!("{:?} {name}", ClaudeGeneration::from_model(name))).collect();
        assert_snapshot!(lines.join("\n"), @"
        Budgeted claude-3-7-sonnet-20250219
        Budgeted claude-sonnet-4-20250514
        Budgeted claude-opus-4-5-20251101
        Budgeted us.anthropic.claude-haiku-4-5-20251001-v1:0
        Adaptive anthropic/claude-sonnet-4.6
        NoSampling claude-opus-4-8
        ThinksByDefault claude-sonnet-5
        AlwaysThinks claude-opus-5-5
        AlwaysThinks claude-fable-5
        AlwaysThinks claude-mythos-preview
        Budgeted smollm2-135m
        Budgeted
        ");
    }
}
