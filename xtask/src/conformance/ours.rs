//! The answers that we give on purpose where ADK gives others, made from the recorded ones.

use serde_json::{Value, json};

pub(super) fn reason_in_json(picture: &mut Value) {
    picture["type"] = "application/json".into();
    picture["body"] = json!({"detail": picture["body"]});
}

pub(super) fn no_telemetry(picture: &mut Value) {
    picture["body"] = json!({"telemetry": false});
}

pub(super) fn no_events_of_state_alone(picture: &mut Value) {
    if let Some(events) = picture.pointer_mut("/body/events").and_then(Value::as_array_mut) {
        events.retain(|event| event.get("content").is_some());
    }
}

/// A question to a person comes before the answer that says that there is one.
pub(super) fn question_before_answer(picture: &mut Value) {
    let Some(events) = picture.pointer_mut("/body/events").and_then(Value::as_array_mut) else { return };
    let asks =
        |event: &Value| event["content"]["parts"][0]["functionCall"]["name"] == "adk_request_confirmation";
    let waits = |event: &Value| event["actions"]["skipSummarization"] == true;
    for at in 1..events.len() {
        if asks(&events[at]) && waits(&events[at - 1]) {
            events.swap(at - 1, at);
        }
    }
}

/// The three events of any call.
pub(super) fn failed_tool_is_answered(picture: &mut Value) {
    let error = json!({"error": "bad_tool failed"});
    let call = "adk-00000000-0000-4000-8000-000000000000";
    let mut asked =
        event(1, "model", &json!({"functionCall": {"id": call, "args": {"x": 1}, "name": "bad_tool"}}));
    asked["longRunningToolIds"] = json!([]);
    let answered =
        event(2, "user", &json!({"functionResponse": {"id": call, "name": "bad_tool", "response": error}}));
    let said = event(3, "model", &json!({"text": format!("Tool bad_tool said: {error}")}));
    let streams = picture["type"] == "text/event-stream";
    picture["type"] = if streams { "text/event-stream" } else { "application/json" }.into();
    picture["status"] = 200.into();
    picture["body"] = json!([by_model(asked), answered, by_model(said)]);
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
