//! Converts ADK's `generate_content_config` to provider options. Keys may be camelCase or snake_case.

use adk::model::GenerateContentConfig;
use provider::{GenerationOptions, ReasoningEffort, ToolChoice, ToolSpec};
use serde::Deserialize;
use serde_json::{Map, Value};

/// The options that all providers share; a provider warns of options that it does not support. A forced tool choice
/// is relaxed once the tool has returned (`answered`): otherwise no turn would end.
pub(crate) fn options(config: &GenerateContentConfig, answered: bool) -> GenerationOptions {
    let schema = read::<Value>(&config.extra, "responseJsonSchema");
    GenerationOptions {
        temperature: config.temperature,
        top_p: config.top_p,
        top_k: top_k(config),
        presence_penalty: read(&config.extra, "presencePenalty"),
        frequency_penalty: read(&config.extra, "frequencyPenalty"),
        safety_settings: read::<Vec<Value>>(&config.extra, "safetySettings").map(Value::from),
        max_output_tokens: config.max_output_tokens,
        stop: config.stop_sequences.clone(),
        seed: config.seed,
        response_schema: config.response_schema.clone().or(schema),
        reasoning: thinking(config).and_then(Thinking::effort),
        tool_choice: calling(config)
            .map(Calling::choice)
            .map(|choice| if answered { choice.unforced() } else { choice }),
        ..GenerationOptions::default()
    }
}

/// ADK's type is a float, as in `40.0`.
fn top_k(config: &GenerateContentConfig) -> Option<u32> {
    let number: f64 = read(&config.extra, "topK")?;
    let is_whole = number >= 1.0 && number.fract() == 0.0;
    format!("{number:.0}").parse().ok().filter(|_| is_whole)
}

/// The tools that the model may call, if the settings name several.
pub(crate) fn allowed_tools(config: &GenerateContentConfig, tools: Vec<ToolSpec>) -> Vec<ToolSpec> {
    let names = calling(config).filter(|calling| calling.mode == Mode::Any).map(|calling| calling.allowed);
    match names.filter(|names| names.len() > 1) {
        Some(names) => tools.into_iter().filter(|tool| names.contains(&tool.name)).collect(),
        None => tools,
    }
}

/// Settings without effect: unknown, or with a value that cannot be read.
pub(crate) fn without_effect(config: &GenerateContentConfig) -> Vec<String> {
    let extra = config.extra.iter().filter(|(_, value)| !value.is_null());
    extra.filter(|(key, value)| !is_known(config, key, value)).map(|(key, _)| key.clone()).collect()
}

fn is_known(config: &GenerateContentConfig, key: &str, value: &Value) -> bool {
    match camel(key).as_str() {
        "thinkingConfig" => thinking(config).is_some_and(|thinking| thinking.show != Some(false)),
        "toolConfig" => calling(config).is_some(),
        "responseJsonSchema" => true,
        "topK" => top_k(config).is_some(),
        "presencePenalty" | "frequencyPenalty" => value.is_number(),
        "safetySettings" => value.is_array(),
        "responseMimeType" => value == "text/plain" || options(config, false).response_schema.is_some(),
        _ => false,
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Thinking {
    #[serde(rename = "thinkingBudget", alias = "thinking_budget")]
    budget: Option<i64>,
    #[serde(rename = "thinkingLevel", alias = "thinking_level")]
    level: Option<String>,
    #[serde(rename = "includeThoughts", alias = "include_thoughts")]
    show: Option<bool>,
}

fn thinking(config: &GenerateContentConfig) -> Option<Thinking> {
    read::<Thinking>(&config.extra, "thinkingConfig").filter(|thinking| {
        let level = thinking.level.as_deref();
        level.is_none_or(|level| effort(level).is_some() || is_unspecified(level))
    })
}

impl Thinking {
    /// A negative budget leaves the effort to the model.
    fn effort(self) -> Option<ReasoningEffort> {
        match self.budget {
            Some(0) => Some(ReasoningEffort::Off),
            Some(tokens) => u32::try_from(tokens).ok().map(ReasoningEffort::Tokens),
            None => effort(&self.level?),
        }
    }
}

/// Parses a reasoning effort by its ADK name; `off` is an extension.
pub fn effort(level: &str) -> Option<ReasoningEffort> {
    match level.to_ascii_lowercase().as_str() {
        "off" | "none" => Some(ReasoningEffort::Off),
        "minimal" => Some(ReasoningEffort::Minimal),
        "low" => Some(ReasoningEffort::Low),
        "medium" => Some(ReasoningEffort::Medium),
        "high" => Some(ReasoningEffort::High),
        _ => None,
    }
}

fn is_unspecified(name: &str) -> bool {
    name.to_ascii_uppercase().ends_with("_UNSPECIFIED")
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Calling {
    #[serde(default)]
    mode: Mode,
    #[serde(default, alias = "allowed_function_names", rename = "allowedFunctionNames")]
    allowed: Vec<String>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum Mode {
    #[default]
    #[serde(alias = "MODE_UNSPECIFIED", alias = "VALIDATED", alias = "auto")]
    Auto,
    #[serde(alias = "any")]
    Any,
    #[serde(alias = "none")]
    None,
}

fn calling(config: &GenerateContentConfig) -> Option<Calling> {
    let tools: Map<String, Value> = read(&config.extra, "toolConfig")?;
    read(&tools, "functionCallingConfig")
}

impl Calling {
    fn choice(self) -> ToolChoice {
        match (self.mode, self.allowed.as_slice()) {
            (Mode::Auto, _) => ToolChoice::Auto,
            (Mode::None, _) => ToolChoice::None,
            (Mode::Any, [only]) => ToolChoice::Named(only.clone()),
            (Mode::Any, _) => ToolChoice::Required,
        }
    }
}

/// Reads a setting by its JSON name in either spelling; `None` if it cannot be read. The last of several wins.
fn read<T: for<'de> Deserialize<'de>>(settings: &Map<String, Value>, name: &str) -> Option<T> {
    let entry = settings.iter().rfind(|(key, value)| camel(key) == name && !value.is_null());
    entry.and_then(|(_, value)| T::deserialize(value).ok())
}

/// Converts `thinking_config` to `thinkingConfig`.
fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |mut joined, word| {
        let mut letters = word.chars();
        joined.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        joined.push_str(letters.as_str());
        joined
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn config(settings: Value) -> GenerateContentConfig {
        serde_json::from_value(settings).unwrap()
    }

    #[test]
    fn thinking_config_is_an_effort_or_a_token_budget() {
        let efforts = [
            (json!({"thinkingLevel": "HIGH"}), Some(ReasoningEffort::High)),
            (json!({"thinking_level": "minimal"}), Some(ReasoningEffort::Minimal)),
            (json!({"thinkingBudget": 0}), Some(ReasoningEffort::Off)),
            (json!({"thinking_budget": 1024}), Some(ReasoningEffort::Tokens(1_024))),
            (json!({"thinkingBudget": -1}), None),
            (json!({"includeThoughts": true}), None),
        ];
        for (thinking, effort) in efforts {
            for name in ["thinkingConfig", "thinking_config"] {
                let config = config(json!({name: thinking}));
                assert_eq!(options(&config, false).reasoning, effort, "{thinking}");
                assert!(without_effect(&config).is_empty(), "{thinking}");
            }
        }
    }

    #[test]
    fn tool_choice_is_read_in_either_spelling() {
        let tool = |name: &str| ToolSpec {
            name: name.to_owned(),
            description: String::new(),
            parameters: json!({"type": "object"}),
        };
        let choices = [
            (json!({"mode": "AUTO"}), ToolChoice::Auto, 3),
            (json!({"mode": "NONE"}), ToolChoice::None, 3),
            (json!({"mode": "ANY"}), ToolChoice::Required, 3),
            (json!({"mode": "any", "allowed_function_names": ["a"]}), ToolChoice::Named("a".to_owned()), 3),
            (json!({"mode": "ANY", "allowedFunctionNames": ["a", "b"]}), ToolChoice::Required, 2),
        ];
        for (calling, choice, count) in choices {
            for names in [["toolConfig", "functionCallingConfig"], ["tool_config", "function_calling_config"]]
            {
                let config = config(json!({names[0]: {names[1]: calling}}));
                assert_eq!(options(&config, false).tool_choice, Some(choice.clone()), "{calling}");
                // Forced in the first call of a turn only.
                assert_eq!(options(&config, true).tool_choice, Some(choice.clone().unforced()), "{calling}");
                assert_eq!(
                    allowed_tools(&config, ["a", "b", "c"].map(tool).to_vec()).len(),
                    count,
                    "{calling}"
                );
                assert!(without_effect(&config).is_empty(), "{calling}");
            }
        }
    }

    #[test]
    fn response_schema_has_two_names() {
        let schema = json!({"type": "object"});
        for name in ["responseSchema", "response_schema", "responseJsonSchema", "response_json_schema"] {
            let config = config(json!({name: schema, "responseMimeType": "application/json"}));
            assert_eq!(options(&config, false).response_schema.as_ref(), Some(&schema), "{name}");
            assert!(without_effect(&config).is_empty(), "{name}");
        }
    }

    #[test]
    fn sampling_and_safety_settings_are_read_in_either_spelling() {
        let safety = json!([{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]);
        for config in [
            config(
                json!({"topK": 40, "presencePenalty": 0.1, "frequencyPenalty": -1, "safetySettings": safety}),
            ),
            config(
                json!({"top_k": 40.0, "presence_penalty": 0.1, "frequency_penalty": -1, "safety_settings": safety}),
            ),
        ] {
            let read = options(&config, false);
            assert_eq!(
                (read.top_k, read.presence_penalty, read.frequency_penalty),
                (Some(40), Some(0.1), Some(-1.0))
            );
            assert_eq!(read.safety_settings.as_ref(), Some(&safety));
            assert!(without_effect(&config).is_empty());
        }
    }

    #[test]
    fn settings_without_effect_are_listed() {
        let config = config(json!({
            "temperature": 0.5,
            "topK": 0.5,
            "presence_penalty": "much",
            "candidateCount": 2,
            "thinkingConfig": {"thinkingLevel": "hard"},
            "toolConfig": {"functionCallingConfig": {"mode": "SOME"}},
            "responseMimeType": "application/json",
            "labels": null,
        }));
        let named = [
            "topK",
            "presence_penalty",
            "candidateCount",
            "thinkingConfig",
            "toolConfig",
            "responseMimeType",
        ];
        assert_eq!(without_effect(&config), named);
        assert_eq!(options(&config, false).temperature, Some(0.5));
    }
}
