//! Fallback models and retry waits. Two answers are never mixed.

use crate::common::{CANARY, CTRL_C, REST, Terminal, TestEnv, provider};
use insta::assert_snapshot;
use testkit::{
    ProviderApi,
    fakeprov::{FakeProvider, Received},
};

/// An environment whose model plays one scenario, and whose fallback plays another one in another wire format.
fn two(fake: &FakeProvider, first: &str, second: &str) -> TestEnv {
    let env = TestEnv::new();
    let providers = provider("one", fake, ProviderApi::OpenAi, first)
        + &provider("two", fake, ProviderApi::Anthropic, second);
    let head = "model = \"one/small\"\nfallback = [\"two/large\"]\n";
    env.file("lango.toml", format!("{head}{providers}{REST}"));
    env
}

fn requested_models(fake: &FakeProvider) -> Vec<String> {
    fake.requests()
        .iter()
        .map(|request: &Received| request.body["model"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn fallback_answer_names_its_model_and_the_cause() {
    let fake = FakeProvider::start_blocking();
    let env = two(&fake, "auth401", "text");
    let output = env.lango_with_key(&["run", "--session", "k", "hello"]).success();
    assert_snapshot!(output.snapshot(), @r#"
    Grüß dich 🌍
    one rejected the API key; asking two/large instead
    (to continue: lango run --session k "…")
    [exit 0]
    "#);
    assert_eq!(requested_models(&fake), ["small", "large"]);
    assert_snapshot!(env.lango_with_key(&["sessions", "show", "k"]).success().out, @"
           user  hello
    lango-agent  Grüß dich 🌍
    lango-agent  [two/large answered; one/small: one rejected the API key: invalid x-api-key]
                 [two/large: 100 tokens in (64 cached), 20 out]
    ");
}

#[test]
fn unavailable_model_is_retried_before_the_fallback() {
    let fake = FakeProvider::start_blocking();
    two(&fake, "r500", "text").lango_with_key(&["run", "hello"]).success();
    assert_eq!(requested_models(&fake), ["small", "small", "small", "large"]);
}

#[test]
fn truncated_answer_is_not_continued_by_the_fallback() {
    let fake = FakeProvider::start_blocking();
    let output = two(&fake, "trunctext", "text").lango_with_key(&["run", "hello"]).failure();
    assert_eq!(output.out, "Grüß dich 🌍\n", "only the truncated answer of the first model");
    assert_snapshot!(output.err, @"lango: one ended the stream before the answer was complete");
    assert_eq!(requested_models(&fake), ["small"]);
}

#[test]
fn rejected_or_refused_request_uses_no_fallback() {
    let fake = FakeProvider::start_blocking();
    let output = two(&fake, "bad400", "text").lango_with_key(&["run", "hello"]).failure();
    assert_snapshot!(output.err, @"lango: one rejected the request: messages: bad");
    two(&fake, "refuse0", "text").lango_with_key(&["run", "hello"]).failure();
    assert_eq!(requested_models(&fake), ["small", "small"]);
}

#[test]
fn missing_fallback_key_is_an_error_only_when_needed() {
    let fake = FakeProvider::start_blocking();
    let without = |scenario: &str| {
        let env = TestEnv::new();
        let one = provider("one", &fake, ProviderApi::OpenAi, scenario);
        env.file("lango.toml", format!("model = \"one/small\"\nfallback = [\"openai\"]\n{one}{REST}"));
        env
    };
    without("text").lango_with_key(&["run", "hello"]).success();
    let output = without("auth401").lango_with_key(&["run", "hello"]).failure();
    assert_snapshot!(output.err, @"
    one rejected the API key; asking openai/gpt-5-mini instead
    lango: one/small: one rejected the API key: invalid x-api-key; openai/gpt-5-mini: openai is not configured correctly: openai needs a key: set OPENAI_API_KEY, or `key` in [providers.openai] of lango.toml
    ");
}

#[test]
fn fallback_is_read_from_the_environment() {
    let fake = FakeProvider::start_blocking();
    let env = TestEnv::with_provider(&fake, ProviderApi::OpenAi, "auth401");
    let mut command = env.command(["run", "hello"]);
    let output = env.run(command.env("CANARY", CANARY).env("LANGO_FALLBACK", "demo")).success();
    assert!(output.err.contains("asking demo instead"), "{output:?}");
}

/// A provider that asks for a wait of seven seconds, which the configuration allows.
fn slow(fake: &FakeProvider) -> TestEnv {
    let env = TestEnv::new();
    let one = provider("one", fake, ProviderApi::OpenAi, "r429");
    env.file("lango.toml", format!("model = \"one/small\"\n{one}\n[retry]\nmax_wait_s = 10\n"));
    env
}

#[test]
fn retry_wait_counts_down_and_ctrl_c_cancels_it() {
    let fake = FakeProvider::start_blocking();
    let env = slow(&fake);
    let mut terminal =
        Terminal::with(&env, &["chat", "--session", "k"], &[("TERM", "xterm"), ("CANARY", CANARY)]);
    terminal.type_line("hello");
    terminal.wait_for("rate limit at one reached; trying again in 7 s");
    terminal.wait_for("rate limit at one reached; trying again in 6 s");
    terminal.type_keys(CTRL_C);
    terminal.wait_for("stopped; the session can be continued");
    terminal.quit();
    assert_eq!(fake.requests().len(), 1);
}

#[test]
fn ctrl_c_during_a_retry_wait_ends_run_with_exit_code_130() {
    let fake = FakeProvider::start_blocking();
    let env = slow(&fake);
    let mut terminal =
        Terminal::with(&env, &["run", "--session", "k", "hello"], &[("TERM", "xterm"), ("CANARY", CANARY)]);
    terminal.wait_for("rate limit at one reached; trying again in 7 s");
    terminal.type_keys(CTRL_C);
    let (code, screen) = terminal.wait_exit();
    assert_eq!(code, Some(130), "{screen}");
    let output = env.lango_with_key(&["sessions", "show", "k"]).success();
    assert_snapshot!(output.out, @"        user  hello");
}

#[test]
fn pipe_gets_a_line_for_each_retry() {
    let fake = FakeProvider::start_blocking();
    let output = TestEnv::with_provider(&fake, ProviderApi::OpenAi, "r500")
        .lango_with_key(&["run", "hello"])
        .failure();
    assert_snapshot!(output.snapshot(), @"
    fake is temporarily unavailable; trying again in 1 s
    fake is temporarily unavailable; trying again in 1 s
    lango: fake is temporarily unavailable: Internal error; gave up after 3 attempts
    [exit 1]
    ");
}
