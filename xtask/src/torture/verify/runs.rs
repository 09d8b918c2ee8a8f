//! An acknowledged run exists and is over; one key is one run; a run's events are in the log once.

use super::super::{
    journal::{Message, Record},
    stored_state::{StoredRun, StoredSession, StoredState},
};
use std::collections::{HashMap, HashSet};

pub(super) fn check(record: &Record, stored_state: &StoredState) -> Vec<String> {
    let mut violations = Vec::new();
    for message in &record.messages {
        violations.extend(of_message(message, stored_state));
    }
    violations.extend(shared_runs(&record.messages));
    let cancelled: HashSet<&str> = record
        .messages
        .iter()
        .filter(|message| message.is_cancelled)
        .flat_map(|message| message.runs.iter().map(String::as_str))
        .collect();
    for (name, session) in &stored_state.sessions {
        violations.extend(session.runs.iter().filter_map(|run| status(name, run, &cancelled)));
        violations.extend(events(name, session));
    }
    violations
}

fn of_message(message: &Message, stored_state: &StoredState) -> Vec<String> {
    let Message { session, token, key, runs, .. } = message;
    let mut violations = Vec::new();
    if let Some(other) = runs.iter().find(|run| *run != &runs[0]) {
        violations.push(format!("key {key:?} of message {token} gave two runs: {} and {other}", runs[0]));
    }
    let stored = stored_state.sessions.get(session);
    let is_stored =
        |id: &&String| stored.is_some_and(|session| session.runs.iter().any(|run| run.id == **id));
    let missing = runs.iter().find(|run| !is_stored(run));
    violations
        .extend(missing.map(|run| format!("run {run} of message {token} was acknowledged and is lost")));
    violations
}

/// Two messages never have the same run.
fn shared_runs(messages: &[Message]) -> Vec<String> {
    let mut owners: HashMap<&str, &str> = HashMap::new();
    let mut violations = Vec::new();
    for message in messages {
        for run in &message.runs {
            let owner = owners.entry(run).or_insert(&message.token);
            if *owner != message.token {
                violations.push(format!("run {run} was given to messages {owner} and {}", message.token));
            }
        }
    }
    violations
}

fn status(session: &str, run: &StoredRun, cancelled: &HashSet<&str>) -> Option<String> {
    let StoredRun { id, status, error, .. } = run;
    match status.as_str() {
        "done" => None,
        "cancelled" if cancelled.contains(id.as_str()) => None,
        _ => Some(format!("run {id} of {session} ends as {status}, error {error:?}")),
    }
}

/// Every event of the agent belongs to one run, and is in the log as the run's readers see it.
fn events(name: &str, session: &StoredSession) -> Vec<String> {
    let mut violations = Vec::new();
    let mut seen = HashSet::new();
    for event in &session.events {
        if !seen.insert(&event["id"]) {
            violations.push(format!("event {} is in the log of {name} twice", event["id"]));
        }
    }
    let mut owners: HashMap<&str, &str> = HashMap::new();
    for run in &session.runs {
        for event in &run.events {
            let id = event["id"].as_str().unwrap_or_default();
            if let Some(other) = owners.insert(id, &run.id) {
                violations
                    .push(format!("event {id} of {name} is in the events of runs {other} and {}", run.id));
            }
            if !session.events.contains(event) {
                violations
                    .push(format!("event {id} of run {} is not in the log of {name} unchanged", run.id));
            }
        }
    }
    if session.runs.iter().all(StoredRun::is_over) {
        let agent = session.events.iter().filter(|event| event["author"] != "user");
        let unowned = agent.filter_map(|event| event["id"].as_str()).filter(|id| !owners.contains_key(id));
        violations.extend(unowned.map(|id| format!("event {id} of {name} belongs to no run")));
    }
    violations
}
