//! What a message weighs. Each piece is counted once, in the form in which a model is shown it.

use crate::tokens::estimate;
use adk::content::{Blob, Content, Data};
use provider::{MediaSource, Message, Part};
use serde_json::{Map, Value};

/// What a provider adds around a message.
const FRAME: u32 = 4;
/// What a provider adds around a call or a result.
const CALL_FRAME: u32 = 6;
/// What an image costs, about, whatever its bytes.
const IMAGE: u32 = 1_000;

/// The weight of a content as it is stored; a tool's answer, which a row holds twice, counts once.
pub fn of_content(content: &Content) -> u32 {
    let parts = content.parts.iter().map(|part| match &part.data {
        Data::Text(text) => estimate(text),
        Data::FunctionCall(call) => of_call(&call.name, call.args.as_ref()),
        Data::FunctionResponse(response) => of_call(&response.name, response.response.as_ref()),
        Data::InlineData(Blob { data, mime_type, .. }) => {
            of_bytes(mime_type.as_deref().unwrap_or_default(), data)
        }
        Data::FileData(file) => estimate(&file.file_uri),
        Data::Unknown if part.extra.is_empty() => 0,
        Data::Unknown => of_json(&part.extra),
    });
    parts.fold(FRAME, u32::saturating_add)
}

/// The weight of a message on its way out.
pub fn of_message(message: &Message) -> u32 {
    message.parts.iter().map(of_part).fold(FRAME, u32::saturating_add)
}

pub fn of_messages(messages: &[Message]) -> u32 {
    messages.iter().map(of_message).fold(0, u32::saturating_add)
}

pub(crate) fn of_part(part: &Part) -> u32 {
    match part {
        Part::Text { text, .. } | Part::Thought { text, .. } => estimate(text),
        Part::Call(call) => of_call(&call.name, Some(&call.args)),
        Part::Result(result) => {
            let response = estimate(&result.response.to_string());
            CALL_FRAME.saturating_add(estimate(&result.name)).saturating_add(response)
        }
        Part::Media(media) => match &media.source {
            MediaSource::Base64(data) => of_bytes(&media.mime_type, data),
            MediaSource::Uri(uri) => estimate(uri),
        },
    }
}

fn of_call(name: &str, json: Option<&Map<String, Value>>) -> u32 {
    CALL_FRAME.saturating_add(estimate(name)).saturating_add(json.map_or(0, of_json))
}

fn of_json(map: &Map<String, Value>) -> u32 {
    serde_json::to_string(map).map_or(0, |text| estimate(&text))
}

fn of_bytes(mime_type: &str, base64: &str) -> u32 {
    if mime_type.starts_with("image/") {
        return IMAGE;
    }
    u32::try_from(base64.len() / 4).unwrap_or(u32::MAX)
}
