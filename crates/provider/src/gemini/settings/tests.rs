//! Options and their encoding, side by side.

use super::*;
use crate::{GenerationOptions, ModelMessage, Role, ToolSpec, gemini::encode};
use insta::assert_snapshot;

fn request(model: &str, options: &GenerationOptions) -> ModelRequest {
    let tool =
        |name: &str| ToolSpec { name: name.to_owned(), description: String::new(), parameters: Value::Null };
    ModelRequest {
        model: model.to_owned(),
        messages: vec![ModelMessage::text(Role::User, "hi")],
        tools: vec![tool("look"), tool("web.find")],
        options: options.clone(),
        ..ModelRequest::default()
    }
}

/// The settings in the body, and the unsupported options.
fn settings(model: &str, options: &GenerationOptions) -> String {
    let request = request(model, options);
    let body = encode(&request, false);
    let settings = ["generationConfig", "toolConfig"].map(|key| body.get(key).map(Value::to_string));
    let settings: Vec<String> = settings.into_iter().flatten().collect();
    let unsupported = unsupported_options(&request);
    let unsupported =
        if unsupported.is_empty() { String::new() } else { format!("  without {}", unsupported.join(", ")) };
    format!("{model}: {}{unsupported}", settings.join(" "))
}

const MODELS: [&str; 9] = [
    "gemini-2.0-flash",
    "gemini-2.5-flash",
    "models/gemini-2.5-flash-lite",
    "gemini-2.5-pro",
    "gemini-3-pro-preview",
    "gemini-3.1-pro-preview",
    "gemini-3.5-flash",
    "gemini-3.7-flash",
    "gemini-flash-latest",
];

fn by_model(options: &GenerationOptions) -> String {
    MODELS.map(|model| settings(model, options)).join("\n")
}

#[test]
fn effort_is_a_budget_for_older_and_a_level_for_newer_models() {
    let options = |effort| GenerationOptions { reasoning: Some(effort), ..GenerationOptions::default() };
    assert_snapshot!(by_model(&options(ReasoningEffort::Off)), @r#"
    gemini-2.0-flash: 
    gemini-2.5-flash: {"thinkingConfig":{"thinkingBudget":0,"includeThoughts":false}}
    models/gemini-2.5-flash-lite: {"thinkingConfig":{"thinkingBudget":0,"includeThoughts":false}}
    gemini-2.5-pro: {"thinkingConfig":{"thinkingBudget":128,"includeThoughts":false}}  without reasoning
    gemini-3-pro-preview: {"thinkingConfig":{"thinkingLevel":"low","includeThoughts":false}}  without reasoning
    gemini-3.1-pro-preview: {"thinkingConfig":{"thinkingLevel":"low","includeThoughts":false}}  without reasoning
    gemini-3.5-flash: {"thinkingConfig":{"thinkingLevel":"minimal","includeThoughts":false}}  without reasoning
    gemini-3.7-flash: {"thinkingConfig":{"thinkingLevel":"low","includeThoughts":false}}  without reasoning
    gemini-flash-latest: {"thinkingConfig":{"thinkingLevel":"low","includeThoughts":false}}  without reasoning
    "#);
    assert_snapshot!(by_model(&options(ReasoningEffort::Minimal)), @r#"
    gemini-2.0-flash: {"thinkingConfig":{"thinkingBudget":512,"includeThoughts":true}}
    gemini-2.5-flash: {"thinkingConfig":{"thinkingBudget":512,"includeThoughts":true}}
    models/gemini-2.5-flash-lite: {"thinkingConfig":{"thinkingBudget":512,"includeThoughts":true}}
    gemini-2.5-pro: {"thinkingConfig":{"thinkingBudget":512,"includeThoughts":true}}
    gemini-3-pro-preview: {"thinkingConfig":{"thinkingLevel":"low","includeThoughts":true}}
    gemini-3.1-pro-preview: {"thinkingConfig":{"thinkingLevel":"low","includeThoughts":true}}
    gemini-3.5-flash: {"thinkingConfig":{"thinkingLevel":"minimal","includeThoughts":true}}
    gemini-3.7-flash: {"thinkingConfig":{"thinkingLevel":"low","includeThoughts":true}}
    gemini-flash-latest: {"thinkingConfig":{"thinkingLevel":"low","includeThoughts":true}}
    "#);
    assert_snapshot!(by_model(&options(ReasoningEffort::Medium)), @r#"
    gemini-2.0-flash: {"thinkingConfig":{"thinkingBudget":8192,"includeThoughts":true}}
    gemini-2.5-flash: {"thinkingConfig":{"thinkingBudget":8192,"includeThoughts":true}}
    models/gemini-2.5-flash-lite: {"thinkingConfig":{"thinkingBudget":8192,"includeThoughts":true}}
    gemini-2.5-pro: {"thinkingConfig":{"thinkingBudget":8192,"includeThoughts":true}}
    gemini-3-pro-preview: {"thinkingConfig":{"thinkingLevel":"high","includeThoughts":true}}
    gemini-3.1-pro-preview: {"thinkingConfig":{"thinkingLevel":"medium","includeThoughts":true}}
    gemini-3.5-flash: {"thinkingConfig":{"thinkingLevel":"medium","includeThoughts":true}}
    gemini-3.7-flash: {"thinkingConfig":{"thinkingLevel":"medium","includeThoughts":true}}
    gemini-flash-latest: {"thinkingConfig":{"thinkingLevel":"medium","includeThoughts":true}}
    "#);
    assert_snapshot!(by_model(&options(ReasoningEffort::Tokens(100_000))), @r#"
    gemini-2.0-flash: {"thinkingConfig":{"thinkingBudget":24576,"includeThoughts":true}}
    gemini-2.5-flash: {"thinkingConfig":{"thinkingBudget":24576,"includeThoughts":true}}
    models/gemini-2.5-flash-lite: {"thinkingConfig":{"thinkingBudget":24576,"includeThoughts":true}}
    gemini-2.5-pro: {"thinkingConfig":{"thinkingBudget":32768,"includeThoughts":true}}
    gemini-3-pro-preview: {"thinkingConfig":{"thinkingLevel":"high","includeThoughts":true}}
    gemini-3.1-pro-preview: {"thinkingConfig":{"thinkingLevel":"high","includeThoughts":true}}
    gemini-3.5-flash: {"thinkingConfig":{"thinkingLevel":"high","includeThoughts":true}}
    gemini-3.7-flash: {"thinkingConfig":{"thinkingLevel":"high","includeThoughts":true}}
    gemini-flash-latest: {"thinkingConfig":{"thinkingLevel":"high","includeThoughts":true}}
    "#);
}

#[test]
fn unsupported_options_are_omitted_and_listed() {
    let stop = ["a", "b", "c", "", "d", "e", "f"].map(str::to_owned).to_vec();
    let options =
        GenerationOptions { temperature: Some(3.0), top_p: Some(0.5), stop, ..GenerationOptions::default() };
    assert_snapshot!(by_model(&options), @r#"
    gemini-2.0-flash: {"temperature":2.0,"topP":0.5,"stopSequences":["a","b","c","d","e"]}  without stop
    gemini-2.5-flash: {"temperature":2.0,"topP":0.5,"stopSequences":["a","b","c","d","e"]}  without stop
    models/gemini-2.5-flash-lite: {"temperature":2.0,"topP":0.5,"stopSequences":["a","b","c","d","e"]}  without stop
    gemini-2.5-pro: {"temperature":2.0,"topP":0.5,"stopSequences":["a","b","c","d","e"]}  without stop
    gemini-3-pro-preview: {"temperature":2.0,"topP":0.5,"stopSequences":["a","b","c","d","e"]}  without stop
    gemini-3.1-pro-preview: {"temperature":2.0,"topP":0.5,"stopSequences":["a","b","c","d","e"]}  without stop
    gemini-3.5-flash: {"temperature":2.0,"topP":0.5,"stopSequences":["a","b","c","d","e"]}  without stop
    gemini-3.7-flash: {"stopSequences":["a","b","c","d","e"]}  without temperature, top_p, stop
    gemini-flash-latest: {"stopSequences":["a","b","c","d","e"]}  without temperature, top_p, stop
    "#);
}

#[test]
fn seed_is_truncated_to_32_bits() {
    let seeds = [7, -1, i64::from(i32::MAX) + 2, i64::MIN, i64::MAX];
    let lines = seeds
        .map(|seed| settings("m", &GenerationOptions { seed: Some(seed), ..GenerationOptions::default() }));
    assert_snapshot!(lines.join("\n"), @r#"
    m: {"seed":7}
    m: {"seed":-1}
    m: {"seed":1}
    m: {"seed":0}
    m: {"seed":2147483647}
    "#);
}

#[test]
fn tool_choice_requires_a_declared_tool() {
    let choices = [
        ToolChoice::Auto,
        ToolChoice::None,
        ToolChoice::Required,
        ToolChoice::Named("web.find".to_owned()),
        ToolChoice::Named("gone".to_owned()),
    ];
    let lines = choices.map(|choice| {
        let options = GenerationOptions { tool_choice: Some(choice.clone()), ..GenerationOptions::default() };
        format!("{choice:?} {}", settings("m", &options))
    });
    assert_snapshot!(lines.join("\n"), @r#"
    Auto m: {"functionCallingConfig":{"mode":"AUTO"}}
    None m: {"functionCallingConfig":{"mode":"NONE"}}
    Required m: {"functionCallingConfig":{"mode":"ANY"}}
    Named("web.find") m: {"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["web_find"]}}
    Named("gone") m:   without tool_choice
    "#);
    let mut without = request(
        "m",
        &GenerationOptions { tool_choice: Some(ToolChoice::Required), ..GenerationOptions::default() },
    );
    without.tools.clear();
    assert_eq!(encode(&without, false).get("toolConfig"), None);
    assert_eq!(unsupported_options(&without), ["tool_choice"]);
}
