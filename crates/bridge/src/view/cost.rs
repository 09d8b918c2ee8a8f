//! Token cost of contents, messages and rows. Each part is counted once, in the form that the model receives.

use crate::view::tokens::estimate;
use adk::content::{Content, Data};
use provider::{Media, MediaSource, MessagePart, ModelMessage};
use serde_json::{Map, Value};
use session::{SessionMessage as Row, ToolCall};

/// Tokens that a provider adds around a message.
const FRAME: u32 = 4;
/// Tokens that a provider adds around a call or a result.
const CALL_FRAME: u32 = 6;
/// Approximate tokens of an image, whatever its size in bytes.
const IMAGE: u32 = 1_000;

/// Tokens of a content as it is stored. A tool result, which a row holds in two columns, counts once.
pub fn of_content(content: &Content) -> u32 {
    let parts = content.parts.iter().map(|part| match &part.data {
        Data::Text(text) => text.token_count(estimate),
        Data::FunctionCall(call) => of_call(&call.name, call.args.as_ref()),
        Data::FunctionResponse(response) => of_call(&response.name, response.response.as_ref()),
        Data::InlineData(blob) => of_file(blob.mime_type.as_deref(), || of_bytes(&blob.data)),
        Data::FileData(file) => of_file(file.mime_type.as_deref(), || estimate(&file.file_uri)),
        Data::Unknown if part.extra.is_empty() => 0,
        Data::Unknown => of_json(&part.extra),
    });
    parts.fold(FRAME, u32::saturating_add)
}

/// Tokens of a message in a request.
pub fn of_message(message: &ModelMessage) -> u32 {
    message.parts.iter().map(of_part).fold(FRAME, u32::saturating_add)
}

pub fn of_messages(messages: &[ModelMessage]) -> u32 {
    messages.iter().map(of_message).fold(0, u32::saturating_add)
}

pub(crate) fn of_part(part: &MessagePart) -> u32 {
    match part {
        MessagePart::Text { text, .. } | MessagePart::Thought { text, .. } => text.token_count(estimate),
        MessagePart::Call(call) => of_call(&call.name, Some(&call.args)),
        MessagePart::Result(result) => {
            let response = estimate(&result.response.to_string());
            CALL_FRAME.saturating_add(estimate(&result.name)).saturating_add(response)
        }
        MessagePart::Media(media) => of_media(media),
    }
}

pub(crate) fn of_media(media: &Media) -> u32 {
    of_file(Some(&media.mime_type), || match &media.source {
        MediaSource::Base64(data) => of_bytes(data),
        MediaSource::Uri(uri) => estimate(uri),
    })
}

/// Tokens of a row: its stored count, or an estimate from its columns if it has none. A tool result is in two columns
/// and counts once.
pub(crate) fn of_row(row: &Row) -> u32 {
    if !row.counted_by.is_empty() {
        return row.tokens;
    }
    let calls = row.tool_calls.iter().map(|call| {
        let body = estimate(&call.input).saturating_add(estimate(&call.output));
        CALL_FRAME.saturating_add(estimate(&call.name)).saturating_add(body)
    });
    let is_answer = row.tool_calls.iter().any(ToolCall::is_response);
    let content = if is_answer { 0 } else { estimate(&row.content) };
    calls.fold(FRAME.saturating_add(content), u32::saturating_add)
}

fn of_call(name: &str, json: Option<&Map<String, Value>>) -> u32 {
    CALL_FRAME.saturating_add(estimate(name)).saturating_add(json.map_or(0, of_json))
}

pub(crate) fn of_json(map: &Map<String, Value>) -> u32 {
    serde_json::to_string(map).map_or(0, |text| estimate(&text))
}

/// An image costs the same inline and by URI.
fn of_file(mime_type: Option<&str>, other: impl FnOnce() -> u32) -> u32 {
    if mime_type.is_some_and(|mime| mime.starts_with("image/")) { IMAGE } else { other() }
}

fn of_bytes(base64: &str) -> u32 {
    u32::try_from(base64.len() / 4).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use adk::content::FunctionResponse;
    use serde_json::json;

    #[test]
    fn tool_result_is_counted_once_although_its_row_holds_it_twice() {
        let answer = json!({"text": "word ".repeat(400)});
        let response = FunctionResponse {
            id: Some("c1".to_owned()),
            name: "read".to_owned(),
            response: answer.as_object().cloned(),
            extra: Map::new(),
        };
        let content = Content::new("user", vec![response.into()]);
        let once = FRAME + CALL_FRAME + estimate("read") + estimate(&answer.to_string());
        assert_eq!(of_content(&content), once);

        let event = adk::event::Event { content: Some(content), ..adk::event::Event::default() };
        let row = crate::store::row::save(&event).unwrap();
        assert_eq!(row.tokens, once);
        assert_eq!(of_row(&Row { counted_by: String::new(), tokens: 0, ..row }), once);
    }

    #[test]
    fn message_costs_as_much_as_its_content() {
        let call = json!({"functionCall": {"id": "1", "name": "read", "args": {"path": "a.txt"}}});
        let answer = json!({"functionResponse": {"id": "1", "name": "read", "response": {"x": [1, 2.5]}}});
        let image = json!({"inlineData": {"data": "AAAA", "mimeType": "image/png"}});
        for part in [json!({"text": "hello"}), call, answer, image] {
            let content = Content::new("model", vec![serde_json::from_value(part).unwrap()]);
            let target = provider::ModelId { provider: "p".to_owned(), model: "m".to_owned() };
            let messages = crate::view::messages::convert_content(&content, &target);
            assert_eq!(of_messages(&messages), of_content(&content));
        }
    }
}
