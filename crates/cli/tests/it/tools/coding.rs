//! A coding session with a scripted model: search, read, edit with approval, test, fix. A kill in the middle repeats no effect.

use super::exec;
use crate::common::{QUESTION, Terminal, TestEnv};
use serde_json::{Value, json};
use std::{fs, os::unix::fs::PermissionsExt};

/// A test that fails until the sum is right, and records each execution.
const TEST: &str = "#!/bin/sh\necho run >> runs\n. ./sum.sh\n[ \"$(sum 2 3)\" = 5 ] || { echo 'sum 2 3 is wrong'; exit 1; }\necho passed\n";

fn edit(old: &str, new: &str) -> Value {
    json!({"name": "edit_file", "args": {"path": "sum.sh", "old": old, "new": new}})
}

fn script() -> String {
    let call = |name: &str, args: Value| json!({"name": name, "args": args});
    let first = |turn: usize, call: Value| json!({"when": {"first_word": "fix", "turn": turn}, "reply": [{"call": call}]});
    let then = |turn: usize, call: Value| json!({"when": {"first_word": "go", "turn": turn}, "reply": [{"call": call}]});
    let reply = |word: &str, text: &str| json!({"when": {"first_word": word}, "reply": [{"text": text}]});
    json!({"rules": [
        first(0, call("search_files", json!({"pattern": "sum"}))),
        first(1, call("read_file", json!({"path": "sum.sh"}))),
        first(2, edit("$1 - $2", "$1 * $2")),
        first(3, exec("./test.sh")),
        first(4, exec("echo slow >> slow; sleep 60")),
        // After the kill: read again, fix, test.
        then(0, call("read_file", json!({"path": "sum.sh"}))),
        then(1, edit("$1 * $2", "$1 + $2")),
        then(2, exec("./test.sh")),
        {"when": {"tool": "exec", "result_contains": "passed"}, "reply": [{"text": "the tests pass"}]},
        reply("go", "it does not work"),
        reply("fix", "it does not work"),
    ]})
    .to_string()
}

#[test]
fn coding_session_survives_a_kill_without_repeating_effects() {
    let env = TestEnv::scripted("[approval.commands]\n\"./test.sh\" = \"allow\"\n", &script());
    env.file("sum.sh", "sum() { echo $(($1 - $2)); }\n");
    env.file("test.sh", TEST);
    fs::set_permissions(env.workdir().join("test.sh"), PermissionsExt::from_mode(0o755)).unwrap();
    let mut terminal = Terminal::open(&env, &["chat", "--session", "k"]);
    terminal.type_line("fix the sum");
    terminal.wait_for("+sum() { echo $(($1 * $2)); }");
    terminal.wait_for(QUESTION);
    terminal.type_line("y");
    terminal.wait_for("sum 2 3 is wrong");
    terminal.wait_for("sleep 60");
    terminal.wait_for(QUESTION);
    terminal.type_line("y");
    while !env.workdir().join("slow").exists() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    drop(terminal);

    let mut terminal = Terminal::open(&env, &["chat", "--session", "k"]);
    terminal.wait_for("continuing: fix the sum");
    terminal.type_line("go on");
    terminal.wait_for("+sum() { echo $(($1 + $2)); }");
    terminal.wait_for(QUESTION);
    terminal.type_line("y");
    terminal.wait_for("the tests pass");
    terminal.quit();

    let read = |name: &str| fs::read_to_string(env.workdir().join(name)).unwrap();
    assert_eq!(read("sum.sh"), "sum() { echo $(($1 + $2)); }\n");
    assert_eq!((read("runs").as_str(), read("slow").as_str()), ("run\nrun\n", "slow\n"));
    let shown = env.lango(&["sessions", "show", "k"]).success().out;
    assert_eq!(shown.matches("! ← exec").count(), 1, "{shown}");
}
