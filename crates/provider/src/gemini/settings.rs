//! The options of a request as its model accepts them. Options that the API would reject are omitted and listed as
//! unsupported.

use crate::{ModelRequest, ReasoningEffort, ToolChoice, encoding, tool_names::ToolNames};
use serde_json::{Map, Value, json};

/// The maximum number of stop sequences.
const MAX_STOPS: usize = 5;

/// A model, by its name.
#[derive(Clone, Copy, Debug)]
pub(super) struct GeminiModel<'a> {
    name: &'a str,
    /// `None` for other model families.
    version: Option<(u32, u32)>,
}

impl<'a> GeminiModel<'a> {
    pub(super) fn from_name(name: &'a str) -> Self {
        Self { name, version: encoding::model_version(name, "gemini") }
    }

    /// From version 3 on, the first call of a turn needs a signature.
    pub(super) fn requires_call_signature(self) -> bool {
        self.version >= Some((3, 0))
    }

    /// The newest models accept no temperature.
    fn supports_sampling(self) -> bool {
        let lite = self.name.contains("flash-lite");
        self.version < Some(if lite { (3, 5) } else { (3, 6) })
    }

    /// Whether thinking can be disabled.
    fn can_disable_thinking(self) -> bool {
        self.version < Some((2, 5)) || (self.version == Some((2, 5)) && !self.name.contains("pro"))
    }

    fn thinking_config(self, effort: ReasoningEffort) -> Option<Value> {
        let include_thoughts = effort != ReasoningEffort::Off;
        if self.version >= Some((3, 0)) {
            return Some(
                json!({"thinkingLevel": self.thinking_level(effort), "includeThoughts": include_thoughts}),
            );
        }
        // Older models do not think, and do not know the setting.
        if !include_thoughts && self.version < Some((2, 5)) {
            return None;
        }
        Some(json!({"thinkingBudget": self.thinking_budget(effort), "includeThoughts": include_thoughts}))
    }

    fn thinking_budget(self, effort: ReasoningEffort) -> u32 {
        let (min, max) = match () {
            () if self.name.contains("pro") => (128, 32_768),
            () if self.name.contains("lite") => (512, 24_576),
            () => (1, 24_576),
        };
        if effort == ReasoningEffort::Off && self.can_disable_thinking() {
            0
        } else {
            effort_tokens(effort).clamp(min, max)
        }
    }

    /// The nearest supported level; not every model has every level.
    fn thinking_level(self, effort: ReasoningEffort) -> &'static str {
        let flash = self.name.contains("flash");
        match effort_tokens(effort) {
            0..1024 if flash && self.version < Some((3, 7)) => "minimal",
            0..8192 => "low",
            8192..16_384 if flash || self.version > Some((3, 0)) => "medium",
            8192.. => "high",
        }
    }
}

fn effort_tokens(effort: ReasoningEffort) -> u32 {
    match effort {
        ReasoningEffort::Off => 0,
        ReasoningEffort::Minimal => 512,
        ReasoningEffort::Low => 1024,
        ReasoningEffort::Medium => 8192,
        ReasoningEffort::High => 24_576,
        ReasoningEffort::Tokens(tokens) => tokens,
    }
}

/// The options that the model does not support, by their names in [`GenerationOptions`](crate::GenerationOptions).
pub fn unsupported_options(request: &ModelRequest) -> Vec<&'static str> {
    let options = &request.options;
    let model = GeminiModel::from_name(&request.model);
    let forced = matches!(options.tool_choice, Some(ToolChoice::Required | ToolChoice::Named(_)));
    let omitted = [
        ("temperature", options.temperature.is_some() && !model.supports_sampling()),
        ("top_p", options.top_p.is_some() && !model.supports_sampling()),
        ("top_k", options.top_k.is_some() && !model.supports_sampling()),
        ("stop", options.stop.iter().filter(|stop| !stop.is_empty()).count() > MAX_STOPS),
        ("reasoning", options.reasoning == Some(ReasoningEffort::Off) && !model.can_disable_thinking()),
        // Several calls are the default.
        ("parallel_tool_calls", options.parallel_tool_calls == Some(false)),
        ("prompt_cache_key", options.cache_key.is_some()),
        ("tool_choice", forced && tool_config(request, &ToolNames::for_request(request)).is_none()),
    ];
    omitted.into_iter().filter_map(|(name, is_omitted)| is_omitted.then_some(name)).collect()
}

pub(super) fn generation_config(request: &ModelRequest) -> Map<String, Value> {
    let options = &request.options;
    let model = GeminiModel::from_name(&request.model);
    let stops: Vec<&String> = options.stop.iter().filter(|stop| !stop.is_empty()).take(MAX_STOPS).collect();
    let sampling = |setting: Option<f64>| setting.filter(|_| model.supports_sampling());
    let fields = [
        ("temperature", encoding::clamped(sampling(options.temperature), 2.0)),
        ("topP", encoding::clamped(sampling(options.top_p), 1.0)),
        ("topK", options.top_k.filter(|_| model.supports_sampling()).map(Value::from)),
        ("presencePenalty", encoding::penalty(options.presence_penalty)),
        ("frequencyPenalty", encoding::penalty(options.frequency_penalty)),
        ("maxOutputTokens", options.max_output_tokens.map(Value::from)),
        ("stopSequences", (!stops.is_empty()).then(|| json!(stops))),
        ("seed", options.seed.map(seed)),
        ("thinkingConfig", options.reasoning.and_then(|effort| model.thinking_config(effort))),
    ];
    fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}

/// The field has 32 bits; a larger seed is truncated to its low bits.
fn seed(seed: i64) -> Value {
    i32::try_from(seed).map_or_else(|_| (seed & i64::from(i32::MAX)).into(), Value::from)
}

/// The API rejects a choice without tools, and a tool that is not declared.
pub(super) fn tool_config(request: &ModelRequest, names: &ToolNames) -> Option<Value> {
    let choice = request.options.tool_choice.as_ref().filter(|_| !request.tools.is_empty())?;
    let mode = match choice {
        ToolChoice::Auto => json!({"mode": "AUTO"}),
        ToolChoice::None => json!({"mode": "NONE"}),
        ToolChoice::Required => json!({"mode": "ANY"}),
        ToolChoice::Named(name) => {
            request.tools.iter().find(|tool| tool.name == *name)?;
            json!({"mode": "ANY", "allowedFunctionNames": [names.wire_name(name)]})
        }
    };
    Some(json!({"functionCallingConfig": mode}))
}

#[cfg(test)]
mod tests;
