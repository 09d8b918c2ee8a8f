//! Collecting what an agent said: the pieces or the whole, never both.

use adk::{content::Content, event::Event, flow::is_unknown_agent};

/// Text of a run. Decided for each model call on its own, because a run may have several (spec I).
#[derive(Clone, Debug, Default)]
pub struct AnswerCollector {
    text: String,
    /// The model call whose pieces are being collected.
    streaming: Option<String>,
    /// The last text is the shown part of an interrupted answer: what follows continues it.
    interrupted: bool,
}

impl AnswerCollector {
    pub fn take(&mut self, event: &Event) {
        if event.is_from_user() {
            return;
        }
        // The run fails, or is corrected, and then the answer is what comes after (spec G2).
        if event.responses().any(is_unknown_agent) {
            *self = Self::default();
        }
        let said = event.content.as_ref().map(Content::text).unwrap_or_default();
        let begun = self.streaming.as_ref() == Some(&event.id);
        if event.is_partial() {
            // A piece that says nothing, such as a thought, is not a piece of the text.
            if !begun && !said.is_empty() {
                self.streaming = Some(event.id.clone());
                self.separate(&said);
            }
            self.text.push_str(&said);
        } else {
            if !begun {
                self.separate(&said);
                self.text.push_str(&said);
            }
            self.interrupted |= event.is_interrupted_answer();
        }
    }

    /// What two model calls said stands on two lines, unless the second continues an interrupted answer of the first.
    fn separate(&mut self, said: &str) {
        if said.is_empty() {
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

/// The text of the last answer in these events, if it was interrupted and nobody said anything since.
pub fn interrupted_answer<'a>(events: impl DoubleEndedIterator<Item = &'a Event>) -> Option<String> {
    let last = events.rev().find(|event| event.content.is_some())?;
    let said = last.content.as_ref().filter(|_| last.is_interrupted_answer()).map(Content::text)?;
    (!said.trim().is_empty()).then_some(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: &str, text: &str) -> Event {
        Event { id: id.to_owned(), content: Some(Content::model(text)), ..Event::new("e", "root") }
    }

    fn collected(events: impl IntoIterator<Item = Event>) -> String {
        let mut collector = AnswerCollector::default();
        events.into_iter().for_each(|event| collector.take(&event));
        collector.into_text()
    }

    #[test]
    fn the_last_answer_is_interrupted_until_somebody_speaks() {
        let shown = Event { interrupted: Some(true), ..event("1", "Hel") };
        let thought = Content::new("model", vec![adk::content::Part::thought("hm")]);
        let wordless = Event { content: Some(thought), ..shown.clone() };
        let failed = Event { error_code: Some("E".to_owned()), ..Event::new("e", "root") };
        let message = Event { content: Some(Content::user("hi")), ..Event::new("e", "user") };
        let of = |events: &[&Event]| interrupted_answer(events.iter().copied());
        assert_eq!(of(&[&message, &shown, &failed]).as_deref(), Some("Hel"));
        assert_eq!(of(&[&shown, &message]), None);
        assert_eq!(of(&[&message, &wordless]), None);
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn a_continued_answer_is_one_text() {
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
