//! The memory backend passes the store suite.

use session::{Result, memory::MemoryStore};
use std::sync::Arc;
use testkit::store_suite::SharedStore;

#[expect(clippy::unnecessary_wraps, reason = "other backends can fail to open")]
fn open() -> Result<(SharedStore, ())> {
    Ok((Arc::new(MemoryStore::new()), ()))
}

testkit::store_contract_tests!(open);
