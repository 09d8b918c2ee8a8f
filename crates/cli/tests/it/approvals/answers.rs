//! What is typed or pasted at an approval question.

use super::{asked, request, write};
use crate::{
    common::{CTRL_C, QUESTION, Terminal, TestEnv},
    tools::{exec, one_by_one},
};
use std::fs;

fn env_with_one_write() -> TestEnv {
    TestEnv::scripted("", &one_by_one(&[write("made", "x\n")]))
}

fn is_made(env: &TestEnv) -> bool {
    env.workdir().join("made").exists()
}

#[test]
fn sentence_rejects_the_call_and_reaches_the_model() {
    let env = env_with_one_write();
    let mut terminal = asked(&env);
    terminal.type_line("please don't, use yarn always");
    terminal.wait_for("done");
    terminal.quit();
    assert!(!is_made(&env));
    assert_eq!(env.lango(&["rules", "list"]).success().out, "");
    let request = request(&env);
    let line = request.lines().find(|line| line.contains("rejected")).unwrap().trim();
    insta::assert_snapshot!(line, @r#""content": "{\"error\":\"This tool call is rejected.\",\"reason\":\"please don't, use yarn always\"}""#);
}

#[test]
fn pasted_key_does_not_answer() {
    let env = env_with_one_write();
    let mut terminal = asked(&env);
    terminal.type_keys("\u{1b}[200~y\u{1b}[201~\r");
    terminal.wait_for("Pasted text does not answer");
    terminal.wait_for(QUESTION);
    assert!(!is_made(&env));
    // Without bracketed paste mode, several lines that arrive together are a paste.
    terminal.type_keys("y\ry\ra\r");
    terminal.wait_for("Pasted text does not answer");
    terminal.wait_for(QUESTION);
    assert!(!is_made(&env));
    terminal.type_line("y");
    terminal.wait_for("done");
    terminal.quit();
    assert!(is_made(&env));
    assert_eq!(env.lango(&["rules", "list"]).success().out, "");
}

#[test]
fn pasted_lines_reject_with_their_text_after_a_typed_enter() {
    let env = env_with_one_write();
    let mut terminal = asked(&env);
    terminal.type_keys("\u{1b}[200~first\ry\r\u{1b}[201~\r");
    terminal.wait_for("done");
    terminal.quit();
    assert!(!is_made(&env) && request(&env).contains("first y"));
}

#[test]
fn type_ahead_does_not_answer() {
    let env = env_with_one_write();
    let mut terminal = Terminal::open(&env, &["chat", "--session", "k"]);
    terminal.wait_for("› ");
    terminal.type_keys("go\ry\r");
    terminal.wait_for(QUESTION);
    terminal.type_line("n");
    terminal.wait_for("rejected");
    assert!(!is_made(&env));
}

#[test]
fn each_of_two_questions_needs_its_own_answer() {
    let env = TestEnv::scripted("", &one_by_one(&[write("made", "x\n"), write("also", "x\n")]));
    let mut terminal = asked(&env);
    terminal.type_line("y");
    terminal.wait_for(QUESTION);
    assert!(is_made(&env) && !env.workdir().join("also").exists());
    terminal.type_line("not that one");
    terminal.wait_for("done");
    terminal.quit();
    assert!(!env.workdir().join("also").exists());
}

/// A command that waits until the test opens its gate, and a question after it.
#[test]
fn input_typed_while_a_call_runs_does_not_answer_the_next_question() {
    let env = TestEnv::scripted("", &one_by_one(&[exec("cat gate > made"), write("also", "x\n")]));
    let gate = env.workdir().join("gate");
    assert!(std::process::Command::new("mkfifo").arg(&gate).status().unwrap().success());
    let mut terminal = asked(&env);
    terminal.type_line("y");
    // Blocks until the command reads.
    let opened = fs::File::options().write(true).open(&gate).unwrap();
    terminal.type_keys("y\rs\ra\r");
    terminal.type_keys("\u{1b}[200~y\ra\r\u{1b}[201~\r");
    drop(opened);
    terminal.wait_for("May write_file run?");
    terminal.wait_for(QUESTION);
    terminal.type_line("n");
    terminal.wait_for("done");
    terminal.quit();
    assert!(is_made(&env) && !env.workdir().join("also").exists());
    assert_eq!(env.lango(&["rules", "list"]).success().out, "");
}

/// The rest of a paste must not answer the second question.
#[test]
fn multi_line_paste_answers_neither_of_two_questions() {
    let both = [write("made", "x\n"), write("also", "x\n")];
    // Pasted lines with a typed Enter are one line, which is no key, and so the reason of a rejection.
    let bracketed = "\u{1b}[200~y\ry\r\u{1b}[201~\r";
    for paste in ["y\ry\r\r", bracketed, "y\ny\na\n\n", "n o\ry\r\r"] {
        let env = TestEnv::scripted("", &one_by_one(&both));
        let mut terminal = asked(&env);
        terminal.type_keys(paste);
        if paste != bracketed {
            terminal.wait_for("Pasted text does not answer");
            terminal.wait_for(QUESTION);
            terminal.type_line("n");
        }
        terminal.wait_for("write_file  also");
        terminal.wait_for(QUESTION);
        terminal.type_line("n");
        terminal.wait_for("done");
        terminal.quit();
        assert!(!is_made(&env) && !env.workdir().join("also").exists(), "{paste:?}");
    }
}

#[test]
fn resized_window_neither_answers_nor_ends_the_question() {
    let env = TestEnv::scripted("", &one_by_one(&[write("made", &"line\n".repeat(300))]));
    let mut terminal = asked(&env);
    terminal.resize(40, 60);
    terminal.type_keys("\u{1b}[200~y\u{1b}[201~\r");
    terminal.wait_for("Pasted text does not answer");
    terminal.wait_for(QUESTION);
    terminal.resize(12, 40);
    terminal.type_line("y");
    terminal.wait_for("done");
    let screen = terminal.quit();
    assert!(is_made(&env));
    let hidden: Vec<usize> = screen
        .lines()
        .filter_map(|line| line.split_once(" more rows")?.0.rsplit_once("… ")?.1.parse().ok())
        .collect();
    let [small, large] = hidden.as_slice() else { panic!("{hidden:?}: {screen}") };
    assert!(large + 10 < *small, "the prompt is laid out for the new size: {hidden:?}");
}

#[test]
fn control_keys_reject_and_the_chat_goes_on() {
    for key in [CTRL_C, "\u{4}"] {
        let env = env_with_one_write();
        let mut terminal = asked(&env);
        terminal.type_keys(key);
        terminal.wait_for("rejected");
        terminal.wait_for("done");
        terminal.quit();
        assert!(!is_made(&env));
    }
}

#[test]
fn long_diff_is_folded_and_can_be_shown_whole() {
    let lines = |word: &str| (0..3000).map(|line| format!("{word} {line}\n")).collect::<Vec<_>>().concat();
    let (old, new) = (lines("old"), lines("new"));
    let env = TestEnv::scripted("", &one_by_one(&[write("made", &new)]));
    env.file("made", &old);
    let mut terminal = Terminal::open(&env, &["chat", "--session", "k"]);
    terminal.wait_for("› ");
    terminal.type_line("go");
    terminal.wait_for("write_file  made  +3000 −3000");
    terminal.wait_for("more rows; d and Enter show all");
    terminal.wait_for("May write_file run?");
    terminal.wait_for(QUESTION);
    terminal.type_line("d");
    terminal.wait_for("+new 2999");
    terminal.wait_for("May write_file run?");
    terminal.wait_for(QUESTION);
    terminal.type_line("y");
    terminal.wait_for("done");
    let screen = terminal.quit();
    assert!(screen.contains("\u{1b}[?2004h") && screen.contains("\u{1b}[?2004l"), "bracketed paste mode");
    assert!(screen.contains("\u{1b}[31m-old 0\u{1b}[0m"), "removed lines are red");
    assert!(!screen.contains("requires confirmation"), "ADK's placeholder is not shown: {screen}");
    assert_eq!(fs::read_to_string(env.workdir().join("made")).unwrap(), new);
}

#[test]
fn what_the_sandbox_forbids_is_answered_with_the_setting_and_not_asked() {
    let calls = [exec("curl https://example.com"), exec("echo x > /etc/made"), write("/etc/made", "x")];
    let env = TestEnv::scripted("", &one_by_one(&calls));
    let mut terminal = Terminal::open(&env, &["chat", "--session", "k"]);
    terminal.wait_for("› ");
    terminal.type_line("go");
    terminal.wait_for("done");
    let screen = terminal.quit();
    assert!(!screen.contains(QUESTION.trim_end_matches(" › ")), "{screen}");
    let request = request(&env);
    for setting in ["`network = true` in [tools]", "`roots` or `writable` of [tools]", "`roots` of [tools]"] {
        assert!(request.contains(setting), "{setting}: {request}");
    }
}
