//! The SQLite backend passes the store suite, with and without inline commits.

use session::{
    Error, Result,
    sqlite::{Options, SqliteStore},
};
use std::sync::Arc;
use tempfile::TempDir;
use testkit::store_suite::SharedStore;

fn open(options: Options) -> Result<(SharedStore, TempDir)> {
    let dir = tempfile::tempdir().map_err(|error| Error::Backend(error.into()))?;
    let store = SqliteStore::open(dir.path().join("lango.db"), options)?;
    Ok((Arc::new(store), dir))
}

mod writer_thread {
    use super::*;

    fn open() -> Result<(SharedStore, TempDir)> {
        super::open(Options::default())
    }

    testkit::store_contract_tests!(open);
}

mod inline_commits {
    use super::*;

    fn open() -> Result<(SharedStore, TempDir)> {
        super::open(Options { inline_commits: true, ..Options::default() })
    }

    testkit::store_contract_tests!(open);
}
