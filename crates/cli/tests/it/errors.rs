//! A mistake in a configuration or a message: one sentence with the place and the fix, and nothing is stored.

use crate::common::{Place, Said};
use insta::assert_snapshot;

/// What `lango run hello` says with these files.
#[track_caller]
fn refused(files: &[(&str, &str)]) -> String {
    refused_with(files, &["run", "hello"])
}

#[track_caller]
fn refused_with(files: &[(&str, &str)], args: &[&str]) -> String {
    let place = Place::new();
    for (path, text) in files {
        place.file(path, text);
    }
    told(&place, &place.lango(args))
}

#[track_caller]
fn told(place: &Place, said: &Said) -> String {
    assert_eq!((said.code, said.out.as_str()), (Some(1), ""), "{said:?}");
    assert_eq!(said.err.lines().count(), 1, "one sentence: {said:?}");
    assert!(!place.home().exists(), "nothing is stored by accident");
    said.picture().replace("\n[exit 1]", "")
}

#[test]
fn a_wrong_key_has_its_place_and_the_right_one() {
    assert_snapshot!(refused(&[("lango.toml", "# mine\nmodell = \"demo\"\n")]), @"lango: lango.toml:2:1: there is no key `modell`; did you mean `model`?");
    assert_snapshot!(refused(&[("lango.toml", "[history]\nmaxMesages = 3\n")]), @"lango: lango.toml:2:1: there is no key `maxMesages`; did you mean `maxMessages`?");
    assert_snapshot!(refused(&[("lango.toml", "[stubs.lamp]\nrespond = 3\n")]), @"lango: lango.toml:2:1: there is no key `respond`; did you mean `response`?");
    assert_snapshot!(refused(&[("lango.toml", "colour = \"red\"\n")]), @"lango: lango.toml:1:1: there is no key `colour`; there is model, fallback, discover, app, user, database, agentsDir, maxMessageTokenBudget, history, providers, models, retry, limits, generate, stubs, server, telemetry, tools, approval, mcp, mcpJson, commands");
}

#[test]
fn a_server_that_makes_no_sense_is_told_so() {
    let server = |text: &str| refused(&[("lango.toml", &format!("[server]\n{text}\n"))]);
    assert_snapshot!(server("allowedHost = [\"a\"]"), @"lango: lango.toml:2:1: there is no key `allowedHost`; did you mean `allowedHosts`?");
    assert_snapshot!(server("allowedHosts = [\"http://a.example\"]"), @r#"lango: lango.toml: server.allowedHosts: "http://a.example" is not a name like agents.example or agents.example:8443"#);
    assert_snapshot!(server("allowedOrigins = [\"*\"]"), @r#"lango: lango.toml: server.allowedOrigins: "*" is not an origin like https://app.example"#);
    assert_snapshot!(server("trustedProxies = [\"proxy\"]"), @r#"lango: lango.toml: server.trustedProxies: "proxy" is not an IP address like 10.0.0.1 or a range like 10.0.0.0/8"#);
    assert_snapshot!(server("tlsCert = \"cert.pem\""), @"lango: lango.toml: server.tlsCert needs server.tlsKey beside it");
    assert_snapshot!(server("[server.jwt]\njwks = \"jwks.json\""), @"lango: lango.toml:2:1: the key `issuer` is missing");
}

#[test]
fn a_value_of_the_wrong_type_has_its_place() {
    assert_snapshot!(refused(&[("lango.toml", "model = 3\n")]), @"lango: lango.toml:1:9: invalid type: integer `3`, expected a string");
    assert_snapshot!(refused(&[("lango.toml", "maxMessageTokenBudget = -1\n")]), @"lango: lango.toml:1:25: invalid value: integer `-1`, expected a whole number that is not negative");
    assert_snapshot!(refused(&[("lango.toml", "[history]\nmaxMessages = 0\n")]), @"lango: lango.toml: history.maxMessages is 0; leave it out for no limit");
}

#[test]
fn a_file_that_is_not_toml_has_the_place_where_it_stops_being_it() {
    assert_snapshot!(refused(&[("lango.toml", "model = \"demo\"\napp = [\n")]), @"lango: lango.toml:2:8: unclosed array, expected `]`");
    assert_snapshot!(refused(&[("lango.toml", "model: demo\n")]), @"lango: lango.toml:1:8: key with no value, expected `=`");
}

#[test]
fn a_variable_that_makes_no_sense_is_named() {
    let place = Place::new();
    let mut command = place.command(["run", "hello"]);
    let said = place.said(command.env("LANGO_MAX_MESSAGE_TOKEN_BUDGET", "many"));
    assert_snapshot!(told(&place, &said), @r#"lango: LANGO_MAX_MESSAGE_TOKEN_BUDGET is "many", which is not a whole number"#);
    let mut command = place.command(["run", "hello"]);
    let said = place.said(command.env("LANGO_MODEL", "scripted/none.yaml"));
    assert_snapshot!(told(&place, &said), @"lango: LANGO_MODEL names none.yaml, which is not there");
    let mut command = place.command(["run", "hello"]);
    let said = place.said(command.env_remove("LANGO_HOME").env_remove("HOME"));
    assert_snapshot!(told(&place, &said), @"lango: there is no home directory to keep sessions in; set LANGO_HOME to a directory of your choice");
}

#[test]
fn a_configuration_that_is_not_there_is_told() {
    assert_snapshot!(refused_with(&[], &["run", "--config", "mine.toml", "hello"]), @"lango: --config names mine.toml, which is not there");
}

const ROOT: &str = "agents/home/root_agent.yaml";

#[test]
fn a_bad_line_of_yaml_has_its_place() {
    assert_snapshot!(refused(&[(ROOT, "name: butler\n\tmodel: demo\n")]), @"lango: agents/home/root_agent.yaml:1:7: a tab follows; YAML is indented with spaces");
    assert_snapshot!(refused(&[(ROOT, "name: [butler\n")]), @"lango: agents/home/root_agent.yaml:1:7: expected a text");
    assert_snapshot!(refused(&[(ROOT, "name: butler\nmodel: [demo]\n")]), @"lango: agents/home/root_agent.yaml:2:8: expected a text");
    assert_snapshot!(refused(&[(ROOT, "\n")]), @"lango: agents/home/root_agent.yaml: it is empty; an agent needs at least a `name`");
}

#[test]
fn a_key_that_an_agent_does_not_have_is_told_with_the_right_one() {
    assert_snapshot!(refused(&[(ROOT, "name: butler\ninstructions: Serve.\n")]), @"lango: agents/home/root_agent.yaml:2:1: there is no key `instructions`; did you mean `instruction`?");
    assert_snapshot!(refused(&[(ROOT, "description: Serves.\n")]), @"lango: agents/home/root_agent.yaml:1:1: the key `name` is missing");
    assert_snapshot!(refused(&[(ROOT, "name: butler\ntools: [now]\n")]), @"lango: agents/home/root_agent.yaml:2:9: a tool is written as `- name: NAME`");
    assert_snapshot!(refused(&[(ROOT, "name: butler\nsub_agents: [{}]\n")]), @"lango: agents/home/root_agent.yaml: a sub-agent needs a `config_path`");
}

#[test]
fn what_needs_python_is_refused_by_name() {
    assert_snapshot!(refused(&[(ROOT, "name: butler\nbefore_model_callbacks: [{name: a.b}]\n")]), @"lango: agents/home/root_agent.yaml: before_model_callbacks needs Python, which does not run here; leave it out, or keep that agent in ADK");
    assert_snapshot!(refused(&[(ROOT, "name: butler\nmodel_code: {name: a.b}\n")]), @"lango: agents/home/root_agent.yaml: model_code needs Python, which does not run here; name a model with `model`");
    assert_snapshot!(refused(&[(ROOT, "name: butler\nsub_agents: [{code: a.b}]\n")]), @"lango: agents/home/root_agent.yaml: sub_agents.code needs Python, which does not run here; write it as YAML and give its config_path");
    assert_snapshot!(refused(&[(ROOT, "name: butler\ntools: [{name: a, args: {x: 1}}]\n")]), @"lango: agents/home/root_agent.yaml: tools.args needs Python, which does not run here; name a tool of lango.toml instead");
    assert_snapshot!(refused(&[(ROOT, "name: butler\nagent_class: LoopAgent\n")]), @"lango: agents/home/root_agent.yaml: agent_class LoopAgent is not supported; the only one is LlmAgent");
}

#[test]
fn sub_agents_are_found_and_told_apart() {
    let with_sub = "name: butler\nsub_agents: [{config_path: maid.yaml}]\n";
    assert_snapshot!(refused(&[(ROOT, with_sub)]), @"lango: agents/home/root_agent.yaml names agents/home/maid.yaml, which is not there");
    let itself = "name: butler\nsub_agents: [{config_path: root_agent.yaml}]\n";
    assert_snapshot!(refused(&[(ROOT, itself)]), @"lango: agents/home/root_agent.yaml: its sub_agents lead back to itself");
    assert_snapshot!(refused(&[(ROOT, with_sub), ("agents/home/maid.yaml", "name: butler\n")]), @"lango: agents/home/root_agent.yaml: two agents are named butler; names must be unique in the whole tree");
    assert_snapshot!(refused(&[(ROOT, "name: the butler\n")]), @r#"lango: agents/home/root_agent.yaml: "the butler" cannot be an agent's name: use letters, digits and underscores, not beginning with a digit, and not "user""#);
}

#[test]
fn a_tool_or_a_model_that_does_not_exist_is_told_with_those_that_do() {
    assert_snapshot!(refused(&[(ROOT, "name: butler\ntools: [{name: lamp}]\n")]), @r#"lango: agents/home/root_agent.yaml: there is no tool "lamp"; there is now, calculate, read_file, list_files, search_files, write_file, edit_file, undo_edit, exec, exec_start, exec_status, exec_stop, read_output, fetch"#);
    assert_snapshot!(refused(&[(ROOT, "name: butler\nmodel: gemini-2.5-flash\n")]), @"lango: agents/home/root_agent.yaml: gemini needs a key: set GEMINI_API_KEY, or `key` in [providers.gemini] of lango.toml");
    assert_snapshot!(refused(&[("lango.toml", "model = \"openai/gpt-5\"\n")]), @"lango: lango.toml: openai needs a key: set OPENAI_API_KEY, or `key` in [providers.openai] of lango.toml");
    assert_snapshot!(refused_with(&[], &["run", "--model", "gpt-5", "hello"]), @"lango: --model: openai needs a key: set OPENAI_API_KEY, or `key` in [providers.openai] of lango.toml");
    assert_snapshot!(refused_with(&[], &["run", "--model", "nobody/x", "hello"]), @r#"lango: --model: there is no provider "nobody"; there is demo, scripted, openai, anthropic, gemini, openrouter, deepseek, groq, mistral, github, ollama, lmstudio, llamacpp, vllm, and what [providers.NAME] in lango.toml adds"#);
    assert_snapshot!(refused_with(&[], &["run", "--model", "llama3", "hello"]), @r#"lango: --model: "llama3" does not say whose model it is; write PROVIDER/llama3 with one of openai, anthropic, gemini, openrouter, deepseek, groq, mistral, github, ollama, lmstudio, llamacpp, vllm"#);
    assert_snapshot!(refused_with(&[], &["run", "--model", "ollama", "hello"]), @r#"lango: --model: "ollama" names no model; write ollama/MODEL with one that `lango models` lists"#);
    assert_snapshot!(refused(&[("lango.toml", "[stubs.now]\n")]), @"lango: two tools are called `now`: one from built in, one from stubs in lango.toml; rename or remove one of them");
}

#[test]
fn a_provider_that_makes_no_sense_is_told() {
    let refused = |toml: &str| refused(&[("lango.toml", toml)]);
    assert_snapshot!(refused("[providers.mine]\n"), @"lango: lango.toml: [providers.mine] needs `baseUrl`, the address of the server");
    assert_snapshot!(refused("[providers.mine]\nbase_url = \"mine\"\n"), @"lango: lango.toml: the address of mine does not begin with http:// or https://");
    assert_snapshot!(refused("[providers.mine]\napi = \"soap\"\n"), @"lango: lango.toml:2:7: there is no `soap` here; there is chat, responses, anthropic, gemini, ollama");
    assert_snapshot!(refused("[providers.openai]\nidle_timeout_s = -1\n"), @"lango: lango.toml:2:18: -1 is not a number of seconds");
    assert_snapshot!(refused("[retry]\nmax_wait_s = -1.5\n"), @"lango: lango.toml:2:14: -1.5 is not a number of seconds");
    assert_snapshot!(refused("[models.x]\nprices = { input = 1 }\n"), @"lango: lango.toml:2:10: the key `output` is missing");
    let unset = "model = \"mine/m\"\n[providers.mine]\nbase_url = \"http://mine\"\n";
    assert_snapshot!(refused(&format!("{unset}key = \"${{MINE}}\"\n")), @"lango: lango.toml: the key of mine is ${MINE}, which is not set: set it to the key");
    assert_snapshot!(refused(&format!("{unset}headers = {{ X-Team = \"${{TEAM}}\" }}\n")), @"lango: lango.toml: the header X-Team of mine is ${TEAM}, which is not set");
}

#[test]
fn a_script_that_is_not_there_or_not_one_is_told() {
    assert_snapshot!(refused(&[("lango.toml", "model = \"scripted/none.yaml\"\n")]), @"lango: lango.toml names none.yaml, which is not there");
    assert_snapshot!(refused(&[(ROOT, "name: butler\nmodel: scripted/none.yaml\n")]), @"lango: agents/home/root_agent.yaml names agents/home/none.yaml, which is not there");
    let bad = [("lango.toml", "model = \"scripted/bad.yaml\"\n"), ("bad.yaml", "rules:\n  - replay: []\n")];
    assert_snapshot!(refused(&bad), @"lango: bad.yaml:2:5: there is no key `replay`; did you mean `reply`?");
}

#[test]
fn an_agent_that_is_not_there_is_told_with_those_that_are() {
    let two = [(ROOT, "name: butler\n"), ("agents/garden/root_agent.yaml", "name: gardener\n")];
    assert_snapshot!(refused(&two), @"lango: agents holds several agents (garden, home); say which with --app NAME, or with `app` in lango.toml");
    assert_snapshot!(refused_with(&two, &["run", "--app", "kitchen", "hello"]), @r#"lango: there is no agent "kitchen" in agents; there is garden, home"#);
    assert_snapshot!(refused_with(&[], &["run", "--app", "kitchen", "hello"]), @r#"lango: there is no agent "kitchen" in agents; there is lango"#);
}

#[test]
fn a_message_that_says_nothing_is_not_sent() {
    assert_snapshot!(refused_with(&[], &["run", ""]), @r#"lango: the message is empty; write it as in: lango run "what time is it?""#);
    assert_snapshot!(refused_with(&[], &["run"]), @r#"lango: the message is empty; write it as in: lango run "what time is it?""#);
    let place = Place::new();
    assert_snapshot!(told(&place, &place.fed(&["run"], b" \n ")), @r#"lango: the message is empty; write it as in: lango run "what time is it?""#);
    assert_snapshot!(told(&place, &place.fed(&["run"], b"caf\xe9")), @"lango: the message is not valid UTF-8 after 3 bytes; it was not sent");
}

#[test]
fn there_is_nothing_to_continue_on_a_fresh_machine() {
    assert_snapshot!(refused_with(&[], &["run", "--continue", "hello"]), @"lango: there is no session of lango to continue; leave --continue out to begin one");
    let place = Place::canned();
    place.lango(&["run", "--app", "lango", "hello"]).well();
    let said = place.lango(&["run", "--continue", "hello"]).badly();
    assert_snapshot!(said.picture(), @"
    lango: there is no session of canned to continue; leave --continue out to begin one
    [exit 1]
    ");
}

#[test]
fn a_session_that_is_not_there_is_told() {
    assert_snapshot!(refused_with(&[], &["sessions", "show", "k"]), @r#"lango: there is no session "k"; lango sessions list shows them"#);
    let place = Place::new();
    place.lango(&["run", "--session", "k", "hello"]).well();
    assert_snapshot!(place.lango(&["sessions", "show", "x"]).badly().picture(), @r#"
    lango: there is no session "x"; lango sessions list shows them
    [exit 1]
    "#);
    assert_snapshot!(place.lango(&["sessions", "show", "k", "--app", "other"]).badly().picture(), @r#"
    lango: there is no session "k"; lango sessions list shows them
    [exit 1]
    "#);
}
