//! Errors in a configuration or a message: one sentence with the location and the fix, and no files are created.

use crate::common::{CliOutput, TestEnv};
use insta::assert_snapshot;

/// The error of `lango run hello` with these files.
#[track_caller]
fn refused(files: &[(&str, &str)]) -> String {
    refused_with(files, &["run", "hello"])
}

#[track_caller]
fn refused_with(files: &[(&str, &str)], args: &[&str]) -> String {
    let env = TestEnv::new();
    for (path, text) in files {
        env.file(path, text);
    }
    error_line(&env, &env.lango(args))
}

#[track_caller]
fn error_line(env: &TestEnv, output: &CliOutput) -> String {
    assert_eq!((output.code, output.out.as_str()), (Some(1), ""), "{output:?}");
    assert_eq!(output.err.lines().count(), 1, "one sentence: {output:?}");
    assert!(!env.home().exists(), "no files are created");
    output.snapshot().replace("\n[exit 1]", "")
}

#[test]
fn unknown_toml_key_error_has_location_and_suggestion() {
    assert_snapshot!(refused(&[("lango.toml", "# mine\nmodell = \"demo\"\n")]), @"lango: lango.toml:2:1: there is no key `modell`; did you mean `model`?");
    assert_snapshot!(refused(&[("lango.toml", "[history]\nmaxMesages = 3\n")]), @"lango: lango.toml:2:1: there is no key `maxMesages`; did you mean `maxMessages`?");
    assert_snapshot!(refused(&[("lango.toml", "[stubs.lamp]\nrespond = 3\n")]), @"lango: lango.toml:2:1: there is no key `respond`; did you mean `response`?");
    assert_snapshot!(refused(&[("lango.toml", "colour = \"red\"\n")]), @"lango: lango.toml:1:1: there is no key `colour`; the keys are model, fallback, discover, app, user, database, agentsDir, maxMessageTokenBudget, history, providers, models, retry, limits, generate, stubs, server, telemetry, tools, approval, mcp, mcpJson, commands");
}

#[test]
fn invalid_server_settings_are_rejected() {
    let server = |text: &str| refused(&[("lango.toml", &format!("[server]\n{text}\n"))]);
    assert_snapshot!(server("allowedHost = [\"a\"]"), @"lango: lango.toml:2:1: there is no key `allowedHost`; did you mean `allowedHosts`?");
    assert_snapshot!(server("allowedHosts = [\"http://a.example\"]"), @r#"lango: lango.toml: server.allowedHosts: "http://a.example" is not a name like agents.example or agents.example:8443"#);
    assert_snapshot!(server("allowedOrigins = [\"*\"]"), @r#"lango: lango.toml: server.allowedOrigins: "*" is not an origin like https://app.example"#);
    assert_snapshot!(server("trustedProxies = [\"proxy\"]"), @r#"lango: lango.toml: server.trustedProxies: "proxy" is not an IP address like 10.0.0.1 or a range like 10.0.0.0/8"#);
    assert_snapshot!(server("tlsCert = \"cert.pem\""), @"lango: lango.toml: server.tlsCert requires server.tlsKey");
    assert_snapshot!(server("[server.jwt]\njwks = \"jwks.json\""), @"lango: lango.toml:2:1: the key `issuer` is missing");
}

#[test]
fn type_error_in_toml_has_its_location() {
    assert_snapshot!(refused(&[("lango.toml", "model = 3\n")]), @"lango: lango.toml:1:9: `3` is written here; expected a string");
    assert_snapshot!(refused(&[("lango.toml", "maxMessageTokenBudget = -1\n")]), @"lango: lango.toml:1:25: `-1` is written here; expected a whole number that is not negative");
    assert_snapshot!(refused(&[("lango.toml", "[history]\nmaxMessages = 0\n")]), @"lango: lango.toml: history.maxMessages is 0; leave it out for no limit");
}

#[test]
fn toml_syntax_error_has_its_location() {
    assert_snapshot!(refused(&[("lango.toml", "model = \"demo\"\napp = [\n")]), @"lango: lango.toml:2:8: unclosed array, expected `]`");
    assert_snapshot!(refused(&[("lango.toml", "model: demo\n")]), @"lango: lango.toml:1:8: key with no value, expected `=`");
}

#[test]
fn invalid_environment_variable_is_named() {
    let env = TestEnv::new();
    let mut command = env.command(["run", "hello"]);
    let output = env.run(command.env("LANGO_MAX_MESSAGE_TOKEN_BUDGET", "many"));
    assert_snapshot!(error_line(&env, &output), @r#"lango: LANGO_MAX_MESSAGE_TOKEN_BUDGET is "many", which is not a whole number"#);
    let mut command = env.command(["run", "hello"]);
    let output = env.run(command.env("LANGO_MODEL", "scripted/none.yaml"));
    assert_snapshot!(error_line(&env, &output), @"lango: LANGO_MODEL names none.yaml, which does not exist");
    let mut command = env.command(["run", "hello"]);
    let output = env.run(command.env_remove("LANGO_HOME").env_remove("HOME"));
    assert_snapshot!(error_line(&env, &output), @"lango: there is no home directory to store sessions in; set LANGO_HOME to a directory of your choice");
}

#[test]
fn missing_configuration_file_is_reported() {
    assert_snapshot!(refused_with(&[], &["run", "--config", "mine.toml", "hello"]), @"lango: --config names mine.toml, which does not exist");
}

const ROOT: &str = "agents/home/root_agent.yaml";

#[test]
fn yaml_syntax_error_has_its_location() {
    assert_snapshot!(refused(&[(ROOT, "name: butler\n\tmodel: demo\n")]), @"lango: agents/home/root_agent.yaml:1:7: a tab follows; YAML is indented with spaces");
    assert_snapshot!(refused(&[(ROOT, "name: [butler\n")]), @"lango: agents/home/root_agent.yaml:1:7: a bracket is not closed");
    assert_snapshot!(refused(&[(ROOT, "name: butler\nmodel: [demo]\n")]), @"lango: agents/home/root_agent.yaml:2:8: expected a string");
    assert_snapshot!(refused(&[(ROOT, "\n")]), @"lango: agents/home/root_agent.yaml: it is empty; an agent needs at least a `name`");
}

#[test]
fn invalid_agent_keys_are_reported_with_the_fix() {
    assert_snapshot!(refused(&[(ROOT, "name: butler\ninstructions: Serve.\n")]), @"lango: agents/home/root_agent.yaml:2:1: there is no key `instructions`; did you mean `instruction`?");
    assert_snapshot!(refused(&[(ROOT, "description: Serves.\n")]), @"lango: agents/home/root_agent.yaml:1:1: the key `name` is missing");
    assert_snapshot!(refused(&[(ROOT, "name: butler\ntools: [now]\n")]), @"lango: agents/home/root_agent.yaml:2:9: a tool is written as `- name: NAME`");
    assert_snapshot!(refused(&[(ROOT, "name: butler\nsub_agents: [{}]\n")]), @"lango: agents/home/root_agent.yaml: a sub-agent needs a `config_path`");
}

#[test]
fn agent_keys_that_need_python_are_refused() {
    assert_snapshot!(refused(&[(ROOT, "name: butler\nbefore_model_callbacks: [{name: a.b}]\n")]), @"lango: agents/home/root_agent.yaml: before_model_callbacks needs Python, which does not run here; leave it out, or keep that agent in ADK");
    assert_snapshot!(refused(&[(ROOT, "name: butler\nmodel_code: {name: a.b}\n")]), @"lango: agents/home/root_agent.yaml: model_code needs Python, which does not run here; name a model with `model`");
    assert_snapshot!(refused(&[(ROOT, "name: butler\nsub_agents: [{code: a.b}]\n")]), @"lango: agents/home/root_agent.yaml: sub_agents.code needs Python, which does not run here; write it as YAML and give its config_path");
    assert_snapshot!(refused(&[(ROOT, "name: butler\ntools: [{name: a, args: {x: 1}}]\n")]), @"lango: agents/home/root_agent.yaml: tools.args needs Python, which does not run here; name a tool of lango.toml instead");
    assert_snapshot!(refused(&[(ROOT, "name: butler\nagent_class: LoopAgent\n")]), @"lango: agents/home/root_agent.yaml: agent_class LoopAgent is not supported; the only one is LlmAgent");
}

#[test]
fn missing_recursive_and_duplicate_sub_agents_are_rejected() {
    let with_sub = "name: butler\nsub_agents: [{config_path: maid.yaml}]\n";
    assert_snapshot!(refused(&[(ROOT, with_sub)]), @"lango: agents/home/root_agent.yaml names agents/home/maid.yaml, which does not exist");
    let itself = "name: butler\nsub_agents: [{config_path: root_agent.yaml}]\n";
    assert_snapshot!(refused(&[(ROOT, itself)]), @"lango: agents/home/root_agent.yaml: its sub_agents form a cycle");
    assert_snapshot!(refused(&[(ROOT, with_sub), ("agents/home/maid.yaml", "name: butler\n")]), @"lango: agents/home/root_agent.yaml: two agents are named butler; names must be unique in the whole tree");
    assert_snapshot!(refused(&[(ROOT, "name: the butler\n")]), @r#"lango: agents/home/root_agent.yaml: "the butler" cannot be an agent's name: use letters, digits and underscores, not beginning with a digit, and not "user""#);
}

#[test]
fn unknown_tool_or_model_error_lists_alternatives() {
    assert_snapshot!(refused(&[(ROOT, "name: butler\ntools: [{name: lamp}]\n")]), @r#"lango: agents/home/root_agent.yaml: there is no tool "lamp"; the tools are now, calculate, read_file, list_files, search_files, write_file, edit_file, undo_edit, exec, exec_start, exec_status, exec_stop, read_output, fetch, recall, load_memory, preload_memory"#);
    assert_snapshot!(refused(&[(ROOT, "name: butler\nmodel: gemini-2.5-flash\n")]), @"lango: agents/home/root_agent.yaml: gemini needs a key: set GEMINI_API_KEY, or `key` in [providers.gemini] of lango.toml");
    assert_snapshot!(refused(&[("lango.toml", "model = \"openai/gpt-5\"\n")]), @"lango: lango.toml: openai needs a key: set OPENAI_API_KEY, or `key` in [providers.openai] of lango.toml");
    assert_snapshot!(refused_with(&[], &["run", "--model", "gpt-5", "hello"]), @"lango: --model: openai needs a key: set OPENAI_API_KEY, or `key` in [providers.openai] of lango.toml");
    assert_snapshot!(refused_with(&[], &["run", "--model", "nobody/x", "hello"]), @r#"lango: --model: there is no provider "nobody"; the providers are demo, scripted, openai, anthropic, gemini, openrouter, deepseek, groq, mistral, github, ollama, lmstudio, llamacpp, vllm; [providers.NAME] in lango.toml adds others"#);
    assert_snapshot!(refused_with(&[], &["run", "--model", "llama3", "hello"]), @r#"lango: --model: "llama3" does not name the provider; write PROVIDER/llama3 with one of openai, anthropic, gemini, openrouter, deepseek, groq, mistral, github, ollama, lmstudio, llamacpp, vllm"#);
    assert_snapshot!(refused_with(&[], &["run", "--model", "ollama", "hello"]), @r#"lango: --model: "ollama" names no model; write ollama/MODEL with one that `lango models` lists"#);
    assert_snapshot!(refused(&[("lango.toml", "[stubs.now]\n")]), @"lango: two tools are called `now`: one from built in, one from stubs in lango.toml; rename or remove one of them");
}

#[test]
fn invalid_provider_settings_are_rejected() {
    let refused = |toml: &str| refused(&[("lango.toml", toml)]);
    assert_snapshot!(refused("[providers.mine]\n"), @"lango: lango.toml: [providers.mine] needs `baseUrl`, the address of the server");
    assert_snapshot!(refused("[providers.mine]\nbase_url = \"mine\"\n"), @"lango: lango.toml: the address of mine does not begin with http:// or https://");
    assert_snapshot!(refused("[providers.mine]\napi = \"soap\"\n"), @"lango: lango.toml:2:7: `soap` is not a valid value; expected chat, responses, anthropic, gemini, ollama");
    assert_snapshot!(refused("[providers.openai]\nidle_timeout_s = -1\n"), @"lango: lango.toml:2:18: -1 is not a number of seconds");
    assert_snapshot!(refused("[retry]\nmax_wait_s = -1.5\n"), @"lango: lango.toml:2:14: -1.5 is not a number of seconds");
    assert_snapshot!(refused("[models.x]\nprices = { input = 1 }\n"), @"lango: lango.toml:2:10: the key `output` is missing");
    let unset = "model = \"mine/m\"\n[providers.mine]\nbase_url = \"http://mine\"\n";
    assert_snapshot!(refused(&format!("{unset}key = \"${{MINE}}\"\n")), @"lango: lango.toml: the key of mine is ${MINE}, which is not set: set it to the key");
    assert_snapshot!(refused(&format!("{unset}headers = {{ X-Team = \"${{TEAM}}\" }}\n")), @"lango: lango.toml: the header X-Team of mine is ${TEAM}, which is not set");
}

#[test]
fn missing_or_invalid_script_is_reported() {
    assert_snapshot!(refused(&[("lango.toml", "model = \"scripted/none.yaml\"\n")]), @"lango: lango.toml names none.yaml, which does not exist");
    assert_snapshot!(refused(&[(ROOT, "name: butler\nmodel: scripted/none.yaml\n")]), @"lango: agents/home/root_agent.yaml names agents/home/none.yaml, which does not exist");
    let bad = [("lango.toml", "model = \"scripted/bad.yaml\"\n"), ("bad.yaml", "rules:\n  - replay: []\n")];
    assert_snapshot!(refused(&bad), @"lango: bad.yaml:2:5: there is no key `replay`; did you mean `reply`?");
}

#[test]
fn unknown_agent_error_lists_alternatives() {
    let two = [(ROOT, "name: butler\n"), ("agents/garden/root_agent.yaml", "name: gardener\n")];
    assert_snapshot!(refused(&two), @"lango: agents has several agents (garden, home); choose one with --app NAME, or with `app` in lango.toml");
    assert_snapshot!(refused_with(&two, &["run", "--app", "kitchen", "hello"]), @r#"lango: there is no agent "kitchen" in agents; the agents are garden, home"#);
    assert_snapshot!(refused_with(&[], &["run", "--app", "kitchen", "hello"]), @r#"lango: there is no agent "kitchen" in agents; the agents are lango"#);
}

#[test]
fn empty_or_invalid_message_is_not_sent() {
    assert_snapshot!(refused_with(&[], &["run", ""]), @r#"lango: the message is empty; write it as in: lango run "what time is it?""#);
    assert_snapshot!(refused_with(&[], &["run"]), @r#"lango: the message is empty; write it as in: lango run "what time is it?""#);
    let env = TestEnv::new();
    assert_snapshot!(error_line(&env, &env.lango_with_stdin(&["run"], b" \n ")), @r#"lango: the message is empty; write it as in: lango run "what time is it?""#);
    assert_snapshot!(error_line(&env, &env.lango_with_stdin(&["run"], b"caf\xe9")), @"lango: the message is not valid UTF-8 after 3 bytes; it was not sent");
}

#[test]
fn continue_without_a_session_is_an_error() {
    assert_snapshot!(refused_with(&[], &["run", "--continue", "hello"]), @"lango: there is no session of lango to continue; omit --continue to start one");
    let env = TestEnv::canned();
    env.lango(&["run", "--app", "lango", "hello"]).success();
    let output = env.lango(&["run", "--continue", "hello"]).failure();
    assert_snapshot!(output.snapshot(), @"
    lango: there is no session of canned to continue; omit --continue to start one
    [exit 1]
    ");
}

#[test]
fn showing_an_unknown_session_is_an_error() {
    assert_snapshot!(refused_with(&[], &["sessions", "show", "k"]), @r#"lango: there is no session "k"; lango sessions list shows them"#);
    let env = TestEnv::new();
    env.lango(&["run", "--session", "k", "hello"]).success();
    assert_snapshot!(env.lango(&["sessions", "show", "x"]).failure().snapshot(), @r#"
    lango: there is no session "x"; lango sessions list shows them
    [exit 1]
    "#);
    assert_snapshot!(env.lango(&["sessions", "show", "k", "--app", "other"]).failure().snapshot(), @r#"
    lango: there is no session "k"; lango sessions list shows them
    [exit 1]
    "#);
}
