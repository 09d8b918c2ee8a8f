//! Rejections in the manner of real servers, and the part that each names.

use super::*;
use crate::{
    GenerationOptions, Media, MediaSource, ModelMessage, ReasoningEffort, Role, ToolChoice, ToolSpec,
};
use serde_json::json;

/// Messages in the manner of real servers: format, status, what is unsupported, and the message.
const PHRASINGS: &str = include_str!("phrasings.txt");

fn api(name: &str) -> WireApi {
    match name {
        "chat" => WireApi::Chat,
        "responses" => WireApi::Responses,
        "anthropic" => WireApi::Anthropic,
        "gemini" => WireApi::Gemini,
        "ollama" => WireApi::Ollama,
        other => panic!("{other}"),
    }
}

/// A request with an instruction, a tool, an image and all options.
fn request() -> ModelRequest {
    let image = Media {
        mime_type: "image/png".to_owned(),
        source: MediaSource::Base64("AAAA".to_owned()),
        name: Some("cat.png".to_owned()),
    };
    let tool = ToolSpec {
        name: "look".to_owned(),
        description: "Looks.".to_owned(),
        parameters: json!({"type": "object", "properties": {"temperature": {"type": "number"}}}),
    };
    let user = ModelMessage::new(Role::User, vec![image.into(), crate::MessagePart::text("What is it?")]);
    ModelRequest {
        model: "gemini-2.5-flash".to_owned(),
        messages: vec![ModelMessage::text(Role::System, "Be brief."), user],
        tools: vec![tool],
        options: GenerationOptions {
            temperature: Some(0.2),
            top_p: Some(0.9),
            max_output_tokens: Some(8000),
            stop: vec!["END".to_owned()],
            seed: Some(1),
            response_schema: Some(json!({"type": "object"})),
            reasoning: Some(ReasoningEffort::Low),
            tool_choice: Some(ToolChoice::Auto),
            ..GenerationOptions::default()
        },
        ..ModelRequest::default()
    }
}

fn refined(api: WireApi, request: &ModelRequest, message: &str) -> Option<Omission> {
    let error = Error::BadRequest { provider: "x".to_owned(), message: message.to_owned() };
    refine(api, "http://x", request, error).omission().cloned()
}

#[test]
fn unsupported_parts_are_recognized_by_shape() {
    for line in PHRASINGS.lines() {
        let [format, _, expected, message] = line.splitn(4, ' ').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let found = refined(api(format), &request(), message).map(|what| what.key());
        assert_eq!(found.as_deref(), Some(expected), "{line}");
    }
}

#[test]
fn omitted_part_is_not_in_the_next_body() {
    for line in PHRASINGS.lines() {
        let [format, _, expected, message] = line.splitn(4, ' ').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let what: Omission = expected.parse().unwrap();
        let without = ModelRequest { omitted: vec![what.clone()], ..request() };
        let (before, after) = (api(format).encode("", &request()), api(format).encode("", &without));
        assert_ne!(before, after, "{line}");
        assert_ne!(refined(api(format), &without, message).as_ref(), Some(&what), "{line}");
    }
}

#[test]
fn other_rejections_are_not_about_an_unsupported_part() {
    let others = [
        "Invalid value for 'temperature': must be at most 2",
        "temperature must be less than or equal to 2",
        "messages: at least one message is required",
        "Invalid schema for function 'look': 'additionalProperties' is not supported",
        "tools[0].function.parameters: unknown keyword",
        "Unknown name \"additionalProperties\" at 'tools[0].function_declarations[0].parameters': Cannot find field.",
        "You uploaded an unsupported image. Please make sure your image has one of the following formats: png, jpeg.",
        "image exceeds 5 MB maximum",
        "unknown parameter: 'frobnicate'",
        "This model only supports single tool-calls at once!",
        "your credit card is not accepted",
        "model 'x' is not supported",
        "The stop button was pressed; unknown reason",
    ];
    for message in others {
        assert_eq!(refined(WireApi::Chat, &request(), message), None, "{message}");
    }
}

#[test]
fn only_parts_of_this_request_are_found() {
    let bare =
        ModelRequest { messages: vec![ModelMessage::text(Role::User, "Hi")], ..ModelRequest::default() };
    for message in
        ["this model does not support tools", "'temperature' is not supported", "images are not supported"]
    {
        assert_eq!(refined(WireApi::Chat, &bare, message), None, "{message}");
    }
}

#[test]
fn other_kinds_of_errors_are_unchanged() {
    let error = Error::Auth { provider: "x".to_owned(), message: "temperature is not supported".to_owned() };
    assert_eq!(refine(WireApi::Chat, "", &request(), error).code(), "AUTH");
}
