//! The PostgreSQL backend, for several servers on one database.
//!
//! | module | contents |
//! |---|---|
//! | `target`, `tls`, `pool` | the URL of the database, TLS, the connection pool |
//! | `migrate` | schema migrations, under a lock that servers share |
//! | `batch`, `write` | pipelined statements; transactions, repeated until their outcome is known |
//! | `step`, `admission`, `commit` | steps of a turn in one statement; deciding and storing any commit |
//! | `sessions`, `state`, `log` | the table of sessions, the state, reading the log |
//! | `runs`, `queue`, `idempotency_keys`, `owners`, `drafts` | runs with queue and lease, idempotency keys, owners and take-over, drafts |
//! | `artifacts`, `recipes` | the tables of these names |
//! | `ports` | the traits of this crate, wired to the modules above |
//! | `text`, `fault` | encoding of text; mapping of errors |
//!
//! **Invariants.** Every write to a session locks its row in `sessions` first and holds the lock until it is committed. So the
//! sequence numbers of a session become visible in order, and a condition that was checked stays true until the commit. Times
//! that decide about ownership are read from the clock of the database only.

mod admission;
mod artifacts;
mod batch;
mod commit;
mod drafts;
mod fault;
mod idempotency_keys;
mod log;
mod migrate;
mod owners;
mod pool;
mod ports;
mod queue;
mod recipes;
mod runs;
mod sessions;
mod state;
mod step;
mod target;
mod text;
mod tls;
mod write;

pub use target::PostgresUrl;

use crate::{
    Result,
    health::{AccessKind, Reporter, StoreHealth},
};
use deadpool_postgres::Pool;
use fault::JobResult;
use lock::LockExt;
use std::{
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock},
    time::{Duration, Instant},
};

#[derive(Clone, Debug)]
pub struct Options {
    /// Maximum number of connections of this process.
    pub connections: usize,
    /// How long a call waits for a connection before it fails with [`Error::PoolExhausted`](crate::Error::PoolExhausted).
    pub connection_wait: Duration,
    /// How long one attempt of a call may take. It is longer than the locks of the server may be held.
    pub attempt: Duration,
    /// How long a call is repeated while the database cannot be reached.
    pub retry: Duration,
    /// How long a process owns its runs after a heartbeat.
    pub lease: Duration,
    /// Called when the database fails, with the cause, and when it works again.
    pub report: Option<Reporter>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            connections: 16,
            connection_wait: Duration::from_secs(30),
            attempt: Duration::from_secs(30),
            retry: Duration::from_secs(15),
            lease: Duration::from_secs(10),
            report: None,
        }
    }
}

/// Clones share the connections.
#[derive(Clone)]
pub struct PostgresStore {
    db: Arc<PostgresDatabase>,
}

struct PostgresDatabase {
    pool: Pool,
    /// The URL without its password, where other backends have a path.
    path: PathBuf,
    options: Options,
    health: StoreHealth,
    /// The name of this process, made by its first claim.
    process: OnceLock<String>,
    /// When the last heartbeat that succeeded was sent.
    renewed: Mutex<Option<Instant>>,
}

impl PostgresStore {
    /// Connects and migrates the schema. One attempt: a wrong URL is reported at once.
    pub async fn open(url: &PostgresUrl, options: Options) -> Result<Self> {
        let (pool, path) = (pool::open(url, &options)?, url.masked_path());
        let migrated = async {
            let connection = pool::connection(&pool).await?;
            migrate::migrate(&connection, &path).await
        };
        migrated.await.map_err(|error: fault::JobError| error.at(&path))?;
        let health = StoreHealth::new(path.clone(), options.report);
        let (process, renewed) = (OnceLock::new(), Mutex::default());
        Ok(Self { db: Arc::new(PostgresDatabase { pool, path, options, health, process, renewed }) })
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("database", &self.db.path).finish_non_exhaustive()
    }
}

impl PostgresDatabase {
    /// The name of this process in the database.
    fn process(&self) -> &str {
        self.process.get_or_init(|| format!("{}-{}", std::process::id(), uuid::Uuid::new_v4().simple()))
    }

    /// Renews the lease of this process.
    async fn beat(self: &Arc<Self>) -> Result<crate::Heartbeat> {
        let sent = Instant::now();
        let (process, lease) = (self.process().to_owned(), self.options.lease);
        let heartbeat = self.write(owners::Beat { process, lease }).await?;
        *self.renewed.locked() = Some(sent);
        Ok(heartbeat)
    }

    /// Renews the lease of this process, unless it was renewed lately, before `owner` gets a run.
    async fn hold_lease(self: &Arc<Self>, owner: &str) -> Result<()> {
        let is_fresh = |sent: Instant| sent.elapsed() < self.options.lease / 3;
        let is_own = self.process.get().is_some_and(|own| own == crate::OwnerClaim::process_of(owner));
        if is_own && !self.renewed.locked().is_some_and(is_fresh) {
            self.beat().await?;
        }
        Ok(())
    }

    fn finish_read<T>(&self, result: JobResult<T>) -> Result<T> {
        let result = result.map_err(|error| error.at(&self.path));
        self.health.record(AccessKind::Read, &result);
        result
    }
}
