//! Requests that a remote provider sends, and errors that need no server.

use super::*;
use crate::{
    GenerationOptions, Media, MediaSource, ModelMessage, Role, WireApi,
    http::fake_server::{ServerAction, chunk, head, serve, stream_head},
};

const KEY: &str = "sk-canary-0123456789";

fn request() -> ModelRequest {
    ModelRequest {
        model: "m".to_owned(),
        messages: vec![ModelMessage::text(Role::User, "hi")],
        ..ModelRequest::default()
    }
}

fn endpoint(api: WireApi, base_url: &str) -> ProviderEndpoint {
    ProviderEndpoint { key: Some(SecretString::new(KEY)), ..ProviderEndpoint::new("fake", api, base_url) }
}

/// The events of the answer, without the request.
async fn answer(remote: &RemoteProvider, request: ModelRequest) -> Vec<StreamEvent> {
    let events = remote.stream(request);
    events.filter(|event| std::future::ready(!matches!(event, StreamEvent::Sent(_)))).collect().await
}

async fn call(endpoint: ProviderEndpoint, request: ModelRequest) -> Vec<StreamEvent> {
    answer(&RemoteProvider::new(endpoint), request).await
}

async fn error_of(endpoint: ProviderEndpoint) -> String {
    match &call(endpoint, request()).await[..] {
        [StreamEvent::Error(error)] => format!("{}: {error}", error.code()),
        other => format!("{other:?}"),
    }
}

/// The request line and the headers of a request, with the key replaced by KEY.
async fn request_head(change: impl FnOnce(ProviderEndpoint) -> ProviderEndpoint, api: WireApi) -> String {
    let server = serve(vec![vec![head("500 X", &[])]]).await;
    call(change(endpoint(api, &server.url)), request()).await;
    let received = server.requests.await.unwrap().remove(0);
    let (head, _) = received.split_once("\r\n\r\n").unwrap();
    let lines = head.lines().filter(|line| !line.starts_with("content-length") && !line.starts_with("host"));
    let head = lines.collect::<Vec<_>>().join("\n").replace(KEY, "KEY");
    head.replace(env!("CARGO_PKG_VERSION"), "VERSION")
}

#[tokio::test]
async fn each_wire_api_has_its_path_and_key_header() {
    insta::assert_snapshot!(request_head(|it| it, WireApi::Chat).await, @"
    POST /v1/chat/completions HTTP/1.1
    content-type: application/json
    accept: text/event-stream, application/json
    authorization: Bearer KEY
    user-agent: lango/VERSION
    ");
    insta::assert_snapshot!(request_head(|it| it, WireApi::Responses).await, @"
    POST /v1/responses HTTP/1.1
    content-type: application/json
    accept: text/event-stream, application/json
    authorization: Bearer KEY
    user-agent: lango/VERSION
    ");
    insta::assert_snapshot!(request_head(|it| it, WireApi::Anthropic).await, @"
    POST /v1/messages HTTP/1.1
    content-type: application/json
    accept: text/event-stream, application/json
    anthropic-version: 2023-06-01
    x-api-key: KEY
    user-agent: lango/VERSION
    ");
    insta::assert_snapshot!(request_head(|it| it, WireApi::Gemini).await, @"
    POST /v1beta/models/m:streamGenerateContent?alt=sse HTTP/1.1
    content-type: application/json
    accept: text/event-stream, application/json
    x-goog-api-key: KEY
    user-agent: lango/VERSION
    ");
    insta::assert_snapshot!(request_head(|it| it, WireApi::Ollama).await, @"
    POST /api/chat HTTP/1.1
    content-type: application/json
    accept: application/x-ndjson, application/json
    authorization: Bearer KEY
    user-agent: lango/VERSION
    ");
}

#[tokio::test]
async fn configured_headers_override_those_of_the_wire_api() {
    let change = |endpoint: ProviderEndpoint| ProviderEndpoint {
        key: Some(SecretString::new(" ")),
        organization: Some("org-1".to_owned()),
        headers: vec![
            ("Accept".to_owned(), SecretString::new("*/*")),
            ("X-Team".to_owned(), SecretString::new("a")),
        ],
        ..endpoint
    };
    insta::assert_snapshot!(request_head(change, WireApi::Chat).await, @"
    POST /v1/chat/completions HTTP/1.1
    content-type: application/json
    accept: */*
    openai-organization: org-1
    x-team: a
    user-agent: lango/VERSION
    ");
}

#[tokio::test]
async fn invalid_configuration_is_reported_without_secrets() {
    let chat = || endpoint(WireApi::Chat, "http://127.0.0.1:9");
    let with = |name: &str, value: &str| vec![(name.to_owned(), SecretString::new(value))];
    insta::assert_snapshot!(error_of(endpoint(WireApi::Chat, KEY)).await, @"SETUP: fake is not configured correctly: base_url is not a URL that begins with http:// or https://");
    insta::assert_snapshot!(error_of(ProviderEndpoint { key: Some(SecretString::new(format!("{KEY}\n{KEY}"))), ..chat() }).await, @"SETUP: fake is not configured correctly: the key contains a character that is not allowed in a header");
    insta::assert_snapshot!(error_of(ProviderEndpoint { headers: with("x key", KEY), ..chat() }).await, @"SETUP: fake is not configured correctly: `x key` is not a valid header name");
    insta::assert_snapshot!(error_of(ProviderEndpoint { headers: with("x-key", "a\nb"), ..chat() }).await, @"SETUP: fake is not configured correctly: x-key contains a character that is not allowed in a header");
    insta::assert_snapshot!(error_of(ProviderEndpoint { ca_file: Some("no/such.pem".into()), ..chat() }).await, @"SETUP: fake is not configured correctly: no/such.pem cannot be read: No such file or directory (os error 2)");
    let nameless = call(chat(), ModelRequest::default()).await;
    assert!(
        matches!(&nameless[..], [StreamEvent::Error(Error::BadRequest { message, .. })] if message == "the request names no model")
    );
}

#[tokio::test]
async fn each_word_of_a_header_value_is_masked() {
    let body = format!("you sent {KEY}, a longer-secret and true");
    let server = serve(vec![vec![head("400 X", &[]), ServerAction::Send(body)]]).await;
    let headers = vec![
        ("authorization".to_owned(), SecretString::new("Bearer longer-secret")),
        ("x-on".to_owned(), SecretString::new("true")),
    ];
    let error = error_of(ProviderEndpoint { headers, ..endpoint(WireApi::Chat, &server.url) }).await;
    insta::assert_snapshot!(error, @"BAD_REQUEST: fake rejected the request: you sent [hidden], a [hidden] and true");
}

#[tokio::test]
async fn unsupported_option_is_warned_about_once() {
    let stream = vec![stream_head(), chunk("data: {\"error\": \"x\"}\n\n")];
    let server = serve(vec![stream.clone(), stream]).await;
    let remote = RemoteProvider::new(endpoint(WireApi::Responses, &server.url));
    let request = ModelRequest {
        options: GenerationOptions { seed: Some(7), ..GenerationOptions::default() },
        ..request()
    };
    let first = answer(&remote, request.clone()).await;
    let [StreamEvent::Warning(warning), StreamEvent::Error(_)] = &first[..] else { panic!("{first:?}") };
    assert_eq!(warning, "fake does not support `seed` for this model; the option is ignored");
    let second = answer(&remote, request).await;
    assert!(matches!(&second[..], [StreamEvent::Error(_)]), "{second:?}");
}

fn file(mime_type: &str, name: &str) -> MessagePart {
    MessagePart::from(Media {
        mime_type: mime_type.to_owned(),
        source: MediaSource::Base64("AAAA".to_owned()),
        name: Some(name.to_owned()),
    })
}

#[test]
fn the_number_of_remembered_warnings_is_bounded() {
    let remote = RemoteProvider::new(endpoint(WireApi::Chat, "http://127.0.0.1:1"));
    let zip = |number: usize| file("application/zip", &format!("{number}.zip"));
    let parts = (0..2 * MAX_WARNINGS).map(zip).collect();
    let request = ModelRequest { messages: vec![ModelMessage::new(Role::User, parts)], ..request() };
    assert_eq!(remote.warnings(&request).len(), 2 * MAX_WARNINGS);
    assert_eq!(remote.emitted_warnings.locked().len(), MAX_WARNINGS);
}

#[test]
fn unsupported_file_is_warned_about_once() {
    let parts = vec![
        file("image/png", "cat.png"),
        file("application/pdf", "a.pdf"),
        file("application/zip", "b.zip"),
    ];
    let request = ModelRequest { messages: vec![ModelMessage::new(Role::User, parts)], ..request() };
    let count_warnings = |api: WireApi| {
        let remote = RemoteProvider::new(endpoint(api, "http://127.0.0.1:1"));
        let warnings = remote.warnings(&request);
        assert!(remote.warnings(&request).is_empty());
        format!("{warnings:?}").matches(" does not accept ").count()
    };
    let counts = [WireApi::Chat, WireApi::Responses, WireApi::Anthropic, WireApi::Gemini, WireApi::Ollama]
        .map(count_warnings);
    assert_eq!(counts, [1, 1, 1, 1, 2]);
    let warning = RemoteProvider::new(endpoint(WireApi::Chat, "http://127.0.0.1:1")).warnings(&request);
    insta::assert_debug_snapshot!(warning, @r#"
    [
        Warning(
            "fake does not accept b.zip (application/zip); the model sees only the name of the file",
        ),
    ]
    "#);
}

#[test]
fn debug_output_of_endpoint_and_provider_contains_no_secret() {
    let base = format!("https://h/v1?key={KEY}");
    let headers = vec![("x-key".to_owned(), SecretString::new(KEY))];
    let remote = RemoteProvider::new(ProviderEndpoint { headers, ..endpoint(WireApi::Chat, &base) });
    assert!(remote.client().is_ok());
    assert_eq!(format!("{remote:?}"), r#"Remote { endpoint: Endpoint { name: "fake", api: Chat, .. }, .. }"#);
}

#[test]
fn http_client_is_built_on_the_first_call() {
    let remote = RemoteProvider::new(endpoint(WireApi::Chat, "https://h"));
    assert!(remote.client.get().is_none());
}

#[tokio::test]
async fn invalid_model_list_is_an_error() {
    let server = serve(vec![
        vec![head("200 OK", &[]), ServerAction::Send("<html>".to_owned())],
        vec![head("200 OK", &[]), ServerAction::Send("{}".to_owned())],
        vec![head("401 X", &[]), ServerAction::Send(format!("{{\"error\": \"{KEY}\"}}"))],
        vec![ServerAction::UntilClosed],
    ])
    .await;
    let remote = RemoteProvider::new(endpoint(WireApi::Chat, &server.url));
    let mut errors = Vec::new();
    for _ in 0..3 {
        errors.push(remote.models().await.unwrap_err().to_string());
    }
    errors.push(remote.models_with_timeout(Duration::from_millis(30)).await.unwrap_err().to_string());
    insta::assert_snapshot!(errors.join("\n"), @"
    fake sent a response that cannot be parsed: received an HTML page instead of an API response; check base_url, and whether a proxy requires a login
    fake sent a response that cannot be parsed: expected a list of models
    fake rejected the API key: [hidden]
    fake sent no data for 30ms
    ");
}

#[tokio::test]
async fn discover_returns_servers_that_list_models() {
    let list = |body: &str| vec![head("200 OK", &[]), ServerAction::Send(body.to_owned())];
    // The first connection is the probe.
    let one = serve_after_a_probe(list(r#"{"data": [{"id": "smol"}]}"#)).await;
    let none = serve_after_a_probe(list(r#"{"data": []}"#)).await;
    let other = serve_after_a_probe(list("<html>")).await;
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let servers = [closed, none, one, other].map(|port| LocalServer { name: "x", api: WireApi::Chat, port });
    let found = discover(&servers).await;
    let [DiscoveredServer { endpoint, models }] = &found[..] else { panic!("{found:?}") };
    assert_eq!(
        (endpoint.base_url.as_str(), models[0].id.as_str()),
        (format!("http://127.0.0.1:{one}").as_str(), "smol")
    );
}

async fn serve_after_a_probe(actions: Vec<ServerAction>) -> u16 {
    let server = serve(vec![vec![], actions]).await;
    server.url.rsplit(':').next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn stream_begins_with_the_body_that_is_sent() {
    let server = serve(vec![vec![stream_head(), chunk("data: {\"error\": \"x\"}\n\n")]]).await;
    let remote = RemoteProvider::new(endpoint(WireApi::Chat, &server.url));
    let events: Vec<StreamEvent> = remote.stream(request()).collect().await;
    let Some(StreamEvent::Sent(body)) = events.first() else { panic!("{events:?}") };
    assert_eq!(Some(body), remote.encode(&request()).map(|encoded| encoded.sent).as_ref());
    let received = server.requests.await.unwrap().remove(0);
    assert!(received.ends_with(std::str::from_utf8(body).unwrap()), "{received}");
}
