//! Prompts of MCP servers as messages, `/server:prompt name=value`.

use super::{
    by_word,
    resources::{send, stored_parts, with_resources},
    tool_results,
};
use serde_json::{Value, json};

#[test]
fn prompt_is_sent_as_the_message() {
    let env = with_resources("trusted = true", &[]);
    send(&env, "/fake:greet who=\"Bob B\"").success();
    let parts: Vec<String> = stored_parts(&env).iter().map(Value::to_string).collect();
    insta::assert_snapshot!(parts.join("\n"), @r#"
    {"text":"/fake:greet who=\"Bob B\""}
    {"text":"\n\n[Prompt fake:greet]\nUser: Greet Bob B."}
    {"text":"\n\n[Prompt fake:greet]\nAssistant: How?"}
    {"text":"\n\n[Prompt fake:greet, image/png]\n"}
    {"inlineData":{"data":"iVBORw0KGgo=","mimeType":"image/png"}}
    "#);
}

#[test]
fn prompt_with_wrong_arguments_is_not_sent() {
    let env = with_resources("", &[]);
    let error = |message: &str| send(&env, message).failure().err.lines().last().unwrap().to_owned();
    insta::assert_snapshot!(error("/fake:greet style=warm"), @"lango: the message was not sent: the prompt `greet` needs the arguments: who; write name=value");
    insta::assert_snapshot!(error("/fake:greet who=Bob mood=warm"), @"lango: the message was not sent: the prompt `greet` has no argument `mood`; its arguments: who, style");
    insta::assert_snapshot!(error("/fake:greet Bob"), @"lango: the message was not sent: `Bob` is not an argument of a prompt; write name=value, or name=\"value with spaces\"");
    insta::assert_snapshot!(error("/fake:greeet who=Bob"), @"lango: the message was not sent: the MCP server `fake` (lango.toml) has no prompt `greeet`; its prompts: greet");
    // The refused message did not create the session.
    assert!(env.lango(&["sessions", "show", "k"]).failure().err.contains("there is no session"));
}

#[test]
fn prompt_of_an_untrusted_server_marks_the_session() {
    // The scripted model matches the last text of the message.
    let act = by_word(&[("[Prompt", "exec", json!({"command": "touch x"}))]);
    let results = |more: &str| {
        let env = with_resources(more, &[]);
        env.file("script.yaml", &act);
        tool_results(&send(&env, "/fake:greet who=Bob").success().json_lines())
    };
    let refused = results("")[0]["error"].as_str().unwrap().to_owned();
    assert!(
        refused.contains("untrusted text is in the conversation (from the MCP server fake)"),
        "{refused}"
    );
    assert_eq!(results("trusted = true")[0]["exit_code"], 0);
}

#[test]
fn chat_sends_prompts_and_a_path_stays_text() {
    let env = with_resources("", &[]);
    let input = b"/fake:greet who=Bob\n/etc/hosts is what?\n";
    env.lango_with_stdin(&["chat", "--session", "k"], input).success();
    let parts = stored_parts(&env);
    assert_eq!(parts[1]["text"], "\n\n[Prompt fake:greet]\nUser: Greet Bob.");
    assert_eq!(parts.last().unwrap()["text"], "/etc/hosts is what?");
}
