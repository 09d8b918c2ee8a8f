//! Each rule finds its violation in a record of one session, and none in a valid record.

use super::*;
use crate::{
    harness::{event_id::EventId, script::Kind},
    torture::{
        journal::{EventBody, Message, Moment, Printed, Reading, Seen, ServerName, Window},
        stored_state::{StoredRun, StoredSession},
    },
};
use serde_json::{Value, json};
use std::time::Duration;

fn at(seconds: u64) -> Moment {
    Duration::from_secs(seconds)
}

fn event(id: &str, invocation: &str, author: &str, text: &str) -> Value {
    let content = json!({"role": "model", "parts": [{"text": text}]});
    json!({"id": id, "invocationId": invocation, "author": author, "content": content})
}

fn message(token: &str, run: &str, sent: u64) -> Message {
    Message {
        session: "s".to_owned(),
        token: token.to_owned(),
        kind: Kind::Note,
        key: Some(format!("key-{token}")),
        first_sent: at(sent),
        accepted: Some(at(sent + 1)),
        accepted_by: Some(ServerName { slot: 0, spawn: 1 }),
        runs: vec![run.to_owned()],
        is_cancelled: false,
    }
}

fn run(id: &str, events: Vec<Value>) -> StoredRun {
    StoredRun { id: id.to_owned(), status: "done".to_owned(), error: None, events }
}

fn seen(id: &str, body: EventBody, seconds: u64) -> Seen {
    let server = ServerName { slot: 0, spawn: 1 };
    Seen { id: EventId::parse(id).unwrap(), body, at: at(seconds), server }
}

fn answer(token: &str, invocation: &str) -> Value {
    event(&format!("a-{token}"), invocation, "agent", &format!("noted note {token}"))
}

/// Two messages, both answered; a reader has seen the first answer.
fn valid() -> (Record, StoredState) {
    let answers = [answer("1", "i1"), answer("2", "i2")];
    let [first, second] = answers.clone();
    let events = vec![
        event("u-1", "i1", "user", "note 1"),
        first.clone(),
        event("u-2", "i2", "user", "note 2"),
        second.clone(),
    ];
    let runs = vec![run("r2", vec![second]), run("r1", vec![first.clone()])];
    let mut stored_state = StoredState::default();
    stored_state.sessions.insert("s".to_owned(), StoredSession { events, runs });
    let reading = Reading {
        seen: vec![
            seen("0-p-1", EventBody::Partial { event: "a-1".to_owned(), text: "noted".to_owned() }, 2),
            seen("0-p-2", EventBody::Partial { event: "a-1".to_owned(), text: " note 1".to_owned() }, 2),
            seen("1", EventBody::Stored(first), 2),
        ],
        is_complete: true,
        ..Reading::new("s", "r1")
    };
    let record = Record {
        messages: vec![message("1", "r1", 0), message("2", "r2", 5)],
        readings: vec![reading],
        ..Record::default()
    };
    (record, stored_state)
}

/// Asserts that a change to the valid record gives this violation.
#[track_caller]
fn finds(wanted: &str, change: impl FnOnce(&mut Record, &mut StoredSession)) {
    let (mut record, mut stored_state) = valid();
    change(&mut record, stored_state.sessions.get_mut("s").unwrap());
    let found = verify(&record, &stored_state);
    assert!(found.iter().any(|violation| violation.contains(wanted)), "{wanted:?} is not in {found:#?}");
}

#[test]
fn valid_record_has_no_violation() {
    let (record, stored_state) = valid();
    assert_eq!(verify(&record, &stored_state), Vec::<String>::new());
}

#[test]
fn missing_repeated_reordered_and_unanswered_messages_are_violations() {
    finds("message 1 of s (runs [\"r1\"]) was acknowledged and is lost", |_, session| {
        session.events.retain(|event| event["id"] != "u-1");
    });
    finds("is stored 2 times", |_, session| {
        session.events.push(event("u-3", "i1", "user", "note 1"));
    });
    finds("message 2 of s (runs [\"r2\"]) overtook message 1", |_, session| session.events.rotate_left(2));
    finds("is not answered", |_, session| session.events.retain(|event| event["id"] != "a-2"));
    finds("is not answered", |_, session| session.events[1]["content"]["parts"][0]["text"] = json!("noted"));
    finds("is answered 2 times", |_, session| {
        let again = event("a-3", "i2", "agent", "noted note 2");
        session.events.push(again);
    });
    finds("event of another invocation", |_, session| session.events[1]["invocationId"] = json!("i2"));
    finds("has calls", |_, session| {
        let call = json!({"functionCall": {"id": "c1", "name": "look"}});
        session.events[1]["content"]["parts"].as_array_mut().unwrap().push(call);
    });
    finds("that no client sent", |record, _| {
        record.messages.remove(0);
    });
}

#[test]
fn concurrent_messages_have_any_order() {
    let (mut record, mut stored_state) = valid();
    record.messages[1].first_sent = at(1);
    stored_state.sessions.get_mut("s").unwrap().events.rotate_left(2);
    assert_eq!(verify(&record, &stored_state), Vec::<String>::new());
}

#[test]
fn cancelled_or_unacknowledged_message_may_be_missing() {
    for is_cancelled in [true, false] {
        let (mut record, mut stored_state) = valid();
        record.readings.clear();
        let message = &mut record.messages[0];
        message.is_cancelled = is_cancelled;
        if !is_cancelled {
            (message.accepted, message.runs) = (None, Vec::new());
        }
        let session = stored_state.sessions.get_mut("s").unwrap();
        session.events.drain(..2);
        session.runs.retain(|run| run.id != "r1" || is_cancelled);
        for run in session.runs.iter_mut().filter(|run| run.id == "r1") {
            run.status = "cancelled".to_owned();
            run.events.clear();
        }
        assert_eq!(verify(&record, &stored_state), Vec::<String>::new());
    }
}

#[test]
fn missing_unfinished_and_shared_runs_are_violations() {
    finds("run r1 of message 1 was acknowledged and is lost", |_, session| {
        session.runs.retain(|run| run.id != "r1");
    });
    for status in ["running", "queued", "waiting", "failed", "interrupted", "cancelled"] {
        finds(&format!("ends as {status}"), |_, session| session.runs[0].status = status.to_owned());
    }
    finds("gave two runs: r1 and r2", |record, _| record.messages[0].runs.push("r2".to_owned()));
    finds("run r1 was given to messages", |record, _| record.messages[1].runs = vec!["r1".to_owned()]);
    finds("is in the log of s twice", |_, session| {
        let again = session.events[1].clone();
        session.events.push(again);
    });
    finds("is in the events of runs", |_, session| {
        let foreign = session.runs[0].events[0].clone();
        session.runs[1].events.push(foreign);
    });
    finds("belongs to no run", |_, session| session.runs[0].events.clear());
}

#[test]
fn missing_repeated_and_changed_events_of_a_reader_are_violations() {
    finds("was seen and is lost", |_, session| {
        session.runs[1].events.clear();
    });
    finds("is not what a reader saw", |record, _| {
        record.readings[0].seen[2].body = EventBody::Stored(answer("2", "i2"));
    });
    finds("saw event 2 where 1 comes next", |record, _| record.readings[0].seen[2].id.stored = 2);
    finds("saw event 1 where 2 comes next", |record, _| {
        let again = record.readings[0].seen[2].clone();
        record.readings[0].seen.push(again);
    });
    finds("received the end after 0 of 1 events", |record, _| record.readings[0].seen.clear());
    finds("comes where 1 is next", |record, _| drop(record.readings[0].seen.remove(0)));
    finds("comes after 0 stored events", |record, _| record.readings[0].seen[1].id.stored = 1);
    finds("does not begin with its partial text", |record, _| {
        let EventBody::Partial { text, .. } = &mut record.readings[0].seen[1].body else { return };
        *text = " something else".to_owned();
    });
    finds("was printed and is not in the log", |record, _| {
        let printed = Printed { session: "s".to_owned(), events: vec![answer("3", "i3")] };
        record.printed.push(printed);
    });
}

#[test]
fn reader_that_disconnects_early_has_no_violation() {
    let (mut record, stored_state) = valid();
    record.readings[0].is_complete = false;
    record.readings[0].seen.truncate(1);
    assert_eq!(verify(&record, &stored_state), Vec::<String>::new());
}

#[test]
fn reader_may_receive_partial_events_of_a_second_process_from_the_start() {
    let (mut record, stored_state) = valid();
    let chunk =
        |event: &str, text: &str| EventBody::Partial { event: event.to_owned(), text: text.to_owned() };
    let before = [seen("0-q-1", chunk("a-0", "not"), 1), seen("0-q-2", chunk("a-0", "ed"), 1)];
    record.readings[0].seen.splice(0..0, before);
    assert_eq!(verify(&record, &stored_state), Vec::<String>::new());
}

#[test]
fn chunks_that_one_server_sends_again_under_other_ids_are_not_lost() {
    let (mut record, stored_state) = valid();
    record.messages[1].first_sent = at(15);
    record.messages[1].accepted = Some(at(15));
    // First on `/run_sse`, without ids, then on `…/events` from the start.
    let chunk = EventBody::Partial { event: "a-1".to_owned(), text: "noted".to_owned() };
    record.readings[0].seen.insert(0, seen("0-unknown-1", chunk, 1));
    record.ends.push((ServerName { slot: 0, spawn: 1 }, at(20)));
    assert_eq!(verify(&record, &stored_state), Vec::<String>::new());
}

/// A text was shown at 10 s and is not stored. Its server accepted a message that was sent at `later`, and was killed at 20 s.
fn shown_and_lost(later: u64, windows: Vec<Window>) -> Vec<String> {
    let (mut record, stored_state) = valid();
    record.messages[1].first_sent = at(later);
    record.messages[1].accepted = Some(at(later));
    let body = EventBody::Partial { event: "a-lost".to_owned(), text: "noted".to_owned() };
    let mut reading = Reading::new("s", "r2");
    reading.seen.push(seen("0-p-1", body, 10));
    record.readings.push(reading);
    record.ends.push((ServerName { slot: 0, spawn: 1 }, at(20)));
    record.windows = windows;
    verify(&record, &stored_state)
}

#[test]
fn loss_of_text_shown_long_before_a_kill_is_a_violation() {
    assert_eq!(shown_and_lost(15, Vec::new()).len(), 1);
    // Nothing shows that the server stored anything after the text.
    for later in [9, 10, 25] {
        assert_eq!(shown_and_lost(later, Vec::new()), Vec::<String>::new(), "{later}");
    }
    let faults = Window { from: at(12), to: Some(at(13)) };
    assert_eq!(shown_and_lost(15, vec![faults]), Vec::<String>::new());
}
