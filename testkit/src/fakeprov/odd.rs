//! Answers that differ from the documented format in a way that real servers do, derived from the usual scripts.

use super::{
    ProviderApi,
    script::{self, HELLO, ScriptedEvent},
};
use serde_json::{Value, json};

/// The events of a scenario; `None` if it is not one of these.
pub(super) fn script(api: ProviderApi, scenario: &str) -> Option<Vec<ScriptedEvent>> {
    let usual = |scenario| script::script(api, scenario, "");
    Some(match scenario {
        "nothing" => retain(usual("text"), |event| !has_content(event)),
        "thinkonly" => retain(usual("think"), |event| !has_text(event)),
        "length0" => retain(usual("length"), |event| !has_content(event) && !has_call(event)),
        "oddtypes" => map_json(usual("ok"), &retype),
        "badbyte" => replace(usual("text"), HELLO[0], "Grüß\u{1}"),
        "surrogates" => map_text(usual("text"), |text| text.replace('🌍', "\\ud83c\\udf0d"), Some("\\udf0d")),
        "choices" => with_second_choice(usual("text")),
        "eof1" => usual("text").into_iter().take(1).collect(),
        "errthought" => {
            let before = usual("think").into_iter().take_while(|event| !has_text(event));
            let error = usual("errmid").into_iter().next_back();
            before.filter(|event| !is_end(event)).chain(error).collect()
        }
        "bareerror" => vec![ScriptedEvent::raw(
            "error",
            r#"{"code":500,"message":"slot unavailable","type":"server_error"}"#,
        )],
        _ => return None,
    })
}

fn retain(events: Vec<ScriptedEvent>, keep: impl Fn(&ScriptedEvent) -> bool) -> Vec<ScriptedEvent> {
    events.into_iter().filter(keep).collect()
}

/// Whether an event has a piece of an answer.
fn has_text(event: &ScriptedEvent) -> bool {
    [HELLO[0], HELLO[1], "Zürich 21°, ", "Tōkyō 28°."].iter().any(|text| event.data.contains(text))
        || event.data.contains(r#""type":"message","role":"assistant","status""#)
        || event.data.contains(r#""content_block":{"type":"text""#)
}

fn has_content(event: &ScriptedEvent) -> bool {
    let thoughts = ["Let me ", "think.", "Now I know."];
    has_text(event)
        || thoughts.iter().any(|text| event.data.contains(text))
        || ["rs_1", "signature", "redacted"].iter().any(|mark| event.data.contains(mark))
}

fn has_call(event: &ScriptedEvent) -> bool {
    ["tool_calls", "function_call", "functionCall", "tool_use", "input_json_delta"]
        .iter()
        .any(|mark| event.data.contains(mark))
}

/// Whether an event ends an answer, so that nothing may precede it.
fn is_end(event: &ScriptedEvent) -> bool {
    ["finish_reason\":\"", "stop_reason\":\"", "finishReason", "response.completed", "[DONE]"]
        .iter()
        .any(|mark| event.data.contains(mark))
}

fn map_json(events: Vec<ScriptedEvent>, change: &dyn Fn(&mut Value)) -> Vec<ScriptedEvent> {
    let map = |event: ScriptedEvent| match serde_json::from_str::<Value>(&event.data) {
        Ok(mut value) => {
            change(&mut value);
            ScriptedEvent { data: value.to_string(), ..event }
        }
        Err(_) => event,
    };
    events.into_iter().map(map).collect()
}

/// Token counts become floats, texts or negative, indexes become texts, and times become texts.
fn retype(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (key, field) in fields.iter_mut() {
                match (key.as_str(), &*field) {
                    ("index" | "output_index" | "content_index" | "created", Value::Number(number)) => {
                        *field = number.to_string().into();
                    }
                    ("total_tokens" | "totalTokenCount" | "total_duration", _) => *field = json!(-1),
                    ("cached_tokens" | "cachedContentTokenCount" | "cache_read_input_tokens", _) => {
                        *field = json!("64");
                    }
                    (key, Value::Number(number)) if key.contains("oken") || key.ends_with("_count") => {
                        *field = json!(number.as_f64());
                    }
                    ("created_at", _) => *field = json!({"seconds": 1}),
                    _ => retype(field),
                }
            }
        }
        Value::Array(elements) => elements.iter_mut().for_each(retype),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn replace(events: Vec<ScriptedEvent>, from: &str, to: &str) -> Vec<ScriptedEvent> {
    let map = |event: ScriptedEvent| ScriptedEvent { data: event.data.replace(from, to), ..event };
    events.into_iter().map(map).collect()
}

/// Changes the data of each event. An event that contains `split` is sent twice: up to it, and from it on.
fn map_text(
    events: Vec<ScriptedEvent>,
    change: impl Fn(&str) -> String,
    split: Option<&str>,
) -> Vec<ScriptedEvent> {
    let mut changed = Vec::new();
    for event in events {
        let data = change(&event.data);
        match split.filter(|split| data.contains(split) && data.to_lowercase().contains("delta")) {
            Some(split) => {
                let text = "dich \\ud83c";
                changed.push(ScriptedEvent { data: data.replace(split, ""), ..event.clone() });
                let second = data.replace(&format!("Grüß {text}"), "").replace(text, "");
                changed.push(ScriptedEvent { data: second, ..event });
            }
            None => changed.push(ScriptedEvent { data, ..event }),
        }
    }
    changed
}

/// Repeats each chunk with another text and the next index.
fn with_second_choice(events: Vec<ScriptedEvent>) -> Vec<ScriptedEvent> {
    let second = |event: &ScriptedEvent| {
        let data = event.data.replace("\"index\":0", "\"index\":1").replace(HELLO[0], "Other ");
        (data != event.data && event.data.contains(HELLO[0])).then(|| ScriptedEvent { data, ..event.clone() })
    };
    events
        .into_iter()
        .flat_map(|event| {
            let second = second(&event);
            [Some(event), second].into_iter().flatten()
        })
        .collect()
}
