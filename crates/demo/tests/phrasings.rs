//! Phrasings from `phrasings.yaml`, written without knowledge of the rules, and the tool calls that they must lead to.

use demo::DemoProvider;
use futures::{FutureExt, StreamExt, executor::block_on, future::BoxFuture};
use provider::{
    MessagePart, ModelMessage, ModelRequest, Provider, Role, StreamEvent, ToolCall, ToolResult, ToolSpec,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use tools::{
    AppUser, ArtifactFile, CallingTurn, SandboxAccess, Tool, ToolHost, ToolReply, ToolRequest,
    calculate::Calculate,
};

/// The phrasings that the rules do not handle. A phrasing that starts to work must be removed from this list.
const KNOWN_FAILURES: [&str; 7] = [
    "My colleague sits in Sydney, what's the time over there?",
    "dinner was $86, add a 20% tip, whats the total",
    "6 km plus 7.5 km makes how much?",
    "can u list whats inside docs/",
    "does anything in here talk about kubernetes?",
    "im looking for parse_header, where is it used",
    "will it rain in Madrid tomorrow",
];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PhrasingCase {
    say: UserMessages,
    expect: Vec<ExpectedCall>,
    #[serde(default)]
    answer_contains: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum UserMessages {
    One(String),
    Several(Vec<String>),
}

impl UserMessages {
    fn texts(&self) -> &[String] {
        match self {
            Self::One(text) => std::slice::from_ref(text),
            Self::Several(texts) => texts,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectedCall {
    tool: String,
    #[serde(default)]
    args: Map<String, Value>,
    result: Option<f64>,
}

#[test]
fn phrasings_lead_to_the_expected_calls_except_for_known_failures() {
    let cases: Vec<PhrasingCase> = serde_saphyr::from_str(include_str!("phrasings.yaml")).unwrap();
    assert_eq!(cases.len(), 60);
    let failures: Vec<(String, String)> = cases
        .iter()
        .filter_map(|case| check(case).err().map(|failure| (case.say.texts().join(" / "), failure)))
        .collect();
    let failed: Vec<&str> = failures.iter().map(|(phrasing, _)| phrasing.as_str()).collect();
    assert_eq!(failed, KNOWN_FAILURES, "{failures:#?}");
}

/// Holds the conversation of a case and checks its last turn.
fn check(case: &PhrasingCase) -> Result<(), String> {
    let mut messages = Vec::new();
    let mut turn = (Vec::new(), String::new());
    for text in case.say.texts() {
        messages.push(ModelMessage::text(Role::User, text.clone()));
        turn = run_turn(&mut messages);
    }
    let (calls, answer) = turn;
    let failure = |what: &str| {
        let calls: Vec<String> =
            calls.iter().map(|call| format!("{}{}", call.name, json!(call.args))).collect();
        Err(format!("{what}; calls [{}], answer {answer:?}", calls.join(", ")))
    };
    if calls.len() != case.expect.len() {
        return failure("wrong number of calls");
    }
    let missing = case.expect.iter().find(|expected| !calls.iter().any(|call| matches(call, expected)));
    if let Some(missing) = missing {
        return failure(&format!("no call matches {missing:?}"));
    }
    let lower_case = answer.to_lowercase();
    match case.answer_contains.iter().find(|word| !lower_case.contains(&word.to_lowercase())) {
        Some(word) => failure(&format!("the answer does not contain {word:?}")),
        None if lower_case.trim().is_empty() => failure("no answer"),
        None => Ok(()),
    }
}

/// Runs a turn to its end. Returns its calls and the final text.
fn run_turn(messages: &mut Vec<ModelMessage>) -> (Vec<ToolCall>, String) {
    let mut all = Vec::new();
    for _ in 0..8 {
        let (text, mut calls) = call_model(messages);
        for (index, call) in calls.iter_mut().enumerate() {
            call.id = format!("call-{}-{index}", messages.len());
        }
        let parts = Some(MessagePart::text(text.clone())).filter(|_| !text.is_empty());
        let parts = parts.into_iter().chain(calls.iter().cloned().map(MessagePart::from)).collect();
        messages.push(ModelMessage::new(Role::Assistant, parts));
        if calls.is_empty() {
            return (all, text);
        }
        messages.push(ModelMessage::new(
            Role::Tool,
            calls.iter().map(|call| MessagePart::from(run_tool(call))).collect(),
        ));
        all.extend(calls);
    }
    (all, String::new())
}

fn call_model(messages: &[ModelMessage]) -> (String, Vec<ToolCall>) {
    let spec = |name: &str| ToolSpec { name: name.into(), description: String::new(), parameters: json!({}) };
    let tools = ["now", "calculate", "read_file", "list_files", "search_files"].map(spec).into();
    let events =
        DemoProvider.stream(ModelRequest { messages: messages.to_vec(), tools, ..ModelRequest::default() });
    let (mut text, mut calls) = (String::new(), Vec::new());
    for event in block_on(events.collect::<Vec<_>>()) {
        match event {
            StreamEvent::TextDelta { text: chunk, .. } => text.push_str(&chunk),
            StreamEvent::ToolCall(call) => calls.push(call),
            StreamEvent::Sent(_)
            | StreamEvent::Thought { .. }
            | StreamEvent::Usage(_)
            | StreamEvent::Warning(_)
            | StreamEvent::Done(_)
            | StreamEvent::Error(_) => {}
        }
    }
    (text, calls)
}

fn matches(call: &ToolCall, expected: &ExpectedCall) -> bool {
    let args_match = expected.args.iter().all(|(name, accepted)| {
        let given = call.args.get(name).cloned().unwrap_or_else(|| json!(""));
        match accepted {
            Value::Array(several) => several.contains(&given),
            one => one == &given,
        }
    });
    let result_matches = expected.result.is_none_or(|number| {
        let value = calculate(call)["result"].as_f64();
        value.is_some_and(|value| (value - number).abs() < 1e-6)
    });
    call.name == expected.tool && args_match && result_matches
}

fn run_tool(call: &ToolCall) -> ToolResult {
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
    let call = ToolRequest {
        id: call.id.clone(),
        args: call.args.clone(),
        turn: CallingTurn::default(),
        host: Arc::new(NullHost),
        sandbox: SandboxAccess::default(),
        input: None,
    };
    match block_on(Calculate::new().call(call)) {
        Ok(ToolReply::Done(value) | ToolReply::Untrusted { value, .. }) => value,
        Ok(ToolReply::Pending(_) | ToolReply::Ask(_)) => Value::Null,
        Err(error) => json!({"error": error.to_string()}),
    }
}

/// A host without state, artifacts and owner.
struct NullHost;

impl ToolHost for NullHost {
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
