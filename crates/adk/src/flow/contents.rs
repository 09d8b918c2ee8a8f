//! What an agent is shown of the history: rebuilt for each model call from the events that it may see.

use super::foreign;
use crate::{
    agent::IncludeContents,
    content::{Content, Data, FunctionCall, FunctionResponse, Part},
    event::Event,
    model::ContentRef,
    pending::{PendingCall, REQUEST_CONFIRMATION, is_question},
};
use std::{
    cell::LazyCell,
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// A note in the user role after an interrupted answer, unless the user replied to it. It is part of the view and never
/// stored.
pub const CONTINUE_NOTE: &str =
    "[System: The previous answer was interrupted. Continue exactly where it stopped; do not repeat it.]";

/// Whose view of which events.
#[derive(Clone, Copy, Debug)]
pub struct HistoryView<'a> {
    pub agent: &'a str,
    pub branch: Option<&'a str>,
    pub include: IncludeContents,
    pub events: &'a [Arc<Event>],
    /// Calls that lie before the events but that one of them answers.
    pub deferred: &'a [PendingCall],
}

/// The contents of a request: visible events in order, each call followed by its newest answer.
pub fn contents(view: HistoryView<'_>) -> Vec<ContentRef> {
    let VisibleContents { contents, have_calls } = visible(view);
    if have_calls { arrange(contents) } else { contents }
}

struct VisibleContents {
    contents: Vec<ContentRef>,
    /// Whether there are calls or answers among them. A history without them is already in order.
    have_calls: bool,
}

fn visible(view: HistoryView<'_>) -> VisibleContents {
    let events = match view.include {
        IncludeContents::Default => view.events,
        IncludeContents::None => present_turn(view.events),
    };
    // Most histories are words alone, and are gone through once.
    let confirmations = LazyCell::new(|| ConfirmationParts::find(events));
    let mut callers: HashMap<String, &str> =
        view.deferred.iter().map(|call| (call.id(), call.author.as_str())).collect();
    let mut seen = HashSet::new();
    let mut contents = Vec::with_capacity(events.len());
    let mut have_calls = false;
    // The last content is an interrupted answer of this agent.
    let mut is_interrupted = false;
    for event in events.iter().filter(|event| is_in_branch(event, view.branch)) {
        if is_interrupted && is_answer(event) {
            contents.push(Content::user(CONTINUE_NOTE).into());
            is_interrupted = false;
        }
        let has_calls = event.content.iter().flat_map(|content| &content.parts).any(is_call_or_answer);
        if has_calls {
            callers.extend(event.calls().map(|call| (call.id_or_name(), event.author.as_str())));
        }
        let Some(said) = shown(event, has_calls.then(|| &*confirmations)) else { continue };
        is_interrupted &= !event.is_from_user();
        if !event.is_from_user() && event.author != view.agent {
            contents.extend(foreign::told(&event.author, &said).map(ContentRef::from));
            continue;
        }
        if !has_calls {
            is_interrupted = event.is_interrupted_answer();
            contents.push(said);
            continue;
        }
        have_calls = true;
        let said = tell_results_of_others(said, view.agent, &callers, &mut contents);
        contents.extend(missing_calls(&said, view.deferred, &mut seen).map(ContentRef::from));
        contents.extend((!said.parts.is_empty()).then_some(said));
    }
    if is_interrupted {
        contents.push(Content::user(CONTINUE_NOTE).into());
    }
    VisibleContents { contents, have_calls }
}

/// Whether a model made the event, if only to say nothing: it was asked after everything before it. An error says
/// nothing of that: it may belong to the interrupted answer before it.
fn is_answer(event: &Event) -> bool {
    !event.is_from_user() && event.content.is_some() && event.responses().next().is_none()
}

fn is_call_or_answer(part: &Part) -> bool {
    matches!(part.data, Data::FunctionCall(_) | Data::FunctionResponse(_))
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

/// The content of an event without what is nobody's business; `None` if nothing is left.
fn shown(event: &Arc<Event>, confirmations: Option<&ConfirmationParts<'_>>) -> Option<ContentRef> {
    let content = event.content.as_ref().filter(|_| !event.is_partial())?;
    let speaks = |part: &&Part| !part.is_empty() && confirmations.is_none_or(|theirs| !theirs.has(part));
    // Thoughts alone, unsigned, are no answer: most providers would be sent an empty message.
    let idle =
        |part: &Part| part.is_thought() && part.as_text().is_some() && part.thought_signature.is_none();
    if content.parts.iter().filter(speaks).all(idle) {
        return None;
    }
    let is_wordless =
        |part: &Part| part.is_thought() || part.as_text().is_some_and(|text| text.trim().is_empty());
    if event.is_interrupted_answer() && content.parts.iter().all(is_wordless) {
        return None;
    }
    if content.parts.iter().all(|part| speaks(&part)) {
        return Some(ContentRef::Event(Arc::clone(event)));
    }
    let parts = content.parts.iter().filter(speaks).cloned().collect();
    Some(Content { parts, role: content.role.clone(), origin: content.origin.clone() }.into())
}

/// Questions to people and their answers are no business of the model.
struct ConfirmationParts<'a> {
    questions: HashSet<&'a str>,
    /// Calls of a model that took the questions' name for a tool's: it is told that there is no such tool.
    mistakes: HashSet<&'a str>,
}

impl<'a> ConfirmationParts<'a> {
    fn find(events: &'a [Arc<Event>]) -> Self {
        let mut found = Self { questions: HashSet::new(), mistakes: HashSet::new() };
        let calls = events.iter().flat_map(|event| event.calls().map(move |call| (event, call)));
        for (event, call) in calls.filter(|(_, call)| call.name == REQUEST_CONFIRMATION) {
            let place = if is_question(event, call) { &mut found.questions } else { &mut found.mistakes };
            place.extend(call.id.as_deref());
        }
        found
    }

    fn has(&self, part: &Part) -> bool {
        let (id, name) = match &part.data {
            Data::FunctionCall(call) => (&call.id, &call.name),
            Data::FunctionResponse(response) => (&response.id, &response.name),
            Data::Text(_) | Data::InlineData(_) | Data::FileData(_) | Data::Unknown => return false,
        };
        let id = id.as_deref().unwrap_or_default();
        self.questions.contains(id) || (name == REQUEST_CONFIRMATION && !self.mistakes.contains(id))
    }
}

/// Takes the late results of other agents' calls out of a user's message and tells of them.
fn tell_results_of_others(
    said: ContentRef,
    agent: &str,
    callers: &HashMap<String, &str>,
    told: &mut Vec<ContentRef>,
) -> ContentRef {
    let caller = |part: &Part| -> Option<&str> {
        let caller = *callers.get(&part.response()?.id_or_name())?;
        (caller != agent).then_some(caller)
    };
    if !said.parts.iter().any(|part| caller(part).is_some()) {
        return said;
    }
    let content = said.into_content();
    let (theirs, ours): (Vec<Part>, Vec<Part>) =
        content.parts.into_iter().partition(|part| caller(part).is_some());
    told.extend(theirs.into_iter().filter_map(|part| {
        let caller = caller(&part)?;
        foreign::told(caller, &Content::new("user", vec![part])).map(ContentRef::from)
    }));
    Content { parts: ours, ..content }.into()
}

/// Calls that are answered here but lie before everything that is shown.
fn missing_calls(content: &Content, deferred: &[PendingCall], seen: &mut HashSet<String>) -> Option<Content> {
    seen.extend(content.calls().map(FunctionCall::id_or_name));
    let ids = content.responses().map(FunctionResponse::id_or_name).filter(|id| seen.insert(id.clone()));
    let unseen: Vec<Part> = ids
        .filter_map(|id| deferred.iter().find(|call| call.id() == id))
        .map(|call| call.part.clone())
        .collect();
    (!unseen.is_empty()).then(|| Content::new("model", unseen))
}

/// Answers stand right behind their calls, the newest one only; the last entry, if it answers an older call, takes that
/// call along to the end. What answers nothing stays where it is.
fn arrange(contents: Vec<ContentRef>) -> Vec<ContentRef> {
    let pairs = CallPairs::find(&contents);
    if pairs.answers.is_empty() {
        return contents;
    }
    let moved = pairs.late_call(contents.len());
    let mut arranged = Vec::with_capacity(contents.len());
    let mut tail = Vec::new();
    for (index, content) in contents.into_iter().enumerate() {
        let place = if moved == Some(index) { &mut tail } else { &mut arranged };
        let answers = pairs.answers_to(index, &content);
        place.extend(pairs.without_answers(index, content));
        place.extend(answers.map(ContentRef::from));
    }
    arranged.extend(tail);
    arranged
}

/// Which response answers which call. Ids are unique only for a while: a response belongs to the newest call before it
/// that has its id.
struct CallPairs {
    /// By the place of the call and its id: the place of the newest answer, and the answer. There are several if one
    /// content has several calls with that id.
    answers: HashMap<(usize, String), (usize, Vec<Part>)>,
    /// Places and indexes of parts that are answers.
    matched: HashSet<(usize, usize)>,
    /// Places that hold nothing but answers.
    pure: HashSet<usize>,
}

impl CallPairs {
    fn find(contents: &[ContentRef]) -> Self {
        let mut calls: HashMap<String, usize> = HashMap::new();
        let mut pairs = Self { answers: HashMap::new(), matched: HashSet::new(), pure: HashSet::new() };
        for (place, content) in contents.iter().enumerate() {
            let mut matched = 0;
            for (index, part) in content.parts.iter().enumerate() {
                if let Some(call) = part.call() {
                    calls.insert(call.id_or_name(), place);
                } else if let Some(id) = part.response().map(FunctionResponse::id_or_name)
                    && let Some(&call) = calls.get(&id)
                {
                    pairs.take(call, id, place, part);
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

    fn take(&mut self, call: usize, id: String, place: usize, part: &Part) {
        let (newest, parts) = self.answers.entry((call, id)).or_default();
        if *newest != place {
            parts.clear();
        }
        *newest = place;
        parts.push(part.clone());
    }

    /// The place of a call that the last entry answers although something else was said since.
    fn late_call(&self, length: usize) -> Option<usize> {
        let last = length.checked_sub(1)?;
        let answered =
            self.answers.iter().filter(|(_, (place, _))| *place == last).map(|((call, _), _)| *call);
        answered.min().filter(|&call| (call + 1..last).any(|between| !self.pure.contains(&between)))
    }

    fn without_answers(&self, place: usize, said: ContentRef) -> Option<ContentRef> {
        let is_answer = |index| self.matched.contains(&(place, index));
        if !(0..said.parts.len()).any(is_answer) {
            return Some(said);
        }
        let mut content = said.into_content();
        let mut index = 0;
        content.parts.retain(|_| {
            index += 1;
            !is_answer(index - 1)
        });
        (!content.parts.is_empty()).then(|| content.into())
    }

    fn answers_to(&self, place: usize, content: &Content) -> Option<Content> {
        let mut used: HashMap<String, usize> = HashMap::new();
        let mut parts = Vec::new();
        for id in content.calls().map(FunctionCall::id_or_name) {
            let nth = used.entry(id.clone()).or_default();
            parts.extend(self.answers.get(&(place, id)).and_then(|(_, answers)| answers.get(*nth)).cloned());
            *nth += 1;
        }
        (!parts.is_empty()).then(|| Content::new("user", parts))
    }
}
