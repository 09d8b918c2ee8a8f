//! Whatever the log holds, the messages are legal: calls and answers paired inside their turn, roles in turn, nothing
//! empty, a user first and a question last. Nothing that was said is dropped on the way.

use crate::ids::Taken;
use provider::{Message, Part, Role, ToolCall, ToolResult};
use serde_json::json;

/// What stands in for an answer that is not there.
pub const INTERRUPTED: &str =
    "interrupted, outcome unknown: the call was cut off and may or may not have taken effect";
/// What stands in for what was said before the first message that is shown.
pub(super) const EARLIER: &str = "[Earlier messages are not shown.]";
/// What asks for more when nobody has.
const GO_ON: &str = "[Please go on.]";

/// Makes messages legal for every provider. Messages that are legal already come out as they went in.
pub fn repair(messages: Vec<Message>) -> Vec<Message> {
    let mut healed = Healed::default();
    for message in messages {
        healed.take(message);
    }
    let mut messages = merge(healed.finish());
    if messages.first().is_none_or(|first| first.role != Role::User) {
        messages.insert(0, Message::text(Role::User, EARLIER));
    }
    if messages.last().is_some_and(|last| last.role == Role::Assistant) {
        messages.push(Message::text(Role::User, GO_ON));
    }
    messages
}

#[derive(Default)]
struct Healed {
    messages: Vec<Message>,
    /// The calls of the last message, with their answers so far.
    open: Vec<(ToolCall, Option<ToolResult>)>,
}

impl Healed {
    fn take(&mut self, message: Message) {
        let role = message.role;
        let (results, spoken): (Vec<Part>, Vec<Part>) =
            message.parts.into_iter().partition(|part| matches!(part, Part::Result(_)));
        for part in results {
            if let Part::Result(result) = part {
                self.answer(result);
            }
        }
        let spoken: Vec<Part> = spoken.into_iter().filter(says_something).collect();
        match role {
            Role::Assistant => self.take_assistant(spoken),
            Role::User | Role::Tool | Role::System => self.take_user(spoken),
        }
    }

    fn take_user(&mut self, parts: Vec<Part>) {
        // Only the assistant calls tools; a call in another mouth is told as text.
        let parts: Vec<Part> = parts
            .into_iter()
            .map(|part| if let Part::Call(call) = part { told(&call) } else { part })
            .collect();
        if !parts.is_empty() {
            self.close();
            self.messages.push(Message::new(Role::User, parts));
        }
    }

    fn take_assistant(&mut self, parts: Vec<Part>) {
        let only_thinks = parts.iter().all(|part| matches!(part, Part::Thought { .. }));
        if only_thinks {
            return;
        }
        self.close();
        let parts = with_own_ids(parts);
        self.open = parts.iter().filter_map(as_call).map(|call| (call.clone(), None)).collect();
        self.messages.push(Message::new(Role::Assistant, parts));
    }

    /// The newest answer to a call of the present exchange counts; what answers nothing is told as text.
    fn answer(&mut self, result: ToolResult) {
        let open = self.open.iter_mut().find(|(call, _)| call.id == result.id);
        if let Some((call, answer)) = open {
            *answer = Some(ToolResult { name: call.name.clone(), ..result });
            return;
        }
        let told = format!("[{} answered, but its call is not shown: {}]", result.name, result.response);
        self.take_user(vec![Part::text(told)]);
    }

    fn close(&mut self) {
        let results: Vec<Part> = self
            .open
            .drain(..)
            .map(|(call, answer)| Part::Result(answer.unwrap_or_else(|| cut_off(call))))
            .collect();
        if !results.is_empty() {
            self.messages.push(Message::new(Role::Tool, results));
        }
    }

    fn finish(mut self) -> Vec<Message> {
        self.close();
        self.messages
    }
}

fn says_something(part: &Part) -> bool {
    match part {
        Part::Text { text, signature } | Part::Thought { text, signature } => {
            signature.is_some() || !text.trim().is_empty()
        }
        Part::Call(call) => !call.name.is_empty(),
        Part::Result(_) | Part::Media(_) => true,
    }
}

fn as_call(part: &Part) -> Option<&ToolCall> {
    if let Part::Call(call) = part { Some(call) } else { None }
}

fn told(call: &ToolCall) -> Part {
    Part::text(format!("[{} was called with {}]", call.name, serde_json::Value::Object(call.args.clone())))
}

fn cut_off(call: ToolCall) -> ToolResult {
    ToolResult { id: call.id, name: call.name, response: json!({"error": INTERRUPTED}) }
}

/// Two calls of one message never share an id.
fn with_own_ids(mut parts: Vec<Part>) -> Vec<Part> {
    let mut taken = Taken::default();
    for part in &mut parts {
        if let Part::Call(call) = part {
            let id = std::mem::take(&mut call.id);
            let id = if id.is_empty() { format!("call_{}", call.name) } else { id };
            call.id = taken.unique(&id);
        }
    }
    parts
}

/// Neighbours of one role are one message.
fn merge(messages: Vec<Message>) -> Vec<Message> {
    let mut merged: Vec<Message> = Vec::with_capacity(messages.len());
    for message in messages {
        match merged.last_mut() {
            Some(last) if last.role == message.role => last.parts.extend(message.parts),
            Some(_) | None => merged.push(message),
        }
    }
    merged
}
