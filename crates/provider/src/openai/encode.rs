//! A request as OpenAI's chat completions take it: one message per tool result, arguments as JSON text.

use crate::{
    Media, MediaSource, Message, Part, Request, Role, ToolSpec,
    ids::{self, Dialect, Wired},
    parts, schema,
};
use serde_json::{Value, json};

const IDS: Dialect = Dialect { longest: 40, accepts: |c| c.is_ascii_graphic() };

/// The longest description that is taken.
const DESCRIPTION: usize = 1024;

/// How many stop sequences are taken.
const STOPS: usize = 4;

pub fn encode(request: &Request, stream: bool) -> Value {
    let options = &request.options;
    let tools: Vec<Value> = request.tools.iter().map(tool).collect();
    let stops: Vec<&String> = options.stop.iter().filter(|stop| !stop.is_empty()).take(STOPS).collect();
    let format = options
        .response_schema
        .as_ref()
        .map(|schema| json!({"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}));
    parts::with(
        json!({"model": request.model, "messages": messages(&request.messages)}),
        [
            ("tools", (!tools.is_empty()).then(|| tools.into())),
            ("temperature", parts::within(options.temperature, 2.0)),
            ("top_p", parts::within(options.top_p, 1.0)),
            ("max_completion_tokens", options.max_output_tokens.map(Value::from)),
            ("stop", (!stops.is_empty()).then(|| json!(stops))),
            ("seed", options.seed.map(Value::from)),
            ("response_format", format),
            ("stream", stream.then(|| true.into())),
            ("stream_options", stream.then(|| json!({"include_usage": true}))),
        ],
    )
}

fn tool(tool: &ToolSpec) -> Value {
    json!({"type": "function", "function": {
        "name": ids::tool_name(&tool.name),
        "description": ids::cut(&tool.description, DESCRIPTION),
        "parameters": schema::parameters(&tool.parameters),
    }})
}

fn messages(messages: &[Message]) -> Vec<Value> {
    let encoded: Vec<Value> = ids::wire(messages, IDS).iter().flat_map(message).collect();
    if encoded.is_empty() { vec![json!({"role": "user", "content": parts::EMPTY})] } else { encoded }
}

fn message(wired: &Wired<'_>) -> Vec<Value> {
    match wired.message.role {
        Role::System => said("system", plain(wired.message)),
        Role::User => said("user", user_content(wired).or_else(|| Some(parts::EMPTY.into()))),
        Role::Assistant => assistant(wired),
        Role::Tool => answers(wired),
    }
}

fn said(role: &str, content: Option<Value>) -> Vec<Value> {
    content.map(|content| json!({"role": role, "content": content})).into_iter().collect()
}

/// All texts as one, if there are any.
fn plain(message: &Message) -> Option<Value> {
    let texts: Vec<&str> = message.parts.iter().filter_map(spoken).collect();
    let text = texts.join("\n");
    (!text.is_empty()).then(|| text.into())
}

fn spoken(part: &Part) -> Option<&str> {
    match part {
        Part::Text { text, .. } => Some(text.as_str()).filter(|text| !text.is_empty()),
        Part::Thought { .. } | Part::Call(_) | Part::Result(_) | Part::Media(_) => None,
    }
}

/// Thoughts are not sent: chat completions have no place for them.
fn assistant(wired: &Wired<'_>) -> Vec<Value> {
    let mut content = wired.message.parts.iter().filter_map(spoken).map(str::to_owned).collect::<Vec<_>>();
    content.extend(wired.message.parts.iter().filter_map(pictured));
    let text = (!content.is_empty()).then(|| content.join("\n"));
    let calls: Vec<Value> = wired.message.calls().zip(&wired.calls).map(|(call, id)| {
        let arguments = Value::Object(call.args.clone()).to_string();
        json!({"id": id, "type": "function", "function": {"name": ids::tool_name(&call.name), "arguments": arguments}})
    }).collect();
    if calls.is_empty() {
        return said("assistant", text.map(Value::from));
    }
    vec![json!({"role": "assistant", "content": text, "tool_calls": calls})]
}

fn pictured(part: &Part) -> Option<String> {
    match part {
        Part::Media(media) => Some(parts::media_text(media)),
        Part::Text { .. } | Part::Thought { .. } | Part::Call(_) | Part::Result(_) => None,
    }
}

/// One message per result; what else the tool gave follows as the user's, since a tool's message holds only text.
fn answers(wired: &Wired<'_>) -> Vec<Value> {
    let mut messages: Vec<Value> = wired
        .results
        .iter()
        .map(|(id, result)| {
            json!({"role": "tool", "tool_call_id": id, "content": parts::response_text(&result.response)})
        })
        .collect();
    messages.extend(said("user", user_content(wired)));
    messages
}

fn user_content(wired: &Wired<'_>) -> Option<Value> {
    let mut blocks: Vec<Value> = wired.message.parts.iter().filter_map(block).collect();
    blocks.extend(wired.loose.iter().map(|result| parts::text_block(parts::loose_text(result))));
    match blocks.as_slice() {
        [] => None,
        // Many compatible servers know only plain text.
        [only] if only["type"] == "text" => Some(only["text"].clone()),
        _ => Some(blocks.into()),
    }
}

fn block(part: &Part) -> Option<Value> {
    match part {
        Part::Text { .. } => spoken(part).map(parts::text_block),
        Part::Media(media) => Some(shown(media)),
        Part::Thought { .. } | Part::Call(_) | Part::Result(_) => None,
    }
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
                _ => parts::text_block(parts::media_text(media)),
            }
        }
        MediaSource::Uri(_) => parts::text_block(parts::media_text(media)),
    }
}

#[cfg(test)]
mod tests;
