//! Truncates texts, calls and results in the middle; a mark states how many characters are missing.

use super::notes;
use crate::view::{cost, tokens::estimate};
use provider::{Media, Message, Part, Role};
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
pub(super) fn exchange(messages: Vec<Message>, budget: u32) -> Vec<Message> {
    if cost::of_messages(&messages) <= budget {
        return messages;
    }
    let mut messages = without_old_media(messages, budget / 4);
    let mut dropped = 0;
    loop {
        messages = messages.into_iter().map(merge_texts).collect();
        let mark = Part::text(format!("[{dropped} more calls and their answers are not shown]"));
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
fn apply_level(mut messages: Vec<Message>, level: u32, mark: Option<Part>) -> Vec<Message> {
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
fn without_old_media(mut messages: Vec<Message>, room: u32) -> Vec<Message> {
    let mut left = Some(room);
    for part in messages.iter_mut().rev().flat_map(|message| message.parts.iter_mut().rev()) {
        if let Part::Media(media) = part {
            left = left.and_then(|left| left.checked_sub(cost::of_media(media)));
            if left.is_none() {
                *part = Part::text(omission_note(media));
            }
        }
    }
    messages
}

fn omission_note(Media { name, mime_type, .. }: &Media) -> String {
    format!("[{} ({mime_type}) is too large to be shown here]", name.as_deref().unwrap_or("a file"))
}

/// Merges adjacent texts. Reasoning and signatures are dropped: they are valid for unmodified messages only.
fn merge_texts(message: Message) -> Message {
    let mut parts: Vec<Part> = Vec::with_capacity(message.parts.len());
    for part in message.parts {
        match (parts.last_mut(), part) {
            (_, Part::Thought { .. }) => {}
            (Some(Part::Text { text: last, .. }), Part::Text { text, .. }) => {
                last.push_str("\n");
                last.push_str(&text);
            }
            (_, Part::Text { text, .. }) => parts.push(Part::text(text)),
            (_, part @ (Part::Call(_) | Part::Result(_) | Part::Media(_))) => parts.push(part),
        }
    }
    Message::new(message.role, parts)
}

/// The token limit per part with which all parts fit: small parts stay whole, large ones share the rest. `None` below
/// [`LEAST`].
fn level(messages: &[Message], budget: u32) -> Option<u32> {
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
fn body(part: &Part) -> u32 {
    match part {
        Part::Text { text, .. } => text.weight(estimate),
        Part::Call(call) => cost::of_json(&call.args),
        Part::Result(result) => estimate(&result.response.to_string()),
        Part::Thought { .. } | Part::Media(_) => 0,
    }
}

fn limit_part(part: &mut Part, level: u32) {
    if body(part) <= level {
        return;
    }
    match part {
        Part::Text { text: long, .. } => *long = text(long, level).into(),
        Part::Call(call) => {
            let full = Value::Object(std::mem::take(&mut call.args)).to_string();
            call.args = truncated_json(&full, level);
            call.signature = None;
        }
        Part::Result(result) => {
            result.response = Value::Object(truncated_json(&result.response.to_string(), level));
        }
        Part::Thought { .. } | Part::Media(_) => {}
    }
}

/// Wraps truncated JSON in an object. The whole object is measured, because quoting adds tokens.
fn truncated_json(json: &str, room: u32) -> Map<String, Value> {
    let wrap = |text: &str| Map::from_iter([("shortened".to_owned(), Value::from(text))]);
    wrap(&truncate_middle(json, room, |text| cost::of_json(&wrap(text))))
}

/// Removes the older half of the calls with their results and returns how many; never the last call. Halving keeps
/// the number of rounds logarithmic.
fn drop_older_calls(messages: &mut [Message]) -> usize {
    let ids: Vec<String> = messages.iter().flat_map(Message::calls).map(|call| call.id.clone()).collect();
    let gone: HashSet<&String> = ids.iter().take(ids.len() / 2).collect();
    for message in messages.iter_mut().filter(|_| !gone.is_empty()) {
        message.parts.retain(|part| match part {
            Part::Call(call) => !gone.contains(&call.id),
            Part::Result(result) => !gone.contains(&result.id),
            Part::Text { .. } | Part::Thought { .. } | Part::Media(_) => true,
        });
    }
    gone.len()
}

/// All parts as one truncated user message.
fn as_one_text(messages: &[Message], budget: u32) -> Message {
    let parts = messages.iter().flat_map(|message| &message.parts);
    let texts: Vec<String> = parts.filter_map(render_part).collect();
    let empty = Message::new(Role::User, Vec::new());
    let room = budget.saturating_sub(cost::of_message(&empty));
    Message::text(Role::User, text(&texts.join("\n"), room))
}

fn render_part(part: &Part) -> Option<String> {
    match part {
        Part::Text { text, .. } => Some(text.to_string()),
        Part::Call(call) => Some(notes::render_call(call)),
        Part::Result(result) => Some(notes::render_result(result)),
        Part::Media(media) => Some(omission_note(media)),
        Part::Thought { .. } => None,
    }
}

#[cfg(test)]
mod tests;
