//! The tools of ADK's canned test agent as stubs, and the placeholder syntax.

use std::sync::Arc;

use super::*;
use crate::testing::{RecordingHost, request};

fn stub(config: Value) -> StubTool {
    serde_json::from_value::<StubConfig>(config).unwrap().into()
}

async fn call_stub(config: Value, args: Value) -> Result<ToolReply, String> {
    let host = Arc::default();
    stub(config).call(request(&host, args)).await.map_err(|error| error.to_string())
}

#[tokio::test]
async fn canned_get_weather_returns_its_argument() {
    let config = json!({"name": "get_weather", "description": "Gets the weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        "response": {"status": "ok", "city": "{city}", "report": "sunny, 21C"}});
    let answer = call_stub(config, json!({"city": "Paris"})).await;
    assert_eq!(answer, Ok(ToolReply::Done(json!({"status": "ok", "city": "Paris", "report": "sunny, 21C"}))));
}

#[tokio::test]
async fn canned_set_state_sets_all_four_scopes() {
    let config = json!({"name": "set_state", "response": {"status": "set"},
        "state": {"plain_key": "{value}", "user:u_key": "{value}", "app:a_key": "{value}", "temp:t_key": "{value}"}});
    let host = Arc::new(RecordingHost::default());
    let answer = stub(config).call(request(&host, json!({"value": "v1"}))).await.unwrap();
    assert_eq!(answer, ToolReply::Done(json!({"status": "set"})));
    for key in ["plain_key", "user:u_key", "app:a_key", "temp:t_key"] {
        assert_eq!(host.state(key), Some(json!("v1")), "{key}");
    }
}

#[tokio::test]
async fn canned_make_artifact_returns_the_version() {
    let config = json!({"name": "make_artifact", "response": {"version": "{artifact.version}"},
        "artifact": {"name": "{name}", "mime_type": "text/plain", "text": "artifact body"}});
    let host = Arc::new(RecordingHost::default());
    let tool = stub(config);
    for version in 0..2 {
        let answer = tool.call(request(&host, json!({"name": "hello.txt"}))).await.unwrap();
        assert_eq!(answer, ToolReply::Done(json!({"version": version})));
    }
    let file = ArtifactFile {
        mime_type: "text/plain".to_owned(),
        body: ArtifactBody::Text("artifact body".to_owned()),
    };
    assert_eq!(host.artifacts.lock().unwrap()[0], ("hello.txt".to_owned(), file));
}

#[tokio::test]
async fn canned_danger_requires_confirmation() {
    let config = json!({"name": "danger", "confirm": true, "response": {"done": "{what}"}});
    assert!(stub(config.clone()).spec().confirm);
    assert_eq!(call_stub(config, json!({"what": "rm"})).await, Ok(ToolReply::Done(json!({"done": "rm"}))));
}

#[tokio::test]
async fn canned_slow_job_returns_pending() {
    let config =
        json!({"name": "slow_job", "pending": true, "response": {"status": "pending", "job": "{job}"}});
    assert!(stub(config.clone()).spec().long_running);
    let answer = call_stub(config, json!({"job": "j1"})).await;
    assert_eq!(answer, Ok(ToolReply::Pending(Some(json!({"status": "pending", "job": "j1"})))));
}

#[tokio::test]
async fn canned_bad_tool_fails_with_its_text() {
    let config = json!({"name": "bad_tool", "fail": "bad_tool failed"});
    assert_eq!(call_stub(config, json!({"x": 1})).await, Err("bad_tool failed".to_owned()));
}

#[tokio::test]
async fn lone_placeholder_keeps_the_argument_type_and_embedded_one_becomes_text() {
    let config = json!({"name": "echo", "response": {"n": "{n}", "list": ["{n}", "n={n}!", "{o}: {s}"], "deep": {"o": "{o}"}}});
    let answer = call_stub(config, json!({"n": 7, "s": "x {n}", "o": {"k": [1]}})).await;
    let expected = json!({"n": 7, "list": [7, "n=7!", "{\"k\":[1]}: x {n}"], "deep": {"o": {"k": [1]}}});
    assert_eq!(answer, Ok(ToolReply::Done(expected)));
}

#[test]
fn unknown_placeholders_are_left_unchanged() {
    let args = Map::from_iter([("a".to_owned(), json!(1))]);
    for (template, filled) in
        [("{b}", "{b}"), ("{{a}}", "{1}"), ("{", "{"), ("}{", "}{"), ("{a", "{a"), ("{é{a}", "{é1"), ("", "")]
    {
        assert_eq!(fill_text(template, &args), filled, "{template}");
    }
}

#[tokio::test(start_paused = true)]
async fn delay_is_awaited_and_ends_when_the_turn_is_cancelled() {
    let slow = json!({"name": "slow", "delay_ms": 60_000, "response": "done"});
    let started = tokio::time::Instant::now();
    assert_eq!(call_stub(slow.clone(), json!({})).await, Ok(ToolReply::Done(json!("done"))));
    assert!(started.elapsed() >= Duration::from_mins(1));

    let host = Arc::new(RecordingHost { cancelled: true, ..RecordingHost::default() });
    let answer = stub(slow).call(request(&host, json!({}))).await;
    assert!(matches!(answer, Err(ToolsError::Cancelled)));
}

#[tokio::test]
#[should_panic(expected = "boom panics, as configured")]
async fn configured_panic_panics() {
    let _ = call_stub(json!({"name": "boom", "panic": true}), json!({})).await;
}

#[test]
fn unknown_key_is_named_in_the_error() {
    let error =
        serde_json::from_value::<StubConfig>(json!({"name": "x", "respnse": {}})).unwrap_err().to_string();
    assert!(error.contains("unknown field `respnse`"), "{error}");
}
