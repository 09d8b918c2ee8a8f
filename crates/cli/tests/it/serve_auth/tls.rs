//! TLS by certificate files.

use super::local;
use crate::common::{Answer, Place, Running};
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

/// An authority, a certificate of it for `localhost` and 127.0.0.1 with its key, and another one that vouches for itself.
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

fn connect(server: &Running, trusts: &str) -> Stream {
    let socket = TcpStream::connect(server.address).unwrap();
    let client = Arc::new(client(trusts));
    StreamOwned::new(ClientConnection::new(client, "127.0.0.1".try_into().unwrap()).unwrap(), socket)
}

fn ask(server: &Running, path: &str, more: &str) -> Answer {
    let mut stream = connect(server, "ca.pem");
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n{more}\r\n", server.address)
        .unwrap();
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    Answer::parse(&bytes)
}

/// The first line of the answer to a request on a connection that may go on.
fn health(stream: &mut Stream, server: &Running) -> std::io::Result<String> {
    write!(stream, "GET /health HTTP/1.1\r\nhost: {}\r\n\r\n", server.address)?;
    let mut bytes = [0; 4096];
    let count = stream.read(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes[..count]).lines().next().unwrap_or_default().to_owned())
}

const WELL: &str = "HTTP/1.1 200 OK";

#[test]
fn a_client_that_trusts_the_certificate_is_let_in_and_its_cookie_is_for_tls_alone() {
    let place = Place::canned();
    let (certificate, key) = (file("server.pem"), file("server-key.pem"));
    let (certificate, key) = (certificate.to_str().unwrap(), key.to_str().unwrap());
    let server = Running::start(&place, &["--tls-cert", certificate, "--tls-key", key]);
    assert!(server.said().contains("listening on https://127.0.0.1:"), "{}", server.said());
    assert_eq!(ask(&server, "/health", "").status, 200);
    assert_eq!(ask(&server, "/list-apps", "").status, 401);
    assert_eq!(ask(&server, "/list-apps", &format!("authorization: {}\r\n", local(&place))).status, 200);
    let own = format!("origin: https://{}\r\n", server.address);
    assert_eq!(ask(&server, "/health", &own).status, 200);
    assert_eq!(ask(&server, "/health", &own.replace("https", "http")).status, 403);
    let entered = ask(&server, &server.link, "");
    assert!(entered.header("set-cookie").unwrap().ends_with("; Secure"), "{entered:?}");
    assert_ne!(server.get("/health", &[]).status, 200, "in the clear nobody is answered");
}

#[test]
fn a_certificate_that_is_renewed_is_shown_to_new_connections_and_a_broken_one_to_nobody() {
    let place = Place::canned();
    let copy = |from: &str, to: &str| place.file(to, fs::read(file(from)).unwrap());
    copy("server.pem", "cert.pem");
    copy("server-key.pem", "key.pem");
    let server = Running::start(&place, &["--tls-cert", "cert.pem", "--tls-key", "key.pem"]);
    let fresh = |trusts: &str| health(&mut connect(&server, trusts), &server);
    let mut old = connect(&server, "ca.pem");
    assert_eq!(health(&mut old, &server).unwrap(), WELL);

    copy("renewed.pem", "cert.pem");
    assert_eq!(fresh("ca.pem").unwrap(), WELL, "the key is still the old one's");
    copy("renewed-key.pem", "key.pem");
    assert_eq!(fresh("renewed.pem").unwrap(), WELL);
    assert!(fresh("ca.pem").is_err());
    assert_eq!(health(&mut old, &server).unwrap(), WELL, "a connection keeps what it began with");

    place.file("key.pem", "canary");
    for _ in 0..3 {
        assert_eq!(fresh("renewed.pem").unwrap(), WELL);
    }
    let said = server.says("key.pem contains no");
    let told: Vec<&str> = said.lines().skip_while(|line| !line.contains("certificate")).collect();
    assert_snapshot!(told.join("\n"), @"
    the certificate and the private key are not usable: keys may not be consistent: KeyMismatch; the previous certificate stays in use
    certificate reloaded; new connections use it
    key.pem contains no valid private key in PEM format; the previous certificate stays in use
    ");
}

#[test]
fn files_that_are_no_certificate_are_named() {
    let place = Place::canned();
    place.file("cert.pem", "no certificate");
    let refused =
        place.lango(&["serve", "--port", "0", "--tls-cert", "cert.pem", "--tls-key", "cert.pem"]).badly();
    assert_snapshot!(refused.picture(), @"
    lango: cert.pem contains no valid certificate in PEM format
    [exit 1]
    ");
}
