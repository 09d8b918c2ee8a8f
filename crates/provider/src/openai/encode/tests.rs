//! Encoding of a conversation with every kind of part.

use super::*;
use crate::test_fixture;
use insta::assert_snapshot;

#[test]
fn conversation_is_encoded_as_documented() {
    assert_snapshot!(test_fixture::shape(&encode(&test_fixture::request(), true)), @r#"
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
fn empty_request_is_encoded_with_a_placeholder_message() {
    assert_snapshot!(encode(&ModelRequest::default(), false), @r#"{"model":"","messages":[{"role":"user","content":"(no text)"}]}"#);
}

#[test]
fn options_are_encoded_per_dialect() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]});
    let tool = ToolSpec { name: "a.b".to_owned(), description: String::new(), parameters: schema.clone() };
    let encoded = |dialect: &Dialect, schema: &Value, choice: &str| {
        let options = GenerationOptions {
            max_output_tokens: Some(9),
            reasoning: Some(ReasoningEffort::High),
            tool_choice: Some(ToolChoice::Named(choice.to_owned())),
            response_schema: Some(schema.clone()),
            ..GenerationOptions::default()
        };
        let request = ModelRequest { tools: vec![tool.clone()], options, ..ModelRequest::default() };
        test_fixture::shape(&encode_for(&request, false, dialect))
    };
    assert_snapshot!(encoded(&Dialect::OPENAI, &schema, "a.b"), @r#"
    model: ""
    user {"content":"(no text)"}
    tools: [{"type":"function","function":{"name":"a_b","description":"","parameters":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],"additionalProperties":false},"strict":true}}]
    tool_choice: {"type":"function","function":{"name":"a_b"}}
    max_completion_tokens: 9
    reasoning_effort: "high"
    response_format: {"type":"json_schema","json_schema":{"name":"answer","schema":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],"additionalProperties":false},"strict":true}}
    "#);
    assert_snapshot!(encoded(&Dialect::OPENAI, &json!({"type": "array"}), "unheard of"), @r#"
    model: ""
    system {"content":"Answer with one JSON value that fits this JSON Schema, and with nothing else: {\"type\":\"array\"}"}
    tools: [{"type":"function","function":{"name":"a_b","description":"","parameters":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],"additionalProperties":false},"strict":true}}]
    max_completion_tokens: 9
    reasoning_effort: "high"
    "#);
    assert_snapshot!(encoded(&Dialect::COMPATIBLE, &json!({"type": "array"}), "a.b"), @r#"
    model: ""
    user {"content":"(no text)"}
    tools: [{"type":"function","function":{"name":"a_b","description":"","parameters":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}}}]
    tool_choice: {"type":"function","function":{"name":"a_b"}}
    max_tokens: 9
    reasoning_effort: "high"
    response_format: {"type":"json_schema","json_schema":{"name":"answer","schema":{"type":"array"}}}
    "#);
}

#[test]
fn more_than_four_stop_sequences_are_unsupported() {
    let stopping = |stops: usize| GenerationOptions {
        stop: vec!["END".to_owned(); stops],
        ..GenerationOptions::default()
    };
    assert_eq!(unsupported_options(&stopping(4)), Vec::<&str>::new());
    assert_eq!(unsupported_options(&stopping(5)), ["stop"]);
}

#[test]
fn reasoning_is_sent_back_only_in_the_current_turn() {
    let deepseek = Dialect { echo: ReasoningEcho::Reasoning, ..Dialect::COMPATIBLE };
    let mut request = test_fixture::request();
    let echoed = |request: &ModelRequest| {
        encode_for(request, false, &deepseek).to_string().contains("reasoning_content")
    };
    assert!(!echoed(&request), "a user message follows the reasoning");
    request.messages.truncate(4);
    assert!(echoed(&request));
    assert!(!encode(&request, false).to_string().contains("reasoning_content"));
}
