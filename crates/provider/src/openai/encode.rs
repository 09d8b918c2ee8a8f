//! Encodes a request for Chat Completions: one message per tool result, arguments as a JSON string.

use super::{Dialect, ReasoningEcho, reasoning_details::ReasoningDetails, strict_schema};
use crate::{
    GenerationOptions, Media, MediaSource, MessagePart, ModelMessage, ModelRequest, ReasoningEffort, Role,
    ToolCall, ToolChoice, ToolSpec, WireApi, encoding,
    message_list::{ListEncoder, ListFormat, ListSection, ListState, TurnKind, split_system},
    tool_names::ToolNames,
    tool_schema,
    truncate::truncate_chars,
    wire_ids::{IdRules, WireMessage},
};
use serde_json::{Value, json};

pub(crate) const IDS: IdRules = IdRules { max_chars: 40, accepts: |c| c.is_ascii_graphic() };

/// The maximum length of a tool description.
const MAX_DESCRIPTION_CHARS: usize = 1024;

/// The maximum number of stop sequences.
const MAX_STOPS: usize = 4;

/// Encodes a request for OpenAI itself.
pub fn encode(request: &ModelRequest, stream: bool) -> Value {
    encode_for(request, stream, &Dialect::OPENAI)
}

pub fn encode_for(request: &ModelRequest, stream: bool, dialect: &Dialect) -> Value {
    let request = &*request.with_all_messages();
    let names = ToolNames::for_request(request);
    let encoder = ListEncoder { names: &names, format: ListFormat::new(WireApi::Chat, *dialect, request) };
    let mut messages = encode_leading(request, &encoder);
    let rest = split_system(&request.messages).1;
    messages.extend(encoder.encode_whole(&mut encoder.format.initial_state(), rest));
    if messages.is_empty() {
        messages.push(empty_message());
    }
    encode_around(request, stream, &encoder, messages.into())
}

/// The message of a list without messages.
pub(crate) fn empty_message() -> Value {
    json!({"role": "user", "content": encoding::EMPTY_MESSAGE})
}

/// The body around a list of messages.
pub(crate) fn encode_around(
    request: &ModelRequest,
    stream: bool,
    encoder: &ListEncoder<'_>,
    messages: Value,
) -> Value {
    let ListEncoder { names, format: ListFormat { dialect, .. } } = encoder;
    let (names, dialect) = (*names, *dialect);
    let options = &request.options;
    let tools: Vec<Value> = request.tools.iter().map(|spec| tool_declaration(spec, names, dialect)).collect();
    let stops: Vec<&String> = options.stop.iter().filter(|stop| !stop.is_empty()).take(MAX_STOPS).collect();
    let choice = options.tool_choice.as_ref().and_then(|choice| tool_choice(choice, request, names));
    let format = options.response_schema.as_ref().and_then(|schema| response_format(schema, dialect));
    let has_tools = !tools.is_empty();
    let limit = if dialect.max_completion_tokens { "max_completion_tokens" } else { "max_tokens" };
    encoding::with_fields(
        json!({"model": request.model}),
        [
            ("messages", Some(messages)),
            ("tools", has_tools.then(|| tools.into())),
            ("tool_choice", choice),
            // Servers reject it without tools.
            ("parallel_tool_calls", options.parallel_tool_calls.filter(|_| has_tools).map(Value::from)),
            ("temperature", encoding::clamped(options.temperature, 2.0)),
            ("top_p", encoding::clamped(options.top_p, 1.0)),
            // OpenAI itself rejects it, and the next request is without it; most other servers accept it.
            ("top_k", options.top_k.map(Value::from)),
            ("presence_penalty", encoding::penalty(options.presence_penalty)),
            ("frequency_penalty", encoding::penalty(options.frequency_penalty)),
            (limit, options.max_output_tokens.map(Value::from)),
            ("stop", (!stops.is_empty()).then(|| json!(stops))),
            ("seed", options.seed.map(Value::from)),
            ("reasoning_effort", options.reasoning.map(|effort| effort_level(effort).into())),
            ("response_format", format),
            ("prompt_cache_key", options.cache_key.clone().map(Value::from)),
            ("stream", stream.then(|| true.into())),
            ("stream_options", stream.then(|| json!({"include_usage": true}))),
        ],
    )
}

/// The options that are set but not supported: stop sequences beyond the maximum.
pub fn unsupported_options(options: &GenerationOptions) -> Vec<&'static str> {
    let stops = options.stop.iter().filter(|stop| !stop.is_empty()).count();
    let safety = options.safety_settings.as_ref().map(|_| "safety_settings");
    (stops > MAX_STOPS).then_some("stop").into_iter().chain(safety).collect()
}

/// The nearest of OpenAI's levels; the API has no token budgets.
pub(crate) fn effort_level(effort: ReasoningEffort) -> &'static str {
    match effort {
        ReasoningEffort::Off | ReasoningEffort::Tokens(0) => "none",
        ReasoningEffort::Minimal => "minimal",
        ReasoningEffort::Low | ReasoningEffort::Tokens(..=2048) => "low",
        ReasoningEffort::Medium | ReasoningEffort::Tokens(..=8192) => "medium",
        ReasoningEffort::High | ReasoningEffort::Tokens(_) => "high",
    }
}

fn tool_declaration(tool: &ToolSpec, names: &ToolNames, dialect: Dialect) -> Value {
    let parameters = tool_schema::parameters(&tool.parameters);
    let enforced = strict_schema(&parameters).filter(|_| dialect.strict);
    let is_enforced = enforced.is_some().then(|| true.into());
    let function = json!({
        "name": names.wire_name(&tool.name),
        "description": truncate_chars(&tool.description, MAX_DESCRIPTION_CHARS),
        "parameters": enforced.unwrap_or(parameters),
    });
    json!({"type": "function", "function": encoding::with_fields(function, [("strict", is_enforced)])})
}

/// OpenAI rejects a choice without tools, and a tool that is not declared.
fn tool_choice(choice: &ToolChoice, request: &ModelRequest, names: &ToolNames) -> Option<Value> {
    let is_declared = |name: &String| request.tools.iter().any(|tool| tool.name == *name);
    let choice = match choice {
        ToolChoice::Auto => "auto".into(),
        ToolChoice::None => "none".into(),
        ToolChoice::Required => "required".into(),
        ToolChoice::Named(name) if is_declared(name) => {
            json!({"type": "function", "function": {"name": names.wire_name(name)}})
        }
        ToolChoice::Named(_) => return None,
    };
    (!request.tools.is_empty()).then_some(choice)
}

/// OpenAI itself accepts only object schemas; any other schema becomes an instruction.
fn response_format(schema: &Value, dialect: Dialect) -> Option<Value> {
    let enforced = strict_schema(schema).filter(|_| dialect.strict);
    let is_enforced = enforced.is_some().then(|| true.into());
    let is_accepted = !dialect.strict || schema["type"] == "object";
    let answer = json!({"name": "answer", "schema": enforced.unwrap_or_else(|| schema.clone())});
    is_accepted.then(
        || json!({"type": "json_schema", "json_schema": encoding::with_fields(answer, [("strict", is_enforced)])}),
    )
}

/// The messages before the conversation: a schema as an instruction, and the system message.
pub(crate) fn encode_leading(request: &ModelRequest, encoder: &ListEncoder<'_>) -> Vec<Value> {
    let schema = request.options.response_schema.as_ref();
    let instruction = schema.filter(|schema| response_format(schema, encoder.format.dialect).is_none());
    let mut leading = message("system", instruction.map(encoding::schema_instruction).map(Value::from));
    leading.extend(
        split_system(&request.messages)
            .0
            .map(joined_text)
            .into_iter()
            .flat_map(|text| message("system", text)),
    );
    leading
}

pub(crate) fn encode_list(
    encoder: &ListEncoder<'_>,
    state: &mut ListState,
    ListSection { messages, is_last }: ListSection<'_>,
) -> Option<Vec<Value>> {
    let (names, dialect) = (encoder.names, encoder.format.dialect);
    let last_user = messages.iter().rposition(|message| message.role == Role::User);
    // A list that continues after this section continues with a message of the user.
    let is_current = |index: usize| is_last && last_user.is_none_or(|last_user| index > last_user);
    let begins_with_user = messages.first().is_some_and(|first| first.role == Role::User);
    if state.last.is_some() && !begins_with_user {
        return None;
    }
    state.last = Some(TurnKind { role: "", is_response: false });
    let mut encoded: Vec<Value> = Vec::new();
    for (index, wired) in messages.iter().map(|message| state.ids.assign(message)).enumerate() {
        let wired = &wired;
        match wired.message.role {
            Role::System => encoded.extend(message("system", joined_text(wired.message))),
            Role::User => {
                encoded.extend(message(
                    "user",
                    user_content(wired).or_else(|| Some(encoding::EMPTY_MESSAGE.into())),
                ));
            }
            Role::Assistant => encoded.extend(assistant_message(wired, names, dialect, is_current(index))),
            Role::Tool => encoded.extend(tool_messages(wired)),
        }
    }
    Some(encoded)
}

fn message(role: &str, content: Option<Value>) -> Vec<Value> {
    content.map(|content| json!({"role": role, "content": content})).into_iter().collect()
}

/// All texts joined, if there are any.
fn joined_text(message: &ModelMessage) -> Option<Value> {
    let texts: Vec<&str> = message.parts.iter().filter_map(text_of).collect();
    let text = texts.join("\n");
    (!text.is_empty()).then(|| text.into())
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

/// Encodes an assistant message. Reasoning is included only for servers that require it, and only in the current turn.
fn assistant_message(
    wired: &WireMessage<'_>,
    names: &ToolNames,
    dialect: Dialect,
    in_current_turn: bool,
) -> Vec<Value> {
    let mut content = wired.message.parts.iter().filter_map(text_of).map(str::to_owned).collect::<Vec<_>>();
    content.extend(wired.message.parts.iter().filter_map(placeholder_of));
    let text = (!content.is_empty()).then(|| content.join("\n"));
    let calls: Vec<Value> = wired
        .message
        .calls()
        .zip(&wired.call_ids)
        .map(|(call, id)| tool_call(call, id, names, dialect))
        .collect();
    if calls.is_empty() && text.is_none() {
        return Vec::new();
    }
    let reasoning = reasoning_text(wired.message)
        .filter(|_| dialect.echo == ReasoningEcho::Reasoning && in_current_turn && !calls.is_empty());
    let details = reasoning_details(wired.message).filter(|_| dialect.echo == ReasoningEcho::Details);
    vec![encoding::with_fields(
        json!({"role": "assistant", "content": text}),
        [
            ("reasoning_content", reasoning.map(Value::from)),
            ("reasoning_details", details.map(Value::from)),
            ("tool_calls", (!calls.is_empty()).then(|| calls.into())),
        ],
    )]
}

fn reasoning_details(message: &ModelMessage) -> Option<Vec<Value>> {
    message.parts.iter().find_map(|part| match part {
        MessagePart::Thought { signature, .. } => {
            signature.as_deref().and_then(ReasoningDetails::from_signature)
        }
        MessagePart::Text { .. } | MessagePart::Call(_) | MessagePart::Result(_) | MessagePart::Media(_) => {
            None
        }
    })
}

fn tool_call(call: &ToolCall, id: &str, names: &ToolNames, dialect: Dialect) -> Value {
    let arguments = Value::Object(call.args.clone()).to_string();
    let signature = call.signature.as_ref().filter(|_| dialect.echo == ReasoningEcho::Signatures);
    encoding::with_fields(
        json!({"id": id, "type": "function", "function": {"name": names.wire_name(&call.name), "arguments": arguments}}),
        [("extra_content", signature.map(|signature| json!({"google": {"thought_signature": signature}})))],
    )
}

fn reasoning_text(message: &ModelMessage) -> Option<String> {
    let thoughts = message.parts.iter().filter_map(|part| match part {
        MessagePart::Thought { text, .. } => Some(text.as_str()).filter(|text| !text.is_empty()),
        MessagePart::Text { .. } | MessagePart::Call(_) | MessagePart::Result(_) | MessagePart::Media(_) => {
            None
        }
    });
    let thoughts: Vec<&str> = thoughts.collect();
    (!thoughts.is_empty()).then(|| thoughts.join("\n"))
}

fn placeholder_of(part: &MessagePart) -> Option<String> {
    match part {
        MessagePart::Media(media) => Some(encoding::media_placeholder(media)),
        MessagePart::Text { .. }
        | MessagePart::Thought { .. }
        | MessagePart::Call(_)
        | MessagePart::Result(_) => None,
    }
}

/// One message per result. Files follow in a user message, because a tool message holds only text.
fn tool_messages(wired: &WireMessage<'_>) -> Vec<Value> {
    let mut messages: Vec<Value> = wired
        .results
        .iter()
        .map(|(id, result)| {
            json!({"role": "tool", "tool_call_id": id, "content": encoding::response_text(&result.response)})
        })
        .collect();
    messages.extend(message("user", user_content(wired)));
    messages
}

fn user_content(wired: &WireMessage<'_>) -> Option<Value> {
    let mut blocks: Vec<Value> = wired.message.parts.iter().filter_map(content_block).collect();
    blocks.extend(
        wired.unmatched.iter().map(|result| encoding::text_block(encoding::unmatched_result_text(result))),
    );
    match blocks.as_slice() {
        [] => None,
        // Many compatible servers accept only plain text.
        [only] if only["type"] == "text" => Some(only["text"].clone()),
        _ => Some(blocks.into()),
    }
}

fn content_block(part: &MessagePart) -> Option<Value> {
    match part {
        MessagePart::Text { .. } => text_of(part).map(encoding::text_block),
        MessagePart::Media(media) => Some(media_block(media)),
        MessagePart::Thought { .. } | MessagePart::Call(_) | MessagePart::Result(_) => None,
    }
}

/// Whether the file itself can be sent, and not only its name.
pub(crate) fn accepts_media(media: &Media) -> bool {
    media_block(media)["type"] != "text"
}

fn media_block(media: &Media) -> Value {
    let kind = media.mime_type.as_str();
    match &media.source {
        MediaSource::Uri(uri) if kind.starts_with("image/") && uri.starts_with("http") => {
            json!({"type": "image_url", "image_url": {"url": uri}})
        }
        MediaSource::Base64(data) => {
            let url = format!("data:{kind};base64,{data}");
            match kind {
                "image/png" | "image/jpeg" | "image/gif" | "image/webp" => {
                    json!({"type": "image_url", "image_url": {"url": url}})
                }
                "audio/wav" | "audio/x-wav" => {
                    json!({"type": "input_audio", "input_audio": {"data": data, "format": "wav"}})
                }
                "audio/mp3" | "audio/mpeg" => {
                    json!({"type": "input_audio", "input_audio": {"data": data, "format": "mp3"}})
                }
                "application/pdf" => {
                    let name = media.name.as_deref().unwrap_or("file.pdf");
                    json!({"type": "file", "file": {"filename": name, "file_data": url}})
                }
                _ => encoding::text_block(encoding::media_placeholder(media)),
            }
        }
        MediaSource::Uri(_) => encoding::text_block(encoding::media_placeholder(media)),
    }
}

#[cfg(test)]
mod tests;
