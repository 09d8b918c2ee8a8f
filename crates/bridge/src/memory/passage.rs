//! Passages: messages of an earlier conversation as an agent reads them, each bounded in size.

use crate::store::row::{DEFAULT_AGENT, Restorer};
use adk::{content::Part, event::Event, session::SessionKey};
use serde::Serialize;
use session::{SearchHit, Seq, StoredMessage};

/// The shown size of a message that matches, and of one beside it, in bytes.
const HIT_BYTES: usize = 1200;
const NEIGHBOUR_BYTES: usize = 400;
/// The shown size of the arguments or the result of a call.
const CALL_BYTES: usize = 300;

/// Consecutive messages of a session.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Passage {
    /// The id of the session.
    pub session: String,
    #[serde(skip)]
    pub key: SessionKey,
    pub messages: Vec<PassageMessage>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PassageMessage {
    pub seq: u64,
    /// UTC, as in RFC 3339.
    pub time: String,
    pub author: String,
    pub text: String,
    #[serde(skip)]
    pub timestamp: f64,
    #[serde(skip)]
    pub role: String,
}

/// What a passage is made for.
#[derive(Clone, Copy)]
pub(super) enum Excerpt<'a> {
    /// The part of one message that matches is shown with its surroundings.
    Hit(&'a SearchHit),
    /// The beginning of each message is shown.
    Range,
}

impl Passage {
    pub(super) fn new(key: &SessionKey, rows: &[&StoredMessage], excerpt: Excerpt<'_>) -> Self {
        let mut restorer = Restorer::new(DEFAULT_AGENT);
        let messages = rows.iter().filter_map(|row| {
            let event = restorer.restore(row);
            let text = text(&event);
            let text = match excerpt {
                Excerpt::Hit(hit) if hit.seq == row.seq => around(&text, &hit.snippet),
                Excerpt::Hit(_) => head(&text, NEIGHBOUR_BYTES),
                Excerpt::Range => head(&text, HIT_BYTES),
            };
            let role = if event.is_from_user() { "user" } else { "model" };
            (!text.trim().is_empty()).then(|| PassageMessage {
                seq: row.seq.0,
                time: rfc3339(row.message.timestamp),
                author: event.author.clone(),
                text,
                timestamp: row.message.timestamp,
                role: role.to_owned(),
            })
        });
        Self { session: key.session_id.clone(), messages: messages.collect(), key: key.clone() }
    }

    /// Whether a row is one of the messages.
    pub(super) fn contains(&self, key: &SessionKey, seq: Seq) -> bool {
        self.key == *key && self.messages.iter().any(|message| message.seq == seq.0)
    }

    /// The number of bytes that it takes.
    pub(super) fn size(&self) -> usize {
        self.messages.iter().map(|message| message.text.len() + message.author.len() + 60).sum()
    }
}

/// The texts, calls and results of an event. Thoughts are left out.
fn text(event: &Event) -> String {
    let parts = event.content.iter().flat_map(|content| &content.parts).filter(|part| !part.is_thought());
    parts.filter_map(part_text).collect::<Vec<_>>().join("\n")
}

fn part_text(part: &Part) -> Option<String> {
    let json = |value: Option<&serde_json::Map<String, serde_json::Value>>| {
        value.map(|value| serde_json::to_string(value).unwrap_or_default()).unwrap_or_default()
    };
    if let Some(call) = part.call() {
        return Some(format!("[call of {} {}]", call.name, head(&json(call.args.as_ref()), CALL_BYTES)));
    }
    if let Some(response) = part.response() {
        return Some(format!("[result of {}] {}", response.name, json(response.response.as_ref())));
    }
    part.as_text().map(str::to_owned)
}

/// The part of the text around its snippet.
fn around(text: &str, snippet: &str) -> String {
    if text.len() <= HIT_BYTES {
        return text.to_owned();
    }
    // A snippet has its words separated by single spaces.
    let first_words: Vec<&str> = snippet.trim_start_matches("… ").split(' ').take(3).collect();
    let found = first_words.first().and_then(|first| {
        let is_here = |at: &usize| {
            let mut words = text[*at..].split_whitespace();
            first_words.iter().all(|word| words.next() == Some(*word))
        };
        text.match_indices(first).map(|(at, _)| at).find(is_here)
    });
    let Some(at) = found else { return snippet.to_owned() };
    let start = text.floor_char_boundary(at.saturating_sub(HIT_BYTES / 4));
    let end = text.floor_char_boundary((start + HIT_BYTES).min(text.len()));
    let (before, after) = (if start > 0 { "… " } else { "" }, if end < text.len() { " …" } else { "" });
    format!("{before}{}{after}", &text[start..end])
}

fn head(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    format!("{} …", &text[..text.floor_char_boundary(bytes)])
}

/// A time in UTC without a fraction of a second.
pub(super) fn rfc3339(seconds: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "saturates, and is checked by the conversion")]
    let time = jiff::Timestamp::from_second(seconds as i64).unwrap_or_default();
    time.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_utc() {
        assert_eq!(rfc3339(0.0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(951_782_400.9), "2000-02-29T00:00:00Z");
        assert_eq!(rfc3339(1_700_000_000.25), "2023-11-14T22:13:20Z");
        assert_eq!(rfc3339(f64::INFINITY), "1970-01-01T00:00:00Z", "no time");
    }

    #[test]
    fn a_long_message_is_cut_around_the_snippet() {
        let text = format!("{}the locker  code\nis 4821{}", "before ".repeat(400), " after".repeat(400));
        let shown = around(&text, "… the locker code is 4821 after …");
        assert!(shown.contains("the locker  code\nis 4821") && shown.len() < HIT_BYTES + 20, "{shown}");
        assert_eq!(around("short", "short"), "short");
        assert_eq!(around(&text, "… not there …"), "… not there …");
    }
}
