//! Opens the store. Opening a file may wait for a lock of another process, so it happens on a blocking thread.

use crate::{
    config::{Database, Settings},
    screen,
};
use anyhow::Context;
use session::{
    Store,
    import::BulkCommit,
    postgres::{self, PostgresStore, PostgresUrl},
    sqlite::{self, SqliteStore},
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio::task;

/// The connections of a command. A server uses the default.
const CONNECTIONS: usize = 4;

/// Opens or creates the store for a command that drives one conversation on the main thread, which may block for a commit.
pub(crate) async fn open_store(settings: &Settings) -> anyhow::Result<Arc<dyn Store>> {
    let options = sqlite::Options { inline_commits: true, ..sqlite::Options::default() };
    match &settings.database {
        Database::File(path) => Ok(Arc::new(open_file(path.clone(), options).await?)),
        Database::Postgres(url) => Ok(Arc::new(connect(url).await?)),
    }
}

/// Opens or creates the store for an import.
pub(crate) async fn open_for_import(settings: &Settings) -> anyhow::Result<Arc<dyn BulkCommit>> {
    match &settings.database {
        Database::File(path) => Ok(Arc::new(open_file(path.clone(), sqlite::Options::default()).await?)),
        Database::Postgres(url) => Ok(Arc::new(connect(url).await?)),
    }
}

/// Opens or creates the store for a server, which logs faults of the storage.
pub(crate) async fn open_served_store(settings: &Settings) -> anyhow::Result<Arc<dyn Store>> {
    let report = Some(screen::note as session::Reporter);
    match &settings.database {
        Database::File(path) => {
            let options = sqlite::Options { report, ..sqlite::Options::default() };
            Ok(Arc::new(open_file(path.clone(), options).await?))
        }
        Database::Postgres(url) => {
            let options = postgres::Options { report, ..postgres::Options::default() };
            Ok(Arc::new(PostgresStore::open(url, options).await?))
        }
    }
}

async fn open_file(path: PathBuf, options: sqlite::Options) -> anyhow::Result<SqliteStore> {
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir).with_context(|| {
            format!("{} cannot be created; set LANGO_HOME to a directory that can be written", dir.display())
        })?;
    }
    Ok(task::spawn_blocking(move || SqliteStore::open(path, options)).await??)
}

async fn connect(url: &PostgresUrl) -> anyhow::Result<PostgresStore> {
    let options = postgres::Options { connections: CONNECTIONS, ..postgres::Options::default() };
    Ok(PostgresStore::open(url, options).await?)
}

/// Opens the store if it exists. Read-only commands must create no files.
pub(crate) async fn existing_store(settings: &Settings) -> anyhow::Result<Option<Arc<dyn Store>>> {
    if is_missing(settings) { Ok(None) } else { open_store(settings).await.map(Some) }
}

/// Opens the store for reading if it exists. The file may be read-only.
pub(crate) async fn readable_store(settings: &Settings) -> anyhow::Result<Option<Arc<dyn Store>>> {
    let Some(path) = settings.database.file() else { return existing_store(settings).await };
    if is_missing(settings) {
        return Ok(None);
    }
    let path = path.to_path_buf();
    let store =
        task::spawn_blocking(|| SqliteStore::open_for_reading(path, sqlite::Options::default())).await??;
    if store.misses_log() {
        screen::note(&format!(
            "({} is read without its write-ahead log, which cannot be used here: the newest messages may be missing)",
            settings.database
        ));
    }
    Ok(Some(Arc::new(store)))
}

/// An error, such as a directory without permission, does not mean that the file is missing.
fn is_missing(settings: &Settings) -> bool {
    matches!(settings.database.file().map(Path::try_exists), Some(Ok(false)))
}
