//! Two processes on one session: first come first served, nothing interleaved, nothing lost.

use crate::common::{Log, Place, said};
use session::SessionKey;
use std::{
    process::{Child, Stdio},
    thread,
    time::{Duration, Instant},
};

const TURNS: usize = 8;

fn place() -> Place {
    Place::scripted(
        "[stubs.dig]\ndelay_ms = 5\n",
        "rules:\n\
         - {when: {tool: any}, reply: [{delay_ms: 5}, {text: dug}]}\n\
         - {when: {first_word: hang}, reply: [hang]}\n\
         - {reply: [{delay_ms: 5}, {call: {name: dig}}]}\n",
    )
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
const WAITING: &str = "SELECT COUNT(*) FROM inbox";

fn finished(mut child: Child) {
    assert!(child.wait().unwrap().success());
}

fn killed(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn who_came_first_is_served_first() {
    let place = place();
    let first = start(&place, "hang");
    until(&place, MESSAGES, 1);
    let second = start(&place, "second");
    until(&place, WAITING, 1);
    let third = start(&place, "third");
    until(&place, WAITING, 2);
    killed(first);
    finished(third);
    finished(second);
    let log = log(&place);
    log.assert_sound();
    assert_eq!(log.asked(), ["hang", "second", "third"]);
}

#[test]
fn a_message_is_answered_although_its_sender_died_while_it_waited() {
    let place = place();
    let first = start(&place, "hang");
    until(&place, MESSAGES, 1);
    let second = start(&place, "second");
    until(&place, WAITING, 1);
    killed(second);
    killed(first);
    place.lango(&["run", "--session", "k", "third"]).well();
    let log = log(&place);
    log.assert_sound();
    assert_eq!(log.asked(), ["hang", "second", "third"]);
    assert_eq!(log.events.iter().filter(|event| said(event) == "dug").count(), 2);
}

#[test]
fn who_waits_can_be_told_to_stop_waiting() {
    let place = place();
    let first = start(&place, "hang");
    until(&place, MESSAGES, 1);
    let mut second = start(&place, "second");
    until(&place, WAITING, 1);
    let pid = rustix::process::Pid::from_child(&second);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(second.wait().unwrap().code(), Some(130));
    until(&place, WAITING, 0);
    killed(first);
    assert_eq!(log(&place).asked(), ["hang"]);
}
