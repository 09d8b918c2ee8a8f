//! An acknowledged message is in its session once, in the order of acceptance, and answered.

use super::super::{
    journal::{Message, Moment, Record, text},
    stored_state::{StoredSession, StoredState},
};
use serde_json::Value;
use std::collections::{HashMap, HashSet};

pub(super) fn check(record: &Record, stored_state: &StoredState) -> Vec<String> {
    let mut sent: HashMap<&str, Vec<&Message>> = HashMap::new();
    for message in &record.messages {
        sent.entry(&message.session).or_default().push(message);
    }
    let mut violations = Vec::new();
    let none = StoredSession::default();
    for (session, sent) in &sent {
        let stored = stored_state.sessions.get(*session).unwrap_or(&none);
        let exchanges = exchanges(&stored.events);
        violations.extend(presence(sent, &exchanges));
        violations.extend(order(sent, &exchanges));
        violations.extend(sent.iter().flat_map(|message| answer(message, &exchanges)));
    }
    for (session, stored) in &stored_state.sessions {
        let known: HashSet<String> = sent
            .get(session.as_str())
            .into_iter()
            .flatten()
            .map(|message| message.kind.message(&message.token))
            .collect();
        let unknown =
            exchanges(&stored.events).into_iter().filter(|exchange| !known.contains(&exchange.text));
        violations.extend(
            unknown
                .map(|exchange| format!("{session} has a message that no client sent: {:?}", exchange.text)),
        );
    }
    violations
}

/// A user message with all events up to the next one.
struct Exchange<'a> {
    text: String,
    message: &'a Value,
    rest: Vec<&'a Value>,
}

fn exchanges(events: &[Value]) -> Vec<Exchange<'_>> {
    let mut exchanges: Vec<Exchange<'_>> = Vec::new();
    for event in events {
        if event["author"] == "user" {
            exchanges.push(Exchange { text: text(event), message: event, rest: Vec::new() });
        } else if let Some(exchange) = exchanges.last_mut() {
            exchange.rest.push(event);
        }
    }
    exchanges
}

fn named(message: &Message) -> String {
    format!("message {} of {} (runs {:?})", message.token, message.session, message.runs)
}

fn of<'a>(message: &Message, exchanges: &'a [Exchange<'a>]) -> impl Iterator<Item = &'a Exchange<'a>> {
    let text = message.kind.message(&message.token);
    exchanges.iter().filter(move |exchange| exchange.text == text)
}

fn presence(sent: &[&Message], exchanges: &[Exchange<'_>]) -> Vec<String> {
    let mut violations = Vec::new();
    for message in sent {
        let number = of(message, exchanges).count();
        // A message that was cancelled while it was queued never entered the log.
        let must_be_there = message.accepted.is_some() && !message.is_cancelled;
        match number {
            0 if must_be_there => violations.push(format!("{} was acknowledged and is lost", named(message))),
            0 | 1 => {}
            more => violations.push(format!("{} is stored {more} times", named(message))),
        }
    }
    violations
}

/// A message that was acknowledged before another was first sent is before it in the log.
fn order(sent: &[&Message], exchanges: &[Exchange<'_>]) -> Vec<String> {
    let by_text: HashMap<String, &Message> =
        sent.iter().map(|message| (message.kind.message(&message.token), *message)).collect();
    let mut latest: Option<(&Message, Moment)> = None;
    let mut violations = Vec::new();
    for exchange in exchanges {
        let Some(message) = by_text.get(&exchange.text) else { continue };
        if let (Some(accepted), Some((before, first_sent))) = (message.accepted, latest)
            && accepted < first_sent
        {
            let (message, before) = (named(message), named(before));
            violations
                .push(format!("{before} overtook {message}, which was acknowledged before it was sent"));
        }
        if latest.is_none_or(|(_, first_sent)| message.first_sent > first_sent) {
            latest = Some((message, message.first_sent));
        }
    }
    violations
}

/// The message is answered: all calls have one result, and the last event is the answer of the script.
fn answer(message: &Message, exchanges: &[Exchange<'_>]) -> Vec<String> {
    if message.is_cancelled {
        return Vec::new();
    }
    let mut violations = Vec::new();
    for Exchange { message: stored, rest, .. } in of(message, exchanges) {
        let name = named(message);
        let invocation = &stored["invocationId"];
        if let Some(other) = rest.iter().find(|event| event["invocationId"] != *invocation) {
            violations.push(format!("{name} is followed by an event of another invocation: {}", other["id"]));
        }
        let (calls, results) = (ids(rest, "functionCall"), ids(rest, "functionResponse"));
        if calls.iter().any(|call| results.iter().filter(|result| *result == call).count() != 1)
            || calls.len() != results.len()
        {
            violations.push(format!("{name} has calls {calls:?} and results {results:?}"));
        }
        let is_interrupted = rest.iter().any(|event| event["interrupted"] == true);
        let is_answered = rest.last().is_some_and(|last| {
            last["interrupted"] != true
                && message.kind.is_answered_by(&message.token, &text(last), is_interrupted)
        });
        if !is_answered {
            let last = rest.last().map(|last| shorten(&text(last)));
            violations.push(format!("{name} is not answered; the text of the last event is {last:?}"));
        }
        let answers = rest.iter().filter(|event| text(event) == message.kind.answer(&message.token)).count();
        if answers > 1 {
            violations.push(format!("{name} is answered {answers} times"));
        }
    }
    violations
}

fn shorten(text: &str) -> String {
    text.chars().take(80).collect()
}

/// The ids of the calls or of the results.
fn ids<'a>(events: &[&'a Value], part: &str) -> Vec<&'a str> {
    let parts = events.iter().flat_map(|event| event["content"]["parts"].as_array().into_iter().flatten());
    parts.filter_map(|value| value[part]["id"].as_str()).collect()
}
