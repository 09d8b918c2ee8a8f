//! The system's proxies and private certificates are honoured.
//!
//! What the environment says is read when a client is built, so such a test runs this binary again with its own.

use futures::StreamExt as _;
use provider::{
    ModelMessage, ModelRequest, Provider as _, ProviderEndpoint, RemoteProvider, Role, StreamEvent, WireApi,
};
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpListener,
    task::{JoinHandle, spawn_blocking},
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig, crypto,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    },
};

const ANSWER: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n\
    data: {\"choices\":[{\"delta\":{\"content\":\"hello\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

/// Made for these tests: an authority, and a certificate of it for `localhost` and 127.0.0.1.
fn tls(file: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "remote", "tls", file].iter().collect()
}

fn path(path: &Path) -> String {
    path.display().to_string()
}

/// What the model says at this address, or what went wrong.
async fn ask(endpoint: ProviderEndpoint) -> String {
    let messages = vec![ModelMessage::text(Role::User, "hi")];
    let request = ModelRequest { model: "m".to_owned(), messages, ..ModelRequest::default() };
    let events: Vec<StreamEvent> = RemoteProvider::new(endpoint).stream(request).collect().await;
    let said = |event: &StreamEvent| match event {
        StreamEvent::TextDelta { text, .. } => Some(text.clone()),
        StreamEvent::Error(error) => Some(error.to_string()),
        _ => None,
    };
    events.iter().filter_map(said).collect::<Vec<_>>().join(" ")
}

/// Answers one request and gives its first line.
async fn answer(mut socket: impl AsyncRead + AsyncWrite + Unpin) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"}") {
        head.push(socket.read_u8().await.unwrap());
    }
    socket.write_all(ANSWER.as_bytes()).await.unwrap();
    socket.shutdown().await.unwrap();
    String::from_utf8(head).unwrap().lines().next().unwrap().to_owned()
}

async fn plain_server() -> (u16, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (port, tokio::spawn(async move { answer(listener.accept().await.unwrap().0).await }))
}

async fn tls_server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let certificate = CertificateDer::from_pem_file(tls("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(tls("server-key.pem")).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    tokio::spawn(async move {
        let (socket, _) = listener.accept().await.unwrap();
        if let Ok(socket) = TlsAcceptor::from(Arc::new(config)).accept(socket).await {
            answer(socket).await;
        }
    });
    port
}

const BASE_URL: &str = "LANGO_TEST_BASE_URL";

/// The same question from a process with this environment.
async fn ask_with<const N: usize>(variables: [(&'static str, String); N], base_url: String) -> String {
    let run = move || {
        let mut command = Command::new(env::current_exe().unwrap());
        for inherited in ["http_proxy", "no_proxy", "NO_PROXY"] {
            command.env_remove(inherited);
        }
        command
            .args(["--exact", "network::asks_by_its_environment", "--ignored", "--nocapture"])
            .envs(variables)
            .env(BASE_URL, base_url)
            .output()
            .unwrap()
    };
    let output = spawn_blocking(run).await.unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
#[ignore = "a part of other tests, which run it with an environment of their own"]
async fn asks_by_its_environment() {
    let base_url = env::var(BASE_URL).expect("set by the test that runs this one");
    println!("[{}]", ask(ProviderEndpoint::new("test", WireApi::Chat, base_url)).await);
}

#[tokio::test]
async fn a_private_authority_is_trusted_by_its_file() {
    let base_url = format!("https://localhost:{}", tls_server().await);
    let endpoint = ProviderEndpoint {
        ca_file: Some(tls("ca.pem")),
        ..ProviderEndpoint::new("test", WireApi::Chat, base_url)
    };
    assert_eq!(ask(endpoint).await, "hello");
}

#[tokio::test]
async fn a_stranger_is_not_trusted_and_the_remedy_is_named() {
    let base_url = format!("https://127.0.0.1:{}", tls_server().await);
    // Beside an authority that knows it not: a machine without certificates would fail sooner.
    let endpoint = ProviderEndpoint {
        ca_file: Some(tls("server.pem")),
        ..ProviderEndpoint::new("test", WireApi::Chat, base_url)
    };
    let told = ask(endpoint).await;
    assert!(told.contains("is not trusted (") && told.contains("set ca_file to the certificate"), "{told}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_systems_certificates_may_be_named_by_the_environment() {
    let base_url = format!("https://localhost:{}", tls_server().await);
    let said = ask_with([("SSL_CERT_FILE", path(&tls("ca.pem")))], base_url).await;
    assert!(said.contains("[hello]"), "{said}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn without_any_certificate_only_what_needs_one_fails() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("none.pem");
    fs::write(&file, "").unwrap();
    let none = || [("SSL_CERT_FILE", path(&file)), ("SSL_CERT_DIR", path(folder.path()))];
    let told = ask_with(none(), "https://localhost:9/v1".to_owned()).await;
    assert!(
        told.contains("No CA certificates were loaded from the system; set ca_file to add CA certificates"),
        "{told}"
    );

    let (proxy, _) = plain_server().await;
    let [one, other] = none();
    let variables = [one, other, ("HTTP_PROXY", format!("http://127.0.0.1:{proxy}"))];
    let said = ask_with(variables, "http://models.invalid/v1".to_owned()).await;
    assert!(said.contains("[hello]"), "{said}");
}

#[tokio::test]
async fn the_systems_proxy_is_used() {
    let (proxy, asked) = plain_server().await;
    let proxy = format!("http://127.0.0.1:{proxy}");
    let said = ask_with([("HTTP_PROXY", proxy)], "http://models.invalid/v1".to_owned()).await;
    assert!(said.contains("[hello]"), "{said}");
    assert_eq!(asked.await.unwrap(), "POST http://models.invalid/v1/chat/completions HTTP/1.1");
}

#[tokio::test]
async fn loopback_needs_no_proxy() {
    let (port, asked) = plain_server().await;
    let nobody = "http://127.0.0.1:9".to_owned();
    let said = ask_with([("HTTP_PROXY", nobody)], format!("http://localhost:{port}/v1")).await;
    assert!(said.contains("[hello]"), "{said}");
    assert_eq!(asked.await.unwrap(), "POST /v1/chat/completions HTTP/1.1");
}
