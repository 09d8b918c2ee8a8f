//! Encoding of a conversation with every kind of part.

use super::*;
use crate::test_fixture;
use insta::assert_snapshot;

#[test]
fn conversation_is_encoded_as_documented() {
    assert_snapshot!(test_fixture::shape(&encode(&test_fixture::request(), true)), @r#"
    systemInstruction: {"parts":[{"text":"Be kind."}]}
    user
      {"text":"Paris and Oslo?"}
      {"inlineData":{"mimeType":"image/png","data":"AAAA"}}
      {"text":"[s.xls (application/vnd.ms-excel) at gs://b/s.xls, not shown]"}
    model
      {"text":"hmm","thought":true,"thoughtSignature":"sig-1"}
      {"text":"","thought":true,"thoughtSignature":"sig-2"}
      {"text":"Let me look."}
      {"functionCall":{"id":"call_0","name":"get_weather","args":{"city":"Paris"}},"thoughtSignature":"sig-3"}
      {"functionCall":{"id":"call_1","name":"get_weather","args":{"city":"Oslo"}}}
    user
      {"functionResponse":{"id":"call_0","name":"get_weather","response":{"error":"no data"}}}
      {"functionResponse":{"id":"call_1","name":"get_weather","response":{"result":"rain"}}}
    model
      {"functionCall":{"id":"call_0_2","name":"get_weather","args":{"city":"Paris"}}}
    user
      {"functionResponse":{"id":"call_0_2","name":"get_weather","response":{"sky":"blue"}}}
    user
      {"text":"And then?"}
      {"text":" "}
    tools: [{"functionDeclarations":[{"name":"get_weather","description":"Weather of a city","parameters":{"type":"object","properties":{"city":{"type":"string","description":"format: \"city\"."}},"required":["city"]}}]}]
    generationConfig: {"temperature":1.5,"topP":0.9,"maxOutputTokens":100,"stopSequences":["END"],"seed":7}
    "#);
}

#[test]
fn empty_request_is_encoded_with_a_placeholder_message() {
    assert_snapshot!(encode(&ModelRequest::default(), false), @r#"{"contents":[{"role":"user","parts":[{"text":"(no text)"}]}]}"#);
}
