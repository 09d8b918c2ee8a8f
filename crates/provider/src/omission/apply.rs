//! Leaves parts out of a request and out of its encoded body.

use super::{FieldRules, MediaKind, Omission};
use crate::{MessagePart, ModelMessage, ModelRequest, Role, WireApi, encoding};
use serde_json::Value;
use std::borrow::Cow;

/// The request without what its `omitted` names, as far as that is not a field of the body.
pub(crate) fn omit_from_request(api: WireApi, request: &ModelRequest) -> Cow<'_, ModelRequest> {
    if request.omitted.is_empty() {
        return Cow::Borrowed(request);
    }
    let mut request = request.clone();
    let schema = FieldRules::of(api).schema;
    for omission in std::mem::take(&mut request.omitted) {
        match &omission {
            Omission::Tools => omit_tools(&mut request),
            Omission::Media(kind) => omit_media(&mut request, *kind),
            Omission::SystemRole => omit_system_role(&mut request),
            Omission::Reasoning => request.options.reasoning = None,
            Omission::AnswerSchema => omit_schema(&mut request),
            Omission::Field(path) if schema.contains(&path.as_str()) => omit_schema(&mut request),
            Omission::Field(_) => (),
        }
        request.omitted.push(omission);
    }
    Cow::Owned(request)
}

fn omit_tools(request: &mut ModelRequest) {
    request.tools.clear();
    request.options.tool_choice = None;
    for message in &mut request.messages {
        for part in &mut message.parts {
            let text = match part {
                MessagePart::Call(call) => {
                    format!("[called {} with {}]", call.name, Value::Object(call.args.clone()))
                }
                MessagePart::Result(result) => encoding::unmatched_result_text(result),
                MessagePart::Text { .. } | MessagePart::Thought { .. } | MessagePart::Media(_) => continue,
            };
            *part = MessagePart::text(text);
        }
        if message.role == Role::Tool {
            message.role = Role::User;
        }
    }
}

fn omit_media(request: &mut ModelRequest, kind: MediaKind) {
    for part in request.messages.iter_mut().flat_map(|message| &mut message.parts) {
        if let MessagePart::Media(media) = part
            && MediaKind::of_mime_type(&media.mime_type) == kind
        {
            *part = MessagePart::text(encoding::media_placeholder(media));
        }
    }
}

fn omit_system_role(request: &mut ModelRequest) {
    // Some encoders would put the schema into a system message.
    omit_schema(request);
    for message in request.messages.iter_mut().filter(|message| message.role == Role::System) {
        message.role = Role::User;
    }
}

/// Turns the schema of the answer into an instruction.
fn omit_schema(request: &mut ModelRequest) {
    let Some(schema) = request.options.response_schema.take() else { return };
    let instruction = encoding::schema_instruction(&schema);
    match request.messages.first_mut().filter(|first| first.role == Role::System) {
        Some(system) => system.parts.push(MessagePart::text(instruction)),
        None => request.messages.insert(0, ModelMessage::text(Role::System, instruction)),
    }
}

/// Removes the omitted fields from an encoded body.
pub(crate) fn omit_from_body(api: WireApi, omitted: &[Omission], body: &mut Value) {
    let rules = FieldRules::of(api);
    for omission in omitted {
        if let Omission::Field(path) = omission {
            for place in rules.places(path) {
                remove(rules, body, place);
            }
        }
    }
}

/// Removes a field, and the groups that it leaves empty.
fn remove(rules: &FieldRules, body: &mut Value, path: &str) {
    remove_at(body, path);
    if let Some((group, _)) = path.rsplit_once('.')
        && rules.is_group(group)
        && body.pointer(&format!("/{}", group.replace('.', "/")))
            == Some(&Value::Object(serde_json::Map::new()))
    {
        remove(rules, body, group);
    }
}

fn remove_at(value: &mut Value, path: &str) {
    match value {
        Value::Array(elements) => elements.iter_mut().for_each(|element| remove_at(element, path)),
        Value::Object(fields) => match path.split_once('.') {
            Some((name, rest)) => {
                if let Some(inner) = fields.get_mut(name) {
                    remove_at(inner, rest);
                }
            }
            None => {
                fields.shift_remove(path);
            }
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (),
    }
}
