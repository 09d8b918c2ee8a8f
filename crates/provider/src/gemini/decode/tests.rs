//! Streams in the shapes that the server sends, and what becomes of them.

use super::*;
use crate::{ModelMessage, Role, ToolResult, fixture, gemini::encode};
use insta::assert_snapshot;
use serde_json::json;

fn heard(stream: &str) -> String {
    fixture::heard(GeminiDecoder::new("gemini", &ModelRequest::default()), stream)
}

const SIGNATURE: &str = "CpcBAVSoXO5ha2V0aG91Z2h0c2ln+/==";

/// A piece with these parts.
fn piece(parts: &Value) -> String {
    json!({
        "candidates": [{"content": {"parts": parts, "role": "model"}, "index": 0}],
        "usageMetadata": {"promptTokenCount": 100, "totalTokenCount": 100},
        "modelVersion": "gemini-x", "responseId": "r1",
    })
    .to_string()
}

/// The last piece.
fn end(reason: &str) -> String {
    json!({
        "candidates": [{"content": {"parts": [{"text": ""}], "role": "model"}, "finishReason": reason, "index": 0}],
        "usageMetadata": {"promptTokenCount": 100, "candidatesTokenCount": 15, "thoughtsTokenCount": 5, "cachedContentTokenCount": 64, "totalTokenCount": 120},
    })
    .to_string()
}

fn talk() -> String {
    [
        piece(&json!([{"text": "Let me think.", "thought": true}])),
        piece(&json!([{"text": "Grüß "}])),
        piece(&json!([{"text": "dich 🌍"}])),
    ]
    .join("\n")
}

fn calls() -> String {
    [
        piece(&json!([{"functionCall": {"id": "fc-AAA", "name": "get_weather", "args": {"city": "Zürich", "n": 1}}, "thoughtSignature": SIGNATURE}])),
        piece(&json!([{"functionCall": {"id": "fc-BBB", "name": "get_weather", "args": {"city": "Tōkyō"}}}])),
    ]
    .join("\n")
}

fn stream(pieces: &[&str]) -> String {
    pieces.join("\n")
}

#[test]
fn thoughts_and_text_come_at_once_and_calls_before_the_end() {
    assert_snapshot!(heard(&stream(&[&talk(), &calls(), &end("STOP")])), @r#"
    thought "Let me think."
    text "Grüß "
    text "dich 🌍"
    call "fc-AAA" get_weather {"city":"Zürich","n":1} signed CpcBAVSoXO5ha2V0aG91Z2h0c2ln+/==
    call "fc-BBB" get_weather {"city":"Tōkyō"}
    usage in 100 cached 64 out 15 reasoning 5
    done Stop gemini-x
    "#);
}

#[test]
fn a_signature_comes_with_the_part_that_it_ends() {
    let parts = json!([
        {"text": "hm", "thought": true, "thoughtSignature": "QQ=="},
        {"text": "so", "thoughtSignature": "Qg=="},
        {"text": "and"},
        {"text": "", "thoughtSignature": "Qw=="},
        {"thoughtSignature": "RA=="},
    ]);
    assert_snapshot!(heard(&stream(&[&piece(&parts), &end("STOP")])), @r#"
    thought "hm" signed QQ==
    text "so" signed Qg==
    text "and"
    text "" signed Qw==
    text "" signed RA==
    usage in 100 cached 64 out 15 reasoning 5
    done Stop gemini-x
    "#);
}

#[test]
fn a_stream_that_ends_early_is_cut_off_and_runs_nothing() {
    assert_snapshot!(heard(&stream(&[&talk(), &calls()])), @r#"
    thought "Let me think."
    text "Grüß "
    text "dich 🌍"
    error TRUNCATED: gemini ended the stream before the answer was complete
    "#);
    assert_snapshot!(heard(""), @"error TRUNCATED: gemini ended the stream before the answer was complete");
    let unspecified = end("FINISH_REASON_UNSPECIFIED");
    assert_snapshot!(heard(&unspecified), @"error TRUNCATED: gemini ended the stream before the answer was complete");
}

#[test]
fn a_reason_that_comes_with_every_piece_ends_nothing() {
    let said = |text: &str| {
        json!({"candidates": [{"content": {"parts": [{"text": text}]}, "finishReason": "STOP"}]}).to_string()
    };
    assert_snapshot!(heard(&stream(&[&said("one"), &said("two")])), @r#"
    text "one"
    text "two"
    done Stop ?
    "#);
}

#[test]
fn an_error_in_mid_stream_ends_it() {
    let error = r#"{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}"#;
    assert_snapshot!(heard(&stream(&[&talk(), &calls(), error, &end("STOP")])), @r#"
    thought "Let me think."
    text "Grüß "
    text "dich 🌍"
    error TRANSIENT: gemini is temporarily unavailable: The model is overloaded.
    "#);
}

#[test]
fn a_frame_that_is_no_json_is_an_error_that_quotes_little_of_it() {
    let broken = format!(r#"{{"candidates":[{{"con{}"#, "x".repeat(500));
    assert_snapshot!(heard(&stream(&[&broken, &talk(), &end("STOP")])), @r#"error PROTOCOL: gemini sent a response that cannot be parsed: {"candidates":[{"conxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"#);
    assert_snapshot!(heard(r#"{"candidates":"none"}"#), @r#"error PROTOCOL: gemini sent a response that cannot be parsed: {"candidates":"none"}"#);
}

#[test]
fn the_limit_ends_an_answer_and_leaves_whole_calls() {
    assert_snapshot!(heard(&stream(&[&calls(), &end("MAX_TOKENS")])), @r#"
    call "fc-AAA" get_weather {"city":"Zürich","n":1} signed CpcBAVSoXO5ha2V0aG91Z2h0c2ln+/==
    call "fc-BBB" get_weather {"city":"Tōkyō"}
    usage in 100 cached 64 out 15 reasoning 5
    done Length gemini-x
    "#);
}

#[test]
fn an_answer_that_the_provider_stops_is_refused_with_its_code() {
    let reasons = ["SAFETY", "RECITATION", "SPII", "IMAGE_SAFETY", "SOMETHING_NEW"];
    let lines = reasons.map(|reason| {
        heard(&stream(&[&calls(), &end(reason)])).lines().last().unwrap_or_default().to_owned()
    });
    assert_snapshot!(lines.join("\n"), @r#"
    done Refused { code: "SAFETY", message: "the provider stopped the answer" } gemini-x
    done Refused { code: "RECITATION", message: "the provider stopped the answer" } gemini-x
    done Refused { code: "SPII", message: "the provider stopped the answer" } gemini-x
    done Refused { code: "IMAGE_SAFETY", message: "the provider stopped the answer" } gemini-x
    done Refused { code: "SOMETHING_NEW", message: "the provider stopped the answer" } gemini-x
    "#);
    let malformed = r#"{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL","finishMessage":"Malformed function call: print(1)","index":0}],"usageMetadata":{"promptTokenCount":100}}"#;
    assert_snapshot!(heard(&stream(&[&talk(), &calls(), malformed])), @r#"
    thought "Let me think."
    text "Grüß "
    text "dich 🌍"
    usage in 100 cached 0 out 0 reasoning 0
    done Refused { code: "MALFORMED_FUNCTION_CALL", message: "Malformed function call: print(1)" } gemini-x
    "#);
    assert_snapshot!(heard(&end("UNEXPECTED_TOOL_CALL")), @r#"
    usage in 100 cached 64 out 15 reasoning 5
    done Refused { code: "UNEXPECTED_TOOL_CALL", message: "the model called a tool that it was not given" } ?
    "#);
}

#[test]
fn a_prompt_that_is_blocked_is_refused() {
    let blocked = r#"{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"},"usageMetadata":{"promptTokenCount":9},"modelVersion":"gemini-x"}"#;
    assert_snapshot!(heard(blocked), @r#"
    usage in 9 cached 0 out 0 reasoning 0
    done Refused { code: "PROHIBITED_CONTENT", message: "the provider does not let the model see this request" } gemini-x
    "#);
}

#[test]
fn what_comes_after_a_call_keeps_its_place() {
    let parts = json!([
        {"text": "first"},
        {"functionCall": {"name": "f", "args": {"n": 1}}},
        {"text": "between"},
        {"text": "hm", "thought": true},
        {"functionCall": {"name": "f"}},
        {"text": "", "thoughtSignature": "QQ=="},
    ]);
    assert_snapshot!(heard(&stream(&[&piece(&parts), &end("STOP")])), @r#"
    text "first"
    call "" f {"n":1}
    text "between"
    thought "hm"
    call "" f {}
    text "" signed QQ==
    usage in 100 cached 64 out 15 reasoning 5
    done Stop gemini-x
    "#);
}

#[test]
fn arguments_that_are_no_object_come_as_they_were_written() {
    let parts = json!([{"functionCall": {"name": "f", "args": [1, 2]}}, {"functionCall": {"name": "f", "args": null}}]);
    assert_snapshot!(heard(&stream(&[&piece(&parts), &end("STOP")])), @r#"
    call "" f malformed "[1,2]"
    call "" f {}
    usage in 100 cached 64 out 15 reasoning 5
    done Stop gemini-x
    "#);
}

#[test]
fn what_has_no_place_in_an_answer_is_told() {
    let parts = json!([
        {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
        {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://b/v.mp4", "displayName": "v.mp4"}},
        {"executableCode": {"language": "PYTHON", "code": "print(1)"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
        {"videoMetadata": {"fps": 1}},
    ]);
    assert_snapshot!(heard(&stream(&[&piece(&parts), &end("STOP")])), @r#"
    text "[a file (image/png), not shown]"
    text "[v.mp4 (video/mp4) at gs://b/v.mp4, not shown]"
    text "\n```\nprint(1)\n```\n"
    text "\n```\n1\n```\n"
    usage in 100 cached 64 out 15 reasoning 5
    done Stop gemini-x
    "#);
}

#[test]
fn a_second_candidate_is_not_shown() {
    let both = r#"{"candidates":[{"content":{"parts":[{"text":"other"}]},"index":1},{"content":{"parts":[{"text":"this"}]},"index":0}]}"#;
    assert_snapshot!(heard(&stream(&[both, &end("STOP")])), @r#"
    text "this"
    usage in 100 cached 64 out 15 reasoning 5
    done Stop ?
    "#);
}

#[test]
fn a_name_that_had_to_change_comes_back_as_the_tool_is_called() {
    let mut request = fixture::request();
    request.tools[0].name = "weather.get".to_owned();
    let call = piece(&json!([{"functionCall": {"name": "weather_get", "args": {}}}]));
    let heard = fixture::heard(GeminiDecoder::new("gemini", &request), &stream(&[&call, &end("STOP")]));
    assert_snapshot!(heard.lines().next().unwrap_or_default(), @r#"call "" weather.get {}"#);
}

#[test]
fn whatever_becomes_of_a_stream_calls_leave_with_its_end_alone() {
    let spoiled = fixture::spoiled(&stream(&[&talk(), &calls(), &talk(), &end("STOP")]));
    assert!(spoiled.len() > 200);
    for stream in spoiled {
        fixture::assert_sound(GeminiDecoder::new("gemini", &ModelRequest::default()), &stream);
    }
}

#[test]
fn two_answers_go_back_part_for_part() {
    let calling = stream(&[&talk(), &calls(), &piece(&json!([{"text": "Wait."}])), &end("STOP")]);
    let signed = piece(&json!([{"text": "", "thoughtSignature": SIGNATURE}]));
    let telling = stream(&[&talk(), &signed, &end("STOP")]);
    let spoken = |stream: &str| {
        fixture::spoken(fixture::decoded(GeminiDecoder::new("gemini", &ModelRequest::default()), stream).0)
    };
    let answer = |id: &str| {
        let (id, name) = (id.to_owned(), "get_weather".to_owned());
        crate::MessagePart::from(ToolResult { id, name, response: json!({"sky": "blue"}) })
    };
    let messages = vec![
        ModelMessage::text(Role::User, "Zürich and Tōkyō?"),
        spoken(&calling),
        ModelMessage::new(Role::Tool, vec![answer("fc-BBB"), answer("fc-AAA")]),
        spoken(&telling),
        ModelMessage::text(Role::User, "Thanks."),
    ];
    let body =
        encode(&ModelRequest { model: "gemini-3-pro".to_owned(), messages, ..ModelRequest::default() }, true);
    // A thought without a signature is a summary for people and does not go back.
    assert_eq!(
        body["contents"][1]["parts"],
        json!([
            {"text": "Grüß dich 🌍"},
            {"functionCall": {"id": "fc-AAA", "name": "get_weather", "args": {"city": "Zürich", "n": 1}}, "thoughtSignature": SIGNATURE},
            {"functionCall": {"id": "fc-BBB", "name": "get_weather", "args": {"city": "Tōkyō"}}},
            {"text": "Wait."},
        ])
    );
    let answered: Vec<&Value> =
        (0..2).map(|at| &body["contents"][2]["parts"][at]["functionResponse"]["id"]).collect();
    assert_eq!(answered, ["fc-AAA", "fc-BBB"]);
    assert_eq!(
        body["contents"][3]["parts"],
        json!([{"text": "Grüß dich 🌍", "thoughtSignature": SIGNATURE}])
    );
}
