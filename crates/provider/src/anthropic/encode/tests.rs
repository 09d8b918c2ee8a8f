//! Encoding of a conversation with every kind of part.

use super::*;
use crate::{GenerationOptions, ReasoningEffort, test_fixture};
use insta::assert_snapshot;

#[test]
fn conversation_is_encoded_as_documented() {
    assert_snapshot!(test_fixture::shape(&encode(&test_fixture::request(), true)), @r#"
    model: "m"
    max_tokens: 100
    system: [{"type":"text","text":"Be kind.","cache_control":{"type":"ephemeral"}}]
    user
      {"type":"text","text":"Paris and Oslo?"}
      {"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}
      {"type":"text","text":"[s.xls (application/vnd.ms-excel) at gs://b/s.xls, not shown]"}
    assistant
      {"type":"thinking","thinking":"hmm","signature":"sig-1"}
      {"type":"thinking","thinking":"","signature":"sig-2"}
      {"type":"text","text":"Let me look."}
      {"type":"tool_use","id":"call_0","name":"get_weather","input":{"city":"Paris"}}
      {"type":"tool_use","id":"call_1","name":"get_weather","input":{"city":"Oslo"}}
    user
      {"type":"tool_result","tool_use_id":"call_0","content":"{\"error\":\"no data\"}","is_error":true}
      {"type":"tool_result","tool_use_id":"call_1","content":"rain","cache_control":{"type":"ephemeral"}}
    assistant
      {"type":"tool_use","id":"call_0_2","name":"get_weather","input":{"city":"Paris"}}
    user
      {"type":"tool_result","tool_use_id":"call_0_2","content":"{\"sky\":\"blue\"}"}
      {"type":"text","text":"And then?"}
      {"type":"text","text":"(no text)","cache_control":{"type":"ephemeral"}}
    tools: [{"name":"get_weather","description":"Weather of a city","input_schema":{"type":"object","properties":{"city":{"type":"string","format":"city"}},"required":["city"],"additionalProperties":false},"cache_control":{"type":"ephemeral"}}]
    temperature: 1.0
    stop_sequences: ["END"]
    stream: true
    "#);
}

#[test]
fn empty_request_is_encoded_with_a_placeholder_message() {
    assert_snapshot!(encode(&ModelRequest::default(), false), @r#"{"model":"","max_tokens":8192,"messages":[{"role":"user","content":[{"type":"text","text":"(no text)","cache_control":{"type":"ephemeral"}}]}]}"#);
}

/// The positions of the cache breakpoints.
fn cache_breakpoints(body: &Value) -> Vec<String> {
    let mut breakpoints = Vec::new();
    for (at, message) in body["messages"].as_array().into_iter().flatten().enumerate() {
        let blocks = message["content"].as_array().into_iter().flatten().enumerate();
        let marked = blocks.filter(|(_, block)| block.get("cache_control").is_some());
        breakpoints.extend(marked.map(|(block, _)| format!("{at}.{block}")));
    }
    breakpoints
}

#[test]
fn cache_breakpoint_is_set_where_the_previous_request_ended() {
    let ends = [2, 4, 6].map(|messages| {
        let mut request = test_fixture::request();
        request.messages.truncate(messages);
        cache_breakpoints(&encode(&request, true)).join(" ")
    });
    assert_eq!(ends, ["0.2", "0.2 2.1", "2.1 4.0"]);
}

#[test]
fn thinking_stays_off_after_calls_without_thinking() {
    let thinks = |messages: usize, thought: bool| {
        let mut request = test_fixture::request();
        request.model = "claude-sonnet-4-5".to_owned();
        request.options =
            GenerationOptions { reasoning: Some(ReasoningEffort::Low), ..GenerationOptions::default() };
        request.messages.truncate(messages);
        if !thought {
            request.messages[2].parts.drain(..2);
        }
        encode(&request, true).get("thinking").is_some()
    };
    assert!(thinks(4, true), "the calls began with thinking");
    assert!(thinks(6, true), "the turn began with thinking, its second calls did not");
    assert!(!thinks(4, false) && !thinks(6, false), "the calls began without thinking");
    assert!(thinks(2, true), "there are no calls");
}
