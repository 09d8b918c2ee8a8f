//! Whatever the log holds, the messages are legal: calls and answers paired inside their turn, roles in turn, nothing
//! empty, a user first and a question last. Nothing that was said is dropped on the way.

use super::notes::{self, EARLIER, GO_ON};
use crate::view::ids::UsedIds;
use adk::notes::INTERRUPTED_CALL;
use provider::{MessagePart, ModelMessage, Role, ToolResult};
use serde_json::{Value, json};
use std::{
    borrow::Cow,
    collections::{HashMap, VecDeque},
};

/// Makes messages legal for every provider. Messages that are legal already come out as they went in.
pub fn repair(messages: Vec<ModelMessage>) -> Vec<ModelMessage> {
    if is_plain(&messages) {
        return between_users(messages);
    }
    let mut healed = Healed::default();
    for message in messages {
        healed.take(message);
    }
    healed.finish()
}

/// Whether the user and the assistant speak in turn, and in words alone. Most histories do.
fn is_plain(messages: &[ModelMessage]) -> bool {
    let words = |part: &MessagePart| matches!(part, MessagePart::Text { text, signature: None, .. } if has_words(text));
    let begins_with_user = messages.first().is_some_and(|first| first.role == Role::User);
    let in_turn = [Role::User, Role::Assistant].into_iter().cycle().skip(usize::from(!begins_with_user));
    messages.iter().zip(in_turn).all(|(message, role)| {
        message.role == role && !message.parts.is_empty() && message.parts.iter().all(words)
    })
}

/// A user is the first to speak, and the last.
fn between_users(mut messages: Vec<ModelMessage>) -> Vec<ModelMessage> {
    if messages.first().is_none_or(|first| first.role != Role::User) {
        messages.insert(0, ModelMessage::new(Role::User, vec![MessagePart::note(EARLIER)]));
    }
    if messages.last().is_some_and(|last| last.role == Role::Assistant) {
        messages.push(ModelMessage::new(Role::User, vec![MessagePart::note(GO_ON)]));
    }
    messages
}

#[derive(Default)]
struct Healed {
    messages: Vec<ModelMessage>,
    /// The calls of the last message.
    open: Vec<Open>,
    /// Where in `open` the next answer to an id belongs. An id that was used twice has two places.
    places: HashMap<String, VecDeque<usize>>,
    /// Answers without a call. They wait, so that an exchange under way is not torn apart.
    aside: Vec<MessagePart>,
}

/// A call, and its answer once it is there.
struct Open {
    id: String,
    name: String,
    answer: Option<Value>,
}

impl Healed {
    fn take(&mut self, message: ModelMessage) {
        // Filtered in place: most messages stay as they are.
        let said = message.parts.into_iter().filter_map(|part| match part {
            MessagePart::Result(result) => {
                self.answer(*result);
                None
            }
            part => says_something(&part).then_some(part),
        });
        let said: Vec<MessagePart> = said.collect();
        match message.role {
            Role::Assistant => self.take_assistant(said),
            Role::User | Role::Tool | Role::System => self.take_user(said),
        }
    }

    /// The newest answer to a call of the present exchange counts; what answers nothing is told as text.
    fn answer(&mut self, result: ToolResult) {
        let place = self.places.get_mut(&*id_or_name(&result.id, &result.name)).and_then(next_place);
        match place.and_then(|place| self.open.get_mut(place)) {
            Some(open) => open.answer = Some(result.response),
            None => self.aside.push(MessagePart::note(notes::answered(&result))),
        }
    }

    fn take_user(&mut self, parts: Vec<MessagePart>) {
        let parts: Vec<MessagePart> = parts.into_iter().filter_map(in_users_mouth).collect();
        if !parts.is_empty() {
            self.close();
            self.say(Role::User, parts);
        }
    }

    /// What only thinks has said nothing yet: the message that says it will think again.
    fn take_assistant(&mut self, mut parts: Vec<MessagePart>) {
        if !parts.iter().any(is_visible) {
            return;
        }
        self.close();
        self.open_calls(&mut parts);
        self.say(Role::Assistant, parts);
    }

    /// Two calls of one message never share an id.
    fn open_calls(&mut self, parts: &mut [MessagePart]) {
        let mut taken = UsedIds::default();
        for part in parts {
            let MessagePart::Call(call) = part else { continue };
            let id = id_or_name(&call.id, &call.name).into_owned();
            call.id = taken.unique(id.clone());
            self.places.entry(id).or_default().push_back(self.open.len());
            self.open.push(Open { id: call.id.clone(), name: call.name.clone(), answer: None });
        }
    }

    /// Ends the exchange under way: every call has an answer, in the order of the calls.
    fn close(&mut self) {
        self.places.clear();
        let answers: Vec<MessagePart> = self.open.drain(..).map(answered).collect();
        let aside = std::mem::take(&mut self.aside);
        self.say(Role::Tool, answers);
        self.say(Role::User, aside);
    }

    /// Neighbours of one role are one message.
    fn say(&mut self, role: Role, parts: Vec<MessagePart>) {
        match self.messages.last_mut() {
            _ if parts.is_empty() => {}
            Some(last) if last.role == role => last.parts.extend(parts),
            Some(_) | None => self.messages.push(ModelMessage::new(role, parts)),
        }
    }

    fn finish(mut self) -> Vec<ModelMessage> {
        self.close();
        between_users(self.messages)
    }
}

/// Each answer to an id takes a place of its own while there are several; later ones replace the last.
fn next_place(places: &mut VecDeque<usize>) -> Option<usize> {
    if places.len() > 1 { places.pop_front() } else { places.front().copied() }
}

fn answered(Open { id, name, answer }: Open) -> MessagePart {
    let response = answer.unwrap_or_else(|| json!({"error": INTERRUPTED_CALL}));
    MessagePart::from(ToolResult { id, name, response })
}

fn id_or_name<'a>(id: &'a str, name: &str) -> Cow<'a, str> {
    if id.is_empty() { Cow::Owned(format!("call_{name}")) } else { Cow::Borrowed(id) }
}

/// Looks at the first letter, and not at the end as `trim` does: a history has many texts.
fn has_words(text: &str) -> bool {
    text.chars().any(|letter| !letter.is_whitespace())
}

fn says_something(part: &MessagePart) -> bool {
    match part {
        MessagePart::Text { signature, .. } | MessagePart::Thought { signature, .. }
            if signature.is_some() =>
        {
            true
        }
        MessagePart::Text { text, .. } | MessagePart::Thought { text, .. } => has_words(text),
        MessagePart::Call(call) => !call.name.is_empty(),
        MessagePart::Result(_) | MessagePart::Media(_) => true,
    }
}

/// Whether a reader of the message sees it. Some models sign an empty text.
fn is_visible(part: &MessagePart) -> bool {
    match part {
        MessagePart::Text { text, .. } => has_words(text),
        MessagePart::Thought { .. } => false,
        MessagePart::Call(_) | MessagePart::Result(_) | MessagePart::Media(_) => true,
    }
}

/// Only the assistant thinks, signs and calls tools; a call in another mouth is told as text.
fn in_users_mouth(part: MessagePart) -> Option<MessagePart> {
    match part {
        MessagePart::Text { text, note, .. } => {
            has_words(&text).then_some(MessagePart::Text { text, signature: None, note })
        }
        MessagePart::Thought { .. } => None,
        MessagePart::Call(call) => Some(MessagePart::note(notes::called(&call))),
        MessagePart::Result(_) | MessagePart::Media(_) => Some(part),
    }
}

#[cfg(test)]
mod tests;
