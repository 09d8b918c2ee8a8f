//! Renders messages for test snapshots, one line each.

use provider::{MediaSource, MessagePart, ModelMessage, Role, ToolCall, ToolResult};
use serde_json::{Value, json};

pub(super) fn shape(messages: &[ModelMessage]) -> String {
    messages.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn line(message: &ModelMessage) -> String {
    let role = match message.role {
        Role::System => "system",
        Role::User => "user ",
        Role::Assistant => "agent",
        Role::Tool => "tool ",
    };
    format!("{role} {}", message.parts.iter().map(render_part).collect::<Vec<_>>().join(" | "))
}

fn render_part(part: &MessagePart) -> String {
    match part {
        MessagePart::Text { text, signature, .. } => {
            format!("{}{}", brief(text), signature_mark(signature.as_ref()))
        }
        MessagePart::Thought { text, signature } => {
            format!("({}){}", brief(text), signature_mark(signature.as_ref()))
        }
        MessagePart::Call(call) => {
            let args = brief(&Value::Object(call.args.clone()).to_string());
            format!("→ {}#{} {args}{}", call.name, call.id, signature_mark(call.signature.as_ref()))
        }
        MessagePart::Result(result) => {
            format!("← {}#{} {}", result.name, result.id, brief(&result.response.to_string()))
        }
        MessagePart::Media(media) => match &media.source {
            MediaSource::Base64(data) => format!("<{} {} bytes>", media.mime_type, data.len()),
            MediaSource::Uri(uri) => format!("<{} {uri}>", media.mime_type),
        },
    }
}

fn signature_mark(signature: Option<&String>) -> &'static str {
    signature.map_or("", |_| "*")
}

/// Long texts: both ends, and the truncation mark if there is one. Its count depends on the estimate and is rendered
/// as `n`.
fn brief(text: &str) -> String {
    let text = text.replace('\n', "⏎");
    let letters: Vec<char> = text.chars().collect();
    if letters.len() <= 160 {
        return text;
    }
    let marked = text.split_once("[… ").and_then(|(_, mark)| mark.split_once("…]"));
    let mark = marked.map(|(mark, _)| mark.trim_start_matches(|letter: char| letter.is_ascii_digit()));
    let mark = mark.map_or_else(String::new, |mark| format!("[… n{mark}…]"));
    let head: String = letters[..24].iter().collect();
    let tail: String = letters[letters.len() - 16..].iter().collect();
    format!("{head} ~{mark}~ {tail}")
}

pub(super) fn user(text: &str) -> ModelMessage {
    ModelMessage::text(Role::User, text)
}

pub(super) fn note(text: impl Into<shared_text::SharedText>) -> ModelMessage {
    ModelMessage::new(Role::User, vec![MessagePart::note(text)])
}

pub(super) fn agent(text: &str) -> ModelMessage {
    ModelMessage::text(Role::Assistant, text)
}

/// The assistant calls the tool `look` once per id.
pub(super) fn calls(ids: &[&str]) -> ModelMessage {
    ModelMessage::new(Role::Assistant, ids.iter().map(|id| call(id)).collect())
}

pub(super) fn call(id: &str) -> MessagePart {
    let args = serde_json::Map::from_iter([("at".to_owned(), json!(1))]);
    MessagePart::from(ToolCall { id: id.to_owned(), name: "look".to_owned(), args, ..ToolCall::default() })
}

/// Results of `look`, each with a text.
pub(super) fn answers(answers: &[(&str, &str)]) -> ModelMessage {
    let result = |(id, text): &(&str, &str)| {
        MessagePart::from(ToolResult {
            id: (*id).to_owned(),
            name: "look".to_owned(),
            response: json!({"result": text}),
        })
    };
    ModelMessage::new(Role::Tool, answers.iter().map(result).collect())
}

pub(super) fn thought(text: &str) -> MessagePart {
    MessagePart::Thought { text: text.into(), signature: Some("c2ln".to_owned()) }
}
