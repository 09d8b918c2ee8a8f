//! Streams as servers send them, and the events that they decode to.

use super::*;
use crate::{MessagePart, ModelMessage, Role, ToolResult, responses, test_fixture};
use insta::assert_snapshot;

fn decode(stream: &str) -> String {
    test_fixture::describe_stream(ResponsesDecoder::new("p", &ModelRequest::default()), stream)
}

const THOUGHT: &str = r#"
    {"type":"response.created","response":{"id":"resp_1","status":"in_progress","output":[]}}
    {"type":"response.output_item.added","output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[]}}
    {"type":"response.reasoning_summary_text.delta","item_id":"rs_1","output_index":0,"summary_index":0,"delta":"Let me "}
    {"type":"response.reasoning_summary_text.delta","item_id":"rs_1","output_index":0,"summary_index":0,"delta":"think."}
    {"type":"response.output_item.done","output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"Let me think."}],"encrypted_content":"ENC+/=="}}
"#;

const TEXT: &str = r#"
    {"type":"response.output_item.added","output_index":1,"item":{"id":"msg_1","type":"message","role":"assistant","status":"in_progress","content":[]}}
    {"type":"response.output_text.delta","item_id":"msg_1","output_index":1,"content_index":0,"delta":"Grüß "}
    {"type":"response.output_text.delta","item_id":"msg_1","output_index":1,"content_index":0,"delta":"dich 🌍"}
    {"type":"response.output_item.done","output_index":1,"item":{"id":"msg_1","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":"Grüß dich 🌍","annotations":[]}]}}
"#;

const CALLS: &str = r#"
    {"type":"response.output_item.added","output_index":2,"item":{"id":"fc_1","type":"function_call","call_id":"call_A","name":"get_weather","arguments":"","status":"in_progress"}}
    {"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":2,"delta":"{\"ci"}
    {"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":2,"delta":"ty\":\"Zürich\"}"}
    {"type":"response.function_call_arguments.done","item_id":"fc_1","output_index":2,"arguments":"{\"city\":\"Zürich\"}"}
    {"type":"response.output_item.done","output_index":2,"item":{"id":"fc_1","type":"function_call","call_id":"call_A","name":"get_weather","arguments":"{\"city\":\"Zürich\"}","status":"completed"}}
    {"type":"response.output_item.added","output_index":3,"item":{"id":"rs_2","type":"reasoning","summary":[]}}
    {"type":"response.output_item.done","output_index":3,"item":{"id":"rs_2","type":"reasoning","summary":[],"encrypted_content":"MORE"}}
    {"type":"response.output_item.added","output_index":4,"item":{"id":"fc_2","type":"function_call","call_id":"call_B","name":"get_weather","arguments":"","status":"in_progress"}}
    {"type":"response.output_item.done","output_index":4,"item":{"id":"fc_2","type":"function_call","call_id":"call_B","name":"get_weather","arguments":"{\"city\":\"Tōkyō\"}","status":"completed"}}
"#;

const COMPLETED: &str = r#"{"type":"response.completed","response":{"status":"completed","model":"gpt-x","output":[],"error":null,"usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":64},"output_tokens":20,"output_tokens_details":{"reasoning_tokens":5},"total_tokens":120}}}"#;

/// The final response that repeats the items of a stream.
fn final_response(stream: &str) -> String {
    let done = stream.lines().filter(|line| line.contains("output_item.done"));
    let items: Vec<Value> = done
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .map(|mut event| event["item"].take())
        .collect();
    COMPLETED.replace(r#""output":[]"#, &format!(r#""output":{}"#, Value::from(items)))
}

#[test]
fn text_is_streamed_and_calls_are_emitted_at_the_end() {
    let deltas = format!("{THOUGHT}{TEXT}{CALLS}");
    let events = decode(&format!("{deltas}\n{COMPLETED}"));
    assert_snapshot!(events, @r#"
    thought "Let me "
    thought "think."
    thought "" signed eyJpZCI6InJzXzEiLCJzdW1tYXJ5IjpbeyJ0eXBlIjoic3VtbWFyeV90ZXh0IiwidGV4dCI6IkxldCBtZSB0aGluay4ifV0sImVuY3J5cHRlZF9jb250ZW50IjoiRU5DKy89PSJ9
    text "Grüß "
    text "dich 🌍"
    call "call_A" get_weather {"city":"Zürich"}
    thought "" signed eyJpZCI6InJzXzIiLCJzdW1tYXJ5IjpbXSwiZW5jcnlwdGVkX2NvbnRlbnQiOiJNT1JFIn0=
    call "call_B" get_weather {"city":"Tōkyō"}
    usage in 100 cached 64 out 15 reasoning 5
    done Stop gpt-x
    "#);
    assert_eq!(
        decode(&format!("{deltas}\n{}\n[DONE]", final_response(&deltas))),
        events,
        "nothing is emitted twice"
    );
}

#[test]
fn missing_deltas_are_taken_from_completed_items() {
    let deltas = format!("{THOUGHT}{TEXT}{CALLS}");
    let only_final = final_response(&deltas);
    let expected = decode(&only_final);
    assert_snapshot!(expected, @r#"
    thought "Let me think."
    thought "" signed eyJpZCI6InJzXzEiLCJzdW1tYXJ5IjpbeyJ0eXBlIjoic3VtbWFyeV90ZXh0IiwidGV4dCI6IkxldCBtZSB0aGluay4ifV0sImVuY3J5cHRlZF9jb250ZW50IjoiRU5DKy89PSJ9
    text "Grüß dich 🌍"
    call "call_A" get_weather {"city":"Zürich"}
    thought "" signed eyJpZCI6InJzXzIiLCJzdW1tYXJ5IjpbXSwiZW5jcnlwdGVkX2NvbnRlbnQiOiJNT1JFIn0=
    call "call_B" get_weather {"city":"Tōkyō"}
    usage in 100 cached 64 out 15 reasoning 5
    done Stop gpt-x
    "#);
    let only_done: Vec<&str> = deltas.lines().filter(|line| line.contains("output_item.done")).collect();
    assert_eq!(decode(&format!("{}\n{COMPLETED}", only_done.join("\n"))), expected);
    let event: Value = serde_json::from_str(&only_final).unwrap_or_default();
    assert_eq!(decode(&event["response"].to_string()), expected, "a response that is not streamed");
    let half: Vec<&str> =
        TEXT.lines().filter(|line| !line.contains("dich") || line.contains("done")).collect();
    assert_snapshot!(decode(&format!("{}\n{COMPLETED}", half.join("\n"))), @r#"
    text "Grüß "
    text "dich 🌍"
    usage in 100 cached 64 out 15 reasoning 5
    done Stop gpt-x
    "#);
}

/// llama.cpp sends no indexes, calls without an item id, and deltas that name the call id.
#[test]
fn items_are_matched_without_indexes_and_ids() {
    assert_snapshot!(decode(r#"
        {"type":"response.created","response":{"id":"resp_1","object":"response","status":"in_progress"}}
        {"type":"response.output_item.added","item":{"content":[],"id":"rs_1","type":"reasoning","encrypted_content":"","summary":[]}}
        {"type":"response.reasoning_text.delta","item_id":"rs_1","delta":"Hm."}
        {"type":"response.output_item.done","item":{"id":"rs_1","type":"reasoning","encrypted_content":"","summary":[],"content":[{"type":"reasoning_text","text":"Hm."}]}}
        {"type":"response.output_item.added","item":{"arguments":"","call_id":"fc_A","name":"f","type":"function_call","status":"in_progress"}}
        {"type":"response.function_call_arguments.delta","delta":"{\"n\":","item_id":"fc_A"}
        {"type":"response.output_item.added","item":{"arguments":"","call_id":"fc_B","name":"f","type":"function_call","status":"in_progress"}}
        {"type":"response.function_call_arguments.delta","delta":"{\"n\":2}","item_id":"fc_B"}
        {"type":"response.function_call_arguments.delta","delta":"1}","item_id":"fc_A"}
        {"type":"response.output_item.done","item":{"type":"function_call","status":"completed","arguments":"{\"n\":2}","call_id":"fc_B","name":"f"}}
        {"type":"response.completed","response":{"status":"completed","model":"smol","output":[{"id":"rs_1","type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"Hm."}]},{"type":"function_call","arguments":"{\"n\":1}","call_id":"fc_A","name":"f"},{"type":"function_call","arguments":"{\"n\":2}","call_id":"fc_B","name":"f"}],"usage":{"input_tokens":49,"output_tokens":40,"total_tokens":89}}}
    "#), @r#"
    thought "Hm."
    call "fc_A" f {"n":1}
    call "fc_B" f {"n":2}
    usage in 49 cached 0 out 40 reasoning 0
    done Stop smol
    "#);
    // Different ids in the final response, or none at all.
    assert_snapshot!(decode(r#"
        {"type":"response.output_text.delta","delta":"Hel"}
        {"type":"response.output_text.delta","delta":"lo"}
        {"type":"response.output_item.added","item":{"type":"function_call","name":"f"}}
        {"type":"response.function_call_arguments.delta","delta":"{\"n\":1}"}
        {"type":"response.output_item.done","item":{"type":"function_call","name":"f"}}
        {"type":"response.output_item.added","item":{"type":"function_call","name":"g"}}
        {"type":"response.function_call_arguments.delta","delta":"{\"n\":2}"}
        {"type":"response.completed","response":{"output":[{"id":"x","type":"message","content":[{"type":"output_text","text":"Hello"}]},{"id":"y","type":"function_call","call_id":"c1","name":"f","arguments":"{\"n\":1}"},{"id":"z","type":"function_call","call_id":"c2","name":"g","arguments":"{\"n\":2}"}]}}
    "#), @r#"
    text "Hel"
    text "lo"
    call "c1" f {"n":1}
    call "c2" g {"n":2}
    done Stop ?
    "#);
}

#[test]
fn event_type_may_come_from_the_sse_event_field() {
    let mut decoder = ResponsesDecoder::new("p", &ModelRequest::default());
    let mut out = Vec::new();
    let frames = [
        ("response.output_text.delta", r#"{"delta":"Hello"}"#),
        ("response.completed", r#"{"response":{}}"#),
    ];
    for (event, data) in frames {
        let read = crate::StreamDecoder::read(&mut decoder, StreamFrame { event, data }, &mut out);
        assert!(read.is_ok());
    }
    assert_eq!(out.len(), 2);
}

#[test]
fn texts_of_different_items_are_separated_by_a_blank_line() {
    assert_snapshot!(decode(r#"
        {"type":"response.reasoning_summary_text.delta","item_id":"rs_1","summary_index":0,"delta":"One."}
        {"type":"response.reasoning_summary_text.delta","item_id":"rs_1","summary_index":1,"delta":"Two."}
        {"type":"response.output_text.delta","item_id":"msg_1","delta":"Wait."}
        {"type":"response.output_item.done","item":{"id":"msg_1","type":"message","phase":"commentary","content":[{"type":"output_text","text":"Wait."}]}}
        {"type":"response.output_text.delta","item_id":"msg_2","delta":"Here:"}
        {"type":"response.output_text.delta","item_id":"msg_3","delta":"it is."}
        {"type":"response.completed","response":{"status":"completed"}}
    "#), @r#"
    thought "One."
    thought "\n\nTwo."
    text "Wait."
    text "" signed eyJwaGFzZSI6ImNvbW1lbnRhcnkifQ==
    text "Here:"
    text "\n\nit is."
    done Stop ?
    "#);
}

#[test]
fn call_truncated_at_the_token_limit_is_dropped() {
    let cut: Vec<&str> = CALLS.lines().take(3).collect();
    let incomplete = |reason: &str| {
        format!(
            r#"{{"type":"response.incomplete","response":{{"status":"incomplete","incomplete_details":{{"reason":"{reason}"}}}}}}"#
        )
    };
    assert_snapshot!(decode(&format!("{TEXT}{}\n{}", cut.join("\n"), incomplete("max_output_tokens"))), @r#"
    text "Grüß "
    text "dich 🌍"
    done Length ?
    "#);
    assert_snapshot!(decode(&format!("{CALLS}\n{}", incomplete("max_output_tokens"))), @r#"
    call "call_A" get_weather {"city":"Zürich"}
    thought "" signed eyJpZCI6InJzXzIiLCJzdW1tYXJ5IjpbXSwiZW5jcnlwdGVkX2NvbnRlbnQiOiJNT1JFIn0=
    call "call_B" get_weather {"city":"Tōkyō"}
    done Length ?
    "#);
    assert_snapshot!(decode(&format!("{TEXT}{CALLS}\n{}", incomplete("content_filter"))), @r#"
    text "Grüß "
    text "dich 🌍"
    thought "" signed eyJpZCI6InJzXzIiLCJzdW1tYXJ5IjpbXSwiZW5jcnlwdGVkX2NvbnRlbnQiOiJNT1JFIn0=
    done Filtered { code: "content_filter", message: "the provider's content filter stopped the answer" } ?
    "#);
}

#[test]
fn malformed_arguments_are_kept_verbatim() {
    let done = |arguments: &str| {
        format!(
            r#"{{"type":"response.output_item.done","item":{{"type":"function_call","call_id":"c","name":"f","arguments":{arguments}}}}}"#
        )
    };
    assert_snapshot!(decode(&[&done(r#""{oops""#), COMPLETED].map(String::from).join("\n")), @r#"
    call "c" f malformed "{oops"
    usage in 100 cached 64 out 15 reasoning 5
    done Stop gpt-x
    "#);
}

#[test]
fn stream_without_a_final_response_is_truncated() {
    assert_snapshot!(decode(&format!("{TEXT}{CALLS}")), @r#"
    text "Grüß "
    text "dich 🌍"
    error TRUNCATED: p ended the stream before the answer was complete
    "#);
    assert_snapshot!(decode(""), @"error TRUNCATED: p ended the stream before the answer was complete");
}

#[test]
fn error_event_ends_the_stream() {
    assert_snapshot!(decode(&format!("{TEXT}\n{}", r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"boom"}}}"#)), @r#"
    text "Grüß "
    text "dich 🌍"
    error TRANSIENT: p is temporarily unavailable: boom
    "#);
    assert_snapshot!(decode(r#"{"type":"response.failed","response":{"status":"failed","error":null}}"#), @"error TRANSIENT: p is temporarily unavailable: the response failed without an error message");
    assert_snapshot!(decode(r#"{"type":"error","code":"server_error","message":"flat","param":null}"#), @"error TRANSIENT: p is temporarily unavailable: flat");
    assert_snapshot!(decode(r#"{"type":"error","error":{"type":"server_error","message":"nested"}}"#), @"error TRANSIENT: p is temporarily unavailable: nested");
    assert_snapshot!(decode(r#"{"error":{"code":500,"message":"bare"}}"#), @"error TRANSIENT: p is temporarily unavailable: bare");
    assert_snapshot!(decode(r#"{"type":"resp"#), @r#"error PROTOCOL: p sent a response that cannot be parsed: {"type":"resp"#);
}

#[test]
fn refusal_is_a_finish_reason_with_its_message() {
    let deltas = r#"
        {"type":"response.refusal.delta","item_id":"msg_1","delta":"I can't "}
        {"type":"response.refusal.delta","item_id":"msg_1","delta":"do that."}"#;
    let whole = r#"{"type":"response.output_item.done","item":{"id":"msg_1","type":"message","content":[{"type":"refusal","refusal":"I can't do that."}]}}"#;
    let events = decode(&format!("{deltas}\n{whole}\n{COMPLETED}"));
    assert_snapshot!(events, @r#"
    usage in 100 cached 64 out 15 reasoning 5
    done Refused { code: "refusal", message: "I can't do that." } gpt-x
    "#);
    assert_eq!(decode(&format!("{whole}\n{COMPLETED}")), events);
}

#[test]
fn decoded_answer_encodes_to_the_same_items() {
    let phased = TEXT.replace(r#""status":"completed","#, r#""status":"completed","phase":"commentary","#);
    let stream = format!("{THOUGHT}{phased}{CALLS}\n{COMPLETED}");
    let (events, outcome) =
        test_fixture::decode_stream(ResponsesDecoder::new("p", &ModelRequest::default()), &stream);
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
    let body = responses::encode(&ModelRequest { messages, ..ModelRequest::default() }, true);
    assert_snapshot!(test_fixture::shape(&body), @r#"
    model: ""
    store: false
    user {"type":"message"}
      {"type":"input_text","text":"Weather?"}
    reasoning {"type":"reasoning","id":"rs_1","encrypted_content":"ENC+/=="}
      {"type":"summary_text","text":"Let me think."}
    assistant {"type":"message","phase":"commentary"}
      {"type":"output_text","text":"Grüß dich 🌍"}
    function_call {"type":"function_call","call_id":"call_A","name":"get_weather","arguments":"{\"city\":\"Zürich\"}"}
    reasoning {"type":"reasoning","id":"rs_2","encrypted_content":"MORE"}
    function_call {"type":"function_call","call_id":"call_B","name":"get_weather","arguments":"{\"city\":\"Tōkyō\"}"}
    function_call_output {"type":"function_call_output","call_id":"call_A","output":"rain"}
    function_call_output {"type":"function_call_output","call_id":"call_B","output":"rain"}
    include: ["reasoning.encrypted_content"]
    stream: true
    "#);
}

#[test]
fn corrupted_stream_emits_calls_only_with_done() {
    let deltas = format!("{THOUGHT}{TEXT}{CALLS}");
    for stream in test_fixture::corrupted_streams(&format!("{deltas}\n{}", final_response(&deltas))) {
        test_fixture::assert_calls_only_with_done(
            ResponsesDecoder::new("p", &ModelRequest::default()),
            &stream,
        );
    }
}

#[test]
fn lost_delta_is_an_error_instead_of_a_jumbled_answer() {
    let frames = r#"
{"type":"response.output_text.delta","item_id":"m","output_index":0,"content_index":0,"delta":["one "]}
{"type":"response.output_text.delta","item_id":"m","output_index":0,"content_index":0,"delta":"two"}
{"type":"response.output_item.done","output_index":0,"item":{"type":"message","id":"m","content":[{"type":"output_text","text":"one two"}]}}"#;
    let decoded = decode(frames);
    assert!(decoded.contains("lacks a part of the complete text"), "{decoded}");
}

#[test]
fn annotations_are_citations() {
    let frames = r#"
{"type":"response.output_text.delta","item_id":"m","output_index":0,"content_index":0,"delta":"one"}
{"type":"response.output_text.annotation.added","item_id":"m","annotation":{"type":"url_citation","url":"https://a.test/","title":"A","start_index":0,"end_index":3}}
{"type":"response.output_item.done","output_index":0,"item":{"type":"message","id":"m","content":[{"type":"output_text","text":"one","annotations":[{"type":"url_citation","url":"https://a.test/","title":"A","start_index":0,"end_index":3},{"type":"file_citation","filename":"b.pdf","file_id":"f"}]}]}}
{"type":"response.completed","response":{"status":"completed"}}"#;
    let decoded = decode(frames);
    assert_eq!(
        decoded.lines().last(),
        Some(
            r#"{"citationMetadata":{"citations":[{"startIndex":0,"endIndex":3,"uri":"https://a.test/","title":"A"},{"title":"b.pdf"}]}}"#
        ),
        "{decoded}"
    );
}
