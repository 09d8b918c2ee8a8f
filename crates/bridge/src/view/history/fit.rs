//! Fits a request into its budget: whole exchanges are removed, oldest first; an exchange that must stay and is too
//! large is shortened with visible marks.

use super::{
    notes::{EARLIER, REQUEST, is_continue_note},
    shorten,
};
use crate::view::{budget::Budget, cost};
use provider::{MessagePart, ModelMessage, Role};

/// The newest exchanges that fit, in order. Input and output are legal. `before` is the user's request in a message
/// before the input.
pub fn fit(mut messages: Vec<ModelMessage>, before: Option<&str>, budget: Budget) -> Vec<ModelMessage> {
    let before = before.filter(|_| messages.first().and_then(user_request).is_none());
    if before.is_some() {
        prepend_preamble(&mut messages, preamble(before, budget));
    }
    let costs: Vec<u32> = messages.iter().map(cost::of_message).collect();
    let total = costs.iter().copied().fold(0, u32::saturating_add);
    if total <= budget.tokens() && messages.len() <= max_messages(budget) {
        return messages;
    }
    let front = front(&messages, &costs, before, budget);
    let kept = from_front(messages, front, before, budget);
    // A preamble may be inserted before or into the first message; the cost of the others is unchanged.
    let others = costs.iter().rev().take(kept.len().saturating_sub(1));
    let first = kept.first().map_or(0, cost::of_message);
    let cost = others.copied().fold(first, u32::saturating_add);
    if cost <= budget.tokens() { kept } else { shorten::exchange(kept, budget.tokens()) }
}

/// Index of the oldest exchange that fits together with all newer ones. The newest exchange stays, whatever its size.
///
/// An exchange is a user message, or an assistant message with the results of its calls. An interrupted answer and
/// the note that asks to continue it belong together.
fn front(messages: &[ModelMessage], costs: &[u32], before: Option<&str>, budget: Budget) -> usize {
    let mut front = messages.iter().rposition(begins_exchange).unwrap_or(0);
    let mut cost = 0_u32;
    for (index, message) in messages.iter().enumerate().rev() {
        cost = cost.saturating_add(costs[index]);
        let count = messages.len() - index + usize::from(message.role != Role::User);
        if cost > budget.tokens() || messages.len() - index > max_messages(budget) {
            break;
        }
        let room = budget.tokens() - cost;
        // The first message has its preamble already.
        let is_opened = index == 0 && before.is_some();
        if begins_exchange(message)
            && count <= max_messages(budget)
            && (is_opened || room_for_opening(messages, index, (room, before), budget))
        {
            front = index;
        }
    }
    front
}

fn begins_exchange(message: &ModelMessage) -> bool {
    message.role != Role::Tool && !is_continue_note(message)
}

/// Whether the preamble that a message needs as the first of the request fits. A message with a user's request needs
/// none.
fn room_for_opening(
    messages: &[ModelMessage],
    index: usize,
    (room, before): (u32, Option<&str>),
    budget: Budget,
) -> bool {
    // Upper bound of a preamble's cost; the exact cost is computed only if this does not fit.
    let largest = user_request_room(budget) + 64;
    room >= largest || user_request(&messages[index]).is_some() || {
        let user_request = messages[..index].iter().rev().find_map(user_request);
        room >= cost::of_message(&ModelMessage::new(
            Role::User,
            vec![preamble(user_request.as_deref().or(before), budget)],
        ))
    }
}

/// The messages from `front`, with a preamble unless the first contains the user's request.
fn from_front(
    mut messages: Vec<ModelMessage>,
    front: usize,
    before: Option<&str>,
    budget: Budget,
) -> Vec<ModelMessage> {
    let mut kept = messages.split_off(front);
    if messages.is_empty() || kept.first().and_then(user_request).is_some() {
        return kept;
    }
    let user_request = messages.iter().rev().find_map(user_request);
    prepend_preamble(&mut kept, preamble(user_request.as_deref().or(before), budget));
    kept
}

/// Prepends a preamble, which replaces the note about earlier messages.
fn prepend_preamble(messages: &mut Vec<ModelMessage>, preamble: MessagePart) {
    let is_bare = |part: &MessagePart| matches!(part, MessagePart::Text { text, note: true, .. } if text.as_str() == EARLIER);
    match messages.first_mut() {
        Some(first) if first.role == Role::User => {
            first.parts.retain(|part| !is_bare(part));
            first.parts.insert(0, preamble);
        }
        Some(_) | None => messages.insert(0, ModelMessage::new(Role::User, vec![preamble])),
    }
}

/// Stands for the messages that are left out and quotes the user's request, so that the model keeps its task in long
/// turns.
fn preamble(user_request: Option<&str>, budget: Budget) -> MessagePart {
    let text = match user_request {
        Some(user_request) => {
            format!("{EARLIER}{REQUEST}{}", shorten::text(user_request, user_request_room(budget)))
        }
        None => EARLIER.to_owned(),
    };
    MessagePart::note(text)
}

/// Maximum tokens of the quoted request.
fn user_request_room(budget: Budget) -> u32 {
    budget.tokens() / 8
}

/// The user's request in a message, if there is one. Notes are not the user's.
pub(crate) fn user_request(message: &ModelMessage) -> Option<String> {
    let texts = message.parts.iter().filter_map(|part| match part {
        MessagePart::Text { text, note: false, .. } => Some(text.as_str()),
        MessagePart::Text { .. }
        | MessagePart::Thought { .. }
        | MessagePart::Call(_)
        | MessagePart::Result(_)
        | MessagePart::Media(_) => None,
    });
    let texts = texts.collect::<Vec<_>>().join("\n");
    (message.role == Role::User && !texts.trim().is_empty()).then_some(texts)
}

fn max_messages(budget: Budget) -> usize {
    budget.max_messages().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
