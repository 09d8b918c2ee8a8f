//! The database stops, refuses writes, or has no connection left. The store works again without a restart.

use crate::common::{execute, open, options, proxied, server};
use futures::future;
use session::{Error, Result, postgres::Options};
use std::{sync::Arc, time::Duration};
use testkit::{
    postgres::PostgresServer,
    store_suite::make::{ids, load, message_commit, session},
};

/// Fails writes of messages with an error code, as a full disk or a read-only database would.
fn fail_with(code: &str) -> String {
    format!(
        "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN RAISE EXCEPTION 'injected' USING ERRCODE = '{code}'; END $$;
         CREATE TRIGGER fail BEFORE INSERT ON messages EXECUTE FUNCTION fail()"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_write_leaves_nothing_and_the_next_one_succeeds() -> Result<()> {
    let Some(server) = server() else { return Ok(()) };
    let schema = server.schema().unwrap();
    let store = open(&schema.url, options()).await;
    let key = session(&store, "s").await?;
    for code in ["53100", "25006"] {
        execute(server, &schema, &fail_with(code));
        let error = store.commit(&key, message_commit("m1")).await.unwrap_err();
        match code {
            "53100" => assert!(matches!(error, Error::DiskFull { .. }), "{error:?}"),
            _ => assert!(matches!(error, Error::ReadOnly { .. }), "{error:?}"),
        }
        assert!(!error.with_causes().contains("s3cr3t"), "{error}");
        assert_eq!(load(&store, &key).await?.row.last_seq.0, 0);
        execute(server, &schema, "DROP FUNCTION fail CASCADE");
    }
    store.commit(&key, message_commit("m1")).await?;
    assert_eq!(ids(&load(&store, &key).await?.tail), ["m1"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_wait_for_a_database_that_restarts() -> Result<()> {
    let Some(server) = PostgresServer::start("").unwrap() else { return Ok(()) };
    let url = server.url_at(server.port(), "");
    let store = open(&url, Options { retry: Duration::from_secs(60), ..Options::default() }).await;
    let key = session(&store, "s").await?;
    for (n, mode) in [(1, "fast"), (2, "immediate")] {
        server.stop(mode).unwrap();
        let (waiting, read_key) = (Arc::clone(&store), key.clone());
        let commit =
            tokio::spawn(async move { waiting.commit(&read_key, message_commit(&format!("m{n}"))).await });
        server.resume().unwrap();
        let committed = commit.await.map_err(|error| Error::Backend(error.into()))??;
        assert_eq!(committed.seq.0, n);
    }
    assert_eq!(ids(&load(&store, &key).await?.tail), ["m1", "m2"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_stays_away_is_an_error_without_the_password() -> Result<()> {
    let Some(proxied) = proxied().await else { return Ok(()) };
    let through = proxied
        .schema
        .url
        .replace(&format!(":{}/", server().unwrap().port()), &format!(":{}/", proxied.proxy.port()));
    let store = open(&through, Options { retry: Duration::ZERO, ..options() }).await;
    let key = session(&store, "s").await?;
    proxied.proxy.down();
    let refused = store.commit(&key, message_commit("m1")).await.unwrap_err();
    assert!(matches!(refused, Error::Unreachable { .. }), "{refused:?}");
    assert!(refused.is_storage_fault() && refused.is_transient());
    assert!(!refused.with_causes().contains("s3cr3t"), "{refused}");
    assert!(store.load(&key, session::TailBudget::ALL).await.is_err());
    proxied.proxy.up();
    store.commit(&key, message_commit("m1")).await?;
    assert_eq!(ids(&load(&store, &key).await?.tail), ["m1"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_does_not_wait_for_a_connection_forever() -> Result<()> {
    let Some(proxied) = proxied().await else { return Ok(()) };
    let through = proxied
        .schema
        .url
        .replace(&format!(":{}/", server().unwrap().port()), &format!(":{}/", proxied.proxy.port()));
    let store = open(&through, Options { connection_wait: Duration::from_millis(50), ..options() }).await;
    let key = session(&store, "s").await?;
    proxied.proxy.hold();
    // One of them gets the only connection, and waits for the database.
    let (one, two) = (store.commit(&key, message_commit("m1")), store.commit(&key, message_commit("m2")));
    let (refused, held) = future::select(one, two).await.factor_first();
    assert!(matches!(refused, Err(Error::PoolExhausted { .. })), "{refused:?}");
    proxied.proxy.release();
    held.await?;
    assert_eq!(load(&store, &key).await?.tail.len(), 1);
    Ok(())
}
