//! Streams as the server sends them, and the events that they decode to.

use super::*;
use crate::{ModelMessage, Role, ToolResult, gemini::encode, test_fixture};
use insta::assert_snapshot;
use serde_json::{Value, json};

fn decode(stream: &str) -> String {
    test_fixture::describe_stream(GeminiDecoder::new("gemini", &ModelRequest::default()), stream)
}

const SIGNATURE: &str = "CpcBAVSoXO5ha2V0aG91Z2h0c2ln+/==";

/// A chunk with these parts.
fn chunk(parts: &Value) -> String {
    json!({
        "candidates": [{"content": {"parts": parts, "role": "model"}, "index": 0}],
        "usageMetadata": {"promptTokenCount": 100, "totalTokenCount": 100},
        "modelVersion": "gemini-x", "responseId": "r1",
    })
    .to_string()
}

/// The last chunk.
fn end(reason: &str) -> String {
    json!({
        "candidates": [{"content": {"parts": [{"text": ""}], "role": "model"}, "finishReason": reason, "index": 0}],
        "usageMetadata": {"promptTokenCount": 100, "candidatesTokenCount": 15, "thoughtsTokenCount": 5, "cachedContentTokenCount": 64, "totalTokenCount": 120},
    })
    .to_string()
}

fn text_chunks() -> String {
    [
        chunk(&json!([{"text": "Let me think.", "thought": true}])),
        chunk(&json!([{"text": "Grüß "}])),
        chunk(&json!([{"text": "dich 🌍"}])),
    ]
    .join("\n")
}

fn call_chunks() -> String {
    [
        chunk(&json!([{"functionCall": {"id": "fc-AAA", "name": "get_weather", "args": {"city": "Zürich", "n": 1}}, "thoughtSignature": SIGNATURE}])),
        chunk(&json!([{"functionCall": {"id": "fc-BBB", "name": "get_weather", "args": {"city": "Tōkyō"}}}])),
    ]
    .join("\n")
}

fn stream(chunks: &[&str]) -> String {
    chunks.join("\n")
}

#[test]
fn text_is_streamed_and_calls_are_emitted_at_the_end() {
    assert_snapshot!(decode(&stream(&[&text_chunks(), &call_chunks(), &end("STOP")])), @r#"
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
fn signature_is_emitted_with_its_part() {
    let parts = json!([
        {"text": "hm", "thought": true, "thoughtSignature": "QQ=="},
        {"text": "so", "thoughtSignature": "Qg=="},
        {"text": "and"},
        {"text": "", "thoughtSignature": "Qw=="},
        {"thoughtSignature": "RA=="},
    ]);
    assert_snapshot!(decode(&stream(&[&chunk(&parts), &end("STOP")])), @r#"
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
fn stream_without_a_finish_reason_is_truncated_and_has_no_calls() {
    assert_snapshot!(decode(&stream(&[&text_chunks(), &call_chunks()])), @r#"
    thought "Let me think."
    text "Grüß "
    text "dich 🌍"
    error TRUNCATED: gemini ended the stream before the answer was complete
    "#);
    assert_snapshot!(decode(""), @"error TRUNCATED: gemini ended the stream before the answer was complete");
    let unspecified = end("FINISH_REASON_UNSPECIFIED");
    assert_snapshot!(decode(&unspecified), @"error TRUNCATED: gemini ended the stream before the answer was complete");
}

#[test]
fn repeated_finish_reason_does_not_end_the_stream() {
    let text_chunk = |text: &str| {
        json!({"candidates": [{"content": {"parts": [{"text": text}]}, "finishReason": "STOP"}]}).to_string()
    };
    assert_snapshot!(decode(&stream(&[&text_chunk("one"), &text_chunk("two")])), @r#"
    text "one"
    text "two"
    done Stop ?
    "#);
}

#[test]
fn error_object_ends_the_stream() {
    let error = r#"{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}"#;
    assert_snapshot!(decode(&stream(&[&text_chunks(), &call_chunks(), error, &end("STOP")])), @r#"
    thought "Let me think."
    text "Grüß "
    text "dich 🌍"
    error TRANSIENT: gemini is temporarily unavailable: The model is overloaded.
    "#);
}

#[test]
fn invalid_json_frame_is_a_protocol_error_with_a_short_quote() {
    let broken = format!(r#"{{"candidates":[{{"con{}"#, "x".repeat(500));
    assert_snapshot!(decode(&stream(&[&broken, &text_chunks(), &end("STOP")])), @r#"error PROTOCOL: gemini sent a response that cannot be parsed: {"candidates":[{"conxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"#);
    assert_snapshot!(decode(r#"{"candidates":"none"}"#), @r#"error PROTOCOL: gemini sent a response that cannot be parsed: {"candidates":"none"}"#);
}

#[test]
fn token_limit_keeps_complete_calls() {
    assert_snapshot!(decode(&stream(&[&call_chunks(), &end("MAX_TOKENS")])), @r#"
    call "fc-AAA" get_weather {"city":"Zürich","n":1} signed CpcBAVSoXO5ha2V0aG91Z2h0c2ln+/==
    call "fc-BBB" get_weather {"city":"Tōkyō"}
    usage in 100 cached 64 out 15 reasoning 5
    done Length gemini-x
    "#);
}

#[test]
fn provider_stop_keeps_its_code_and_a_malformed_call_is_an_error() {
    let reasons = ["SAFETY", "RECITATION", "SPII", "IMAGE_SAFETY", "SOMETHING_NEW"];
    let lines = reasons.map(|reason| {
        decode(&stream(&[&call_chunks(), &end(reason)])).lines().last().unwrap_or_default().to_owned()
    });
    assert_snapshot!(lines.join("\n"), @r#"
    done Filtered { code: "SAFETY", message: "the provider stopped the answer" } gemini-x
    done Filtered { code: "RECITATION", message: "the provider stopped the answer" } gemini-x
    done Filtered { code: "SPII", message: "the provider stopped the answer" } gemini-x
    done Filtered { code: "IMAGE_SAFETY", message: "the provider stopped the answer" } gemini-x
    done Filtered { code: "SOMETHING_NEW", message: "the provider stopped the answer" } gemini-x
    "#);
    let malformed = r#"{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL","finishMessage":"Malformed function call: print(1)","index":0}],"usageMetadata":{"promptTokenCount":100}}"#;
    assert_snapshot!(decode(&stream(&[&text_chunks(), &call_chunks(), malformed])), @r#"
    thought "Let me think."
    text "Grüß "
    text "dich 🌍"
    error MALFORMED_FUNCTION_CALL: gemini could not read the model's tool call: Malformed function call: print(1)
    "#);
    assert_snapshot!(decode(&end("UNEXPECTED_TOOL_CALL")), @r#"
    usage in 100 cached 64 out 15 reasoning 5
    done Refused { code: "UNEXPECTED_TOOL_CALL", message: "the model called a function that is not declared" } ?
    "#);
}

#[test]
fn blocked_prompt_is_a_refusal() {
    let blocked = r#"{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"},"usageMetadata":{"promptTokenCount":9},"modelVersion":"gemini-x"}"#;
    assert_snapshot!(decode(blocked), @r#"
    usage in 9 cached 0 out 0 reasoning 0
    done Refused { code: "PROHIBITED_CONTENT", message: "the provider blocked the prompt" } gemini-x
    "#);
}

#[test]
fn parts_after_a_call_keep_their_order() {
    let parts = json!([
        {"text": "first"},
        {"functionCall": {"name": "f", "args": {"n": 1}}},
        {"text": "between"},
        {"text": "hm", "thought": true},
        {"functionCall": {"name": "f"}},
        {"text": "", "thoughtSignature": "QQ=="},
    ]);
    assert_snapshot!(decode(&stream(&[&chunk(&parts), &end("STOP")])), @r#"
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
fn malformed_arguments_are_kept_verbatim() {
    let parts = json!([{"functionCall": {"name": "f", "args": [1, 2]}}, {"functionCall": {"name": "f", "args": null}}]);
    assert_snapshot!(decode(&stream(&[&chunk(&parts), &end("STOP")])), @r#"
    call "" f malformed "[1,2]"
    call "" f {}
    usage in 100 cached 64 out 15 reasoning 5
    done Stop gemini-x
    "#);
}

#[test]
fn files_and_executed_code_become_text() {
    let parts = json!([
        {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
        {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://b/v.mp4", "displayName": "v.mp4"}},
        {"executableCode": {"language": "PYTHON", "code": "print(1)"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
        {"videoMetadata": {"fps": 1}},
    ]);
    assert_snapshot!(decode(&stream(&[&chunk(&parts), &end("STOP")])), @r#"
    text "[a file (image/png), not shown]"
    text "[v.mp4 (video/mp4) at gs://b/v.mp4, not shown]"
    text "\n```\nprint(1)\n```\n"
    text "\n```\n1\n```\n"
    usage in 100 cached 64 out 15 reasoning 5
    done Stop gemini-x
    "#);
}

#[test]
fn second_candidate_is_ignored() {
    let both = r#"{"candidates":[{"content":{"parts":[{"text":"other"}]},"index":1},{"content":{"parts":[{"text":"this"}]},"index":0}]}"#;
    assert_snapshot!(decode(&stream(&[both, &end("STOP")])), @r#"
    text "this"
    usage in 100 cached 64 out 15 reasoning 5
    done Stop ?
    "#);
}

#[test]
fn tool_call_has_the_original_tool_name() {
    let mut request = test_fixture::request();
    request.tools[0].name = "weather.get".to_owned();
    let call = chunk(&json!([{"functionCall": {"name": "weather_get", "args": {}}}]));
    let decoded = test_fixture::describe_stream(
        GeminiDecoder::new("gemini", &request),
        &stream(&[&call, &end("STOP")]),
    );
    assert_snapshot!(decoded.lines().next().unwrap_or_default(), @r#"call "" weather.get {}"#);
}

#[test]
fn corrupted_stream_emits_calls_only_with_done() {
    let corrupted = test_fixture::corrupted_streams(&stream(&[
        &text_chunks(),
        &call_chunks(),
        &text_chunks(),
        &end("STOP"),
    ]));
    assert!(corrupted.len() > 200);
    for stream in corrupted {
        test_fixture::assert_calls_only_with_done(
            GeminiDecoder::new("gemini", &ModelRequest::default()),
            &stream,
        );
    }
}

#[test]
fn decoded_answers_encode_to_the_same_parts() {
    let first_answer =
        stream(&[&text_chunks(), &call_chunks(), &chunk(&json!([{"text": "Wait."}])), &end("STOP")]);
    let signed = chunk(&json!([{"text": "", "thoughtSignature": SIGNATURE}]));
    let second_answer = stream(&[&text_chunks(), &signed, &end("STOP")]);
    let assembled = |stream: &str| {
        test_fixture::assemble_message(
            test_fixture::decode_stream(GeminiDecoder::new("gemini", &ModelRequest::default()), stream).0,
        )
    };
    let answer = |id: &str| {
        let (id, name) = (id.to_owned(), "get_weather".to_owned());
        crate::MessagePart::from(ToolResult { id, name, response: json!({"sky": "blue"}) })
    };
    let messages = vec![
        ModelMessage::text(Role::User, "Zürich and Tōkyō?"),
        assembled(&first_answer),
        ModelMessage::new(Role::Tool, vec![answer("fc-BBB"), answer("fc-AAA")]),
        assembled(&second_answer),
        ModelMessage::text(Role::User, "Thanks."),
    ];
    let body =
        encode(&ModelRequest { model: "gemini-3-pro".to_owned(), messages, ..ModelRequest::default() }, true);
    // A thought without a signature is a summary for people and is not sent back.
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

#[test]
fn sources_log_probabilities_and_token_details_are_kept() {
    let frames = r#"
{"candidates":[{"content":{"parts":[{"text":"a"}]},"citationMetadata":{"citationSources":[{"startIndex":0,"uri":"https://b.test/"}]},"groundingMetadata":{}}]}
{"candidates":[{"content":{"parts":[{"text":"b"}]},"finishReason":"STOP","groundingMetadata":{"groundingChunks":[{"web":{"uri":"https://a.test/","title":"A"}}]},"avgLogprobs":-0.5,"logprobsResult":{"logProbabilitySum":-1.0}}],"usageMetadata":{"promptTokenCount":3,"promptTokensDetails":[{"modality":"AUDIO","tokenCount":2}]}}"#;
    assert_snapshot!(decode(frames), @r#"
    text "a"
    text "b"
    usage in 3 cached 0 out 0 reasoning 0
    done Stop ?
    {"citationMetadata":{"citations":[{"startIndex":0,"uri":"https://b.test/"}]},"groundingMetadata":{"groundingChunks":[{"web":{"uri":"https://a.test/","title":"A"}}]},"avgLogprobs":-0.5,"logprobsResult":{"logProbabilitySum":-1.0}}
    {"promptTokensDetails":[{"modality":"AUDIO","tokenCount":2}]}
    "#);
}
