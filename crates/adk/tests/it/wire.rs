//! ADK's JSON: recorded events of the real server round-trip byte for byte.

use adk::event::Event;
use serde_json::{Value, json};

const EVENTS: &str = include_str!("../../../../fixtures/adk/events.jsonl");
const SESSIONS: &str = include_str!("../../../../fixtures/adk/sessions.jsonl");

#[test]
fn recorded_events_round_trip_byte_for_byte() {
    assert!(EVENTS.lines().count() > 100);
    for line in EVENTS.lines() {
        let event: Event = serde_json::from_str(line).unwrap();
        assert_eq!(serde_json::to_string(&event).unwrap(), line);
    }
}

#[test]
fn recorded_session_events_round_trip() {
    for line in SESSIONS.lines() {
        let session: Value = serde_json::from_str(line).unwrap();
        for value in session["events"].as_array().unwrap() {
            let event: Event = serde_json::from_value(value.clone()).unwrap();
            assert_eq!(&serde_json::to_value(&event).unwrap(), value);
        }
    }
}

/// Contents are not extended: ADK refuses a content with unknown fields.
#[test]
fn unknown_fields_round_trip_at_every_level() {
    let event = json!({
        "content": {
            "parts": [
                {"text": "a", "x1": 1},
                {"functionCall": {"id": "1", "args": {"y": 1.10}, "name": "f", "x2": [null]}},
                {"functionResponse": {"id": "1", "name": "f", "response": {"a": 1}, "x3": {}}},
                {"inlineData": {"data": "AA==", "mimeType": "image/png", "x4": true}},
                {"fileData": {"fileUri": "gs://a", "x5": 0}},
                {"executableCode": {"code": "1"}, "x6": 0},
            ],
            "role": "model",
        },
        "usageMetadata": {"promptTokenCount": 1, "x7": {"a": 1}},
        "invocationId": "e-1",
        "author": "a",
        "actions": {
            "stateDelta": {}, "artifactDelta": {}, "requestedAuthConfigs": {},
            "requestedToolConfirmations": {}, "x8": 1,
        },
        "nodeInfo": {"path": "a@1", "x9": 1},
        "id": "i",
        "timestamp": 1.5,
        "x10": {"deep": [1, {"a": null}]},
    });
    let read: Event = serde_json::from_value(event.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), event);
}

#[test]
fn snake_case_is_accepted_at_every_level() {
    let snake = json!({
        "model_version": "m", "error_code": "E", "error_message": "m", "turn_complete": true,
        "finish_reason": "STOP", "custom_metadata": {"a_b": 1},
        "usage_metadata": {"prompt_token_count": 1, "candidates_token_count": 2, "total_token_count": 3},
        "content": {"role": "model", "parts": [
            {"function_call": {"name": "f"}, "thought_signature": "c2ln"},
            {"function_response": {"name": "f"}},
            {"inline_data": {"mime_type": "a/b", "data": "", "display_name": "n"}},
            {"file_data": {"file_uri": "u", "mime_type": "a/b"}},
        ]},
        "actions": {
            "state_delta": {"a": 1}, "artifact_delta": {"f": 0}, "skip_summarization": true,
            "transfer_to_agent": "b", "requested_auth_configs": {"c": 1}, "requested_tool_confirmations": {"d": 1},
        },
        "node_info": {"path": "p"}, "long_running_tool_ids": ["l"], "invocation_id": "e", "author": "a", "id": "i",
    });
    let read: Event = serde_json::from_value(snake).unwrap();
    let printed = serde_json::to_string(&read).unwrap();
    assert!(!printed.replace("\"a_b\"", "").contains('_'), "{printed}");
    assert_eq!(read.actions.transfer_to_agent.as_deref(), Some("b"));
    assert_eq!(read.usage_metadata.unwrap().total_token_count, Some(3));
}

#[test]
fn null_is_accepted_for_optional_fields() {
    let event = json!({
        "content": null, "partial": null, "customMetadata": null, "longRunningToolIds": null, "branch": null,
        "invocationId": "e", "author": "a", "id": "i", "timestamp": 1.0,
        "actions": {"stateDelta": {}, "transferToAgent": null, "skipSummarization": null},
    });
    let read: Event = serde_json::from_value(event).unwrap();
    assert!(read.content.is_none() && read.actions.transfer_to_agent.is_none());
}
