//! What an agent is shown of the history: rebuilt for each model call from the events that it may see.

use super::foreign;
use crate::{
    agent::IncludeContents,
    content::{Content, Part},
    event::Event,
    facts::{Call, REQUEST_CONFIRMATION},
};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// Whose view of which events.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    pub agent: &'a str,
    pub branch: Option<&'a str>,
    pub include: IncludeContents,
    pub events: &'a [Arc<Event>],
    /// Calls that lie before the events but that one of them answers.
    pub deferred: &'a [Call],
}

/// The contents of a request: visible events in order, each call followed by its newest answer.
pub fn contents(view: View<'_>) -> Vec<Content> {
    arrange(visible(view))
}

fn visible(view: View<'_>) -> Vec<Content> {
    let events = match view.include {
        IncludeContents::Default => view.events,
        IncludeContents::None => present_turn(view.events),
    };
    let asked = question_ids(events);
    let mut seen = HashSet::new();
    let mut contents = Vec::with_capacity(events.len());
    for event in events.iter().filter(|event| is_in_branch(event, view.branch)) {
        let Some(content) = shown(event, view.agent, &asked) else { continue };
        contents.extend(missing_calls(&content, view.deferred, &mut seen));
        contents.push(content);
    }
    contents
}

/// From the last message of the user on.
fn present_turn(events: &[Arc<Event>]) -> &[Arc<Event>] {
    let start = events.iter().rposition(|event| event.is_from_user() && event.responses().next().is_none());
    &events[start.unwrap_or(0)..]
}

fn is_in_branch(event: &Event, branch: Option<&str>) -> bool {
    match (&event.branch, branch) {
        (None, _) | (Some(_), None) => true,
        (Some(of), Some(branch)) => {
            branch.strip_prefix(of.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        }
    }
}

fn question_ids(events: &[Arc<Event>]) -> HashSet<&str> {
    let calls = events.iter().flat_map(|event| event.calls());
    calls.filter(|call| call.name == REQUEST_CONFIRMATION).filter_map(|call| call.id.as_deref()).collect()
}

/// The content of an event as the agent sees it; `None` if it sees nothing.
fn shown(event: &Event, agent: &str, asked: &HashSet<&str>) -> Option<Content> {
    let content = event.content.as_ref()?;
    if event.is_partial()
        || content.parts.iter().all(|part| part.is_empty() || is_between_people(part, asked))
    {
        return None;
    }
    if !event.is_from_user() && event.author != agent {
        return foreign::told(&event.author, content);
    }
    let mut content = content.clone();
    content.parts.retain(|part| !part.is_empty() && !is_between_people(part, asked));
    Some(content)
}

/// Questions to people and their answers are no business of the model.
fn is_between_people(part: &Part, asked: &HashSet<&str>) -> bool {
    let question = part.call().is_some_and(|call| call.name == REQUEST_CONFIRMATION);
    let answer = part.response().is_some_and(|response| {
        response.name == REQUEST_CONFIRMATION || response.id.as_deref().is_some_and(|id| asked.contains(id))
    });
    question || answer
}

/// Calls that are answered here but lie before everything that is shown.
fn missing_calls(content: &Content, deferred: &[Call], seen: &mut HashSet<String>) -> Option<Content> {
    seen.extend(content.calls().map(crate::content::FunctionCall::id_or_name));
    let unseen: Vec<Part> = content
        .responses()
        .map(crate::content::FunctionResponse::id_or_name)
        .filter(|id| !seen.contains(id))
        .filter_map(|id| deferred.iter().find(|call| call.id() == id))
        .map(|call| call.part.clone())
        .collect();
    (!unseen.is_empty()).then(|| Content::new("model", unseen))
}

/// Answers stand right behind their calls, the newest one only; the last entry, if it answers an older call, takes that
/// call along to the end. What answers nothing stays where it is.
fn arrange(contents: Vec<Content>) -> Vec<Content> {
    let pairs = Pairs::find(&contents);
    if pairs.answers.is_empty() {
        return contents;
    }
    let moved = pairs.late_call(contents.len());
    let mut arranged = Vec::with_capacity(contents.len());
    let mut tail = Vec::new();
    for (index, content) in contents.into_iter().enumerate() {
        let place = if moved == Some(index) { &mut tail } else { &mut arranged };
        place.extend(pairs.without_answers(index, &content));
        place.extend(pairs.answers_to(index, &content));
    }
    arranged.extend(tail);
    arranged
}

/// Which response answers which call. Ids are unique only for a while: a response belongs to the newest call before it
/// that has its id.
struct Pairs {
    /// By the place of the call and its id: the newest answer and its place.
    answers: HashMap<(usize, String), (usize, Part)>,
    /// Places and indexes of parts that are answers.
    matched: HashSet<(usize, usize)>,
    /// Places that hold nothing but answers.
    pure: HashSet<usize>,
}

impl Pairs {
    fn find(contents: &[Content]) -> Self {
        let mut calls: HashMap<String, usize> = HashMap::new();
        let mut pairs = Self { answers: HashMap::new(), matched: HashSet::new(), pure: HashSet::new() };
        for (place, content) in contents.iter().enumerate() {
            let mut matched = 0;
            for (index, part) in content.parts.iter().enumerate() {
                if let Some(call) = part.call() {
                    calls.insert(call.id_or_name(), place);
                } else if let Some(id) = part.response().map(crate::content::FunctionResponse::id_or_name)
                    && let Some(&call) = calls.get(&id)
                {
                    pairs.answers.insert((call, id), (place, part.clone()));
                    pairs.matched.insert((place, index));
                    matched += 1;
                }
            }
            if matched == content.parts.len() {
                pairs.pure.insert(place);
            }
        }
        pairs
    }

    /// The place of a call that the last entry answers although something else was said since.
    fn late_call(&self, length: usize) -> Option<usize> {
        let last = length.checked_sub(1)?;
        let answered =
            self.answers.iter().filter(|(_, (place, _))| *place == last).map(|((call, _), _)| *call);
        answered.min().filter(|&call| (call + 1..last).any(|between| !self.pure.contains(&between)))
    }

    fn without_answers(&self, place: usize, content: &Content) -> Option<Content> {
        let parts =
            content.parts.iter().enumerate().filter(|(index, _)| !self.matched.contains(&(place, *index)));
        let parts: Vec<Part> = parts.map(|(_, part)| part.clone()).collect();
        (!parts.is_empty()).then(|| Content { parts, ..content.clone() })
    }

    fn answers_to(&self, place: usize, content: &Content) -> Option<Content> {
        let ids = content.calls().map(crate::content::FunctionCall::id_or_name);
        let parts: Vec<Part> =
            ids.filter_map(|id| self.answers.get(&(place, id))).map(|(_, part)| part.clone()).collect();
        (!parts.is_empty()).then(|| Content::new("user", parts))
    }
}
