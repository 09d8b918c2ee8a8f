//! The SQLite backend keeps every law.

use session::{
    Error, Result,
    sqlite::{Options, SqliteStore},
};
use std::sync::Arc;
use tempfile::TempDir;
use testkit::store_suite::Shared;

fn open() -> Result<(Shared, TempDir)> {
    let place = tempfile::tempdir().map_err(|error| Error::Backend(error.into()))?;
    let store = SqliteStore::open(place.path().join("lango.db"), Options::default())?;
    Ok((Arc::new(store), place))
}

testkit::store_laws!(open);
