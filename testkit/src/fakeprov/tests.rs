//! The bytes on the wire match the table of scenarios.

use super::*;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// The response on a new connection.
#[derive(Debug)]
struct RawAnswer {
    raw: Vec<u8>,
    /// The error that ended the connection; `None` if the server closed it.
    error: Option<io::ErrorKind>,
}

impl RawAnswer {
    fn head(&self) -> String {
        let end = self.raw.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
        String::from_utf8(self.raw[..end].to_vec()).unwrap()
    }

    fn status(&self) -> u16 {
        self.head().split(' ').nth(1).unwrap().parse().unwrap()
    }

    fn rest(&self) -> &[u8] {
        &self.raw[self.head().len() + 4..]
    }

    /// The chunks of the body, and whether the empty last chunk was received.
    fn chunks(&self) -> (Vec<Vec<u8>>, bool) {
        let (mut rest, mut chunks) = (self.rest(), Vec::new());
        while let Some(line) = rest.windows(2).position(|window| window == b"\r\n") {
            let length = usize::from_str_radix(std::str::from_utf8(&rest[..line]).unwrap(), 16).unwrap();
            if length == 0 {
                return (chunks, true);
            }
            let start = line + 2;
            chunks.push(rest[start..start + length].to_vec());
            rest = &rest[start + length + 2..];
        }
        (chunks, false)
    }

    fn body(&self) -> String {
        let chunked = self.head().contains("transfer-encoding: chunked");
        let body = if chunked { self.chunks().0.concat() } else { self.rest().to_vec() };
        String::from_utf8(body).unwrap()
    }
}

fn post(scenario: &str, path: &str, headers: &str, body: &Value) -> String {
    let body = body.to_string();
    let length = body.len();
    format!("POST /s/{scenario}{path} HTTP/1.1\r\n{headers}content-length: {length}\r\n\r\n{body}")
}

/// Sends a request after which the server closes the connection.
async fn send(fake: &FakeProvider, request: &str) -> RawAnswer {
    let mut stream = TcpStream::connect(("127.0.0.1", fake.port())).await.unwrap();
    let request = request.replacen("\r\n", "\r\nconnection: close\r\n", 1);
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut raw = Vec::new();
    let ended = stream.read_to_end(&mut raw).await;
    RawAnswer { raw, error: ended.err().map(|error| error.kind()) }
}

async fn request(fake: &FakeProvider, scenario: &str, api: ProviderApi) -> RawAnswer {
    send(fake, &post(scenario, api.path(), "", &json!({"model": "m"}))).await
}

/// A request that ends with the results of both calls.
fn with_results(api: ProviderApi) -> Value {
    match api {
        ProviderApi::OpenAi | ProviderApi::Ollama => json!({"messages": [{"role": "tool", "content": "21"}]}),
        ProviderApi::Responses => json!({"input": [{"type": "function_call_output", "output": "21"}]}),
        ProviderApi::Anthropic => {
            json!({"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]})
        }
        ProviderApi::Gemini => json!({"contents": [{"role": "user", "parts": [{"functionResponse": {}}]}]}),
    }
}

fn calls_tools(body: &str) -> bool {
    body.contains("get_weather")
}

#[tokio::test]
async fn every_scenario_responds_in_every_api_and_differs_from_ok_unless_served_as_ok() {
    let fake = FakeProvider::start().await;
    for api in ProviderApi::ALL {
        let ok = request(&fake, "ok", api).await;
        let later = |scenario| post(scenario, api.path(), "", &with_results(api));
        let ok_later = send(&fake, &later("ok")).await;
        for scenario in SCENARIOS.iter().filter(|scenario| !scenario.starts_with("hang")) {
            let scenario = if *scenario == "slowtext" { "slowtext-0" } else { scenario };
            let answer = request(&fake, scenario, api).await;
            assert!(answer.raw.starts_with(b"HTTP/1.1 "), "{scenario} in {api:?}");
            let same = answer.raw == ok.raw && answer.error == ok.error;
            let same_later = || async { send(&fake, &later(scenario)).await.raw == ok_later.raw };
            assert_eq!(differs(api, scenario), !(same && same_later().await), "{scenario} in {api:?}");
        }
    }
}

#[tokio::test]
async fn hanging_response_lasts_until_the_client_disconnects_and_is_marked_aborted() {
    let fake = FakeProvider::start().await;
    for scenario in ["hang", "hanghead", "slowtext-3600000"] {
        for api in ProviderApi::ALL {
            fake.clear();
            let mut stream = TcpStream::connect(("127.0.0.1", fake.port())).await.unwrap();
            stream.write_all(post(scenario, api.path(), "", &json!({})).as_bytes()).await.unwrap();
            if scenario == "hanghead" {
                fake.until(|all| all.len() == 1).await;
            } else {
                stream.read_exact(&mut [0; 200]).await.unwrap();
            }
            assert!(!fake.requests()[0].aborted, "{scenario} in {api:?}");
            drop(stream);
            fake.until(|all| all[0].aborted).await;
        }
    }
}

#[tokio::test]
async fn bytes1_sends_one_byte_per_chunk() {
    let fake = FakeProvider::start().await;
    let (chunks, whole) = request(&fake, "bytes1", ProviderApi::Anthropic).await.chunks();
    assert!(whole && chunks.iter().all(|chunk| chunk.len() == 1));
    assert_eq!(chunks.concat(), request(&fake, "ok", ProviderApi::Anthropic).await.chunks().0.concat());
}

#[tokio::test]
async fn drop_resets_and_cut_closes_the_connection_before_the_last_chunk() {
    let fake = FakeProvider::start().await;
    for api in ProviderApi::ALL {
        let ends = async |scenario| {
            let answer = request(&fake, scenario, api).await;
            (answer.chunks(), answer.error)
        };
        let (sent, _) = request(&fake, "trunc", api).await.chunks();
        assert_eq!(ends("trunc").await, ((sent.clone(), true), None));
        assert_eq!(ends("cut").await, ((sent.clone(), false), None));
        assert_eq!(ends("drop").await, ((sent, false), Some(io::ErrorKind::ConnectionReset)));
    }
}

#[tokio::test]
async fn line_endings_match_the_scenario() {
    let fake = FakeProvider::start().await;
    let crlf = request(&fake, "crlf", ProviderApi::Responses).await.body();
    assert!(crlf.ends_with("\r\n\r\n") && !crlf.replace("\r\n", "").contains('\n'));
    let ok = request(&fake, "ok", ProviderApi::OpenAi).await.body();
    assert!(ok.ends_with("data: [DONE]\n\n"));
    assert!(request(&fake, "noblank", ProviderApi::OpenAi).await.body().ends_with("\n\ndata: [DONE]"));
    assert!(request(&fake, "noblank", ProviderApi::Ollama).await.body().ends_with('}'));
    assert_eq!(request(&fake, "nospace", ProviderApi::OpenAi).await.body(), ok.replace("data: ", "data:"));
}

#[tokio::test]
async fn big_delta_is_one_line_of_4_mb_in_chunks_of_16_kb() {
    let fake = FakeProvider::start().await;
    for api in ProviderApi::ALL {
        let answer = request(&fake, "big", api).await;
        assert!(answer.body().lines().any(|line| line.len() > 4 << 20), "{api:?}");
        assert!(answer.chunks().0.iter().all(|chunk| chunk.len() <= 16 << 10));
    }
}

#[tokio::test]
async fn flaky_and_ctxonce_count_requests_per_path_until_cleared() {
    let fake = FakeProvider::start().await;
    let statuses = async |scenario, api| {
        let mut statuses = Vec::new();
        for _ in 0..4 {
            statuses.push(request(&fake, scenario, api).await.status());
        }
        statuses
    };
    assert_eq!(statuses("flaky", ProviderApi::OpenAi).await, [429, 503, 200, 200]);
    assert_eq!(statuses("flaky", ProviderApi::Gemini).await, [429, 503, 200, 200]);
    assert_eq!(statuses("ctxonce", ProviderApi::Ollama).await, [400, 200, 200, 200]);
    fake.clear();
    assert_eq!(statuses("flaky", ProviderApi::OpenAi).await, [429, 503, 200, 200]);
    let second = request(&fake, "flaky", ProviderApi::Anthropic).await;
    assert!(second.head().contains("Retry-After: 0") && !second.head().contains("Retry-After: 7"));
}

#[tokio::test]
async fn answer_after_tool_results_is_text() {
    let fake = FakeProvider::start().await;
    for api in ProviderApi::ALL {
        for scenario in ["ok", "bytes1", "noid", "nodone", "two"] {
            assert!(calls_tools(&request(&fake, scenario, api).await.body()), "{scenario} in {api:?}");
            let later = send(&fake, &post(scenario, api.path(), "", &with_results(api))).await;
            assert!(!calls_tools(&later.body()), "{scenario} in {api:?}");
            assert_eq!(later.body().contains("Now I know."), scenario == "two", "{scenario} in {api:?}");
        }
    }
}

#[tokio::test]
async fn api_key_of_any_header_is_echoed() {
    let fake = FakeProvider::start().await;
    let keys = ["Authorization: Bearer canary\r\n", "x-api-key: canary\r\n", "x-goog-api-key: canary\r\n"];
    for api in ProviderApi::ALL {
        for key in keys {
            let answer = send(&fake, &post("echokey", api.path(), key, &json!({}))).await;
            assert_eq!((answer.status(), answer.body().contains(" canary.")), (401, true));
            let answer = send(&fake, &post("echokey200", api.path(), key, &json!({}))).await;
            assert_eq!((answer.status(), answer.body().contains(" canary.")), (200, true));
        }
    }
}

#[tokio::test]
async fn redirect_targets_another_host_name_of_this_server() {
    let fake = FakeProvider::start().await;
    let host = format!("host: 127.0.0.1:{}\r\n", fake.port());
    let head = send(&fake, &post("redirect", ProviderApi::OpenAi.path(), &host, &json!({}))).await.head();
    let place = format!("Location: http://localhost:{}/s/text/v1/chat/completions", fake.port());
    assert!(head.starts_with("HTTP/1.1 302") && head.ends_with(&place), "{head}");
}

#[tokio::test]
async fn model_lists_have_the_format_of_each_api_and_fail_like_answers() {
    let fake = FakeProvider::start().await;
    let list = async |scenario: &str, api: ProviderApi, header: &str| {
        let path = api.models_path();
        send(&fake, &format!("GET /s/{scenario}{path} HTTP/1.1\r\n{header}\r\n")).await
    };
    let first =
        async |api, header| -> Value { serde_json::from_str(&list("ok", api, header).await.body()).unwrap() };
    assert_eq!(first(ProviderApi::OpenAi, "").await["data"][0]["id"], "gpt-x");
    assert_eq!(
        first(ProviderApi::Anthropic, "anthropic-version: 2023-06-01\r\n").await["data"][0]["id"],
        "claude-x"
    );
    assert_eq!(first(ProviderApi::Gemini, "").await["models"][0]["name"], "models/gemini-x");
    assert_eq!(first(ProviderApi::Ollama, "").await["models"][0]["name"], "llama-x:latest");
    assert_eq!(list("auth401", ProviderApi::Gemini, "").await.status(), 401);
}

#[test]
fn received_requests_are_logged_unchanged_and_served_over_http() {
    let fake = FakeProvider::start_blocking();
    let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let over_http = |request: &str| runtime.block_on(send(&fake, request));
    let body = json!({"b": "Zürich", "a": [1, {}]});
    over_http(&post("text", ProviderApi::Gemini.path(), "X-Goog-Api-Key: k\r\n", &body));
    over_http(
        "POST /api/chat HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n3\r\n{\"a\r\n4\r\n\":1}\r\n0\r\n\r\n",
    );
    over_http(&post("nonsense", "/v1/messages", "", &json!({})));

    let seen = fake.requests();
    assert_eq!(seen[0].scenario, "text");
    assert_eq!((seen[0].api, seen[0].method.as_str()), (Some(ProviderApi::Gemini), "POST"));
    assert_eq!(seen[0].path, format!("/s/text{}", ProviderApi::Gemini.path()));
    assert_eq!(seen[0].header("x-goog-api-key"), Some("k"));
    assert_eq!(seen[0].body.to_string(), body.to_string());
    assert!(seen.iter().all(|received| !received.aborted));
    assert_eq!((seen[1].scenario.as_str(), &seen[1].body), ("ok", &json!({"a": 1})));

    let log = over_http("GET /log HTTP/1.1\r\n\r\n").body();
    let log: Value = serde_json::from_str(&log).unwrap();
    assert_eq!(log[0]["headers"]["x-goog-api-key"], "k");
    assert_eq!((&log[2]["scenario"], log.as_array().unwrap().len()), (&json!("nonsense"), 3));
    over_http("POST /reset HTTP/1.1\r\n\r\n");
    assert!(fake.requests().is_empty());
}

#[test]
fn dropping_the_server_closes_its_connections() {
    use std::{io::Read as _, io::Write as _, net::TcpStream};
    let fake = FakeProvider::start_blocking();
    let mut stream = TcpStream::connect(("127.0.0.1", fake.port())).unwrap();
    stream.write_all(post("hanghead", ProviderApi::OpenAi.path(), "", &json!({})).as_bytes()).unwrap();
    fake.until_blocking(|all| all.len() == 1);
    let port = fake.port();
    drop(fake);
    assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)));
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
}
