//! Streams as servers send them, and the events that they decode to.

use super::*;
use crate::{MessagePart, ModelMessage, Role, ToolResult, openai, test_fixture};
use insta::assert_snapshot;

fn decode(stream: &str) -> String {
    test_fixture::describe_stream(ChatDecoder::new("p", &ModelRequest::default()), stream)
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

/// The deltas of calls, a finish reason and `[DONE]`.
fn calls(chunks: &[&str], reason: &str) -> String {
    let mut lines: Vec<String> =
        chunks.iter().map(|chunks| delta(&format!(r#"{{"tool_calls":[{chunks}]}}"#))).collect();
    lines.extend([finish(reason), "[DONE]".to_owned()]);
    stream(&lines)
}

const COMPLETE: &str = r#"
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
fn text_is_streamed_and_calls_are_emitted_at_the_end() {
    let events = decode(&format!("{COMPLETE}\n [DONE] "));
    assert_snapshot!(events, @r#"
    thought "Let me "
    thought "think."
    text "Grüß "
    text "dich 🌍"
    call "call_A" get_weather {"city":"Zürich"}
    call "call_B" get_weather {"city":"Tōkyō"}
    usage in 100 cached 64 out 15 reasoning 5
    done Stop gpt-x
    "#);
    assert_eq!(decode(COMPLETE), events, "a finish reason ends the answer with or without [DONE]");
}

#[test]
fn call_deltas_are_merged_for_every_indexing_scheme() {
    // The same index for all.
    assert_snapshot!(decode(&calls(&[
        r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{\"n\":1}"}}"#,
        r#"{"index":0,"id":"b","function":{"name":"f","arguments":"{\"n\""}}"#,
        r#"{"index":0,"id":"b","function":{"arguments":":2}"}}"#,
    ], "tool_calls")), @r#"
    call "a" f {"n":1}
    call "b" f {"n":2}
    done Stop gpt-x
    "#);
    // Indexes with gaps.
    assert_snapshot!(decode(&calls(&[
        r#"{"index":1,"id":"a","function":{"name":"f"}},{"index":18446744073709551615,"id":"b","function":{"name":"g","arguments":"{\"n\":"}}"#,
        r#"{"index":18446744073709551615,"function":{"arguments":"2}"}},{"index":1,"function":{"arguments":"{\"n\":1}"}}"#,
    ], "tool_calls")), @r#"
    call "a" f {"n":1}
    call "b" g {"n":2}
    done Stop gpt-x
    "#);
    // Without ids.
    assert_snapshot!(decode(&calls(&[
        r#"{"index":0,"function":{"name":"f","arguments":""}},{"index":1,"function":{"name":"g","arguments":""}}"#,
        r#"{"index":0,"function":{"arguments":"{\"n\":1}"}},{"index":1,"id":"","function":{"arguments":"{\"n\":2}"}}"#,
    ], "tool_calls")), @r#"
    call "" f {"n":1}
    call "" g {"n":2}
    done Stop gpt-x
    "#);
    // Without ids, the same index for all.
    assert_snapshot!(decode(&calls(&[
        r#"{"index":0,"function":{"name":"f","arguments":"{\"n\":1}"}}"#,
        r#"{"index":0,"function":{"name":"f","arguments":"{\"n\":2}"}}"#,
    ], "stop")), @r#"
    call "" f {"n":1}
    call "" f {"n":2}
    done Stop gpt-x
    "#);
    // The same id for all.
    assert_snapshot!(decode(&calls(&[
        r#"{"index":0,"id":"x","function":{"name":"f","arguments":"{\"n\":1}"}}"#,
        r#"{"index":1,"id":"x","function":{"name":"f","arguments":"{\"n\":2}"}}"#,
    ], "tool_calls")), @r#"
    call "x" f {"n":1}
    call "x" f {"n":2}
    done Stop gpt-x
    "#);
    // Without indexes.
    assert_snapshot!(decode(&calls(&[
        r#"{"id":"a","function":{"name":"f","arguments":"{\"n\":"}}"#,
        r#"{"function":{"arguments":"1}"}}"#,
        r#"{"id":"b","function":{"name":"f","arguments":"{\"n\":2}"}}"#,
    ], "tool_calls")), @r#"
    call "a" f {"n":1}
    call "b" f {"n":2}
    done Stop gpt-x
    "#);
    // The id after the name.
    assert_snapshot!(decode(&calls(&[
        r#"{"index":0,"function":{"name":"f"}}"#,
        r#"{"index":0,"id":"a","function":{"arguments":"{\"n\":1}"}}"#,
        r#"{"index":1}"#,
    ], "tool_calls")), @r#"
    call "a" f {"n":1}
    done Stop gpt-x
    "#);
}

#[test]
fn malformed_arguments_are_kept_verbatim() {
    assert_snapshot!(decode(&calls(&[
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
fn call_truncated_at_the_token_limit_is_dropped() {
    assert_snapshot!(decode(&calls(&[
        r#"{"index":0,"id":"a","function":{"name":"f","arguments":""}}"#,
        r#"{"index":1,"id":"b","function":{"name":"f","arguments":"{\"n\":1}"}}"#,
        r#"{"index":2,"id":"c","function":{"name":"f","arguments":"{\"ci"}}"#,
    ], "length")), @r#"
    call "a" f {}
    call "b" f {"n":1}
    done Length gpt-x
    "#);
    assert_snapshot!(decode(&calls(&[r#"{"index":0,"id":"a","function":{"name":"f","arguments":""}}"#], "length")), @"done Length gpt-x");
}

#[test]
fn response_without_a_finish_reason_is_truncated() {
    let text = delta(r#"{"content":"Hel"}"#);
    assert_snapshot!(decode(&text), @r#"
    text "Hel"
    error TRUNCATED: p ended the stream before the answer was complete
    "#);
    let call = delta(r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}"#);
    assert_snapshot!(decode(&call), @"error TRUNCATED: p ended the stream before the answer was complete");
    let cut = call.replace("{}", "{");
    assert_snapshot!(decode(&stream(&[cut, "[DONE]".to_owned()])), @"error TRUNCATED: p ended the stream before the answer was complete");
    assert_snapshot!(decode(""), @"error TRUNCATED: p ended the stream before the answer was complete");
    assert_snapshot!(decode(&finish("abort")), @"error TRUNCATED: p ended the stream before the answer was complete");
}

#[test]
fn done_without_a_finish_reason_ends_the_response() {
    let done = || "[DONE]".to_owned();
    let call = delta(r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}"#);
    assert_snapshot!(decode(&stream(&[call, done()])), @r#"
    call "a" f {}
    done Stop gpt-x
    "#);
    assert_snapshot!(decode(&stream(&[delta(r#"{"content":"Hello"}"#), done()])), @r#"
    text "Hello"
    done Stop gpt-x
    "#);
}

#[test]
fn function_call_deltas_and_split_names_make_one_call() {
    let old = [
        delta(r#"{"function_call":{"name":"get_","arguments":""}}"#),
        delta(r#"{"function_call":{"name":"weather","arguments":""}}"#),
        delta(r#"{"function_call":{"arguments":"{\"n\":"}}"#),
        delta(r#"{"function_call":{"arguments":"1}"}}"#),
        finish("function_call"),
    ];
    assert_snapshot!(decode(&stream(&old)), @r#"
    call "" get_weather {"n":1}
    done Stop gpt-x
    "#);
}

#[test]
fn error_object_in_the_stream_ends_it() {
    let text = delta(r#"{"content":"Hel"}"#);
    assert_snapshot!(decode(&stream(&[text.clone(), r#"{"error":{"message":"The server had an error","type":"server_error","code":"overloaded"}}"#.to_owned()])), @r#"
    text "Hel"
    error TRANSIENT: p is temporarily unavailable: The server had an error
    "#);
    let choices = r#"{"error":{"code":502,"message":"upstream"},"choices":[{"delta":{"content":""},"finish_reason":"error"}]}"#;
    assert_snapshot!(decode(&stream(&[text, choices.to_owned()])), @r#"
    text "Hel"
    error TRANSIENT: p is temporarily unavailable: upstream
    "#);
    assert_snapshot!(decode(&finish("insufficient_system_resource")), @"error TRANSIENT: p is temporarily unavailable: the answer ended with finish_reason insufficient_system_resource");
}

#[test]
fn invalid_json_frame_is_a_protocol_error() {
    let broken = format!(r#"{{"id":"c","choices":[{{"ind{}"#, "x".repeat(200));
    assert_snapshot!(decode(&stream(&[delta(r#"{"content":"Hel"}"#), broken, finish("stop")])), @r#"
    text "Hel"
    error PROTOCOL: p sent a response that cannot be parsed: {"id":"c","choices":[{"indxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
    "#);
}

#[test]
fn refusal_is_a_finish_reason_with_its_message() {
    assert_snapshot!(decode(&stream(&[delta(r#"{"refusal":"I can't "}"#), delta(r#"{"refusal":"do that."}"#), finish("stop")])), @r#"done Refused { code: "refusal", message: "I can't do that." } gpt-x"#);
    assert_snapshot!(decode(&calls(&[r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}"#], "content_filter")), @r#"done Filtered { code: "content_filter", message: "the provider's content filter stopped the answer" } gpt-x"#);
}

#[test]
fn reasoning_and_messages_are_read_from_all_known_fields() {
    assert_snapshot!(decode(&stream(&[
        delta(r#"{"reasoning":"a"}"#),
        delta(r#"{"reasoning":"b","reasoning_content":"b"}"#),
        delta(r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"c"}]},{"type":"text","text":"d"},7]}"#),
        r#"{"choices":[{"message":{"role":"assistant","content":"e","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#.to_owned(),
    ])), @r#"
    thought "a"
    thought "b"
    thought "c"
    text "d"
    text "7"
    text "e"
    call "a" f {}
    usage in 3 cached 0 out 2 reasoning 0
    done Stop gpt-x
    "#);
}

#[test]
fn usage_of_compatible_servers_is_normalized() {
    let usage =
        |counts: &str| decode(&stream(&[finish("stop"), format!(r#"{{"choices":[],"usage":{counts}}}"#)]));
    // DeepSeek.
    assert_snapshot!(usage(r#"{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"prompt_cache_hit_tokens":4}"#), @"
    usage in 10 cached 4 out 5 reasoning 0
    done Stop gpt-x
    ");
    // Reasoning counted separately.
    assert_snapshot!(usage(r#"{"prompt_tokens":10,"completion_tokens":5,"total_tokens":22,"completion_tokens_details":{"reasoning_tokens":7}}"#), @"
    usage in 10 cached 0 out 5 reasoning 7
    done Stop gpt-x
    ");
}

#[test]
fn tool_call_has_the_original_tool_name() {
    let request = ModelRequest {
        tools: vec![crate::ToolSpec {
            name: "server.tool/list".to_owned(),
            description: String::new(),
            parameters: Value::Null,
        }],
        ..ModelRequest::default()
    };
    let body = openai::encode(&request, true);
    let name = body["tools"][0]["function"]["name"].as_str().unwrap_or_default();
    let chunk = format!(r#"{{"index":0,"id":"a","function":{{"name":"{name}","arguments":"{{}}"}}}}"#);
    let decoded =
        test_fixture::describe_stream(ChatDecoder::new("p", &request), &calls(&[&chunk], "tool_calls"));
    assert_snapshot!(decoded, @r#"
    call "a" server.tool/list {}
    done Stop gpt-x
    "#);
}

#[test]
fn decoded_answer_encodes_to_the_same_parts() {
    let signed = COMPLETE.replace(
        r#""id":"call_A","type":"function","#,
        r#""id":"call_A","type":"function","extra_content":{"google":{"thought_signature":"c2ln"}},"#,
    );
    let (events, outcome) =
        test_fixture::decode_stream(ChatDecoder::new("p", &ModelRequest::default()), &signed);
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
        test_fixture::assemble_message(events),
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
    assert_snapshot!(test_fixture::shape(&openai::encode(&request, false)), @r#"
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
fn reasoning_details_are_sent_back_complete() {
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
    let (events, outcome) =
        test_fixture::decode_stream(ChatDecoder::new("p", &ModelRequest::default()), &stream);
    assert!(outcome.is_ok());
    let request =
        ModelRequest { messages: vec![test_fixture::assemble_message(events)], ..ModelRequest::default() };
    let router = openai::Dialect::for_base_url("https://openrouter.ai/api/v1");
    assert_snapshot!(test_fixture::shape(&openai::encode_for(&request, false, &router)), @r#"
    model: ""
    assistant {"content":"Hi"}
      {"type":"reasoning.text","text":"Let me think.","format":"x","index":0,"signature":"c2ln"}
      {"type":"reasoning.encrypted","data":"RU5D","id":"a","index":1}
      {"type":"reasoning.encrypted","data":"TU9SRQ","id":"b","index":1}
    "#);
    assert_snapshot!(test_fixture::shape(&openai::encode(&request, false)), @r#"
    model: ""
    assistant {"content":"Hi"}
    "#);
}

#[test]
fn corrupted_stream_emits_calls_only_with_done() {
    for stream in test_fixture::corrupted_streams(&format!("{COMPLETE}\n[DONE]")) {
        test_fixture::assert_calls_only_with_done(ChatDecoder::new("p", &ModelRequest::default()), &stream);
    }
}

#[test]
fn annotations_are_citations() {
    let cited = r#"{"content":"a","annotations":[{"type":"url_citation","url_citation":{"url":"https://a.test/","title":"A","start_index":0,"end_index":1}},7]}"#;
    let frames =
        [delta(cited), delta(cited), r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#.to_owned()];
    let decoded = decode(&stream(&frames));
    assert_eq!(
        decoded.lines().last(),
        Some(
            r#"{"citationMetadata":{"citations":[{"startIndex":0,"endIndex":1,"uri":"https://a.test/","title":"A"}]}}"#
        ),
        "{decoded}"
    );
}
