//! Encodes a request for the Responses API: one item per message, call, result and reasoning item.

use super::opaque::{OpaquePhase, OpaqueReasoning};
use crate::{
    GenerationOptions, Media, MediaSource, MessagePart, ModelMessage, ModelRequest, Role, ToolChoice,
    ToolSpec, WireApi, encoding,
    message_list::{ListEncoder, ListFormat, ListSection, ListState, split_system},
    openai::{Dialect, effort_level, strict_schema},
    tool_names::ToolNames,
    tool_schema,
    truncate::truncate_chars,
    wire_ids::{IdRules, WireMessage},
};
use serde_json::{Value, json};
use std::collections::HashSet;

pub(crate) const IDS: IdRules = IdRules { max_chars: 64, accepts: |c| c.is_ascii_graphic() };

/// The maximum length of a tool description.
const MAX_DESCRIPTION_CHARS: usize = 1024;

/// The minimum that `max_output_tokens` accepts.
const MIN_OUTPUT_TOKENS: u32 = 16;

/// Models without reasoning, which reject reasoning options.
const NON_REASONING_MODELS: [&str; 4] = ["gpt-3", "gpt-4", "chatgpt-", "gpt-5-chat"];

pub fn encode(request: &ModelRequest, stream: bool) -> Value {
    let request = &*request.with_all_messages();
    let names = ToolNames::for_request(request);
    let format = ListFormat::new(WireApi::Responses, Dialect::OPENAI, request);
    let encoder = ListEncoder { names: &names, format };
    let rest = split_system(&request.messages).1;
    let mut items = encoder.encode_whole(&mut encoder.format.initial_state(), rest);
    if items.is_empty() {
        items.push(empty_item());
    }
    encode_around(request, stream, &encoder, items.into())
}

/// The item of a list without items.
pub(crate) fn empty_item() -> Value {
    message_of("user", &[input_text(encoding::EMPTY_MESSAGE)])
}

/// The body around a list of items.
pub(crate) fn encode_around(
    request: &ModelRequest,
    stream: bool,
    encoder: &ListEncoder<'_>,
    items: Value,
) -> Value {
    let (options, names) = (&request.options, encoder.names);
    let system = split_system(&request.messages).0;
    let format = options.response_schema.as_ref().and_then(response_format);
    let instruction =
        options.response_schema.as_ref().filter(|_| format.is_none()).map(encoding::schema_instruction);
    let instructions: Vec<String> = system.into_iter().flat_map(text_parts).chain(instruction).collect();
    let tools: Vec<Value> = request.tools.iter().map(|spec| tool_declaration(spec, names)).collect();
    let choice = options.tool_choice.as_ref().and_then(|choice| tool_choice(choice, request, names));
    let has_tools = !tools.is_empty();
    let reasoning = options.reasoning.map(|effort| match effort_level(effort) {
        "none" => json!({"effort": "none"}),
        level => json!({"effort": level, "summary": "auto"}),
    });
    let include = is_reasoning_model(&request.model).then(|| json!(["reasoning.encrypted_content"]));
    encoding::with_fields(
        json!({"model": request.model, "store": false}),
        [
            ("instructions", (!instructions.is_empty()).then(|| instructions.join("\n").into())),
            ("input", Some(items)),
            ("include", include),
            ("tools", has_tools.then(|| tools.into())),
            ("tool_choice", choice),
            ("parallel_tool_calls", options.parallel_tool_calls.filter(|_| has_tools).map(Value::from)),
            ("reasoning", reasoning),
            ("text", format.map(|format| json!({"format": format}))),
            ("temperature", encoding::clamped(options.temperature, 2.0)),
            ("top_p", encoding::clamped(options.top_p, 1.0)),
            ("max_output_tokens", options.max_output_tokens.map(|limit| limit.max(MIN_OUTPUT_TOKENS).into())),
            ("prompt_cache_key", options.cache_key.clone().map(Value::from)),
            ("stream", stream.then(|| true.into())),
        ],
    )
}

/// The options that are set but not supported.
pub fn unsupported_options(options: &GenerationOptions) -> Vec<&'static str> {
    let stop = (!options.stop.is_empty()).then_some("stop");
    let others = [
        options.seed.map(|_| "seed"),
        options.top_k.map(|_| "top_k"),
        options.presence_penalty.map(|_| "presence_penalty"),
        options.frequency_penalty.map(|_| "frequency_penalty"),
        options.safety_settings.as_ref().map(|_| "safety_settings"),
    ];
    stop.into_iter().chain(others.into_iter().flatten()).collect()
}

fn is_reasoning_model(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    !NON_REASONING_MODELS.iter().any(|prefix| name.starts_with(prefix))
}

fn text_parts(message: &ModelMessage) -> impl Iterator<Item = String> {
    message.parts.iter().filter_map(text_of).map(str::to_owned)
}

fn text_of(part: &MessagePart) -> Option<&str> {
    match part {
        MessagePart::Text { text, .. } => Some(text.as_str()).filter(|text| !text.is_empty()),
        MessagePart::Thought { .. }
        | MessagePart::Call(_)
        | MessagePart::Result(_)
        | MessagePart::Media(_) => None,
    }
}

/// Without `strict: false` the API enforces the schema and changes it to do so.
fn tool_declaration(tool: &ToolSpec, names: &ToolNames) -> Value {
    let parameters = tool_schema::parameters(&tool.parameters);
    let enforced = strict_schema(&parameters);
    json!({
        "type": "function",
        "name": names.wire_name(&tool.name),
        "description": truncate_chars(&tool.description, MAX_DESCRIPTION_CHARS),
        "strict": enforced.is_some(),
        "parameters": enforced.unwrap_or(parameters),
    })
}

/// OpenAI rejects a choice without tools, and a tool that is not declared.
fn tool_choice(choice: &ToolChoice, request: &ModelRequest, names: &ToolNames) -> Option<Value> {
    let is_declared = |name: &String| request.tools.iter().any(|tool| tool.name == *name);
    let choice = match choice {
        ToolChoice::Auto => "auto".into(),
        ToolChoice::None => "none".into(),
        ToolChoice::Required => "required".into(),
        ToolChoice::Named(name) if is_declared(name) => {
            json!({"type": "function", "name": names.wire_name(name)})
        }
        ToolChoice::Named(_) => return None,
    };
    (!request.tools.is_empty()).then_some(choice)
}

/// Only object schemas are accepted; any other schema becomes an instruction.
fn response_format(schema: &Value) -> Option<Value> {
    let enforced = strict_schema(schema);
    (schema["type"] == "object").then(|| {
        json!({
            "type": "json_schema",
            "name": "answer",
            "strict": enforced.is_some(),
            "schema": enforced.unwrap_or_else(|| schema.clone()),
        })
    })
}

pub(crate) fn encode_list(
    encoder: &ListEncoder<'_>,
    state: &mut ListState,
    ListSection { messages, is_last: _ }: ListSection<'_>,
) -> Vec<Value> {
    let mut items = Vec::new();
    for wired in messages.iter().map(|message| state.ids.assign(message)) {
        match wired.message.role {
            Role::System => items.extend(message_item("system", &content_blocks(&wired))),
            Role::User => {
                let mut content = content_blocks(&wired);
                if content.is_empty() {
                    content.push(input_text(encoding::EMPTY_MESSAGE));
                }
                items.extend(message_item("user", &content));
            }
            Role::Assistant => items.extend(assistant_items(&wired, encoder.names, &mut state.reasoning_ids)),
            Role::Tool => items.extend(result_items(&wired)),
        }
    }
    items
}

fn message_item(role: &str, content: &[Value]) -> Option<Value> {
    (!content.is_empty()).then(|| message_of(role, content))
}

fn message_of(role: &str, content: &[Value]) -> Value {
    json!({"type": "message", "role": role, "content": content})
}

/// Encodes an assistant message. The API rejects reasoning without the item that follows it, so trailing reasoning is
/// omitted.
fn assistant_items(wired: &WireMessage<'_>, names: &ToolNames, sent_ids: &mut HashSet<String>) -> Vec<Value> {
    let mut ids = wired.call_ids.iter();
    let mut items = Vec::new();
    let mut reasoning: Vec<Value> = Vec::new();
    for part in &wired.message.parts {
        let item = match part {
            MessagePart::Thought { signature, .. } => {
                let opaque = signature.as_deref().and_then(OpaqueReasoning::from_signature);
                reasoning.extend(opaque.filter(|item| sent_ids.insert(item.id.clone())).map(|item| item.to_item()));
                None
            }
            MessagePart::Text { signature, .. } => {
                let phase = signature.as_deref().and_then(OpaquePhase::from_signature).map(|phase| phase.phase.into());
                text_of(part).map(|text| encoding::with_fields(output_text(text), [("phase", phase)]))
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

/// One item per result. Files follow in a user message.
fn result_items(wired: &WireMessage<'_>) -> Vec<Value> {
    let output = |(id, result): &(String, &crate::ToolResult)| json!({"type": "function_call_output", "call_id": id, "output": encoding::response_text(&result.response)});
    wired.results.iter().map(output).chain(message_item("user", &content_blocks(wired))).collect()
}

fn content_blocks(wired: &WireMessage<'_>) -> Vec<Value> {
    let blocks = wired.message.parts.iter().filter_map(|part| match part {
        MessagePart::Text { .. } => text_of(part).map(input_text),
        MessagePart::Media(media) => Some(media_block(media)),
        MessagePart::Thought { .. } | MessagePart::Call(_) | MessagePart::Result(_) => None,
    });
    blocks
        .chain(wired.unmatched.iter().map(|result| input_text(&encoding::unmatched_result_text(result))))
        .collect()
}

/// Whether the file itself can be sent, and not only its name.
pub(crate) fn accepts_media(media: &Media) -> bool {
    media_block(media)["type"] != "input_text"
}

fn media_block(media: &Media) -> Value {
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
