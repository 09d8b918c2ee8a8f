//! The draft of an answer: the partial answer that was streamed and is not in the log yet. If the answer is interrupted, the
//! draft becomes an event with `interrupted: true`.

use crate::{
    content::{Content, Part},
    event::Event,
};
use std::{fmt, time::Duration};
use tokio_util::{
    sync::CancellationToken,
    task::{TaskTracker, task_tracker::TaskTrackerToken},
};

/// Flushes the drafts of running answers before the process exits, and stops their output. Clones share one state.
#[derive(Clone, Default)]
pub struct DraftFlush {
    requested: CancellationToken,
    /// One token per answer with unsaved text.
    unsaved: TaskTracker,
}

/// Guard of emitted, unsaved text: a flush waits until it is dropped.
pub(crate) struct UnsavedText {
    _token: TaskTrackerToken,
}

impl fmt::Debug for DraftFlush {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DraftFlush").finish_non_exhaustive()
    }
}

impl DraftFlush {
    /// Waits until all emitted text is saved. No run emits text after this call, so a process that exits now loses nothing
    /// that a client has seen.
    pub async fn flush(&self) {
        self.requested.cancel();
        self.unsaved.close();
        self.unsaved.wait().await;
    }

    pub(crate) fn is_requested(&self) -> bool {
        self.requested.is_cancelled()
    }

    /// Admits text that is about to be emitted. Pending forever once a flush is requested.
    ///
    /// The token is acquired before the flag is read: either the flush sees the token and waits, or this call sees the flag
    /// and stops.
    pub(crate) async fn admit(&self) -> UnsavedText {
        let unsaved = UnsavedText { _token: self.unsaved.token() };
        if self.is_requested() {
            drop(unsaved);
            return std::future::pending().await;
        }
        unsaved
    }

    /// Waits for `interval`, or until a flush is requested.
    pub(crate) async fn wait(&self, interval: Duration) {
        self.requested.run_until_cancelled(tokio::time::sleep(interval)).await;
    }
}

/// The text that a streamed answer has emitted so far. Adjacent chunks of one kind (thought or text) are merged. Calls and
/// signatures are left out, because they are valid in a complete answer only.
///
/// A service that stores a draft in increments merges them with this type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnswerDraft {
    segments: Vec<DraftSegment>,
    saved: DraftPosition,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct DraftSegment {
    thought: bool,
    text: String,
}

/// A position in a draft. Drafts only grow, so a position stays valid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DraftPosition {
    segment: usize,
    byte: usize,
}

impl AnswerDraft {
    /// Appends the texts of a content.
    pub fn push(&mut self, content: &Content) {
        for part in &content.parts {
            let Some(text) = part.as_text().filter(|text| !text.is_empty()) else { continue };
            let thought = part.is_thought();
            match self.segments.last_mut().filter(|last| last.thought == thought) {
                Some(last) => last.text.push_str(text),
                None => self.segments.push(DraftSegment { thought, text: text.to_owned() }),
            }
        }
    }

    /// Turns the draft into an interrupted event based on `frame`; `None` if the draft is blank.
    pub fn into_event(self, frame: Event) -> Option<Event> {
        let content = content(self.segments.iter().map(|segment| (segment.thought, segment.text.as_str())))?;
        Some(Event { content: Some(content), interrupted: Some(true), ..frame })
    }

    /// The unsaved text and its end; `None` if it is blank.
    pub(crate) fn unsaved(&self) -> Option<(Content, DraftPosition)> {
        Some((content(self.unsaved_texts())?, self.end()))
    }

    /// Whether the unsaved text is not blank.
    pub(crate) fn has_unsaved(&self) -> bool {
        self.unsaved_texts().any(|(_, text)| !text.trim().is_empty())
    }

    fn unsaved_texts(&self) -> impl Iterator<Item = (bool, &str)> {
        let DraftPosition { segment: first, byte } = self.saved;
        self.segments.iter().enumerate().skip(first).map(move |(at, DraftSegment { thought, text })| {
            let from = if at == first { byte } else { 0 };
            (*thought, text.get(from..).unwrap_or_default())
        })
    }

    /// Marks everything up to `end` as saved.
    pub(crate) fn mark_saved(&mut self, end: DraftPosition) {
        self.saved = end;
    }

    fn end(&self) -> DraftPosition {
        let byte = self.segments.last().map_or(0, |last| last.text.len());
        DraftPosition { segment: self.segments.len().saturating_sub(1), byte }
    }
}

fn content<'a>(segments: impl Iterator<Item = (bool, &'a str)>) -> Option<Content> {
    let part = |(thought, text)| if thought { Part::thought(text) } else { Part::text(text) };
    let parts: Vec<Part> = segments.filter(|(_, text)| !text.is_empty()).map(part).collect();
    let has_words = parts.iter().filter_map(Part::as_text).any(|text| !text.trim().is_empty());
    has_words.then(|| Content::new("model", parts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::FunctionCall;

    fn draft(parts: Vec<Part>) -> AnswerDraft {
        let mut draft = AnswerDraft::default();
        for part in parts {
            draft.push(&Content::new("model", vec![part]));
        }
        draft
    }

    fn parts(content: &Content) -> Vec<(bool, &str)> {
        content.parts.iter().map(|part| (part.is_thought(), part.as_text().unwrap())).collect()
    }

    fn event(draft: AnswerDraft) -> Option<Event> {
        draft.into_event(Event::new("e", "root"))
    }

    #[test]
    fn adjacent_texts_of_one_kind_are_merged() {
        let shown = draft(vec![
            Part::thought("h"),
            Part::thought("m"),
            Part::text("Hel"),
            Part::text("lo"),
            Part::thought("!"),
        ]);
        let event = event(shown).unwrap();
        assert_eq!((event.author.as_str(), event.interrupted), ("root", Some(true)));
        let content = event.content.unwrap();
        assert_eq!(content.role.as_deref(), Some("model"));
        assert_eq!(parts(&content), [(true, "hm"), (false, "Hello"), (true, "!")]);
    }

    #[test]
    fn calls_and_signatures_are_left_out() {
        let signed = Part { thought_signature: Some("c2ln".to_owned()), ..Part::text("Hel") };
        let call = FunctionCall { name: "f".to_owned(), ..FunctionCall::default() };
        let content = event(draft(vec![signed, call.clone().into(), Part::text("lo")])).unwrap().content;
        assert_eq!(content, Some(Content::model("Hello")));
        assert_eq!(event(draft(vec![call.into()])), None);
    }

    #[test]
    fn a_blank_draft_is_empty() {
        for parts in [vec![], vec![Part::text("")], vec![Part::text("\n"), Part::thought(" ")]] {
            assert_eq!(draft(parts.clone()).unsaved(), None);
            assert!(!draft(parts.clone()).has_unsaved());
            assert_eq!(event(draft(parts)), None);
        }
    }

    #[test]
    fn unsaved_text_starts_at_the_saved_position() {
        let mut shown = draft(vec![Part::thought("hm"), Part::text("né")]);
        let (first, end) = shown.unsaved().unwrap();
        assert_eq!(parts(&first), [(true, "hm"), (false, "né")]);
        shown.push(&Content::model("e "));
        assert_eq!(
            parts(&shown.unsaved().unwrap().0),
            [(true, "hm"), (false, "née ")],
            "after a failed save"
        );
        shown.mark_saved(end);
        assert_eq!(
            parts(&shown.unsaved().unwrap().0),
            [(false, "e ")],
            "text emitted during a save stays unsaved"
        );
        shown.mark_saved(shown.unsaved().unwrap().1);
        assert_eq!(shown.unsaved(), None);
        shown.push(&Content::model(" "));
        assert_eq!((shown.unsaved(), shown.has_unsaved()), (None, false));
        shown.push(&Content::new("model", vec![Part::thought("so")]));
        assert!(shown.has_unsaved());
        assert_eq!(parts(&shown.unsaved().unwrap().0), [(false, " "), (true, "so")]);
    }

    #[test]
    fn saved_increments_merge_to_the_same_event() {
        let mut shown = draft(vec![Part::thought("hm"), Part::text("Hel")]);
        let (first, end) = shown.unsaved().unwrap();
        shown.mark_saved(end);
        shown.push(&Content::new("model", vec![Part::text("lo"), Part::thought("!")]));
        let (second, _) = shown.unsaved().unwrap();
        let mut merged = AnswerDraft::default();
        merged.push(&first);
        merged.push(&second);
        let frame = Event::new("e", "root");
        assert_eq!(merged.into_event(frame.clone()), shown.into_event(frame));
    }
}
