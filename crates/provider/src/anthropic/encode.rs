//! Encodes a request for the Anthropic Messages API: alternating user and assistant turns, all results of a turn in one
//! user message.

use super::{answer_schema::answer_format, redacted_thinking, settings::AnthropicSettings};
use crate::{
    Media, MediaSource, MessagePart, ModelMessage, ModelRequest, Role, ToolSpec, WireApi, encoding,
    message_list::{ListEncoder, ListFormat, ListSection, ListState, TurnKind, split_system},
    openai::Dialect,
    tool_names::ToolNames,
    tool_schema,
    wire_ids::{IdRules, WireMessage},
};
use serde_json::{Value, json};

pub(crate) const IDS: IdRules =
    IdRules { max_chars: 64, accepts: |c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-') };

pub fn encode(request: &ModelRequest, stream: bool) -> Value {
    let request = &*request.with_all_messages();
    let names = ToolNames::for_request(request);
    let format = ListFormat::new(WireApi::Anthropic, Dialect::COMPATIBLE, request);
    let encoder = ListEncoder { names: &names, format };
    let mut state = encoder.format.initial_state();
    let messages = encoder.encode_whole(&mut state, split_system(&request.messages).1);
    encode_around(request, stream, &encoder, (messages.into(), &state))
}

/// The body around a list of messages, which ended in this state.
pub(crate) fn encode_around(
    request: &ModelRequest,
    stream: bool,
    encoder: &ListEncoder<'_>,
    (messages, state): (Value, &ListState),
) -> Value {
    let (options, names) = (&request.options, encoder.names);
    let system = split_system(&request.messages).0;
    let mut blocks: Vec<Value> = system.into_iter().flat_map(text_blocks).collect();
    let format = options.response_schema.as_ref().filter(|_| options.enforces_schema).and_then(answer_format);
    let instruction = options.response_schema.as_ref().filter(|_| format.is_none());
    blocks.extend(instruction.map(|schema| encoding::text_block(encoding::schema_instruction(schema))));
    mark_cache(blocks.last_mut());
    let mut tools: Vec<Value> = request.tools.iter().map(|spec| tool_declaration(spec, names)).collect();
    mark_cache(tools.last_mut());
    // Thinking must not follow calls that were made without it, or by another model.
    let settings = AnthropicSettings::for_request(request, names, state.began_with_thinking.unwrap_or(true));
    let output =
        encoding::with_fields(json!({}), [("effort", settings.effort.map(Value::from)), ("format", format)]);
    let stops: Vec<&String> = options.stop.iter().filter(|stop| !encoding::is_blank(stop)).collect();
    encoding::with_fields(
        json!({"model": request.model, "max_tokens": settings.max_tokens}),
        [
            ("system", (!blocks.is_empty()).then(|| blocks.into())),
            ("messages", Some(messages)),
            ("tools", (!tools.is_empty()).then(|| tools.into())),
            ("tool_choice", settings.tool_choice),
            ("thinking", settings.thinking),
            ("output_config", (output != json!({})).then_some(output)),
            ("temperature", settings.temperature),
            ("top_p", settings.top_p),
            ("top_k", settings.top_k.map(Value::from)),
            ("stop_sequences", (!stops.is_empty()).then(|| json!(stops))),
            ("stream", stream.then(|| true.into())),
        ],
    )
}

/// Whether the calls since the user's last message, if there are any, began with a thinking block. `before` is the same before
/// these turns.
fn began_with_thinking(turns: &[AnthropicTurn], before: Option<bool>) -> Option<bool> {
    let is_result = |block: &Value| block["type"] == "tool_result";
    let thinks = |block: &Value| block["type"].as_str().is_some_and(|kind| kind.ends_with("thinking"));
    let (mut began, mut first) = (before, None);
    for (role, blocks) in turns {
        match *role {
            "assistant" => first = Some(blocks.first().is_some_and(thinks)),
            _ if blocks.iter().any(is_result) => began = began.or(first),
            _ => began = None,
        }
    }
    began
}

/// Sets a cache breakpoint. The API allows four: the tools, the system prompt, and the ends of the last two user turns,
/// of which the first is where the previous request ended.
fn mark_cache(block: Option<&mut Value>) {
    if let Some(block) = block {
        block["cache_control"] = json!({"type": "ephemeral"});
    }
}

fn text_blocks(message: &ModelMessage) -> Vec<Value> {
    message.parts.iter().filter_map(|part| text_of(part).map(encoding::text_block)).collect()
}

fn text_of(part: &MessagePart) -> Option<&str> {
    match part {
        MessagePart::Text { text, .. } => Some(text.as_str()).filter(|text| !encoding::is_blank(text)),
        MessagePart::Thought { .. }
        | MessagePart::Call(_)
        | MessagePart::Result(_)
        | MessagePart::Media(_) => None,
    }
}

fn tool_declaration(tool: &ToolSpec, names: &ToolNames) -> Value {
    json!({
        "name": names.wire_name(&tool.name),
        "description": tool.description,
        "input_schema": tool_schema::parameters(&tool.parameters),
    })
}

/// The role and the blocks of a turn.
type AnthropicTurn = (&'static str, Vec<Value>);

/// Alternating turns that start and end with the user; neighbours of the same role are merged.
pub(crate) fn encode_list(
    encoder: &ListEncoder<'_>,
    state: &mut ListState,
    ListSection { messages, is_last }: ListSection<'_>,
) -> Option<Vec<Value>> {
    let begins = state.last.is_none();
    let mut turns: Vec<AnthropicTurn> = Vec::new();
    for wired in messages.iter().map(|message| state.ids.assign(message)) {
        let (role, blocks) = match wired.message.role {
            Role::Assistant => ("assistant", assistant_blocks(&wired, encoder.names)),
            Role::System | Role::User | Role::Tool => ("user", user_blocks(&wired)),
        };
        if blocks.is_empty() {
            continue;
        }
        if begins && turns.is_empty() && role == "assistant" {
            turns.push(("user", vec![encoding::text_block(encoding::EARLIER_OMITTED)]));
        }
        match turns.last_mut() {
            Some((last, all)) if *last == role => all.extend(blocks),
            Some(_) | None => turns.push((role, blocks)),
        }
    }
    if !begins && turns.first().map(|(role, _)| *role) == state.last.map(|last| last.role) {
        return None;
    }
    if is_last && turns.last().is_none_or(|(role, _)| *role == "assistant") {
        let is_empty = turns.is_empty() && begins;
        let text = if is_empty { encoding::EMPTY_MESSAGE } else { encoding::CONTINUE };
        turns.push(("user", vec![encoding::text_block(text)]));
    }
    let users = turns.iter_mut().rev().filter(|(role, _)| is_last && *role == "user").take(2);
    let marked = users.map(|(_, blocks)| mark_cache(blocks.last_mut())).count();
    if is_last && !begins && marked < 2 {
        // A mark belongs into the turns that are encoded already.
        return None;
    }
    state.began_with_thinking = began_with_thinking(&turns, state.began_with_thinking);
    state.last = turns.last().map(|(role, _)| TurnKind { role, is_response: false }).or(state.last);
    Some(turns.into_iter().map(|(role, content)| json!({"role": role, "content": content})).collect())
}

/// Encodes an assistant message. The API rejects a message that ends with thinking, so trailing thoughts are omitted.
fn assistant_blocks(wired: &WireMessage<'_>, names: &ToolNames) -> Vec<Value> {
    let mut ids = wired.call_ids.iter();
    let mut blocks = Vec::new();
    let mut thoughts = Vec::new();
    for part in &wired.message.parts {
        let block = match part {
            MessagePart::Thought { text, signature } => {
                thoughts.extend(thinking_block(text, signature.as_deref()));
                None
            }
            MessagePart::Text { .. } => text_of(part).map(encoding::text_block),
            MessagePart::Call(call) => ids.next().map(|id| {
                json!({"type": "tool_use", "id": id, "name": names.wire_name(&call.name), "input": call.args})
            }),
            MessagePart::Media(media) => Some(encoding::text_block(encoding::media_placeholder(media))),
            MessagePart::Result(_) => None,
        };
        if let Some(block) = block {
            blocks.append(&mut thoughts);
            blocks.push(block);
        }
    }
    blocks
}

/// The API rejects thinking without its signature.
fn thinking_block(text: &str, signature: Option<&str>) -> Option<Value> {
    let signature = signature.filter(|signature| !signature.is_empty())?;
    Some(match redacted_thinking::from_signature(signature) {
        Some(data) => json!({"type": "redacted_thinking", "data": data}),
        None => json!({"type": "thinking", "thinking": text, "signature": signature}),
    })
}

/// Results first, then text and files.
fn user_blocks(wired: &WireMessage<'_>) -> Vec<Value> {
    let mut blocks: Vec<Value> =
        wired.results.iter().map(|(id, result)| tool_result(id, &result.response)).collect();
    blocks.extend(wired.message.parts.iter().filter_map(|part| match part {
        MessagePart::Text { .. } => text_of(part).map(encoding::text_block),
        MessagePart::Media(media) => Some(media_block(media)),
        MessagePart::Thought { .. } | MessagePart::Call(_) | MessagePart::Result(_) => None,
    }));
    blocks.extend(
        wired.unmatched.iter().map(|result| encoding::text_block(encoding::unmatched_result_text(result))),
    );
    if blocks.is_empty() && wired.message.role == Role::User {
        blocks.push(encoding::text_block(encoding::EMPTY_MESSAGE));
    }
    blocks
}

fn tool_result(id: &str, response: &Value) -> Value {
    let text = encoding::response_text(response);
    let failed = response.get("error").is_some_and(|error| !error.is_null());
    encoding::with_fields(
        json!({"type": "tool_result", "tool_use_id": id}),
        [
            ("content", (!encoding::is_blank(&text)).then(|| text.into())),
            ("is_error", failed.then(|| true.into())),
        ],
    )
}

/// Whether the file itself can be sent, and not only its name.
pub(crate) fn accepts_media(media: &Media) -> bool {
    media_block(media)["type"] != "text"
}

fn media_block(media: &Media) -> Value {
    let kind = match media.mime_type.as_str() {
        "image/png" | "image/jpeg" | "image/gif" | "image/webp" => "image",
        "application/pdf" => "document",
        _ => return encoding::text_block(encoding::media_placeholder(media)),
    };
    match &media.source {
        MediaSource::Base64(data) => {
            json!({"type": kind, "source": {"type": "base64", "media_type": media.mime_type, "data": data}})
        }
        MediaSource::Uri(uri) if uri.starts_with("http") => {
            json!({"type": kind, "source": {"type": "url", "url": uri}})
        }
        MediaSource::Uri(_) => encoding::text_block(encoding::media_placeholder(media)),
    }
}

#[cfg(test)]
mod tests;
