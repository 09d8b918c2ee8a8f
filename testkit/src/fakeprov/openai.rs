//! OpenAI's chat completions API: unnamed events, then `[DONE]`.

use super::script::{self, HELLO, LATER_TEXT, LATER_THOUGHT, ScriptedEvent};
use serde_json::{Value, json};

pub(super) fn script(scenario: &str, key: &str) -> Vec<ScriptedEvent> {
    let head = [role(), thought("Let me "), thought("think."), text(HELLO[0]), text(HELLO[1])];
    let calls = calls(scenario);
    let end = |reason| [finish(reason), usage(), done()].to_vec();
    match scenario {
        "text" => [&head[..], &end("stop")].concat(),
        "think" => {
            let events = [role(), thought(LATER_THOUGHT), text(LATER_TEXT[0]), text(LATER_TEXT[1])];
            [&events[..], &end("stop")].concat()
        }
        "slowtext" => {
            let ticks: Vec<ScriptedEvent> = script::ticks().map(|tick| text(&tick)).collect();
            [&[role()], &ticks[..], &end("stop")].concat()
        }
        "trunc" | "drop" | "cut" => [&head[..], &calls[..3]].concat(),
        "trunctext" => head.to_vec(),
        "length" => [&head[..], &calls[..3], &end("length")].concat(),
        "refuse" => [&head[..4], &end("content_filter")].concat(),
        "refuse0" => [&[role(), refusal("I cannot "), refusal("help with that.")], &end("stop")[..]].concat(),
        "errmid" => {
            [&head[..], &calls[..3], &[error("server_error", "overloaded", "The server had an error")]]
                .concat()
        }
        "echokey200" => {
            let error = error("invalid_request_error", "invalid_api_key", &script::echo(key));
            [&head[..], &[error]].concat()
        }
        "badjson" => {
            let broken = ScriptedEvent::raw("", r#"{"id":"chatcmpl-9","choices":[{"ind"#);
            [&head[..3], &[broken], &head[3..], &calls, &end("tool_calls")].concat()
        }
        "nodone" => [&head[..], &calls, &[finish("tool_calls"), usage()]].concat(),
        _ => [&head[..], &calls, &end("tool_calls")].concat(),
    }
}

fn chunk(delta: &Value, finish: Option<&str>) -> ScriptedEvent {
    ScriptedEvent::data(
        &json!({"id": "chatcmpl-9", "object": "chat.completion.chunk", "created": 1, "model": "gpt-x",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}),
    )
}

fn role() -> ScriptedEvent {
    chunk(&json!({"role": "assistant", "content": ""}), None)
}

fn thought(text: &str) -> ScriptedEvent {
    chunk(&json!({"reasoning_content": text}), None)
}

fn text(text: &str) -> ScriptedEvent {
    chunk(&json!({"content": text}), None)
}

fn refusal(text: &str) -> ScriptedEvent {
    chunk(&json!({"refusal": text}), None)
}

fn finish(reason: &str) -> ScriptedEvent {
    chunk(&json!({}), Some(reason))
}

fn usage() -> ScriptedEvent {
    ScriptedEvent::data(
        &json!({"id": "chatcmpl-9", "object": "chat.completion.chunk", "created": 1, "model": "gpt-x", "choices": [],
        "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120,
            "prompt_tokens_details": {"cached_tokens": 64}, "completion_tokens_details": {"reasoning_tokens": 5}}}),
    )
}

fn done() -> ScriptedEvent {
    ScriptedEvent::raw("", "[DONE]")
}

fn error(kind: &str, code: &str, message: &str) -> ScriptedEvent {
    ScriptedEvent::data(&json!({"error": {"message": message, "type": kind, "code": code}}))
}

/// Two calls with interleaved deltas, the last two in one chunk. If both have the same index, one follows the other.
fn calls(scenario: &str) -> Vec<ScriptedEvent> {
    let [first, second] = script::indexes(scenario, 0);
    let [first_id, second_id] = script::ids(scenario, ["call_AAA", "call_BBB"]);
    let [first_args, second_args] = script::args(scenario);
    let calls = |deltas: &[Value]| chunk(&json!({"tool_calls": deltas}), None);
    if first == second {
        return vec![
            calls(&[call_start(first, first_id, &first_args.concat())]),
            calls(&[call_start(second, second_id, &second_args.concat())]),
        ];
    }
    let mut events = vec![calls(&[call_start(first, first_id, "")])];
    events.extend(first_args.iter().take(2).map(|args| calls(&[call_args(first, args)])));
    events.push(calls(&[call_start(second, second_id, "")]));
    events.extend(first_args.iter().skip(2).take(1).map(|args| calls(&[call_args(first, args)])));
    events.push(calls(&[call_args(second, second_args[0])]));
    let rest: String = first_args.iter().skip(3).copied().collect();
    events.push(calls(&[call_args(first, &rest), call_args(second, second_args[1])]));
    events
}

fn call_start(index: usize, id: Option<&str>, args: &str) -> Value {
    let mut delta = json!({"index": index, "function": {"arguments": args, "name": "get_weather"}});
    if let Some(id) = id {
        delta["id"] = json!(id);
    }
    delta["type"] = json!("function");
    delta
}

fn call_args(index: usize, args: &str) -> Value {
    json!({"index": index, "function": {"arguments": args}})
}
