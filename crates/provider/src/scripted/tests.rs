//! Every keyword of a script, and the script of the canned agent.

use super::*;
use crate::{MessagePart, ModelMessage, Role, ToolResult};
use insta::assert_snapshot;
use serde_json::json;

fn canned() -> ScriptedProvider {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/canned/agents/canned/canned.yaml");
    ScriptedProvider::from_file(file).expect("the canned script is valid")
}

fn script(yaml: &str) -> ScriptedProvider {
    ScriptedProvider::from_str("test.yaml", yaml).expect("the script is valid")
}

fn parse_error(yaml: &str) -> String {
    ScriptedProvider::from_str("test.yaml", yaml).expect_err("the script is invalid").to_string()
}

fn user(text: &str) -> ModelMessage {
    ModelMessage::text(Role::User, text)
}

fn result(name: &str, response: serde_json::Value) -> ModelMessage {
    let result = ToolResult { id: "c1".to_owned(), name: name.to_owned(), response };
    ModelMessage::new(Role::Tool, vec![MessagePart::from(result)])
}

/// One line per event; deltas are separated by `|`.
fn shape(provider: &ScriptedProvider, messages: Vec<ModelMessage>) -> String {
    let request = ModelRequest { messages, ..ModelRequest::default() };
    let steps = provider
        .response_steps(&request)
        .unwrap_or_else(|error| vec![PlaybackStep::Event(StreamEvent::Error(error))]);
    let mut lines: Vec<String> = Vec::new();
    for step in steps {
        let line = match step {
            PlaybackStep::Wait(time) => format!("wait {time:?}"),
            PlaybackStep::Hang => "hang".to_owned(),
            PlaybackStep::Event(event) => line(event),
        };
        let kind = line.split(' ').next().unwrap_or_default();
        match lines.last_mut() {
            Some(last) if ["text", "thought"].contains(&kind) && last.starts_with(kind) => {
                last.push('|');
                last.push_str(&line[kind.len() + 1..]);
            }
            Some(_) | None => lines.push(line),
        }
    }
    lines.join("\n")
}

fn line(event: StreamEvent) -> String {
    let signed =
        |signature: Option<String>| signature.map_or_else(String::new, |signature| format!(" #{signature}"));
    match event {
        StreamEvent::TextDelta { text, signature } => format!("text {text}{}", signed(signature)),
        StreamEvent::Thought { text, signature } => format!("thought {text}{}", signed(signature)),
        StreamEvent::ToolCall(call) => {
            format!("call {}({}) {}{}", call.name, json!(call.args), call.id, signed(call.signature))
                .trim_end()
                .to_owned()
        }
        StreamEvent::Usage(usage) => format!("usage {}/{}", usage.input, usage.output),
        StreamEvent::Sent(body) => format!("sent {} bytes", body.len()),
        StreamEvent::Warning(text) => format!("warning {text}"),
        StreamEvent::Done(done) => {
            format!("done {:?} {:?}", done.finish, done.model_version.unwrap_or_default())
        }
        StreamEvent::Error(error) => format!("error {}: {error}", error.code()),
    }
}

#[test]
fn canned_script_echoes_unmatched_text() {
    assert_snapshot!(shape(&canned(), vec![user("hi there")]), @r#"
    text Hello| from| canned| model.| You| said:| hi| there
    usage 10/5
    done Stop "canned-1"
    "#);
}

#[test]
fn canned_script_answers_each_of_its_keywords() {
    let keywords = [
        "tool please",
        "parallel",
        "Texttool",
        "state",
        "artifact",
        "transfer",
        "confirm",
        "long",
        "toolerror",
        "unknowntool",
        "think hard",
        "raise",
        "errcode",
    ];
    let all: Vec<String> =
        keywords.iter().map(|word| format!("> {word}\n{}", shape(&canned(), vec![user(word)]))).collect();
    assert_snapshot!(all.join("\n").replace("\nusage 10/5\ndone Stop \"canned-1\"", " ∎"), @r#"
    > tool please
    call get_weather({"city":"Paris"}) ∎
    > parallel
    call get_weather({"city":"Paris"})
    call get_weather({"city":"Tokyo"}) ∎
    > Texttool
    text Let| me| check.
    call get_weather({"city":"Oslo"}) ∎
    > state
    call set_state({"value":"v1"}) ∎
    > artifact
    call make_artifact({"name":"hello.txt"}) ∎
    > transfer
    call transfer_to_agent({"agent_name":"helper"}) ∎
    > confirm
    call danger({"what":"rm"}) ∎
    > long
    call slow_job({"job":"j1"}) ∎
    > toolerror
    call bad_tool({"x":1}) ∎
    > unknowntool
    call no_such_tool({"x":1}) ∎
    > think hard
    thought I| am| thinking.
    text Answer:| 42. ∎
    > raise
    error RuntimeError: canned model failure
    > errcode
    done Refused { code: "RESOURCE_EXHAUSTED", message: "quota exceeded (canned)" } ""
    "#);
}

#[test]
fn canned_script_reports_the_last_of_several_results() {
    let mut results = result("get_weather", json!({"city": "Paris"}));
    results.parts.extend(result("get_weather", json!({"city": "Tokyo"})).parts);
    assert_snapshot!(shape(&canned(), vec![user("parallel"), ModelMessage::new(Role::Assistant, vec![]), results]), @r#"
    text Tool| get_weather| said:| {"city":"Tokyo"}
    usage 10/5
    done Stop "canned-1"
    "#);
}

#[test]
fn turn_condition_scripts_a_tool_loop() {
    let looping = script(
        "rules:
  - when: {first_word: count, turn: 0}
    reply: [{call: {name: step, args: {n: 1}}}]
  - when: {first_word: count, turn: 1, tool: step}
    reply: [{call: {name: step, args: {n: '{tool.response.next}', note: 'after {tool.response.next}'}}}]
  - when: {first_word: count, result_contains: '3'}
    reply: [{text: 'done at {tool.response.next} of {tool.response}'}]",
    );
    let mut log = vec![user("count")];
    let mut seen = Vec::new();
    for next in [2, 3] {
        seen.push(shape(&looping, log.clone()));
        log.extend([ModelMessage::new(Role::Assistant, vec![]), result("step", json!({"next": next}))]);
    }
    seen.push(shape(&looping, log));
    assert_snapshot!(seen.join("\n"), @r#"
    call step({"n":1})
    done Stop ""
    call step({"n":2,"note":"after 2"})
    done Stop ""
    text done| at| 3| of| {"next":3}
    done Stop ""
    "#);
}

#[test]
fn user_text_rule_does_not_match_a_tool_result() {
    let once = script("rules: [{when: {contains: weather}, reply: [{call: {name: w}}]}]");
    let log =
        vec![user("the weather?"), ModelMessage::new(Role::Assistant, vec![]), result("w", json!("rain"))];
    assert_snapshot!(shape(&once, log), @r#"error SCRIPT: script test.yaml: no rule matches the result of w: "rain""#);
}

#[test]
fn signatures_ids_and_usage_are_emitted_verbatim() {
    let signed = script(
        "rules:
  - when: {exact: go}
    reply:
      - thought: {text: let me see, signature: s1}
      - text: {text: 'Look: {\"a\": 1} {unknown}', signature: s2}
      - call: {name: f, id: c7, signature: s3}
      - usage: {input: 100, output: 20, cached: 50, reasoning: 7}
      - delay_ms: 5
      - length",
    );
    assert_snapshot!(shape(&signed, vec![user("go")]), @r##"
    thought let| me| see #s1
    text Look:| {"a":| 1}| {unknown} #s2
    call f({}) c7 #s3
    wait 5ms
    usage 100/20
    done Length ""
    "##);
}

#[test]
fn every_failure_kind_maps_to_its_error() {
    let kinds = [
        "kind: auth, message: m",
        "kind: quota, message: m",
        "kind: rate_limited, message: m, retry_after: 1.5",
        "kind: overflow, message: m",
        "kind: bad_request, message: m",
        "kind: transient, message: m",
        "kind: truncated",
        "kind: protocol, message: m",
        "kind: stalled, after: 30",
        "code: X1, message: m",
    ];
    let all: Vec<String> = kinds
        .iter()
        .map(|kind| {
            let failing = script(&format!("rules: [{{reply: [{{text: a b}}, {{fail: {{{kind}}}}}]}}]"));
            shape(&failing, vec![user("x")]).replace("text a| b\n", "")
        })
        .collect();
    assert_snapshot!(all.join("\n"), @"
    error AUTH: scripted rejected the API key: m
    error QUOTA: the quota at scripted is exhausted: m
    error RATE_LIMITED: rate limit at scripted reached: m
    error CONTEXT_OVERFLOW: the conversation is too long for the model: m
    error BAD_REQUEST: scripted rejected the request: m
    error TRANSIENT: scripted is temporarily unavailable: m
    error TRUNCATED: scripted ended the stream before the answer was complete
    error PROTOCOL: scripted sent a response that cannot be parsed: m
    error STALLED: scripted sent no data for 30s
    error X1: m
    ");
}

#[test]
fn invalid_script_error_has_line_and_column() {
    let broken = [
        "rules:\n  - wenn: {}\n    reply: []",
        "rules:\n  - reply:\n      - txt: hello",
        "rules:\n  - reply:\n      - text: [1]",
        "rules:\n  - reply:\n      - fail: {kind: auth, retry_after: 1}",
        "rules:\n  - reply:\n      - fail: {message: x}",
        "rules: [",
    ];
    let all: Vec<String> = broken.iter().map(|yaml| parse_error(yaml)).collect();
    assert_snapshot!(all.join("\n"), @"
    script test.yaml: unknown field `wenn`, expected one of when, reply at line 2, column 5
    script test.yaml: unknown variant `txt`, expected one of text, thought, call, usage, refuse, fail, length, delay_ms, hang at line 3, column 9
    script test.yaml: expected a string, or a mapping with `text` and `signature` at line 3, column 15
    script test.yaml: `retry_after` is valid only with `kind: rate_limited` at line 3, column 15
    script test.yaml: a failure needs either `kind` or `code` at line 3, column 15
    script test.yaml: unclosed bracket '[' at line 1, column 8
    ");
    assert_snapshot!(
        ScriptedProvider::from_file("no/such.yaml").expect_err("no such file"),
        @"script no/such.yaml: cannot be read: No such file or directory (os error 2)"
    );
}

#[test]
fn unmatched_request_error_names_script_and_prompt() {
    let narrow = script("rules: [{when: {starts_with: A}, reply: []}]");
    assert_snapshot!(shape(&narrow, vec![user("B")]), @r#"error SCRIPT: script test.yaml: no rule matches "B""#);
    let missing = script("rules: [{reply: [{text: '{tool.response.x.0}'}]}]");
    assert_snapshot!(shape(&missing, vec![user("B")]), @"error SCRIPT: script test.yaml: {tool.response.x.0} needs a tool result, and there is none");
    assert_snapshot!(shape(&missing, vec![result("t", json!({"y": 1}))]), @"error SCRIPT: script test.yaml: {tool.response.x.0} is not in the response of t");
}

#[tokio::test(start_paused = true)]
async fn hang_step_stalls_after_the_preceding_text() {
    let hanging = script("word_delay_ms: 10\nrules: [{reply: [{text: one two}, hang]}]");
    let mut stream = hanging.stream(ModelRequest::default());
    assert!(matches!(stream.next().await, Some(StreamEvent::TextDelta { .. })));
    assert!(matches!(stream.next().await, Some(StreamEvent::TextDelta { .. })));
    let silence = tokio::time::timeout(Duration::from_hours(1), stream.next()).await;
    assert!(silence.is_err());
}

#[test]
fn model_placeholder_expands_to_the_last_answer() {
    let echo = script("rules: [{reply: [{text: 'again: {model}'}]}]");
    let messages = vec![user("a"), ModelMessage::text(Role::Assistant, "one"), user("b")];
    assert_eq!(shape(&echo, messages).lines().next(), Some("text again:| one"));
}
