//! Spans as a collector gets them, and collectors that are slow or not there.

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
fn a_span_is_written_as_otlp_wants_it() {
    let mut one =
        Span { parent: Some(7), kind: SpanKind::Client, error: Some("timeout".to_owned()), ..span(255) };
    let all = json!({"text": "a", "whole": 5, "part": 0.5, "flag": true, "list": ["stop"]});
    one.attributes = all.as_object().unwrap().clone();
    let request = otlp::request("mine", &[Arc::new(one)]);
    assert_snapshot!(request["resourceSpans"][0]["scopeSpans"][0]["spans"][0].to_string(), @r#"{"traceId":"4bf92f3577b34da6a3ce929d0e0e4736","spanId":"00000000000000ff","flags":1,"name":"span 255","kind":3,"startTimeUnixNano":"1000","endTimeUnixNano":"2000","attributes":[{"key":"text","value":{"stringValue":"a"}},{"key":"whole","value":{"intValue":"5"}},{"key":"part","value":{"doubleValue":0.5}},{"key":"flag","value":{"boolValue":true}},{"key":"list","value":{"arrayValue":{"values":[{"stringValue":"stop"}]}}}],"parentSpanId":"0000000000000007","status":{"code":2,"message":"timeout"}}"#);
    assert_snapshot!(request["resourceSpans"][0]["resource"]["attributes"][0], @r#"{"key":"service.name","value":{"stringValue":"mine"}}"#);
}

#[tokio::test]
async fn a_collector_that_does_not_answer_holds_nobody_and_what_is_lost_is_counted() {
    // It takes connections and never says a word.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1/traces", silent.local_addr().unwrap());
    let telemetry = Telemetry::new(Some(collector(&url))).unwrap();
    for _ in 0..5_000 {
        drop(telemetry.trace().begin(SpanKind::Internal, || "span".to_owned()));
    }
    let lost = telemetry.counts().dropped;
    // What is not in the queue is lost, and a batch may be on its way.
    assert!((5_000 - 2_048 - 512..=5_000 - 2_048).contains(&lost), "{lost}");
    telemetry.flush(Duration::from_millis(10)).await;
    assert_eq!(telemetry.counts().sent, 0);
}

#[tokio::test]
async fn a_collector_that_is_not_there_loses_spans_and_nothing_else() {
    let nobody = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1/traces", nobody.local_addr().unwrap());
    drop(nobody);
    let telemetry = Telemetry::new(Some(collector(&url))).unwrap();
    drop(telemetry.trace().begin(SpanKind::Internal, || "span".to_owned()));
    telemetry.flush(Duration::from_secs(5)).await;
    assert_eq!(telemetry.counts(), ExportCounts { sent: 0, dropped: 1 });
}

#[tokio::test]
async fn what_its_sender_did_not_want_recorded_is_kept_here_and_not_sent() {
    let telemetry = Telemetry::new(Some(collector("http://127.0.0.1:9/v1/traces"))).unwrap();
    let key = SessionKey::new("app", "ann", "s");
    let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
    drop(telemetry.continued(Some(header)).of_session(&key).begin(SpanKind::Internal, || "span".to_owned()));
    telemetry.flush(Duration::from_secs(5)).await;
    assert_eq!(telemetry.counts(), ExportCounts::default());
    let kept = telemetry.matching(|_| true);
    assert_eq!((kept.len(), kept[0].session.as_deref()), (1, Some(&key)));
}

#[test]
fn an_address_that_is_none_is_named() {
    assert_eq!(
        Telemetry::new(Some(collector("collector"))).unwrap_err(),
        "collector is not a URL that begins with http:// or https://"
    );
}
