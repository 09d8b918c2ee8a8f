//! `lango chat --server`: a terminal client of a server.

use crate::common::{AuthServer, CTRL_C, QUESTION, Terminal, TestEnv};
use serde_json::Value;
use std::fs;

const SLOW: &str = "
rules:
  - {when: {first_word: hang}, reply: [{text: 'Let me see'}, {delay_ms: 60000}]}
  - when: {first_word: work, turn: 0}
    reply: [{text: 'first I dig. '}, {call: {name: dig}}]
  - when: {first_word: work, turn: 1}
    reply: [{text: 'then I rest.'}]
  - {reply: [{text: 'noted: {user}'}]}
";

fn url(server: &AuthServer) -> String {
    format!("http://{}", server.address)
}

/// Gets a path with the local token.
fn get(env: &TestEnv, server: &AuthServer, path: &str) -> Value {
    let token = fs::read_to_string(env.home().join("server-token")).unwrap();
    server.get(path, &[("authorization", &format!("Bearer {}", token.trim()))]).json()
}

#[test]
fn chat_with_a_server_is_resumed_with_continue() {
    let env = TestEnv::new();
    let server = AuthServer::start(&env, &[]);
    let mut terminal = Terminal::open(&env, &["chat", "--server", &url(&server), "--session", "k"]);
    terminal.wait_for(&format!("agent lango · server {}", url(&server)));
    terminal.wait_for("› ");
    terminal.type_line("what is 15% of 240?");
    terminal.wait_for("→ calculate");
    terminal.wait_for("36\n");
    terminal.wait_for("tokens in");
    terminal.type_line("/sessions");
    terminal.wait_for("› k  20");
    terminal.type_line("/model x");
    terminal.wait_for("chooses the model");
    let screen = terminal.quit();
    let hint = format!("to continue: lango chat --server {} --continue", url(&server));
    assert!(screen.contains(&hint), "{screen}");

    let mut terminal = Terminal::open(&env, &["chat", "--server", &url(&server), "--continue"]);
    terminal.wait_for("continuing: k");
    terminal.type_line("and twice that?");
    terminal.wait_for("72\n");
    terminal.quit();
}

/// A tool that requires approval, and a model that repeats its result.
const ASKS: (&str, &str) = (
    "[stubs.danger]\nconfirm = true\nresponse = { done = true }\n",
    "
rules:
  - {when: {first_word: ask, turn: 0}, reply: [{call: {name: danger}}]}
  - {when: {first_word: twice, turn: 0}, reply: [{call: {name: danger}}, {call: {name: danger}}]}
  - {when: {tool: danger}, reply: [{text: 'it said {tool.response}'}]}
  - {reply: [{text: 'noted: {user}'}]}
",
);

fn asking() -> TestEnv {
    TestEnv::scripted(ASKS.0, ASKS.1)
}

fn chat(env: &TestEnv, server: &AuthServer) -> Terminal {
    Terminal::open(env, &["chat", "--server", &url(server), "--session", "k"])
}

/// Checks that the chat is at the prompt and answers the next message.
#[track_caller]
fn assert_at_prompt(mut terminal: Terminal) -> String {
    terminal.wait_for("\n› ");
    terminal.type_line("next");
    terminal.wait_for("noted: next");
    terminal.quit()
}

fn statuses(env: &TestEnv, server: &AuthServer) -> Vec<String> {
    let runs = get(env, server, "/apps/lango/users/user/sessions/k/runs");
    let runs = runs.as_array().unwrap().iter().rev();
    runs.map(|run| run["status"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn answered_question_is_asked_once_and_its_run_continues() {
    for (key, outcome) in [("y", r#"it said {"done":true}"#), ("n", "it said {\"error\"")] {
        let env = asking();
        let server = AuthServer::start(&env, &[]);
        let mut terminal = chat(&env, &server);
        terminal.wait_for("› ");
        terminal.type_line("ask");
        terminal.wait_for(QUESTION);
        terminal.type_line(key);
        terminal.wait_for(outcome);
        let screen = assert_at_prompt(terminal);
        assert_eq!(screen.matches(QUESTION.trim_end_matches(" › ")).count(), 1, "{screen}");
        assert_eq!(screen.matches("→ danger").count(), 1, "no event is shown twice: {screen}");
        assert_eq!(statuses(&env, &server), ["done", "done"]);
    }
}

#[test]
fn two_questions_of_one_turn_are_asked_in_sequence() {
    let env = asking();
    let server = AuthServer::start(&env, &[]);
    let mut terminal = chat(&env, &server);
    terminal.wait_for("› ");
    terminal.type_line("twice");
    for (key, outcome) in
        [("y", "← danger {\"done\":true}"), ("n", "← danger {\"error\":\"This tool call is rejected")]
    {
        terminal.wait_for(QUESTION);
        terminal.type_line(key);
        terminal.wait_for(outcome);
    }
    terminal.wait_for("it said");
    let screen = assert_at_prompt(terminal);
    assert_eq!(screen.matches(QUESTION.trim_end_matches(" › ")).count(), 2, "{screen}");
    assert_eq!(statuses(&env, &server), ["done", "done"]);
}

#[test]
fn question_can_be_answered_after_a_server_restart() {
    let env = asking();
    let server = AuthServer::start(&env, &[]);
    let port = server.address.port().to_string();
    let mut terminal = chat(&env, &server);
    terminal.wait_for("› ");
    terminal.type_line("ask");
    terminal.wait_for(QUESTION);
    drop(server);
    let server = AuthServer::start(&env, &["--port", &port]);
    terminal.type_line("y");
    terminal.wait_for(r#"it said {"done":true}"#);
    let screen = assert_at_prompt(terminal);
    assert_eq!(screen.matches("→ danger").count(), 1, "{screen}");
    assert_eq!(statuses(&env, &server), ["done", "done"]);
}

#[test]
fn late_answer_shows_the_result_of_the_first_one() {
    let env = asking();
    let server = AuthServer::start(&env, &[]);
    let mut first = chat(&env, &server);
    first.wait_for("› ");
    first.type_line("ask");
    first.wait_for(QUESTION);
    let mut second = chat(&env, &server);
    second.wait_for("continuing: k");
    second.wait_for(QUESTION);
    second.type_line("y");
    second.wait_for(r#"it said {"done":true}"#);
    second.quit();
    first.type_line("n");
    first.wait_for("another client answered the question first");
    first.wait_for(r#"it said {"done":true}"#);
    let screen = assert_at_prompt(first);
    assert_eq!(screen.matches(QUESTION.trim_end_matches(" › ")).count(), 1, "{screen}");
    assert_eq!(statuses(&env, &server), ["done", "done"]);
}

#[test]
fn question_superseded_by_a_message_is_not_asked_again() {
    let env = asking();
    let server = AuthServer::start(&env, &[]);
    let mut terminal = chat(&env, &server);
    terminal.wait_for("› ");
    terminal.type_line("ask");
    terminal.wait_for(QUESTION);
    env.lango_with_stdin(&["chat", "--server", &url(&server), "--session", "k"], b"other\n").success();
    terminal.type_line("y");
    terminal.wait_for("the question is no longer open: another message came before the answer");
    let screen = assert_at_prompt(terminal);
    assert!(!screen.contains(r#"{"done":true}"#), "{screen}");
    assert_eq!(statuses(&env, &server), ["cancelled", "done", "done"]);
}

#[test]
fn open_question_is_asked_again_after_reconnecting() {
    let env = asking();
    let server = AuthServer::start(&env, &[]);
    let mut terminal = chat(&env, &server);
    terminal.wait_for("› ");
    terminal.type_line("ask");
    terminal.wait_for(QUESTION);
    drop(terminal);

    let mut terminal = chat(&env, &server);
    terminal.wait_for("continuing: k");
    terminal.wait_for(QUESTION);
    terminal.type_line("y");
    terminal.wait_for(r#"it said {"done":true}"#);
    let screen = assert_at_prompt(terminal);
    assert_eq!(screen.matches(QUESTION.trim_end_matches(" › ")).count(), 1, "{screen}");
    assert!(!screen.contains("requires confirmation"), "earlier events are not shown again: {screen}");
}

#[test]
fn client_follows_its_run_across_a_server_restart() {
    let env = TestEnv::scripted("[stubs.dig]\ndelay_ms = 1500\n", SLOW);
    let server = AuthServer::start(&env, &[]);
    let port = server.address.port().to_string();
    let mut terminal = Terminal::open(&env, &["chat", "--server", &url(&server), "--session", "k"]);
    terminal.wait_for("› ");
    terminal.type_line("work hard");
    terminal.wait_for("→ dig");
    drop(server);
    terminal.wait_for("the connection is lost");
    let server = AuthServer::start(&env, &["--port", &port]);
    terminal.wait_for("then I rest.");
    let screen = terminal.quit();
    assert_eq!(screen.matches("first I dig.").count(), 1, "{screen}");
    let stored = get(&env, &server, "/apps/lango/users/user/sessions/k").to_string();
    assert_eq!(stored.matches("work hard").count(), 1, "{stored}");
}

#[test]
fn ctrl_c_cancels_the_run_on_the_server() {
    let env = TestEnv::scripted("", SLOW);
    let server = AuthServer::start(&env, &[]);
    let mut terminal = Terminal::open(&env, &["chat", "--server", &url(&server), "--session", "k"]);
    terminal.wait_for("› ");
    terminal.type_line("hang");
    terminal.wait_for("Let me see");
    terminal.type_keys(CTRL_C);
    terminal.wait_for("stopped; the session can be continued");
    let runs = get(&env, &server, "/apps/lango/users/user/sessions/k/runs");
    assert_eq!(runs[0]["status"], "cancelled", "{runs}");
    terminal.type_line("next");
    terminal.wait_for("noted: next");
    terminal.quit();
}

#[test]
fn piped_chat_works_with_a_server() {
    let env = TestEnv::scripted("", SLOW);
    let server = AuthServer::start(&env, &[]);
    let output = env.lango_with_stdin(&["chat", "--server", &url(&server)], b"one\ntwo\n").success();
    assert_eq!(output.out, "noted: one\nnoted: two\n");
}

#[test]
fn chat_creates_a_missing_session_and_recreates_a_deleted_one() {
    let env = TestEnv::scripted("", SLOW);
    let server = AuthServer::start(&env, &["--log"]);
    let mut terminal = Terminal::open(&env, &["chat", "--server", &url(&server), "--session", "k"]);
    terminal.wait_for("› ");
    for text in ["one", "two"] {
        terminal.type_line(text);
        terminal.wait_for(&format!("noted: {text}"));
    }
    let session = "/apps/lango/users/user/sessions/k";
    let token = fs::read_to_string(env.home().join("server-token")).unwrap();
    let own = format!("Bearer {}", token.trim());
    assert_eq!(server.request("DELETE", session, &[("authorization", &own)], b"").status, 200);
    terminal.type_line("three");
    terminal.wait_for("noted: three");
    terminal.quit();
    server.get("/health", &[]);
    let log = server.wait_for_log(r#""path":"/health""#);
    let posts =
        log.lines().filter(|line| line.contains(r#""method":"POST""#)).fold(String::new(), |text, line| {
            let line: Value = serde_json::from_str(line).unwrap();
            format!("{text}{} {}\n", line["path"].as_str().unwrap(), line["status"])
        });
    insta::assert_snapshot!(posts, @"
    /apps/lango/users/user/sessions/k/runs 404
    /apps/lango/users/user/sessions/k 200
    /apps/lango/users/user/sessions/k/runs 202
    /apps/lango/users/user/sessions/k/runs 202
    /apps/lango/users/user/sessions/k/runs 404
    /apps/lango/users/user/sessions/k 200
    /apps/lango/users/user/sessions/k/runs 202
    ");
}

#[test]
fn chat_with_a_token_uses_the_sessions_of_its_user() {
    let env = TestEnv::scripted("", SLOW);
    let token = env.lango(&["token", "add", "laptop", "--user", "ann"]).success().out;
    let server = AuthServer::start(&env, &[]);
    // Another data directory, as on another machine.
    let elsewhere = TestEnv::new();
    let mut command = elsewhere.command(["chat", "--server", &url(&server), "--session", "k"]);
    let refused = elsewhere.run(&mut command).failure();
    assert!(refused.err.contains("LANGO_SERVER_TOKEN"), "{refused:?}");
    command.env("LANGO_SERVER_TOKEN", token.trim());
    let mut fed =
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut fed.stdin.take().unwrap(), b"hello\n").unwrap();
    let output = fed.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "noted: hello\n");
    let stored = get(&env, &server, "/apps/lango/users/ann/sessions/k");
    assert_eq!(stored["events"].as_array().unwrap().len(), 2, "{stored}");
}

#[test]
fn unreachable_server_error_names_the_fix() {
    let env = TestEnv::new();
    let unreachable = env.lango(&["chat", "--server", "http://127.0.0.1:9"]).failure();
    assert!(unreachable.err.contains("http://127.0.0.1:9 cannot be reached"), "{unreachable:?}");
    assert!(unreachable.err.contains("lango serve starts a server"), "{unreachable:?}");
    let wrong = env.lango(&["chat", "--server", "http://127.0.0.1:9/api"]).failure();
    assert!(wrong.err.contains("write it as http://127.0.0.1:18789"), "{wrong:?}");
    let mut plain = env.command(["chat", "--server", "http://agents.example.com"]);
    let plain = env.run(plain.env("LANGO_SERVER_TOKEN", "a-token-that-nobody-should-see-0123")).failure();
    assert!(plain.err.contains("would be sent unencrypted"), "{plain:?}");
    assert!(!plain.err.contains("nobody-should-see"), "{plain:?}");
}
