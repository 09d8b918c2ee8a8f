//! Options and their encoding, side by side.

use super::*;
use crate::{ModelMessage, Role, ToolSpec, anthropic::encode};
use insta::assert_snapshot;

fn request(model: &str, options: GenerationOptions) -> ModelRequest {
    let tool =
        |name: &str| ToolSpec { name: name.to_owned(), description: String::new(), parameters: Value::Null };
    ModelRequest {
        model: model.to_owned(),
        messages: vec![ModelMessage::text(Role::User, "hi")],
        tools: vec![tool("look"), tool("web.find")],
        options,
        ..ModelRequest::default()
    }
}

/// The settings in the body, and the unsupported options.
fn settings(model: &str, options: &GenerationOptions) -> String {
    let request = request(model, options.clone());
    let body = encode(&request, false);
    let fields = body.as_object().into_iter().flatten();
    let settings =
        fields.filter(|(key, _)| !["model", "messages", "tools", "stream"].contains(&key.as_str()));
    let settings: Vec<String> = settings.map(|(key, value)| format!("{key} {value}")).collect();
    let unsupported = unsupported_options(&request);
    let unsupported =
        if unsupported.is_empty() { String::new() } else { format!("  without {}", unsupported.join(", ")) };
    format!("{model}: {}{unsupported}", settings.join(" "))
}

const MODELS: [&str; 5] =
    ["claude-opus-4-5", "claude-opus-4-6", "claude-opus-4-7", "claude-opus-5", "claude-fable-5"];

fn by_model(options: &GenerationOptions) -> String {
    MODELS.map(|model| settings(model, options)).join("\n")
}

#[test]
fn effort_is_a_budget_for_older_and_a_level_for_newer_models() {
    let options = GenerationOptions {
        reasoning: Some(ReasoningEffort::Medium),
        temperature: Some(0.5),
        ..GenerationOptions::default()
    };
    assert_snapshot!(by_model(&options), @r#"
    claude-opus-4-5: max_tokens 16384 thinking {"type":"enabled","budget_tokens":8192}  without temperature
    claude-opus-4-6: max_tokens 32000 thinking {"type":"adaptive"} output_config {"effort":"medium"}  without temperature
    claude-opus-4-7: max_tokens 32000 thinking {"type":"adaptive","display":"summarized"} output_config {"effort":"medium"}  without temperature
    claude-opus-5: max_tokens 32000 thinking {"type":"adaptive","display":"summarized"} output_config {"effort":"medium"}  without temperature
    claude-fable-5: max_tokens 32000 thinking {"type":"adaptive","display":"summarized"} output_config {"effort":"medium"}  without temperature
    "#);
}

#[test]
fn reasoning_off_disables_thinking_where_possible() {
    let options = GenerationOptions { reasoning: Some(ReasoningEffort::Off), ..GenerationOptions::default() };
    assert_snapshot!(by_model(&options), @r#"
    claude-opus-4-5: max_tokens 8192
    claude-opus-4-6: max_tokens 32000
    claude-opus-4-7: max_tokens 32000
    claude-opus-5: max_tokens 32000 thinking {"type":"disabled"}
    claude-fable-5: max_tokens 32000  without reasoning
    "#);
}

#[test]
fn forced_call_disables_thinking() {
    let options = GenerationOptions {
        reasoning: Some(ReasoningEffort::High),
        tool_choice: Some(ToolChoice::Named("web.find".to_owned())),
        ..GenerationOptions::default()
    };
    assert_snapshot!(by_model(&options), @r#"
    claude-opus-4-5: max_tokens 8192 tool_choice {"type":"tool","name":"web_find"}  without reasoning
    claude-opus-4-6: max_tokens 32000 tool_choice {"type":"tool","name":"web_find"}  without reasoning
    claude-opus-4-7: max_tokens 32000 tool_choice {"type":"tool","name":"web_find"}  without reasoning
    claude-opus-5: max_tokens 32000 tool_choice {"type":"tool","name":"web_find"} thinking {"type":"disabled"}  without reasoning
    claude-fable-5: max_tokens 32000 tool_choice {"type":"auto"} thinking {"type":"adaptive","display":"summarized"} output_config {"effort":"high"}  without tool_choice
    "#);
}

#[test]
fn sampling_options_without_reasoning_are_encoded_per_model() {
    let options = GenerationOptions {
        temperature: Some(2.0),
        top_p: Some(0.5),
        seed: Some(1),
        ..GenerationOptions::default()
    };
    assert_snapshot!(by_model(&options), @"
    claude-opus-4-5: max_tokens 8192 temperature 1.0  without seed, top_p
    claude-opus-4-6: max_tokens 32000 temperature 1.0  without seed, top_p
    claude-opus-4-7: max_tokens 32000  without seed, temperature, top_p
    claude-opus-5: max_tokens 32000  without seed, temperature, top_p
    claude-fable-5: max_tokens 32000  without seed, temperature, top_p
    ");
}

#[test]
fn thinking_budget_leaves_room_for_the_answer() {
    let efforts = [
        (ReasoningEffort::Minimal, None),
        (ReasoningEffort::Low, None),
        (ReasoningEffort::High, Some(20_000)),
        (ReasoningEffort::High, Some(8000)),
        (ReasoningEffort::High, Some(1000)),
        (ReasoningEffort::Tokens(10), None),
        (ReasoningEffort::Tokens(u32::MAX), None),
    ];
    let lines = efforts.map(|(effort, max_output_tokens)| {
        let options =
            GenerationOptions { reasoning: Some(effort), max_output_tokens, ..GenerationOptions::default() };
        format!("{effort:?} {}", settings("claude-sonnet-4-5", &options))
    });
    assert_snapshot!(lines.join("\n"), @r#"
    Minimal claude-sonnet-4-5: max_tokens 9216 thinking {"type":"enabled","budget_tokens":1024}
    Low claude-sonnet-4-5: max_tokens 12288 thinking {"type":"enabled","budget_tokens":4096}
    High claude-sonnet-4-5: max_tokens 20000 thinking {"type":"enabled","budget_tokens":15000}
    High claude-sonnet-4-5: max_tokens 8000 thinking {"type":"enabled","budget_tokens":6000}
    High claude-sonnet-4-5: max_tokens 1000  without reasoning
    Tokens(10) claude-sonnet-4-5: max_tokens 9216 thinking {"type":"enabled","budget_tokens":1024}
    Tokens(4294967295) claude-sonnet-4-5: max_tokens 4294967295 thinking {"type":"enabled","budget_tokens":3221225472}
    "#);
}

#[test]
fn tool_choice_requires_a_declared_tool() {
    let choices = [
        ToolChoice::Auto,
        ToolChoice::None,
        ToolChoice::Required,
        ToolChoice::Named("look".to_owned()),
        ToolChoice::Named("gone".to_owned()),
    ];
    let lines = choices.map(|choice| {
        let options = GenerationOptions { tool_choice: Some(choice.clone()), ..GenerationOptions::default() };
        format!("{choice:?} {}", settings("m", &options))
    });
    assert_snapshot!(lines.join("\n"), @r#"
    Auto m: max_tokens 8192 tool_choice {"type":"auto"}
    None m: max_tokens 8192 tool_choice {"type":"none"}
    Required m: max_tokens 8192 tool_choice {"type":"any"}
    Named("look") m: max_tokens 8192 tool_choice {"type":"tool","name":"look"}
    Named("gone") m: max_tokens 8192  without tool_choice
    "#);
    let options =
        GenerationOptions { tool_choice: Some(ToolChoice::Required), ..GenerationOptions::default() };
    let mut without = request("m", options);
    without.tools.clear();
    assert_eq!(encode(&without, false).get("tool_choice"), None);
    assert_eq!(unsupported_options(&without), ["tool_choice"]);
}

#[test]
fn required_output_limit_is_the_configured_one_or_the_default_of_the_model() {
    let limit = |default_output_tokens, max_output_tokens| {
        let options =
            GenerationOptions { max_output_tokens, default_output_tokens, ..GenerationOptions::default() };
        encode(&request("claude-sonnet-4-5", options), false)["max_tokens"].clone()
    };
    assert_eq!(limit(Some(64_000), None), 64_000);
    assert_eq!(limit(Some(64_000), Some(100)), 100);
    assert_eq!(limit(None, None), 8_192);
}
