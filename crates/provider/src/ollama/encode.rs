//! Encodes a request for Ollama's `/api/chat`.

use super::schema;
use crate::{
    GenerationOptions, Media, MediaSource, MessagePart, ModelRequest, ReasoningEffort, Role, ToolChoice,
    ToolSpec, WireApi, encoding,
    message_list::{ListEncoder, ListFormat, ListSection, ListState, split_system},
    openai::Dialect,
    tool_names::ToolNames,
    wire_ids::{IdRules, WireMessage},
};
use serde_json::{Map, Value, json};
use shared_text::SharedText;

/// Ollama accepts any id; longer ones come from other providers.
pub(crate) const IDS: IdRules = IdRules { max_chars: 64, accepts: |c| c.is_ascii_graphic() };

pub fn encode(request: &ModelRequest, stream: bool) -> Value {
    let request = &*request.with_all_messages();
    let names = ToolNames::for_request(request);
    let format = ListFormat::new(WireApi::Ollama, Dialect::COMPATIBLE, request);
    let encoder = ListEncoder { names: &names, format };
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

/// The tools that the model may call.
fn declared(request: &ModelRequest) -> impl Iterator<Item = &ToolSpec> {
    request.tools.iter().filter(|_| request.options.tool_choice != Some(ToolChoice::None))
}

/// The schema that the server enforces. A model with an enforced format cannot call tools; otherwise the schema becomes an
/// instruction.
fn enforced_schema(request: &ModelRequest) -> Option<&Value> {
    let schema = request.options.response_schema.as_ref();
    schema.filter(|schema| declared(request).next().is_none() && schema.is_object())
}

/// The body around a list of messages.
pub(crate) fn encode_around(
    request: &ModelRequest,
    stream: bool,
    encoder: &ListEncoder<'_>,
    messages: Value,
) -> Value {
    let options = &request.options;
    let tools: Vec<Value> = declared(request).map(|spec| tool_declaration(spec, encoder.names)).collect();
    let format = enforced_schema(request).cloned();
    let settings = model_options(options);
    encoding::with_fields(
        json!({"model": request.model}),
        [
            ("messages", Some(messages)),
            ("tools", (!tools.is_empty()).then(|| tools.into())),
            ("format", format),
            ("think", options.reasoning.map(think_level)),
            ("options", settings.as_object().is_some_and(|all| !all.is_empty()).then_some(settings)),
            // Ollama streams unless `stream` is false.
            ("stream", Some(stream.into())),
        ],
    )
}

/// The options that are set but not supported. `ToolChoice::None` is implemented by declaring no tools.
pub fn unsupported_options(options: &GenerationOptions) -> Vec<&'static str> {
    let choice = match options.tool_choice {
        Some(ToolChoice::Required | ToolChoice::Named(_)) => Some("tool_choice"),
        Some(ToolChoice::Auto | ToolChoice::None) | None => None,
    };
    let others = [
        options.safety_settings.as_ref().map(|_| "safety_settings"),
        // Several calls are the default.
        options.parallel_tool_calls.filter(|parallel| !parallel).map(|_| "parallel_tool_calls"),
        options.cache_key.as_ref().map(|_| "prompt_cache_key"),
    ];
    choice.into_iter().chain(others.into_iter().flatten()).collect()
}

fn model_options(options: &GenerationOptions) -> Value {
    let stops: Vec<&String> = options.stop.iter().filter(|stop| !stop.is_empty()).collect();
    encoding::with_fields(
        Map::new().into(),
        [
            ("temperature", encoding::clamped(options.temperature, 2.0)),
            ("top_p", encoding::clamped(options.top_p, 1.0)),
            ("top_k", options.top_k.map(Value::from)),
            ("presence_penalty", encoding::penalty(options.presence_penalty)),
            ("frequency_penalty", encoding::penalty(options.frequency_penalty)),
            ("num_predict", options.max_output_tokens.map(Value::from)),
            ("stop", (!stops.is_empty()).then(|| json!(stops))),
            ("seed", options.seed.map(Value::from)),
        ],
    )
}

/// Models without levels treat any level as `true`.
fn think_level(effort: ReasoningEffort) -> Value {
    match effort {
        ReasoningEffort::Off | ReasoningEffort::Tokens(0) => false.into(),
        ReasoningEffort::Minimal | ReasoningEffort::Low | ReasoningEffort::Tokens(..=2048) => "low".into(),
        ReasoningEffort::Medium | ReasoningEffort::Tokens(..=8192) => "medium".into(),
        ReasoningEffort::High | ReasoningEffort::Tokens(_) => "high".into(),
    }
}

fn tool_declaration(tool: &ToolSpec, names: &ToolNames) -> Value {
    json!({"type": "function", "function": {
        "name": names.wire_name(&tool.name),
        "description": tool.description,
        "parameters": schema::parameters(&tool.parameters),
    }})
}

/// The messages before the conversation: a schema as an instruction, and the system message.
pub(crate) fn encode_leading(request: &ModelRequest, encoder: &ListEncoder<'_>) -> Vec<Value> {
    let schema = request.options.response_schema.as_ref().filter(|_| enforced_schema(request).is_none());
    let instruction = schema.map(encoding::schema_instruction);
    let mut leading: Vec<Value> = instruction
        .map(|instruction| json!({"role": "system", "content": instruction}))
        .into_iter()
        .collect();
    let mut ids = encoder.format.initial_state().ids;
    let system = split_system(&request.messages).0;
    leading.extend(system.and_then(|system| text_message("system", &ids.assign(system))));
    leading
}

pub(crate) fn encode_list(
    encoder: &ListEncoder<'_>,
    state: &mut ListState,
    ListSection { messages, is_last: _ }: ListSection<'_>,
) -> Vec<Value> {
    let names = encoder.names;
    let mut encoded: Vec<Value> = Vec::new();
    for wired in messages.iter().map(|message| state.ids.assign(message)) {
        match wired.message.role {
            Role::System => encoded.extend(text_message("system", &wired)),
            Role::User => encoded.push(
                text_message("user", &wired)
                    .unwrap_or_else(|| json!({"role": "user", "content": encoding::EMPTY_MESSAGE})),
            ),
            Role::Assistant => encoded.extend(assistant_message(&wired, names)),
            Role::Tool => {
                encoded.extend(tool_messages(&wired, names));
                encoded.extend(text_message("user", &wired));
            }
        }
    }
    encoded
}

/// A message with all texts joined, and its images.
fn text_message(role: &str, wired: &WireMessage<'_>) -> Option<Value> {
    let mut texts: Vec<SharedText> = Vec::new();
    let mut images = Vec::new();
    for part in &wired.message.parts {
        match part {
            MessagePart::Text { text, .. } => texts.push(text.clone()),
            MessagePart::Media(media) => match image_data(media) {
                Some(data) => images.push(Value::from(data)),
                None => texts.push(encoding::media_placeholder(media).into()),
            },
            MessagePart::Thought { .. } | MessagePart::Call(_) | MessagePart::Result(_) => {}
        }
    }
    texts.extend(wired.unmatched.iter().map(|result| encoding::unmatched_result_text(result).into()));
    texts.retain(|text| !text.is_empty());
    let images = (!images.is_empty()).then(|| images.into());
    (!texts.is_empty() || images.is_some()).then(|| {
        encoding::with_fields(json!({"role": role, "content": texts.join("\n")}), [("images", images)])
    })
}

/// Whether the file itself can be sent, and not only its name.
pub(crate) fn accepts_media(media: &Media) -> bool {
    image_data(media).is_some()
}

fn image_data(media: &Media) -> Option<&str> {
    match (&media.source, media.mime_type.as_str()) {
        (MediaSource::Base64(data), "image/png" | "image/jpeg" | "image/webp") => Some(data),
        (MediaSource::Base64(_) | MediaSource::Uri(_), _) => None,
    }
}

fn assistant_message(wired: &WireMessage<'_>, names: &ToolNames) -> Option<Value> {
    let mut texts: Vec<SharedText> = Vec::new();
    let (mut thoughts, mut calls) = (Vec::new(), Vec::new());
    let mut ids = wired.call_ids.iter();
    for part in &wired.message.parts {
        match part {
            MessagePart::Text { text, .. } => texts.push(text.clone()),
            MessagePart::Thought { text, .. } => thoughts.push(text.as_str()),
            MessagePart::Call(call) => calls.extend(ids.next().map(
                |id| json!({"id": id, "function": {"name": names.wire_name(&call.name), "arguments": call.args}}),
            )),
            MessagePart::Media(media) => texts.push(encoding::media_placeholder(media).into()),
            MessagePart::Result(_) => {}
        }
    }
    texts.retain(|text| !text.is_empty());
    thoughts.retain(|text| !text.is_empty());
    // Ollama rejects a message that has only thoughts.
    (!texts.is_empty() || !calls.is_empty()).then(|| {
        encoding::with_fields(
            json!({"role": "assistant", "content": texts.join("\n")}),
            [
                ("thinking", (!thoughts.is_empty()).then(|| thoughts.join("\n").into())),
                ("tool_calls", (!calls.is_empty()).then(|| calls.into())),
            ],
        )
    })
}

/// Older servers match results by tool name, newer ones by call id.
fn tool_messages(wired: &WireMessage<'_>, names: &ToolNames) -> Vec<Value> {
    let answer = |(id, result): &(String, &crate::ToolResult)| {
        json!({
            "role": "tool",
            "tool_name": names.wire_name(&result.name),
            "tool_call_id": id,
            "content": encoding::response_text(&result.response),
        })
    };
    wired.results.iter().map(answer).collect()
}

#[cfg(test)]
mod tests;
