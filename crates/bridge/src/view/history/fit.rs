//! Fits a request into its budget: whole exchanges are removed, oldest first; an exchange that must stay and is too
//! large is shortened with visible marks.

use super::{
    notes::{EARLIER, REQUEST, is_continue_note},
    shorten,
};
use crate::view::{budget::Budget, cost};
use adk::window::WindowShare;
use provider::{MessagePart, ModelMessage, Role};
use std::ops::Range;

/// The newest exchanges that fit, in order. Input and output are legal. `before` is the user's request in a message
/// before the input.
pub fn fit(messages: Vec<ModelMessage>, before: Option<&str>, budget: Budget) -> Vec<ModelMessage> {
    let before = before.filter(|_| needs_preamble(&messages));
    let messages = opened(messages, before, budget);
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

/// Whether [`fit`] leaves the messages as they are, and they use no more than a share of the budget.
pub fn fits(messages: Vec<ModelMessage>, before: Option<&str>, budget: Budget, share: WindowShare) -> bool {
    let messages = opened(messages, before, budget);
    is_within(cost::of_messages(&messages), messages.len(), budget.share(share))
}

/// Whether messages of this cost and number are within a budget.
pub(crate) fn is_within(cost: u32, messages: usize, budget: Budget) -> bool {
    cost <= budget.tokens() && messages <= max_messages(budget)
}

/// The messages with a preamble, if the user's request lies before them.
pub(crate) fn opened(
    mut messages: Vec<ModelMessage>,
    before: Option<&str>,
    budget: Budget,
) -> Vec<ModelMessage> {
    if before.is_some() && needs_preamble(&messages) {
        prepend_preamble(&mut messages, preamble(before, budget));
    }
    messages
}

/// Whether the messages begin without the user's request.
fn needs_preamble(messages: &[ModelMessage]) -> bool {
    messages.first().and_then(user_request).is_none()
}

/// The text of the preamble after the user's request `before`.
pub(crate) fn preamble_text(before: Option<&str>, budget: Budget) -> Option<String> {
    before.map(|before| quoted_request(before, budget))
}

/// The window of messages that exceed the budget: the position of a front that starts at the first message and, whenever
/// the messages up to one exceed the budget, advances so far that the rest uses the retained part.
///
/// The front depends on the messages up to the last advance only. As a conversation grows, it stays where it is until the
/// next advance, without being stored.
fn front(messages: &[ModelMessage], costs: &[u32], before: Option<&str>, budget: Budget) -> usize {
    let opening = |index: usize| opening(messages, index, before, budget);
    let (mut front, mut size) = (0, opening(0));
    for (end, &cost) in costs.iter().enumerate() {
        size = size.plus(cost);
        if !size.is_within(budget) {
            front = advance(messages, costs, front..end + 1, budget, opening);
            size = costs[front..=end].iter().fold(opening(front), |size, &cost| size.plus(cost));
        }
    }
    front
}

/// The first exchange after the start of the range with which the rest of the range uses the retained part of the budget. An
/// exchange that is larger than that keeps what fits beside it into the whole budget. The newest exchange always stays.
fn advance(
    messages: &[ModelMessage],
    costs: &[u32],
    range: Range<usize>,
    budget: Budget,
    opening: impl Fn(usize) -> WindowSize,
) -> usize {
    let (mut size, mut front, mut most) = (WindowSize::default(), None, budget);
    for index in (range.start + 1..range.end).rev() {
        size = size.plus(costs[index]);
        if !begins_exchange(&messages[index]) {
            continue;
        }
        let opened = opening(index).and(size);
        if front.is_none() && opened.is_within(budget.share(WindowShare::Retained)) {
            most = budget.share(WindowShare::Retained);
        }
        if front.is_some() && !opened.is_within(most) {
            break;
        }
        front = Some(index);
    }
    front.unwrap_or(range.start)
}

/// The size of a range of messages.
#[derive(Clone, Copy, Default)]
struct WindowSize {
    cost: u32,
    messages: usize,
}

impl WindowSize {
    fn plus(self, cost: u32) -> Self {
        self.and(Self { cost, messages: 1 })
    }

    fn and(self, other: Self) -> Self {
        Self { cost: self.cost.saturating_add(other.cost), messages: self.messages + other.messages }
    }

    fn is_within(self, budget: Budget) -> bool {
        self.cost <= budget.tokens() && self.messages <= max_messages(budget)
    }
}

/// The size of the preamble of a window that begins at `index`. A message with a user's request needs none, and the first message
/// has its own already.
fn opening(messages: &[ModelMessage], index: usize, before: Option<&str>, budget: Budget) -> WindowSize {
    if index == 0 || user_request(&messages[index]).is_some() {
        return WindowSize::default();
    }
    let user_request = messages[..index].iter().rev().find_map(user_request);
    let preamble = preamble(user_request.as_deref().or(before), budget);
    let cost = cost::of_message(&ModelMessage::new(Role::User, vec![preamble]));
    WindowSize { cost, messages: usize::from(messages[index].role != Role::User) }
}

/// An exchange is a user message, or an assistant message with the results of its calls. An interrupted answer and
/// the note that asks to continue it belong together.
fn begins_exchange(message: &ModelMessage) -> bool {
    message.role != Role::Tool && !is_continue_note(message)
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
        Some(user_request) => quoted_request(user_request, budget),
        None => EARLIER.to_owned(),
    };
    MessagePart::note(text)
}

fn quoted_request(user_request: &str, budget: Budget) -> String {
    format!("{EARLIER}{REQUEST}{}", shorten::text(user_request, user_request_room(budget)))
}

/// Maximum tokens of the quoted request.
fn user_request_room(budget: Budget) -> u32 {
    budget.tokens() / 8
}

/// The user's request in a message, if there is one. Notes are not the user's.
fn user_request(message: &ModelMessage) -> Option<String> {
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
