//! Collecting what an agent said: the pieces or the whole, never both.

use adk::{content::Content, event::Event, flow::leads_nowhere};

/// Text of a run. Decided for each model call on its own, because a run may have several (spec I).
#[derive(Clone, Debug, Default)]
pub struct Collector {
    text: String,
    /// The model call whose pieces are being collected.
    streaming: Option<String>,
}

impl Collector {
    pub fn take(&mut self, event: &Event) {
        if event.is_from_user() {
            return;
        }
        // The run fails, or is corrected, and then the answer is what comes after (spec G2).
        if event.responses().any(leads_nowhere) {
            *self = Self::default();
        }
        let said = event.content.as_ref().map(Content::said).unwrap_or_default();
        let begun = self.streaming.as_ref() == Some(&event.id);
        if event.is_partial() {
            // A piece that says nothing, such as a thought, is not a piece of the text.
            if !begun && !said.is_empty() {
                self.streaming = Some(event.id.clone());
                self.separate(&said);
            }
            self.text.push_str(&said);
        } else if !begun {
            self.separate(&said);
            self.text.push_str(&said);
        }
    }

    /// What two model calls said stands on two lines.
    fn separate(&mut self, said: &str) {
        if !said.is_empty() && !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
    }

    pub fn into_text(self) -> String {
        self.text
    }
}
