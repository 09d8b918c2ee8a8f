//! `lango run`: messages, sessions, output and models.

use crate::common::{TestEnv, fixtures};
use adk::event::Event;

#[test]
fn run_without_configuration_calls_a_tool() {
    let env = TestEnv::new();
    let output = env.lango(&["run", "what is 15% of 240?"]).success();
    assert!(output.out.contains("36"), "{output:?}");
    assert!(output.err.contains("→ calculate") && output.err.contains("← calculate"), "{output:?}");
}

#[test]
fn run_reads_files_of_the_working_directory() {
    let env = TestEnv::new();
    env.file("notes.txt", "the key is under the mat\n");
    let output = env.lango(&["run", "what is in notes.txt?"]).success();
    assert!(output.out.contains("the key is under the mat"), "{output:?}");
    assert!(output.err.contains("→ read_file"), "{output:?}");
}

#[test]
fn session_option_continues_with_the_history() {
    let env = TestEnv::new();
    env.lango(&["run", "--session", "k", "what is 15% of 240?"]).success();
    let output = env.lango(&["run", "--session", "k", "and twice that?"]).success();
    assert!(output.out.contains("72"), "{output:?}");
}

#[test]
fn sessions_do_not_share_history() {
    let env = TestEnv::new();
    env.lango(&["run", "--session", "k", "what is 15% of 240?"]).success();
    let output = env.lango(&["run", "--session", "other", "and twice that?"]).success();
    assert!(!output.out.contains("72"), "{output:?}");
}

#[test]
fn continue_uses_the_most_recent_session() {
    let env = TestEnv::new();
    env.lango(&["run", "what is 15% of 240?"]).success();
    env.lango(&["run", "--session", "k", "what is 100 + 1?"]).success();
    let output = env.lango(&["run", "--continue", "and twice that?"]).success();
    assert!(output.out.contains("202"), "{output:?}");
    assert!(output.err.contains("--session k "), "{output:?}");
}

#[test]
fn run_prints_only_the_answer_to_stdout() {
    let output = TestEnv::canned().lango(&["run", "texttool"]).success();
    insta::assert_snapshot!(output.out, @r#"
    Let me check.
    Tool get_weather said: {"city":"Oslo","report":"sunny, 21C","status":"ok"}
    "#);
}

#[test]
fn run_json_prints_one_adk_event_per_line() {
    let output = TestEnv::canned().lango(&["run", "--json", "tool"]).success();
    assert_eq!(output.err, "");
    let events: Vec<Event> = output.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let finals: Vec<&Event> = events.iter().filter(|event| !event.is_partial()).collect();
    let kinds: Vec<&str> = finals.iter().map(|event| kind(event)).collect();
    assert_eq!(kinds, ["call", "response", "text"]);
    let ids: Vec<&str> = finals.iter().map(|event| event.invocation_id.as_str()).collect();
    assert!(ids.iter().all(|id| *id == ids[0] && !id.is_empty()), "{ids:?}");
}

fn kind(event: &Event) -> &'static str {
    match event.content.as_ref().and_then(|content| content.parts.first()) {
        Some(part) if part.call().is_some() => "call",
        Some(part) if part.response().is_some() => "response",
        Some(_) => "text",
        None => "nothing",
    }
}

#[test]
fn message_is_read_from_stdin() {
    let env = TestEnv::canned();
    for args in [&["run"][..], &["run", "-"]] {
        let output = env.lango_with_stdin(args, "good morning\n".as_bytes()).success();
        assert!(output.out.starts_with("Hello from canned model. You said: good morning"), "{output:?}");
    }
}

#[test]
fn piped_input_is_appended_to_the_message() {
    let env = TestEnv::canned();
    let output = env.lango_with_stdin(&["run", "good morning"], b"from a pipe\n").success();
    assert!(output.out.contains("good morning") && output.out.contains("from a pipe"), "{output:?}");
    let empty = env.lango_with_stdin(&["run", "good morning"], b"").success();
    assert!(empty.out.contains("You said: good morning") && !empty.out.contains("input"), "{empty:?}");
    let binary = env.lango_with_stdin(&["run", "good morning"], b"\x7fELF\0\0");
    assert!(binary.err.contains("standard input is not text"), "{binary:?}");
}

#[test]
fn model_option_overrides_the_configuration() {
    let env = TestEnv::canned();
    env.file("other.yaml", "rules: [{reply: [{text: I am another.}]}]");
    let output = env.lango(&["run", "--model", "scripted/other.yaml", "tool"]).success();
    assert_eq!(output.out, "I am another.\n");
}

/// The output of the canned agent for each of `words`, each in its own session.
fn canned(words: &[&str]) -> String {
    let config = fixtures().join("canned/lango.toml");
    let env = TestEnv::new();
    let run = |word: &&str| {
        let output = env.lango(&["run", "--config", config.to_str().unwrap(), "--session", word, word]);
        let output =
            output.snapshot().replace(&format!("(to continue: lango run --session {word} \"…\")\n"), "");
        format!("{word}\n{output}")
    };
    words.iter().map(run).collect::<Vec<_>>().join("\n\n")
}

#[test]
fn canned_agent_calls_its_tools() {
    insta::assert_snapshot!(canned(&["hello", "tool", "parallel", "state", "artifact", "long", "toolerror"]), @r#"
    hello
    Hello from canned model. You said: hello
    [exit 0]

    tool
    Tool get_weather said: {"city":"Paris","report":"sunny, 21C","status":"ok"}
    → get_weather {"city":"Paris"}
    ← get_weather {"city":"Paris","report":"sunny, 21C","status":"ok"}
    [exit 0]

    parallel
    Tool get_weather said: {"city":"Tokyo","report":"sunny, 21C","status":"ok"}
    → get_weather {"city":"Paris"}
    → get_weather {"city":"Tokyo"}
    ← get_weather {"city":"Paris","report":"sunny, 21C","status":"ok"}
    ← get_weather {"city":"Tokyo","report":"sunny, 21C","status":"ok"}
    [exit 0]

    state
    Tool set_state said: {"status":"set"}
    → set_state {"value":"v1"}
    ← set_state {"status":"set"}
    [exit 0]

    artifact
    Tool make_artifact said: {"version":0}
    → make_artifact {"name":"hello.txt"}
    ← make_artifact {"version":0}
    [exit 0]

    long
    Tool slow_job said: {"job":"j1","status":"pending"}
    → slow_job {"job":"j1"}
    ← slow_job {"job":"j1","status":"pending"}
    [exit 0]

    toolerror
    Tool bad_tool said: {"error":"bad_tool failed"}
    → bad_tool {"x":1}
    ← bad_tool {"error":"bad_tool failed"}
    [exit 0]
    "#);
}

#[test]
fn canned_agent_errors_and_confirmations_are_printed() {
    insta::assert_snapshot!(canned(&["unknowntool", "think", "errcode", "raise", "confirm"]), @r#"
    unknowntool
    Tool no_such_tool said: {"error":"there is no tool named no_such_tool; the tools are: transfer_to_agent, get_weather, set_state, make_artifact, danger, slow_job, bad_tool"}
    → no_such_tool {"x":1}
    ← no_such_tool {"error":"there is no tool named no_such_tool; the tools are: transfer_to_agent, get_weather, set_state, make_artifact, danger, slow_job, bad_to…
    [exit 0]

    think
    Answer: 42.
    [exit 0]

    errcode
    lango: quota exceeded (canned)
    [exit 1]

    raise
    lango: canned model failure
    [exit 1]

    confirm
    Tool danger said: {"error":"this call was not run: `danger` is confirmed each time, and no one is available to approve it"}
    → danger {"what":"rm"}
    ← danger {"error":"this call was not run: `danger` is confirmed each time, and no one is available to approve it"}
    [exit 0]
    "#);
}

#[test]
fn agent_transfer_persists_for_the_session() {
    let env = TestEnv::canned();
    let authors = |output: &crate::common::CliOutput| -> Vec<String> {
        let events = output.json_lines();
        events.iter().map(|event| event["author"].as_str().unwrap().to_owned()).collect()
    };
    let first = env.lango(&["run", "--json", "--session", "k", "transfer"]).success();
    assert_eq!(authors(&first).last().unwrap(), "helper");
    let second = env.lango(&["run", "--json", "--session", "k", "hello"]).success();
    assert!(authors(&second).iter().all(|author| author == "helper"), "{second:?}");
}

#[test]
fn model_error_code_fails_the_command() {
    let env = TestEnv::canned();
    for args in [&["run", "errcode"][..], &["run", "--json", "errcode"]] {
        assert_eq!(env.lango(args).failure().err, "lango: quota exceeded (canned)\n");
    }
}

#[test]
fn model_failure_is_reported_and_the_session_remains_usable() {
    let env = TestEnv::canned();
    let output = env.lango(&["run", "--session", "k", "raise"]).failure();
    assert_eq!(output.err, "lango: canned model failure\n");
    env.lango(&["run", "--session", "k", "hello"]).success();
}
