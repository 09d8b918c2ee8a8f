//! Restores an event from a row.

use super::{
    legacy::{self, LegacyKind, OpenLegacyCalls},
    meta::{Meta, PartLocation, Slot},
};
use crate::view::history::is_legacy_correction;
use adk::{
    content::{Content, Data, Part},
    event::Event,
    notes::CORRECTION,
};
use serde_json::{Map, Value};
use session::{SessionMessage, StoredMessage};
use std::{collections::VecDeque, sync::Arc};

/// The default name of an agent.
pub const DEFAULT_AGENT: &str = "lango-agent";

/// Restores the rows of a log in order: a row without ids answers a call of an earlier row.
#[derive(Clone, Debug)]
pub struct Restorer {
    root_agent: Arc<str>,
    open_calls: OpenLegacyCalls,
}

impl Restorer {
    pub(crate) fn root_agent(&self) -> &str {
        &self.root_agent
    }

    /// `root_agent` is the author of rows without an author that are not the user's (spec F3–F5).
    pub fn new(root_agent: &str) -> Self {
        let root_agent = if root_agent.is_empty() { DEFAULT_AGENT } else { root_agent };
        Self { root_agent: root_agent.into(), open_calls: VecDeque::new() }
    }

    /// Restores the event of a row. A `meta` that cannot be read or does not match the columns is ignored, and the
    /// columns alone determine the event.
    pub fn restore(&mut self, stored: &StoredMessage) -> Event {
        let row = &stored.message;
        let event = match row.meta.as_deref().map(serde_json::from_str) {
            Some(Ok(meta)) => self.with_meta(row, meta),
            Some(Err(_)) => {
                let parts = legacy::with_text(row, &mut self.open_calls);
                self.without_meta(stored, parts)
            }
            None => {
                let parts = legacy::parts(row, &mut self.open_calls);
                self.without_meta(stored, parts)
            }
        };
        legacy::track_open_calls(row, &mut self.open_calls);
        event
    }

    /// Restores the calls that are open after these rows. Returns `false` if a row before them is needed for it.
    pub(crate) fn skip_all(&mut self, rows: &[StoredMessage]) -> bool {
        let last = rows.iter().rposition(|row| legacy::is_assistant(&row.message));
        rows[last.unwrap_or(rows.len())..].iter().for_each(|row| self.skip_positional(&row.message));
        last.is_some()
    }

    /// As [`skip`](Self::skip), for a row that may answer a call by position.
    fn skip_positional(&mut self, row: &SessionMessage) {
        if legacy::is_positional(row) {
            self.open_calls.pop_front();
        }
        self.skip(row);
    }

    /// Whether one of the rows answers a call of a row before them by position.
    pub(crate) fn depends_on_earlier(rows: &[StoredMessage]) -> bool {
        let own = rows.iter().take_while(|row| !legacy::is_assistant(&row.message));
        own.into_iter().any(|row| row.message.meta.is_none() && legacy::is_positional(&row.message))
    }

    /// Updates the open calls as [`restore`](Self::restore) does, for a row whose event is known.
    pub(crate) fn skip(&mut self, row: &SessionMessage) {
        legacy::track_open_calls(row, &mut self.open_calls);
    }

    fn with_meta(&mut self, row: &SessionMessage, meta: Meta) -> Event {
        let laid_out = meta.layout.and_then(|layout| lay_out(row, layout));
        let parts = laid_out.unwrap_or_else(|| legacy::with_text(row, &mut self.open_calls));
        let content = Content { parts, role: meta.role, origin: meta.origin };
        Event {
            content: (!meta.bare).then_some(content),
            id: row.id.clone(),
            author: self.author(row),
            timestamp: row.timestamp,
            ..meta.frame.into_event()
        }
    }

    fn without_meta(&self, stored: &StoredMessage, parts: Vec<Part>) -> Event {
        let row = &stored.message;
        let role = match LegacyKind::from_row(row) {
            LegacyKind::User => "user",
            LegacyKind::Assistant => "model",
            LegacyKind::Tool if parts.iter().any(|part| part.response().is_some()) => "user",
            LegacyKind::Tool | LegacyKind::Other => &row.role,
        };
        let is_correction = role == "user" && is_legacy_correction(&row.content);
        Event {
            content: (!parts.is_empty()).then(|| Content::new(role, parts)),
            custom_metadata: is_correction
                .then(|| Map::from_iter([(CORRECTION.to_owned(), Value::from(true))])),
            id: if row.id.is_empty() { format!("row-{}", stored.seq) } else { row.id.clone() },
            author: self.author(row),
            timestamp: row.timestamp,
            ..Event::default()
        }
    }

    fn author(&self, row: &SessionMessage) -> String {
        if !row.author.is_empty() {
            return row.author.clone();
        }
        match LegacyKind::from_row(row) {
            LegacyKind::User => "user".to_owned(),
            LegacyKind::Assistant | LegacyKind::Tool | LegacyKind::Other => self.root_agent.to_string(),
        }
    }
}

/// The parts by their layout, or `None` if the layout does not match the columns.
fn lay_out(row: &SessionMessage, layout: Vec<Slot>) -> Option<Vec<Part>> {
    let mut rest = row.content.as_str();
    let mut parts = Vec::with_capacity(layout.len());
    for slot in layout {
        let mut part = match slot.location {
            PartLocation::Text(length) => {
                let (text, behind) = rest.split_at_checked(length)?;
                rest = behind;
                Part { thought_signature: slot.signature, ..Part::text(text) }
            }
            PartLocation::Call(index) => {
                legacy::call_part(row.tool_calls.get(index).filter(|call| call.is_call())?)
            }
            PartLocation::Response(index, length) => {
                rest = rest.split_at_checked(length)?.1;
                legacy::response_part(row.tool_calls.get(index).filter(|call| call.is_response())?)
            }
            PartLocation::Part(part) => {
                parts.push(*part);
                continue;
            }
        };
        part.thought = slot.thought;
        part.extra = slot.extra;
        match &mut part.data {
            Data::FunctionCall(call) => call.extra = slot.function_extra,
            Data::FunctionResponse(response) => response.extra = slot.function_extra,
            Data::Text(_) | Data::InlineData(_) | Data::FileData(_) | Data::Unknown => {}
        }
        parts.push(part);
    }
    rest.is_empty().then_some(parts)
}

#[cfg(test)]
mod tests;
