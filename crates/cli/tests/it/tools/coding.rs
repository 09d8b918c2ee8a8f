//! A day's work by a scripted model: search, read, edit with approval, test, fix; killed in the middle, and no effect twice.

use super::exec;
use crate::common::{Place, Terminal};
use serde_json::{Value, json};
use std::{fs, os::unix::fs::PermissionsExt};

/// Fails until the sum is right, and counts how often it ran.
const TEST: &str = "#!/bin/sh\necho run >> runs\n. ./sum.sh\n[ \"$(sum 2 3)\" = 5 ] || { echo 'sum 2 3 is wrong'; exit 1; }\necho passed\n";

fn edit(old: &str, new: &str) -> Value {
    json!({"name": "edit_file", "args": {"path": "sum.sh", "old": old, "new": new}})
}

fn script() -> String {
    let call = |name: &str, args: Value| json!({"name": name, "args": args});
    let first = |turn: usize, call: Value| json!({"when": {"first_word": "fix", "turn": turn}, "reply": [{"call": call}]});
    let then = |turn: usize, call: Value| json!({"when": {"first_word": "go", "turn": turn}, "reply": [{"call": call}]});
    let said = |word: &str, text: &str| json!({"when": {"first_word": word}, "reply": [{"text": text}]});
    json!({"rules": [
        first(0, call("search_files", json!({"pattern": "sum"}))),
        first(1, call("read_file", json!({"path": "sum.sh"}))),
        first(2, edit("$1 - $2", "$1 * $2")),
        first(3, exec("./test.sh")),
        first(4, exec("echo slow >> slow; sleep 60")),
        // After the kill: look again, mend, test.
        then(0, call("read_file", json!({"path": "sum.sh"}))),
        then(1, edit("$1 * $2", "$1 + $2")),
        then(2, exec("./test.sh")),
        {"when": {"tool": "exec", "result_contains": "passed"}, "reply": [{"text": "the tests pass"}]},
        said("go", "it does not work"),
        said("fix", "it does not work"),
    ]})
    .to_string()
}

#[test]
fn a_bug_is_fixed_in_one_session_with_a_kill_in_the_middle_and_no_effect_twice() {
    let place = Place::scripted("[approval.commands]\n\"./test.sh\" = \"allow\"\n", &script());
    place.file("sum.sh", "sum() { echo $(($1 - $2)); }\n");
    place.file("test.sh", TEST);
    fs::set_permissions(place.here().join("test.sh"), PermissionsExt::from_mode(0o755)).unwrap();
    let mut terminal = Terminal::open(&place, &["chat", "--session", "k"]);
    terminal.says("fix the sum");
    terminal.sees("+sum() { echo $(($1 * $2)); }");
    terminal.sees("[y/N");
    terminal.types("y");
    terminal.sees("sum 2 3 is wrong");
    terminal.sees("sleep 60");
    terminal.sees("[y/N");
    terminal.types("y");
    while !place.here().join("slow").exists() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    drop(terminal);

    let mut terminal = Terminal::open(&place, &["chat", "--session", "k"]);
    terminal.sees("going on with: fix the sum");
    terminal.says("go on");
    terminal.sees("+sum() { echo $(($1 + $2)); }");
    terminal.sees("[y/N");
    terminal.types("y");
    terminal.sees("the tests pass");
    terminal.leaves();

    let read = |name: &str| fs::read_to_string(place.here().join(name)).unwrap();
    assert_eq!(read("sum.sh"), "sum() { echo $(($1 + $2)); }\n");
    assert_eq!((read("runs").as_str(), read("slow").as_str()), ("run\nrun\n", "slow\n"));
    let shown = place.lango(&["sessions", "show", "k"]).well().out;
    assert_eq!(shown.matches("! ← exec").count(), 1, "{shown}");
}
