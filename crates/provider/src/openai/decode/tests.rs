//! Streams as servers send them, and what is heard.

use super::*;
use crate::{MessagePart, ModelMessage, Role, ToolResult, fixture, openai};
use insta::assert_snapshot;

fn heard(stream: &str) -> String {
    fixture::heard(ChatDecoder::new("p", &ModelRequest::default()), stream)
}

/// A chunk with one delta.
fn delta(delta: &str) -> String {
    format!(r#"{{"model":"gpt-x","choices":[{{"index":0,"delta":{delta},"finish_reason":null}}]}}"#)
}

fn finish(reason: &str) -> String {
    format!(r#"{{"model":"gpt-x","choices":[{{"index":0,"delta":{{}},"finish_reason":"{reason}"}}]}}"#)
}

fn stream(lines: &[String]) -> String {
    lines.join("\n")
}

/// The pieces of calls, then a reason, then the end.
fn calls(pieces: &[&str], reason: &str) -> String {
    let mut lines: Vec<String> =
        pieces.iter().map(|pieces| delta(&format!(r#"{{"tool_calls":[{pieces}]}}"#))).collect();
    lines.extend([finish(reason), "[DONE]".to_owned()]);
    stream(&lines)
}

const WHOLE: &str = r#"
    {"id":"c","model":"gpt-x","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}
    {"choices":[{"index":0,"delta":{"content":null,"reasoning_content":"Let me "}}]}
    {"choices":[{"index":0,"delta":{"reasoning_content":"think."}}]}
    {"choices":[{"index":0,"delta":{"content":"Grüß "}}]}
    {"choices":[{"index":0,"delta":{"content":"dich 🌍"}}]}
    {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_A","type":"function","function":{"name":"get_weather","arguments":""}}]}}]}
    {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"ci"}}]}}]}
    {"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"call_B","type":"function","function":{"name":"get_weather","arguments":""}}]}}]}
    {"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"function":{"arguments":"{\"city\":"}}]}}]}
    {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"ty\":\"Zürich\"}"}},{"index":1,"function":{"arguments":"\"Tōkyō\"}"}}]}}]}
    {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}],"usage":null}
    {"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120,"prompt_tokens_details":{"cached_tokens":64},"completion_tokens_details":{"reasoning_tokens":5}}}
"#;

#[test]
fn thoughts_and_text_come_at_once_and_calls_at_the_end() {
    let told = heard(&format!("{WHOLE}\n [DONE] "));
    assert_snapshot!(told, @r#"
    thought "Let me "
    thought "think."
    text "Grüß "
    text "dich 🌍"
    call "call_A" get_weather {"city":"Zürich"}
    call "call_B" get_weather {"city":"Tōkyō"}
    usage in 100 cached 64 out 15 reasoning 5
    done Stop gpt-x
    "#);
    assert_eq!(heard(WHOLE), told, "a reason to stop is an end, with or without [DONE]");
}

#[test]
fn calls_are_told_apart_however_a_server_numbers_them() {
    // All with one number.
    assert_snapshot!(heard(&calls(&[
        r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{\"n\":1}"}}"#,
        r#"{"index":0,"id":"b","function":{"name":"f","arguments":"{\"n\""}}"#,
        r#"{"index":0,"id":"b","function":{"arguments":":2}"}}"#,
    ], "tool_calls")), @r#"
    call "a" f {"n":1}
    call "b" f {"n":2}
    done Stop gpt-x
    "#);
    // With gaps, far apart.
    assert_snapshot!(heard(&calls(&[
        r#"{"index":1,"id":"a","function":{"name":"f"}},{"index":18446744073709551615,"id":"b","function":{"name":"g","arguments":"{\"n\":"}}"#,
        r#"{"index":18446744073709551615,"function":{"arguments":"2}"}},{"index":1,"function":{"arguments":"{\"n\":1}"}}"#,
    ], "tool_calls")), @r#"
    call "a" f {"n":1}
    call "b" g {"n":2}
    done Stop gpt-x
    "#);
    // Without ids.
    assert_snapshot!(heard(&calls(&[
        r#"{"index":0,"function":{"name":"f","arguments":""}},{"index":1,"function":{"name":"g","arguments":""}}"#,
        r#"{"index":0,"function":{"arguments":"{\"n\":1}"}},{"index":1,"id":"","function":{"arguments":"{\"n\":2}"}}"#,
    ], "tool_calls")), @r#"
    call "" f {"n":1}
    call "" g {"n":2}
    done Stop gpt-x
    "#);
    // Without ids, all with one number.
    assert_snapshot!(heard(&calls(&[
        r#"{"index":0,"function":{"name":"f","arguments":"{\"n\":1}"}}"#,
        r#"{"index":0,"function":{"name":"f","arguments":"{\"n\":2}"}}"#,
    ], "stop")), @r#"
    call "" f {"n":1}
    call "" f {"n":2}
    done Stop gpt-x
    "#);
    // With one id for all.
    assert_snapshot!(heard(&calls(&[
        r#"{"index":0,"id":"x","function":{"name":"f","arguments":"{\"n\":1}"}}"#,
        r#"{"index":1,"id":"x","function":{"name":"f","arguments":"{\"n\":2}"}}"#,
    ], "tool_calls")), @r#"
    call "x" f {"n":1}
    call "x" f {"n":2}
    done Stop gpt-x
    "#);
    // Without numbers.
    assert_snapshot!(heard(&calls(&[
        r#"{"id":"a","function":{"name":"f","arguments":"{\"n\":"}}"#,
        r#"{"function":{"arguments":"1}"}}"#,
        r#"{"id":"b","function":{"name":"f","arguments":"{\"n\":2}"}}"#,
    ], "tool_calls")), @r#"
    call "a" f {"n":1}
    call "b" f {"n":2}
    done Stop gpt-x
    "#);
    // The id after the name.
    assert_snapshot!(heard(&calls(&[
        r#"{"index":0,"function":{"name":"f"}}"#,
        r#"{"index":0,"id":"a","function":{"arguments":"{\"n\":1}"}}"#,
        r#"{"index":1}"#,
    ], "tool_calls")), @r#"
    call "a" f {"n":1}
    done Stop gpt-x
    "#);
}

#[test]
fn arguments_may_be_an_object_or_nothing_and_what_is_neither_is_kept_as_written() {
    assert_snapshot!(heard(&calls(&[
        r#"{"index":0,"id":"a","function":{"name":"f","arguments":{"n":1}}}"#,
        r#"{"index":1,"id":"b","function":{"name":"f","arguments":""}}"#,
        r#"{"index":2,"id":"c","function":{"name":"f","arguments":"{\"city\": Zurich"}}"#,
        r#"{"index":2,"function":{"arguments":" oops"}}"#,
        r#"{"index":3,"id":"d","function":{"name":"f","arguments":"[1]"}}"#,
        r#"{"index":4,"id":"e","function":{"name":"f","arguments":null}}"#,
    ], "tool_calls")), @r#"
    call "a" f {"n":1}
    call "b" f {}
    call "c" f malformed "{\"city\": Zurich oops"
    call "d" f malformed "[1]"
    call "e" f {}
    done Stop gpt-x
    "#);
}

#[test]
fn a_call_that_the_limit_cut_off_is_not_run() {
    assert_snapshot!(heard(&calls(&[
        r#"{"index":0,"id":"a","function":{"name":"f","arguments":""}}"#,
        r#"{"index":1,"id":"b","function":{"name":"f","arguments":"{\"n\":1}"}}"#,
        r#"{"index":2,"id":"c","function":{"name":"f","arguments":"{\"ci"}}"#,
    ], "length")), @r#"
    call "a" f {}
    call "b" f {"n":1}
    done Length gpt-x
    "#);
    assert_snapshot!(heard(&calls(&[r#"{"index":0,"id":"a","function":{"name":"f","arguments":""}}"#], "length")), @"done Length gpt-x");
}

#[test]
fn an_answer_without_a_reason_to_stop_is_cut_off() {
    let text = delta(r#"{"content":"Hel"}"#);
    assert_snapshot!(heard(&text), @r#"
    text "Hel"
    error TRUNCATED: p ended the stream before the answer was complete
    "#);
    let call = delta(r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}"#);
    assert_snapshot!(heard(&stream(&[call, "[DONE]".to_owned()])), @"error TRUNCATED: p ended the stream before the answer was complete");
    assert_snapshot!(heard(""), @"error TRUNCATED: p ended the stream before the answer was complete");
    assert_snapshot!(heard(&finish("abort")), @"error TRUNCATED: p ended the stream before the answer was complete");
}

#[test]
fn an_error_in_the_stream_is_one() {
    let text = delta(r#"{"content":"Hel"}"#);
    assert_snapshot!(heard(&stream(&[text.clone(), r#"{"error":{"message":"The server had an error","type":"server_error","code":"overloaded"}}"#.to_owned()])), @r#"
    text "Hel"
    error TRANSIENT: p is temporarily unavailable: The server had an error
    "#);
    let choices = r#"{"error":{"code":502,"message":"upstream"},"choices":[{"delta":{"content":""},"finish_reason":"error"}]}"#;
    assert_snapshot!(heard(&stream(&[text, choices.to_owned()])), @r#"
    text "Hel"
    error TRANSIENT: p is temporarily unavailable: upstream
    "#);
    assert_snapshot!(heard(&finish("insufficient_system_resource")), @"error TRANSIENT: p is temporarily unavailable: the answer ended with: insufficient_system_resource");
}

#[test]
fn a_line_that_is_not_json_ends_the_answer() {
    let broken = format!(r#"{{"id":"c","choices":[{{"ind{}"#, "x".repeat(200));
    assert_snapshot!(heard(&stream(&[delta(r#"{"content":"Hel"}"#), broken, finish("stop")])), @r#"
    text "Hel"
    error PROTOCOL: p sent a response that cannot be parsed: {"id":"c","choices":[{"indxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
    "#);
}

#[test]
fn a_refusal_is_a_finish_with_its_words() {
    assert_snapshot!(heard(&stream(&[delta(r#"{"refusal":"I can't "}"#), delta(r#"{"refusal":"do that."}"#), finish("stop")])), @r#"done Refused { code: "refusal", message: "I can't do that." } gpt-x"#);
    assert_snapshot!(heard(&calls(&[r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}"#], "content_filter")), @r#"done Refused { code: "content_filter", message: "the provider's filter stopped the answer" } gpt-x"#);
}

#[test]
fn thoughts_and_whole_messages_come_under_many_names() {
    assert_snapshot!(heard(&stream(&[
        delta(r#"{"reasoning":"a"}"#),
        delta(r#"{"reasoning":"b","reasoning_content":"b"}"#),
        delta(r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"c"}]},{"type":"text","text":"d"},7]}"#),
        r#"{"choices":[{"message":{"role":"assistant","content":"e","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#.to_owned(),
    ])), @r#"
    thought "a"
    thought "b"
    thought "c"
    text "d"
    text "e"
    call "a" f {}
    usage in 3 cached 0 out 2 reasoning 0
    done Stop gpt-x
    "#);
}

#[test]
fn tokens_are_counted_alike() {
    let usage =
        |counts: &str| heard(&stream(&[finish("stop"), format!(r#"{{"choices":[],"usage":{counts}}}"#)]));
    // DeepSeek.
    assert_snapshot!(usage(r#"{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"prompt_cache_hit_tokens":4}"#), @"
    usage in 10 cached 4 out 5 reasoning 0
    done Stop gpt-x
    ");
    // Reasoning beside the output.
    assert_snapshot!(usage(r#"{"prompt_tokens":10,"completion_tokens":5,"total_tokens":22,"completion_tokens_details":{"reasoning_tokens":7}}"#), @"
    usage in 10 cached 0 out 5 reasoning 7
    done Stop gpt-x
    ");
}

#[test]
fn a_tool_comes_back_under_its_own_name() {
    let request = ModelRequest {
        tools: vec![crate::ToolSpec {
            name: "server.tool/list".to_owned(),
            description: String::new(),
            parameters: Value::Null,
        }],
        ..ModelRequest::default()
    };
    let told = openai::encode(&request, true);
    let name = told["tools"][0]["function"]["name"].as_str().unwrap_or_default();
    let piece = format!(r#"{{"index":0,"id":"a","function":{{"name":"{name}","arguments":"{{}}"}}}}"#);
    let heard = fixture::heard(ChatDecoder::new("p", &request), &calls(&[&piece], "tool_calls"));
    assert_snapshot!(heard, @r#"
    call "a" server.tool/list {}
    done Stop gpt-x
    "#);
}

#[test]
fn an_answer_goes_back_as_it_came() {
    let signed = WHOLE.replace(
        r#""id":"call_A","type":"function","#,
        r#""id":"call_A","type":"function","extra_content":{"google":{"thought_signature":"c2ln"}},"#,
    );
    let (events, outcome) = fixture::decoded(ChatDecoder::new("p", &ModelRequest::default()), &signed);
    assert!(outcome.is_ok());
    let result = |id: &str| {
        MessagePart::from(ToolResult {
            id: id.to_owned(),
            name: "get_weather".to_owned(),
            response: json!("rain"),
        })
    };
    let messages = vec![
        ModelMessage::text(Role::User, "Weather?"),
        fixture::spoken(events),
        ModelMessage::new(Role::Tool, vec![result("call_A"), result("call_B")]),
    ];
    let request = ModelRequest { messages, ..ModelRequest::default() };
    for echo in [openai::ReasoningEcho::Reasoning, openai::ReasoningEcho::Signatures] {
        let dialect = openai::Dialect { echo, ..openai::Dialect::COMPATIBLE };
        let body = openai::encode_for(&request, false, &dialect).to_string();
        assert_eq!(
            body.contains(r#""reasoning_content":"Let me think.""#),
            echo == openai::ReasoningEcho::Reasoning
        );
        let signed = r#""extra_content":{"google":{"thought_signature":"c2ln"}}}"#;
        assert_eq!(body.contains(signed), echo == openai::ReasoningEcho::Signatures);
    }
    assert_snapshot!(fixture::shape(&openai::encode(&request, false)), @r#"
    model: ""
    user {"content":"Weather?"}
    assistant {"content":"Grüß dich 🌍"}
      {"id":"call_A","type":"function","function":{"name":"get_weather","arguments":"{\"city\":\"Zürich\"}"}}
      {"id":"call_B","type":"function","function":{"name":"get_weather","arguments":"{\"city\":\"Tōkyō\"}"}}
    tool {"tool_call_id":"call_A","content":"rain"}
    tool {"tool_call_id":"call_B","content":"rain"}
    "#);
}

#[test]
fn reasoning_details_go_back_whole() {
    let stream = stream(&[
        delta(
            r#"{"reasoning":"Let me ","reasoning_details":[{"type":"reasoning.text","text":"Let me ","format":"x","index":0,"signature":null}]}"#,
        ),
        delta(
            r#"{"reasoning":"think.","reasoning_details":[{"type":"reasoning.text","text":"think.","format":"x","index":0}]}"#,
        ),
        delta(
            r#"{"reasoning_details":[{"type":"reasoning.text","signature":"c2ln","format":"x","index":0}]}"#,
        ),
        delta(
            r#"{"content":"Hi","reasoning_details":[{"type":"reasoning.encrypted","data":"RU5D","id":"a","index":1},{"type":"reasoning.encrypted","data":"TU9SRQ","id":"b","index":1}]}"#,
        ),
        finish("stop"),
    ]);
    let (events, outcome) = fixture::decoded(ChatDecoder::new("p", &ModelRequest::default()), &stream);
    assert!(outcome.is_ok());
    let request = ModelRequest { messages: vec![fixture::spoken(events)], ..ModelRequest::default() };
    let router = openai::Dialect::for_base_url("https://openrouter.ai/api/v1");
    assert_snapshot!(fixture::shape(&openai::encode_for(&request, false, &router)), @r#"
    model: ""
    assistant {"content":"Hi"}
      {"type":"reasoning.text","text":"Let me think.","format":"x","index":0,"signature":"c2ln"}
      {"type":"reasoning.encrypted","data":"RU5D","id":"a","index":1}
      {"type":"reasoning.encrypted","data":"TU9SRQ","id":"b","index":1}
    "#);
    assert_snapshot!(fixture::shape(&openai::encode(&request, false)), @r#"
    model: ""
    assistant {"content":"Hi"}
    "#);
}

#[test]
fn whatever_becomes_of_a_stream_calls_leave_with_its_end_alone() {
    for stream in fixture::spoiled(&format!("{WHOLE}\n[DONE]")) {
        fixture::assert_sound(ChatDecoder::new("p", &ModelRequest::default()), &stream);
    }
}
