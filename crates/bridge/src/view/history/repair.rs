//! Makes any sequence of messages legal: calls and results paired within their turn, alternating roles, no empty
//! messages, a user message first and last. No text is dropped.
//!
//! Dangling tool calls, which have no result, get the result "interrupted"; a result without its call becomes text. This changes
//! the request only; `adk::flow::settle` closes open calls in the log.

use super::notes::{self, EARLIER, PLEASE_CONTINUE};
use crate::view::ids::UsedIds;
use adk::notes::INTERRUPTED_CALL;
use provider::{MessagePart, ModelMessage, Role, ToolResult};
use serde_json::{Value, json};
use std::{
    borrow::Cow,
    collections::{HashMap, VecDeque},
};

/// Makes messages legal for every provider. Legal messages are returned unchanged.
pub fn repair(messages: Vec<ModelMessage>) -> Vec<ModelMessage> {
    if is_plain(&messages) {
        return framed_by_user(messages);
    }
    let mut repaired = RepairedHistory::default();
    for message in messages {
        repaired.push(message);
    }
    repaired.finish()
}

/// As [`repair`], for messages that others follow. `None` unless the last one is the assistant's, so that the next one neither
/// joins nor changes it.
pub fn repair_beginning(messages: Vec<ModelMessage>) -> Option<Vec<ModelMessage>> {
    let mut repaired = RepairedHistory::default();
    for message in messages {
        repaired.push(message);
    }
    repaired.close();
    let mut messages = repaired.messages;
    let ends = messages.last().is_some_and(|last| last.role == Role::Assistant);
    begin_with_user(&mut messages);
    ends.then_some(messages)
}

/// As [`repair_beginning`], for messages that follow others. `None` unless they begin with the user's.
pub fn repair_continuation(messages: Vec<ModelMessage>) -> Option<Vec<ModelMessage>> {
    let messages = repair_beginning(messages)?;
    let is_note = |part: &MessagePart| matches!(part, MessagePart::Text { text, note: true, .. } if text.as_str() == EARLIER);
    messages.first().is_some_and(|first| !first.parts.iter().all(is_note)).then_some(messages)
}

/// Fast path: whether user and assistant alternate with text alone, as in most histories.
fn is_plain(messages: &[ModelMessage]) -> bool {
    let words = |part: &MessagePart| matches!(part, MessagePart::Text { text, signature: None, .. } if has_text(text));
    let begins_with_user = messages.first().is_some_and(|first| first.role == Role::User);
    let in_turn = [Role::User, Role::Assistant].into_iter().cycle().skip(usize::from(!begins_with_user));
    messages.iter().zip(in_turn).all(|(message, role)| {
        message.role == role && !message.parts.is_empty() && message.parts.iter().all(words)
    })
}

/// Ensures that the first message is the user's and that the last is not the assistant's.
fn framed_by_user(mut messages: Vec<ModelMessage>) -> Vec<ModelMessage> {
    begin_with_user(&mut messages);
    if messages.last().is_some_and(|last| last.role == Role::Assistant) {
        messages.push(ModelMessage::new(Role::User, vec![MessagePart::note(PLEASE_CONTINUE)]));
    }
    messages
}

fn begin_with_user(messages: &mut Vec<ModelMessage>) {
    if messages.first().is_none_or(|first| first.role != Role::User) {
        messages.insert(0, ModelMessage::new(Role::User, vec![MessagePart::note(EARLIER)]));
    }
}

#[derive(Default)]
struct RepairedHistory {
    messages: Vec<ModelMessage>,
    /// The calls of the last message.
    open: Vec<OpenCall>,
    /// Indexes into `open` by id, for the next result with that id. Duplicate ids have several.
    positions: HashMap<String, VecDeque<usize>>,
    /// Results without a call. Deferred, so that they do not split the exchange in progress.
    unmatched: Vec<MessagePart>,
}

/// A call with its result, once that was seen.
struct OpenCall {
    id: String,
    name: String,
    answer: Option<Value>,
}

impl RepairedHistory {
    fn push(&mut self, message: ModelMessage) {
        // Filtered in place: most messages are unchanged.
        let kept = message.parts.into_iter().filter_map(|part| match part {
            MessagePart::Result(result) => {
                self.answer(*result);
                None
            }
            part => is_nonempty(&part).then_some(part),
        });
        let kept: Vec<MessagePart> = kept.collect();
        match message.role {
            Role::Assistant => self.push_assistant(kept),
            Role::User | Role::Tool | Role::System => self.push_user(kept),
        }
    }

    /// The last result for a call of the current exchange wins; a result without a call becomes text.
    fn answer(&mut self, result: ToolResult) {
        let position = self.positions.get_mut(&*id_or_name(&result.id, &result.name)).and_then(next_position);
        match position.and_then(|position| self.open.get_mut(position)) {
            Some(open) => open.answer = Some(result.response),
            None => self.unmatched.push(MessagePart::note(notes::render_result(&result))),
        }
    }

    fn push_user(&mut self, parts: Vec<MessagePart>) {
        let parts: Vec<MessagePart> = parts.into_iter().filter_map(to_user_part).collect();
        if !parts.is_empty() {
            self.close();
            self.append(Role::User, parts);
        }
    }

    /// A message with thoughts alone is dropped: the message that follows repeats them.
    fn push_assistant(&mut self, mut parts: Vec<MessagePart>) {
        if !parts.iter().any(is_visible) {
            return;
        }
        self.close();
        self.open_calls(&mut parts);
        self.append(Role::Assistant, parts);
    }

    /// Call ids are unique within a message.
    fn open_calls(&mut self, parts: &mut [MessagePart]) {
        let mut used = UsedIds::default();
        for part in parts {
            let MessagePart::Call(call) = part else { continue };
            let id = id_or_name(&call.id, &call.name).into_owned();
            call.id = used.unique(id.clone());
            self.positions.entry(id).or_default().push_back(self.open.len());
            self.open.push(OpenCall { id: call.id.clone(), name: call.name.clone(), answer: None });
        }
    }

    /// Ends the exchange in progress: every call gets a result, in the order of the calls.
    fn close(&mut self) {
        self.positions.clear();
        let results: Vec<MessagePart> = self.open.drain(..).map(result_part).collect();
        let unmatched = std::mem::take(&mut self.unmatched);
        self.append(Role::Tool, results);
        self.append(Role::User, unmatched);
    }

    /// Consecutive parts of one role form one message.
    fn append(&mut self, role: Role, parts: Vec<MessagePart>) {
        match self.messages.last_mut() {
            _ if parts.is_empty() => {}
            Some(last) if last.role == role => last.parts.extend(parts),
            Some(_) | None => self.messages.push(ModelMessage::new(role, parts)),
        }
    }

    fn finish(mut self) -> Vec<ModelMessage> {
        self.close();
        framed_by_user(self.messages)
    }
}

/// With duplicate ids, each result is assigned to the next call; further results replace the last.
fn next_position(positions: &mut VecDeque<usize>) -> Option<usize> {
    if positions.len() > 1 { positions.pop_front() } else { positions.front().copied() }
}

fn result_part(OpenCall { id, name, answer }: OpenCall) -> MessagePart {
    let response = answer.unwrap_or_else(|| json!({"error": INTERRUPTED_CALL}));
    MessagePart::from(ToolResult { id, name, response })
}

fn id_or_name<'a>(id: &'a str, name: &str) -> Cow<'a, str> {
    if id.is_empty() { Cow::Owned(format!("call_{name}")) } else { Cow::Borrowed(id) }
}

/// Stops at the first letter, while `trim` also scans the end: a history has many texts.
fn has_text(text: &str) -> bool {
    text.chars().any(|letter| !letter.is_whitespace())
}

fn is_nonempty(part: &MessagePart) -> bool {
    match part {
        MessagePart::Text { signature, .. } | MessagePart::Thought { signature, .. }
            if signature.is_some() =>
        {
            true
        }
        MessagePart::Text { text, .. } | MessagePart::Thought { text, .. } => has_text(text),
        MessagePart::Call(call) => !call.name.is_empty(),
        MessagePart::Result(_) | MessagePart::Media(_) => true,
    }
}

/// Whether a part is visible to a reader. Some models sign an empty text.
fn is_visible(part: &MessagePart) -> bool {
    match part {
        MessagePart::Text { text, .. } => has_text(text),
        MessagePart::Thought { .. } => false,
        MessagePart::Call(_) | MessagePart::Result(_) | MessagePart::Media(_) => true,
    }
}

/// Only the assistant may think, sign and call tools: in a user message, a call becomes text.
fn to_user_part(part: MessagePart) -> Option<MessagePart> {
    match part {
        MessagePart::Text { text, note, .. } => {
            has_text(&text).then_some(MessagePart::Text { text, signature: None, note })
        }
        MessagePart::Thought { .. } => None,
        MessagePart::Call(call) => Some(MessagePart::note(notes::render_call(&call))),
        MessagePart::Result(_) | MessagePart::Media(_) => Some(part),
    }
}

#[cfg(test)]
mod tests;
