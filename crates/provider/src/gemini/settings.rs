//! The settings of a request as the model at hand takes them. One that would be refused is left out, and named.

use crate::{ModelRequest, ReasoningEffort, ToolChoice, encoding, tool_names::ToolNames};
use serde_json::{Map, Value, json};

/// How many stop sequences are taken.
const STOPS: usize = 5;

/// A model by its name.
#[derive(Clone, Copy, Debug)]
pub(super) struct GeminiModel<'a> {
    name: &'a str,
    /// `None` for models of other families.
    version: Option<(u32, u32)>,
}

impl<'a> GeminiModel<'a> {
    pub(super) fn of(name: &'a str) -> Self {
        Self { name, version: encoding::model_version(name, "gemini") }
    }

    /// From 3 on, the first call of a turn must be signed.
    pub(super) fn signs_calls(self) -> bool {
        self.version >= Some((3, 0))
    }

    /// The newest ones take no temperature.
    fn is_sampled(self) -> bool {
        let lite = self.name.contains("flash-lite");
        self.version < Some(if lite { (3, 5) } else { (3, 6) })
    }

    /// Whether it can be kept from thinking.
    fn can_rest(self) -> bool {
        self.version < Some((2, 5)) || (self.version == Some((2, 5)) && !self.name.contains("pro"))
    }

    fn thinking(self, effort: ReasoningEffort) -> Option<Value> {
        let shown = effort != ReasoningEffort::Off;
        if self.version >= Some((3, 0)) {
            return Some(json!({"thinkingLevel": self.level(effort), "includeThoughts": shown}));
        }
        // Older models do not think anyway, and do not know the setting.
        if !shown && self.version < Some((2, 5)) {
            return None;
        }
        Some(json!({"thinkingBudget": self.budget(effort), "includeThoughts": shown}))
    }

    fn budget(self, effort: ReasoningEffort) -> u32 {
        let (least, most) = match () {
            () if self.name.contains("pro") => (128, 32_768),
            () if self.name.contains("lite") => (512, 24_576),
            () => (1, 24_576),
        };
        if effort == ReasoningEffort::Off && self.can_rest() { 0 } else { tokens(effort).clamp(least, most) }
    }

    /// Not every model has every level; the nearest is taken.
    fn level(self, effort: ReasoningEffort) -> &'static str {
        let flash = self.name.contains("flash");
        match tokens(effort) {
            0..1024 if flash && self.version < Some((3, 7)) => "minimal",
            0..8192 => "low",
            8192..16_384 if flash || self.version > Some((3, 0)) => "medium",
            8192.. => "high",
        }
    }
}

fn tokens(effort: ReasoningEffort) -> u32 {
    match effort {
        ReasoningEffort::Off => 0,
        ReasoningEffort::Minimal => 512,
        ReasoningEffort::Low => 1024,
        ReasoningEffort::Medium => 8192,
        ReasoningEffort::High => 24_576,
        ReasoningEffort::Tokens(tokens) => tokens,
    }
}

/// The settings of a request that its model has no place for, by their names in [`GenerationOptions`](crate::Options).
pub fn unsupported_options(request: &ModelRequest) -> Vec<&'static str> {
    let options = &request.options;
    let model = GeminiModel::of(&request.model);
    let forced = matches!(options.tool_choice, Some(ToolChoice::Required | ToolChoice::Named(_)));
    let left_out = [
        ("temperature", options.temperature.is_some() && !model.is_sampled()),
        ("top_p", options.top_p.is_some() && !model.is_sampled()),
        ("stop", options.stop.iter().filter(|stop| !stop.is_empty()).count() > STOPS),
        ("reasoning", options.reasoning == Some(ReasoningEffort::Off) && !model.can_rest()),
        ("tool_choice", forced && tool_config(request, &ToolNames::for_request(request)).is_none()),
    ];
    left_out.into_iter().filter_map(|(name, out)| out.then_some(name)).collect()
}

pub(super) fn generation(request: &ModelRequest) -> Map<String, Value> {
    let options = &request.options;
    let model = GeminiModel::of(&request.model);
    let stops: Vec<&String> = options.stop.iter().filter(|stop| !stop.is_empty()).take(STOPS).collect();
    let sampled = |setting: Option<f64>| setting.filter(|_| model.is_sampled());
    let fields = [
        ("temperature", encoding::clamped(sampled(options.temperature), 2.0)),
        ("topP", encoding::clamped(sampled(options.top_p), 1.0)),
        ("maxOutputTokens", options.max_output_tokens.map(Value::from)),
        ("stopSequences", (!stops.is_empty()).then(|| json!(stops))),
        ("seed", options.seed.map(seed)),
        ("thinkingConfig", options.reasoning.and_then(|effort| model.thinking(effort))),
    ];
    fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}

/// The field has 32 bits. Of a longer seed the last ones are as good.
fn seed(seed: i64) -> Value {
    i32::try_from(seed).map_or_else(|_| (seed & i64::from(i32::MAX)).into(), Value::from)
}

/// A choice needs tools to choose from, and a tool that is named must be there.
pub(super) fn tool_config(request: &ModelRequest, names: &ToolNames) -> Option<Value> {
    let choice = request.options.tool_choice.as_ref().filter(|_| !request.tools.is_empty())?;
    let calling = match choice {
        ToolChoice::Auto => json!({"mode": "AUTO"}),
        ToolChoice::None => json!({"mode": "NONE"}),
        ToolChoice::Required => json!({"mode": "ANY"}),
        ToolChoice::Named(name) => {
            request.tools.iter().find(|tool| tool.name == *name)?;
            json!({"mode": "ANY", "allowedFunctionNames": [names.wire_name(name)]})
        }
    };
    Some(json!({"functionCallingConfig": calling}))
}

#[cfg(test)]
mod tests;
