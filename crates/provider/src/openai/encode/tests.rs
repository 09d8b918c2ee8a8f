//! One conversation with everything in it, as it leaves.

use super::*;
use crate::fixture;
use insta::assert_snapshot;

#[test]
fn a_conversation_leaves_as_the_provider_documents_it() {
    assert_snapshot!(fixture::shape(&encode(&fixture::request(), true)), @r#"
    model: "m"
    system {"content":"Be kind."}
    user
      {"type":"text","text":"Paris and Oslo?"}
      {"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}
      {"type":"text","text":"[s.xls (application/vnd.ms-excel) at gs://b/s.xls, not shown]"}
    assistant {"content":"Let me look."}
      {"id":"call_0","type":"function","function":{"name":"get_weather","arguments":"{\"city\":\"Paris\"}"}}
      {"id":"call_1","type":"function","function":{"name":"get_weather","arguments":"{\"city\":\"Oslo\"}"}}
    tool {"tool_call_id":"call_0","content":"{\"error\":\"no data\"}"}
    tool {"tool_call_id":"call_1","content":"rain"}
    assistant {"content":null}
      {"id":"call_0_2","type":"function","function":{"name":"get_weather","arguments":"{\"city\":\"Paris\"}"}}
    tool {"tool_call_id":"call_0_2","content":"{\"sky\":\"blue\"}"}
    user {"content":"And then?"}
    user {"content":" "}
    tools: [{"type":"function","function":{"name":"get_weather","description":"Weather of a city","parameters":{"type":"object","properties":{"city":{"type":"string","format":"city"}},"required":["city"],"additionalProperties":false}}}]
    temperature: 1.5
    top_p: 0.9
    max_completion_tokens: 100
    stop: ["END"]
    seed: 7
    stream: true
    stream_options: {"include_usage":true}
    "#);
}

#[test]
fn a_request_without_words_is_still_one() {
    assert_snapshot!(encode(&Request::default(), false), @r#"{"model":"","messages":[{"role":"user","content":"(no text)"}]}"#);
}
