//! `lango run`: one message, one answer.

use crate::common::{Place, fixtures};
use adk::event::Event;

#[test]
fn a_fresh_machine_answers_with_a_real_tool_call() {
    let place = Place::new();
    let said = place.lango(&["run", "what is 15% of 240?"]).well();
    assert!(said.out.contains("36"), "{said:?}");
    assert!(said.err.contains("→ calculate") && said.err.contains("← calculate"), "{said:?}");
}

#[test]
fn the_files_of_the_working_directory_can_be_read() {
    let place = Place::new();
    place.file("notes.txt", "the key is under the mat\n");
    let said = place.lango(&["run", "what is in notes.txt?"]).well();
    assert!(said.out.contains("the key is under the mat"), "{said:?}");
    assert!(said.err.contains("→ read_file"), "{said:?}");
}

#[test]
fn a_session_goes_on_and_knows_what_was_said() {
    let place = Place::new();
    place.lango(&["run", "--session", "k", "what is 15% of 240?"]).well();
    let said = place.lango(&["run", "--session", "k", "and twice that?"]).well();
    assert!(said.out.contains("72"), "{said:?}");
}

#[test]
fn another_session_knows_nothing_of_it() {
    let place = Place::new();
    place.lango(&["run", "--session", "k", "what is 15% of 240?"]).well();
    let said = place.lango(&["run", "--session", "other", "and twice that?"]).well();
    assert!(!said.out.contains("72"), "{said:?}");
}

#[test]
fn continue_takes_the_session_that_was_used_last() {
    let place = Place::new();
    place.lango(&["run", "what is 15% of 240?"]).well();
    place.lango(&["run", "--session", "k", "what is 100 + 1?"]).well();
    let said = place.lango(&["run", "--continue", "and twice that?"]).well();
    assert!(said.out.contains("202"), "{said:?}");
    assert!(said.err.contains("--session k "), "{said:?}");
}

#[test]
fn only_the_answer_is_on_standard_output() {
    let said = Place::canned().lango(&["run", "texttool"]).well();
    insta::assert_snapshot!(said.out, @r#"
    Let me check.
    Tool get_weather said: {"city":"Oslo","report":"sunny, 21C","status":"ok"}
    "#);
}

#[test]
fn json_prints_events_of_adk_one_a_line() {
    let said = Place::canned().lango(&["run", "--json", "tool"]).well();
    assert_eq!(said.err, "");
    let events: Vec<Event> = said.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
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
fn the_message_can_come_from_standard_input() {
    let place = Place::canned();
    for args in [&["run"][..], &["run", "-"]] {
        let said = place.fed(args, "good morning\n".as_bytes()).well();
        assert!(said.out.starts_with("Hello from canned model. You said: good morning"), "{said:?}");
    }
}

#[test]
fn the_model_of_the_command_line_wins() {
    let place = Place::canned();
    place.file("other.yaml", "rules: [{reply: [{text: I am another.}]}]");
    let said = place.lango(&["run", "--model", "scripted/other.yaml", "tool"]).well();
    assert_eq!(said.out, "I am another.\n");
}

/// What the agent that ADK's transcripts were recorded with says to its words, each in a session of its own.
fn canned(words: &[&str]) -> String {
    let config = fixtures().join("canned/lango.toml");
    let place = Place::new();
    let told = |word: &&str| {
        let said = place.lango(&["run", "--config", config.to_str().unwrap(), "--session", word, word]);
        let said =
            said.picture().replace(&format!("(lango run --session {word} \"…\" goes on from here)\n"), "");
        format!("{word}\n{said}")
    };
    words.iter().map(told).collect::<Vec<_>>().join("\n\n")
}

#[test]
fn the_canned_agent_calls_its_tools() {
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
fn the_canned_agent_answers_to_its_other_words() {
    insta::assert_snapshot!(canned(&["unknowntool", "think", "errcode", "raise", "confirm"]), @r#"
    unknowntool
    Tool no_such_tool said: {"error":"there is no tool named no_such_tool; the tools are: get_weather, set_state, make_artifact, danger, slow_job, bad_tool"}
    → no_such_tool {"x":1}
    ← no_such_tool {"error":"there is no tool named no_such_tool; the tools are: get_weather, set_state, make_artifact, danger, slow_job, bad_tool"}
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
fn a_transfer_sticks() {
    let place = Place::canned();
    let authors = |said: &crate::common::Said| -> Vec<String> {
        let events = said.json_lines();
        events.iter().map(|event| event["author"].as_str().unwrap().to_owned()).collect()
    };
    let first = place.lango(&["run", "--json", "--session", "k", "transfer"]).well();
    assert_eq!(authors(&first).last().unwrap(), "helper");
    let second = place.lango(&["run", "--json", "--session", "k", "hello"]).well();
    assert!(authors(&second).iter().all(|author| author == "helper"), "{second:?}");
}

#[test]
fn a_refusal_is_no_answer() {
    let place = Place::canned();
    for args in [&["run", "errcode"][..], &["run", "--json", "errcode"]] {
        assert_eq!(place.lango(args).badly().err, "lango: quota exceeded (canned)\n");
    }
}

#[test]
fn a_failed_answer_is_told_and_the_session_goes_on() {
    let place = Place::canned();
    let said = place.lango(&["run", "--session", "k", "raise"]).badly();
    assert_eq!(said.err, "lango: canned model failure\n");
    place.lango(&["run", "--session", "k", "hello"]).well();
}
