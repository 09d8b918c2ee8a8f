//! Ollama's `/api/chat`: NDJSON; the last line has `done` and the reason.

use super::script::{self, HELLO, LATER_TEXT, LATER_THOUGHT, ScriptedEvent, THOUGHT};
use serde_json::{Value, json};

pub(super) fn script(scenario: &str, key: &str) -> Vec<ScriptedEvent> {
    let head = [thought(THOUGHT), text(HELLO[0]), text(HELLO[1])];
    let calls = calls(scenario);
    match scenario {
        "text" => [&head[..], &[done("stop")]].concat(),
        "think" => vec![thought(LATER_THOUGHT), text(LATER_TEXT[0]), text(LATER_TEXT[1]), done("stop")],
        "slowtext" => script::ticks().map(|tick| text(&tick)).chain([done("stop")]).collect(),
        "trunc" | "drop" | "cut" => [&head[..], &calls[..1]].concat(),
        "trunctext" => head.to_vec(),
        "nodone" => [&head[..], &calls].concat(),
        "length" => [&head[..], &[done("length")]].concat(),
        "errmid" => [&head[..], &[error("llama runner process has terminated")]].concat(),
        "echokey200" => [&head[..], &[error(&script::echo(key))]].concat(),
        "badjson" => {
            [&head[..1], &[ScriptedEvent::raw("", r#"{"model":"ll"#)], &head[1..], &calls, &[done("stop")]]
                .concat()
        }
        _ => [&head[..], &calls, &[done("stop")]].concat(),
    }
}

fn line(message: &Value) -> ScriptedEvent {
    ScriptedEvent::data(
        &json!({"model": "llama-x", "created_at": "2026-01-01T00:00:00Z", "message": message, "done": false}),
    )
}

fn thought(text: &str) -> ScriptedEvent {
    line(&json!({"role": "assistant", "content": "", "thinking": text}))
}

fn text(text: &str) -> ScriptedEvent {
    line(&json!({"role": "assistant", "content": text}))
}

fn done(reason: &str) -> ScriptedEvent {
    ScriptedEvent::data(&json!({"model": "llama-x", "created_at": "2026-01-01T00:00:00Z",
        "message": {"role": "assistant", "content": ""}, "done": true, "done_reason": reason,
        "prompt_eval_count": 100, "eval_count": 20, "total_duration": 1}))
}

fn error(message: &str) -> ScriptedEvent {
    ScriptedEvent::data(&json!({"error": message}))
}

/// Each call is complete in its own line and has index 0, unless the scenario changes the index.
fn calls(scenario: &str) -> [ScriptedEvent; 2] {
    let [first_id, second_id] = script::ids(scenario, ["call_AAA", "call_BBB"]);
    let [first, second] = if scenario == "gapidx" { [1, 3] } else { [0, 0] };
    let first_args = match scenario {
        "badargs" => json!(script::BAD_ARGS.concat()),
        _ => json!({"city": "Zürich", "n": 1}),
    };
    [call(first_id, first, &first_args), call(second_id, second, &json!({"city": "Tōkyō"}))]
}

fn call(id: Option<&str>, index: usize, args: &Value) -> ScriptedEvent {
    let function = json!({"index": index, "name": "get_weather", "arguments": args});
    let call = match id {
        Some(id) => json!({"id": id, "function": function}),
        None => json!({"function": function}),
    };
    line(&json!({"role": "assistant", "content": "", "tool_calls": [call]}))
}
