//! The text of an answer: from its partial events or from the final event, never from both.

use adk::{content::Part, event::Event, flow::is_unknown_agent};

/// Decides which text of an event is new: that of the partial events of a model call, or that of its final event if they had none
/// (spec I). It is decided per model call, because a run may have several. Every front end uses this rule.
#[derive(Clone, Debug, Default)]
pub struct NewText {
    /// The id of the events of the model call.
    call: String,
    has_text: bool,
    has_thoughts: bool,
}

impl NewText {
    /// Whether partial events of the same model call had text or thoughts.
    pub fn has_begun(&self, event: &Event) -> bool {
        self.call == event.id && (self.has_text || self.has_thoughts)
    }

    /// Whether a text or thought of the event is new.
    pub fn is_new(&mut self, event: &Event, part: &Part) -> bool {
        if self.call != event.id {
            *self = Self { call: event.id.clone(), ..Self::default() };
        }
        let has_streamed = if part.is_thought() { &mut self.has_thoughts } else { &mut self.has_text };
        if event.is_partial() {
            *has_streamed |= part.as_text().is_some_and(|text| !text.is_empty());
            return true;
        }
        !*has_streamed
    }
}

/// Whether the answer starts over: the run fails or is corrected, and what was said so far is not part of the answer (spec G2).
pub fn discards_answer(event: &Event) -> bool {
    event.responses().any(is_unknown_agent)
}

/// Collects the text of a run.
#[derive(Clone, Debug, Default)]
pub struct AnswerCollector {
    text: String,
    new_text: NewText,
    /// The text ends with an interrupted answer, which the next text continues.
    interrupted: bool,
}

impl AnswerCollector {
    pub fn push(&mut self, event: &Event) {
        if event.is_from_user() {
            return;
        }
        if discards_answer(event) {
            *self = Self::default();
        }
        let has_begun = self.new_text.has_begun(event);
        let parts = event.content.iter().flat_map(|content| &content.parts).filter(|part| !part.is_thought());
        let new: String =
            parts.filter(|part| self.new_text.is_new(event, part)).filter_map(Part::as_text).collect();
        if !has_begun {
            self.separate(&new);
        }
        self.text.push_str(&new);
        self.interrupted |= !event.is_partial() && event.is_interrupted_answer();
    }

    /// Separates the texts of two model calls by a line break, unless the second continues an interrupted answer.
    fn separate(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        let continues = std::mem::take(&mut self.interrupted);
        if !continues && !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
    }

    pub fn into_text(self) -> String {
        self.text
    }
}

/// The text of the last answer in these events, if it was interrupted and nothing followed.
pub fn interrupted_answer<'a>(events: impl DoubleEndedIterator<Item = &'a Event>) -> Option<String> {
    let last = events.rev().find(|event| event.content.is_some())?;
    let text =
        last.content.as_ref().filter(|_| last.is_interrupted_answer()).map(adk::content::Content::text)?;
    (!text.trim().is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use adk::content::Content;

    fn event(id: &str, text: &str) -> Event {
        Event { id: id.to_owned(), content: Some(Content::model(text)), ..Event::new("e", "root") }
    }

    fn collected(events: impl IntoIterator<Item = Event>) -> String {
        let mut collector = AnswerCollector::default();
        events.into_iter().for_each(|event| collector.push(&event));
        collector.into_text()
    }

    #[test]
    fn spec_i_text_is_taken_from_partial_events_or_from_the_final_one() {
        let partial = |event: Event| Event { partial: Some(true), ..event };
        let thinking =
            |event: Event| Event { content: Some(Content::new("model", vec![Part::thought("hm")])), ..event };
        assert_eq!(
            collected([partial(event("1", "Hel")), partial(event("1", "lo")), event("1", "Hello")]),
            "Hello"
        );
        assert_eq!(collected([event("1", "Hello")]), "Hello");
        // Streamed thoughts alone do not replace the text of the final event.
        assert_eq!(collected([partial(thinking(event("1", ""))), event("1", "Hello")]), "Hello");
        assert_eq!(collected([partial(event("1", "a")), event("1", "a"), event("2", "b")]), "a\nb");
    }

    #[test]
    fn last_answer_is_interrupted_until_the_next_message() {
        let shown = Event { interrupted: Some(true), ..event("1", "Hel") };
        let thought = Content::new("model", vec![Part::thought("hm")]);
        let wordless = Event { content: Some(thought), ..shown.clone() };
        let failed = Event { error_code: Some("E".to_owned()), ..Event::new("e", "root") };
        let message = Event { content: Some(Content::user("hi")), ..Event::new("e", "user") };
        let interrupted = |events: &[&Event]| interrupted_answer(events.iter().copied());
        assert_eq!(interrupted(&[&message, &shown, &failed]).as_deref(), Some("Hel"));
        assert_eq!(interrupted(&[&shown, &message]), None);
        assert_eq!(interrupted(&[&message, &wordless]), None);
        assert_eq!(interrupted(&[]), None);
    }

    #[test]
    fn continued_answer_is_one_text() {
        let interrupted = || Event { interrupted: Some(true), ..event("1", "Hel") };
        let partial = |id, text| Event { partial: Some(true), ..event(id, text) };
        assert_eq!(collected([interrupted(), event("2", "lo")]), "Hello");
        assert_eq!(
            collected([partial("1", "He"), partial("1", "l"), interrupted(), event("2", "lo")]),
            "Hello"
        );
        assert_eq!(
            collected([interrupted(), partial("2", "l"), partial("2", "o"), event("2", "lo")]),
            "Hello"
        );
        assert_eq!(collected([interrupted(), interrupted(), event("2", "lo")]), "HelHello");
        assert_eq!(collected([interrupted(), event("2", "lo"), event("3", "you")]), "Hello\nyou");
    }
}
