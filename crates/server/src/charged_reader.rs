//! Reads the events of a run for a response. A large event is charged to the response budget until it is sent.

use crate::response_budget::{ResponseBudget, SMALL_PART};
use adk::error::ServiceError;
use axum::body::Bytes;
use bridge::runs::{Reader, ReaderItem, RunEntry, RunOutcome};

pub(crate) struct ChargedReader {
    reader: Reader,
    budget: ResponseBudget,
}

/// The next part of a response.
pub(crate) enum ResponsePart {
    /// An entry and its bytes.
    Bytes(Bytes),
    /// The entry has no part in this response.
    Skipped,
    End(RunOutcome),
}

impl ChargedReader {
    pub(crate) fn new(reader: Reader, budget: &ResponseBudget) -> Self {
        Self { reader, budget: budget.clone() }
    }

    /// Waits for the next entry and formats it; `None` skips it. While a large entry waits for memory it is not held: it is read again
    /// afterwards. If the future is dropped, no entry is lost.
    pub(crate) async fn next(
        &mut self,
        mut format: impl FnMut(&RunEntry) -> Option<String>,
    ) -> Result<ResponsePart, ServiceError> {
        let before = self.reader.cursor();
        let size = match self.reader.next().await? {
            ReaderItem::End(end) => return Ok(ResponsePart::End(end)),
            ReaderItem::Entry(entry) if entry.json.len() <= SMALL_PART => {
                return Ok(
                    format(&entry).map_or(ResponsePart::Skipped, |text| ResponsePart::Bytes(text.into()))
                );
            }
            ReaderItem::Entry(entry) => entry.json.len(),
        };
        self.reader.rewind(before);
        let charge = self.budget.charge(self.reader.user(), size).await;
        match self.reader.next().await? {
            ReaderItem::End(end) => Ok(ResponsePart::End(end)),
            ReaderItem::Entry(entry) => Ok(match format(&entry) {
                Some(text) => ResponsePart::Bytes(charge.attach(text.into_bytes())),
                None => ResponsePart::Skipped,
            }),
        }
    }
}
