//! A request fits its budget: whole exchanges leave from the old end; what must stay and is too large is shortened where
//! everybody can see it.

use super::{repair::EARLIER, shorten};
use crate::{budget::Budget, cost};
use provider::{Message, Part, Role};

/// The newest exchanges that fit, in order. Takes legal messages and gives legal messages.
pub fn fit(messages: Vec<Message>, budget: Budget) -> Vec<Message> {
    let most = budget.max_messages().unwrap_or(usize::MAX);
    let weights: Vec<u32> = messages.iter().map(cost::of_message).collect();
    let total = weights.iter().fold(0_u32, |sum, &weight| sum.saturating_add(weight));
    if total <= budget.tokens() && messages.len() <= most {
        return messages;
    }
    let starts = exchange_starts(&messages);
    let opening = opening(&messages, &starts, budget);
    // An exchange that does not begin with the user needs the opening in front of it.
    let mut start = messages.len();
    let mut left = budget.tokens();
    for &candidate in starts.iter().rev() {
        let weight = weights[candidate..start].iter().fold(0_u32, |sum, &weight| sum.saturating_add(weight));
        let needs_opening = messages[candidate].role != Role::User;
        let extra = if needs_opening { cost::of_message(&opening) } else { 0 };
        let count = messages.len() - candidate + usize::from(needs_opening);
        if weight.saturating_add(extra) > left || count > most {
            break;
        }
        left -= weight;
        start = candidate;
    }
    if start == messages.len() {
        let newest = starts.last().copied().unwrap_or(0);
        return shorten::newest(with_opening(messages, newest, opening), budget.tokens());
    }
    with_opening(messages, start, opening)
}

/// Where exchanges begin: at a user's message, or at an assistant's with the answers to its calls.
fn exchange_starts(messages: &[Message]) -> Vec<usize> {
    let begins = |(index, message): (usize, &Message)| (message.role != Role::Tool).then_some(index);
    messages.iter().enumerate().filter_map(begins).collect()
}

fn with_opening(mut messages: Vec<Message>, start: usize, opening: Message) -> Vec<Message> {
    let kept = messages.split_off(start);
    let needs_opening = kept.first().is_some_and(|first| first.role != Role::User);
    needs_opening.then_some(opening).into_iter().chain(kept).collect()
}

/// What stands in for the part that is not shown: the task is not forgotten, however long the work on it takes.
fn opening(messages: &[Message], starts: &[usize], budget: Budget) -> Message {
    let newest = starts.last().copied().unwrap_or(0);
    let asked = messages[..=newest.min(messages.len().saturating_sub(1))]
        .iter()
        .rev()
        .filter(|message| message.role == Role::User);
    let task = asked.map(said).find(|text| !text.trim().is_empty() && !text.starts_with('['));
    let text = match task {
        Some(task) => {
            let room = budget.tokens() / 8;
            format!("{EARLIER} The last request was: {}", shorten::text(&task, room))
        }
        None => EARLIER.to_owned(),
    };
    Message::text(Role::User, text)
}

fn said(message: &Message) -> String {
    let texts = message.parts.iter().filter_map(|part| match part {
        Part::Text { text, .. } => Some(text.as_str()),
        Part::Thought { .. } | Part::Call(_) | Part::Result(_) | Part::Media(_) => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}
