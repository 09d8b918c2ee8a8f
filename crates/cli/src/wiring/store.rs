//! Opens the store. Opening may wait for a lock of another process, so it happens on a blocking thread.

use crate::{config::Settings, screen};
use anyhow::Context;
use session::{
    Store,
    sqlite::{Options, SqliteStore},
};
use std::sync::Arc;
use tokio::task;

/// Opens or creates the store for a command that drives one conversation on the main thread, which may block for a commit.
pub(crate) async fn open_store(settings: &Settings) -> anyhow::Result<Arc<dyn Store>> {
    Ok(Arc::new(open(settings, Options { inline_commits: true, ..Options::default() }).await?))
}

/// Opens or creates the store as its concrete type.
pub(crate) async fn open_file(settings: &Settings) -> anyhow::Result<SqliteStore> {
    open(settings, Options::default()).await
}

/// Opens or creates the store for a server, which logs faults of the file.
pub(crate) async fn open_served_store(settings: &Settings) -> anyhow::Result<Arc<dyn Store>> {
    Ok(Arc::new(open(settings, Options { report: Some(screen::note), ..Options::default() }).await?))
}

async fn open(settings: &Settings, options: Options) -> anyhow::Result<SqliteStore> {
    let path = settings.database.clone();
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir).with_context(|| {
            format!("{} cannot be created; set LANGO_HOME to a directory that can be written", dir.display())
        })?;
    }
    Ok(task::spawn_blocking(move || SqliteStore::open(path, options)).await??)
}

/// Opens the store if it exists. Read-only commands must create no files.
pub(crate) async fn existing_store(settings: &Settings) -> anyhow::Result<Option<Arc<dyn Store>>> {
    if is_missing(settings) { Ok(None) } else { open_store(settings).await.map(Some) }
}

/// Opens the store for reading if it exists. The file may be read-only.
pub(crate) async fn readable_store(settings: &Settings) -> anyhow::Result<Option<Arc<dyn Store>>> {
    if is_missing(settings) {
        return Ok(None);
    }
    let path = settings.database.clone();
    let store = task::spawn_blocking(|| SqliteStore::open_for_reading(path, Options::default())).await??;
    if store.misses_log() {
        screen::note(&format!(
            "({} is read without its write-ahead log, which cannot be used here: the newest messages may be missing)",
            settings.database.display()
        ));
    }
    Ok(Some(Arc::new(store)))
}

/// An error, such as a directory without permission, does not mean that the file is missing.
fn is_missing(settings: &Settings) -> bool {
    matches!(settings.database.try_exists(), Ok(false))
}
