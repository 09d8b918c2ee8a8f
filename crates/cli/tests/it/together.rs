//! Several processes on one session: messages are answered in the order of acceptance, nothing is interleaved or lost.

use crate::common::{StoredLog, TestEnv, text_of};
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

fn test_env() -> TestEnv {
    TestEnv::scripted("[stubs.dig]\ndelay_ms = 5\n", SCRIPT)
}

/// The model no longer hangs in processes that start later.
fn repair_model(env: &TestEnv) {
    env.file("script.yaml", SCRIPT.replace("reply: [hang]", "reply: [{text: unstuck}]"));
}

fn log(env: &TestEnv) -> StoredLog {
    StoredLog::read(&env.database(), &SessionKey::new("lango", "user", "k"))
}

#[test]
fn turns_of_two_processes_do_not_interleave() {
    let env = test_env();
    thread::scope(|scope| {
        for name in ["a", "b"] {
            let env = &env;
            scope.spawn(move || {
                for turn in 0..TURNS {
                    env.lango(&["run", "--session", "k", &format!("{name}{turn}")]).success();
                }
            });
        }
    });
    let log = log(&env);
    log.assert_consistent();
    let turns: Vec<_> = log.events.chunk_by(|one, two| one.invocation_id == two.invocation_id).collect();
    assert_eq!(turns.len(), 2 * TURNS, "a turn was interrupted by another");
    for turn in &turns {
        let authors: Vec<&str> = turn.iter().map(|event| event.author.as_str()).collect();
        assert_eq!(authors, ["user", "lango-agent", "lango-agent", "lango-agent"]);
        assert_eq!(text_of(&turn[3]), "dug");
    }
    for name in ["a", "b"] {
        let messages = log.user_messages().into_iter().filter(|text| text.starts_with(name));
        let expected = (0..TURNS).map(|turn| format!("{name}{turn}"));
        assert!(messages.eq(expected), "messages of a process are in order: {:?}", log.user_messages());
    }
}

fn start(env: &TestEnv, message: &str) -> Child {
    let mut command = env.command(["run", "--session", "k", message]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Waits until the query returns `expected`.
#[track_caller]
fn wait_for_count(env: &TestEnv, query: &str, expected: i64) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while count(env, query) != Some(expected) {
        assert!(Instant::now() < deadline, "the count never became {expected}: {query}");
        thread::sleep(Duration::from_millis(2));
    }
}

fn count(env: &TestEnv, query: &str) -> Option<i64> {
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let file = rusqlite::Connection::open_with_flags(env.database(), flags).ok()?;
    file.query_row(query, [], |row| row.get(0)).ok()
}

const MESSAGES: &str = "SELECT COUNT(*) FROM messages";
const QUEUED: &str = "SELECT COUNT(*) FROM runs WHERE status = 'queued'";

fn assert_success(mut child: Child) {
    assert!(child.wait().unwrap().success());
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn messages_are_answered_in_order_of_acceptance() {
    let env = test_env();
    let first = start(&env, "hang");
    wait_for_count(&env, MESSAGES, 1);
    repair_model(&env);
    let second = start(&env, "second");
    wait_for_count(&env, QUEUED, 1);
    let third = start(&env, "third");
    wait_for_count(&env, QUEUED, 2);
    kill(first);
    assert_success(third);
    assert_success(second);
    let log = log(&env);
    log.assert_consistent();
    assert_eq!(log.user_messages(), ["hang", "second", "third"]);
    assert_eq!(text_of(&log.events[1]), "unstuck", "the run that was killed is finished first");
}

#[test]
fn queued_message_of_a_dead_process_is_answered() {
    let env = test_env();
    let first = start(&env, "hang");
    wait_for_count(&env, MESSAGES, 1);
    let second = start(&env, "second");
    wait_for_count(&env, QUEUED, 1);
    kill(second);
    kill(first);
    repair_model(&env);
    let third = env.lango(&["run", "--session", "k", "third"]).success();
    assert!(third.err.contains("an earlier message of this session was interrupted"), "{}", third.err);
    let log = log(&env);
    log.assert_consistent();
    assert_eq!(log.user_messages(), ["hang", "second", "third"]);
    assert_eq!(log.events.iter().filter(|event| text_of(event) == "dug").count(), 2);
    assert_eq!(count(&env, "SELECT COUNT(*) FROM runs WHERE status = 'done'"), Some(3));
}

#[test]
fn ctrl_c_withdraws_a_queued_message() {
    let env = test_env();
    let first = start(&env, "hang");
    wait_for_count(&env, MESSAGES, 1);
    let mut second = start(&env, "second");
    wait_for_count(&env, QUEUED, 1);
    let pid = rustix::process::Pid::from_child(&second);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(second.wait().unwrap().code(), Some(130));
    wait_for_count(&env, QUEUED, 0);
    kill(first);
    assert_eq!(log(&env).user_messages(), ["hang"]);
}
