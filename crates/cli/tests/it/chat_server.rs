//! `lango chat --server`: the terminal here, the agent there.

use crate::common::{CTRL_C, Place, Running, Terminal};
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

fn url(server: &Running) -> String {
    format!("http://{}", server.address)
}

/// What the server keeps, as the machine's owner sees it.
fn get(place: &Place, server: &Running, path: &str) -> Value {
    let token = fs::read_to_string(place.home().join("server-token")).unwrap();
    server.get(path, &[("authorization", &format!("Bearer {}", token.trim()))]).json()
}

#[test]
fn a_person_talks_to_the_servers_agent_and_finds_the_conversation_again() {
    let place = Place::new();
    let server = Running::start(&place, &[]);
    let mut terminal = Terminal::open(&place, &["chat", "--server", &url(&server), "--session", "k"]);
    terminal.sees(&format!("agent lango · server {}", url(&server)));
    terminal.sees("› ");
    terminal.says("what is 15% of 240?");
    terminal.sees("→ calculate");
    terminal.sees("36\n");
    terminal.sees("tokens in");
    terminal.says("/sessions");
    terminal.sees("› k  20");
    terminal.says("/model x");
    terminal.sees("chooses the model");
    let screen = terminal.leaves();
    assert!(screen.contains("--continue goes on from here"), "{screen}");

    let mut terminal = Terminal::open(&place, &["chat", "--server", &url(&server), "--continue"]);
    terminal.sees("going on with: k");
    terminal.says("and twice that?");
    terminal.sees("72\n");
    terminal.leaves();
}

/// A tool that asks before it runs, and a model that repeats its result.
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

fn asking() -> Place {
    Place::scripted(ASKS.0, ASKS.1)
}

fn chat(place: &Place, server: &Running) -> Terminal {
    Terminal::open(place, &["chat", "--server", &url(server), "--session", "k"])
}

/// The person is at the prompt for messages, and the conversation goes on from there.
#[track_caller]
fn goes_on(mut terminal: Terminal) -> String {
    terminal.sees("\n› ");
    terminal.says("next");
    terminal.sees("noted: next");
    terminal.leaves()
}

fn statuses(place: &Place, server: &Running) -> Vec<String> {
    let runs = get(place, server, "/apps/lango/users/user/sessions/k/runs");
    let runs = runs.as_array().unwrap().iter().rev();
    runs.map(|run| run["status"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn an_answered_question_is_asked_once_and_its_run_goes_on() {
    for (key, outcome) in [("y", r#"it said {"done":true}"#), ("n", "it said {\"error\"")] {
        let place = asking();
        let server = Running::start(&place, &[]);
        let mut terminal = chat(&place, &server);
        terminal.sees("› ");
        terminal.says("ask");
        terminal.sees("[y/N] › ");
        terminal.types(key);
        terminal.sees(outcome);
        let screen = goes_on(terminal);
        assert_eq!(screen.matches("[y/N]").count(), 1, "{screen}");
        assert_eq!(screen.matches("→ danger").count(), 1, "nothing is shown twice: {screen}");
        assert_eq!(statuses(&place, &server), ["done", "done"]);
    }
}

#[test]
fn two_questions_of_one_turn_are_asked_one_after_the_other() {
    let place = asking();
    let server = Running::start(&place, &[]);
    let mut terminal = chat(&place, &server);
    terminal.sees("› ");
    terminal.says("twice");
    for (key, outcome) in
        [("y", "← danger {\"done\":true}"), ("n", "← danger {\"error\":\"This tool call is rejected")]
    {
        terminal.sees("[y/N] › ");
        terminal.types(key);
        terminal.sees(outcome);
    }
    terminal.sees("it said");
    let screen = goes_on(terminal);
    assert_eq!(screen.matches("[y/N]").count(), 2, "{screen}");
    assert_eq!(statuses(&place, &server), ["done", "done"]);
}

#[test]
fn a_question_is_answered_after_the_server_was_started_again() {
    let place = asking();
    let server = Running::start(&place, &[]);
    let port = server.address.port().to_string();
    let mut terminal = chat(&place, &server);
    terminal.sees("› ");
    terminal.says("ask");
    terminal.sees("[y/N] › ");
    drop(server);
    let server = Running::start(&place, &["--port", &port]);
    terminal.types("y");
    terminal.sees(r#"it said {"done":true}"#);
    let screen = goes_on(terminal);
    assert_eq!(screen.matches("→ danger").count(), 1, "{screen}");
    assert_eq!(statuses(&place, &server), ["done", "done"]);
}

#[test]
fn a_question_that_another_client_answered_shows_what_followed() {
    let place = asking();
    let server = Running::start(&place, &[]);
    let mut first = chat(&place, &server);
    first.sees("› ");
    first.says("ask");
    first.sees("[y/N] › ");
    let mut second = chat(&place, &server);
    second.sees("going on with: k");
    second.sees("[y/N] › ");
    second.types("y");
    second.sees(r#"it said {"done":true}"#);
    second.leaves();
    first.types("n");
    first.sees("answered elsewhere before this answer came");
    first.sees(r#"it said {"done":true}"#);
    let screen = goes_on(first);
    assert_eq!(screen.matches("[y/N]").count(), 1, "{screen}");
    assert_eq!(statuses(&place, &server), ["done", "done"]);
}

#[test]
fn a_question_that_another_message_settled_is_not_asked_again() {
    let place = asking();
    let server = Running::start(&place, &[]);
    let mut terminal = chat(&place, &server);
    terminal.sees("› ");
    terminal.says("ask");
    terminal.sees("[y/N] › ");
    place.fed(&["chat", "--server", &url(&server), "--session", "k"], b"other\n").well();
    terminal.types("y");
    terminal.sees("the question is not open any more: another message came before the answer");
    let screen = goes_on(terminal);
    assert!(!screen.contains(r#"{"done":true}"#), "{screen}");
    assert_eq!(statuses(&place, &server), ["cancelled", "done", "done"]);
}

#[test]
fn a_question_is_put_again_to_whoever_comes_back() {
    let place = asking();
    let server = Running::start(&place, &[]);
    let mut terminal = chat(&place, &server);
    terminal.sees("› ");
    terminal.says("ask");
    terminal.sees("[y");
    terminal.leaves();

    let mut terminal = chat(&place, &server);
    terminal.sees("going on with: k");
    terminal.sees("[y");
    terminal.types("y");
    terminal.sees(r#"it said {"done":true}"#);
    let screen = goes_on(terminal);
    assert_eq!(screen.matches("[y/N]").count(), 1, "{screen}");
    assert!(!screen.contains("requires confirmation"), "what was shown before is not shown again: {screen}");
}

#[test]
fn a_run_is_followed_through_the_death_of_its_server() {
    let place = Place::scripted("[stubs.dig]\ndelay_ms = 1500\n", SLOW);
    let server = Running::start(&place, &[]);
    let port = server.address.port().to_string();
    let mut terminal = Terminal::open(&place, &["chat", "--server", &url(&server), "--session", "k"]);
    terminal.sees("› ");
    terminal.says("work hard");
    terminal.sees("→ dig");
    drop(server);
    terminal.sees("the connection is lost");
    let server = Running::start(&place, &["--port", &port]);
    terminal.sees("then I rest.");
    let screen = terminal.leaves();
    assert_eq!(screen.matches("first I dig.").count(), 1, "{screen}");
    let kept = get(&place, &server, "/apps/lango/users/user/sessions/k").to_string();
    assert_eq!(kept.matches("work hard").count(), 1, "{kept}");
}

#[test]
fn ctrl_c_ends_the_run_at_the_server() {
    let place = Place::scripted("", SLOW);
    let server = Running::start(&place, &[]);
    let mut terminal = Terminal::open(&place, &["chat", "--server", &url(&server), "--session", "k"]);
    terminal.sees("› ");
    terminal.says("hang");
    terminal.sees("Let me see");
    terminal.types(CTRL_C);
    terminal.sees("stopped; the conversation goes on");
    let runs = get(&place, &server, "/apps/lango/users/user/sessions/k/runs");
    assert_eq!(runs[0]["status"], "cancelled", "{runs}");
    terminal.says("next");
    terminal.sees("noted: next");
    terminal.leaves();
}

#[test]
fn a_pipe_talks_to_a_server_too() {
    let place = Place::scripted("", SLOW);
    let server = Running::start(&place, &[]);
    let said = place.fed(&["chat", "--server", &url(&server)], b"one\ntwo\n").well();
    assert_eq!(said.out, "noted: one\nnoted: two\n");
}

#[test]
fn a_session_is_made_once_and_again_when_it_was_deleted() {
    let place = Place::scripted("", SLOW);
    let server = Running::start(&place, &["--log"]);
    let mut terminal = Terminal::open(&place, &["chat", "--server", &url(&server), "--session", "k"]);
    terminal.sees("› ");
    for said in ["one", "two"] {
        terminal.says(said);
        terminal.sees(&format!("noted: {said}"));
    }
    let session = "/apps/lango/users/user/sessions/k";
    let token = fs::read_to_string(place.home().join("server-token")).unwrap();
    let own = format!("Bearer {}", token.trim());
    assert_eq!(server.ask("DELETE", session, &[("authorization", &own)], b"").status, 200);
    terminal.says("three");
    terminal.sees("noted: three");
    terminal.leaves();
    server.get("/health", &[]);
    let log = server.says(r#""path":"/health""#);
    let posts =
        log.lines().filter(|line| line.contains(r#""method":"POST""#)).fold(String::new(), |told, line| {
            let line: Value = serde_json::from_str(line).unwrap();
            format!("{told}{} {}\n", line["path"].as_str().unwrap(), line["status"])
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
fn a_token_opens_the_sessions_of_its_user_and_no_others() {
    let place = Place::scripted("", SLOW);
    let token = place.lango(&["token", "add", "laptop", "--user", "ann"]).well().out;
    let server = Running::start(&place, &[]);
    // Another machine, as far as its files go.
    let elsewhere = Place::new();
    let mut command = elsewhere.command(["chat", "--server", &url(&server), "--session", "k"]);
    let refused = elsewhere.said(&mut command).badly();
    assert!(refused.err.contains("LANGO_SERVER_TOKEN"), "{refused:?}");
    command.env("LANGO_SERVER_TOKEN", token.trim());
    let mut fed =
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut fed.stdin.take().unwrap(), b"hello\n").unwrap();
    let output = fed.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "noted: hello\n");
    let kept = get(&place, &server, "/apps/lango/users/ann/sessions/k");
    assert_eq!(kept["events"].as_array().unwrap().len(), 2, "{kept}");
}

#[test]
fn what_cannot_be_reached_is_said_with_the_fix() {
    let place = Place::new();
    let nobody = place.lango(&["chat", "--server", "http://127.0.0.1:9"]).badly();
    assert!(nobody.err.contains("http://127.0.0.1:9 cannot be reached"), "{nobody:?}");
    assert!(nobody.err.contains("lango serve starts a server"), "{nobody:?}");
    let wrong = place.lango(&["chat", "--server", "http://127.0.0.1:9/api"]).badly();
    assert!(wrong.err.contains("write it as http://127.0.0.1:18789"), "{wrong:?}");
    let mut plain = place.command(["chat", "--server", "http://agents.example.com"]);
    let plain = place.said(plain.env("LANGO_SERVER_TOKEN", "a-token-that-nobody-should-see-0123")).badly();
    assert!(plain.err.contains("would travel in the clear"), "{plain:?}");
    assert!(!plain.err.contains("nobody-should-see"), "{plain:?}");
}
