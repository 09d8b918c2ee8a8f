//! Opening: several servers that start together, wrong URLs, and databases of other versions.

use crate::common::{execute, open, server};
use session::{
    Error, Result,
    postgres::{Options, PostgresStore, PostgresUrl},
};
use testkit::store_suite::make::{load, session, together};

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_start_together_migrate_once() -> Result<()> {
    let Some(server) = server() else { return Ok(()) };
    let schema = server.schema().unwrap();
    let start = |_| {
        let url = PostgresUrl::parse(&schema.url).unwrap();
        async move { PostgresStore::open(&url, Options { connections: 1, ..Options::default() }).await }
    };
    for opened in together((0..8).map(start)).await {
        opened?;
    }
    assert_eq!(execute(server, &schema, "SELECT COUNT(*) = MAX(version) FROM schema_version"), "t");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_server_finds_the_sessions_of_the_first() -> Result<()> {
    let Some(server) = server() else { return Ok(()) };
    let schema = server.schema().unwrap();
    let first = open(&schema.url, Options::default()).await;
    let key = session(&first, "s").await?;
    load(&open(&schema.url, Options::default()).await, &key).await?;
    Ok(())
}

async fn error(url: &str) -> Error {
    PostgresStore::open(&PostgresUrl::parse(url).unwrap(), Options::default()).await.map(drop).unwrap_err()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_schema_is_refused() -> Result<()> {
    let Some(server) = server() else { return Ok(()) };
    let schema = server.schema().unwrap();
    open(&schema.url, Options::default()).await;
    execute(server, &schema, "INSERT INTO schema_version (version) VALUES (99)");
    assert!(matches!(error(&schema.url).await, Error::NewerSchema { found: 99, .. }));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_url_is_an_error_that_names_the_cause_and_no_password() -> Result<()> {
    let Some(server) = server() else { return Ok(()) };
    let port = server.port();
    for (url, cause) in [
        (format!("postgres://lango:wr0ng@127.0.0.1:{port}/postgres"), "password authentication failed"),
        (server.url_at(port, "").replace("/postgres?", "/nowhere?"), "database \"nowhere\" does not exist"),
        ("postgres://lango:wr0ng@127.0.0.1:1/postgres".to_owned(), "refused"),
        (server.url_at(port, "").replace("sslmode=disable", "sslmode=require"), "TLS"),
        (
            server.url_at(port, "").replace("sslmode=disable", "sslmode=verify-full&sslrootcert=/none.pem"),
            "/none.pem",
        ),
    ] {
        let text = error(&url).await.with_causes();
        assert!(text.contains(cause), "{text}");
        assert!(!text.contains("wr0ng") && !text.contains("s3cr3t"), "{text}");
    }
    Ok(())
}
