//! Anthropic's Messages API: named events; content blocks have a start and a stop event.

use super::script::{self, HELLO, LATER_TEXT, LATER_THOUGHT, ScriptedEvent};
use serde_json::{Value, json};

/// Each signature is sent in two deltas.
const SIGNATURE: [&str; 2] = ["EqQBCgIYAhIM", "c2lnbmF0dXJl/+=="];
const LATER_SIGNATURE: [&str; 2] = ["EtQCCkYIBxgC", "bGF0ZXI+/w=="];

pub(super) fn script(scenario: &str, key: &str) -> Vec<ScriptedEvent> {
    let thinking = thinking(0, &["Let me ", "think."], SIGNATURE);
    let hello = text(2, &HELLO);
    let head = [&[start(), ping()], &thinking[..], &redacted(1), &hello].concat();
    let [first, second] = calls(scenario);
    let end = |reason| [delta(reason), stop()];
    match scenario {
        "text" => [&[start()], &hello[..], &end("end_turn")].concat(),
        "think" => {
            let thinking = self::thinking(0, &[LATER_THOUGHT], LATER_SIGNATURE);
            [&[start()], &thinking[..], &text(1, &LATER_TEXT), &end("end_turn")].concat()
        }
        "slowtext" => {
            let ticks: Vec<String> = script::ticks().collect();
            let ticks: Vec<&str> = ticks.iter().map(String::as_str).collect();
            [&[start()], &text(0, &ticks)[..], &end("end_turn")].concat()
        }
        "trunc" | "drop" | "cut" => [&head[..], &first[..4]].concat(),
        "trunctext" => head,
        "length" => [&head[..], &first[..4], &end("max_tokens")].concat(),
        "refuse" => [&[start()], &text(0, &HELLO[..1])[..], &end("refusal")].concat(),
        "refuse0" => [&[start()], &end("refusal")[..]].concat(),
        "errmid" => [&head[..], &first[..4], &[error("overloaded_error", "Overloaded")]].concat(),
        "echokey200" => [&head[..], &[error("authentication_error", &script::echo(key))]].concat(),
        "badjson" => {
            let broken = ScriptedEvent::raw("content_block_delta", r#"{"type":"content_block_delta","ind"#);
            let rest = [thinking, redacted(1), hello, first, second].concat();
            [&[start(), broken], &rest[..], &end("tool_use")].concat()
        }
        "nodone" => [&head[..], &first, &second, &[delta("tool_use")]].concat(),
        _ => [&head[..], &first, &second, &end("tool_use")].concat(),
    }
}

fn start() -> ScriptedEvent {
    ScriptedEvent::typed(
        &json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant",
        "content": [], "model": "claude-x", "stop_reason": null, "stop_sequence": null,
        "usage": {"input_tokens": 30, "cache_creation_input_tokens": 6, "cache_read_input_tokens": 64, "output_tokens": 1}}}),
    )
}

fn ping() -> ScriptedEvent {
    ScriptedEvent::typed(&json!({"type": "ping"}))
}

fn delta(reason: &str) -> ScriptedEvent {
    ScriptedEvent::typed(
        &json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null},
        "usage": {"output_tokens": 20}}),
    )
}

fn stop() -> ScriptedEvent {
    ScriptedEvent::typed(&json!({"type": "message_stop"}))
}

fn error(kind: &str, message: &str) -> ScriptedEvent {
    ScriptedEvent::typed(&json!({"type": "error", "error": {"type": kind, "message": message}}))
}

/// The events of a content block, from its start to its stop.
fn block(index: usize, content: &Value, deltas: impl IntoIterator<Item = Value>) -> Vec<ScriptedEvent> {
    let start = json!({"type": "content_block_start", "index": index, "content_block": content});
    let delta = |delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
    let stop = json!({"type": "content_block_stop", "index": index});
    let events = [start].into_iter().chain(deltas.into_iter().map(delta)).chain([stop]);
    events.map(|event| ScriptedEvent::typed(&event)).collect()
}

fn thinking(index: usize, text: &[&str], signature: [&str; 2]) -> Vec<ScriptedEvent> {
    let text = text.iter().map(|text| json!({"type": "thinking_delta", "thinking": text}));
    let signed = signature.map(|chunk| json!({"type": "signature_delta", "signature": chunk}));
    block(index, &json!({"type": "thinking", "thinking": "", "signature": ""}), text.chain(signed))
}

fn redacted(index: usize) -> Vec<ScriptedEvent> {
    block(index, &json!({"type": "redacted_thinking", "data": "UkVEQUNURUQ="}), [])
}

fn text(index: usize, text: &[&str]) -> Vec<ScriptedEvent> {
    let text = text.iter().map(|text| json!({"type": "text_delta", "text": text}));
    block(index, &json!({"type": "text", "text": ""}), text)
}

fn calls(scenario: &str) -> [Vec<ScriptedEvent>; 2] {
    let [first, second] = script::indexes(scenario, 3);
    let [first_id, second_id] = script::ids(scenario, ["toolu_AAA", "toolu_BBB"]);
    let [first_args, second_args] = script::args(scenario);
    [call(first, first_id, first_args), call(second, second_id, second_args)]
}

fn call(index: usize, id: Option<&str>, args: &[&str]) -> Vec<ScriptedEvent> {
    let content = match id {
        Some(id) => json!({"type": "tool_use", "id": id, "name": "get_weather", "input": {}}),
        None => json!({"type": "tool_use", "name": "get_weather", "input": {}}),
    };
    let args = [""].iter().chain(args).map(|args| json!({"type": "input_json_delta", "partial_json": args}));
    block(index, &content, args)
}
