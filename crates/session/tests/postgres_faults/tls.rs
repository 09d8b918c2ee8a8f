//! TLS: what each `sslmode` accepts.

use session::{
    Error, Result,
    postgres::{Options, PostgresStore, PostgresUrl},
};
use std::path::{Path, PathBuf};
use testkit::postgres::PostgresServer;

/// Certificates of a test of the provider clients: `server.pem` is signed by `ca.pem` for localhost.
fn certificates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../provider/tests/remote/tls")
}

async fn connect(server: &PostgresServer, host: &str, parameters: &str) -> Result<()> {
    let url = server.url_at(server.port(), "").replace("127.0.0.1", host);
    let url = url.replace("sslmode=disable", parameters);
    let options = Options { connections: 1, ..Options::default() };
    PostgresStore::open(&PostgresUrl::parse(&url).ok_or(Error::Closed)?, options).await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn each_mode_verifies_what_it_promises() -> Result<()> {
    let Some(server) = PostgresServer::start("").map_err(Error::Backend)? else { return Ok(()) };
    let folder = certificates();
    server
        .use_certificate(&folder.join("server.pem"), &folder.join("server-key.pem"))
        .map_err(Error::Backend)?;
    let root = format!("&sslrootcert={}", folder.join("ca.pem").display());
    for mode in ["prefer", "require", "disable"] {
        connect(&server, "127.0.0.1", &format!("sslmode={mode}")).await?;
    }
    connect(&server, "localhost", &format!("sslmode=verify-full{root}")).await?;
    connect(&server, "localhost", &format!("sslmode=verify-ca{root}")).await?;
    // Another authority signed this certificate, as far as the system knows.
    for mode in ["verify-ca", "verify-full"] {
        let error = connect(&server, "localhost", &format!("sslmode={mode}")).await.unwrap_err();
        let text = error.with_causes();
        assert!(text.contains("certificate"), "{text}");
    }
    Ok(())
}
