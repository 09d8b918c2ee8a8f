//! Lines as servers send them, and the events that they decode to.

use super::*;
use crate::{MessagePart, ModelMessage, Role, ToolResult, ollama, test_fixture};
use insta::assert_snapshot;

fn decode(lines: &str) -> String {
    test_fixture::describe_stream(OllamaDecoder::new("p", &ModelRequest::default()), lines)
}

const CHUNKS: &str = r#"
    {"model":"llama-x","message":{"role":"assistant","content":"","thinking":"Let me think."},"done":false}
    {"model":"llama-x","message":{"role":"assistant","content":"Grüß "},"done":false}
    {"model":"llama-x","message":{"role":"assistant","content":"dich 🌍"},"done":false}
    {"model":"llama-x","message":{"role":"assistant","content":"","tool_calls":[{"id":"call_A","function":{"index":0,"name":"get_weather","arguments":{"city":"Zürich"}}}]},"done":false}
    {"model":"llama-x","message":{"role":"assistant","content":"","tool_calls":[{"id":"call_B","function":{"index":0,"name":"get_weather","arguments":{"city":"Tōkyō"}}}]},"done":false}
"#;

const DONE: &str = r#"{"model":"llama-x","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","prompt_eval_count":100,"eval_count":20,"total_duration":1}"#;

#[test]
fn text_is_streamed_and_calls_are_emitted_at_the_end() {
    assert_snapshot!(decode(&format!("{CHUNKS}{DONE}")), @r#"
    thought "Let me think."
    text "Grüß "
    text "dich 🌍"
    call "call_A" get_weather {"city":"Zürich"}
    call "call_B" get_weather {"city":"Tōkyō"}
    usage in 100 cached 0 out 20 reasoning 0
    done Stop llama-x
    "#);
}

#[test]
fn last_line_may_contain_the_whole_response() {
    assert_snapshot!(decode(r#"{"message":{"content":"Hello","tool_calls":[{"function":{"name":"f"}},{"function":{"name":"f","arguments":"{\"n\":1}"}},{"function":{"name":"f","arguments":"oops"}}]},"done":true}"#), @r#"
    text "Hello"
    call "" f {}
    call "" f {"n":1}
    call "" f malformed "oops"
    done Stop ?
    "#);
    assert_snapshot!(decode(&DONE.replace("stop", "length")), @"
    usage in 100 cached 0 out 20 reasoning 0
    done Length llama-x
    ");
}

#[test]
fn response_without_done_is_truncated() {
    assert_snapshot!(decode(CHUNKS), @r#"
    thought "Let me think."
    text "Grüß "
    text "dich 🌍"
    error TRUNCATED: p ended the stream before the answer was complete
    "#);
    assert_snapshot!(decode(""), @"error TRUNCATED: p ended the stream before the answer was complete");
}

#[test]
fn error_object_and_invalid_json_end_the_stream() {
    let first = r#"{"message":{"content":"Hel"},"done":false}"#;
    assert_snapshot!(decode(&format!("{first}\n{}", r#"{"error":"llama runner process has terminated"}"#)), @r#"
    text "Hel"
    error TRANSIENT: p is temporarily unavailable: llama runner process has terminated
    "#);
    assert_snapshot!(decode(&format!("{first}\n{}\n{DONE}", r#"{"model":"ll"#)), @r#"
    text "Hel"
    error PROTOCOL: p sent a response that cannot be parsed: {"model":"ll
    "#);
}

#[test]
fn decoded_answer_encodes_to_the_same_parts() {
    let (events, outcome) = test_fixture::decode_stream(
        OllamaDecoder::new("p", &ModelRequest::default()),
        &format!("{CHUNKS}{DONE}"),
    );
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
    let body = ollama::encode(&ModelRequest { messages, ..ModelRequest::default() }, true);
    assert_snapshot!(test_fixture::shape(&body), @r#"
    model: ""
    user {"content":"Weather?"}
    assistant {"content":"Grüß dich 🌍","thinking":"Let me think."}
      {"id":"call_A","function":{"name":"get_weather","arguments":{"city":"Zürich"}}}
      {"id":"call_B","function":{"name":"get_weather","arguments":{"city":"Tōkyō"}}}
    tool {"tool_name":"get_weather","tool_call_id":"call_A","content":"rain"}
    tool {"tool_name":"get_weather","tool_call_id":"call_B","content":"rain"}
    stream: true
    "#);
}

#[test]
fn corrupted_stream_emits_calls_only_with_done() {
    for stream in test_fixture::corrupted_streams(&format!("{CHUNKS}{DONE}")) {
        test_fixture::assert_calls_only_with_done(OllamaDecoder::new("p", &ModelRequest::default()), &stream);
    }
}

#[test]
fn number_other_than_one_does_not_end_the_answer() {
    let lines = r#"
    {"message":{"content":"a"},"done":7}
    {"message":{"content":"b"},"done":1}"#;
    assert_snapshot!(decode(lines), @r#"
    text "a"
    text "b"
    done Stop ?
    "#);
}
