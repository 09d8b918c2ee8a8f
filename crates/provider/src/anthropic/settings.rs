//! The settings of a request as the model at hand takes them. One that would be refused is left out, and named.

use super::generation::ClaudeGeneration;
use crate::{GenerationOptions, ModelRequest, ReasoningEffort, ToolChoice, encoding, tool_names::ToolNames};
use serde_json::{Value, json};

/// The field for it is required; the smallest limit among the models in use.
const MAX_TOKENS: u32 = 8192;

/// The limit of models that think as long as they want within it.
const ADAPTIVE_MAX_TOKENS: u32 = 32_000;

/// The least that a model can be given to think.
const LEAST_BUDGET: u32 = 1024;

#[derive(Debug, Default)]
pub(super) struct AnthropicSettings {
    pub(super) max_tokens: u32,
    pub(super) thinking: Option<Value>,
    pub(super) effort: Option<&'static str>,
    pub(super) temperature: Option<Value>,
    pub(super) top_p: Option<Value>,
    pub(super) tool_choice: Option<Value>,
}

/// The settings of a request that its model has no place for, by their names in [`GenerationOptions`].
pub fn unsupported_options(request: &ModelRequest) -> Vec<&'static str> {
    let GenerationOptions { seed, temperature, top_p, reasoning, tool_choice, .. } = &request.options;
    let settings = AnthropicSettings::of(request, &ToolNames::for_request(request), true);
    let thinks = settings.thinking.as_ref().is_some_and(|thinking| thinking["type"] != "disabled");
    let pensive = ClaudeGeneration::of(&request.model) == ClaudeGeneration::Pensive;
    let left_out = [
        ("seed", seed.is_some()),
        ("temperature", temperature.is_some() && settings.temperature.is_none()),
        ("top_p", top_p.is_some() && settings.top_p.is_none()),
        (
            "reasoning",
            reasoning.is_some_and(|effort| (effort != ReasoningEffort::Off) != (thinks || pensive)),
        ),
        ("tool_choice", is_forcing(tool_choice.as_ref()) && !settings.is_forced()),
    ];
    left_out.into_iter().filter_map(|(name, out)| out.then_some(name)).collect()
}

impl AnthropicSettings {
    /// `opened`: calls that wait for their answers began with thinking, or there are none.
    pub(super) fn of(request: &ModelRequest, names: &ToolNames, opened: bool) -> Self {
        let options = &request.options;
        let generation = ClaudeGeneration::of(&request.model);
        let limit = if generation < ClaudeGeneration::Adaptive { MAX_TOKENS } else { ADAPTIVE_MAX_TOKENS };
        let mut settings = Self {
            max_tokens: options.max_output_tokens.unwrap_or(limit),
            tool_choice: tool_choice(request, names, generation),
            ..Self::default()
        };
        settings.think(options, generation, opened);
        if generation < ClaudeGeneration::Unsampled && settings.thinking.is_none() {
            settings.temperature = encoding::clamped(options.temperature, 1.0);
            // Both at once are refused.
            settings.top_p = encoding::clamped(options.top_p, 1.0).filter(|_| settings.temperature.is_none());
        }
        settings
    }

    fn is_forced(&self) -> bool {
        self.tool_choice.as_ref().is_some_and(|choice| choice["type"] == "any" || choice["type"] == "tool")
    }

    /// Thinking and a forced call are refused together.
    fn think(&mut self, options: &GenerationOptions, generation: ClaudeGeneration, opened: bool) {
        let effort = if self.is_forced() { Some(ReasoningEffort::Off) } else { options.reasoning };
        match (generation, effort) {
            (ClaudeGeneration::Eager, Some(ReasoningEffort::Off)) => {
                self.thinking = Some(json!({"type": "disabled"}))
            }
            (_, None | Some(ReasoningEffort::Off)) => {}
            (ClaudeGeneration::Budgeted, Some(_)) if !opened => {}
            (ClaudeGeneration::Budgeted, Some(effort)) => {
                self.spend(tokens(effort), options.max_output_tokens)
            }
            (ClaudeGeneration::Adaptive, Some(effort)) => self.adapt(effort, json!({"type": "adaptive"})),
            (
                ClaudeGeneration::Unsampled | ClaudeGeneration::Eager | ClaudeGeneration::Pensive,
                Some(effort),
            ) => {
                self.adapt(effort, json!({"type": "adaptive", "display": "summarized"}));
            }
        }
    }

    /// What is thought counts as output: a quarter of the limit stays for the answer. Without that room nothing is thought.
    fn spend(&mut self, wanted: u32, limit: Option<u32>) {
        let limit = limit.unwrap_or_else(|| wanted.saturating_add(MAX_TOKENS));
        let budget = wanted.min(limit - limit / 4);
        if budget >= LEAST_BUDGET {
            self.max_tokens = limit;
            self.thinking = Some(json!({"type": "enabled", "budget_tokens": budget}));
        }
    }

    fn adapt(&mut self, effort: ReasoningEffort, thinking: Value) {
        self.thinking = Some(thinking);
        self.effort = Some(match tokens(effort) {
            0..8192 => "low",
            8192..16_384 => "medium",
            16_384.. => "high",
        });
    }
}

fn tokens(effort: ReasoningEffort) -> u32 {
    match effort {
        ReasoningEffort::Off => 0,
        ReasoningEffort::Minimal => LEAST_BUDGET,
        ReasoningEffort::Low => 4096,
        ReasoningEffort::Medium => 8192,
        ReasoningEffort::High => 16_384,
        ReasoningEffort::Tokens(tokens) => tokens.max(LEAST_BUDGET),
    }
}

fn is_forcing(choice: Option<&ToolChoice>) -> bool {
    matches!(choice, Some(ToolChoice::Required | ToolChoice::Named(_)))
}

/// A choice needs tools to choose from, and a tool that is named must be there.
fn tool_choice(request: &ModelRequest, names: &ToolNames, generation: ClaudeGeneration) -> Option<Value> {
    let choice = request.options.tool_choice.as_ref().filter(|_| !request.tools.is_empty())?;
    match choice {
        ToolChoice::None => Some(json!({"type": "none"})),
        ToolChoice::Auto => Some(json!({"type": "auto"})),
        ToolChoice::Required | ToolChoice::Named(_) if generation == ClaudeGeneration::Pensive => {
            Some(json!({"type": "auto"}))
        }
        ToolChoice::Required => Some(json!({"type": "any"})),
        ToolChoice::Named(name) => request
            .tools
            .iter()
            .any(|tool| tool.name == *name)
            .then(|| json!({"type": "tool", "name": names.wire_name(name)})),
    }
}

#[cfg(test)]
mod tests;
