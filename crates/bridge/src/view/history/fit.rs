//! Fits a request into its budget: whole exchanges are removed, oldest first; an exchange that must stay and is too
//! large is shortened with visible marks.

use super::{
    notes::{EARLIER, REQUEST, is_continue_note, is_note},
    shorten,
};
use crate::view::{budget::Budget, cost};
use provider::{Message, Part, Role};

/// The newest exchanges that fit, in order. Input and output are legal. `before` is the user's request in a message
/// before the input.
pub fn fit(mut messages: Vec<Message>, before: Option<&str>, budget: Budget) -> Vec<Message> {
    if let Some(before) = before.filter(|_| messages.first().and_then(task).is_none()) {
        prepend_opening(&mut messages, opening(Some(before), budget));
    }
    let costs: Vec<u32> = messages.iter().map(cost::of_message).collect();
    let total = costs.iter().copied().fold(0, u32::saturating_add);
    if total <= budget.tokens() && messages.len() <= max_messages(budget) {
        return messages;
    }
    let front = front(&messages, &costs, budget);
    let kept = from_front(messages, front, budget);
    // An opening may be inserted before or into the first message; the cost of the others is unchanged.
    let others = costs.iter().rev().take(kept.len().saturating_sub(1));
    let first = kept.first().map_or(0, cost::of_message);
    let cost = others.copied().fold(first, u32::saturating_add);
    if cost <= budget.tokens() { kept } else { shorten::exchange(kept, budget.tokens()) }
}

/// Index of the oldest exchange that fits together with all newer ones. The newest exchange stays, whatever its size.
///
/// An exchange is a user message, or an assistant message with the results of its calls. An interrupted answer and
/// the note that asks to continue it belong together.
fn front(messages: &[Message], costs: &[u32], budget: Budget) -> usize {
    let mut front = messages.iter().rposition(begins_exchange).unwrap_or(0);
    let mut cost = 0_u32;
    for (index, message) in messages.iter().enumerate().rev() {
        cost = cost.saturating_add(costs[index]);
        let count = messages.len() - index + usize::from(message.role != Role::User);
        if cost > budget.tokens() || messages.len() - index > max_messages(budget) {
            break;
        }
        let room = budget.tokens() - cost;
        if begins_exchange(message)
            && count <= max_messages(budget)
            && room_for_opening(messages, index, room, budget)
        {
            front = index;
        }
    }
    front
}

fn begins_exchange(message: &Message) -> bool {
    message.role != Role::Tool && !is_continue_note(message)
}

/// Whether the opening that a message needs as the first of the request fits. A message with a user's request needs
/// none.
fn room_for_opening(messages: &[Message], index: usize, room: u32, budget: Budget) -> bool {
    // Upper bound of an opening's cost; the exact cost is computed only if this does not fit.
    let largest = task_room(budget) + 64;
    room >= largest || task(&messages[index]).is_some() || {
        let task = messages[..index].iter().rev().find_map(task);
        room >= cost::of_message(&Message::new(Role::User, vec![opening(task.as_deref(), budget)]))
    }
}

/// The messages from `front`, with an opening unless the first contains the user's request.
fn from_front(mut messages: Vec<Message>, front: usize, budget: Budget) -> Vec<Message> {
    let mut kept = messages.split_off(front);
    if messages.is_empty() || kept.first().and_then(task).is_some() {
        return kept;
    }
    let opening = opening(messages.iter().rev().find_map(task).as_deref(), budget);
    prepend_opening(&mut kept, opening);
    kept
}

/// Prepends an opening, which replaces the note about earlier messages.
fn prepend_opening(messages: &mut Vec<Message>, opening: Part) {
    let is_bare = |part: &Part| matches!(part, Part::Text { text, .. } if text.as_str() == EARLIER);
    match messages.first_mut() {
        Some(first) if first.role == Role::User => {
            first.parts.retain(|part| !is_bare(part));
            first.parts.insert(0, opening);
        }
        Some(_) | None => messages.insert(0, Message::new(Role::User, vec![opening])),
    }
}

/// Stands for the messages that are left out and quotes the user's request, so that the model keeps its task in long
/// turns.
fn opening(task: Option<&str>, budget: Budget) -> Part {
    let text = match task {
        Some(task) => {
            format!("{EARLIER}{REQUEST}{}", shorten::text(task, task_room(budget)))
        }
        None => EARLIER.to_owned(),
    };
    Part::text(text)
}

/// Maximum tokens of the quoted request.
fn task_room(budget: Budget) -> u32 {
    budget.tokens() / 8
}

/// The user's request in a message, if there is one. An opening quotes it, too.
pub(crate) fn task(message: &Message) -> Option<String> {
    let texts = message.parts.iter().filter_map(|part| match part {
        Part::Text { text, .. } if !is_note(text) => Some(without_opening(text)),
        Part::Text { .. } | Part::Thought { .. } | Part::Call(_) | Part::Result(_) | Part::Media(_) => None,
    });
    let texts = texts.collect::<Vec<_>>().join("\n");
    (message.role == Role::User && !texts.trim().is_empty()).then_some(texts)
}

fn without_opening(text: &str) -> &str {
    text.strip_prefix(EARLIER).and_then(|rest| rest.strip_prefix(REQUEST)).unwrap_or(text)
}

fn max_messages(budget: Budget) -> usize {
    budget.max_messages().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
