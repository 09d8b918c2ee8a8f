//! Tools of MCP servers and command tools through the binary: listing, calls, approval, and recovery of servers.

mod elicitation;
mod fake;
mod http;
mod prompts;
mod real;
mod resources;
mod trouble;
mod web;

use crate::common::{CliOutput, TestEnv, fixtures};
use serde_json::{Value, json};
use std::{fs, path::PathBuf};

/// A script that answers "go" with these calls in sequence, and then with a text.
fn one_by_one(calls: &[(&str, Value)]) -> String {
    let rule = |(turn, (name, args)): (usize, &(&str, Value))| {
        let call = json!({"call": {"name": name, "args": args}});
        json!({"when": {"first_word": "go", "turn": turn}, "reply": [call]})
    };
    let mut rules: Vec<Value> = calls.iter().enumerate().map(rule).collect();
    rules.push(json!({"reply": [{"text": "done"}]}));
    json!({"rules": rules}).to_string()
}

/// A script that answers each of these words with one call.
fn by_word(calls: &[(&str, &str, Value)]) -> String {
    let rule = |(word, name, args): &(&str, &str, Value)| {
        let call = json!({"call": {"name": name, "args": args}});
        json!({"when": {"first_word": word, "turn": 0}, "reply": [call]})
    };
    let mut rules: Vec<Value> = calls.iter().map(rule).collect();
    rules.push(json!({"reply": [{"text": "done"}]}));
    json!({"rules": rules}).to_string()
}

/// The results of the calls of a run, in order.
fn tool_results(lines: &[Value]) -> Vec<Value> {
    let parts =
        lines.iter().flat_map(|event| event["content"]["parts"].as_array().cloned().unwrap_or_default());
    parts.filter_map(|part| part.get("functionResponse").map(|answer| answer["response"].clone())).collect()
}

fn run(env: &TestEnv) -> CliOutput {
    env.lango(&["run", "--json", "go"])
}

/// The fake server in the working directory, where the sandbox of a folder's servers lets it be read.
fn fake_script(env: &TestEnv) -> PathBuf {
    let script = env.workdir().join("fake.sh");
    fs::copy(fixtures().join("mcp/fake.sh"), &script).unwrap();
    script
}

/// The configuration of the fake server, which writes its log to the working directory.
fn fake(env: &TestEnv, more: &str) -> String {
    let (script, dir) = (fake_script(env), env.workdir());
    format!(
        "[mcp.fake]\ncommand = \"sh\"\nargs = [{:?}]\nenv = {{ FAKE_DIR = {:?} }}\n{more}\n",
        script.display().to_string(),
        dir.display().to_string()
    )
}

/// An environment with these servers, and a script that makes these calls.
fn test_env(servers: impl FnOnce(&TestEnv) -> String, calls: &[(&str, Value)]) -> TestEnv {
    let env = TestEnv::new();
    let servers = servers(&env);
    env.file("lango.toml", format!("model = \"scripted/script.yaml\"\n{servers}"));
    env.file("script.yaml", one_by_one(calls));
    env
}
