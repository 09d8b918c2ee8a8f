//! Stores on the shared server or on one of their own, with and without a proxy.

use session::postgres::{Options, PostgresStore, PostgresUrl};
use std::{sync::Arc, time::Duration};
use testkit::{
    postgres::{self, PostgresServer, TestSchema},
    store_suite::SharedStore,
    tcp_proxy::TcpProxy,
};

/// A store whose connection passes a proxy, and one that reaches the same schema directly.
pub(crate) struct Proxied {
    pub(crate) proxy: TcpProxy,
    pub(crate) store: SharedStore,
    pub(crate) direct: SharedStore,
    pub(crate) schema: TestSchema,
}

/// One connection, so that a test knows which one is cut.
pub(crate) fn options() -> Options {
    Options { connections: 1, connection_wait: Duration::from_secs(20), ..Options::default() }
}

pub(crate) async fn open(url: &str, options: Options) -> SharedStore {
    Arc::new(PostgresStore::open(&PostgresUrl::parse(url).unwrap(), options).await.unwrap())
}

/// The shared server; `None` if PostgreSQL is not installed.
pub(crate) fn server() -> Option<&'static PostgresServer> {
    postgres::shared().unwrap()
}

pub(crate) async fn proxied() -> Option<Proxied> {
    let server = server()?;
    let schema = server.schema().unwrap();
    let proxy = TcpProxy::start(server.port()).unwrap();
    let through = schema.url.replace(&format!(":{}/", server.port()), &format!(":{}/", proxy.port()));
    let direct = open(&schema.url, Options::default()).await;
    let store = open(&through, options()).await;
    Some(Proxied { proxy, store, direct, schema })
}

/// Executes a statement in a schema.
pub(crate) fn execute(server: &PostgresServer, schema: &TestSchema, sql: &str) -> String {
    server.execute(&format!("SET search_path = {}; {sql}", schema.name)).unwrap()
}
