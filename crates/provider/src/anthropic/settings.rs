//! The options of a request as its model accepts them. Options that the API would reject are omitted and listed as
//! unsupported.

use super::claude_generation::ClaudeGeneration;
use crate::{GenerationOptions, ModelRequest, ReasoningEffort, ToolChoice, encoding, tool_names::ToolNames};
use serde_json::{Value, json};

/// The default of the required field `max_tokens` for a model that the catalogue does not have: the smallest limit among
/// current models.
const MAX_TOKENS: u32 = 8192;

/// The default for models with adaptive thinking, which counts as output.
const ADAPTIVE_MAX_TOKENS: u32 = 32_000;

/// The minimum thinking budget.
const MIN_BUDGET: u32 = 1024;

#[derive(Debug, Default)]
pub(super) struct AnthropicSettings {
    pub(super) max_tokens: u32,
    pub(super) thinking: Option<Value>,
    pub(super) effort: Option<&'static str>,
    pub(super) temperature: Option<Value>,
    pub(super) top_p: Option<Value>,
    pub(super) top_k: Option<u32>,
    pub(super) tool_choice: Option<Value>,
}

/// The options that the model does not support, by their names in [`GenerationOptions`].
pub fn unsupported_options(request: &ModelRequest) -> Vec<&'static str> {
    let GenerationOptions { seed, temperature, top_p, reasoning, tool_choice, .. } = &request.options;
    let settings = AnthropicSettings::for_request(request, &ToolNames::for_request(request), true);
    let thinks = settings.thinking.as_ref().is_some_and(|thinking| thinking["type"] != "disabled");
    let always_thinks = ClaudeGeneration::from_model(&request.model) == ClaudeGeneration::AlwaysThinks;
    let omitted = [
        ("seed", seed.is_some()),
        ("temperature", temperature.is_some() && settings.temperature.is_none()),
        ("top_p", top_p.is_some() && settings.top_p.is_none()),
        ("top_k", request.options.top_k.is_some() && settings.top_k.is_none()),
        ("presence_penalty", request.options.presence_penalty.is_some()),
        ("frequency_penalty", request.options.frequency_penalty.is_some()),
        ("safety_settings", request.options.safety_settings.is_some()),
        (
            "reasoning",
            reasoning.is_some_and(|effort| (effort != ReasoningEffort::Off) != (thinks || always_thinks)),
        ),
        ("prompt_cache_key", request.options.cache_key.is_some()),
        ("tool_choice", is_forcing(tool_choice.as_ref()) && !settings.is_forced()),
    ];
    omitted.into_iter().filter_map(|(name, is_omitted)| is_omitted.then_some(name)).collect()
}

impl AnthropicSettings {
    /// `thinking_allowed`: the unanswered calls began with thinking, or there are none.
    pub(super) fn for_request(request: &ModelRequest, names: &ToolNames, thinking_allowed: bool) -> Self {
        let options = &request.options;
        let generation = ClaudeGeneration::from_model(&request.model);
        let limit = if generation < ClaudeGeneration::Adaptive { MAX_TOKENS } else { ADAPTIVE_MAX_TOKENS };
        let limit = options.default_output_tokens.unwrap_or(limit);
        let mut settings = Self {
            max_tokens: options.max_output_tokens.unwrap_or(limit),
            tool_choice: with_parallel_calls(request, tool_choice(request, names, generation)),
            ..Self::default()
        };
        settings.set_thinking(options, generation, thinking_allowed);
        if generation < ClaudeGeneration::NoSampling && settings.thinking.is_none() {
            settings.temperature = encoding::clamped(options.temperature, 1.0);
            settings.top_k = options.top_k;
            // The API rejects both at once.
            settings.top_p = encoding::clamped(options.top_p, 1.0).filter(|_| settings.temperature.is_none());
        }
        settings
    }

    fn is_forced(&self) -> bool {
        self.tool_choice.as_ref().is_some_and(|choice| choice["type"] == "any" || choice["type"] == "tool")
    }

    /// The API rejects thinking together with a forced call.
    fn set_thinking(
        &mut self,
        options: &GenerationOptions,
        generation: ClaudeGeneration,
        thinking_allowed: bool,
    ) {
        let effort = if self.is_forced() { Some(ReasoningEffort::Off) } else { options.reasoning };
        match (generation, effort) {
            (ClaudeGeneration::ThinksByDefault, Some(ReasoningEffort::Off)) => {
                self.thinking = Some(json!({"type": "disabled"}));
            }
            (_, None | Some(ReasoningEffort::Off)) => {}
            (ClaudeGeneration::Budgeted, Some(_)) if !thinking_allowed => {}
            (ClaudeGeneration::Budgeted, Some(effort)) => {
                self.set_budget(
                    effort_tokens(effort),
                    options.max_output_tokens.or(options.default_output_tokens),
                );
            }
            (ClaudeGeneration::Adaptive, Some(effort)) => {
                self.set_effort(effort, json!({"type": "adaptive"}));
            }
            (
                ClaudeGeneration::NoSampling
                | ClaudeGeneration::ThinksByDefault
                | ClaudeGeneration::AlwaysThinks,
                Some(effort),
            ) => {
                self.set_effort(effort, json!({"type": "adaptive", "display": "summarized"}));
            }
        }
    }

    /// Thinking counts as output. A quarter of the limit is reserved for the answer; without room for the minimum
    /// budget, thinking stays off.
    fn set_budget(&mut self, wanted: u32, limit: Option<u32>) {
        let limit = limit.unwrap_or_else(|| wanted.saturating_add(MAX_TOKENS));
        let budget = wanted.min(limit - limit / 4);
        if budget >= MIN_BUDGET {
            self.max_tokens = limit;
            self.thinking = Some(json!({"type": "enabled", "budget_tokens": budget}));
        }
    }

    fn set_effort(&mut self, effort: ReasoningEffort, thinking: Value) {
        self.thinking = Some(thinking);
        self.effort = Some(match effort_tokens(effort) {
            0..8192 => "low",
            8192..16_384 => "medium",
            16_384.. => "high",
        });
    }
}

fn effort_tokens(effort: ReasoningEffort) -> u32 {
    match effort {
        ReasoningEffort::Off => 0,
        ReasoningEffort::Minimal => MIN_BUDGET,
        ReasoningEffort::Low => 4096,
        ReasoningEffort::Medium => 8192,
        ReasoningEffort::High => 16_384,
        ReasoningEffort::Tokens(tokens) => tokens.max(MIN_BUDGET),
    }
}

fn is_forcing(choice: Option<&ToolChoice>) -> bool {
    matches!(choice, Some(ToolChoice::Required | ToolChoice::Named(_)))
}

/// Adds `disable_parallel_tool_use`, for which the API needs a choice.
fn with_parallel_calls(request: &ModelRequest, choice: Option<Value>) -> Option<Value> {
    if request.options.parallel_tool_calls != Some(false) || request.tools.is_empty() {
        return choice;
    }
    let mut choice = choice.unwrap_or_else(|| json!({"type": "auto"}));
    if choice["type"] != "none" {
        choice["disable_parallel_tool_use"] = true.into();
    }
    Some(choice)
}

/// The API rejects a choice without tools, and a tool that is not declared.
fn tool_choice(request: &ModelRequest, names: &ToolNames, generation: ClaudeGeneration) -> Option<Value> {
    let choice = request.options.tool_choice.as_ref().filter(|_| !request.tools.is_empty())?;
    match choice {
        ToolChoice::None => Some(json!({"type": "none"})),
        ToolChoice::Auto => Some(json!({"type": "auto"})),
        ToolChoice::Required | ToolChoice::Named(_) if generation == ClaudeGeneration::AlwaysThinks => {
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
