//! Shortening what must stay: head and tail are kept, and a mark says how much is missing.

use crate::{cost, tokens::estimate};
use provider::{Message, Part, ToolResult};
use serde_json::{Map, Value, json};
use std::collections::HashSet;

/// A text of at most so many tokens, by our estimate. A text that fits is left alone.
pub(super) fn text(text: &str, room: u32) -> String {
    if estimate(text) <= room {
        return text.to_owned();
    }
    let total = text.chars().count();
    // By proportion first, then smaller until it fits: the estimate is not the same for every letter.
    let mut keep = total * room as usize / estimate(text).max(1) as usize;
    loop {
        let short = head_and_tail(text, total, keep);
        if estimate(&short) <= room || keep == 0 {
            return short;
        }
        keep = keep * 4 / 5;
    }
}

fn head_and_tail(text: &str, total: usize, keep: usize) -> String {
    let (head, tail) = (keep - keep / 3, keep / 3);
    let start: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(total - tail).collect();
    format!("{start}[… {} of {total} characters left out …]{end}", total - head - tail)
}

/// The newest exchange within the budget: the largest pieces give way first, then pairs of calls and answers.
pub(super) fn newest(messages: Vec<Message>, budget: u32) -> Vec<Message> {
    let mut messages: Vec<Message> = messages.into_iter().map(plain).collect();
    let mut cap = budget / 2;
    while cost::of_messages(&messages) > budget && cap > 16 {
        for part in messages.iter_mut().flat_map(|message| &mut message.parts) {
            limit(part, cap);
        }
        cap = cap * 3 / 4;
    }
    let all = call_ids(&messages).len();
    while cost::of_messages(&messages) > budget && drop_older_pairs(&mut messages, all) {}
    while cost::of_messages(&messages) > budget && drop_oldest_part(&mut messages) {}
    messages
}

/// Neighbouring texts become one; reasoning goes first, because it cannot be shortened.
fn plain(message: Message) -> Message {
    let mut parts: Vec<Part> = Vec::new();
    for part in message.parts {
        match (parts.last_mut(), part) {
            (_, Part::Thought { .. }) => {}
            (Some(Part::Text { text: last, .. }), Part::Text { text, .. }) => {
                last.push('\n');
                last.push_str(&text);
            }
            (_, part) => parts.push(part),
        }
    }
    Message::new(message.role, parts)
}

fn limit(part: &mut Part, cap: u32) {
    if cost::of_part(part) <= cap {
        return;
    }
    match part {
        Part::Text { text: long, signature } => {
            *long = text(long, cap);
            *signature = None;
        }
        Part::Call(call) => {
            let short =
                text(&Value::Object(std::mem::take(&mut call.args)).to_string(), cap.saturating_sub(16));
            call.args = Map::from_iter([("shortened".to_owned(), Value::from(short))]);
        }
        Part::Result(ToolResult { response, .. }) => {
            let full = match &*response {
                Value::Object(map) if map.len() == 1 => {
                    map.get("shortened").and_then(Value::as_str).map(str::to_owned)
                }
                _ => None,
            };
            let full = full.unwrap_or_else(|| response.to_string());
            *response = json!({"shortened": text(&full, cap.saturating_sub(16))});
        }
        Part::Media(media) => {
            let name = media.name.as_deref().unwrap_or("a file");
            *part = Part::text(format!("[{name} ({}) is too large to be shown here]", media.mime_type));
        }
        Part::Thought { .. } => {}
    }
}

/// Takes the older half of the calls out of the exchange, with their answers; `false` if only one is left.
/// Halves: a thousand calls must not cost a thousand rounds.
fn drop_older_pairs(messages: &mut [Message], all: usize) -> bool {
    let calls = call_ids(messages);
    let Some(stay) = calls.len().checked_sub(calls.len().div_ceil(2)).filter(|_| calls.len() > 1) else {
        return false;
    };
    let gone: HashSet<&String> = calls.iter().take(calls.len() - stay).collect();
    for message in messages.iter_mut() {
        message.parts.retain(|part| match part {
            Part::Call(call) => !gone.contains(&call.id),
            Part::Result(result) => !gone.contains(&result.id),
            Part::Text { .. } | Part::Thought { .. } | Part::Media(_) => true,
        });
    }
    mark(messages, &format!("[{} more calls and their answers are not shown]", all - stay));
    true
}

fn call_ids(messages: &[Message]) -> Vec<String> {
    messages.iter().flat_map(|message| message.calls().map(|call| call.id.clone())).collect()
}

/// Puts a mark into the first message, in the place of an earlier mark.
fn mark(messages: &mut [Message], text: &str) {
    let Some(first) = messages.first_mut() else { return };
    first
        .parts
        .retain(|part| !matches!(part, Part::Text { text, .. } if text.ends_with("answers are not shown]")));
    first.parts.push(Part::text(text));
}

/// The last resort: parts of a message that has several.
fn drop_oldest_part(messages: &mut [Message]) -> bool {
    let several = messages.iter_mut().find(|message| {
        message.parts.len() > 1
            && message.parts.iter().any(|part| matches!(part, Part::Text { .. } | Part::Media(_)))
    });
    let Some(message) = several else { return false };
    let place = message.parts.iter().position(|part| matches!(part, Part::Text { .. } | Part::Media(_)));
    place.map(|place| message.parts.remove(place)).is_some()
}
