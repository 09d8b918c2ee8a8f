//! What leaves for a server, and what is said without one.

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

async fn ask(endpoint: ProviderEndpoint, request: ModelRequest) -> Vec<StreamEvent> {
    RemoteProvider::new(endpoint).stream(request).collect().await
}

async fn told(endpoint: ProviderEndpoint) -> String {
    match &ask(endpoint, request()).await[..] {
        [StreamEvent::Error(error)] => format!("{}: {error}", error.code()),
        other => format!("{other:?}"),
    }
}

/// The first line and the headers of what is sent, the key written as KEY.
async fn sent(change: impl FnOnce(ProviderEndpoint) -> ProviderEndpoint, api: WireApi) -> String {
    let server = serve(vec![vec![head("500 X", &[])]]).await;
    ask(change(endpoint(api, &server.url)), request()).await;
    let heard = server.requests.await.unwrap().remove(0);
    let (head, _) = heard.split_once("\r\n\r\n").unwrap();
    let lines = head.lines().filter(|line| !line.starts_with("content-length") && !line.starts_with("host"));
    let head = lines.collect::<Vec<_>>().join("\n").replace(KEY, "KEY");
    head.replace(env!("CARGO_PKG_VERSION"), "VERSION")
}

#[tokio::test]
async fn each_format_has_its_path_and_its_header_for_the_key() {
    insta::assert_snapshot!(sent(|it| it, WireApi::Chat).await, @"
    POST /v1/chat/completions HTTP/1.1
    content-type: application/json
    accept: text/event-stream, application/json
    authorization: Bearer KEY
    user-agent: lango/VERSION
    ");
    insta::assert_snapshot!(sent(|it| it, WireApi::Responses).await, @"
    POST /v1/responses HTTP/1.1
    content-type: application/json
    accept: text/event-stream, application/json
    authorization: Bearer KEY
    user-agent: lango/VERSION
    ");
    insta::assert_snapshot!(sent(|it| it, WireApi::Anthropic).await, @"
    POST /v1/messages HTTP/1.1
    content-type: application/json
    accept: text/event-stream, application/json
    anthropic-version: 2023-06-01
    x-api-key: KEY
    user-agent: lango/VERSION
    ");
    insta::assert_snapshot!(sent(|it| it, WireApi::Gemini).await, @"
    POST /v1beta/models/m:streamGenerateContent?alt=sse HTTP/1.1
    content-type: application/json
    accept: text/event-stream, application/json
    x-goog-api-key: KEY
    user-agent: lango/VERSION
    ");
    insta::assert_snapshot!(sent(|it| it, WireApi::Ollama).await, @"
    POST /api/chat HTTP/1.1
    content-type: application/json
    accept: application/x-ndjson, application/json
    authorization: Bearer KEY
    user-agent: lango/VERSION
    ");
}

#[tokio::test]
async fn the_configurations_headers_win() {
    let change = |endpoint: ProviderEndpoint| ProviderEndpoint {
        key: Some(SecretString::new(" ")),
        organization: Some("org-1".to_owned()),
        headers: vec![
            ("Accept".to_owned(), SecretString::new("*/*")),
            ("X-Team".to_owned(), SecretString::new("a")),
        ],
        ..endpoint
    };
    insta::assert_snapshot!(sent(change, WireApi::Chat).await, @"
    POST /v1/chat/completions HTTP/1.1
    content-type: application/json
    accept: */*
    openai-organization: org-1
    x-team: a
    user-agent: lango/VERSION
    ");
}

#[tokio::test]
async fn a_configuration_that_cannot_work_is_told_without_its_secrets() {
    let chat = || endpoint(WireApi::Chat, "http://127.0.0.1:9");
    let with = |name: &str, value: &str| vec![(name.to_owned(), SecretString::new(value))];
    insta::assert_snapshot!(told(endpoint(WireApi::Chat, KEY)).await, @"SETUP: fake is not configured correctly: base_url is not an address that begins with http:// or https://");
    insta::assert_snapshot!(told(ProviderEndpoint { key: Some(SecretString::new(format!("{KEY}\n{KEY}"))), ..chat() }).await, @"SETUP: fake is not configured correctly: the key has a character that cannot be sent in a header");
    insta::assert_snapshot!(told(ProviderEndpoint { headers: with("x key", KEY), ..chat() }).await, @"SETUP: fake is not configured correctly: `x key` cannot be the name of a header");
    insta::assert_snapshot!(told(ProviderEndpoint { headers: with("x-key", "a\nb"), ..chat() }).await, @"SETUP: fake is not configured correctly: x-key has a character that cannot be sent in a header");
    insta::assert_snapshot!(told(ProviderEndpoint { ca_file: Some("no/such.pem".into()), ..chat() }).await, @"SETUP: fake is not configured correctly: no/such.pem cannot be read: No such file or directory (os error 2)");
    let nameless = ask(chat(), ModelRequest::default()).await;
    assert!(
        matches!(&nameless[..], [StreamEvent::Error(Error::BadRequest { message, .. })] if message == "no model is named")
    );
}

#[tokio::test]
async fn what_a_header_holds_is_hidden_word_by_word() {
    let body = format!("you sent {KEY}, a longer-secret and true");
    let server = serve(vec![vec![head("400 X", &[]), ServerAction::Send(body)]]).await;
    let headers = vec![
        ("authorization".to_owned(), SecretString::new("Bearer longer-secret")),
        ("x-on".to_owned(), SecretString::new("true")),
    ];
    let told = told(ProviderEndpoint { headers, ..endpoint(WireApi::Chat, &server.url) }).await;
    insta::assert_snapshot!(told, @"BAD_REQUEST: fake rejected the request: you sent [hidden], a [hidden] and true");
}

#[tokio::test]
async fn a_setting_that_has_no_place_is_named_once() {
    let stream = vec![stream_head(), chunk("data: {\"error\": \"x\"}\n\n")];
    let server = serve(vec![stream.clone(), stream]).await;
    let remote = RemoteProvider::new(endpoint(WireApi::Responses, &server.url));
    let request = ModelRequest {
        options: GenerationOptions { seed: Some(7), ..GenerationOptions::default() },
        ..request()
    };
    let first: Vec<StreamEvent> = remote.stream(request.clone()).collect().await;
    let [StreamEvent::Warning(warning), StreamEvent::Error(_)] = &first[..] else { panic!("{first:?}") };
    assert_eq!(warning, "fake does not take `seed` here; it is left out");
    let second: Vec<StreamEvent> = remote.stream(request).collect().await;
    assert!(matches!(&second[..], [StreamEvent::Error(_)]), "{second:?}");
}

#[test]
fn a_file_that_a_provider_does_not_take_is_named_once() {
    let file = |mime_type: &str, name: &str| {
        MessagePart::from(Media {
            mime_type: mime_type.to_owned(),
            source: MediaSource::Base64("AAAA".to_owned()),
            name: Some(name.to_owned()),
        })
    };
    let parts = vec![
        file("image/png", "cat.png"),
        file("application/pdf", "a.pdf"),
        file("application/zip", "b.zip"),
    ];
    let request = ModelRequest { messages: vec![ModelMessage::new(Role::User, parts)], ..request() };
    let told = |api: WireApi| {
        let remote = RemoteProvider::new(endpoint(api, "http://127.0.0.1:1"));
        let told = remote.warnings(&request);
        assert!(remote.warnings(&request).is_empty());
        format!("{told:?}").matches(" does not take ").count()
    };
    let counts =
        [WireApi::Chat, WireApi::Responses, WireApi::Anthropic, WireApi::Gemini, WireApi::Ollama].map(told);
    assert_eq!(counts, [1, 1, 1, 1, 2]);
    let warning = RemoteProvider::new(endpoint(WireApi::Chat, "http://127.0.0.1:1")).warnings(&request);
    insta::assert_debug_snapshot!(warning, @r#"
    [
        Warning(
            "fake does not take b.zip (application/zip); the model is told its name and not shown what is in it",
        ),
    ]
    "#);
}

#[test]
fn neither_an_endpoint_nor_its_provider_shows_a_secret() {
    let base = format!("https://h/v1?key={KEY}");
    let headers = vec![("x-key".to_owned(), SecretString::new(KEY))];
    let remote = RemoteProvider::new(ProviderEndpoint { headers, ..endpoint(WireApi::Chat, &base) });
    assert!(remote.link().is_ok());
    assert_eq!(format!("{remote:?}"), r#"Remote { endpoint: Endpoint { name: "fake", api: Chat, .. }, .. }"#);
}

#[test]
fn nothing_is_built_before_the_first_call() {
    let remote = RemoteProvider::new(endpoint(WireApi::Chat, "https://h"));
    assert!(remote.link.get().is_none());
}

#[tokio::test]
async fn a_list_that_is_none_is_an_error() {
    let server = serve(vec![
        vec![head("200 OK", &[]), ServerAction::Send("<html>".to_owned())],
        vec![head("200 OK", &[]), ServerAction::Send("{}".to_owned())],
        vec![head("401 X", &[]), ServerAction::Send(format!("{{\"error\": \"{KEY}\"}}"))],
        vec![ServerAction::UntilClosed],
    ])
    .await;
    let remote = RemoteProvider::new(endpoint(WireApi::Chat, &server.url));
    let mut told = Vec::new();
    for _ in 0..3 {
        told.push(remote.models().await.unwrap_err().to_string());
    }
    told.push(remote.models_within(Duration::from_millis(30)).await.unwrap_err().to_string());
    insta::assert_snapshot!(told.join("\n"), @"
    fake sent a response that cannot be parsed: a web page came instead of an answer; is base_url right, or does a proxy want a sign-in?
    fake sent a response that cannot be parsed: a list of models was expected
    fake rejected the API key: [hidden]
    fake sent no data for 30ms
    ");
}

#[tokio::test]
async fn model_servers_are_found_where_they_listen() {
    let list = |body: &str| vec![head("200 OK", &[]), ServerAction::Send(body.to_owned())];
    // The first connection only looks whether anyone is there.
    let one = serve_after_a_look(list(r#"{"data": [{"id": "smol"}]}"#)).await;
    let none = serve_after_a_look(list(r#"{"data": []}"#)).await;
    let other = serve_after_a_look(list("<html>")).await;
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let servers = [closed, none, one, other].map(|port| LocalServer { name: "x", api: WireApi::Chat, port });
    let found = discover(&servers).await;
    let [DiscoveredServer { endpoint, models }] = &found[..] else { panic!("{found:?}") };
    assert_eq!(
        (endpoint.base_url.as_str(), models[0].id.as_str()),
        (format!("http://127.0.0.1:{one}").as_str(), "smol")
    );
}

async fn serve_after_a_look(acts: Vec<ServerAction>) -> u16 {
    let server = serve(vec![vec![], acts]).await;
    server.url.rsplit(':').next().unwrap().parse().unwrap()
}
