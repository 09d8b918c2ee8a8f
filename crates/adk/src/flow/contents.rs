//! The contents of a request: rebuilt for each model call from the events that the agent may see.
//!
//! `visible` filters events and quotes other agents; `arrange` puts each response behind its call:
//!
//! ```text
//! log       user  call a  call b  result b  user  result a
//! contents  user  call a  result a  call b  result b  user
//! ```

use super::foreign;
use crate::{
    agent::IncludeContents,
    content::{Content, Data, FunctionCall, FunctionResponse, Part},
    event::Event,
    model::ContentRef,
    notes::{CONTINUE_NOTE, Note, preloaded_memory},
    pending::{PendingCall, is_question, is_question_name},
};
use std::{
    cell::LazyCell,
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
};

/// An agent's view of a log.
#[derive(Clone, Copy, Debug)]
pub struct HistoryView<'a> {
    pub agent: &'a str,
    pub branch: Option<&'a str>,
    pub include: IncludeContents,
    pub events: &'a [Arc<Event>],
    /// Calls before `events` that one of the events responds to.
    pub deferred: &'a [PendingCall],
}

/// The contents of a request: visible events in order, each call followed by its newest response.
pub fn contents(view: HistoryView<'_>) -> Vec<ContentRef> {
    let VisibleContents { contents, have_calls } = visible(view);
    if have_calls { arrange(contents) } else { contents }
}

struct VisibleContents {
    contents: Vec<ContentRef>,
    /// Whether there are calls or responses. Without them, the contents are in order already.
    have_calls: bool,
}

fn visible(view: HistoryView<'_>) -> VisibleContents {
    let events = match view.include {
        IncludeContents::Default => view.events,
        IncludeContents::None => current_turn(view.events),
    };
    // Lazy: most histories have no calls and need no second pass.
    let confirmations = LazyCell::new(|| QuestionParts::find(events));
    let mut callers: HashMap<String, &str> =
        view.deferred.iter().map(|call| (call.id(), call.author.as_str())).collect();
    let mut seen = HashSet::new();
    let mut contents = Vec::with_capacity(events.len());
    let mut have_calls = false;
    // The last content is an interrupted answer of this agent.
    let mut is_interrupted = false;
    for event in events.iter().filter(|event| is_in_branch(event, view.branch)) {
        if is_interrupted && is_answer(event) {
            contents.push(continue_note());
            is_interrupted = false;
        }
        let has_calls = event.content.iter().flat_map(|content| &content.parts).any(is_call_or_response);
        if has_calls {
            callers.extend(event.calls().map(|call| (call.id_or_name(), event.author.as_str())));
        }
        let Some(content) = visible_content(event, has_calls.then(|| &*confirmations)) else { continue };
        is_interrupted &= !event.is_from_user();
        if !event.is_from_user() && event.author != view.agent {
            contents.extend(foreign::quote(&event.author, &content));
            continue;
        }
        if !has_calls {
            is_interrupted = event.is_interrupted_answer();
            contents.push(content);
            contents.extend(event.preloaded_memory().map(memory_note));
            continue;
        }
        have_calls = true;
        let content = quote_foreign_results(content, view.agent, &callers, &mut contents);
        contents.extend(missing_calls(&content, view.deferred, &mut seen).map(ContentRef::from));
        contents.extend((!content.parts.is_empty()).then_some(content));
    }
    if is_interrupted {
        contents.push(continue_note());
    }
    VisibleContents { contents, have_calls }
}

fn memory_note(text: &str) -> ContentRef {
    ContentRef::note(Note::PreloadedMemory, Content::user(preloaded_memory(text)))
}

fn continue_note() -> ContentRef {
    ContentRef::note(Note::ContinueAnswer, Content::user(CONTINUE_NOTE))
}

/// Whether the event is an answer of a model, possibly an empty one. An error event is not: it may belong to the interrupted
/// answer before it.
fn is_answer(event: &Event) -> bool {
    !event.is_from_user() && event.content.is_some() && event.responses().next().is_none()
}

fn is_call_or_response(part: &Part) -> bool {
    matches!(part.data, Data::FunctionCall(_) | Data::FunctionResponse(_))
}

/// The events since the last message of the user.
fn current_turn(events: &[Arc<Event>]) -> &[Arc<Event>] {
    let start = events.iter().rposition(|event| event.is_user_message());
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

/// The content of an event without confirmations and empty parts; `None` if nothing is left.
fn visible_content(event: &Arc<Event>, confirmations: Option<&QuestionParts<'_>>) -> Option<ContentRef> {
    let content = event.content.as_ref().filter(|_| !event.is_partial())?;
    let is_visible = |part: &&Part| {
        !part.is_empty() && confirmations.is_none_or(|confirmations| !confirmations.contains(part))
    };
    // Unsigned thoughts alone are not an answer: most providers would get an empty message.
    let is_dropped =
        |part: &Part| part.is_thought() && part.as_text().is_some() && part.thought_signature.is_none();
    if content.parts.iter().filter(is_visible).all(is_dropped) {
        return None;
    }
    let is_blank =
        |part: &Part| part.is_thought() || part.as_text().is_some_and(|text| text.trim().is_empty());
    if event.is_interrupted_answer() && content.parts.iter().all(is_blank) {
        return None;
    }
    if content.parts.iter().all(|part| is_visible(&part)) {
        return Some(ContentRef::Event(Arc::clone(event)));
    }
    let parts = content.parts.iter().filter(is_visible).cloned().collect();
    Some(Content { parts, role: content.role.clone(), origin: content.origin.clone() }.into())
}

/// Questions to the user and their replies. A model does not see them.
struct QuestionParts<'a> {
    questions: HashSet<&'a str>,
    /// Calls by a model of a reserved name. The model sees them with the error that there is no such tool.
    mistakes: HashSet<&'a str>,
}

impl<'a> QuestionParts<'a> {
    fn find(events: &'a [Arc<Event>]) -> Self {
        let mut found = Self { questions: HashSet::new(), mistakes: HashSet::new() };
        let calls = events.iter().flat_map(|event| event.calls().map(move |call| (event, call)));
        for (event, call) in calls.filter(|(_, call)| is_question_name(&call.name)) {
            let ids = if is_question(event, call) { &mut found.questions } else { &mut found.mistakes };
            ids.extend(call.id.as_deref());
        }
        found
    }

    fn contains(&self, part: &Part) -> bool {
        let (id, name) = match &part.data {
            Data::FunctionCall(call) => (&call.id, &call.name),
            Data::FunctionResponse(response) => (&response.id, &response.name),
            Data::Text(_) | Data::InlineData(_) | Data::FileData(_) | Data::Unknown => return false,
        };
        let id = id.as_deref().unwrap_or_default();
        self.questions.contains(id) || (is_question_name(name) && !self.mistakes.contains(id))
    }
}

/// Removes late results of other agents' calls from a user's message and quotes them instead.
fn quote_foreign_results(
    content: ContentRef,
    agent: &str,
    callers: &HashMap<String, &str>,
    contents: &mut Vec<ContentRef>,
) -> ContentRef {
    let caller = |part: &Part| -> Option<&str> {
        let caller = *callers.get(&part.response()?.id_or_name())?;
        (caller != agent).then_some(caller)
    };
    if !content.parts.iter().any(|part| caller(part).is_some()) {
        return content;
    }
    let content = content.into_content();
    let (foreign, own): (Vec<Part>, Vec<Part>) =
        content.parts.into_iter().partition(|part| caller(part).is_some());
    contents.extend(foreign.into_iter().filter_map(|part| {
        let caller = caller(&part)?;
        foreign::quote(caller, &Content::new("user", vec![part]))
    }));
    Content { parts: own, ..content }.into()
}

/// Deferred calls that this content responds to and that are not among the visible events.
fn missing_calls(content: &Content, deferred: &[PendingCall], seen: &mut HashSet<String>) -> Option<Content> {
    seen.extend(content.calls().map(FunctionCall::id_or_name));
    let ids = content.responses().map(FunctionResponse::id_or_name).filter(|id| seen.insert(id.clone()));
    let unseen: Vec<Part> = ids
        .filter_map(|id| deferred.iter().find(|call| call.id() == id))
        .map(|call| call.part.clone())
        .collect();
    (!unseen.is_empty()).then(|| Content::new("model", unseen))
}

/// Puts the newest response of each call right behind it. If the last content responds to an older call, that call moves to the
/// end with it. Responses without a call stay where they are.
fn arrange(contents: Vec<ContentRef>) -> Vec<ContentRef> {
    let pairs = CallPairs::find(&contents);
    if pairs.answers.is_empty() {
        return contents;
    }
    let moved = pairs.late_call(contents.len());
    let mut arranged = Vec::with_capacity(contents.len());
    let mut tail = Vec::new();
    for (index, content) in contents.into_iter().enumerate() {
        let target = if moved == Some(index) { &mut tail } else { &mut arranged };
        let answers = pairs.responses_to(index, &content);
        target.extend(pairs.without_responses(index, content));
        target.extend(answers.map(ContentRef::from));
    }
    arranged.extend(tail);
    arranged
}

/// Calls without a response so far, by name. A response without an id answers the oldest one of its name (spec P2).
#[derive(Default)]
struct UnansweredCalls(HashMap<String, VecDeque<String>>);

impl UnansweredCalls {
    fn add(&mut self, call: &FunctionCall) {
        self.0.entry(call.name.clone()).or_default().push_back(call.id_or_name());
    }

    /// The id of the call that the response belongs to.
    fn answer(&mut self, response: &FunctionResponse) -> String {
        let id = response.id_or_name();
        let Some(open) = self.0.get_mut(&response.name) else { return id };
        match open.iter().position(|open| *open == id) {
            Some(answered) => _ = open.remove(answered),
            None if response.id.as_ref().is_none_or(String::is_empty) => {
                return open.pop_front().unwrap_or(id);
            }
            None => {}
        }
        id
    }
}

/// Maps calls to their responses. Models reuse ids: a response belongs to the newest call before it with its id.
struct CallPairs {
    /// From (index of the call's content, call id) to (index of the newest response's content, response parts). There are
    /// several parts if one content has several calls with that id.
    answers: HashMap<(usize, String), (usize, Vec<Part>)>,
    /// (Content index, part index) of matched responses.
    matched: HashSet<(usize, usize)>,
    /// Indexes of contents that hold nothing but matched responses.
    pure: HashSet<usize>,
}

impl CallPairs {
    fn find(contents: &[ContentRef]) -> Self {
        let mut calls: HashMap<String, usize> = HashMap::new();
        let mut unanswered = UnansweredCalls::default();
        let mut pairs = Self { answers: HashMap::new(), matched: HashSet::new(), pure: HashSet::new() };
        for (place, content) in contents.iter().enumerate() {
            let mut matched = 0;
            for (index, part) in content.parts.iter().enumerate() {
                if let Some(call) = part.call() {
                    calls.insert(call.id_or_name(), place);
                    unanswered.add(call);
                } else if let Some(id) = part.response().map(|response| unanswered.answer(response))
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
        let (newest, parts) = self.answers.entry((call, id.clone())).or_default();
        if *newest != place {
            parts.clear();
        }
        *newest = place;
        let mut part = part.clone();
        // A response without an id gets that of its call; if the call has none either, both are derived from the name.
        if let Data::FunctionResponse(response) = &mut part.data
            && response.id_or_name() != id
        {
            response.id = Some(id);
        }
        parts.push(part);
    }

    /// The index of a call that the last content responds to, if other contents lie between.
    fn late_call(&self, length: usize) -> Option<usize> {
        let last = length.checked_sub(1)?;
        let answered =
            self.answers.iter().filter(|(_, (place, _))| *place == last).map(|((call, _), _)| *call);
        answered.min().filter(|&call| (call + 1..last).any(|between| !self.pure.contains(&between)))
    }

    fn without_responses(&self, place: usize, content: ContentRef) -> Option<ContentRef> {
        let is_answer = |index| self.matched.contains(&(place, index));
        if !(0..content.parts.len()).any(is_answer) {
            return Some(content);
        }
        let mut content = content.into_content();
        let mut index = 0;
        content.parts.retain(|_| {
            index += 1;
            !is_answer(index - 1)
        });
        (!content.parts.is_empty()).then(|| content.into())
    }

    fn responses_to(&self, place: usize, content: &Content) -> Option<Content> {
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
