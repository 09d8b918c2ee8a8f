//! A request without an omitted part is valid in every wire format.

use super::*;
use crate::{Media, MediaSource, ModelMessage, ToolCall, ToolResult, ToolSpec, WireApi};
use serde_json::{Value, json};

const APIS: [WireApi; 5] =
    [WireApi::Chat, WireApi::Responses, WireApi::Anthropic, WireApi::Gemini, WireApi::Ollama];

#[test]
fn keys_are_read_again() {
    for omission in [
        Omission::Tools,
        Omission::SystemRole,
        Omission::Media(MediaKind::Document),
        Omission::Field("generationConfig.topK".to_owned()),
    ] {
        assert_eq!(omission.key().parse::<Omission>().unwrap(), omission);
    }
    for other in ["", "field.", "media.smells", "tool", "x.y"] {
        assert!(other.parse::<Omission>().is_err(), "{other}");
    }
}

/// A conversation with a call, its result and an image.
fn conversation(omitted: Vec<Omission>) -> ModelRequest {
    let call = ToolCall { id: "1".to_owned(), name: "look".to_owned(), ..ToolCall::default() };
    let result =
        ToolResult { id: "1".to_owned(), name: "look".to_owned(), response: json!({"sky": "clear"}) };
    let image = Media {
        mime_type: "image/png".to_owned(),
        source: MediaSource::Base64("AAAA".to_owned()),
        name: Some("cat.png".to_owned()),
    };
    let parameters = json!({"type": "object"});
    ModelRequest {
        model: "m".to_owned(),
        messages: vec![
            ModelMessage::text(Role::System, "Be brief."),
            ModelMessage::new(Role::User, vec![MessagePart::text("Hi"), image.into()]),
            ModelMessage::new(Role::Assistant, vec![call.into()]),
            ModelMessage::new(Role::Tool, vec![result.into()]),
        ],
        tools: vec![ToolSpec { name: "look".to_owned(), description: "Looks.".to_owned(), parameters }],
        omitted,
        ..ModelRequest::default()
    }
}

#[test]
fn without_tool_use_calls_and_results_are_text() {
    for api in APIS {
        let body = api.encode("", &conversation(vec![Omission::Tools]));
        let text = body.to_string();
        assert!(body.get("tools").is_none(), "{api:?}: {text}");
        assert!(
            text.contains("[called look with {}]") && text.contains("[result of look: "),
            "{api:?}: {text}"
        );
        for word in ["tool_calls", "tool_use", "functionCall", "function_call", "tool_result", "\"tool\""] {
            assert!(!text.contains(word), "{api:?}: {text}");
        }
    }
}

#[test]
fn without_images_their_names_are_text() {
    for api in APIS {
        let text = api.encode("", &conversation(vec![Omission::Media(MediaKind::Image)])).to_string();
        assert!(
            text.contains("[cat.png (image/png), not shown]") && !text.contains("AAAA"),
            "{api:?}: {text}"
        );
    }
}

#[test]
fn without_the_system_role_the_instruction_is_a_user_message() {
    for api in APIS {
        let body = api.encode("", &conversation(vec![Omission::SystemRole]));
        let text = body.to_string();
        let places = ["system", "instructions", "systemInstruction"].map(|place| body.get(place));
        assert!(places.iter().all(Option::is_none) && !text.contains("\"system\""), "{api:?}: {text}");
        assert!(text.contains("Be brief."), "{api:?}: {text}");
    }
}

#[test]
fn without_a_schema_field_the_schema_is_an_instruction() {
    for api in APIS {
        for field in FieldRules::of(api).schema {
            let mut request = conversation(vec![Omission::Field((*field).to_owned())]);
            request.tools.clear();
            request.options.response_schema = Some(json!({"type": "object", "properties": {}}));
            let body = api.encode("", &request);
            assert!(body.to_string().contains("fits this JSON Schema"), "{api:?}: {body}");
            let pointer = format!("/{}", field.replace('.', "/"));
            assert_eq!(body.pointer(&pointer), None, "{api:?}");
        }
    }
}

#[test]
fn sampling_settings_are_sent_or_listed_as_unsupported() {
    let mut request = conversation(Vec::new());
    request.options.top_k = Some(40);
    request.options.presence_penalty = Some(9.0);
    request.options.frequency_penalty = Some(-0.5);
    request.options.safety_settings = Some(json!([]));
    let lines: Vec<String> = APIS
        .iter()
        .map(|api| {
            let body = api.encode("", &request);
            let groups = ["", "/generationConfig", "/options"].iter().filter_map(|group| body.pointer(group));
            let fields = groups.flat_map(|group| group.as_object().into_iter().flatten());
            let wanted = |name: &str| {
                ["top", "presence", "frequency", "safety"].iter().any(|start| name.starts_with(start))
            };
            let sent: Vec<String> = fields
                .filter(|(name, _)| wanted(name))
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            format!("{api:?}: {} | not {:?}", sent.join(" "), api.unsupported_options(&request))
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    Chat: top_k=40 presence_penalty=2.0 frequency_penalty=-0.5 | not ["safety_settings"]
    Responses:  | not ["top_k", "presence_penalty", "frequency_penalty", "safety_settings"]
    Anthropic: top_k=40 | not ["presence_penalty", "frequency_penalty", "safety_settings"]
    Gemini: safetySettings=[] topK=40 presencePenalty=2.0 frequencyPenalty=-0.5 | not []
    Ollama: top_k=40 presence_penalty=2.0 frequency_penalty=-0.5 | not ["safety_settings"]
    "#);
}

#[test]
fn a_group_without_fields_is_removed() {
    let mut request = conversation(vec![Omission::Field("options.seed".to_owned())]);
    request.options.seed = Some(1);
    assert_eq!(WireApi::Ollama.encode("", &request).get("options"), None::<&Value>);
    request.options.temperature = Some(0.5);
    assert_eq!(WireApi::Ollama.encode("", &request)["options"], json!({"temperature": 0.5}));
}
