//! Truncates texts, calls and results in the middle; a mark states how many characters are missing.

use super::notes;
use crate::view::{cost, tokens::estimate};
use provider::{Media, MessagePart, ModelMessage, Role};
use serde_json::{Map, Value};
use std::collections::HashSet;

/// Minimum size of a truncated text: the mark and a few words around it.
const LEAST: u32 = 32;

/// Truncates a text to `room` tokens. A text that fits is unchanged.
pub(super) fn text(text: &str, room: u32) -> String {
    truncate_middle(text, room, estimate)
}

/// Fits an exchange that starts with the user into the budget. Old media are replaced first, then the largest parts
/// are truncated, then calls are removed with their results; as a last resort everything becomes one truncated text.
pub(super) fn exchange(messages: Vec<ModelMessage>, budget: u32) -> Vec<ModelMessage> {
    if cost::of_messages(&messages) <= budget {
        return messages;
    }
    let mut messages = without_old_media(messages, budget / 4);
    let mut dropped = 0;
    loop {
        messages = messages.into_iter().map(merge_texts).collect();
        let mark = MessagePart::text(format!("[{dropped} more calls and their answers are not shown]"));
        let mark = Some(mark).filter(|_| dropped > 0);
        let room = budget.saturating_sub(mark.as_ref().map_or(0, body));
        if let Some(level) = level(&messages, room) {
            return apply_level(messages, level, mark);
        }
        match drop_older_calls(&mut messages) {
            0 => return vec![as_one_text(&messages, budget)],
            more => dropped += more,
        }
    }
}

/// Truncates every part to `level` tokens and appends the mark to the first message.
fn apply_level(mut messages: Vec<ModelMessage>, level: u32, mark: Option<MessagePart>) -> Vec<ModelMessage> {
    for part in messages.iter_mut().flat_map(|message| &mut message.parts) {
        limit_part(part, level);
    }
    if let Some(first) = messages.first_mut() {
        first.parts.extend(mark);
    }
    messages
}

/// Removes the middle of a text, so that it costs at most `room`.
fn truncate_middle(text: &str, room: u32, count: impl Fn(&str) -> u32) -> String {
    let weight = count(text);
    if weight <= room {
        return text.to_owned();
    }
    let total = text.chars().count();
    // In proportion first, then smaller until it fits: characters differ in cost.
    let mut keep = total.saturating_mul(room as usize) / weight as usize;
    loop {
        let short = head_and_tail(text, total, keep);
        if keep == 0 || count(&short) <= room {
            return short;
        }
        keep = keep * 4 / 5;
    }
}

fn head_and_tail(text: &str, total: usize, keep: usize) -> String {
    let (head, tail) = (keep - keep / 3, keep / 3);
    let start = text.char_indices().nth(head).map_or(text.len(), |(at, _)| at);
    let end = tail.checked_sub(1).and_then(|last| text.char_indices().nth_back(last));
    let end = end.map_or(text.len(), |(at, _)| at);
    format!("{}[… {} of {total} characters left out …]{}", &text[..start], total - keep, &text[end..])
}

/// Keeps the newest media that fit into `room`.
fn without_old_media(mut messages: Vec<ModelMessage>, room: u32) -> Vec<ModelMessage> {
    let mut left = Some(room);
    for part in messages.iter_mut().rev().flat_map(|message| message.parts.iter_mut().rev()) {
        if let MessagePart::Media(media) = part {
            left = left.and_then(|left| left.checked_sub(cost::of_media(media)));
            if left.is_none() {
                *part = MessagePart::text(omission_note(media));
            }
        }
    }
    messages
}

fn omission_note(Media { name, mime_type, .. }: &Media) -> String {
    format!("[{} ({mime_type}) is too large to be shown here]", name.as_deref().unwrap_or("a file"))
}

/// Merges adjacent texts. Reasoning and signatures are dropped: they are valid for unmodified messages only.
fn merge_texts(message: ModelMessage) -> ModelMessage {
    let mut parts: Vec<MessagePart> = Vec::with_capacity(message.parts.len());
    for part in message.parts {
        match (parts.last_mut(), part) {
            (_, MessagePart::Thought { .. }) => {}
            (Some(MessagePart::Text { text: last, .. }), MessagePart::Text { text, .. }) => {
                last.push_str("\n");
                last.push_str(&text);
            }
            (_, MessagePart::Text { text, .. }) => parts.push(MessagePart::text(text)),
            (_, part @ (MessagePart::Call(_) | MessagePart::Result(_) | MessagePart::Media(_))) => {
                parts.push(part);
            }
        }
    }
    ModelMessage::new(message.role, parts)
}

/// The token limit per part with which all parts fit: small parts stay whole, large ones share the rest. `None` below
/// [`LEAST`].
fn level(messages: &[ModelMessage], budget: u32) -> Option<u32> {
    let bodies = messages.iter().flat_map(|message| &message.parts).map(body);
    let mut bodies: Vec<u32> = bodies.collect();
    let all = bodies.iter().copied().fold(0, u32::saturating_add);
    let frames = cost::of_messages(messages).saturating_sub(all);
    let mut room = budget.checked_sub(frames)?;
    bodies.sort_unstable();
    for (index, &body) in bodies.iter().enumerate() {
        let share = room / u32::try_from(bodies.len() - index).ok()?;
        if body > share {
            return Some(share).filter(|&share| share >= LEAST);
        }
        room -= body;
    }
    Some(u32::MAX)
}

/// The tokens of a part that can be truncated.
fn body(part: &MessagePart) -> u32 {
    match part {
        MessagePart::Text { text, .. } => text.token_count(estimate),
        MessagePart::Call(call) => cost::of_json(&call.args),
        MessagePart::Result(result) => estimate(&result.response.to_string()),
        MessagePart::Thought { .. } | MessagePart::Media(_) => 0,
    }
}

fn limit_part(part: &mut MessagePart, level: u32) {
    if body(part) <= level {
        return;
    }
    match part {
        MessagePart::Text { text: long, .. } => *long = text(long, level).into(),
        MessagePart::Call(call) => {
            let full = Value::Object(std::mem::take(&mut call.args)).to_string();
            call.args = truncated_json(&full, level);
            call.signature = None;
        }
        MessagePart::Result(result) => {
            result.response = Value::Object(truncated_json(&result.response.to_string(), level));
        }
        MessagePart::Thought { .. } | MessagePart::Media(_) => {}
    }
}

/// Wraps truncated JSON in an object. The whole object is measured, because quoting adds tokens.
fn truncated_json(json: &str, room: u32) -> Map<String, Value> {
    let wrap = |text: &str| Map::from_iter([("shortened".to_owned(), Value::from(text))]);
    wrap(&truncate_middle(json, room, |text| cost::of_json(&wrap(text))))
}

/// Removes the older half of the calls with their results and returns how many; never the last call. Halving keeps
/// the number of rounds logarithmic.
fn drop_older_calls(messages: &mut [ModelMessage]) -> usize {
    let ids: Vec<String> =
        messages.iter().flat_map(ModelMessage::calls).map(|call| call.id.clone()).collect();
    let gone: HashSet<&String> = ids.iter().take(ids.len() / 2).collect();
    for message in messages.iter_mut().filter(|_| !gone.is_empty()) {
        message.parts.retain(|part| match part {
            MessagePart::Call(call) => !gone.contains(&call.id),
            MessagePart::Result(result) => !gone.contains(&result.id),
            MessagePart::Text { .. } | MessagePart::Thought { .. } | MessagePart::Media(_) => true,
        });
    }
    gone.len()
}

/// All parts as one truncated user message.
fn as_one_text(messages: &[ModelMessage], budget: u32) -> ModelMessage {
    let parts = messages.iter().flat_map(|message| &message.parts);
    let texts: Vec<String> = parts.filter_map(render_part).collect();
    let empty = ModelMessage::new(Role::User, Vec::new());
    let room = budget.saturating_sub(cost::of_message(&empty));
    ModelMessage::text(Role::User, text(&texts.join("\n"), room))
}

fn render_part(part: &MessagePart) -> Option<String> {
    match part {
        MessagePart::Text { text, .. } => Some(text.to_string()),
        MessagePart::Call(call) => Some(notes::render_call(call)),
        MessagePart::Result(result) => Some(notes::render_result(result)),
        MessagePart::Media(media) => Some(omission_note(media)),
        MessagePart::Thought { .. } => None,
    }
}

#[cfg(test)]
mod tests;
