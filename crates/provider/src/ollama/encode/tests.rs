//! Encoding of a conversation with every kind of part.

use super::*;
use crate::test_fixture;
use insta::assert_snapshot;

#[test]
fn conversation_is_encoded_as_documented() {
    assert_snapshot!(test_fixture::shape(&encode(&test_fixture::request(), true)), @r#"
    model: "m"
    system {"content":"Be kind."}
    user {"content":"Paris and Oslo?\n[s.xls (application/vnd.ms-excel) at gs://b/s.xls, not shown]"}
      "AAAA"
    assistant {"content":"Let me look.","thinking":"hmm"}
      {"id":"call_0","function":{"name":"get_weather","arguments":{"city":"Paris"}}}
      {"id":"call_1","function":{"name":"get_weather","arguments":{"city":"Oslo"}}}
    tool {"tool_name":"get_weather","tool_call_id":"call_0","content":"{\"error\":\"no data\"}"}
    tool {"tool_name":"get_weather","tool_call_id":"call_1","content":"rain"}
    assistant {"content":""}
      {"id":"call_0_2","function":{"name":"get_weather","arguments":{"city":"Paris"}}}
    tool {"tool_name":"get_weather","tool_call_id":"call_0_2","content":"{\"sky\":\"blue\"}"}
    user {"content":"And then?"}
    user {"content":" "}
    tools: [{"type":"function","function":{"name":"get_weather","description":"Weather of a city","parameters":{"type":"object","properties":{"city":{"type":"string","description":"format: \"city\"."}},"required":["city"]}}}]
    options: {"temperature":1.5,"top_p":0.9,"num_predict":100,"stop":["END"],"seed":7}
    stream: true
    "#);
}

#[test]
fn options_are_encoded_and_unsupported_ones_listed() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}});
    let encoded = |options: GenerationOptions| {
        let body = encode(&ModelRequest { messages: Vec::new(), options, ..test_fixture::request() }, false);
        test_fixture::shape(&body)
    };
    let options = GenerationOptions {
        reasoning: Some(ReasoningEffort::High),
        tool_choice: Some(ToolChoice::None),
        response_schema: Some(schema.clone()),
        ..GenerationOptions::default()
    };
    assert_eq!(unsupported_options(&options), Vec::<&str>::new());
    assert_snapshot!(encoded(options), @r#"
    model: "m"
    user {"content":"(no text)"}
    format: {"type":"object","properties":{"a":{"type":"integer"}}}
    think: "high"
    stream: false
    "#);
    let options = GenerationOptions {
        reasoning: Some(ReasoningEffort::Off),
        tool_choice: Some(ToolChoice::Required),
        response_schema: Some(schema),
        ..GenerationOptions::default()
    };
    assert_eq!(unsupported_options(&options), ["tool_choice"]);
    assert_snapshot!(encoded(options), @r#"
    model: "m"
    system {"content":"Answer with one JSON value that fits this JSON Schema, and with nothing else: {\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}}}"}
    tools: [{"type":"function","function":{"name":"get_weather","description":"Weather of a city","parameters":{"type":"object","properties":{"city":{"type":"string","description":"format: \"city\"."}},"required":["city"]}}}]
    think: false
    stream: false
    "#);
}
