//! `lango chat`, by a person at a terminal and in a pipe.

use crate::common::{CTRL_C, Place, Terminal, without_escapes};
use std::fs;

fn stored(place: &Place, session: &str) -> String {
    place.lango(&["sessions", "show", session]).well().out
}

#[test]
fn a_person_talks_and_sees_the_tools_at_work() {
    let place = Place::new();
    let mut terminal = Terminal::open(&place, &["chat"]);
    terminal.sees("agent lango · model demo");
    terminal.sees("/help");
    terminal.sees("› ");
    terminal.says("what is 15% of 240?");
    terminal.sees("→ calculate");
    terminal.sees("← calculate");
    terminal.sees("36\n");
    terminal.sees("tokens in");
    terminal.sees("› ");
    terminal.says("and twice that?");
    terminal.sees("72\n");
    let screen = terminal.leaves();
    assert!(screen.contains("lango chat --continue goes on from here"), "{screen}");
}

#[test]
fn the_first_screen_fits_a_small_terminal() {
    let place = Place::new();
    let terminal = Terminal::open(&place, &["chat"]);
    let screen = without_escapes(&terminal.leaves()).replace(env!("CARGO_PKG_VERSION"), "VERSION");
    assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
    insta::assert_snapshot!(screen, @"
    lango VERSION · agent lango · model demo
    demo is a small set of rules, not a language model: it tells the time,
    calculates, and reads, lists and searches the files in this folder.
    /help shows what else you can type; Ctrl-C stops an answer, Ctrl-D leaves.
    ›
    ");
}

#[test]
fn commands_begin_with_a_slash() {
    let place = Place::new();
    let mut terminal = Terminal::open(&place, &["chat", "--session", "k"]);
    terminal.sees("› ");
    terminal.says("hello");
    terminal.sees("tokens in");
    terminal.says("/help");
    terminal.sees("/resume ID");
    terminal.sees("Ctrl-C stops an answer.");
    terminal.says("/sessions");
    terminal.sees("› k  20");
    terminal.sees("hello\n");
    terminal.says("/model");
    terminal.sees("the model is demo");
    terminal.says("/model nonsense");
    terminal.sees("\"nonsense\" does not say whose model it is");
    terminal.says("/model demo");
    terminal.sees("the model is demo from here on");
    terminal.says("/modle");
    terminal.sees("there is no /modle; did you mean /model?");
    terminal.says("/quit");
    assert_eq!(terminal.ends().0, Some(0));
    assert_eq!(stored(&place, "k").matches("user  ").count(), 1, "commands are not messages");
}

#[test]
fn a_new_conversation_can_be_begun_and_an_old_one_resumed() {
    let place = Place::new();
    let mut terminal = Terminal::open(&place, &["chat", "--session", "first-one"]);
    terminal.says("what is 100 + 1?");
    terminal.sees("101\n");
    terminal.says("/new");
    terminal.sees("a new conversation");
    terminal.says("what is 200 + 2?");
    terminal.sees("202\n");
    terminal.says("/resume nothing");
    terminal.sees("there is no session that begins with nothing");
    terminal.says("/resume first");
    terminal.sees("going on with: what is 100 + 1?");
    terminal.says("and twice that?");
    terminal.sees("202\n");
    terminal.leaves();
    let said = stored(&place, "first-one");
    assert!(said.contains("100 + 1") && !said.contains("200 + 2"), "{said}");
}

#[test]
fn what_is_typed_ahead_is_not_lost() {
    let place = Place::new();
    let mut terminal = Terminal::open(&place, &["chat", "--session", "k"]);
    terminal.sees("› ");
    terminal.types("what is 1 + 1?\rwhat is 2 + 2?\rwhat is 3 + 3?\r");
    for answer in ["= 2\n", "= 4\n", "= 6\n"] {
        terminal.sees(answer);
    }
    terminal.leaves();
}

#[test]
fn a_line_that_ends_with_a_backslash_goes_on() {
    let place = Place::canned();
    let mut terminal = Terminal::open(&place, &["chat", "--session", "k"]);
    terminal.sees("› ");
    terminal.says("one\\");
    terminal.sees("… ");
    terminal.says("two");
    terminal.sees("You said: one\ntwo\n");
    terminal.leaves();
    let said = fs::read_to_string(place.home().join("history")).unwrap();
    assert!(said.contains("one\\ntwo"), "{said}");
}

#[test]
fn lines_are_remembered_from_one_chat_to_the_next() {
    let place = Place::canned();
    let mut terminal = Terminal::open(&place, &["chat"]);
    terminal.sees("› ");
    terminal.says("good morning");
    terminal.sees("You said: good morning");
    terminal.leaves();
    let mut terminal = Terminal::open(&place, &["chat"]);
    terminal.sees("› ");
    terminal.types("\u{1b}[A");
    terminal.sees("good morning");
    terminal.types("\r");
    terminal.sees("You said: good morning");
    terminal.leaves();
}

/// A model that never ends, a tool that takes an hour, and an answer for everything else.
fn slow() -> Place {
    Place::scripted(
        "[stubs.dig]\ndelay_ms = 3600000\n",
        "rules:\n\
         - {when: {first_word: hang}, reply: [{text: 'Let me see '}, hang]}\n\
         - {when: {first_word: dig}, reply: [{call: {name: dig}}]}\n\
         - {reply: [{text: 'noted: {user}'}]}\n",
    )
}

#[test]
fn ctrl_c_stops_the_answer_and_not_the_program() {
    let place = slow();
    let mut terminal = Terminal::open(&place, &["chat", "--session", "k"]);
    terminal.sees("› ");
    terminal.says("hang");
    terminal.sees("Let me see");
    terminal.types(CTRL_C);
    terminal.sees("stopped; the conversation goes on");
    terminal.sees("› ");
    terminal.says("next");
    terminal.sees("noted: next\n");
    terminal.leaves();
}

#[test]
fn ctrl_c_stops_a_tool_and_its_call_is_answered() {
    let place = slow();
    let mut terminal = Terminal::open(&place, &["chat", "--session", "k"]);
    terminal.sees("› ");
    terminal.says("dig");
    terminal.sees("→ dig");
    terminal.types(CTRL_C);
    terminal.sees("stopped; the conversation goes on");
    terminal.sees("› ");
    terminal.says("next");
    terminal.sees("noted: next\n");
    terminal.leaves();
    let said = stored(&place, "k");
    assert_eq!((said.matches("→ dig").count(), said.matches("← dig").count()), (1, 1), "{said}");
}

#[test]
fn ctrl_c_at_the_prompt_clears_the_line() {
    let place = slow();
    let mut terminal = Terminal::open(&place, &["chat"]);
    terminal.sees("› ");
    terminal.types("never mind");
    terminal.sees("never mind");
    terminal.types(CTRL_C);
    terminal.sees("Ctrl-D leaves");
    terminal.leaves();
    assert!(place.lango(&["sessions", "list"]).well().out.is_empty());
}

#[test]
fn a_conversation_is_resumed_after_the_program_has_gone() {
    let place = Place::new();
    let mut terminal = Terminal::open(&place, &["chat"]);
    terminal.says("what is 15% of 240?");
    terminal.sees("36\n");
    drop(terminal);
    let mut terminal = Terminal::open(&place, &["chat", "--continue"]);
    terminal.sees("going on with: what is 15% of 240?");
    terminal.says("and twice that?");
    terminal.sees("72\n");
    terminal.leaves();
}

#[test]
fn a_dangerous_tool_asks_and_the_answer_counts() {
    let place = Place::canned();
    let mut terminal = Terminal::open(&place, &["chat"]);
    terminal.says("confirm");
    terminal.sees("May danger run with {\"what\":\"rm\"}? [y/N]");
    terminal.says("n");
    terminal.sees("rejected");
    terminal.sees("› ");
    terminal.says("confirm");
    terminal.sees("[y/N]");
    terminal.says("y");
    terminal.sees("← danger {\"done\":\"rm\"}");
    terminal.leaves();
}

#[test]
fn a_question_waits_until_it_is_answered() {
    let place = Place::canned();
    let mut terminal = Terminal::open(&place, &["run", "--session", "k", "confirm"]);
    terminal.sees("May danger run with {\"what\":\"rm\"}? [y/N]");
    terminal.types("\u{4}");
    terminal.sees("danger waits for your word: answer it with lango chat --session k");
    assert_eq!(terminal.ends().0, Some(0));
    // Who leaves has not answered.
    let mut terminal = Terminal::open(&place, &["chat", "--session", "k"]);
    terminal.sees("[y/N]");
    terminal.says("yes");
    terminal.sees("← danger {\"done\":\"rm\"}");
    terminal.leaves();
}

#[test]
fn colours_are_left_out_where_they_are_not_wanted() {
    for variables in [&[("TERM", "xterm"), ("NO_COLOR", "1")][..], &[("TERM", "dumb")]] {
        let place = Place::canned();
        let mut terminal = Terminal::with(&place, &["chat"], variables);
        terminal.sees("› ");
        terminal.says("think");
        terminal.sees("Answer: 42.");
        let screen = terminal.leaves();
        assert!(!screen.contains("\u{1b}[1m") && !screen.contains("\u{1b}[2m"), "{screen:?}");
    }
    let place = Place::canned();
    let mut terminal = Terminal::open(&place, &["chat"]);
    terminal.says("think");
    terminal.sees("Answer: 42.");
    assert!(terminal.leaves().contains("\u{1b}[2mI\u{1b}[0m"), "thoughts are dimmed");
}

#[test]
fn a_pipe_gets_the_answers_and_nothing_else() {
    let said = Place::canned().fed(&["chat"], b"hello\ntool\n").well();
    insta::assert_snapshot!(said.out, @r#"
    Hello from canned model. You said: hello
    Tool get_weather said: {"city":"Paris","report":"sunny, 21C","status":"ok"}
    "#);
}

#[test]
fn a_pipe_ends_with_the_first_failure() {
    let place = Place::canned();
    let said = place.fed(&["chat", "--session", "k"], b"hello\nraise\nhello again\n").badly();
    assert!(said.err.ends_with("lango: canned model failure\n"), "{said:?}");
    assert!(!stored(&place, "k").contains("again"));
}

#[test]
fn a_pipe_cannot_be_asked_so_the_answer_is_no() {
    let said = Place::canned().fed(&["chat"], b"confirm\n").well();
    assert!(said.err.contains("no one is available to approve it"), "{said:?}");
    assert!(!said.err.contains("\"done\""), "{said:?}");
}

#[test]
fn ctrl_c_ends_a_single_message_as_it_ends_any_program() {
    let place = slow();
    let mut terminal = Terminal::open(&place, &["run", "--session", "k", "dig"]);
    terminal.sees("→ dig");
    terminal.types(CTRL_C);
    terminal.sees("lango: stopped; what was said so far is kept");
    assert_eq!(terminal.ends().0, Some(130));
    place.lango(&["run", "--session", "k", "next"]).well();
}
