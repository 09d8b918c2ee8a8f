//! A request as OpenAI's chat completions take it: one message per tool result, arguments as JSON text.

use super::{Dialect, ReasoningEcho, details::ReasoningDetails, strict};
use crate::{
    GenerationOptions, Media, MediaSource, MessagePart, ModelMessage, ModelRequest, ReasoningEffort, Role,
    ToolCall, ToolChoice, ToolSpec, encoding,
    tool_names::ToolNames,
    tool_schema,
    truncate::truncate_chars,
    wire_ids::{self, IdRules, WireMessage},
};
use serde_json::{Value, json};

const IDS: IdRules = IdRules { max_chars: 40, accepts: |c| c.is_ascii_graphic() };

/// The longest description that is taken.
const DESCRIPTION: usize = 1024;

/// How many stop sequences are taken.
const STOPS: usize = 4;

/// A request for OpenAI itself.
pub fn encode(request: &ModelRequest, stream: bool) -> Value {
    encode_for(request, stream, &Dialect::OPENAI)
}

pub fn encode_for(request: &ModelRequest, stream: bool, dialect: &Dialect) -> Value {
    let dialect = *dialect;
    let options = &request.options;
    let names = ToolNames::for_request(request);
    let tools: Vec<Value> = request.tools.iter().map(|offered| tool(offered, &names, dialect)).collect();
    let stops: Vec<&String> = options.stop.iter().filter(|stop| !stop.is_empty()).take(STOPS).collect();
    let choice = options.tool_choice.as_ref().and_then(|choice| tool_choice(choice, request, &names));
    let format = options.response_schema.as_ref().and_then(|schema| format(schema, dialect));
    let limit = if dialect.max_completion_tokens { "max_completion_tokens" } else { "max_tokens" };
    encoding::with_fields(
        json!({"model": request.model, "messages": messages(request, &names, dialect, format.is_none())}),
        [
            ("tools", (!tools.is_empty()).then(|| tools.into())),
            ("tool_choice", choice),
            ("temperature", encoding::clamped(options.temperature, 2.0)),
            ("top_p", encoding::clamped(options.top_p, 1.0)),
            (limit, options.max_output_tokens.map(Value::from)),
            ("stop", (!stops.is_empty()).then(|| json!(stops))),
            ("seed", options.seed.map(Value::from)),
            ("reasoning_effort", options.reasoning.map(|wish| effort(wish).into())),
            ("response_format", format),
            ("stream", stream.then(|| true.into())),
            ("stream_options", stream.then(|| json!({"include_usage": true}))),
        ],
    )
}

/// Settings that are set and have no place here: more stop sequences than are taken.
pub fn unsupported_options(options: &GenerationOptions) -> Vec<&'static str> {
    let stops = options.stop.iter().filter(|stop| !stop.is_empty()).count();
    (stops > STOPS).then_some("stop").into_iter().collect()
}

/// The nearest of OpenAI's levels; it takes no number of tokens.
pub(crate) fn effort(effort: ReasoningEffort) -> &'static str {
    match effort {
        ReasoningEffort::Off | ReasoningEffort::Tokens(0) => "none",
        ReasoningEffort::Minimal => "minimal",
        ReasoningEffort::Low | ReasoningEffort::Tokens(..=2048) => "low",
        ReasoningEffort::Medium | ReasoningEffort::Tokens(..=8192) => "medium",
        ReasoningEffort::High | ReasoningEffort::Tokens(_) => "high",
    }
}

fn tool(tool: &ToolSpec, names: &ToolNames, dialect: Dialect) -> Value {
    let parameters = tool_schema::parameters(&tool.parameters);
    let enforced = strict(&parameters).filter(|_| dialect.strict);
    let is_enforced = enforced.is_some().then(|| true.into());
    let function = json!({
        "name": names.wire_name(&tool.name),
        "description": truncate_chars(&tool.description, DESCRIPTION),
        "parameters": enforced.unwrap_or(parameters),
    });
    json!({"type": "function", "function": encoding::with_fields(function, [("strict", is_enforced)])})
}

/// A choice among no tools is refused, and so is a tool that is not on offer.
fn tool_choice(choice: &ToolChoice, request: &ModelRequest, names: &ToolNames) -> Option<Value> {
    let offered = |name: &String| request.tools.iter().any(|tool| tool.name == *name);
    let choice = match choice {
        ToolChoice::Auto => "auto".into(),
        ToolChoice::None => "none".into(),
        ToolChoice::Required => "required".into(),
        ToolChoice::Named(name) if offered(name) => {
            json!({"type": "function", "function": {"name": names.wire_name(name)}})
        }
        ToolChoice::Named(_) => return None,
    };
    (!request.tools.is_empty()).then_some(choice)
}

/// OpenAI itself takes only the schema of an object; any other is told in words.
fn format(schema: &Value, dialect: Dialect) -> Option<Value> {
    let enforced = strict(schema).filter(|_| dialect.strict);
    let is_enforced = enforced.is_some().then(|| true.into());
    let fits = !dialect.strict || schema["type"] == "object";
    let answer = json!({"name": "answer", "schema": enforced.unwrap_or_else(|| schema.clone())});
    fits.then(
        || json!({"type": "json_schema", "json_schema": encoding::with_fields(answer, [("strict", is_enforced)])}),
    )
}

fn messages(request: &ModelRequest, names: &ToolNames, dialect: Dialect, in_words: bool) -> Vec<Value> {
    let wish =
        request.options.response_schema.as_ref().filter(|_| in_words).map(encoding::schema_instruction);
    let turn = request.messages.iter().rposition(|message| message.role == Role::User).unwrap_or_default();
    let mut encoded: Vec<Value> = said("system", wish.map(Value::from));
    for (at, wired) in wire_ids::assign_wire_ids(&request.messages, IDS).iter().enumerate() {
        match wired.message.role {
            Role::System => encoded.extend(said("system", plain(wired.message))),
            Role::User => {
                encoded.extend(said(
                    "user",
                    user_content(wired).or_else(|| Some(encoding::EMPTY_MESSAGE.into())),
                ));
            }
            Role::Assistant => encoded.extend(assistant(wired, names, dialect, at > turn)),
            Role::Tool => encoded.extend(answers(wired)),
        }
    }
    if encoded.is_empty() {
        encoded.push(json!({"role": "user", "content": encoding::EMPTY_MESSAGE}));
    }
    encoded
}

fn said(role: &str, content: Option<Value>) -> Vec<Value> {
    content.map(|content| json!({"role": role, "content": content})).into_iter().collect()
}

/// All texts as one, if there are any.
fn plain(message: &ModelMessage) -> Option<Value> {
    let texts: Vec<&str> = message.parts.iter().filter_map(spoken).collect();
    let text = texts.join("\n");
    (!text.is_empty()).then(|| text.into())
}

fn spoken(part: &MessagePart) -> Option<&str> {
    match part {
        MessagePart::Text { text, .. } => Some(text.as_str()).filter(|text| !text.is_empty()),
        MessagePart::Thought { .. }
        | MessagePart::Call(_)
        | MessagePart::Result(_)
        | MessagePart::Media(_) => None,
    }
}

/// Thoughts are sent only where the server asks for them: while the turn that they belong to goes on.
fn assistant(wired: &WireMessage<'_>, names: &ToolNames, dialect: Dialect, goes_on: bool) -> Vec<Value> {
    let mut content = wired.message.parts.iter().filter_map(spoken).map(str::to_owned).collect::<Vec<_>>();
    content.extend(wired.message.parts.iter().filter_map(pictured));
    let text = (!content.is_empty()).then(|| content.join("\n"));
    let calls: Vec<Value> = wired
        .message
        .calls()
        .zip(&wired.call_ids)
        .map(|(asked, id)| call(asked, id, names, dialect))
        .collect();
    if calls.is_empty() && text.is_none() {
        return Vec::new();
    }
    let thoughts = thoughts(wired.message)
        .filter(|_| dialect.echo == ReasoningEcho::Reasoning && goes_on && !calls.is_empty());
    let details = details(wired.message).filter(|_| dialect.echo == ReasoningEcho::Details);
    vec![encoding::with_fields(
        json!({"role": "assistant", "content": text}),
        [
            ("reasoning_content", thoughts.map(Value::from)),
            ("reasoning_details", details.map(Value::from)),
            ("tool_calls", (!calls.is_empty()).then(|| calls.into())),
        ],
    )]
}

fn details(message: &ModelMessage) -> Option<Vec<Value>> {
    message.parts.iter().find_map(|part| match part {
        MessagePart::Thought { signature, .. } => signature.as_deref().and_then(ReasoningDetails::open),
        MessagePart::Text { .. } | MessagePart::Call(_) | MessagePart::Result(_) | MessagePart::Media(_) => {
            None
        }
    })
}

fn call(call: &ToolCall, id: &str, names: &ToolNames, dialect: Dialect) -> Value {
    let arguments = Value::Object(call.args.clone()).to_string();
    let signature = call.signature.as_ref().filter(|_| dialect.echo == ReasoningEcho::Signatures);
    encoding::with_fields(
        json!({"id": id, "type": "function", "function": {"name": names.wire_name(&call.name), "arguments": arguments}}),
        [("extra_content", signature.map(|signature| json!({"google": {"thought_signature": signature}})))],
    )
}

fn thoughts(message: &ModelMessage) -> Option<String> {
    let thoughts = message.parts.iter().filter_map(|part| match part {
        MessagePart::Thought { text, .. } => Some(text.as_str()).filter(|text| !text.is_empty()),
        MessagePart::Text { .. } | MessagePart::Call(_) | MessagePart::Result(_) | MessagePart::Media(_) => {
            None
        }
    });
    let thoughts: Vec<&str> = thoughts.collect();
    (!thoughts.is_empty()).then(|| thoughts.join("\n"))
}

fn pictured(part: &MessagePart) -> Option<String> {
    match part {
        MessagePart::Media(media) => Some(encoding::media_placeholder(media)),
        MessagePart::Text { .. }
        | MessagePart::Thought { .. }
        | MessagePart::Call(_)
        | MessagePart::Result(_) => None,
    }
}

/// One message per result; what else the tool gave follows as the user's, since a tool's message holds only text.
fn answers(wired: &WireMessage<'_>) -> Vec<Value> {
    let mut messages: Vec<Value> = wired
        .results
        .iter()
        .map(|(id, result)| {
            json!({"role": "tool", "tool_call_id": id, "content": encoding::response_text(&result.response)})
        })
        .collect();
    messages.extend(said("user", user_content(wired)));
    messages
}

fn user_content(wired: &WireMessage<'_>) -> Option<Value> {
    let mut blocks: Vec<Value> = wired.message.parts.iter().filter_map(block).collect();
    blocks.extend(
        wired.orphans.iter().map(|result| encoding::text_block(encoding::orphan_result_text(result))),
    );
    match blocks.as_slice() {
        [] => None,
        // Many compatible servers know only plain text.
        [only] if only["type"] == "text" => Some(only["text"].clone()),
        _ => Some(blocks.into()),
    }
}

fn block(part: &MessagePart) -> Option<Value> {
    match part {
        MessagePart::Text { .. } => spoken(part).map(encoding::text_block),
        MessagePart::Media(media) => Some(shown(media)),
        MessagePart::Thought { .. } | MessagePart::Call(_) | MessagePart::Result(_) => None,
    }
}

/// Whether the model is shown such a file, and not its name alone.
pub(crate) fn accepts_media(media: &Media) -> bool {
    shown(media)["type"] != "text"
}

fn shown(media: &Media) -> Value {
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
