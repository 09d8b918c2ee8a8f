//! Provider streams through the binary: a sample of the mutated recordings, and an answer with sources.

use crate::common::{REST, TestEnv, api_name};
use insta::assert_snapshot;
use testkit::{
    ProviderApi, legal,
    mutated_streams::{self, MutatedStream, StreamServer},
};

const SEED: u64 = 16;
const CASES: u64 = 50;

/// An environment whose model is the server. A failed call is not repeated.
fn env(server: &StreamServer, api: ProviderApi) -> TestEnv {
    let env = TestEnv::new();
    let (url, api) = (server.url(), api_name(api));
    let provider = format!("[providers.p]\napi = \"{api}\"\nbase_url = \"{url}\"\nkey = \"${{CANARY}}\"\n");
    let rest = REST.replace("attempts = 3", "attempts = 1");
    env.file("lango.toml", format!("model = \"p/m1\"\n{provider}{rest}"));
    env
}

#[test]
fn sample_of_mutated_streams_ends_in_an_answer_or_in_one_error() {
    let server = StreamServer::start().unwrap();
    for number in 0..CASES {
        let stream = mutated_streams::case(SEED, number);
        let (api, fault) = (stream.api, format!("case {number}: {:?} {}", stream.kind, stream.fault));
        let env = env(&server, api);
        server.play(stream);
        let output = env.lango_with_key(&["run", "--session", "k", "hello"]);
        assert!(!output.err.contains("panicked"), "{fault}: {output:?}");
        match output.code {
            Some(0) => assert!(!output.out.trim().is_empty(), "{fault}: {output:?}"),
            Some(1) => assert!(
                output.err.starts_with("lango: p ") && output.err.lines().count() == 1,
                "{fault}: {output:?}"
            ),
            _ => panic!("{fault}: {output:?}"),
        }
        env.lango_with_key(&["run", "--session", "k", "and then?"]).success();
        assert!(server.requests().len() > 1, "{fault}");
        for body in server.requests() {
            assert_eq!(legal::check(api, &body), [], "{fault}: {body:#}");
        }
    }
}

/// A stream of Gemini with these chunks.
fn gemini(chunks: &[&str]) -> MutatedStream {
    let chunks = chunks.iter().map(|chunk| format!("data: {chunk}\n\n").into_bytes()).collect();
    MutatedStream { chunks, ..mutated_streams::unchanged(ProviderApi::Gemini, "text") }
}

#[test]
fn sources_follow_the_answer_and_are_in_the_log() {
    let server = StreamServer::start().unwrap();
    let env = env(&server, ProviderApi::Gemini);
    let grounded = r#"{"candidates":[{"content":{"parts":[{"text":"It rains."}]},"finishReason":"STOP","avgLogprobs":-0.25,"groundingMetadata":{"webSearchQueries":["weather"],"groundingChunks":[{"web":{"uri":"https://weather.test/today","title":"Weather\u001b[31m"}}]},"citationMetadata":{"citationSources":[{"startIndex":0,"endIndex":8,"uri":"https://cited.test/"}]}}],"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":3,"promptTokensDetails":[{"modality":"TEXT","tokenCount":5}]}}"#;
    server.play(gemini(&[grounded]));
    let output = env.lango_with_key(&["run", "--session", "k", "weather?"]).success();
    assert_eq!(output.out, "It rains.\n");
    assert_snapshot!(output.snapshot(), @r#"
    It rains.
    [1] Weather�[31m: https://weather.test/today
    [2] https://cited.test/
    (to continue: lango run --session k "…")
    [exit 0]
    "#);
    server.play(gemini(&[grounded]));
    let events = env.lango_with_key(&["run", "--json", "--session", "k", "again"]).success().json_lines();
    let last = events.last().unwrap();
    assert_eq!(last["groundingMetadata"]["groundingChunks"][0]["web"]["uri"], "https://weather.test/today");
    assert_eq!(last["citationMetadata"]["citations"][0]["endIndex"], 8);
    assert_eq!(last["avgLogprobs"], -0.25);
    assert_eq!(last["usageMetadata"]["promptTokensDetails"][0]["tokenCount"], 5);
    let stored = env.lango(&["sessions", "show", "k", "--json"]).success().out;
    assert_eq!(stored.matches("https://weather.test/today").count(), 2, "{stored}");
    let next = server.requests().pop().unwrap().to_string();
    assert!(!next.contains("weather.test"), "{next}");
}
