//! `lango doctor`: what is missing, in one sentence with the fix.

use crate::common::{Place, REST, Said, provider};
use insta::assert_snapshot;
use testkit::{ProviderApi, fakeprov::Fake};

/// What machines have in common: what keeps commands from the rest of one is its own.
fn picture(said: &Said) -> String {
    let picture = said.picture();
    let lines: Vec<&str> = picture.lines().filter(|line| !is_about_commands(line)).collect();
    lines.join("\n")
}

fn is_about_commands(line: &str) -> bool {
    line.get(6..).is_some_and(|line| line.starts_with("commands ")) || line.contains(r#""about":"commands""#)
}

#[test]
fn what_keeps_commands_from_the_rest_of_the_machine_is_told() {
    let said = Place::new().lango(&["doctor"]).well();
    let line = said.out.lines().find(|line| is_about_commands(line)).unwrap();
    let files = line.contains("Commands write only inside the roots and $TMPDIR (Landlock ");
    assert!(files || line.contains("Commands can write wherever this program can ("), "{line}");
    let place = Place::new();
    place.file("lango.toml", "[tools]\nnetwork = true\n");
    let said = place.lango(&["doctor"]).well();
    assert!(said.out.contains("; the configuration lets them use the network."), "{said:?}");
}

#[test]
fn a_fresh_machine_is_well() {
    let place = Place::new();
    assert_snapshot!(picture(&place.lango(&["doctor"]).well()), @"
    ok    configuration  there is no lango.toml, and none is needed
    ok    database       /data/lango.db is made with the first message
    ok    agent          lango uses demo
    ok    tools          now, calculate, read_file, list_files, search_files, write_file, edit_file, undo_edit, exec, exec_start, exec_status, exec_stop, read_output, fetch
    ok    roots          /here
    [exit 0]
    ");
    assert!(!place.home().exists(), "looking leaves nothing behind");
}

#[test]
fn a_machine_with_a_provider_is_well() {
    let fake = Fake::start_blocking();
    let place = Place::new();
    let one = provider("one", &fake, ProviderApi::Anthropic, "text");
    place.file("lango.toml", format!("model = \"one/claude-x\"\n{one}{REST}"));
    place.keyed(&["run", "hello"]).well();
    assert_snapshot!(picture(&place.keyed(&["doctor"]).well()), @"
    ok    configuration  lango.toml is sound
    ok    database       /data/lango.db can be read
    ok    agent          lango uses one/claude-x
    ok    tools          now, calculate, read_file, list_files, search_files, write_file, edit_file, undo_edit, exec, exec_start, exec_status, exec_stop, read_output, fetch, get_weather
    ok    roots          /here
    ok    provider       one answers and lists its models
    [exit 0]
    ");
    assert_snapshot!(picture(&place.keyed(&["doctor", "--json"]).well()), @r#"
    {"about":"configuration","health":"ok","message":"lango.toml is sound"}
    {"about":"database","health":"ok","message":"/data/lango.db can be read"}
    {"about":"agent","health":"ok","message":"lango uses one/claude-x"}
    {"about":"tools","health":"ok","message":"now, calculate, read_file, list_files, search_files, write_file, edit_file, undo_edit, exec, exec_start, exec_status, exec_stop, read_output, fetch, get_weather"}
    {"about":"roots","health":"ok","message":"/here"}
    {"about":"provider","health":"ok","message":"one answers and lists its models"}
    [exit 0]
    "#);
}

#[test]
fn a_model_that_its_provider_does_not_list_is_worth_a_word() {
    let fake = Fake::start_blocking();
    let place = Place::with_provider(&fake, ProviderApi::Anthropic, "text");
    let said = place.keyed(&["doctor"]).well();
    assert!(said.out.contains("fake answers but does not list model-x; lango models fake --all"), "{said:?}");
}

#[test]
fn everything_that_is_broken_is_told_at_once() {
    let fake = Fake::start_blocking();
    let place = Place::new();
    let one = provider("one", &fake, ProviderApi::OpenAi, "auth401").replace("${CANARY}", "written-here");
    let two = "[providers.two]\nbase_url = \"http://127.0.0.1:9\"\nkey = \"${NOT_SET}\"\n";
    let three = "[providers.three]\nbase_url = \"http://models.example.invalid\"\nkey = \"${NOT_SET}\"\n";
    place.file("lango.toml", format!("model = \"one/m\"\n{one}{two}{three}{REST}"));
    place.file("agents/good/root_agent.yaml", "name: good\ntools: [{name: now}]\n");
    place.file("agents/lost/root_agent.yaml", "name: lost\ntools: [{name: lamp}]\n");
    place.file("agents/odd/root_agent.yaml", "name: odd\nmodel: nobody/x\n");
    assert_snapshot!(picture(&place.lango(&["doctor"]).badly()), @r#"
    ok    configuration  lango.toml is sound
    ok    database       /data/lango.db is made with the first message
    ok    agent          good uses one/m
    bad   agent          agents/lost/root_agent.yaml: there is no tool "lamp"; there is now, calculate, read_file, list_files, search_files, write_file, edit_file, undo_edit, exec, exec_start, exec_status, exec_stop, read_output, fetch, get_weather
    bad   agent          agents/odd/root_agent.yaml: there is no provider "nobody"; there is demo, scripted, openai, anthropic, gemini, openrouter, deepseek, groq, mistral, github, ollama, lmstudio, llamacpp, vllm, one, three, two, and what [providers.NAME] in lango.toml adds
    ok    tools          now, calculate, read_file, list_files, search_files, write_file, edit_file, undo_edit, exec, exec_start, exec_status, exec_stop, read_output, fetch, get_weather
    ok    roots          /here
    warn  key            the key of one stands in lango.toml; write ${NAME} there and set that variable
    warn  key            the key of three travels unencrypted; use an https:// address
    bad   provider       one rejected the API key: invalid x-api-key; give it another key, by its variable or as `key` in [providers.one]
    bad   provider       the key of three is ${NOT_SET}, which is not set: set it to the key
    bad   provider       the key of two is ${NOT_SET}, which is not set: set it to the key
    lango: 5 things are broken
    [exit 1]
    "#);
}

#[test]
fn a_configuration_that_cannot_be_read_is_a_finding_too() {
    let place = Place::new();
    place.file("lango.toml", "[providers.mine]\nkye = 3\n");
    assert_snapshot!(picture(&place.lango(&["doctor"]).badly()), @"
    bad   configuration  lango.toml:2:1: there is no key `kye`; there is api, baseUrl, key, headers, organization, caFile, connectTimeoutS, idleTimeoutS
    lango: one thing is broken
    [exit 1]
    ");
    assert_snapshot!(picture(&place.lango(&["doctor", "--json"]).badly()), @r#"
    {"about":"configuration","health":"bad","message":"lango.toml:2:1: there is no key `kye`; there is api, baseUrl, key, headers, organization, caFile, connectTimeoutS, idleTimeoutS"}
    lango: one thing is broken
    [exit 1]
    "#);
}

#[test]
fn a_database_that_cannot_be_used_is_told() {
    let place = Place::new();
    std::fs::create_dir_all(place.home()).unwrap();
    std::fs::write(place.database(), "this is not a database, however long it is; it is only text").unwrap();
    assert_snapshot!(picture(&place.lango(&["doctor"]).badly()), @"
    ok    configuration  there is no lango.toml, and none is needed
    bad   database       /data/lango.db is damaged or not a database; move it away to start anew, or restore a copy
    ok    agent          lango uses demo
    ok    tools          now, calculate, read_file, list_files, search_files, write_file, edit_file, undo_edit, exec, exec_start, exec_status, exec_stop, read_output, fetch
    ok    roots          /here
    lango: one thing is broken
    [exit 1]
    ");
}
