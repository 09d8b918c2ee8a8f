//! System proxies and private certificates.
//!
//! A client reads the environment when it is built, so these tests run this binary again with an environment of their
//! own.

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

/// Test data: a CA, and its certificate for `localhost` and 127.0.0.1.
fn tls(file: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "remote", "tls", file].iter().collect()
}

fn path(path: &Path) -> String {
    path.display().to_string()
}

/// The answer of the model at this endpoint, or the error.
async fn call(endpoint: ProviderEndpoint) -> String {
    let messages = vec![ModelMessage::text(Role::User, "hi")];
    let request = ModelRequest { model: "m".to_owned(), messages, ..ModelRequest::default() };
    let events: Vec<StreamEvent> = RemoteProvider::new(endpoint).stream(request).collect().await;
    let output = |event: &StreamEvent| match event {
        StreamEvent::TextDelta { text, .. } => Some(text.clone()),
        StreamEvent::Error(error) => Some(error.to_string()),
        _ => None,
    };
    events.iter().filter_map(output).collect::<Vec<_>>().join(" ")
}

/// Answers one request and returns its first line.
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

/// Calls the model from a process with these environment variables.
async fn call_with_env<const N: usize>(variables: [(&'static str, String); N], base_url: String) -> String {
    let run = move || {
        let mut command = Command::new(env::current_exe().unwrap());
        for inherited in ["http_proxy", "no_proxy", "NO_PROXY"] {
            command.env_remove(inherited);
        }
        command
            .args(["--exact", "network::call_with_own_environment", "--ignored", "--nocapture"])
            .envs(variables)
            .env(BASE_URL, base_url)
            .output()
            .unwrap()
    };
    let output = spawn_blocking(run).await.unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
#[ignore = "run by other tests, each with its own environment"]
async fn call_with_own_environment() {
    let base_url = env::var(BASE_URL).expect("the calling test sets the variable");
    println!("[{}]", call(ProviderEndpoint::new("test", WireApi::Chat, base_url)).await);
}

#[tokio::test]
async fn private_ca_is_trusted_by_ca_file() {
    let base_url = format!("https://localhost:{}", tls_server().await);
    let endpoint = ProviderEndpoint {
        ca_file: Some(tls("ca.pem")),
        ..ProviderEndpoint::new("test", WireApi::Chat, base_url)
    };
    assert_eq!(call(endpoint).await, "hello");
}

#[tokio::test]
async fn untrusted_certificate_error_names_ca_file() {
    let base_url = format!("https://127.0.0.1:{}", tls_server().await);
    // With a CA file that does not match: without any CA the client fails earlier.
    let endpoint = ProviderEndpoint {
        ca_file: Some(tls("server.pem")),
        ..ProviderEndpoint::new("test", WireApi::Chat, base_url)
    };
    let output = call(endpoint).await;
    assert!(
        output.contains("is not trusted (") && output.contains("set ca_file to the certificate"),
        "{output}"
    );
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn ssl_cert_file_overrides_the_system_certificates() {
    let base_url = format!("https://localhost:{}", tls_server().await);
    let output = call_with_env([("SSL_CERT_FILE", path(&tls("ca.pem")))], base_url).await;
    assert!(output.contains("[hello]"), "{output}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn missing_certificates_fail_https_only() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("none.pem");
    fs::write(&file, "").unwrap();
    let none = || [("SSL_CERT_FILE", path(&file)), ("SSL_CERT_DIR", path(folder.path()))];
    let output = call_with_env(none(), "https://localhost:9/v1".to_owned()).await;
    assert!(
        output.contains("No CA certificates were loaded from the system; set ca_file to add CA certificates"),
        "{output}"
    );

    let (proxy, _) = plain_server().await;
    let [one, other] = none();
    let variables = [one, other, ("HTTP_PROXY", format!("http://127.0.0.1:{proxy}"))];
    let output = call_with_env(variables, "http://models.invalid/v1".to_owned()).await;
    assert!(output.contains("[hello]"), "{output}");
}

#[tokio::test]
async fn http_proxy_is_used() {
    let (proxy, request_line) = plain_server().await;
    let proxy = format!("http://127.0.0.1:{proxy}");
    let output = call_with_env([("HTTP_PROXY", proxy)], "http://models.invalid/v1".to_owned()).await;
    assert!(output.contains("[hello]"), "{output}");
    assert_eq!(request_line.await.unwrap(), "POST http://models.invalid/v1/chat/completions HTTP/1.1");
}

#[tokio::test]
async fn loopback_bypasses_the_proxy() {
    let (port, request_line) = plain_server().await;
    let closed_port = "http://127.0.0.1:9".to_owned();
    let output = call_with_env([("HTTP_PROXY", closed_port)], format!("http://localhost:{port}/v1")).await;
    assert!(output.contains("[hello]"), "{output}");
    assert_eq!(request_line.await.unwrap(), "POST /v1/chat/completions HTTP/1.1");
}
