//! Shortening what must stay: head and tail are kept, and a mark says how much is missing.

use super::notes;
use crate::view::{cost, tokens::estimate};
use provider::{Media, MessagePart, ModelMessage, Role};
use serde_json::{Map, Value};
use std::collections::HashSet;

/// The least that is left of a piece: the mark and a few words around it.
const LEAST: u32 = 32;

/// A text of at most so many tokens, by our estimate. A text that fits is left alone.
pub(super) fn text(text: &str, room: u32) -> String {
    cut(text, room, estimate)
}

/// An exchange that begins with the user, within the budget: old files give way first, then the largest pieces, then calls
/// with their answers; at last all that is left becomes one text.
pub(super) fn to(messages: Vec<ModelMessage>, budget: u32) -> Vec<ModelMessage> {
    if cost::of_messages(&messages) <= budget {
        return messages;
    }
    let mut messages = without_old_media(messages, budget / 4);
    let mut dropped = 0;
    loop {
        messages = messages.into_iter().map(plain).collect();
        let mark = MessagePart::text(format!("[{dropped} more calls and their answers are not shown]"));
        let mark = Some(mark).filter(|_| dropped > 0);
        let room = budget.saturating_sub(mark.as_ref().map_or(0, body));
        if let Some(level) = level(&messages, room) {
            return limited(messages, level, mark);
        }
        match drop_older_calls(&mut messages) {
            0 => return vec![told(&messages, budget)],
            more => dropped += more,
        }
    }
}

/// No piece weighs more than `level`; the mark stands at the end of the first message.
fn limited(mut messages: Vec<ModelMessage>, level: u32, mark: Option<MessagePart>) -> Vec<ModelMessage> {
    for part in messages.iter_mut().flat_map(|message| &mut message.parts) {
        limit(part, level);
    }
    if let Some(first) = messages.first_mut() {
        first.parts.extend(mark);
    }
    messages
}

/// The text with its middle left out, so that it weighs no more than `room`.
fn cut(text: &str, room: u32, weigh: impl Fn(&str) -> u32) -> String {
    let weight = weigh(text);
    if weight <= room {
        return text.to_owned();
    }
    let total = text.chars().count();
    // By proportion first, then smaller until it fits: not every letter weighs the same.
    let mut keep = total.saturating_mul(room as usize) / weight as usize;
    loop {
        let short = head_and_tail(text, total, keep);
        if keep == 0 || weigh(&short) <= room {
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

/// The newest files that fit into `room` stay.
fn without_old_media(mut messages: Vec<ModelMessage>, room: u32) -> Vec<ModelMessage> {
    let mut left = Some(room);
    for part in messages.iter_mut().rev().flat_map(|message| message.parts.iter_mut().rev()) {
        if let MessagePart::Media(media) = part {
            left = left.and_then(|left| left.checked_sub(cost::of_media(media)));
            if left.is_none() {
                *part = MessagePart::text(not_shown(media));
            }
        }
    }
    messages
}

fn not_shown(Media { name, mime_type, .. }: &Media) -> String {
    format!("[{} ({mime_type}) is too large to be shown here]", name.as_deref().unwrap_or("a file"))
}

/// Neighbouring texts become one. Reasoning and signatures go: they hold for the whole or not at all.
fn plain(message: ModelMessage) -> ModelMessage {
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

/// What each piece may weigh so that all fit: small ones stay whole, large ones share what is left. `None` if that is
/// less than [`LEAST`].
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

/// The weight of what can be shortened in a part.
fn body(part: &MessagePart) -> u32 {
    match part {
        MessagePart::Text { text, .. } => text.token_count(estimate),
        MessagePart::Call(call) => cost::of_json(&call.args),
        MessagePart::Result(result) => estimate(&result.response.to_string()),
        MessagePart::Thought { .. } | MessagePart::Media(_) => 0,
    }
}

fn limit(part: &mut MessagePart, level: u32) {
    if body(part) <= level {
        return;
    }
    match part {
        MessagePart::Text { text: long, .. } => *long = text(long, level).into(),
        MessagePart::Call(call) => {
            let full = Value::Object(std::mem::take(&mut call.args)).to_string();
            call.args = shortened(&full, level);
            call.signature = None;
        }
        MessagePart::Result(result) => {
            result.response = Value::Object(shortened(&result.response.to_string(), level));
        }
        MessagePart::Thought { .. } | MessagePart::Media(_) => {}
    }
}

/// JSON that says what the JSON was. Quotes inside quotes weigh more, so the whole is weighed.
fn shortened(json: &str, room: u32) -> Map<String, Value> {
    let wrap = |text: &str| Map::from_iter([("shortened".to_owned(), Value::from(text))]);
    wrap(&cut(json, room, |text| cost::of_json(&wrap(text))))
}

/// Takes the older half of the calls out of the exchange, with their answers, but never the last; says how many.
/// Halves: a thousand calls must not cost a thousand rounds.
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

/// All of it as one text.
fn told(messages: &[ModelMessage], budget: u32) -> ModelMessage {
    let parts = messages.iter().flat_map(|message| &message.parts);
    let texts: Vec<String> = parts.filter_map(in_words).collect();
    let empty = ModelMessage::new(Role::User, Vec::new());
    let room = budget.saturating_sub(cost::of_message(&empty));
    ModelMessage::text(Role::User, text(&texts.join("\n"), room))
}

fn in_words(part: &MessagePart) -> Option<String> {
    match part {
        MessagePart::Text { text, .. } => Some(text.to_string()),
        MessagePart::Call(call) => Some(notes::called(call)),
        MessagePart::Result(result) => Some(notes::answered(result)),
        MessagePart::Media(media) => Some(not_shown(media)),
        MessagePart::Thought { .. } => None,
    }
}

#[cfg(test)]
mod tests;
