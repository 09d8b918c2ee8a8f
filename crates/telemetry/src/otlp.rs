//! Spans as OTLP in JSON.

use adk::trace::{Span, SpanKind};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The body of an export request.
pub(super) fn request(service: &str, spans: &[Arc<Span>]) -> Value {
    let version = env!("CARGO_PKG_VERSION");
    let resource = Map::from_iter([
        ("service.name".to_owned(), service.into()),
        ("service.version".to_owned(), version.into()),
        ("telemetry.sdk.name".to_owned(), "lango".into()),
        ("telemetry.sdk.language".to_owned(), "rust".into()),
    ]);
    let spans: Vec<Value> = spans.iter().map(|span| span_json(span)).collect();
    json!({"resourceSpans": [{
        "resource": {"attributes": attributes(&resource)},
        "scopeSpans": [{"scope": {"name": "lango", "version": version}, "spans": spans}],
    }]})
}

fn span_json(span: &Span) -> Value {
    let mut json = json!({
        "traceId": format!("{:032x}", span.trace_id),
        "spanId": format!("{:016x}", span.span_id),
        "flags": u8::from(span.sampled),
        "name": span.name,
        "kind": match span.kind {
            SpanKind::Internal => 1,
            SpanKind::Server => 2,
            SpanKind::Client => 3,
        },
        "startTimeUnixNano": span.start.to_string(),
        "endTimeUnixNano": span.end.to_string(),
        "attributes": attributes(&span.attributes),
    });
    if let Some(parent) = span.parent {
        json["parentSpanId"] = format!("{parent:016x}").into();
    }
    if let Some(error) = &span.error {
        json["status"] = json!({"code": 2, "message": error});
    }
    json
}

fn attributes(attributes: &Map<String, Value>) -> Vec<Value> {
    attributes.iter().map(|(key, value)| json!({"key": key, "value": any_value(value)})).collect()
}

/// OTLP writes 64-bit integers as strings.
fn any_value(value: &Value) -> Value {
    match value {
        Value::Bool(flag) => json!({"boolValue": flag}),
        Value::Number(number) if number.is_f64() => json!({"doubleValue": number}),
        Value::Number(number) => json!({"intValue": number.to_string()}),
        Value::String(text) => json!({"stringValue": text}),
        Value::Array(items) => {
            json!({"arrayValue": {"values": items.iter().map(any_value).collect::<Vec<_>>()}})
        }
        Value::Null | Value::Object(_) => json!({"stringValue": value.to_string()}),
    }
}
