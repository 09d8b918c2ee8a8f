//! OpenAI's Responses API: named events with sequence numbers; items are added, filled and done.

use super::script::{self, HELLO, LATER_TEXT, LATER_THOUGHT, ScriptedEvent, THOUGHT};
use serde_json::{Value, json};

/// The type of an event and its fields. Sequence numbers are added when all events are known.
type ResponseEvent = (&'static str, Value);

pub(super) fn script(scenario: &str, key: &str) -> Vec<ScriptedEvent> {
    let events = events(scenario, key);
    let mut events: Vec<ScriptedEvent> =
        events.iter().enumerate().map(|(at, event)| numbered(at + 1, event)).collect();
    if scenario == "badjson" {
        events.insert(3, ScriptedEvent::raw("response.output_text.delta", r#"{"type":"resp"#));
    }
    events
}

fn numbered(number: usize, (name, fields): &ResponseEvent) -> ScriptedEvent {
    ScriptedEvent::typed(&joined(json!({"type": name, "sequence_number": number}), fields))
}

fn events(scenario: &str, key: &str) -> Vec<ResponseEvent> {
    let head = head();
    let [first, second] = calls(scenario);
    match scenario {
        "text" => [&head[..], &[completed()]].concat(),
        "think" => {
            let thought = reasoning(0, "rs_2", LATER_THOUGHT, "ENC2+/w==");
            let text = message(1, "msg_2", &LATER_TEXT);
            [&[created()], &thought[..], &text, &[completed()]].concat()
        }
        "slowtext" => {
            let ticks: Vec<String> = script::ticks().collect();
            let ticks: Vec<&str> = ticks.iter().map(String::as_str).collect();
            [&[created()], &message(0, "msg_1", &ticks)[..], &[completed()]].concat()
        }
        "trunc" | "drop" | "cut" => [&head[..], &first[..3]].concat(),
        "trunctext" => head[..6].to_vec(),
        "nodone" => [&head[..], &first, &second].concat(),
        "length" => [&head[..], &first[..3], &[incomplete("max_output_tokens")]].concat(),
        "refuse" => [&head[..6], &[incomplete("content_filter")]].concat(),
        "refuse0" => [&[created()], &refusal()[..], &[completed()]].concat(),
        "errmid" => [&head[..], &[failed()]].concat(),
        "echokey200" => {
            let error = json!({"code": "invalid_api_key", "message": script::echo(key), "param": null});
            [&head[..], &[("error", error)]].concat()
        }
        _ => [&head[..], &first, &second, &[completed()]].concat(),
    }
}

fn head() -> Vec<ResponseEvent> {
    let thought = reasoning(0, "rs_1", THOUGHT, "ENC+/==");
    let text = message(1, "msg_1", &[&HELLO.concat()]);
    [&[created()], &thought[..], &text].concat()
}

/// The `response` object with this status, merged with `more`.
fn response(status: &str, more: &Value) -> Value {
    let response = json!({"id": "resp_1", "object": "response", "created_at": 1, "model": "gpt-x", "output": [],
        "status": status});
    json!({"response": joined(response, more)})
}

fn usage() -> Value {
    json!({"input_tokens": 100, "input_tokens_details": {"cached_tokens": 64}, "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 5}, "total_tokens": 120})
}

fn created() -> ResponseEvent {
    ("response.created", response("in_progress", &json!({})))
}

fn completed() -> ResponseEvent {
    ("response.completed", response("completed", &json!({"usage": usage()})))
}

fn incomplete(reason: &str) -> ResponseEvent {
    let why = json!({"incomplete_details": {"reason": reason}, "usage": usage()});
    ("response.incomplete", response("incomplete", &why))
}

fn failed() -> ResponseEvent {
    let why = json!({"error": {"code": "server_error", "message": "boom"}});
    ("response.failed", response("failed", &why))
}

fn added(index: usize, item: &Value) -> ResponseEvent {
    ("response.output_item.added", json!({"output_index": index, "item": item}))
}

fn done(index: usize, item: &Value) -> ResponseEvent {
    ("response.output_item.done", json!({"output_index": index, "item": item}))
}

fn reasoning(index: usize, id: &str, thought: &str, encrypted: &str) -> Vec<ResponseEvent> {
    let delta = json!({"item_id": id, "output_index": index, "summary_index": 0, "delta": thought});
    vec![
        added(index, &json!({"id": id, "type": "reasoning", "summary": []})),
        ("response.reasoning_summary_text.delta", delta),
        done(
            index,
            &json!({"id": id, "type": "reasoning", "summary": [{"type": "summary_text", "text": thought}],
            "encrypted_content": encrypted}),
        ),
    ]
}

fn message(index: usize, id: &str, text: &[&str]) -> Vec<ResponseEvent> {
    let delta = |text| json!({"item_id": id, "output_index": index, "content_index": 0, "delta": text});
    let content = json!({"type": "output_text", "text": text.concat(), "annotations": []});
    let mut events = vec![added(index, &message_item(id, "in_progress", &json!([])))];
    events.extend(text.iter().map(|text| ("response.output_text.delta", delta(text))));
    events.push(done(index, &message_item(id, "completed", &json!([content]))));
    events
}

fn refusal() -> Vec<ResponseEvent> {
    let text = "I cannot help with that.";
    let delta = json!({"item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": text});
    let content = json!({"type": "refusal", "refusal": text});
    vec![
        added(0, &message_item("msg_1", "in_progress", &json!([]))),
        ("response.refusal.delta", delta),
        done(0, &message_item("msg_1", "completed", &json!([content]))),
    ]
}

fn message_item(id: &str, status: &str, content: &Value) -> Value {
    json!({"id": id, "type": "message", "role": "assistant", "status": status, "content": content})
}

fn calls(scenario: &str) -> [Vec<ResponseEvent>; 2] {
    let [first, second] = script::indexes(scenario, 2);
    let [first_id, second_id] = script::ids(scenario, ["call_AAA", "call_BBB"]);
    let [first_args, second_args] = script::args(scenario);
    [call(first, "fc_1", first_id, first_args), call(second, "fc_2", second_id, second_args)]
}

/// If the call has no id, its item has none either; only the index identifies it.
fn call(index: usize, item: &str, id: Option<&str>, args: &[&str]) -> Vec<ResponseEvent> {
    let whole = args.concat();
    let about = |more: &Value| {
        let known = if id.is_some() {
            json!({"item_id": item, "output_index": index})
        } else {
            json!({"output_index": index})
        };
        joined(known, more)
    };
    let mut events = vec![added(index, &call_item(item, id, "", "in_progress"))];
    let delta = |args| ("response.function_call_arguments.delta", about(&json!({"delta": args})));
    events.extend(args.iter().map(delta));
    let finished = about(&json!({"name": "get_weather", "arguments": whole}));
    events.push(("response.function_call_arguments.done", finished));
    events.push(done(index, &call_item(item, id, &whole, "completed")));
    events
}

fn call_item(item: &str, id: Option<&str>, args: &str, status: &str) -> Value {
    let call = json!({"name": "get_weather", "arguments": args, "status": status});
    match id {
        Some(id) => joined(json!({"id": item, "type": "function_call", "call_id": id}), &call),
        None => joined(json!({"type": "function_call"}), &call),
    }
}

fn joined(mut left: Value, right: &Value) -> Value {
    for (field, value) in right.as_object().into_iter().flatten() {
        left[field] = value.clone();
    }
    left
}
