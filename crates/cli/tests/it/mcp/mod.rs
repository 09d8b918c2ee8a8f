//! Tools of MCP servers and commands of one's own, through the binary: listed, called, asked about, and still there after a
//! server has died.

mod fake;
mod http;
mod real;
mod trouble;
mod web;

use crate::common::{Place, Said, fixtures};
use serde_json::{Value, json};

/// A script that answers "go" with these calls, one after the other, and then is done.
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

/// What the calls of a run were answered, in their order.
fn answers(lines: &[Value]) -> Vec<Value> {
    let parts =
        lines.iter().flat_map(|event| event["content"]["parts"].as_array().cloned().unwrap_or_default());
    parts.filter_map(|part| part.get("functionResponse").map(|answer| answer["response"].clone())).collect()
}

fn run(place: &Place) -> Said {
    place.lango(&["run", "--json", "go"])
}

/// The configuration of the fake server, which keeps its notes in the working directory.
fn fake(place: &Place, more: &str) -> String {
    let (script, dir) = (fixtures().join("mcp/fake.sh"), place.here());
    format!(
        "[mcp.fake]\ncommand = \"sh\"\nargs = [{:?}]\nenv = {{ FAKE_DIR = {:?} }}\n{more}\n",
        script.display().to_string(),
        dir.display().to_string()
    )
}

/// A machine with these servers, a script, and the rules that let strangers' tools run.
fn place(servers: impl FnOnce(&Place) -> String, calls: &[(&str, Value)]) -> Place {
    let place = Place::new();
    let servers = servers(&place);
    place.file("lango.toml", format!("model = \"scripted/script.yaml\"\n{servers}"));
    place.file("script.yaml", one_by_one(calls));
    place
}
