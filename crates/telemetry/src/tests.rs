//! The OTLP encoding of spans, and unresponsive or unreachable collectors.

use super::{Collector, ExportCounts, Telemetry, otlp};
use adk::{
    session::SessionKey,
    trace::{Span, SpanKind},
};
use insta::assert_snapshot;
use serde_json::{Map, json};
use std::{sync::Arc, time::Duration};

pub(super) fn span(number: u64) -> Span {
    Span {
        trace_id: 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736,
        span_id: number,
        parent: None,
        sampled: true,
        name: format!("span {number}"),
        kind: SpanKind::Internal,
        start: 1_000,
        end: 2_000,
        attributes: Map::new(),
        error: None,
        first_token: None,
        session: None,
    }
}

fn collector(url: &str) -> Collector {
    Collector { url: url.to_owned(), headers: Vec::new(), service: "lango".to_owned(), content: false }
}

#[test]
fn a_span_is_encoded_as_otlp_json() {
    let mut one =
        Span { parent: Some(7), kind: SpanKind::Client, error: Some("timeout".to_owned()), ..span(255) };
    let all = json!({"text": "a", "whole": 5, "part": 0.5, "flag": true, "list": ["stop"]});
    one.attributes = all.as_object().unwrap().clone();
    let request = otlp::request("mine", &[Arc::new(one)]);
    assert_snapshot!(request["resourceSpans"][0]["scopeSpans"][0]["spans"][0].to_string(), @r#"{"traceId":"4bf92f3577b34da6a3ce929d0e0e4736","spanId":"00000000000000ff","flags":1,"name":"span 255","kind":3,"startTimeUnixNano":"1000","endTimeUnixNano":"2000","attributes":[{"key":"text","value":{"stringValue":"a"}},{"key":"whole","value":{"intValue":"5"}},{"key":"part","value":{"doubleValue":0.5}},{"key":"flag","value":{"boolValue":true}},{"key":"list","value":{"arrayValue":{"values":[{"stringValue":"stop"}]}}}],"parentSpanId":"0000000000000007","status":{"code":2,"message":"timeout"}}"#);
    assert_snapshot!(request["resourceSpans"][0]["resource"]["attributes"][0], @r#"{"key":"service.name","value":{"stringValue":"mine"}}"#);
}

#[tokio::test]
async fn an_unresponsive_collector_does_not_block_and_dropped_spans_are_counted() {
    // Accepts connections and never responds.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1/traces", silent.local_addr().unwrap());
    let telemetry = Telemetry::new(Some(collector(&url))).unwrap();
    for _ in 0..5_000 {
        drop(telemetry.trace().begin(SpanKind::Internal, || "span".to_owned()));
    }
    let dropped = telemetry.counts().dropped;
    // Spans beyond the queue are dropped; one batch may be in flight.
    assert!((5_000 - 2_048 - 512..=5_000 - 2_048).contains(&dropped), "{dropped}");
    telemetry.flush(Duration::from_millis(10)).await;
    assert_eq!(telemetry.counts().sent, 0);
}

#[tokio::test]
async fn an_unreachable_collector_drops_spans_only() {
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1/traces", closed.local_addr().unwrap());
    drop(closed);
    let telemetry = Telemetry::new(Some(collector(&url))).unwrap();
    drop(telemetry.trace().begin(SpanKind::Internal, || "span".to_owned()));
    telemetry.flush(Duration::from_secs(5)).await;
    assert_eq!(telemetry.counts(), ExportCounts { sent: 0, dropped: 1 });
}

#[tokio::test]
async fn an_unsampled_trace_is_buffered_and_not_exported() {
    let telemetry = Telemetry::new(Some(collector("http://127.0.0.1:9/v1/traces"))).unwrap();
    let key = SessionKey::new("app", "ann", "s");
    let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
    drop(telemetry.continued(Some(header)).of_session(&key).begin(SpanKind::Internal, || "span".to_owned()));
    telemetry.flush(Duration::from_secs(5)).await;
    assert_eq!(telemetry.counts(), ExportCounts::default());
    let buffered = telemetry.matching(|_| true);
    assert_eq!((buffered.len(), buffered[0].session.as_deref()), (1, Some(&key)));
}

#[test]
fn an_invalid_url_is_named_in_the_error() {
    assert_eq!(
        Telemetry::new(Some(collector("collector"))).unwrap_err(),
        "collector is not a URL that begins with http:// or https://"
    );
}
