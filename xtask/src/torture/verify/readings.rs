//! A reader received the events of its run and of no other, each once, unchanged, and without a gap. The log contains every event
//! that a terminal printed.

use super::super::{
    journal::{EventBody, Reading, Record, Seen, text},
    stored_state::{StoredRun, StoredState},
};
use serde_json::Value;

pub(super) fn check(record: &Record, stored_state: &StoredState) -> Vec<String> {
    let mut violations = Vec::new();
    for reading in &record.readings {
        let stored = stored_state.sessions.get(&reading.session);
        let stored = stored.and_then(|session| session.runs.iter().find(|run| run.id == reading.run));
        match stored {
            Some(run) => violations.extend(whole(reading, run).into_iter().chain(partial(reading))),
            None => {
                violations.push(format!("run {} of {} was read and is lost", reading.run, reading.session));
            }
        }
    }
    for printed in &record.printed {
        let log = stored_state
            .sessions
            .get(&printed.session)
            .map(|session| session.events.as_slice())
            .unwrap_or_default();
        let whole = printed.events.iter().filter(|event| event["partial"] != true);
        for event in whole.filter(|event| !log.contains(event)) {
            let id = &event["id"];
            violations.push(format!(
                "event {id} was printed and is not in the log of {} unchanged",
                printed.session
            ));
        }
    }
    violations
}

fn wholes(reading: &Reading) -> impl Iterator<Item = (&Seen, &Value)> {
    reading.seen.iter().filter_map(|seen| match &seen.body {
        EventBody::Stored(event) => Some((seen, event)),
        EventBody::Partial { .. } => None,
    })
}

/// The stored events in the order of their numbers.
fn whole(reading: &Reading, run: &StoredRun) -> Vec<String> {
    let Reading { session, run: id, .. } = reading;
    let mut violations = Vec::new();
    let mut number = 0;
    for ((seen, event), expected) in wholes(reading).zip(1_u64..) {
        number = expected;
        if seen.id.stored != expected {
            let found = seen.id.stored;
            violations.push(format!(
                "a reader of run {id} of {session} saw event {found} where {expected} comes next"
            ));
            return violations;
        }
        let index = usize::try_from(expected - 1).unwrap_or(usize::MAX);
        match run.events.get(index) {
            Some(stored) if stored == event => {}
            Some(stored) => violations.push(format!(
                "event {expected} of run {id} of {session} is not what a reader saw: {event} and now {stored}"
            )),
            None => violations
                .push(format!("event {expected} of run {id} of {session} was seen and is lost: {event}")),
        }
    }
    let stored = run.events.len() as u64;
    if reading.is_complete && run.is_over() && number < stored {
        violations.push(format!(
            "a reader of run {id} of {session} received the end after {number} of {stored} events, error {:?}",
            reading.error
        ));
    }
    violations
}

/// Partial events are numbered without a gap by each process, precede their complete event, and are a prefix of its text.
fn partial(reading: &Reading) -> Vec<String> {
    let mut partials = Partials { reading, stored: 0, last: None, event: "", shown: String::new() };
    let mut violations = Vec::new();
    for seen in &reading.seen {
        match (&seen.body, &seen.id.partial) {
            (EventBody::Stored(event), None) => violations.extend(partials.whole(seen, event)),
            (EventBody::Partial { event, text }, Some((process, number))) => {
                violations.extend(partials.follows(seen, (process, *number)));
                partials.add(event, text);
            }
            (EventBody::Stored(_), Some(_)) | (EventBody::Partial { .. }, None) => {
                violations.push(format!("{} has the id of another kind of event", partials.named(seen)));
            }
        }
    }
    violations
}

/// The state of a reader between two stored events.
struct Partials<'a> {
    reading: &'a Reading,
    stored: u64,
    /// The process that counts, and its number.
    last: Option<(&'a str, u64)>,
    /// The event of the partial events, and their text so far.
    event: &'a str,
    shown: String,
}

impl<'a> Partials<'a> {
    fn named(&self, seen: &Seen) -> String {
        format!("partial event {:?} of run {} of {}", seen.id, self.reading.run, self.reading.session)
    }

    fn follows(&mut self, seen: &Seen, (process, number): (&'a str, u64)) -> Option<String> {
        let expected = match self.last {
            Some((before, number)) if before == process => number + 1,
            Some(_) | None => 1,
        };
        let is_restarted = self.last.is_some_and(|(before, _)| before != process);
        self.last = Some((process, number));
        if is_restarted {
            self.event = "";
        }
        let stored = self.stored;
        if seen.id.stored != stored {
            return Some(format!("{} comes after {stored} stored events", self.named(seen)));
        }
        (number != expected).then(|| format!("{} comes where {expected} is next", self.named(seen)))
    }

    fn add(&mut self, event: &'a str, text: &str) {
        if self.event != event {
            self.event = event;
            self.shown.clear();
        }
        self.shown.push_str(text);
    }

    fn whole(&mut self, seen: &Seen, event: &Value) -> Option<String> {
        (self.stored, self.last) = (seen.id.stored, None);
        let (shown, text) = (std::mem::take(&mut self.shown), text(event));
        let is_this = event["id"] == std::mem::take(&mut self.event);
        let is_kept = text.starts_with(&shown) || (event["interrupted"] == true && shown.starts_with(&text));
        let Reading { session, run, .. } = self.reading;
        (is_this && !is_kept).then(|| {
            format!("event {} of run {run} of {session} does not begin with its partial text", event["id"])
        })
    }
}
