//! A request fits its budget: whole exchanges leave from the old end; what must stay and is too large is shortened where
//! everybody can see it.

use super::{
    notes::{EARLIER, REQUEST, is_continue_note},
    shorten,
};
use crate::view::{budget::Budget, cost};
use provider::{MessagePart, ModelMessage, Role};

/// The newest exchanges that fit, in order. Takes legal messages and gives legal messages; `before` is what the user asked for
/// in a message that lies before them.
pub fn fit(mut messages: Vec<ModelMessage>, before: Option<&str>, budget: Budget) -> Vec<ModelMessage> {
    let before = before.filter(|_| messages.first().and_then(task).is_none());
    if before.is_some() {
        open(&mut messages, opening(before, budget));
    }
    let weights: Vec<u32> = messages.iter().map(cost::of_message).collect();
    let total = weights.iter().copied().fold(0, u32::saturating_add);
    if total <= budget.tokens() && messages.len() <= most(budget) {
        return messages;
    }
    let front = front(&messages, &weights, before, budget);
    let kept = from(messages, front, before, budget);
    // An opening may be in front of them, or in the first; the others weigh what they did.
    let others = weights.iter().rev().take(kept.len().saturating_sub(1));
    let first = kept.first().map_or(0, cost::of_message);
    let weight = others.copied().fold(first, u32::saturating_add);
    if weight <= budget.tokens() { kept } else { shorten::to(kept, budget.tokens()) }
}

/// Where the oldest exchange begins that fits together with all newer ones. The newest stays, whatever its size.
///
/// An exchange is a user's message, or an assistant's with the answers to its calls. An interrupted answer and the note that
/// asks to continue it are one.
fn front(messages: &[ModelMessage], weights: &[u32], before: Option<&str>, budget: Budget) -> usize {
    let mut front = messages.iter().rposition(begins_exchange).unwrap_or(0);
    let mut weight = 0_u32;
    for (index, message) in messages.iter().enumerate().rev() {
        weight = weight.saturating_add(weights[index]);
        let count = messages.len() - index + usize::from(message.role != Role::User);
        if weight > budget.tokens() || messages.len() - index > most(budget) {
            break;
        }
        let room = budget.tokens() - weight;
        // The first message has its opening already.
        let is_opened = index == 0 && before.is_some();
        if begins_exchange(message)
            && count <= most(budget)
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

/// Whether what a message needs in front of it, if it comes first, fits: nothing, if it says itself what the user wants.
fn room_for_opening(
    messages: &[ModelMessage],
    index: usize,
    (room, before): (u32, Option<&str>),
    budget: Budget,
) -> bool {
    // No opening is larger than this; only where it is tight must it be weighed.
    let most = task_room(budget) + 64;
    room >= most || task(&messages[index]).is_some() || {
        let task = messages[..index].iter().rev().find_map(task);
        room >= cost::of_message(&ModelMessage::new(
            Role::User,
            vec![opening(task.as_deref().or(before), budget)],
        ))
    }
}

/// The messages from `front` on, with an opening if the first does not say what the user wants.
fn from(
    mut messages: Vec<ModelMessage>,
    front: usize,
    before: Option<&str>,
    budget: Budget,
) -> Vec<ModelMessage> {
    let mut kept = messages.split_off(front);
    if messages.is_empty() || kept.first().and_then(task).is_some() {
        return kept;
    }
    let task = messages.iter().rev().find_map(task);
    open(&mut kept, opening(task.as_deref().or(before), budget));
    kept
}

/// Puts an opening in front. It says more than the note that may be there.
fn open(messages: &mut Vec<ModelMessage>, opening: MessagePart) {
    let is_bare = |part: &MessagePart| matches!(part, MessagePart::Text { text, note: true, .. } if text.as_str() == EARLIER);
    match messages.first_mut() {
        Some(first) if first.role == Role::User => {
            first.parts.retain(|part| !is_bare(part));
            first.parts.insert(0, opening);
        }
        Some(_) | None => messages.insert(0, ModelMessage::new(Role::User, vec![opening])),
    }
}

/// What stands in for the part that is not shown: the task is not forgotten, however long the work on it takes.
fn opening(task: Option<&str>, budget: Budget) -> MessagePart {
    let text = match task {
        Some(task) => {
            format!("{EARLIER}{REQUEST}{}", shorten::text(task, task_room(budget)))
        }
        None => EARLIER.to_owned(),
    };
    MessagePart::note(text)
}

/// How much of the task an opening may quote.
fn task_room(budget: Budget) -> u32 {
    budget.tokens() / 8
}

/// What the user asked for in a message, if anything. Notes are not the user's.
pub(crate) fn task(message: &ModelMessage) -> Option<String> {
    let said = message.parts.iter().filter_map(|part| match part {
        MessagePart::Text { text, note: false, .. } => Some(text.as_str()),
        MessagePart::Text { .. }
        | MessagePart::Thought { .. }
        | MessagePart::Call(_)
        | MessagePart::Result(_)
        | MessagePart::Media(_) => None,
    });
    let said = said.collect::<Vec<_>>().join("\n");
    (message.role == Role::User && !said.trim().is_empty()).then_some(said)
}

fn most(budget: Budget) -> usize {
    budget.max_messages().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
