//! Streams as the server sends them, and the events that they decode to.

use super::*;
use crate::{MessagePart, ModelMessage, Role, ToolResult, anthropic::encode, test_fixture};
use insta::assert_snapshot;
use serde_json::json;

fn decode(stream: &str) -> String {
    test_fixture::describe_stream(AnthropicDecoder::new("anthropic", &ModelRequest::default()), stream)
}

const START: &str = r#"
{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[],"model":"claude-x","stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":30,"cache_creation_input_tokens":6,"cache_read_input_tokens":64,"output_tokens":1}}}
{"type":"ping"}
"#;

const THINKING: &str = r#"
{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}
{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Let me "}}
{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"think."}}
{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"EqQBCgIYAhIM"}}
{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2lnbmF0dXJl/+=="}}
{"type":"content_block_stop","index":0}
{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"UkVEQUNURUQ="}}
{"type":"content_block_stop","index":1}
"#;

const TEXT: &str = r#"
{"type":"content_block_start","index":2,"content_block":{"type":"text","text":""}}
{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"Grüß "}}
{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"dich 🌍"}}
{"type":"content_block_stop","index":2}
"#;

const CUT_CALL: &str = r#"
{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"toolu_AAA","name":"get_weather","input":{}}}
{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":""}}
{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{\"city\":\"Zü"}}
"#;

const REST_OF_CALL: &str = r#"
{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"rich\",\"n\":1}"}}
{"type":"content_block_stop","index":3}
"#;

const SECOND_CALL: &str = r#"
{"type":"content_block_start","index":4,"content_block":{"type":"tool_use","id":"toolu_BBB","name":"get_weather","input":{}}}
{"type":"content_block_delta","index":4,"delta":{"type":"input_json_delta","partial_json":"{\"city\":\"Tōkyō\"}"}}
{"type":"content_block_stop","index":4}
"#;

const STOP: &str = r#"{"type":"message_stop"}"#;

fn end(reason: &str) -> String {
    let delta = json!({"stop_reason": reason, "stop_sequence": null});
    json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 20}}).to_string()
}

fn stream(frames: &[&str]) -> String {
    frames.join("\n")
}

#[test]
fn text_is_streamed_and_calls_are_emitted_at_the_end() {
    let whole = stream(&[START, THINKING, TEXT, CUT_CALL, REST_OF_CALL, SECOND_CALL, &end("tool_use"), STOP]);
    assert_snapshot!(decode(&whole), @r#"
    thought "Let me "
    thought "think."
    thought "" signed EqQBCgIYAhIMc2lnbmF0dXJl/+==
    thought "" signed cmVkYWN0ZWRfdGhpbmtpbmc6VWtWRVFVTlVSVVE9
    text "Grüß "
    text "dich 🌍"
    call "toolu_AAA" get_weather {"city":"Zürich","n":1}
    call "toolu_BBB" get_weather {"city":"Tōkyō"}
    usage in 100 cached 64 out 20 reasoning 0
    done Stop claude-x
    "#);
    let without_stop = whole.replace(STOP, "");
    assert_eq!(decode(&without_stop), decode(&whole), "a finish reason alone ends the message");
    let with_done = format!("{without_stop}\n[DONE]");
    assert_eq!(decode(&with_done), decode(&whole));
}

#[test]
fn stream_without_a_finish_reason_is_truncated_and_has_no_calls() {
    assert_snapshot!(decode(&stream(&[START, TEXT, CUT_CALL, REST_OF_CALL])), @r#"
    text "Grüß "
    text "dich 🌍"
    error TRUNCATED: anthropic ended the stream before the answer was complete
    "#);
    assert_snapshot!(decode(&stream(&[START, TEXT])), @r#"
    text "Grüß "
    text "dich 🌍"
    error TRUNCATED: anthropic ended the stream before the answer was complete
    "#);
    assert_snapshot!(decode(""), @"error TRUNCATED: anthropic ended the stream before the answer was complete");
}

#[test]
fn error_event_ends_the_stream() {
    let overloaded = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    assert_snapshot!(decode(&stream(&[START, TEXT, CUT_CALL, REST_OF_CALL, overloaded, STOP])), @r#"
    text "Grüß "
    text "dich 🌍"
    error TRANSIENT: anthropic is temporarily unavailable: Overloaded
    "#);
    assert_snapshot!(decode(&stream(&[START, r#"{"type":"error","message":"no idea"}"#])), @"error TRANSIENT: anthropic is temporarily unavailable: no idea");
}

#[test]
fn invalid_json_frame_is_a_protocol_error_with_a_short_quote() {
    let broken = format!(r#"{{"type":"content_block_delta","ind{}"#, "ü".repeat(500));
    assert_snapshot!(decode(&stream(&[START, &broken, TEXT, &end("end_turn"), STOP])), @r#"error PROTOCOL: anthropic sent a response that cannot be parsed: {"type":"content_block_delta","indüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüü"#);
}

#[test]
fn malformed_arguments_are_kept_verbatim() {
    let call = |json: &str| {
        let start = json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "a", "name": "f", "input": {}}});
        let delta = json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": json}});
        decode(&stream(&[&start.to_string(), &delta.to_string(), &end("tool_use"), STOP]))
    };
    let lines: Vec<String> = [r#"{"city": Zurich oops"#, "[1]", "null", "", " { } "]
        .iter()
        .map(|json| call(json).lines().next().unwrap_or_default().to_owned())
        .collect();
    assert_snapshot!(lines.join("\n"), @r#"
    call "a" f malformed "{\"city\": Zurich oops"
    call "a" f malformed "[1]"
    call "a" f {}
    call "a" f {}
    call "a" f {}
    "#);
}

#[test]
fn call_truncated_at_the_token_limit_is_dropped() {
    assert_snapshot!(decode(&stream(&[START, TEXT, CUT_CALL, &end("max_tokens"), STOP])), @r#"
    text "Grüß "
    text "dich 🌍"
    usage in 100 cached 64 out 20 reasoning 0
    done Length claude-x
    "#);
    let second = SECOND_CALL.replace(r#"ō\"}"#, "");
    let both = stream(&[START, CUT_CALL, REST_OF_CALL, &second, &end("max_tokens"), STOP]);
    assert_snapshot!(decode(&both), @r#"
    call "toolu_AAA" get_weather {"city":"Zürich","n":1}
    usage in 100 cached 64 out 20 reasoning 0
    done Length claude-x
    "#);
    let nothing_yet =
        stream(&[START, CUT_CALL.lines().nth(1).unwrap(), &end("model_context_window_exceeded")]);
    assert_snapshot!(decode(&nothing_yet), @"
    usage in 100 cached 64 out 20 reasoning 0
    done Length claude-x
    ");
}

#[test]
fn refusal_keeps_the_text_and_drops_the_calls() {
    let refusal = r#"{"type":"message_delta","delta":{"stop_reason":"refusal","stop_details":{"type":"refusal","category":"cyber","explanation":"This may harm."}}}"#;
    assert_snapshot!(decode(&stream(&[START, TEXT, CUT_CALL, REST_OF_CALL, refusal, STOP])), @r#"
    text "Grüß "
    text "dich 🌍"
    usage in 100 cached 64 out 1 reasoning 0
    done Refused { code: "REFUSAL", message: "This may harm." } claude-x
    "#);
    assert_snapshot!(decode(&stream(&[START, &end("refusal"), STOP])), @r#"
    usage in 100 cached 64 out 20 reasoning 0
    done Refused { code: "REFUSAL", message: "the model declined to answer" } claude-x
    "#);
}

#[test]
fn other_finish_reasons_are_a_normal_stop() {
    for reason in ["end_turn", "stop_sequence", "pause_turn", "something_new"] {
        assert!(decode(&end(reason)).ends_with("done Stop ?"), "{reason}");
    }
}

#[test]
fn parts_after_a_call_keep_their_order() {
    let late = TEXT.replace(r#""index":2"#, r#""index":5"#);
    let whole =
        stream(&[START, CUT_CALL, REST_OF_CALL, &late, THINKING, SECOND_CALL, &end("tool_use"), STOP]);
    assert_snapshot!(decode(&whole), @r#"
    call "toolu_AAA" get_weather {"city":"Zürich","n":1}
    text "Grüß "
    text "dich 🌍"
    thought "Let me "
    thought "think."
    thought "" signed EqQBCgIYAhIMc2lnbmF0dXJl/+==
    thought "" signed cmVkYWN0ZWRfdGhpbmtpbmc6VWtWRVFVTlVSVVE9
    call "toolu_BBB" get_weather {"city":"Tōkyō"}
    usage in 100 cached 64 out 20 reasoning 0
    done Stop claude-x
    "#);
}

#[test]
fn empty_thought_is_kept_only_with_a_signature() {
    let thought = |index: u64, signature: &str| {
        format!(
            r#"{{"type":"content_block_start","index":{index},"content_block":{{"type":"thinking","thinking":"","signature":"{signature}"}}}}
            {{"type":"content_block_stop","index":{index}}}"#
        )
    };
    assert_snapshot!(decode(&stream(&[&thought(0, "RXE="), &thought(1, ""), &thought(2, "QUI="), &end("end_turn")])), @r#"
    thought "" signed RXE=
    thought "" signed QUI=
    usage in 0 cached 0 out 20 reasoning 0
    done Stop ?
    "#);
}

#[test]
fn unknown_blocks_are_ignored_except_for_their_text() {
    let unknown = r#"
        {"type":"context_note","note":{"index":"x"}}
        {"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"s","name":"web_search","input":{}}}
        {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"query\":1}"}}
        {"type":"content_block_start","index":1,"content_block":{"type":"verse","text":"Roses"}}
        {"type":"content_block_delta","index":1,"delta":{"type":"verse_delta","text":" are red","metre":5}}
        {"type":"content_block_delta","index":1,"delta":{"type":"citations_delta","citation":{"cited_text":"x"}}}
    "#;
    assert_snapshot!(decode(&stream(&[unknown, &end("end_turn")])), @r#"
    text "Roses"
    text " are red"
    usage in 0 cached 0 out 20 reasoning 0
    done Stop ?
    "#);
}

#[test]
fn complete_arguments_without_ids_are_accepted() {
    let whole =
        r#"{"type":"content_block_start","content_block":{"type":"tool_use","name":"f","input":{"a":1}}}"#;
    assert_snapshot!(decode(&stream(&[whole, whole, &end("tool_use")])), @r#"
    call "" f {"a":1}
    call "" f {"a":1}
    usage in 0 cached 0 out 20 reasoning 0
    done Stop ?
    "#);
}

#[test]
fn tool_call_has_the_original_tool_name() {
    let mut request = test_fixture::request();
    request.tools[0].name = "weather.get".to_owned();
    let call = SECOND_CALL.replace("get_weather", "weather_get");
    let decoded = test_fixture::describe_stream(
        AnthropicDecoder::new("anthropic", &request),
        &stream(&[&call, &end("tool_use")]),
    );
    assert_snapshot!(decoded.lines().next().unwrap_or_default(), @r#"call "toolu_BBB" weather.get {"city":"Tōkyō"}"#);
}

#[test]
fn corrupted_stream_emits_calls_only_with_done() {
    let whole = stream(&[START, THINKING, TEXT, CUT_CALL, REST_OF_CALL, SECOND_CALL, &end("tool_use"), STOP]);
    let corrupted = test_fixture::corrupted_streams(&whole);
    assert!(corrupted.len() > 300);
    for stream in corrupted {
        test_fixture::assert_calls_only_with_done(
            AnthropicDecoder::new("anthropic", &ModelRequest::default()),
            &stream,
        );
    }
}

#[test]
fn decoded_answers_encode_to_the_same_blocks() {
    let first_answer =
        stream(&[START, THINKING, TEXT, CUT_CALL, REST_OF_CALL, SECOND_CALL, &end("tool_use"), STOP]);
    let omitted = r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":"RW1wdHk="}}"#;
    let second_answer = stream(&[START, omitted, TEXT, &end("end_turn"), STOP]);
    let assembled = |stream: &str| {
        test_fixture::assemble_message(
            test_fixture::decode_stream(AnthropicDecoder::new("anthropic", &ModelRequest::default()), stream)
                .0,
        )
    };
    let answer = |id: &str| {
        let (id, name) = (id.to_owned(), "get_weather".to_owned());
        MessagePart::from(ToolResult { id, name, response: json!("rain") })
    };
    let messages = vec![
        ModelMessage::text(Role::User, "Zürich and Tōkyō?"),
        assembled(&first_answer),
        ModelMessage::new(Role::Tool, vec![answer("toolu_BBB"), answer("toolu_AAA")]),
        assembled(&second_answer),
        ModelMessage::text(Role::User, "Thanks."),
    ];
    let body = encode(&ModelRequest { messages, ..ModelRequest::default() }, true);
    assert_eq!(
        body["messages"][1]["content"],
        json!([
            {"type": "thinking", "thinking": "Let me think.", "signature": "EqQBCgIYAhIMc2lnbmF0dXJl/+=="},
            {"type": "redacted_thinking", "data": "UkVEQUNURUQ="},
            {"type": "text", "text": "Grüß dich 🌍"},
            {"type": "tool_use", "id": "toolu_AAA", "name": "get_weather", "input": {"city": "Zürich", "n": 1}},
            {"type": "tool_use", "id": "toolu_BBB", "name": "get_weather", "input": {"city": "Tōkyō"}},
        ])
    );
    let answered: Vec<&Value> = (0..2).map(|at| &body["messages"][2]["content"][at]["tool_use_id"]).collect();
    assert_eq!(answered, ["toolu_AAA", "toolu_BBB"]);
    assert_eq!(
        body["messages"][3]["content"],
        json!([
            {"type": "thinking", "thinking": "", "signature": "RW1wdHk="},
            {"type": "text", "text": "Grüß dich 🌍"},
        ])
    );
}

#[test]
fn fragments_without_type_or_index_extend_the_newest_call() {
    let call = r#"
{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"a","name":"f","input":{}}}
{"type":"content_block_delta","index":1,"delta":{"partial_json":"{\"n\":"}}
{"type":"content_block_delta","index":{"a":1},"delta":{"type":7,"partial_json":"1}"}}"#;
    let decoded = decode(&stream(&[START, call, &end("tool_use"), STOP]));
    assert!(decoded.contains(r#"call "a" f {"n":1}"#), "{decoded}");
}

#[test]
fn text_of_another_type_is_an_error_instead_of_a_shorter_answer() {
    let delta = r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":["a"]}}"#;
    let decoded = decode(&stream(&[START, delta, &end("end_turn"), STOP]));
    assert!(
        decoded.starts_with("error PROTOCOL: anthropic sent a response that cannot be parsed"),
        "{decoded}"
    );
}

#[test]
fn citation_deltas_are_citations() {
    let cited = r#"
{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"","citations":[]}}
{"type":"content_block_delta","index":0,"delta":{"type":"citations_delta","citation":{"type":"web_search_result_location","url":"https://a.test/","title":"A","cited_text":"x"}}}
{"type":"content_block_delta","index":0,"delta":{"type":"citations_delta","citation":{"type":"char_location","document_title":"B","start_char_index":5,"end_char_index":9}}}
{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}"#;
    let decoded = decode(&stream(&[START, cited, &end("end_turn"), STOP]));
    assert_eq!(
        decoded.lines().last(),
        Some(r#"{"citationMetadata":{"citations":[{"uri":"https://a.test/","title":"A"},{"title":"B"}]}}"#),
        "{decoded}"
    );
}

#[test]
fn cache_writes_and_thinking_are_counted() {
    let stream = r#"
        {"type":"message_start","message":{"usage":{"input_tokens":5,"cache_read_input_tokens":7,"cache_creation_input_tokens":30,"cache_creation":{"ephemeral_5m_input_tokens":10,"ephemeral_1h_input_tokens":20}}}}
        {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"Hi"}}
        {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9,"output_tokens_details":{"thinking_tokens":4}}}
        {"type":"message_stop"}
    "#;
    let decoder = AnthropicDecoder::new("p", &ModelRequest::default());
    let (events, outcome) = test_fixture::decode_stream(decoder, stream);
    outcome.unwrap();
    let usage = events
        .into_iter()
        .find_map(|event| if let StreamEvent::Usage(usage) = event { Some(usage) } else { None });
    let expected = TokenUsage {
        input: 42,
        cached: 7,
        output: 5,
        reasoning: 4,
        cache_written: 30,
        cache_written_hour: 20,
    };
    assert_eq!(usage, Some(expected));
}
