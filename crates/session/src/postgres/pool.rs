//! The connection pool, and the settings of each connection.

use super::{Options, fault::JobResult, target::PostgresUrl, tls::PostgresTls};
use crate::{Error, Result};
use deadpool_postgres::{Hook, HookError, Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime};
use std::time::Duration;

/// How long a new connection may take.
const CONNECT: Duration = Duration::from_secs(10);
/// How long sent data may stay without an acknowledgement of the network.
const UNACKNOWLEDGED: Duration = Duration::from_secs(15);

/// A process that stops within a transaction holds its row locks. The server ends that transaction before another process may
/// take over its runs. Statements are limited like every other wait. A server that is configured to acknowledge commits before
/// they are durable is overruled; stronger settings are kept.
const SETTINGS: &str = "SET idle_in_transaction_session_timeout = '8s';
     SET lock_timeout = '20s';
     SET statement_timeout = '60s';
     SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'";

pub(super) fn open(url: &PostgresUrl, options: &Options) -> Result<Pool> {
    let target = url.target()?;
    let mut config = target.config;
    if config.get_application_name().is_none() {
        config.application_name("lango");
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(UNACKNOWLEDGED);
    }
    let failed = |source| Error::Open { path: url.masked_path(), source };
    let tls = PostgresTls::new(target.verification, target.root_certificate.as_deref()).map_err(failed)?;
    let manager = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let settings = Hook::async_fn(|client: &mut deadpool_postgres::ClientWrapper, _| {
        Box::pin(async move { client.batch_execute(SETTINGS).await.map_err(HookError::Backend) })
    });
    Pool::builder(Manager::from_config(config, tls, manager))
        .max_size(options.connections.max(1))
        .runtime(Runtime::Tokio1)
        .wait_timeout(Some(options.connection_wait))
        .create_timeout(Some(CONNECT))
        .recycle_timeout(Some(CONNECT))
        .post_create(settings)
        .build()
        .map_err(|error| failed(error.into()))
}

/// A connection of the pool.
pub(super) async fn connection(pool: &Pool) -> JobResult<Object> {
    Ok(pool.get().await?)
}

/// Closes a connection whose state is unknown, instead of returning it to the pool.
pub(super) fn discard(connection: Object) {
    drop(Object::take(connection));
}
