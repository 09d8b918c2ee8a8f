//! Intended differences from ADK: functions that turn a recorded response into ours.

use serde_json::{Value, json};

pub(super) fn reason_in_json(snapshot: &mut Value) {
    snapshot["type"] = "application/json".into();
    snapshot["body"] = json!({"detail": snapshot["body"]});
}

pub(super) fn broken_app(snapshot: &mut Value) {
    reason_in_json(snapshot);
    snapshot["body"]["kind"] = "invalid".into();
}

pub(super) fn no_session_for_unknown_app(snapshot: &mut Value) {
    snapshot["status"] = 404.into();
    let detail = "Agent not found: 'nope'. No matching directory or module exists in 'agents/nope'.";
    snapshot["body"] = json!({"detail": detail});
}

pub(super) fn no_sessions(snapshot: &mut Value) {
    snapshot["body"] = json!([]);
}

pub(super) fn known_invocation_is_refused(snapshot: &mut Value) {
    snapshot["status"] = 400.into();
    snapshot["type"] = "application/json".into();
    snapshot["body"] = json!({"detail": "the session has this invocation already"});
}

pub(super) fn no_telemetry(snapshot: &mut Value) {
    snapshot["body"] = json!({"telemetry": false});
}

pub(super) fn no_events_of_state_alone(snapshot: &mut Value) {
    if let Some(events) = snapshot.pointer_mut("/body/events").and_then(Value::as_array_mut) {
        events.retain(|event| event.get("content").is_some());
    }
}

/// A confirmation request precedes the tool response that announces it.
pub(super) fn question_before_answer(snapshot: &mut Value) {
    let Some(events) = snapshot.pointer_mut("/body/events").and_then(Value::as_array_mut) else { return };
    let is_request =
        |event: &Value| event["content"]["parts"][0]["functionCall"]["name"] == "adk_request_confirmation";
    let is_response = |event: &Value| event["actions"]["skipSummarization"] == true;
    for at in 1..events.len() {
        if is_request(&events[at]) && is_response(&events[at - 1]) {
            events.swap(at - 1, at);
        }
    }
}

/// A failed tool call has the same three events as a successful one: call, response, text.
pub(super) fn failed_tool_is_answered(snapshot: &mut Value) {
    let error = json!({"error": "bad_tool failed"});
    let call = "adk-00000000-0000-4000-8000-000000000000";
    let mut called =
        event(1, "model", &json!({"functionCall": {"id": call, "args": {"x": 1}, "name": "bad_tool"}}));
    called["longRunningToolIds"] = json!([]);
    let answered =
        event(2, "user", &json!({"functionResponse": {"id": call, "name": "bad_tool", "response": error}}));
    let text = event(3, "model", &json!({"text": format!("Tool bad_tool said: {error}")}));
    let streams = snapshot["type"] == "text/event-stream";
    snapshot["type"] = if streams { "text/event-stream" } else { "application/json" }.into();
    snapshot["status"] = 200.into();
    snapshot["body"] = json!([by_model(called), answered, by_model(text)]);
}

fn event(place: u8, role: &str, part: &Value) -> Value {
    json!({
        "content": {"parts": [part], "role": role},
        "invocationId": "e-00000000-0000-4000-8000-000000000000",
        "author": "canned_root",
        "actions": {
            "stateDelta": {}, "artifactDelta": {}, "requestedAuthConfigs": {}, "requestedToolConfirmations": {},
        },
        "nodeInfo": {"path": "canned_root@1"},
        "id": format!("00000000-0000-4000-8000-00000000000{place}"),
        "timestamp": 1_794_768_760.5,
    })
}

fn by_model(mut event: Value) -> Value {
    event["modelVersion"] = "canned-1".into();
    event["finishReason"] = "STOP".into();
    event["usageMetadata"] =
        json!({"candidatesTokenCount": 5, "promptTokenCount": 10, "totalTokenCount": 15});
    event
}
