//! Conversations over HTTP: a provider gets its own content back unchanged, and any model can continue a session.

use crate::common::{CANARY, REST, StoredLog, TestEnv, api_name, provider};
use insta::assert_snapshot;
use serde_json::Value;
use session::SessionKey;
use std::process::Stdio;
use testkit::{ProviderApi, fakeprov::FakeProvider, legal};

/// The messages of a request body, one per line.
pub(crate) fn conversation(body: &Value) -> String {
    let list = ["messages", "contents", "input"].iter().find_map(|key| body[*key].as_array()).unwrap();
    let spoken = list.iter().filter(|item| item["role"] != "system");
    spoken.map(Value::to_string).collect::<Vec<_>>().join("\n")
}

/// Runs two turns in two processes, and returns the messages of the second turn's request: thinking, text, two calls, their
/// results.
fn second_request(api: ProviderApi) -> String {
    let fake = FakeProvider::start_blocking();
    let env = TestEnv::with_provider(&fake, api, "two");
    env.lango_with_key(&["run", "--session", "k", "weather?"]).success();
    env.lango_with_key(&["run", "--session", "k", "thanks"]).success();
    let requests = fake.requests();
    assert!(requests.len() >= 3, "{requests:?}");
    conversation(&requests[2].body)
}

#[test]
fn chat_completions_history_is_unchanged_after_a_restart() {
    assert_snapshot!(second_request(ProviderApi::OpenAi), @r#"
    {"role":"user","content":"weather?"}
    {"role":"assistant","content":"Grüß dich 🌍","tool_calls":[{"id":"call_AAA","type":"function","function":{"name":"get_weather","arguments":"{\"city\":\"Zürich\",\"n\":1}"}},{"id":"call_BBB","type":"function","function":{"name":"get_weather","arguments":"{\"city\":\"Tōkyō\"}"}}]}
    {"role":"tool","tool_call_id":"call_AAA","content":"{\"sky\":\"clear\"}"}
    {"role":"tool","tool_call_id":"call_BBB","content":"{\"sky\":\"clear\"}"}
    {"role":"assistant","content":"Zürich 21°, Tōkyō 28°."}
    {"role":"user","content":"thanks"}
    "#);
}

#[test]
fn responses_history_is_unchanged_after_a_restart() {
    assert_snapshot!(second_request(ProviderApi::Responses), @r#"
    {"type":"message","role":"user","content":[{"type":"input_text","text":"weather?"}]}
    {"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"Let me think."}],"encrypted_content":"ENC+/=="}
    {"type":"message","role":"assistant","content":[{"type":"output_text","text":"Grüß dich 🌍"}]}
    {"type":"function_call","call_id":"call_AAA","name":"get_weather","arguments":"{\"city\":\"Zürich\",\"n\":1}"}
    {"type":"function_call","call_id":"call_BBB","name":"get_weather","arguments":"{\"city\":\"Tōkyō\"}"}
    {"type":"function_call_output","call_id":"call_AAA","output":"{\"sky\":\"clear\"}"}
    {"type":"function_call_output","call_id":"call_BBB","output":"{\"sky\":\"clear\"}"}
    {"type":"reasoning","id":"rs_2","summary":[{"type":"summary_text","text":"Now I know."}],"encrypted_content":"ENC2+/w=="}
    {"type":"message","role":"assistant","content":[{"type":"output_text","text":"Zürich 21°, Tōkyō 28°."}]}
    {"type":"message","role":"user","content":[{"type":"input_text","text":"thanks"}]}
    "#);
}

#[test]
fn anthropic_history_is_unchanged_after_a_restart() {
    assert_snapshot!(second_request(ProviderApi::Anthropic), @r#"
    {"role":"user","content":[{"type":"text","text":"weather?"}]}
    {"role":"assistant","content":[{"type":"thinking","thinking":"Let me think.","signature":"EqQBCgIYAhIMc2lnbmF0dXJl/+=="},{"type":"redacted_thinking","data":"UkVEQUNURUQ="},{"type":"text","text":"Grüß dich 🌍"},{"type":"tool_use","id":"toolu_AAA","name":"get_weather","input":{"city":"Zürich","n":1}},{"type":"tool_use","id":"toolu_BBB","name":"get_weather","input":{"city":"Tōkyō"}}]}
    {"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_AAA","content":"{\"sky\":\"clear\"}"},{"type":"tool_result","tool_use_id":"toolu_BBB","content":"{\"sky\":\"clear\"}","cache_control":{"type":"ephemeral"}}]}
    {"role":"assistant","content":[{"type":"thinking","thinking":"Now I know.","signature":"EtQCCkYIBxgCbGF0ZXI+/w=="},{"type":"text","text":"Zürich 21°, Tōkyō 28°."}]}
    {"role":"user","content":[{"type":"text","text":"thanks","cache_control":{"type":"ephemeral"}}]}
    "#);
}

#[test]
fn gemini_history_is_unchanged_after_a_restart() {
    assert_snapshot!(second_request(ProviderApi::Gemini), @r#"
    {"role":"user","parts":[{"text":"weather?"}]}
    {"role":"model","parts":[{"text":"Grüß dich 🌍"},{"functionCall":{"id":"fc-AAA","name":"get_weather","args":{"city":"Zürich","n":1}},"thoughtSignature":"CpcBAVSoXO5ha2V0aG91Z2h0c2ln+/=="},{"functionCall":{"id":"fc-BBB","name":"get_weather","args":{"city":"Tōkyō"}}}]}
    {"role":"user","parts":[{"functionResponse":{"id":"fc-AAA","name":"get_weather","response":{"sky":"clear"}}},{"functionResponse":{"id":"fc-BBB","name":"get_weather","response":{"sky":"clear"}}}]}
    {"role":"model","parts":[{"text":"Zürich 21°, Tōkyō 28°.","thoughtSignature":"CpcBAVSoXO5sYXRlcitzaWc/+w=="}]}
    {"role":"user","parts":[{"text":"thanks"}]}
    "#);
}

#[test]
fn ollama_history_is_unchanged_after_a_restart() {
    assert_snapshot!(second_request(ProviderApi::Ollama), @r#"
    {"role":"user","content":"weather?"}
    {"role":"assistant","content":"Grüß dich 🌍","thinking":"Let me think.","tool_calls":[{"id":"call_AAA","function":{"name":"get_weather","arguments":{"city":"Zürich","n":1}}},{"id":"call_BBB","function":{"name":"get_weather","arguments":{"city":"Tōkyō"}}}]}
    {"role":"tool","tool_name":"get_weather","tool_call_id":"call_AAA","content":"{\"sky\":\"clear\"}"}
    {"role":"tool","tool_name":"get_weather","tool_call_id":"call_BBB","content":"{\"sky\":\"clear\"}"}
    {"role":"assistant","content":"Zürich 21°, Tōkyō 28°.","thinking":"Now I know."}
    {"role":"user","content":"thanks"}
    "#);
}

/// A sequence of wire formats in which each one follows each other one exactly once.
fn walk() -> Vec<ProviderApi> {
    let all = ProviderApi::ALL;
    let mut steps = vec![all[0]];
    for stride in 1..all.len() {
        for _ in 0..all.len() {
            let last = all.iter().position(|api| Some(api) == steps.last()).unwrap();
            steps.push(all[(last + stride) % all.len()]);
        }
    }
    steps
}

#[test]
fn sessions_can_switch_between_all_wire_formats() {
    let steps = walk();
    let pairs: std::collections::HashSet<_> = steps.windows(2).map(|pair| (pair[0], pair[1])).collect();
    assert_eq!(pairs.len(), 20, "each of five after each other");
    let fake = FakeProvider::start_blocking();
    let env = TestEnv::new();
    let providers: String =
        ProviderApi::ALL.iter().map(|api| provider(api_name(*api), &fake, *api, "two")).collect();
    env.file("lango.toml", format!("{providers}{REST}"));
    for (turn, api) in steps.iter().enumerate() {
        let model = format!("{}/model-x", api_name(*api));
        fake.clear();
        env.lango_with_key(&["run", "--session", "k", "--model", &model, &format!("question {turn}")])
            .success();
        let requests = fake.requests();
        assert_eq!(requests.len(), 2, "turn {turn} in {model}: calls, and the answer to their results");
        for request in requests {
            assert_eq!(request.api, Some(*api));
            let broken = legal::check(*api, &request.body);
            assert!(broken.is_empty(), "turn {turn} in {model}: {broken:?}\n{:#}", request.body);
            let request = request.body.to_string();
            assert!(
                (0..=turn).all(|turn| request.contains(&format!("question {turn}"))),
                "all questions are in the request: {request}"
            );
        }
    }
}

#[test]
fn attachments_are_sent_or_reported_as_unsupported() {
    let fake = FakeProvider::start_blocking();
    for (api, image) in [
        (ProviderApi::OpenAi, r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw=="}}"#),
        (
            ProviderApi::Responses,
            r#"{"type":"input_image","detail":"auto","image_url":"data:image/png;base64,iVBORw=="}"#,
        ),
        (ProviderApi::Gemini, r#"{"inlineData":{"mimeType":"image/png","data":"iVBORw=="}}"#),
        (ProviderApi::Ollama, r#""images":["iVBORw=="]"#),
        (ProviderApi::Anthropic, r#"{"type":"base64","media_type":"image/png","data":"iVBORw=="}"#),
    ] {
        let env = TestEnv::with_provider(&fake, api, "text");
        env.file("cat.png", b"\x89PNG");
        env.file("notes.txt", "buy milk");
        env.file("song.mp4", b"\0\0\0\xff");
        fake.clear();
        let files = ["run", "-f", "cat.png", "--file", "notes.txt", "-f", "song.mp4", "look"];
        let output = env.lango_with_key(&files).success();
        let body = fake.requests()[0].body.to_string();
        assert!(body.contains(image), "{body}");
        assert!(body.contains("The file notes.txt:\\nbuy milk"), "{body}");
        let warned = output.err.contains("does not accept song.mp4 (video/mp4)");
        assert_eq!(warned, api != ProviderApi::Gemini, "{}", output.err);
    }
}

#[test]
fn unreadable_or_binary_attachment_fails_before_sending() {
    let env = TestEnv::new();
    env.file("data.bin", b"\xff\xfe\0");
    let missing = env.lango(&["run", "--file", "none.png", "look"]).failure();
    assert!(missing.err.contains("none.png cannot be read; it was not sent"), "{}", missing.err);
    let binary = env.lango(&["run", "--file", "data.bin", "look"]).failure();
    assert!(binary.err.contains("data.bin is not text"), "{}", binary.err);
}

/// Kills the process during a tool call, continues in another, and returns the messages of its first request.
fn request_after_a_kill(api: ProviderApi) -> String {
    let fake = FakeProvider::start_blocking();
    let env = TestEnv::with_provider(&fake, api, "two");
    let (settings, slow) = (
        format!("model = \"fake/model-x\"\n{}{REST}", provider("fake", &fake, api, "two")),
        "delay_ms = 60000\n",
    );
    env.file("lango.toml", format!("{settings}{slow}"));
    let mut program = env.command(["run", "--session", "k", "weather?"]);
    let mut program =
        program.env("CANARY", CANARY).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let key = SessionKey::new("lango", "user", "k");
    while !StoredLog::read(&env.database(), &key).events.iter().any(|event| event.calls().count() == 2) {
        assert!(program.try_wait().unwrap().is_none(), "it ended before it was killed");
    }
    program.kill().unwrap();
    program.wait().unwrap();
    env.file("lango.toml", settings);
    env.lango_with_key(&["run", "--session", "k", "go on"]).success();
    conversation(&fake.requests()[1].body)
}

#[test]
fn opaque_data_is_byte_identical_after_a_kill() {
    for (api, opaque) in [
        (ProviderApi::Anthropic, &["EqQBCgIYAhIMc2lnbmF0dXJl/+==", "UkVEQUNURUQ="][..]),
        (ProviderApi::Gemini, &["CpcBAVSoXO5ha2V0aG91Z2h0c2ln+/=="]),
        (ProviderApi::Responses, &["ENC+/=="]),
    ] {
        let request = request_after_a_kill(api);
        for data in opaque {
            assert_eq!(request.matches(&format!("\"{data}\"")).count(), 1, "{request}");
        }
        // The killed run is continued: its calls are read-only, so they are rerun.
        assert_eq!(request.matches("clear").count(), 2, "{request}");
    }
}
