//! Tools through the binary: approval, confinement, the ledger, limits.

mod answers;
mod approval;
mod attacks;
mod coding;
mod jobs;
mod ledger;
mod limits;
mod orphans;
mod outputs;
mod pages;
mod progress;
mod roots;

use crate::common::{CliOutput, TestEnv};
use serde_json::{Map, Value, json};

/// A script that answers "go" with these calls in sequence, and then with a text.
pub(crate) fn one_by_one(calls: &[Value]) -> String {
    let rule = |(turn, call): (usize, &Value)| json!({"when": {"first_word": "go", "turn": turn}, "reply": [{"call": call}]});
    let mut rules: Vec<Value> = calls.iter().enumerate().map(rule).collect();
    rules.push(json!({"when": {"first_word": "go"}, "reply": [{"text": "done"}]}));
    rules.push(json!({"reply": [{"text": "done"}]}));
    json!({"rules": rules}).to_string()
}

/// A script that answers "go" with all these calls in parallel.
pub(crate) fn at_once(calls: &[Value]) -> String {
    let calls: Vec<Value> = calls.iter().map(|call| json!({"call": call})).collect();
    json!({"rules": [
        {"when": {"first_word": "go"}, "reply": calls},
        {"reply": [{"text": "done"}]},
    ]})
    .to_string()
}

pub(crate) fn call(name: &str, args: Value) -> Value {
    Value::Object(Map::from_iter([("name".to_owned(), name.into()), ("args".to_owned(), args)]))
}

pub(crate) fn exec(command: &str) -> Value {
    call("exec", json!({"command": command}))
}

/// The results of the calls of a run, in order.
pub(crate) fn tool_results(results: &CliOutput) -> Vec<Value> {
    tool_results_in(&results.json_lines())
}

/// The results of the calls in events, in order.
pub(crate) fn tool_results_in(events: &[Value]) -> Vec<Value> {
    let parts = events.iter().flat_map(|event| match &event["content"]["parts"] {
        Value::Array(parts) => parts.clone(),
        _ => Vec::new(),
    });
    parts.filter_map(|part| part.get("functionResponse").map(|answer| answer["response"].clone())).collect()
}

/// Runs the script once, unattended.
pub(crate) fn run(env: &TestEnv) -> CliOutput {
    env.lango(&["run", "--json", "--session", "k", "go"])
}
