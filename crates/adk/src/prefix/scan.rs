//! Finds where a prefix may end.

use crate::{
    content::{Data, Part},
    event::Event,
    pending::REQUEST_CONFIRMATION,
};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// Reads events in order and collects the positions at which a prefix may end.
pub(super) struct PrefixScan<'a> {
    agent: &'a str,
    /// The positions so far.
    ends: Vec<usize>,
    /// Whether the last visible content is an answer of the agent, complete and without calls.
    follows_answer: bool,
    /// The position of the newest call with each id.
    calls: HashMap<String, usize>,
    /// How many calls with each id have no response.
    open: HashMap<String, usize>,
    /// The ids of questions to the user.
    questions: HashSet<String>,
    /// Whether the events depend on events before them, or in a way that is not followed here.
    is_unclear: bool,
}

impl<'a> PrefixScan<'a> {
    /// Scans all events of a window.
    pub(super) fn whole(agent: &'a str, events: &[Arc<Event>]) -> Self {
        let mut scan = Self {
            agent,
            ends: Vec::new(),
            follows_answer: false,
            calls: HashMap::new(),
            open: HashMap::new(),
            questions: HashSet::new(),
            is_unclear: false,
        };
        for (index, event) in events.iter().enumerate() {
            scan.read(index, event);
        }
        scan
    }

    /// Scans the events after a prefix.
    pub(super) fn continued(agent: &'a str, events: &[Arc<Event>]) -> Self {
        let mut scan = Self::whole(agent, &[]);
        scan.follows_answer = true;
        for (index, event) in events.iter().enumerate() {
            scan.read(index, event);
        }
        // A question's id could be that of a call in the prefix.
        scan.is_unclear |= !scan.questions.is_empty();
        scan
    }

    /// The position before the last but one message of the user: providers mark the ends of the last two for their caches.
    pub(super) fn end(&self) -> Option<usize> {
        let last = self.ends.len().checked_sub(2).or_else(|| {
            // The end of the prefix that the scan continues.
            self.ends.first().filter(|first| **first == 0).map(|_| 0)
        })?;
        (!self.is_unclear).then(|| self.ends[last])
    }

    fn read(&mut self, index: usize, event: &Event) {
        if self.follows_answer && self.open.is_empty() && is_message(event) {
            self.ends.push(index);
        }
        let Some(content) = &event.content else { return };
        for part in &content.parts {
            self.read_part(index, part);
        }
        self.is_unclear |= event.is_partial();
        if event.is_from_user() || event.author != self.agent {
            self.follows_answer &= content.parts.is_empty();
            return;
        }
        let is_own = matches!(content.role.as_deref(), Some("model" | "assistant"));
        let has_calls = content.parts.iter().any(|part| part.call().is_some() || part.response().is_some());
        if content.parts.iter().any(|part| !part.is_empty()) {
            let is_answer = content.parts.iter().any(is_words);
            self.follows_answer = is_own && is_answer && !has_calls && event.interrupted != Some(true);
        }
    }

    fn read_part(&mut self, index: usize, part: &Part) {
        match &part.data {
            Data::FunctionCall(call) => {
                let Some(id) = given(call.id.as_ref()) else { return self.is_unclear = true };
                if call.name == REQUEST_CONFIRMATION {
                    self.is_unclear |= self.calls.contains_key(id);
                    self.questions.insert(id.clone());
                } else {
                    self.is_unclear |= self.questions.contains(id);
                    self.calls.insert(id.clone(), index);
                    *self.open.entry(id.clone()).or_default() += 1;
                }
            }
            Data::FunctionResponse(response) => {
                let Some(id) = given(response.id.as_ref()) else { return self.is_unclear = true };
                if response.name == REQUEST_CONFIRMATION || self.questions.contains(id) {
                    self.is_unclear |= !self.questions.contains(id);
                    self.ends.clear();
                } else {
                    self.answer(id);
                }
            }
            Data::Text(_) | Data::InlineData(_) | Data::FileData(_) | Data::Unknown => {}
        }
    }

    /// A response and its call must not be divided.
    fn answer(&mut self, id: &String) {
        let Some(&call) = self.calls.get(id) else { return self.is_unclear = true };
        self.ends.retain(|end| *end <= call);
        if let Some(open) = self.open.get_mut(id) {
            *open -= 1;
            if *open == 0 {
                self.open.remove(id);
            }
        }
    }
}

fn given(id: Option<&String>) -> Option<&String> {
    id.filter(|id| !id.is_empty())
}

/// Whether it is a message of the user that a request shows.
fn is_message(event: &Event) -> bool {
    let content = event.content.as_ref().filter(|_| event.is_user_message() && !event.is_partial());
    content.is_some_and(|content| {
        let is_own = !matches!(content.role.as_deref(), Some("model" | "assistant"));
        is_own && content.parts.iter().all(|part| part.call().is_none()) && content.parts.iter().any(is_words)
    })
}

/// Whether a part is text that is more than white space.
fn is_words(part: &Part) -> bool {
    let is_visible = |text: &str| text.chars().any(|letter| !letter.is_whitespace());
    !part.is_thought() && part.as_text().is_some_and(is_visible)
}
