//! A model that cannot answer: another does, or the wait is shown, and two answers are never mixed.

use crate::common::{CANARY, CTRL_C, Place, REST, Terminal, provider};
use insta::assert_snapshot;
use testkit::fakeprov::{Api, Fake, Received};

/// A machine with a model that plays one scenario, and a fallback of another wire format that plays another.
fn two(fake: &Fake, first: &str, second: &str) -> Place {
    let place = Place::new();
    let providers =
        provider("one", fake, Api::OpenAi, first) + &provider("two", fake, Api::Anthropic, second);
    let head = "model = \"one/small\"\nfallback = [\"two/large\"]\n";
    place.file("lango.toml", format!("{head}{providers}{REST}"));
    place
}

fn asked(fake: &Fake) -> Vec<String> {
    fake.requests()
        .iter()
        .map(|request: &Received| request.body["model"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn another_model_answers_under_its_own_name_and_that_is_told() {
    let fake = Fake::start_blocking();
    let place = two(&fake, "auth401", "text");
    let said = place.keyed(&["run", "--session", "k", "hello"]).well();
    assert_snapshot!(said.picture(), @r#"
    Grüß dich 🌍
    one rejected the API key; asking two/large instead
    (lango run --session k "…" goes on from here)
    [exit 0]
    "#);
    assert_eq!(asked(&fake), ["small", "large"]);
    assert_snapshot!(place.keyed(&["sessions", "show", "k"]).well().out, @"
           user  hello
    lango-agent  Grüß dich 🌍
    lango-agent  [two/large answered; one/small: one rejected the API key: invalid x-api-key]
                 [two/large: 100 tokens in (64 cached), 20 out]
    ");
}

#[test]
fn a_model_that_stays_away_is_asked_again_before_another_is() {
    let fake = Fake::start_blocking();
    two(&fake, "r500", "text").keyed(&["run", "hello"]).well();
    assert_eq!(asked(&fake), ["small", "small", "small", "large"]);
}

#[test]
fn an_answer_that_broke_off_is_not_finished_by_another_model() {
    let fake = Fake::start_blocking();
    let said = two(&fake, "trunctext", "text").keyed(&["run", "hello"]).badly();
    assert_eq!(said.out, "Grüß dich 🌍\n", "the half that came, and nothing of another");
    assert_snapshot!(said.err, @"lango: one ended the stream before the answer was complete");
    assert_eq!(asked(&fake), ["small"]);
}

#[test]
fn what_a_model_will_not_do_is_not_asked_of_another() {
    let fake = Fake::start_blocking();
    let said = two(&fake, "bad400", "text").keyed(&["run", "hello"]).badly();
    assert_snapshot!(said.err, @"lango: one rejected the request: messages: bad");
    two(&fake, "refuse0", "text").keyed(&["run", "hello"]).badly();
    assert_eq!(asked(&fake), ["small", "small"]);
}

#[test]
fn a_fallback_without_a_key_is_told_only_when_it_is_needed() {
    let fake = Fake::start_blocking();
    let without = |scenario: &str| {
        let place = Place::new();
        let one = provider("one", &fake, Api::OpenAi, scenario);
        place.file("lango.toml", format!("model = \"one/small\"\nfallback = [\"openai\"]\n{one}{REST}"));
        place
    };
    without("text").keyed(&["run", "hello"]).well();
    let said = without("auth401").keyed(&["run", "hello"]).badly();
    assert_snapshot!(said.err, @"
    one rejected the API key; asking openai/gpt-5-mini instead
    lango: one/small: one rejected the API key: invalid x-api-key; openai/gpt-5-mini: openai is not configured correctly: openai needs a key: set OPENAI_API_KEY, or `key` in [providers.openai] of lango.toml
    ");
}

#[test]
fn a_fallback_can_come_from_the_environment() {
    let fake = Fake::start_blocking();
    let place = Place::with_provider(&fake, Api::OpenAi, "auth401");
    let mut command = place.command(["run", "hello"]);
    let said = place.said(command.env("CANARY", CANARY).env("LANGO_FALLBACK", "demo")).well();
    assert!(said.err.contains("asking demo instead"), "{said:?}");
}

/// A provider that asks for seven seconds, and somebody who is patient enough.
fn slow(fake: &Fake) -> Place {
    let place = Place::new();
    let one = provider("one", fake, Api::OpenAi, "r429");
    place.file("lango.toml", format!("model = \"one/small\"\n{one}\n[retry]\nmax_wait_s = 10\n"));
    place
}

#[test]
fn a_wait_counts_down_and_ctrl_c_ends_it() {
    let fake = Fake::start_blocking();
    let place = slow(&fake);
    let mut terminal =
        Terminal::with(&place, &["chat", "--session", "k"], &[("TERM", "xterm"), ("CANARY", CANARY)]);
    terminal.says("hello");
    terminal.sees("rate limit at one reached; trying again in 7 s");
    terminal.sees("rate limit at one reached; trying again in 6 s");
    terminal.types(CTRL_C);
    terminal.sees("stopped; the conversation goes on");
    terminal.leaves();
    assert_eq!(fake.requests().len(), 1);
}

#[test]
fn a_wait_that_is_interrupted_ends_a_run() {
    let fake = Fake::start_blocking();
    let place = slow(&fake);
    let mut terminal =
        Terminal::with(&place, &["run", "--session", "k", "hello"], &[("TERM", "xterm"), ("CANARY", CANARY)]);
    terminal.sees("rate limit at one reached; trying again in 7 s");
    terminal.types(CTRL_C);
    let (code, screen) = terminal.ends();
    assert_eq!(code, Some(130), "{screen}");
    let said = place.keyed(&["sessions", "show", "k"]).well();
    assert_snapshot!(said.out, @"        user  hello");
}

#[test]
fn a_pipe_is_told_of_each_wait_in_a_line() {
    let fake = Fake::start_blocking();
    let said = Place::with_provider(&fake, Api::OpenAi, "r500").keyed(&["run", "hello"]).badly();
    assert_snapshot!(said.picture(), @"
    fake is temporarily unavailable; trying again in 1 s
    fake is temporarily unavailable; trying again in 1 s
    lango: fake is temporarily unavailable: Internal error; it was asked 3 times
    [exit 1]
    ");
}
