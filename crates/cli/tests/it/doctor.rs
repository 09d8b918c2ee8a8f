//! `lango doctor`: findings with their fixes.

use crate::common::{CliOutput, REST, TestEnv, provider};
use insta::assert_snapshot;
use testkit::{ProviderApi, fakeprov::FakeProvider};

/// The snapshot without the finding on commands, which depends on the machine.
fn portable_snapshot(output: &CliOutput) -> String {
    let snapshot = output.snapshot();
    let lines: Vec<&str> = snapshot.lines().filter(|line| !is_about_commands(line)).collect();
    lines.join("\n")
}

fn is_about_commands(line: &str) -> bool {
    ["commands", "sandbox", "limits"].iter().any(|about| {
        line.get(6..).is_some_and(|line| line.starts_with(&format!("{about} ")))
            || line.contains(&format!(r#""about":"{about}""#))
    })
}

#[test]
fn doctor_reports_command_confinement() {
    let output = TestEnv::new().lango(&["doctor"]).success();
    let line = output.out.lines().find(|line| is_about_commands(line)).unwrap();
    let confined = line.contains("they have no network and no Unix sockets");
    assert!(confined || line.contains("Commands can do whatever this program can ("), "{line}");
    let env = TestEnv::new();
    env.file("lango.toml", "[tools]\nnetwork = true\n");
    let output = env.lango(&["doctor"]).success();
    assert!(output.out.contains("the configuration lets them use the network"), "{output:?}");
}

#[test]
fn doctor_passes_without_configuration() {
    let env = TestEnv::new();
    assert_snapshot!(portable_snapshot(&env.lango(&["doctor"]).success()), @"
    ok    configuration  there is no lango.toml; the defaults apply
    ok    database       /data/lango.db is created with the first message
    ok    agent          lango uses demo
    ok    tools          now, calculate, read_file, list_files, search_files, write_file, edit_file, undo_edit, exec, exec_start, exec_status, exec_stop, read_output, fetch, recall, load_memory, preload_memory
    ok    roots          /here
    [exit 0]
    ");
    assert!(!env.home().exists(), "doctor creates no files");
}

#[test]
fn doctor_passes_with_a_provider() {
    let fake = FakeProvider::start_blocking();
    let env = TestEnv::new();
    let one = provider("one", &fake, ProviderApi::Anthropic, "text");
    env.file("lango.toml", format!("model = \"one/claude-x\"\n{one}{REST}"));
    env.lango_with_key(&["run", "hello"]).success();
    assert_snapshot!(portable_snapshot(&env.lango_with_key(&["doctor"]).success()), @"
    ok    configuration  lango.toml is valid
    ok    database       /data/lango.db can be read
    ok    agent          lango uses one/claude-x
    ok    tools          now, calculate, read_file, list_files, search_files, write_file, edit_file, undo_edit, exec, exec_start, exec_status, exec_stop, read_output, fetch, recall, get_weather, load_memory, preload_memory
    ok    roots          /here
    ok    provider       one answers and lists its models
    [exit 0]
    ");
    assert_snapshot!(portable_snapshot(&env.lango_with_key(&["doctor", "--json"]).success()), @r#"
    {"about":"configuration","health":"ok","message":"lango.toml is valid"}
    {"about":"database","health":"ok","message":"/data/lango.db can be read"}
    {"about":"agent","health":"ok","message":"lango uses one/claude-x"}
    {"about":"tools","health":"ok","message":"now, calculate, read_file, list_files, search_files, write_file, edit_file, undo_edit, exec, exec_start, exec_status, exec_stop, read_output, fetch, recall, get_weather, load_memory, preload_memory"}
    {"about":"roots","health":"ok","message":"/here"}
    {"about":"provider","health":"ok","message":"one answers and lists its models"}
    [exit 0]
    "#);
}

#[test]
fn doctor_warns_about_a_model_that_its_provider_does_not_list() {
    let fake = FakeProvider::start_blocking();
    let env = TestEnv::with_provider(&fake, ProviderApi::Anthropic, "text");
    let output = env.lango_with_key(&["doctor"]).success();
    assert!(
        output.out.contains("fake answers but does not list model-x; lango models fake --all"),
        "{output:?}"
    );
}

#[test]
fn doctor_names_every_missing_model_of_a_provider_once() {
    let fake = FakeProvider::start_blocking();
    let env = TestEnv::new();
    let one = provider("one", &fake, ProviderApi::Anthropic, "text");
    let models = "model = \"one/first\"\nfallback = [\"one/second\", \"one/claude-x\", \"one/first\"]\n";
    env.file("lango.toml", format!("{models}{one}{REST}"));
    let output = env.lango_with_key(&["doctor"]).success();
    assert!(
        output.out.contains("one answers but does not list first, second; lango models one"),
        "{output:?}"
    );
}

#[test]
fn doctor_reports_a_default_agent_that_does_not_exist() {
    let env = TestEnv::new();
    env.file("agents/good/root_agent.yaml", "name: good\nmodel: demo\n");
    for (app, problem) in [("nope", true), ("good", false), ("lango", false)] {
        env.file("lango.toml", format!("app = \"{app}\"\n"));
        let output = env.lango(&["doctor"]);
        let line = "bad   agent          there is no agent \"nope\" in agents; the agents are good";
        assert_eq!(output.out.contains(line), problem, "{output:?}");
        assert_eq!(output.code, Some(i32::from(problem)), "{output:?}");
    }
}

#[test]
fn doctor_reports_all_problems_at_once() {
    let fake = FakeProvider::start_blocking();
    let env = TestEnv::new();
    let one = provider("one", &fake, ProviderApi::OpenAi, "auth401").replace("${CANARY}", "written-here");
    let two = "[providers.two]\nbase_url = \"http://127.0.0.1:9\"\nkey = \"${NOT_SET}\"\n";
    let three = "[providers.three]\nbase_url = \"http://models.example.invalid\"\nkey = \"${NOT_SET}\"\n";
    env.file("lango.toml", format!("model = \"one/m\"\n{one}{two}{three}{REST}"));
    env.file("agents/good/root_agent.yaml", "name: good\ntools: [{name: now}]\n");
    env.file("agents/lost/root_agent.yaml", "name: lost\ntools: [{name: lamp}]\n");
    env.file("agents/odd/root_agent.yaml", "name: odd\nmodel: nobody/x\n");
    assert_snapshot!(portable_snapshot(&env.lango(&["doctor"]).failure()), @r#"
    ok    configuration  lango.toml is valid
    ok    database       /data/lango.db is created with the first message
    ok    agent          good uses one/m
    bad   agent          agents/lost/root_agent.yaml: there is no tool "lamp"; the tools are now, calculate, read_file, list_files, search_files, write_file, edit_file, undo_edit, exec, exec_start, exec_status, exec_stop, read_output, fetch, recall, get_weather, load_memory, preload_memory
    bad   agent          agents/odd/root_agent.yaml: there is no provider "nobody"; the providers are demo, scripted, openai, anthropic, gemini, openrouter, deepseek, groq, mistral, github, ollama, lmstudio, llamacpp, vllm, one, three, two; [providers.NAME] in lango.toml adds others
    ok    tools          now, calculate, read_file, list_files, search_files, write_file, edit_file, undo_edit, exec, exec_start, exec_status, exec_stop, read_output, fetch, recall, get_weather, load_memory, preload_memory
    ok    roots          /here
    warn  key            the key of one is written in lango.toml; use ${NAME} there and set that variable
    warn  key            the key of three is sent unencrypted; use an https:// address
    bad   provider       one rejected the API key: invalid x-api-key; give it another key, by its variable or as `key` in [providers.one]
    bad   provider       the key of three is ${NOT_SET}, which is not set: set it to the key
    bad   provider       the key of two is ${NOT_SET}, which is not set: set it to the key
    lango: 5 problems found
    [exit 1]
    "#);
}

#[test]
fn doctor_reports_an_invalid_configuration() {
    let env = TestEnv::new();
    env.file("lango.toml", "[providers.mine]\nkye = 3\n");
    assert_snapshot!(portable_snapshot(&env.lango(&["doctor"]).failure()), @"
    bad   configuration  lango.toml:2:1: there is no key `kye`; the keys are api, baseUrl, key, headers, extraBody, parallelToolCalls, promptCacheKey, organization, caFile, connectTimeoutS, idleTimeoutS
    lango: 1 problem found
    [exit 1]
    ");
    assert_snapshot!(portable_snapshot(&env.lango(&["doctor", "--json"]).failure()), @r#"
    {"about":"configuration","health":"bad","message":"lango.toml:2:1: there is no key `kye`; the keys are api, baseUrl, key, headers, extraBody, parallelToolCalls, promptCacheKey, organization, caFile, connectTimeoutS, idleTimeoutS"}
    lango: 1 problem found
    [exit 1]
    "#);
}

#[test]
fn doctor_reports_an_unusable_database() {
    let env = TestEnv::new();
    std::fs::create_dir_all(env.home()).unwrap();
    std::fs::write(env.database(), "this is not a database, however long it is; it is only text").unwrap();
    assert_snapshot!(portable_snapshot(&env.lango(&["doctor"]).failure()), @"
    ok    configuration  there is no lango.toml; the defaults apply
    bad   database       /data/lango.db is damaged or not a database; move it away to start with an empty database, or restore a copy
    ok    agent          lango uses demo
    ok    tools          now, calculate, read_file, list_files, search_files, write_file, edit_file, undo_edit, exec, exec_start, exec_status, exec_stop, read_output, fetch, recall, load_memory, preload_memory
    ok    roots          /here
    lango: 1 problem found
    [exit 1]
    ");
}

#[test]
fn doctor_checks_mcp_servers_commands_and_names_of_agent_files() {
    let env = TestEnv::new();
    env.file(
        "lango.toml",
        "[commands.gone]\ndescription = \"a\"\ncommand = [\"no-such-program-here\"]\n\
         [commands.text]\ndescription = \"a\"\ncommand = [\"./lango.toml\"]\n\
         [commands.lost]\ndescription = \"a\"\ncommand = [\"sh\"]\ncwd = \"nowhere\"\n\
         [commands.good]\ndescription = \"a\"\ncommand = [\"sh\", \"-c\", \"true\"]\n\
         [mcp.absent]\ncommand = \"no-such-server-here\"\n\
         [mcp.secret]\nurl = \"http://127.0.0.1:9/\"\nheaders = { Authorization = \"${NO_SUCH_VARIABLE}\" }\n",
    );
    env.file("agents/mine/root_agent.yml", "name: mine\n");
    let output = env.lango(&["doctor"]).failure();
    let is_wanted =
        |line: &&str| ["agent ", "command ", "mcp "].iter().any(|about| line[6..].starts_with(about));
    let lines: Vec<&str> = output.out.lines().filter(is_wanted).collect();
    assert_snapshot!(lines.join("\n"), @"
    bad   agent          agents/mine/root_agent.yml is not read; rename it to root_agent.yaml
    bad   command        [commands.gone] in lango.toml: the program no-such-program-here is not in PATH; install it or write its path
    ok    command        good runs sh
    bad   command        [commands.lost] in lango.toml: its working directory nowhere does not exist; create it or correct `cwd`
    bad   command        [commands.text] in lango.toml: ./lango.toml is not an executable file; correct the path or make it executable
    bad   mcp            the MCP server `absent` (lango.toml) does not start: the program `no-such-server-here` is not on the PATH of the sandbox; install it, set `command` to its full path, or add its directory to `readable` in [tools]
    bad   mcp            the MCP server `secret` (lango.toml) is not used: it needs the variable NO_SUCH_VARIABLE, which is not set: set it where lango is started
    ");
    assert!(env.lango(&["run", "hello"]).failure().err.contains("rename it to root_agent.yaml"));
    assert!(
        env.lango(&["run", "--app", "mine", "hello"]).failure().err.contains("rename it to root_agent.yaml")
    );
}

#[test]
fn doctor_reports_a_broken_project_file_without_terms_of_the_parser() {
    for (text, expected) in [
        ("{\"mcpServers\": ", "line 1, column 15: "),
        ("{\"mcpServers\": [1]}", "a list is written here; expected a table"),
        ("{\"mcpServers\": {\"a\": {\"command\": 3}}}", "3` is written here; expected a string"),
    ] {
        let env = TestEnv::new();
        env.file(".mcp.json", text);
        let output = env.lango(&["doctor"]).failure();
        assert!(output.out.contains(".mcp.json cannot be parsed: "), "{output:?}");
        assert!(output.out.contains(expected), "{expected}: {}", output.out);
    }
}
