//! TLS by certificate files.

use super::local;
use crate::common::{Answer, Place, Running};
use insta::assert_snapshot;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, pem::PemObject},
};
use std::{
    io::{Read, Write},
    net::TcpStream,
    path::PathBuf,
    sync::Arc,
};

/// An authority, and a certificate of it for `localhost` and 127.0.0.1 with its key.
fn file(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../provider/tests/remote/tls", name].iter().collect()
}

fn client() -> ClientConfig {
    let mut trusted = RootCertStore::empty();
    trusted.add(CertificateDer::from_pem_file(file("ca.pem")).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    builder.with_root_certificates(trusted).with_no_client_auth()
}

fn ask(server: &Running, path: &str, more: &str) -> Answer {
    let socket = TcpStream::connect(server.address).unwrap();
    let connection = ClientConnection::new(Arc::new(client()), "127.0.0.1".try_into().unwrap()).unwrap();
    let mut stream = StreamOwned::new(connection, socket);
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n{more}\r\n", server.address)
        .unwrap();
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    Answer::parse(&bytes)
}

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
fn files_that_are_no_certificate_are_named() {
    let place = Place::canned();
    place.file("cert.pem", "no certificate");
    let refused =
        place.lango(&["serve", "--port", "0", "--tls-cert", "cert.pem", "--tls-key", "cert.pem"]).badly();
    assert_snapshot!(refused.picture(), @"
    lango: cert.pem holds no certificate in PEM format that can be read
    [exit 1]
    ");
}
