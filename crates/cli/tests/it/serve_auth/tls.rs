//! TLS by certificate files.

use super::local;
use crate::common::{AuthServer, HttpResponse, TestEnv};
use insta::assert_snapshot;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, pem::PemObject},
};
use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::PathBuf,
    sync::Arc,
};

/// A certificate authority, its certificate and key for `localhost` and 127.0.0.1, and a self-signed certificate.
fn file(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../provider/tests/remote/tls", name].iter().collect()
}

fn client(trusts: &str) -> ClientConfig {
    let mut trusted = RootCertStore::empty();
    trusted.add(CertificateDer::from_pem_file(file(trusts)).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    builder.with_root_certificates(trusted).with_no_client_auth()
}

type Stream = StreamOwned<ClientConnection, TcpStream>;

fn connect(server: &AuthServer, trusts: &str) -> Stream {
    let socket = TcpStream::connect(server.address).unwrap();
    let client = Arc::new(client(trusts));
    StreamOwned::new(ClientConnection::new(client, "127.0.0.1".try_into().unwrap()).unwrap(), socket)
}

fn ask(server: &AuthServer, path: &str, more: &str) -> HttpResponse {
    let mut stream = connect(server, "ca.pem");
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n{more}\r\n", server.address)
        .unwrap();
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    HttpResponse::parse(&bytes)
}

/// The status line of the response to a request on a kept-alive connection.
fn health(stream: &mut Stream, server: &AuthServer) -> std::io::Result<String> {
    write!(stream, "GET /health HTTP/1.1\r\nhost: {}\r\n\r\n", server.address)?;
    let mut bytes = [0; 4096];
    let count = stream.read(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes[..count]).lines().next().unwrap_or_default().to_owned())
}

const STATUS_OK: &str = "HTTP/1.1 200 OK";

#[test]
fn tls_server_accepts_trusting_clients_and_sets_a_secure_cookie() {
    let env = TestEnv::canned();
    let (certificate, key) = (file("server.pem"), file("server-key.pem"));
    let (certificate, key) = (certificate.to_str().unwrap(), key.to_str().unwrap());
    let server = AuthServer::start(&env, &["--tls-cert", certificate, "--tls-key", key]);
    assert!(server.log().contains("listening on https://127.0.0.1:"), "{}", server.log());
    assert_eq!(ask(&server, "/health", "").status, 200);
    assert_eq!(ask(&server, "/list-apps", "").status, 401);
    assert_eq!(ask(&server, "/list-apps", &format!("authorization: {}\r\n", local(&env))).status, 200);
    let own = format!("origin: https://{}\r\n", server.address);
    assert_eq!(ask(&server, "/health", &own).status, 200);
    assert_eq!(ask(&server, "/health", &own.replace("https", "http")).status, 403);
    let entered = ask(&server, &server.link, "");
    assert!(entered.header("set-cookie").unwrap().ends_with("; Secure"), "{entered:?}");
    assert_ne!(server.get("/health", &[]).status, 200, "plain HTTP gets no answer");
}

#[test]
fn renewed_certificate_is_reloaded_and_an_invalid_one_ignored() {
    let env = TestEnv::canned();
    let copy = |from: &str, to: &str| env.file(to, fs::read(file(from)).unwrap());
    copy("server.pem", "cert.pem");
    copy("server-key.pem", "key.pem");
    let server = AuthServer::start(&env, &["--tls-cert", "cert.pem", "--tls-key", "key.pem"]);
    let fresh = |trusts: &str| health(&mut connect(&server, trusts), &server);
    let mut old = connect(&server, "ca.pem");
    assert_eq!(health(&mut old, &server).unwrap(), STATUS_OK);

    copy("renewed.pem", "cert.pem");
    assert_eq!(fresh("ca.pem").unwrap(), STATUS_OK, "the key file has not changed yet");
    copy("renewed-key.pem", "key.pem");
    assert_eq!(fresh("renewed.pem").unwrap(), STATUS_OK);
    assert!(fresh("ca.pem").is_err());
    assert_eq!(health(&mut old, &server).unwrap(), STATUS_OK, "an open connection keeps its certificate");

    env.file("key.pem", "canary");
    for _ in 0..3 {
        assert_eq!(fresh("renewed.pem").unwrap(), STATUS_OK);
    }
    let log = server.wait_for_log("key.pem contains no");
    let lines: Vec<&str> = log.lines().skip_while(|line| !line.contains("certificate")).collect();
    assert_snapshot!(lines.join("\n"), @"
    the certificate and the private key are not usable: keys may not be consistent: KeyMismatch; the previous certificate stays in use
    certificate reloaded; new connections use it
    key.pem contains no valid private key in PEM format; the previous certificate stays in use
    ");
}

#[test]
fn invalid_certificate_file_is_reported() {
    let env = TestEnv::canned();
    env.file("cert.pem", "no certificate");
    let refused =
        env.lango(&["serve", "--port", "0", "--tls-cert", "cert.pem", "--tls-key", "cert.pem"]).failure();
    assert_snapshot!(refused.snapshot(), @"
    lango: cert.pem contains no valid certificate in PEM format
    [exit 1]
    ");
}
