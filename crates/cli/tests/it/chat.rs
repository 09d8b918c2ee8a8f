//! `lango chat` on a terminal and in a pipe.

use crate::common::{CTRL_C, QUESTION, Terminal, TestEnv, without_escapes};
use std::fs;

fn stored(env: &TestEnv, session: &str) -> String {
    env.lango(&["sessions", "show", session]).success().out
}

#[test]
fn chat_shows_tool_calls_and_results() {
    let env = TestEnv::new();
    let mut terminal = Terminal::open(&env, &["chat"]);
    terminal.wait_for("agent lango · model demo");
    terminal.wait_for("/help");
    terminal.wait_for("› ");
    terminal.type_line("what is 15% of 240?");
    terminal.wait_for("→ calculate");
    terminal.wait_for("← calculate");
    terminal.wait_for("36\n");
    terminal.wait_for("tokens in");
    terminal.wait_for("› ");
    terminal.type_line("and twice that?");
    terminal.wait_for("72\n");
    let screen = terminal.quit();
    assert!(screen.contains("to continue: lango chat --continue"), "{screen}");
}

#[test]
fn first_screen_fits_80_columns() {
    let env = TestEnv::new();
    let terminal = Terminal::open(&env, &["chat"]);
    let screen = without_escapes(&terminal.quit()).replace(env!("CARGO_PKG_VERSION"), "VERSION");
    assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
    insta::assert_snapshot!(screen, @"
    lango VERSION · agent lango · model demo
    demo is a small set of rules, not a language model: it tells the time,
    calculates, and reads, lists and searches the files in this folder.
    /help lists commands; Ctrl-C stops an answer, Ctrl-D exits.
    ›
    ");
}

#[test]
fn slash_commands_are_run_and_not_sent_as_messages() {
    let env = TestEnv::new();
    let mut terminal = Terminal::open(&env, &["chat", "--session", "k"]);
    terminal.wait_for("› ");
    terminal.type_line("hello");
    terminal.wait_for("tokens in");
    terminal.type_line("/help");
    terminal.wait_for("/resume ID");
    terminal.wait_for("Ctrl-C stops an answer.");
    terminal.type_line("/sessions");
    terminal.wait_for("› k  20");
    terminal.wait_for("hello\n");
    terminal.type_line("/model");
    terminal.wait_for("the model is demo");
    terminal.type_line("/model nonsense");
    terminal.wait_for("\"nonsense\" does not name the provider");
    terminal.type_line("/model demo");
    terminal.wait_for("switched to the model demo");
    terminal.type_line("/modle");
    terminal.wait_for("there is no /modle; did you mean /mode?");
    terminal.type_line("/quit");
    assert_eq!(terminal.wait_exit().0, Some(0));
    assert_eq!(stored(&env, "k").matches("user  ").count(), 1, "commands are not messages");
}

#[test]
fn new_starts_a_session_and_resume_returns_to_another() {
    let env = TestEnv::new();
    let mut terminal = Terminal::open(&env, &["chat", "--session", "first-one"]);
    terminal.type_line("what is 100 + 1?");
    terminal.wait_for("101\n");
    terminal.type_line("/new");
    terminal.wait_for("new session");
    terminal.type_line("what is 200 + 2?");
    terminal.wait_for("202\n");
    terminal.type_line("/resume nothing");
    terminal.wait_for("there is no session whose id begins with nothing");
    terminal.type_line("/resume first");
    terminal.wait_for("continuing: what is 100 + 1?");
    terminal.type_line("and twice that?");
    terminal.wait_for("202\n");
    terminal.quit();
    let transcript = stored(&env, "first-one");
    assert!(transcript.contains("100 + 1") && !transcript.contains("200 + 2"), "{transcript}");
}

#[test]
fn type_ahead_is_not_lost() {
    let env = TestEnv::new();
    let mut terminal = Terminal::open(&env, &["chat", "--session", "k"]);
    terminal.wait_for("› ");
    terminal.type_keys("what is 1 + 1?\rwhat is 2 + 2?\rwhat is 3 + 3?\r");
    for answer in ["= 2\n", "= 4\n", "= 6\n"] {
        terminal.wait_for(answer);
    }
    terminal.quit();
}

#[test]
fn trailing_backslash_continues_the_line() {
    let env = TestEnv::canned();
    let mut terminal = Terminal::open(&env, &["chat", "--session", "k"]);
    terminal.wait_for("› ");
    terminal.type_line("one\\");
    terminal.wait_for("… ");
    terminal.type_line("two");
    terminal.wait_for("You said: one\ntwo\n");
    terminal.quit();
    let history = fs::read_to_string(env.home().join("history")).unwrap();
    assert!(history.contains("one\\ntwo"), "{history}");
}

#[test]
fn input_history_persists_between_chats() {
    let env = TestEnv::canned();
    let mut terminal = Terminal::open(&env, &["chat"]);
    terminal.wait_for("› ");
    terminal.type_line("good morning");
    terminal.wait_for("You said: good morning");
    terminal.quit();
    let mut terminal = Terminal::open(&env, &["chat"]);
    terminal.wait_for("› ");
    terminal.type_keys("\u{1b}[A");
    terminal.wait_for("good morning");
    terminal.type_keys("\r");
    terminal.wait_for("You said: good morning");
    terminal.quit();
}

/// A model that hangs, a tool that takes an hour, and an answer to any other message.
fn slow() -> TestEnv {
    TestEnv::scripted(
        "[stubs.dig]\ndelay_ms = 3600000\n",
        "rules:\n\
         - {when: {first_word: hang}, reply: [{text: 'Let me see '}, hang]}\n\
         - {when: {first_word: dig}, reply: [{call: {name: dig}}]}\n\
         - {reply: [{text: 'noted: {user}'}]}\n",
    )
}

#[test]
fn ctrl_c_cancels_the_answer_and_keeps_the_chat_open() {
    let env = slow();
    let mut terminal = Terminal::open(&env, &["chat", "--session", "k"]);
    terminal.wait_for("› ");
    terminal.type_line("hang");
    terminal.wait_for("Let me see");
    terminal.type_keys(CTRL_C);
    terminal.wait_for("stopped; the session can be continued");
    terminal.wait_for("› ");
    terminal.type_line("next");
    terminal.wait_for("noted: next\n");
    terminal.quit();
}

#[test]
fn ctrl_c_cancels_a_tool_call_and_stores_its_result() {
    let env = slow();
    let mut terminal = Terminal::open(&env, &["chat", "--session", "k"]);
    terminal.wait_for("› ");
    terminal.type_line("dig");
    terminal.wait_for("→ dig");
    terminal.type_keys(CTRL_C);
    terminal.wait_for("stopped; the session can be continued");
    terminal.wait_for("› ");
    terminal.type_line("next");
    terminal.wait_for("noted: next\n");
    terminal.quit();
    let transcript = stored(&env, "k");
    assert_eq!(
        (transcript.matches("→ dig").count(), transcript.matches("← dig").count()),
        (1, 1),
        "{transcript}"
    );
}

#[test]
fn ctrl_c_at_the_prompt_clears_the_line() {
    let env = slow();
    let mut terminal = Terminal::open(&env, &["chat"]);
    terminal.wait_for("› ");
    terminal.type_keys("never mind");
    terminal.wait_for("never mind");
    terminal.type_keys(CTRL_C);
    terminal.wait_for("Ctrl-D exits");
    terminal.quit();
    assert!(env.lango(&["sessions", "list"]).success().out.is_empty());
}

#[test]
fn continue_resumes_a_session_after_the_process_was_killed() {
    let env = TestEnv::new();
    let mut terminal = Terminal::open(&env, &["chat"]);
    terminal.type_line("what is 15% of 240?");
    terminal.wait_for("36\n");
    drop(terminal);
    let mut terminal = Terminal::open(&env, &["chat", "--continue"]);
    terminal.wait_for("continuing: what is 15% of 240?");
    terminal.type_line("and twice that?");
    terminal.wait_for("72\n");
    terminal.quit();
}

#[test]
fn confirmation_decides_whether_the_tool_runs() {
    let env = TestEnv::canned();
    let mut terminal = Terminal::open(&env, &["chat"]);
    terminal.type_line("confirm");
    terminal.wait_for("May danger run with {\"what\":\"rm\"}?");
    terminal.wait_for(QUESTION);
    terminal.type_line("n");
    terminal.wait_for("rejected");
    terminal.wait_for("› ");
    terminal.type_line("confirm");
    terminal.wait_for(QUESTION);
    terminal.type_line("y");
    terminal.wait_for("← danger {\"done\":\"rm\"}");
    terminal.quit();
}

#[test]
fn unanswered_question_is_asked_again_by_the_next_chat() {
    let env = TestEnv::canned();
    let mut terminal = Terminal::open(&env, &["run", "--session", "k", "confirm"]);
    terminal.wait_for("May danger run with {\"what\":\"rm\"}?");
    terminal.wait_for(QUESTION);
    drop(terminal);
    let mut terminal = Terminal::open(&env, &["chat", "--session", "k"]);
    terminal.wait_for(QUESTION);
    terminal.type_line("y");
    terminal.wait_for("← danger {\"done\":\"rm\"}");
    terminal.quit();
}

#[test]
fn no_color_and_dumb_terminals_disable_colors() {
    for variables in [&[("TERM", "xterm"), ("NO_COLOR", "1")][..], &[("TERM", "dumb")]] {
        let env = TestEnv::canned();
        let mut terminal = Terminal::with(&env, &["chat"], variables);
        terminal.wait_for("› ");
        terminal.type_line("think");
        terminal.wait_for("Answer: 42.");
        let screen = terminal.quit();
        assert!(!screen.contains("\u{1b}[1m") && !screen.contains("\u{1b}[2m"), "{screen:?}");
    }
    let env = TestEnv::canned();
    let mut terminal = Terminal::open(&env, &["chat"]);
    terminal.type_line("think");
    terminal.wait_for("Answer: 42.");
    assert!(terminal.quit().contains("\u{1b}[2mI\u{1b}[0m"), "thoughts are dimmed");
}

#[test]
fn chat_in_a_pipe_prints_only_answers_to_stdout() {
    let output = TestEnv::canned().lango_with_stdin(&["chat"], b"hello\ntool\n").success();
    insta::assert_snapshot!(output.out, @r#"
    Hello from canned model. You said: hello
    Tool get_weather said: {"city":"Paris","report":"sunny, 21C","status":"ok"}
    "#);
}

#[test]
fn chat_in_a_pipe_exits_at_the_first_failure() {
    let env = TestEnv::canned();
    let output = env.lango_with_stdin(&["chat", "--session", "k"], b"hello\nraise\nhello again\n").failure();
    assert!(output.err.ends_with("lango: canned model failure\n"), "{output:?}");
    assert!(!stored(&env, "k").contains("again"));
}

#[test]
fn chat_in_a_pipe_rejects_calls_that_need_approval() {
    let output = TestEnv::canned().lango_with_stdin(&["chat"], b"confirm\n").success();
    assert!(output.err.contains("no one is available to approve it"), "{output:?}");
    assert!(!output.err.contains("\"done\""), "{output:?}");
}

#[test]
fn ctrl_c_ends_run_with_exit_code_130() {
    let env = slow();
    let mut terminal = Terminal::open(&env, &["run", "--session", "k", "dig"]);
    terminal.wait_for("→ dig");
    terminal.type_keys(CTRL_C);
    terminal.wait_for("lango: stopped; everything so far is stored");
    assert_eq!(terminal.wait_exit().0, Some(130));
    env.lango(&["run", "--session", "k", "next"]).success();
}
