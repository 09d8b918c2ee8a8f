//! Scenarios of the specification through the binary: configuration, and answers that start over.

use crate::common::{AuthServer, TestEnv};
use insta::assert_snapshot;
use serde_json::Value;

fn request(env: &TestEnv, session: &str) -> Value {
    let output = env.lango(&["sessions", "show", session, "--as", "openai"]).success();
    serde_json::from_str(&output.out).unwrap()
}

fn tools(request: &Value) -> Vec<&str> {
    let tools = request["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap()).collect()
}

#[test]
fn spec_a1_default_agent_has_the_demo_model_and_the_built_in_tools() {
    let env = TestEnv::new();
    let output = env.lango(&["run", "--session", "k", "hello"]).success();
    assert!(output.out.contains("demo"), "{output:?}");
    let request = request(&env, "k");
    let names = tools(&request).join(" ");
    assert_eq!(
        names,
        "now calculate read_file list_files search_files write_file edit_file undo_edit exec exec_start exec_status exec_stop \
         read_output fetch recall"
    );
}

#[test]
fn spec_a1_configured_agent_has_its_model_and_tools() {
    let env = TestEnv::scripted("[stubs.lamp]\ndescription = \"Switches the lamp.\"\n", RULES);
    env.file(
        "agents/butler/root_agent.yaml",
        "name: butler\ninstruction: You serve.\ntools: [{name: lamp}, {name: now}]\n",
    );
    let output = env.lango(&["run", "--session", "k", "light"]).success();
    assert_eq!(output.out, "As you wish.\n");
    let request = request(&env, "k");
    assert_eq!(tools(&request), ["lamp", "now"]);
    assert_eq!(request["messages"][0]["content"], "You serve.");
}

#[test]
fn spec_g1_correction_is_shown_with_the_author_lango() {
    let env = TestEnv::scripted("", LOST);
    env.file("agents/home/root_agent.yaml", "name: butler\nsub_agents: [{config_path: maid.yaml}]\n");
    env.file("agents/home/maid.yaml", "name: maid\n");
    let output = env.lango(&["run", "--session", "k", "go"]).success();
    assert_eq!(output.out, "Hello.\n", "in a pipe, the lost attempt is not part of the answer (spec G2)");
    assert_snapshot!(env.lango(&["sessions", "show", "k"]).success().out, @r#"
      user  go
    butler  One moment.
    butler  → transfer_to_agent {"agent_name":"ghost"}
    butler  ← transfer_to_agent {"error":"failed to find agent: ghost"}
     lango  [System: Agent "ghost" does not exist. Valid agents: maid. Please retry using one of the valid agent names listed above.]
    butler  Hello.
    "#);
}

/// Three levels of agents; the deepest one gets the current turn only, and names an unknown agent.
fn env_with_a_deep_mistake() -> TestEnv {
    let env = TestEnv::new();
    let agent = |name: &str, more: &str, reply: &str| {
        let rules = "name: NAME\nmodel: scripted/NAME.s.yaml\n".replace("NAME", name);
        let file = if name == "root" { "root_agent" } else { name };
        env.file(&format!("agents/home/{file}.yaml"), format!("{rules}{more}\n"));
        env.file(&format!("agents/home/{name}.s.yaml"), format!("rules: [{reply}]\n"));
    };
    let to = |name: &str| format!("{{call: {{name: transfer_to_agent, args: {{agent_name: {name}}}}}}}");
    agent("root", "sub_agents: [{config_path: middle.yaml}]", &format!("{{reply: [{}]}}", to("middle")));
    agent("middle", "sub_agents: [{config_path: deep.yaml}]", &format!("{{reply: [{}]}}", to("deep")));
    let corrected = "{when: {contains: 'Valid agents: middle.'}, reply: [{text: 'Final '}, {text: answer.}]}";
    let mistake = format!("{{reply: [{{text: 'Lost words.'}}, {}]}}", to("ghost"));
    agent("deep", "include_contents: none", &format!("{corrected}, {mistake}"));
    env
}

#[test]
fn spec_g2_i1_piped_answers_of_all_front_ends_are_the_retry_alone() {
    let env = env_with_a_deep_mistake();
    assert_eq!(env.lango(&["run", "go"]).success().out, "Final answer.\n");
    assert_eq!(env.lango_with_stdin(&["chat"], b"go\n").success().out, "Final answer.\n");
    let server = AuthServer::start(&env, &[]);
    let address = format!("http://{}", server.address);
    let output = env.lango_with_stdin(&["chat", "--server", &address], b"go\n").success();
    assert_eq!(output.out, "Final answer.\n");
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
fn long_conversation() -> TestEnv {
    let env = TestEnv::scripted("", RULES);
    let lines: Vec<String> =
        (1..=20).map(|n| format!("message {n} {}", "word ".repeat(40).trim_end())).collect();
    env.lango_with_stdin(&["chat", "--session", "k"], lines.join("\n").as_bytes()).success();
    env
}

fn messages(request: &Value) -> String {
    request["messages"].to_string()
}

#[test]
fn spec_f6_file_sets_the_budget() {
    let env = long_conversation();
    assert!(messages(&request(&env, "k")).contains("message 1 word"));
    env.file("lango.toml", "model = \"scripted/script.yaml\"\nmaxMessageTokenBudget = 400\n");
    let small = messages(&request(&env, "k"));
    assert!(!small.contains("message 1 word") && small.contains("message 20 word"), "{small}");
}

#[test]
fn spec_f6_environment_budget_overrides_the_file() {
    let env = long_conversation();
    env.file("lango.toml", "model = \"scripted/script.yaml\"\nmaxMessageTokenBudget = 400\n");
    let mut command = env.command(["sessions", "show", "k", "--as", "openai"]);
    let large = env.run(command.env("LANGO_MAX_MESSAGE_TOKEN_BUDGET", "32000")).success();
    assert!(large.out.contains("message 1 word"), "{large:?}");
}

/// How many of the twenty messages of the user are in a request.
fn user_messages(request: &str) -> usize {
    (1..=20).filter(|n| request.contains(&format!("message {n} word"))).count()
}

#[test]
fn spec_f7_file_caps_the_number_of_messages() {
    let env = long_conversation();
    env.file("lango.toml", "model = \"scripted/script.yaml\"\n\n[history]\nmaxMessages = 14\n");
    let capped = messages(&request(&env, "k"));
    assert!(capped.contains("message 20 word"), "{capped}");
    // An advance retains half: three messages with their answers, and the note that asks to continue.
    assert_eq!(user_messages(&capped), 3, "{capped}");
}

#[test]
fn spec_f7_environment_cap_overrides_the_file() {
    let env = long_conversation();
    env.file("lango.toml", "model = \"scripted/script.yaml\"\n\n[history]\nmaxMessages = 200\n");
    let shown = |cap: &str| {
        let mut command = env.command(["sessions", "show", "k", "--as", "openai"]);
        env.run(command.env("LANGO_HISTORY_MAX_MESSAGES", cap)).success().out
    };
    assert_eq!(user_messages(&shown("200")), 20);
    assert_eq!(user_messages(&shown("5")), 2);
    assert_eq!(user_messages(&shown("1")), 1, "the last exchange is shown with its message");
}

#[test]
fn spec_f6_budget_below_the_minimum_is_refused() {
    let env = TestEnv::new();
    env.file("lango.toml", "maxMessageTokenBudget = 255\n");
    insta::assert_snapshot!(env.lango(&["run", "hello"]).failure().snapshot(), @r"
    lango: lango.toml: maxMessageTokenBudget is 255; it must be at least 256, or 0 for 32000
    [exit 1]
    ");
    let mut command = env.command(["run", "hello"]);
    let output = env.run(command.env("LANGO_MAX_MESSAGE_TOKEN_BUDGET", "5")).failure();
    insta::assert_snapshot!(output.snapshot(), @r"
    lango: LANGO_MAX_MESSAGE_TOKEN_BUDGET: maxMessageTokenBudget is 5; it must be at least 256, or 0 for 32000
    [exit 1]
    ");
    assert!(!env.home().exists());
}
