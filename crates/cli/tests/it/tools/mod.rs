//! Tools through the binary: asked about, confined, written down before they run, limited.

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

use crate::common::{Place, Said};
use serde_json::{Map, Value, json};

/// A script that answers "go" with these calls, one after the other, and then is done.
fn one_by_one(calls: &[Value]) -> String {
    let rule = |(turn, call): (usize, &Value)| json!({"when": {"first_word": "go", "turn": turn}, "reply": [{"call": call}]});
    let mut rules: Vec<Value> = calls.iter().enumerate().map(rule).collect();
    rules.push(json!({"when": {"first_word": "go"}, "reply": [{"text": "done"}]}));
    rules.push(json!({"reply": [{"text": "done"}]}));
    json!({"rules": rules}).to_string()
}

/// A script that answers "go" with all these calls at once.
fn at_once(calls: &[Value]) -> String {
    let calls: Vec<Value> = calls.iter().map(|call| json!({"call": call})).collect();
    json!({"rules": [
        {"when": {"first_word": "go"}, "reply": calls},
        {"reply": [{"text": "done"}]},
    ]})
    .to_string()
}

fn call(name: &str, args: Value) -> Value {
    Value::Object(Map::from_iter([("name".to_owned(), name.into()), ("args".to_owned(), args)]))
}

fn exec(command: &str) -> Value {
    call("exec", json!({"command": command}))
}

/// What the calls of a run were answered, in their order.
fn answers(said: &Said) -> Vec<Value> {
    answers_in(&said.json_lines())
}

/// The same, of events.
fn answers_in(events: &[Value]) -> Vec<Value> {
    let parts = events.iter().flat_map(|event| match &event["content"]["parts"] {
        Value::Array(parts) => parts.clone(),
        _ => Vec::new(),
    });
    parts.filter_map(|part| part.get("functionResponse").map(|answer| answer["response"].clone())).collect()
}

/// Runs the script once, with nobody there to be asked.
fn run(place: &Place) -> Said {
    place.lango(&["run", "--json", "--session", "k", "go"])
}
