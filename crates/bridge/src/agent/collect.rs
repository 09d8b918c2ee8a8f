//! Collects the text of an answer, from its partial events or from the final event, never from both.

use adk::{content::Content, event::Event, flow::is_unknown_agent};

/// Collects the text of a run. Partial or final is decided per model call, because a run may have several (spec I).
#[derive(Clone, Debug, Default)]
pub struct AnswerCollector {
    text: String,
    /// The model call whose partial events are being collected.
    streaming: Option<String>,
    /// The text ends with an interrupted answer, which the next text continues.
    interrupted: bool,
}

impl AnswerCollector {
    pub fn push(&mut self, event: &Event) {
        if event.is_from_user() {
            return;
        }
        // The run fails or is corrected; after a correction the answer starts over (spec G2).
        if event.responses().any(is_unknown_agent) {
            *self = Self::default();
        }
        let text = event.content.as_ref().map(Content::text).unwrap_or_default();
        let begun = self.streaming.as_ref() == Some(&event.id);
        if event.is_partial() {
            // A partial event without text, such as a thought, does not decide for the partial events.
            if !begun && !text.is_empty() {
                self.streaming = Some(event.id.clone());
                self.separate(&text);
            }
            self.text.push_str(&text);
        } else {
            if !begun {
                self.separate(&text);
                self.text.push_str(&text);
            }
            self.interrupted |= event.is_interrupted_answer();
        }
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
    let text = last.content.as_ref().filter(|_| last.is_interrupted_answer()).map(Content::text)?;
    (!text.trim().is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: &str, text: &str) -> Event {
        Event { id: id.to_owned(), content: Some(Content::model(text)), ..Event::new("e", "root") }
    }

    fn collected(events: impl IntoIterator<Item = Event>) -> String {
        let mut collector = AnswerCollector::default();
        events.into_iter().for_each(|event| collector.push(&event));
        collector.into_text()
    }

    #[test]
    fn last_answer_is_interrupted_until_the_next_message() {
        let shown = Event { interrupted: Some(true), ..event("1", "Hel") };
        let thought = Content::new("model", vec![adk::content::Part::thought("hm")]);
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
