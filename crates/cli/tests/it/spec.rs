//! The scenarios of the specification that begin with a configuration.

use crate::common::Place;
use insta::assert_snapshot;
use serde_json::Value;

fn request(place: &Place, session: &str) -> Value {
    let said = place.lango(&["sessions", "show", session, "--as", "openai"]).well();
    serde_json::from_str(&said.out).unwrap()
}

fn tools(request: &Value) -> Vec<&str> {
    let tools = request["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap()).collect()
}

#[test]
fn spec_a1_without_a_configuration_there_is_an_agent_with_the_demo_model_and_the_built_in_tools() {
    let place = Place::new();
    let said = place.lango(&["run", "--session", "k", "hello"]).well();
    assert!(said.out.contains("demo"), "{said:?}");
    let request = request(&place, "k");
    let names = tools(&request).join(" ");
    assert_eq!(
        names,
        "now calculate read_file list_files search_files write_file edit_file undo_edit exec exec_start exec_status exec_stop \
         read_output fetch"
    );
}

#[test]
fn spec_a1_the_agent_has_the_model_and_the_tools_that_the_configuration_selects() {
    let place = Place::scripted("[stubs.lamp]\ndescription = \"Switches the lamp.\"\n", RULES);
    place.file(
        "agents/butler/root_agent.yaml",
        "name: butler\ninstruction: You serve.\ntools: [{name: lamp}, {name: now}]\n",
    );
    let said = place.lango(&["run", "--session", "k", "light"]).well();
    assert_eq!(said.out, "As you wish.\n");
    let request = request(&place, "k");
    assert_eq!(tools(&request), ["lamp", "now"]);
    assert_eq!(request["messages"][0]["content"], "You serve.");
}

#[test]
fn spec_g1_a_correction_is_shown_as_ours_and_not_as_the_users() {
    let place = Place::scripted("", LOST);
    place.file("agents/home/root_agent.yaml", "name: butler\nsub_agents: [{config_path: maid.yaml}]\n");
    place.file("agents/home/maid.yaml", "name: maid\n");
    let said = place.lango(&["run", "--session", "k", "go"]).well();
    assert!(said.out.ends_with("Hello.\n"), "{said:?}");
    assert_snapshot!(place.lango(&["sessions", "show", "k"]).well().out, @r#"
      user  go
    butler  One moment.
    butler  → transfer_to_agent {"agent_name":"ghost"}
    butler  ← transfer_to_agent {"error":"failed to find agent: ghost"}
     lango  [System: Agent "ghost" does not exist. Valid agents: maid. Please retry using one of the valid agent names listed above.]
    butler  Hello.
    "#);
}

const LOST: &str = "
rules:
  - when: {first_word: go}
    reply: [{text: One moment.}, {call: {name: transfer_to_agent, args: {agent_name: ghost}}}]
  - reply: [{text: Hello.}]
";

const RULES: &str = "
rules:
  - when: {tool: any}
    reply: [{text: As you wish.}]
  - when: {first_word: light}
    reply: [{call: {name: lamp}}]
  - reply: [{text: 'noted: {user}'}]
";

/// Twenty exchanges of about sixty tokens.
fn long_conversation() -> Place {
    let place = Place::scripted("", RULES);
    let lines: Vec<String> =
        (1..=20).map(|n| format!("message {n} {}", "word ".repeat(40).trim_end())).collect();
    place.fed(&["chat", "--session", "k"], lines.join("\n").as_bytes()).well();
    place
}

fn said(request: &Value) -> String {
    request["messages"].to_string()
}

#[test]
fn spec_f6_the_file_sets_the_budget() {
    let place = long_conversation();
    assert!(said(&request(&place, "k")).contains("message 1 word"));
    place.file("lango.toml", "model = \"scripted/script.yaml\"\nmaxMessageTokenBudget = 400\n");
    let small = said(&request(&place, "k"));
    assert!(!small.contains("message 1 word") && small.contains("message 20 word"), "{small}");
}

#[test]
fn spec_f6_the_environment_sets_the_budget_over_the_file() {
    let place = long_conversation();
    place.file("lango.toml", "model = \"scripted/script.yaml\"\nmaxMessageTokenBudget = 400\n");
    let mut command = place.command(["sessions", "show", "k", "--as", "openai"]);
    let large = place.said(command.env("LANGO_MAX_MESSAGE_TOKEN_BUDGET", "32000")).well();
    assert!(large.out.contains("message 1 word"), "{large:?}");
}

#[test]
fn spec_f6_a_budget_that_holds_nothing_is_refused() {
    let place = Place::new();
    place.file("lango.toml", "maxMessageTokenBudget = 255\n");
    insta::assert_snapshot!(place.lango(&["run", "hello"]).badly().picture(), @r"
    lango: lango.toml: maxMessageTokenBudget is 255; it must be at least 256, or 0 for 32000
    [exit 1]
    ");
    let mut command = place.command(["run", "hello"]);
    let said = place.said(command.env("LANGO_MAX_MESSAGE_TOKEN_BUDGET", "5")).badly();
    insta::assert_snapshot!(said.picture(), @r"
    lango: LANGO_MAX_MESSAGE_TOKEN_BUDGET: maxMessageTokenBudget is 5; it must be at least 256, or 0 for 32000
    [exit 1]
    ");
    assert!(!place.home().exists());
}
