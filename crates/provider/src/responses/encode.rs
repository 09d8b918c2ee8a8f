//! A request as OpenAI's Responses take it: one item per message, call, result and piece of reasoning.

use super::sealed::{SealedPhase, SealedReasoning};
use crate::{
    GenerationOptions, Media, MediaSource, MessagePart, ModelMessage, ModelRequest, Role, ToolChoice,
    ToolSpec, encoding,
    openai::{effort, strict},
    tool_names::ToolNames,
    tool_schema,
    truncate::truncate_chars,
    wire_ids::{self, IdRules, WireMessage},
};
use serde_json::{Value, json};
use std::collections::HashSet;

const IDS: IdRules = IdRules { max_chars: 64, accepts: |c| c.is_ascii_graphic() };

/// The longest description that is taken.
const DESCRIPTION: usize = 1024;

/// The smallest limit of output tokens that is taken.
const LEAST: u32 = 16;

/// Models that do not reason, and refuse to be asked for it.
const UNTHINKING: [&str; 4] = ["gpt-3", "gpt-4", "chatgpt-", "gpt-5-chat"];

pub fn encode(request: &ModelRequest, stream: bool) -> Value {
    let options = &request.options;
    let names = ToolNames::for_request(request);
    let (system, rest) = split_system(&request.messages);
    let format = options.response_schema.as_ref().and_then(format);
    let wish =
        options.response_schema.as_ref().filter(|_| format.is_none()).map(encoding::schema_instruction);
    let instructions: Vec<String> = system.into_iter().flat_map(texts).chain(wish).collect();
    let tools: Vec<Value> = request.tools.iter().map(|offered| tool(offered, &names)).collect();
    let choice = options.tool_choice.as_ref().and_then(|choice| tool_choice(choice, request, &names));
    let reasoning = options.reasoning.map(|wish| match effort(wish) {
        "none" => json!({"effort": "none"}),
        level => json!({"effort": level, "summary": "auto"}),
    });
    let include = thinks(&request.model).then(|| json!(["reasoning.encrypted_content"]));
    encoding::with_fields(
        json!({"model": request.model, "store": false}),
        [
            ("instructions", (!instructions.is_empty()).then(|| instructions.join("\n").into())),
            ("input", Some(input(rest, &names).into())),
            ("include", include),
            ("tools", (!tools.is_empty()).then(|| tools.into())),
            ("tool_choice", choice),
            ("reasoning", reasoning),
            ("text", format.map(|format| json!({"format": format}))),
            ("temperature", encoding::clamped(options.temperature, 2.0)),
            ("top_p", encoding::clamped(options.top_p, 1.0)),
            ("max_output_tokens", options.max_output_tokens.map(|limit| limit.max(LEAST).into())),
            ("stream", stream.then(|| true.into())),
        ],
    )
}

/// Settings that are set and have no place here.
pub fn unsupported_options(options: &GenerationOptions) -> Vec<&'static str> {
    let stop = (!options.stop.is_empty()).then_some("stop");
    stop.into_iter().chain(options.seed.map(|_| "seed")).collect()
}

fn thinks(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    !UNTHINKING.iter().any(|old| name.starts_with(old))
}

fn split_system(messages: &[ModelMessage]) -> (Option<&ModelMessage>, &[ModelMessage]) {
    match messages.split_first() {
        Some((first, rest)) if first.role == Role::System => (Some(first), rest),
        Some(_) | None => (None, messages),
    }
}

fn texts(message: &ModelMessage) -> impl Iterator<Item = String> {
    message.parts.iter().filter_map(text).map(str::to_owned)
}

fn text(part: &MessagePart) -> Option<&str> {
    match part {
        MessagePart::Text { text, .. } => Some(text.as_str()).filter(|text| !text.is_empty()),
        MessagePart::Thought { .. }
        | MessagePart::Call(_)
        | MessagePart::Result(_)
        | MessagePart::Media(_) => None,
    }
}

/// A tool that does not say so is enforced, and its schema changed to fit.
fn tool(tool: &ToolSpec, names: &ToolNames) -> Value {
    let parameters = tool_schema::parameters(&tool.parameters);
    let enforced = strict(&parameters);
    json!({
        "type": "function",
        "name": names.wire_name(&tool.name),
        "description": truncate_chars(&tool.description, DESCRIPTION),
        "strict": enforced.is_some(),
        "parameters": enforced.unwrap_or(parameters),
    })
}

/// A choice among no tools is refused, and so is a tool that is not on offer.
fn tool_choice(choice: &ToolChoice, request: &ModelRequest, names: &ToolNames) -> Option<Value> {
    let offered = |name: &String| request.tools.iter().any(|tool| tool.name == *name);
    let choice = match choice {
        ToolChoice::Auto => "auto".into(),
        ToolChoice::None => "none".into(),
        ToolChoice::Required => "required".into(),
        ToolChoice::Named(name) if offered(name) => {
            json!({"type": "function", "name": names.wire_name(name)})
        }
        ToolChoice::Named(_) => return None,
    };
    (!request.tools.is_empty()).then_some(choice)
}

/// Only the schema of an object is taken; any other is told in words.
fn format(schema: &Value) -> Option<Value> {
    let enforced = strict(schema);
    (schema["type"] == "object").then(|| {
        json!({
            "type": "json_schema",
            "name": "answer",
            "strict": enforced.is_some(),
            "schema": enforced.unwrap_or_else(|| schema.clone()),
        })
    })
}

fn input(messages: &[ModelMessage], names: &ToolNames) -> Vec<Value> {
    let mut items = Vec::new();
    // An id that is there twice is refused.
    let mut shown = HashSet::new();
    for wired in wire_ids::assign_wire_ids(messages, IDS) {
        match wired.message.role {
            Role::System => items.extend(said("system", &content(&wired))),
            Role::User => {
                let mut content = content(&wired);
                if content.is_empty() {
                    content.push(input_text(encoding::EMPTY_MESSAGE));
                }
                items.extend(said("user", &content));
            }
            Role::Assistant => items.extend(spoken_by_model(&wired, names, &mut shown)),
            Role::Tool => items.extend(answers(&wired)),
        }
    }
    if items.is_empty() {
        items.extend(said("user", &[input_text(encoding::EMPTY_MESSAGE)]));
    }
    items
}

fn said(role: &str, content: &[Value]) -> Option<Value> {
    (!content.is_empty()).then(|| json!({"type": "message", "role": role, "content": content}))
}

/// Reasoning is refused without the item that it led to, so that what nothing follows stays behind.
fn spoken_by_model(wired: &WireMessage<'_>, names: &ToolNames, shown: &mut HashSet<String>) -> Vec<Value> {
    let mut ids = wired.call_ids.iter();
    let mut items = Vec::new();
    let mut reasoning: Vec<Value> = Vec::new();
    for part in &wired.message.parts {
        let item = match part {
            MessagePart::Thought { signature, .. } => {
                let sealed = signature.as_deref().and_then(SealedReasoning::open);
                reasoning.extend(sealed.filter(|item| shown.insert(item.id.clone())).map(|item| item.item()));
                None
            }
            MessagePart::Text { signature, .. } => {
                let phase = signature.as_deref().and_then(SealedPhase::open).map(|phase| phase.phase.into());
                text(part).map(|text| encoding::with_fields(output_text(text), [("phase", phase)]))
            }
            MessagePart::Call(call) => ids.next().map(|id| {
                let arguments = Value::Object(call.args.clone()).to_string();
                json!({"type": "function_call", "call_id": id, "name": names.wire_name(&call.name), "arguments": arguments})
            }),
            MessagePart::Media(media) => Some(output_text(&encoding::media_placeholder(media))),
            MessagePart::Result(_) => None,
        };
        if let Some(item) = item {
            items.append(&mut reasoning);
            items.push(item);
        }
    }
    items
}

fn output_text(text: &str) -> Value {
    json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]})
}

fn input_text(text: &str) -> Value {
    json!({"type": "input_text", "text": text})
}

/// One item per result; what else the tool gave follows as the user's.
fn answers(wired: &WireMessage<'_>) -> Vec<Value> {
    let output = |(id, result): &(String, &crate::ToolResult)| json!({"type": "function_call_output", "call_id": id, "output": encoding::response_text(&result.response)});
    wired.results.iter().map(output).chain(said("user", &content(wired))).collect()
}

fn content(wired: &WireMessage<'_>) -> Vec<Value> {
    let blocks = wired.message.parts.iter().filter_map(|part| match part {
        MessagePart::Text { .. } => text(part).map(input_text),
        MessagePart::Media(media) => Some(shown(media)),
        MessagePart::Thought { .. } | MessagePart::Call(_) | MessagePart::Result(_) => None,
    });
    blocks
        .chain(wired.orphans.iter().map(|result| input_text(&encoding::orphan_result_text(result))))
        .collect()
}

/// Whether the model is shown such a file, and not its name alone.
pub(crate) fn accepts_media(media: &Media) -> bool {
    shown(media)["type"] != "input_text"
}

fn shown(media: &Media) -> Value {
    let kind = media.mime_type.as_str();
    let is_image = matches!(kind, "image/png" | "image/jpeg" | "image/gif" | "image/webp");
    match &media.source {
        MediaSource::Base64(data) if is_image => {
            json!({"type": "input_image", "detail": "auto", "image_url": format!("data:{kind};base64,{data}")})
        }
        MediaSource::Base64(data) if kind == "application/pdf" => {
            let name = media.name.as_deref().filter(|name| !encoding::is_blank(name)).unwrap_or("file.pdf");
            json!({"type": "input_file", "filename": name, "file_data": format!("data:{kind};base64,{data}")})
        }
        MediaSource::Uri(uri) if is_image && uri.starts_with("http") => {
            json!({"type": "input_image", "detail": "auto", "image_url": uri})
        }
        MediaSource::Uri(uri) if kind == "application/pdf" && uri.starts_with("http") => {
            json!({"type": "input_file", "file_url": uri})
        }
        MediaSource::Base64(_) | MediaSource::Uri(_) => input_text(&encoding::media_placeholder(media)),
    }
}

#[cfg(test)]
mod tests;
