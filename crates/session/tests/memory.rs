//! The memory backend keeps every law.

use session::{Result, memory::MemoryStore};
use std::sync::Arc;
use testkit::store_suite::Shared;

#[expect(clippy::unnecessary_wraps, reason = "other backends can fail to open")]
fn open() -> Result<(Shared, ())> {
    Ok((Arc::new(MemoryStore::new()), ()))
}

testkit::store_laws!(open);
