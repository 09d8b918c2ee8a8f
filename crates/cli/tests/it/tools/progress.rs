//! Progress of a running call: shown at once, masked, sanitized, and not stored.

use super::{exec, one_by_one};
use crate::{
    common::{Terminal, TestEnv},
    serve::client::{TestServer, message},
};
use serde_json::{Value, json};

const SECRET: &str = "sk-canary-0123456789";

/// A command that prints, tries to clear the screen, prints a secret in two pieces, and ends when the test creates a file.
fn test_env() -> TestEnv {
    let toml = format!(
        "[providers.team]\napi = \"chat\"\nbase_url = \"http://127.0.0.1:1\"\nkey = \"{SECRET}\"\n[approval]\nexecute = \"allow\"\n"
    );
    let until = |file: &str| format!("until [ -e {file} ]; do sleep 0.02; done");
    let command = [
        "printf '\\033[2Jfirst %s\\n' word".to_owned(),
        until("one"),
        "printf 'key: sk-canary-'; printf '0123456789, %s\\n' second".to_owned(),
        until("two"),
        "head -c 20000 /dev/zero | tr '\\0' x".to_owned(),
    ];
    TestEnv::scripted(&toml, &one_by_one(&[exec(&command.join("; "))]))
}

fn watch(env: &TestEnv, mut terminal: Terminal) -> Terminal {
    terminal.wait_for("… exec first word");
    env.file("one", "");
    terminal.wait_for("… exec key: [masked], second");
    env.file("two", "");
    terminal.wait_for("← exec");
    terminal
}

/// Whether the stored session contains `text`.
fn stored(env: &TestEnv, text: &str) -> bool {
    env.lango(&["sessions", "show", "k", "--json"]).success().out.contains(text)
}

#[test]
fn chat_shows_command_progress_and_does_not_store_it() {
    let env = test_env();
    let mut terminal = Terminal::open(&env, &["chat", "--session", "k"]);
    terminal.type_line("go");
    let mut terminal = watch(&env, terminal);
    terminal.wait_for("done");
    let screen = terminal.quit();
    assert!(!screen.contains("\u{1b}[2J") && !screen.contains(SECRET), "{screen:?}");
    assert!(stored(&env, "first word") && !stored(&env, "lango:progress"));
}

#[test]
fn run_on_a_terminal_shows_command_progress() {
    let env = test_env();
    let terminal = watch(&env, Terminal::open(&env, &["run", "--session", "k", "go"]));
    let (code, screen) = terminal.wait_exit();
    assert_eq!(code, Some(0), "{screen}");
    assert!(!screen.contains(SECRET) && !stored(&env, "lango:progress"));
}

#[test]
fn pipe_gets_no_command_progress() {
    let env = test_env();
    env.file("one", "");
    env.file("two", "");
    let output = env.lango(&["run", "go"]).success();
    assert!(!output.err.contains("… exec") && output.err.contains("← exec"), "{}", output.err);
}

#[test]
fn progress_is_streamed_as_partial_events() {
    let env = test_env();
    let server = TestServer::start(&env);
    let session = server.create_session("lango", "s");
    let mut body = message("lango", "s", "go");
    body["streaming"] = json!(true);
    let mut events = server.stream(&body);
    let mut next = || loop {
        let event = events.next().expect("there is progress before the end").data;
        if !event["customMetadata"]["lango:progress"].is_null() {
            return event;
        }
    };
    let first = next();
    let progress = &first["customMetadata"]["lango:progress"];
    assert_eq!(
        (&first["partial"], &progress["tool"], &progress["text"]),
        (&json!(true), &json!("exec"), &json!("first word\n"))
    );
    assert!(first["content"].is_null() && progress["call_id"].is_string());
    env.file("one", "");
    while next()["customMetadata"]["lango:progress"]["text"] != "first word\nkey: [masked], second\n" {}
    env.file("two", "");
    let rest: Vec<Value> = events.all().into_iter().map(|event| event.data).collect();
    let long = rest.iter().filter_map(|event| event["customMetadata"]["lango:progress"]["text"].as_str());
    assert!(long.into_iter().all(|text| text.len() <= 400));
    let session_json = server.get(&session).to_string();
    assert!(session_json.contains("first word") && !session_json.contains("lango:progress"));
}
