//! Converts ADK contents to provider messages.

use crate::view::ids::CallIds;
use adk::{
    content::{Content, Data, Part as AdkPart},
    model::{ContentRef, FunctionDeclaration, GenerateContentConfig},
};
use provider::{
    Media, MediaSource, MessagePart, ModelId, ModelMessage, Role, ToolCall, ToolResult, ToolSpec,
};
use serde_json::Value;

/// The system message, if the request has an instruction: all its texts joined, before all other messages (spec D).
pub fn system(config: &GenerateContentConfig) -> Option<ModelMessage> {
    let texts =
        config.system_instruction.iter().flat_map(|content| &content.parts).filter_map(AdkPart::as_text);
    let joined = texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n");
    (!joined.is_empty()).then(|| ModelMessage::text(Role::System, joined))
}

/// Converts contents to messages for `target`. Reasoning and signatures of other models are dropped: they are opaque
/// to this one.
pub fn convert<'a>(
    contents: impl IntoIterator<Item = &'a ContentRef>,
    target: &ModelId,
) -> Vec<ModelMessage> {
    let contents = contents.into_iter();
    let mut messages = Vec::with_capacity(contents.size_hint().0);
    for content in contents {
        convert_one(content, is_note(content), target, &mut messages);
    }
    messages
}

/// The messages of one content that is not a note.
#[cfg(test)]
pub(crate) fn convert_content(content: &Content, target: &ModelId) -> Vec<ModelMessage> {
    let mut messages = Vec::new();
    convert_one(content, false, target, &mut messages);
    messages
}

/// Whether the program wrote the content in the user's place.
fn is_note(content: &ContentRef) -> bool {
    match content {
        ContentRef::Event(event) => event.is_correction(),
        ContentRef::Note(..) => true,
        ContentRef::Owned(_) => false,
    }
}

/// A content becomes one message per run of parts with the same role.
fn convert_one(content: &Content, is_note: bool, target: &ModelId, messages: &mut Vec<ModelMessage>) {
    let origin = content.origin.as_ref();
    let ours =
        origin.is_some_and(|origin| origin.provider == target.provider && origin.model == target.model);
    let speaker = match content.role.as_deref() {
        Some("model" | "assistant") => Role::Assistant,
        Some(_) | None => Role::User,
    };
    let mut ids = None;
    let before = messages.len();
    for part in content.parts.iter().filter_map(|part| convert_part(part, (ours, is_note), &mut ids)) {
        let role = if matches!(part, MessagePart::Result(_)) { Role::Tool } else { speaker };
        match messages[before..].last_mut() {
            Some(last) if last.role == role => push(&mut last.parts, part),
            Some(_) | None => messages.push(ModelMessage::new(role, vec![part])),
        }
    }
}

/// Appends a part. The texts of a note are joined to its opening in one part, so that a quote stays with the sentence
/// that marks it as one.
fn push(parts: &mut Vec<MessagePart>, part: MessagePart) {
    match (&mut parts[..], part) {
        ([MessagePart::Text { text: opening, note: true, .. }], MessagePart::Text { text, .. }) => {
            opening.push_str("\n");
            opening.push_str(&text);
        }
        (_, part) => parts.push(part),
    }
}

/// `ids` is created on demand: most parts need no id.
fn convert_part(
    part: &AdkPart,
    (ours, note): (bool, bool),
    ids: &mut Option<CallIds>,
) -> Option<MessagePart> {
    let signature = part.thought_signature.clone().filter(|_| ours);
    let kind = |mime_type: &Option<String>| {
        mime_type.clone().unwrap_or_else(|| "application/octet-stream".to_owned())
    };
    match &part.data {
        Data::Text(_) if part.is_thought() && !ours => None,
        Data::Text(text) if part.is_thought() => Some(MessagePart::Thought { text: text.clone(), signature }),
        Data::Text(text) => Some(MessagePart::Text { text: text.clone(), signature, note }),
        Data::FunctionCall(call) => Some(MessagePart::from(ToolCall {
            id: ids.get_or_insert_default().for_call(call),
            name: call.name.clone(),
            args: call.args.clone().unwrap_or_default(),
            signature,
            malformed: None,
        })),
        Data::FunctionResponse(response) => Some(MessagePart::from(ToolResult {
            id: ids.get_or_insert_default().for_response(response),
            name: response.name.clone(),
            response: Value::Object(response.response.clone().unwrap_or_default()),
        })),
        Data::InlineData(blob) => Some(MessagePart::from(Media {
            mime_type: kind(&blob.mime_type),
            source: MediaSource::Base64(blob.data.clone()),
            name: blob.display_name.clone(),
        })),
        Data::FileData(file) => Some(MessagePart::from(Media {
            mime_type: kind(&file.mime_type),
            source: MediaSource::Uri(file.file_uri.clone()),
            name: file.display_name.clone(),
        })),
        Data::Unknown if part.extra.is_empty() => None,
        Data::Unknown => Some(MessagePart::text(Value::Object(part.extra.clone()).to_string())),
    }
}

pub(crate) fn tools(declarations: Vec<FunctionDeclaration>) -> Vec<ToolSpec> {
    let spec = |declaration: FunctionDeclaration| ToolSpec {
        name: declaration.name,
        description: declaration.description,
        parameters: declaration.parameters_json_schema,
    };
    declarations.into_iter().map(spec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use adk::{content::Origin as AdkOrigin, notes::FOREIGN_CONTEXT};
    use serde_json::json;

    fn content(role: &str, parts: Value, model: Option<&str>) -> Content {
        let origin = model.map(|model| AdkOrigin { provider: "p".to_owned(), model: model.to_owned() });
        Content { origin, ..Content::new(role, serde_json::from_value(parts).unwrap()) }
    }

    fn converted(contents: &[Content]) -> Vec<ModelMessage> {
        let contents: Vec<ContentRef> = contents.iter().cloned().map(ContentRef::from).collect();
        convert(&contents, &ModelId { provider: "p".to_owned(), model: "m".to_owned() })
    }

    #[test]
    fn reasoning_and_signatures_return_only_to_the_model_that_made_them() {
        let parts = json!([
            {"text": "hm", "thought": true, "thoughtSignature": "c2ln"},
            {"text": "yes", "thoughtSignature": "c2ln"},
            {"functionCall": {"id": "a", "name": "look"}, "thoughtSignature": "c2ln"},
        ]);
        let own = converted(&[content("model", parts.clone(), Some("m"))]);
        let signature = Some("c2ln".to_owned());
        assert_eq!(own[0].parts.len(), 3);
        assert_eq!(own[0].parts[0], MessagePart::Thought { text: "hm".into(), signature });
        for model in [Some("other"), None] {
            let foreign = converted(&[content("model", parts.clone(), model)]);
            assert_eq!(foreign[0].parts[0], MessagePart::text("yes"));
            assert_eq!(foreign[0].calls().next().unwrap().signature, None);
        }
    }

    #[test]
    fn content_is_split_into_one_message_per_role() {
        let parts = json!([
            {"functionResponse": {"name": "look", "response": {"found": 1}}},
            {"functionResponse": {"name": "look"}},
            {"text": "what next?"},
        ]);
        let messages = converted(&[content("user", parts, None)]);
        let roles: Vec<Role> = messages.iter().map(|message| message.role).collect();
        assert_eq!(roles, [Role::Tool, Role::User]);
        let ids: Vec<&str> = messages[0].results().map(|result| result.id.as_str()).collect();
        assert_eq!(ids, ["call_look", "call_look_2"]);
    }

    #[test]
    fn events_of_another_agent_become_one_part_that_starts_with_the_note() {
        let parts = json!([{"text": "done"}, {"functionCall": {"id": "a", "name": "look"}}]);
        let event = adk::event::Event {
            author: "other".to_owned(),
            content: Some(content("model", parts, None)),
            ..adk::event::Event::default()
        };
        let contents = adk::flow::contents::contents(adk::flow::contents::HistoryView {
            agent: "helper",
            branch: None,
            include: adk::agent::IncludeContents::Default,
            events: &[std::sync::Arc::new(event)],
            deferred: &[],
        });
        let target = ModelId { provider: "p".to_owned(), model: "m".to_owned() };
        let messages = convert(&contents, &target);
        let [MessagePart::Text { text, .. }] = &messages[0].parts[..] else { panic!("{messages:?}") };
        assert!(
            text.starts_with(FOREIGN_CONTEXT) && text.contains("other said") && text.contains("other called"),
            "{text}"
        );
    }

    #[test]
    fn unknown_part_is_sent_as_json_text() {
        let parts = json!([{"executableCode": {"code": "1 + 1"}}, {}]);
        let messages = converted(&[content("model", parts, None)]);
        assert_eq!(messages, [ModelMessage::text(Role::Assistant, r#"{"executableCode":{"code":"1 + 1"}}"#)]);
    }
}
