//! The demo model is judged by phrasings that its rules were not written for, by another hand: `phrasings.yaml`.

use futures::{FutureExt, StreamExt, executor::block_on, future::BoxFuture};
use provider::{
    Message, Part, Provider, Request, Role, StreamEvent, ToolCall, ToolResult, ToolSpec, demo::Demo,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use tools::{AppUser, ArtifactFile, Tool, ToolHost, ToolReply, ToolRequest, calculate::Calculate};

/// How many of them must come out right.
const GOOD: usize = 50;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    say: Said,
    expect: Vec<Expected>,
    #[serde(default)]
    answer_contains: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Said {
    One(String),
    Several(Vec<String>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    tool: String,
    #[serde(default)]
    args: Map<String, Value>,
    result: Option<f64>,
}

#[test]
fn phrasings_by_another_hand_lead_to_the_right_tools() {
    let cases: Vec<Case> = serde_saphyr::from_str(include_str!("phrasings.yaml")).unwrap();
    let faults: Vec<String> = cases.iter().filter_map(|case| judge(case).err()).collect();
    let right = cases.len() - faults.len();
    println!("{right} of {} phrasings were understood", cases.len());
    assert!(right >= GOOD && cases.len() >= GOOD, "{right} of {}:\n{}", cases.len(), faults.join("\n"));
}

/// Talks with the model as the case says, and looks at the last turn.
fn judge(case: &Case) -> Result<(), String> {
    let said = match &case.say {
        Said::One(text) => vec![text.clone()],
        Said::Several(texts) => texts.clone(),
    };
    let mut messages = Vec::new();
    let mut turn = (Vec::new(), String::new());
    for text in &said {
        messages.push(Message::text(Role::User, text.clone()));
        turn = take_turn(&mut messages);
    }
    let (calls, answer) = turn;
    let fault = |what: &str| {
        let shown: Vec<String> =
            calls.iter().map(|call| format!("{}{}", call.name, json!(call.args))).collect();
        Err(format!("- {said:?}: {what}; called [{}], said {answer:?}", shown.join(", ")))
    };
    if calls.len() != case.expect.len() {
        return fault("another number of calls");
    }
    if let Some(missing) = case.expect.iter().find(|wanted| !calls.iter().any(|call| is_wanted(call, wanted)))
    {
        return fault(&format!("no call as {missing:?}"));
    }
    let told = answer.to_lowercase();
    match case.answer_contains.iter().find(|word| !told.contains(&word.to_lowercase())) {
        Some(word) => fault(&format!("the answer does not say {word:?}")),
        None if told.trim().is_empty() => fault("no answer"),
        None => Ok(()),
    }
}

/// The calls of a turn and the text that ends it.
fn take_turn(messages: &mut Vec<Message>) -> (Vec<ToolCall>, String) {
    let mut all = Vec::new();
    for _ in 0..8 {
        let (text, mut calls) = ask(messages);
        for (index, call) in calls.iter_mut().enumerate() {
            call.id = format!("call-{}-{index}", messages.len());
        }
        let parts = Some(Part::text(text.clone())).filter(|_| !text.is_empty());
        let parts = parts.into_iter().chain(calls.iter().cloned().map(Part::from)).collect();
        messages.push(Message::new(Role::Assistant, parts));
        if calls.is_empty() {
            return (all, text);
        }
        messages.push(Message::new(Role::Tool, calls.iter().map(|call| Part::from(result(call))).collect()));
        all.extend(calls);
    }
    (all, String::new())
}

fn ask(messages: &[Message]) -> (String, Vec<ToolCall>) {
    let spec = |name: &str| ToolSpec { name: name.into(), description: String::new(), parameters: json!({}) };
    let tools = ["now", "calculate", "read_file", "list_files", "search_files"].map(spec).into();
    let events = Demo.stream(Request { messages: messages.to_vec(), tools, ..Request::default() });
    let (mut text, mut calls) = (String::new(), Vec::new());
    for event in block_on(events.collect::<Vec<_>>()) {
        match event {
            StreamEvent::TextDelta { text: piece, .. } => text.push_str(&piece),
            StreamEvent::ToolCall(call) => calls.push(call),
            StreamEvent::Thought { .. }
            | StreamEvent::Usage(_)
            | StreamEvent::Warning(_)
            | StreamEvent::Done(_)
            | StreamEvent::Error(_) => {}
        }
    }
    (text, calls)
}

fn is_wanted(call: &ToolCall, wanted: &Expected) -> bool {
    let fits = wanted.args.iter().all(|(name, accepted)| {
        let given = call.args.get(name).cloned().unwrap_or_else(|| json!(""));
        match accepted {
            Value::Array(several) => several.contains(&given),
            one => one == &given,
        }
    });
    let computes = wanted.result.is_none_or(|number| {
        let value = calculate(call)["result"].as_f64();
        value.is_some_and(|value| (value - number).abs() < 1e-6)
    });
    call.name == wanted.tool && fits && computes
}

fn result(call: &ToolCall) -> ToolResult {
    let response = match call.name.as_str() {
        "now" => json!({"time": "09:30:00", "date": "2026-11-15", "weekday": "Sunday", "timezone": "UTC"}),
        "calculate" => calculate(call),
        "read_file" => json!({"path": call.args.get("path"), "text": "one line\n"}),
        "list_files" => json!({"path": ".", "entries": ["README.md", "src/"]}),
        _ => json!({"matches": []}),
    };
    ToolResult { id: call.id.clone(), name: call.name.clone(), response }
}

fn calculate(call: &ToolCall) -> Value {
    let request = ToolRequest { id: call.id.clone(), args: call.args.clone(), host: Arc::new(Nobody) };
    match block_on(Calculate::new().call(request)) {
        Ok(ToolReply::Done(value)) => value,
        Ok(ToolReply::Pending(_)) => Value::Null,
        Err(error) => json!({"error": error.to_string()}),
    }
}

/// A turn that has nothing to offer.
struct Nobody;

impl ToolHost for Nobody {
    fn state(&self, _key: &str) -> Option<Value> {
        None
    }

    fn set_state(&self, _key: &str, _value: Value) {}

    fn save_artifact(
        &self,
        _name: String,
        _file: ArtifactFile,
    ) -> BoxFuture<'_, Result<u64, tools::ToolsError>> {
        async { Ok(0) }.boxed()
    }

    fn owner(&self) -> AppUser {
        AppUser::default()
    }

    fn cancelled(&self) -> BoxFuture<'_, ()> {
        futures::future::pending().boxed()
    }
}
