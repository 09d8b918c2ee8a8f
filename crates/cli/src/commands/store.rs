//! `lango store`: maintenance of the database.

use crate::{
    args::{StoreArgs, StoreCommand},
    config::Settings,
    wiring,
};
use bridge::store::upkeep::Upkeep;
use session::{Owners, sqlite::SqliteStore};
use std::{
    io::{self, Write},
    sync::Arc,
};

pub(crate) async fn store(settings: &Settings, args: StoreArgs) -> anyhow::Result<()> {
    match args.command {
        StoreCommand::Compact => compact(settings).await,
    }
}

/// Deletes the rows of deleted sessions, then rewrites the file.
async fn compact(settings: &Settings) -> anyhow::Result<()> {
    if !settings.database.try_exists()? {
        writeln!(io::stderr(), "there is no database yet; lango chat creates one")?;
        return Ok(());
    }
    let store: SqliteStore = wiring::open_file(settings).await?;
    // The lock of this process, by which others notice it.
    let _claim = store.claim_owner()?;
    store.check_unshared()?;
    let needs = store.compact_needs().await?;
    writeln!(
        io::stderr(),
        "compacting {}; it needs up to {} MB for the write-ahead log and {} MB for a temporary file",
        settings.database.display(),
        megabytes(needs),
        megabytes(needs)
    )?;
    Upkeep::new(Arc::new(store.clone())).finish().await?;
    let (before, after) = store.compact().await?;
    writeln!(io::stdout(), "{} MB before, {} MB now", megabytes(before), megabytes(after))?;
    Ok(())
}

fn megabytes(bytes: u64) -> u64 {
    bytes.div_ceil(1024 * 1024)
}
