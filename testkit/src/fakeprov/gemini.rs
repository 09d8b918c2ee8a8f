//! Gemini's `streamGenerateContent`: unnamed events with the next parts of a candidate; the last has a finish reason.

use super::script::{self, HELLO, LATER_TEXT, LATER_THOUGHT, ScriptedEvent, THOUGHT};
use serde_json::{Value, json};

const SIGNATURE: &str = "CpcBAVSoXO5ha2V0aG91Z2h0c2ln+/==";
const LATER_SIGNATURE: &str = "CpcBAVSoXO5sYXRlcitzaWc/+w==";

pub(super) fn script(scenario: &str, key: &str) -> Vec<ScriptedEvent> {
    let head = [chunk(&[thought(THOUGHT)]), chunk(&[text(HELLO[0])]), chunk(&[text(HELLO[1])])];
    let calls = calls(scenario);
    let end = end(&[text("")], "STOP");
    match scenario {
        "text" => [&head[..], &[signed_end(SIGNATURE)]].concat(),
        "think" => {
            let parts = [thought(LATER_THOUGHT), text(LATER_TEXT[0]), text(LATER_TEXT[1])];
            let chunks = parts.map(|part| chunk(&[part]));
            [&chunks[..], &[signed_end(LATER_SIGNATURE)]].concat()
        }
        "slowtext" => {
            let ticks = script::ticks().map(|tick| chunk(&[text(&tick)]));
            ticks.chain([end]).collect()
        }
        "trunc" | "drop" | "cut" => [&head[..], &calls[..1]].concat(),
        "trunctext" => head.to_vec(),
        "nodone" => [&head[..], &calls].concat(),
        "length" => [&head[..], &[self::end(&[], "MAX_TOKENS")]].concat(),
        "refuse" => [&head[..2], &[refused()]].concat(),
        "refuse0" => vec![blocked()],
        "errmid" => {
            [&head[..], &calls[..1], &[error(503, "UNAVAILABLE", "The model is overloaded.")]].concat()
        }
        "echokey200" => [&head[..], &[error(401, "UNAUTHENTICATED", &script::echo(key))]].concat(),
        "badjson" => {
            let broken = ScriptedEvent::raw("", r#"{"candidates":[{"con"#);
            [&head[..1], &[broken], &head[1..], &calls, &[end]].concat()
        }
        "badargs" => [&head[..], &[malformed()]].concat(),
        _ => [&head[..], &calls, &[end]].concat(),
    }
}

fn chunk(parts: &[Value]) -> ScriptedEvent {
    ScriptedEvent::data(&json!({"candidates": [{"content": {"parts": parts, "role": "model"}, "index": 0}],
        "modelVersion": "gemini-x", "responseId": "r1", "usageMetadata": {"promptTokenCount": 100, "totalTokenCount": 100}}))
}

fn end(parts: &[Value], reason: &str) -> ScriptedEvent {
    ScriptedEvent::data(
        &json!({"candidates": [{"content": {"parts": parts, "role": "model"}, "index": 0, "finishReason": reason}],
        "modelVersion": "gemini-x", "responseId": "r1", "usageMetadata": usage()}),
    )
}

fn usage() -> Value {
    json!({"promptTokenCount": 100, "candidatesTokenCount": 15, "thoughtsTokenCount": 5, "cachedContentTokenCount": 64,
        "totalTokenCount": 120})
}

/// The signature of a text is on an empty part of the last event.
fn signed_end(signature: &str) -> ScriptedEvent {
    end(&[json!({"text": "", "thoughtSignature": signature})], "STOP")
}

/// A candidate without content.
fn refused() -> ScriptedEvent {
    ScriptedEvent::data(&json!({"candidates": [{"finishReason": "SAFETY", "index": 0, "safetyRatings": [
            {"category": "HARM_CATEGORY_DANGEROUS_CONTENT", "probability": "HIGH", "blocked": true}]}],
        "modelVersion": "gemini-x", "responseId": "r1", "usageMetadata": usage()}))
}

/// The prompt was blocked: there is no candidate.
fn blocked() -> ScriptedEvent {
    ScriptedEvent::data(
        &json!({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "modelVersion": "gemini-x",
        "responseId": "r1", "usageMetadata": {"promptTokenCount": 100, "totalTokenCount": 100}}),
    )
}

fn malformed() -> ScriptedEvent {
    ScriptedEvent::data(&json!({"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL", "index": 0}],
        "usageMetadata": {"promptTokenCount": 100}}))
}

fn error(code: u16, status: &str, message: &str) -> ScriptedEvent {
    ScriptedEvent::data(&json!({"error": {"code": code, "message": message, "status": status}}))
}

fn thought(text: &str) -> Value {
    json!({"text": text, "thought": true})
}

fn text(text: &str) -> Value {
    json!({"text": text})
}

/// Only the first of several parallel calls has a signature.
fn calls(scenario: &str) -> Vec<ScriptedEvent> {
    let [first_id, second_id] = script::ids(scenario, ["fc-AAA", "fc-BBB"]);
    let mut first = call(first_id, &json!({"city": "Zürich", "n": 1}));
    first["thoughtSignature"] = json!(SIGNATURE);
    let second = call(second_id, &json!({"city": "Tōkyō"}));
    match scenario {
        "sameidx" => vec![chunk(&[first, second])],
        "gapidx" => vec![chunk(&[first, text(""), second])],
        _ => vec![chunk(&[first]), chunk(&[second])],
    }
}

fn call(id: Option<&str>, args: &Value) -> Value {
    let mut call = json!({"name": "get_weather", "args": args});
    if let Some(id) = id {
        call["id"] = json!(id);
    }
    json!({"functionCall": call})
}
