//! One conversation with everything in it, as it leaves.

use super::*;
use crate::fixture;
use insta::assert_snapshot;

#[test]
fn a_conversation_leaves_as_the_provider_documents_it() {
    assert_snapshot!(fixture::shape(&encode(&fixture::request(), true)), @r#"
    model: "m"
    max_tokens: 100
    system: [{"type":"text","text":"Be kind.","cache_control":{"type":"ephemeral"}}]
    user
      {"type":"text","text":"Paris and Oslo?"}
      {"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}
      {"type":"text","text":"[s.xls (application/vnd.ms-excel) at gs://b/s.xls, not shown]"}
    assistant
      {"type":"thinking","thinking":"hmm","signature":"sig-1"}
      {"type":"redacted_thinking","data":"sig-2"}
      {"type":"text","text":"Let me look."}
      {"type":"tool_use","id":"call_0","name":"get_weather","input":{"city":"Paris"}}
      {"type":"tool_use","id":"call_1","name":"get_weather","input":{"city":"Oslo"}}
    user
      {"type":"tool_result","tool_use_id":"call_0","content":"{\"error\":\"no data\"}","is_error":true}
      {"type":"tool_result","tool_use_id":"call_1","content":"rain"}
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
fn a_request_without_words_is_still_one() {
    assert_snapshot!(encode(&Request::default(), false), @r#"{"model":"","max_tokens":8192,"messages":[{"role":"user","content":[{"type":"text","text":"(no text)","cache_control":{"type":"ephemeral"}}]}]}"#);
}
