//! A request as Ollama's `/api/chat` takes it.

use super::schema;
use crate::{
    GenerationOptions, Media, MediaSource, MessagePart, ModelMessage, ModelRequest, ReasoningEffort, Role,
    ToolChoice, ToolSpec, encoding,
    tool_names::ToolNames,
    wire_ids::{self, IdRules, WireMessage},
};
use serde_json::{Map, Value, json};
use shared_text::SharedText;

/// It takes any id; so long ones are not its own.
const IDS: IdRules = IdRules { max_chars: 64, accepts: |c| c.is_ascii_graphic() };

pub fn encode(request: &ModelRequest, stream: bool) -> Value {
    let options = &request.options;
    let names = ToolNames::for_request(request);
    let offered = request.tools.iter().filter(|_| options.tool_choice != Some(ToolChoice::None));
    let tools: Vec<Value> = offered.map(|offered| tool(offered, &names)).collect();
    // A model that is held to a format cannot call tools: then the wish is told in words.
    let (format, wish) = match &options.response_schema {
        Some(schema) if tools.is_empty() && schema.is_object() => (Some(schema.clone()), None),
        Some(schema) => (None, Some(encoding::schema_instruction(schema))),
        None => (None, None),
    };
    let settings = settings(options);
    encoding::with_fields(
        json!({"model": request.model, "messages": messages(&request.messages, &names, wish)}),
        [
            ("tools", (!tools.is_empty()).then(|| tools.into())),
            ("format", format),
            ("think", options.reasoning.map(think)),
            ("options", settings.as_object().is_some_and(|all| !all.is_empty()).then_some(settings)),
            // A stream is what comes where nothing is said.
            ("stream", Some(stream.into())),
        ],
    )
}

/// Settings that are set and have no place here. A choice of no tools is made by offering none.
pub fn unsupported_options(options: &GenerationOptions) -> Vec<&'static str> {
    match options.tool_choice {
        Some(ToolChoice::Required | ToolChoice::Named(_)) => vec!["tool_choice"],
        Some(ToolChoice::Auto | ToolChoice::None) | None => Vec::new(),
    }
}

fn settings(options: &GenerationOptions) -> Value {
    let stops: Vec<&String> = options.stop.iter().filter(|stop| !stop.is_empty()).collect();
    encoding::with_fields(
        Map::new().into(),
        [
            ("temperature", encoding::clamped(options.temperature, 2.0)),
            ("top_p", encoding::clamped(options.top_p, 1.0)),
            ("num_predict", options.max_output_tokens.map(Value::from)),
            ("stop", (!stops.is_empty()).then(|| json!(stops))),
            ("seed", options.seed.map(Value::from)),
        ],
    )
}

/// Models without levels take any level for yes.
fn think(effort: ReasoningEffort) -> Value {
    match effort {
        ReasoningEffort::Off | ReasoningEffort::Tokens(0) => false.into(),
        ReasoningEffort::Minimal | ReasoningEffort::Low | ReasoningEffort::Tokens(..=2048) => "low".into(),
        ReasoningEffort::Medium | ReasoningEffort::Tokens(..=8192) => "medium".into(),
        ReasoningEffort::High | ReasoningEffort::Tokens(_) => "high".into(),
    }
}

fn tool(tool: &ToolSpec, names: &ToolNames) -> Value {
    json!({"type": "function", "function": {
        "name": names.wire_name(&tool.name),
        "description": tool.description,
        "parameters": schema::parameters(&tool.parameters),
    }})
}

fn messages(messages: &[ModelMessage], names: &ToolNames, wish: Option<String>) -> Vec<Value> {
    let mut encoded: Vec<Value> = Vec::new();
    encoded.extend(wish.map(|wish| json!({"role": "system", "content": wish})));
    for wired in wire_ids::assign_wire_ids(messages, IDS) {
        match wired.message.role {
            Role::System => encoded.extend(said("system", &wired)),
            Role::User => encoded.push(
                said("user", &wired)
                    .unwrap_or_else(|| json!({"role": "user", "content": encoding::EMPTY_MESSAGE})),
            ),
            Role::Assistant => encoded.extend(spoken_by_model(&wired, names)),
            Role::Tool => {
                encoded.extend(answers(&wired, names));
                encoded.extend(said("user", &wired));
            }
        }
    }
    if encoded.is_empty() {
        encoded.push(json!({"role": "user", "content": encoding::EMPTY_MESSAGE}));
    }
    encoded
}

/// Words in one text, and the images beside it.
fn said(role: &str, wired: &WireMessage<'_>) -> Option<Value> {
    let mut texts: Vec<SharedText> = Vec::new();
    let mut images = Vec::new();
    for part in &wired.message.parts {
        match part {
            MessagePart::Text { text, .. } => texts.push(text.clone()),
            MessagePart::Media(media) => match image(media) {
                Some(data) => images.push(Value::from(data)),
                None => texts.push(encoding::media_placeholder(media).into()),
            },
            MessagePart::Thought { .. } | MessagePart::Call(_) | MessagePart::Result(_) => {}
        }
    }
    texts.extend(wired.orphans.iter().map(|result| encoding::orphan_result_text(result).into()));
    texts.retain(|text| !text.is_empty());
    let images = (!images.is_empty()).then(|| images.into());
    (!texts.is_empty() || images.is_some()).then(|| {
        encoding::with_fields(json!({"role": role, "content": texts.join("\n")}), [("images", images)])
    })
}

/// Whether the model is shown such a file, and not its name alone.
pub(crate) fn accepts_media(media: &Media) -> bool {
    image(media).is_some()
}

fn image(media: &Media) -> Option<&str> {
    match (&media.source, media.mime_type.as_str()) {
        (MediaSource::Base64(data), "image/png" | "image/jpeg" | "image/webp") => Some(data),
        (MediaSource::Base64(_) | MediaSource::Uri(_), _) => None,
    }
}

fn spoken_by_model(wired: &WireMessage<'_>, names: &ToolNames) -> Option<Value> {
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
    // Thoughts alone are no message.
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

/// Older servers know a result by the tool's name, newer ones by the id of its call.
fn answers(wired: &WireMessage<'_>, names: &ToolNames) -> Vec<Value> {
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
