//! Several processes on one session: messages are answered in the order of acceptance, nothing is interleaved or lost.

use crate::common::{Log, Place, said};
use session::SessionKey;
use std::{
    process::{Child, Stdio},
    thread,
    time::{Duration, Instant},
};

const TURNS: usize = 8;

const SCRIPT: &str = "rules:\n\
    - {when: {tool: any}, reply: [{delay_ms: 5}, {text: dug}]}\n\
    - {when: {first_word: hang}, reply: [hang]}\n\
    - {reply: [{delay_ms: 5}, {call: {name: dig}}]}\n";

fn place() -> Place {
    Place::scripted("[stubs.dig]\ndelay_ms = 5\n", SCRIPT)
}

/// The model no longer hangs in processes that start from now on.
fn repair_model(place: &Place) {
    place.file("script.yaml", SCRIPT.replace("reply: [hang]", "reply: [{text: unstuck}]"));
}

fn log(place: &Place) -> Log {
    Log::read(&place.database(), &SessionKey::new("lango", "user", "k"))
}

#[test]
fn turns_of_two_processes_do_not_mix() {
    let place = place();
    thread::scope(|scope| {
        for name in ["a", "b"] {
            let place = &place;
            scope.spawn(move || {
                for turn in 0..TURNS {
                    place.lango(&["run", "--session", "k", &format!("{name}{turn}")]).well();
                }
            });
        }
    });
    let log = log(&place);
    log.assert_sound();
    let turns: Vec<_> = log.events.chunk_by(|one, two| one.invocation_id == two.invocation_id).collect();
    assert_eq!(turns.len(), 2 * TURNS, "a turn was interrupted by another");
    for turn in &turns {
        let told: Vec<&str> = turn.iter().map(|event| event.author.as_str()).collect();
        assert_eq!(told, ["user", "lango-agent", "lango-agent", "lango-agent"]);
        assert_eq!(said(&turn[3]), "dug");
    }
    for name in ["a", "b"] {
        let asked = log.asked().into_iter().filter(|asked| asked.starts_with(name));
        let expected = (0..TURNS).map(|turn| format!("{name}{turn}"));
        assert!(asked.eq(expected), "each in its order: {:?}", log.asked());
    }
}

fn start(place: &Place, message: &str) -> Child {
    let mut command = place.command(["run", "--session", "k", message]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Waits until the query answers with this number.
#[track_caller]
fn until(place: &Place, query: &str, expected: i64) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while count(place, query) != Some(expected) {
        assert!(Instant::now() < deadline, "it never came to {expected}: {query}");
        thread::sleep(Duration::from_millis(2));
    }
}

fn count(place: &Place, query: &str) -> Option<i64> {
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let file = rusqlite::Connection::open_with_flags(place.database(), flags).ok()?;
    file.query_row(query, [], |row| row.get(0)).ok()
}

const MESSAGES: &str = "SELECT COUNT(*) FROM messages";
const QUEUED: &str = "SELECT COUNT(*) FROM runs WHERE status = 'queued'";

fn finished(mut child: Child) {
    assert!(child.wait().unwrap().success());
}

fn killed(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_message_that_was_accepted_earlier_is_answered_earlier() {
    let place = place();
    let first = start(&place, "hang");
    until(&place, MESSAGES, 1);
    repair_model(&place);
    let second = start(&place, "second");
    until(&place, QUEUED, 1);
    let third = start(&place, "third");
    until(&place, QUEUED, 2);
    killed(first);
    finished(third);
    finished(second);
    let log = log(&place);
    log.assert_sound();
    assert_eq!(log.asked(), ["hang", "second", "third"]);
    assert_eq!(said(&log.events[1]), "unstuck", "the run that was killed is finished first");
}

#[test]
fn a_message_is_answered_although_its_sender_died_while_it_waited() {
    let place = place();
    let first = start(&place, "hang");
    until(&place, MESSAGES, 1);
    let second = start(&place, "second");
    until(&place, QUEUED, 1);
    killed(second);
    killed(first);
    repair_model(&place);
    let third = place.lango(&["run", "--session", "k", "third"]).well();
    assert!(third.err.contains("an earlier message of this session was interrupted"), "{}", third.err);
    let log = log(&place);
    log.assert_sound();
    assert_eq!(log.asked(), ["hang", "second", "third"]);
    assert_eq!(log.events.iter().filter(|event| said(event) == "dug").count(), 2);
    assert_eq!(count(&place, "SELECT COUNT(*) FROM runs WHERE status = 'done'"), Some(3));
}

#[test]
fn a_message_that_waits_is_withdrawn_by_ctrl_c() {
    let place = place();
    let first = start(&place, "hang");
    until(&place, MESSAGES, 1);
    let mut second = start(&place, "second");
    until(&place, QUEUED, 1);
    let pid = rustix::process::Pid::from_child(&second);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(second.wait().unwrap().code(), Some(130));
    until(&place, QUEUED, 0);
    killed(first);
    assert_eq!(log(&place).asked(), ["hang"]);
}
