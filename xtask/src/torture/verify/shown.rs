//! Text that was shown a second before its server was killed or stopped is stored: in the complete event, or in the interrupted
//! one.
//!
//! On a busy machine a save may be late. So text counts as lost only if the same server accepted a message that was sent a second
//! after the text was shown: a save that was due before that message must have been committed before it.

use super::super::{
    journal::{EventBody, Moment, Reading, Record, ServerName, text},
    stored_state::StoredState,
};
use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

const LIMIT: Duration = Duration::from_secs(1);

pub(super) fn check(record: &Record, stored_state: &StoredState) -> Vec<String> {
    let mut ends: HashMap<ServerName, Moment> = HashMap::new();
    for (server, at) in &record.ends {
        let end = ends.entry(*server).or_insert(*at);
        *end = (*end).min(*at);
    }
    let mut violations = Vec::new();
    for reading in &record.readings {
        let session = stored_state.sessions.get(&reading.session);
        let events = session.map(|session| session.events.as_slice()).unwrap_or_default();
        for ((event, server, _), chunks) in groups(reading) {
            let Some(end) = ends.get(&server) else { continue };
            let stored = events.iter().find(|stored| stored["id"] == event).map(text).unwrap_or_default();
            let mut shown = String::new();
            let lost = chunks.into_iter().find(|(chunk, _)| {
                shown.push_str(chunk);
                !stored.starts_with(&shown)
            });
            let Some((_, at)) = lost else { continue };
            let is_excused = record.windows.iter().any(|window| window.overlaps(at, *end));
            if !is_excused && stored_later(record, server, at + LIMIT, *end) {
                let (run, seconds) = (&reading.run, end.saturating_sub(at).as_secs_f64());
                violations.push(format!(
                    "text of event {event} of run {run} was shown {seconds:.1} s before its server was killed or stopped, and is lost"
                ));
            }
        }
    }
    violations
}

/// Whether the server accepted a message that was sent after one moment, before another.
fn stored_later(record: &Record, server: ServerName, after: Moment, before: Moment) -> bool {
    let of_server = record.messages.iter().filter(|message| message.accepted_by == Some(server));
    of_server
        .filter_map(|message| message.accepted.map(|accepted| (message.first_sent, accepted)))
        .any(|(sent, accepted)| sent >= after && accepted <= before)
}

/// An event, the server that streamed it, and the process in its ids. A reader of `/run_sse` gets no ids; if it continues on
/// `…/events`, the server sends the chunks again, under its own name.
type StreamedEvent<'a> = (&'a str, ServerName, &'a str);

/// The chunks of text of each event that one server streamed, with their times.
fn groups(reading: &Reading) -> BTreeMap<StreamedEvent<'_>, Vec<(&str, Moment)>> {
    let mut groups: BTreeMap<StreamedEvent<'_>, Vec<(&str, Moment)>> = BTreeMap::new();
    for seen in &reading.seen {
        if let EventBody::Partial { event, text } = &seen.body {
            let process = seen.id.partial.as_ref().map_or("", |(process, _)| process.as_str());
            groups.entry((event, seen.server, process)).or_default().push((text, seen.at));
        }
    }
    groups
}
