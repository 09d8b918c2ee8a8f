//! Encoding of a conversation with every kind of part.

use super::*;
use crate::{ReasoningEffort, test_fixture};
use insta::assert_snapshot;

#[test]
fn conversation_is_encoded_as_documented() {
    assert_snapshot!(test_fixture::shape(&encode(&test_fixture::request(), true)), @r#"
    model: "m"
    store: false
    instructions: "Be kind."
    user {"type":"message"}
      {"type":"input_text","text":"Paris and Oslo?"}
      {"type":"input_image","detail":"auto","image_url":"data:image/png;base64,AAAA"}
      {"type":"input_text","text":"[s.xls (application/vnd.ms-excel) at gs://b/s.xls, not shown]"}
    assistant {"type":"message"}
      {"type":"output_text","text":"Let me look."}
    function_call {"type":"function_call","call_id":"call_0","name":"get_weather","arguments":"{\"city\":\"Paris\"}"}
    function_call {"type":"function_call","call_id":"call_1","name":"get_weather","arguments":"{\"city\":\"Oslo\"}"}
    function_call_output {"type":"function_call_output","call_id":"call_0","output":"{\"error\":\"no data\"}"}
    function_call_output {"type":"function_call_output","call_id":"call_1","output":"rain"}
    function_call {"type":"function_call","call_id":"call_0_2","name":"get_weather","arguments":"{\"city\":\"Paris\"}"}
    function_call_output {"type":"function_call_output","call_id":"call_0_2","output":"{\"sky\":\"blue\"}"}
    user {"type":"message"}
      {"type":"input_text","text":"And then?"}
    user {"type":"message"}
      {"type":"input_text","text":" "}
    include: ["reasoning.encrypted_content"]
    tools: [{"type":"function","name":"get_weather","description":"Weather of a city","strict":false,"parameters":{"type":"object","properties":{"city":{"type":"string","format":"city"}},"required":["city"],"additionalProperties":false}}]
    temperature: 1.5
    top_p: 0.9
    max_output_tokens: 100
    stream: true
    "#);
}

#[test]
fn options_are_encoded_and_unsupported_ones_listed() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]});
    let options = GenerationOptions {
        max_output_tokens: Some(3),
        reasoning: Some(ReasoningEffort::Tokens(5000)),
        tool_choice: Some(ToolChoice::Named("get_weather".to_owned())),
        response_schema: Some(schema.clone()),
        ..test_fixture::request().options
    };
    let encoded = |options: GenerationOptions| {
        let body = encode(&ModelRequest { messages: Vec::new(), options, ..test_fixture::request() }, false);
        test_fixture::shape(&body)
    };
    assert_eq!(unsupported_options(&options), ["stop", "seed"]);
    assert_snapshot!(encoded(options), @r#"
    model: "m"
    store: false
    user {"type":"message"}
      {"type":"input_text","text":"(no text)"}
    include: ["reasoning.encrypted_content"]
    tools: [{"type":"function","name":"get_weather","description":"Weather of a city","strict":false,"parameters":{"type":"object","properties":{"city":{"type":"string","format":"city"}},"required":["city"],"additionalProperties":false}}]
    tool_choice: {"type":"function","name":"get_weather"}
    reasoning: {"effort":"medium","summary":"auto"}
    text: {"format":{"type":"json_schema","name":"answer","strict":true,"schema":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],"additionalProperties":false}}}
    temperature: 1.5
    top_p: 0.9
    max_output_tokens: 16
    "#);
    let options = GenerationOptions {
        reasoning: Some(ReasoningEffort::Off),
        tool_choice: Some(ToolChoice::Named("unheard of".to_owned())),
        response_schema: Some(json!({"type": "array"})),
        ..GenerationOptions::default()
    };
    assert_eq!(unsupported_options(&options), Vec::<&str>::new());
    assert_snapshot!(encoded(options), @r#"
    model: "m"
    store: false
    instructions: "Answer with one JSON value that fits this JSON Schema, and with nothing else: {\"type\":\"array\"}"
    user {"type":"message"}
      {"type":"input_text","text":"(no text)"}
    include: ["reasoning.encrypted_content"]
    tools: [{"type":"function","name":"get_weather","description":"Weather of a city","strict":false,"parameters":{"type":"object","properties":{"city":{"type":"string","format":"city"}},"required":["city"],"additionalProperties":false}}]
    reasoning: {"effort":"none"}
    "#);
}

#[test]
fn incomplete_repeated_or_trailing_reasoning_is_omitted() {
    let opaque = |id: &str, encrypted: &str| {
        let item = OpaqueReasoning {
            id: id.to_owned(),
            summary: Vec::new(),
            encrypted_content: encrypted.to_owned(),
        };
        MessagePart::Thought { text: "hm".into(), signature: item.to_signature() }
    };
    let foreign = MessagePart::Thought { text: "hm".into(), signature: Some("c2lnbmF0dXJl".to_owned()) };
    let messages = vec![
        ModelMessage::new(
            Role::Assistant,
            vec![opaque("a", "1"), foreign, MessagePart::text("so"), opaque("b", "2")],
        ),
        ModelMessage::new(
            Role::Assistant,
            vec![opaque("a", "1"), opaque("c", ""), MessagePart::text("and so")],
        ),
        ModelMessage::new(Role::Assistant, vec![opaque("b", "2")]),
    ];
    assert_snapshot!(test_fixture::shape(&encode(&ModelRequest { messages, ..ModelRequest::default() }, false)), @r#"
    model: ""
    store: false
    reasoning {"type":"reasoning","id":"a","encrypted_content":"1"}
    assistant {"type":"message"}
      {"type":"output_text","text":"so"}
    assistant {"type":"message"}
      {"type":"output_text","text":"and so"}
    include: ["reasoning.encrypted_content"]
    "#);
}

#[test]
fn encrypted_reasoning_is_requested_only_from_reasoning_models() {
    let includes = |model: &str| {
        encode(&ModelRequest { model: model.to_owned(), ..ModelRequest::default() }, false)
            .get("include")
            .is_some()
    };
    assert!(includes("gpt-5.1") && includes("o3") && includes("openai/gpt-oss-20b") && includes(""));
    assert!(!includes("gpt-4o-mini") && !includes("openai/gpt-4.1"));
}
