//! Lines as servers send them, and what is heard.

use super::*;
use crate::{MessagePart, ModelMessage, Role, ToolResult, fixture, ollama};
use insta::assert_snapshot;

fn heard(lines: &str) -> String {
    fixture::heard(OllamaDecoder::new("p", &ModelRequest::default()), lines)
}

const PIECES: &str = r#"
    {"model":"llama-x","message":{"role":"assistant","content":"","thinking":"Let me think."},"done":false}
    {"model":"llama-x","message":{"role":"assistant","content":"Grüß "},"done":false}
    {"model":"llama-x","message":{"role":"assistant","content":"dich 🌍"},"done":false}
    {"model":"llama-x","message":{"role":"assistant","content":"","tool_calls":[{"id":"call_A","function":{"index":0,"name":"get_weather","arguments":{"city":"Zürich"}}}]},"done":false}
    {"model":"llama-x","message":{"role":"assistant","content":"","tool_calls":[{"id":"call_B","function":{"index":0,"name":"get_weather","arguments":{"city":"Tōkyō"}}}]},"done":false}
"#;

const DONE: &str = r#"{"model":"llama-x","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","prompt_eval_count":100,"eval_count":20,"total_duration":1}"#;

#[test]
fn thoughts_and_text_come_at_once_and_calls_at_the_end() {
    assert_snapshot!(heard(&format!("{PIECES}{DONE}")), @r#"
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
fn the_last_line_may_hold_everything() {
    assert_snapshot!(heard(r#"{"message":{"content":"Hello","tool_calls":[{"function":{"name":"f"}},{"function":{"name":"f","arguments":"{\"n\":1}"}},{"function":{"name":"f","arguments":"oops"}}]},"done":true}"#), @r#"
    text "Hello"
    call "" f {}
    call "" f {"n":1}
    call "" f malformed "oops"
    done Stop ?
    "#);
    assert_snapshot!(heard(&DONE.replace("stop", "length")), @"
    usage in 100 cached 0 out 20 reasoning 0
    done Length llama-x
    ");
}

#[test]
fn an_answer_that_is_not_done_is_cut_off() {
    assert_snapshot!(heard(PIECES), @r#"
    thought "Let me think."
    text "Grüß "
    text "dich 🌍"
    error TRUNCATED: p ended the stream before the answer was complete
    "#);
    assert_snapshot!(heard(""), @"error TRUNCATED: p ended the stream before the answer was complete");
}

#[test]
fn an_error_in_the_stream_is_one_and_so_is_a_line_that_is_not_json() {
    let first = r#"{"message":{"content":"Hel"},"done":false}"#;
    assert_snapshot!(heard(&format!("{first}\n{}", r#"{"error":"llama runner process has terminated"}"#)), @r#"
    text "Hel"
    error TRANSIENT: p is temporarily unavailable: llama runner process has terminated
    "#);
    assert_snapshot!(heard(&format!("{first}\n{}\n{DONE}", r#"{"model":"ll"#)), @r#"
    text "Hel"
    error PROTOCOL: p sent a response that cannot be parsed: {"model":"ll
    "#);
}

#[test]
fn an_answer_goes_back_as_it_came() {
    let (events, outcome) =
        fixture::decoded(OllamaDecoder::new("p", &ModelRequest::default()), &format!("{PIECES}{DONE}"));
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
    let body = ollama::encode(&ModelRequest { messages, ..ModelRequest::default() }, true);
    assert_snapshot!(fixture::shape(&body), @r#"
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
fn whatever_becomes_of_a_stream_calls_leave_with_its_end_alone() {
    for stream in fixture::spoiled(&format!("{PIECES}{DONE}")) {
        fixture::assert_sound(OllamaDecoder::new("p", &ModelRequest::default()), &stream);
    }
}
