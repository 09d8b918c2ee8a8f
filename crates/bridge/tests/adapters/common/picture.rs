//! Renders logs and requests, one line per entry.

use super::{Fake, Shared, key};
use adk::{
    content::{Data, Part as AdkPart},
    event::Event,
    pending::REQUEST_CONFIRMATION,
};
use bridge::store::row::Restorer;
use provider::{MessagePart, ModelMessage, Role};
use serde_json::{Map, Value};
use session::{PageRequest, Seq};
use std::sync::Arc;

/// The whole log: author, then `text`, `→ call`, `← response` in their order within the event.
pub(crate) async fn log(store: &Shared) -> Vec<String> {
    let page = PageRequest { after: Seq::START, limit: 10_000, max_bytes: usize::MAX };
    let rows = store.read(&key(), page).await.unwrap();
    let mut restorer = Restorer::new("root");
    rows.iter().map(|row| line(&restorer.restore(row))).collect()
}

/// The events of a session object.
pub(crate) fn seen(events: &[Arc<Event>]) -> Vec<String> {
    events.iter().map(|event| line(event)).collect()
}

fn line(event: &Event) -> String {
    let parts = event.content.iter().flat_map(|content| &content.parts).map(adk_part);
    let parts: Vec<String> = parts.chain(event.error_code.iter().map(|code| format!("!{code}"))).collect();
    format!("{}: {}", event.author, parts.join(" "))
}

fn adk_part(part: &AdkPart) -> String {
    let json = |map: Option<&Map<String, Value>>| Value::from(map.cloned().unwrap_or_default()).to_string();
    match &part.data {
        Data::Text(text) if part.is_thought() => format!("({text})"),
        Data::Text(text) => text.to_string(),
        Data::FunctionCall(call) if call.name == REQUEST_CONFIRMATION => "→ask".to_owned(),
        Data::FunctionResponse(response) if response.name == REQUEST_CONFIRMATION => "←answer".to_owned(),
        Data::FunctionCall(call) => {
            format!("→{}#{}{}", call.name, call.id.as_deref().unwrap_or_default(), json(call.args.as_ref()))
        }
        Data::FunctionResponse(response) => {
            let id = response.id.as_deref().unwrap_or_default();
            format!("←{}#{id}{}", response.name, json(response.response.as_ref()))
        }
        Data::InlineData(_) | Data::FileData(_) => "[file]".to_owned(),
        Data::Unknown => "[?]".to_owned(),
    }
}

/// The messages of the newest request.
pub(crate) fn last_request(model: &Fake) -> Vec<String> {
    messages(&model.last_request().messages)
}

pub(crate) fn messages(messages: &[ModelMessage]) -> Vec<String> {
    messages.iter().map(message).collect()
}

fn message(message: &ModelMessage) -> String {
    let role = match message.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    };
    let parts: Vec<String> = message.parts.iter().map(part).collect();
    format!("{role}: {}", parts.join(" "))
}

fn part(part: &MessagePart) -> String {
    match part {
        MessagePart::Text { text, .. } => text.to_string(),
        MessagePart::Thought { text, .. } => format!("({text})"),
        MessagePart::Call(call) => format!("→{}#{}{}", call.name, call.id, Value::from(call.args.clone())),
        MessagePart::Result(result) => format!("←{}#{}{}", result.name, result.id, result.response),
        MessagePart::Media(_) => "[file]".to_owned(),
    }
}
