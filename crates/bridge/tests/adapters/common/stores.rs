//! Both stores, and direct reads from them.

use adk::session::SessionKey;
use session::{RunRecord, Store, memory::MemoryStore, sqlite};
use std::sync::Arc;
use tempfile::TempDir;

pub(crate) type Shared = Arc<dyn Store>;

/// A store and its directory.
pub(crate) struct Backend {
    pub(crate) name: &'static str,
    pub(crate) store: Shared,
    dir: Option<TempDir>,
}

impl Backend {
    pub(crate) fn memory() -> Self {
        Self { name: "memory", store: Arc::new(MemoryStore::new()), dir: None }
    }

    pub(crate) fn sqlite() -> Self {
        let dir = TempDir::new().unwrap();
        Self { name: "sqlite", store: open(&dir), dir: Some(dir) }
    }

    /// The store as another process opens it. The memory store has no other process and is the same store.
    pub(crate) fn again(&self) -> Shared {
        self.dir.as_ref().map_or_else(|| self.store.clone(), open)
    }
}

fn open(dir: &TempDir) -> Shared {
    Arc::new(sqlite::SqliteStore::open(dir.path().join("lango.db"), sqlite::Options::default()).unwrap())
}

pub(crate) fn backends() -> [Backend; 2] {
    [Backend::memory(), Backend::sqlite()]
}

pub(crate) fn key() -> SessionKey {
    session_key("s1")
}

pub(crate) fn session_key(session: &str) -> SessionKey {
    SessionKey::new("app", "ann", session)
}

/// The runs of the session, oldest first.
pub(crate) async fn runs(store: &Shared) -> Vec<RunRecord> {
    let mut runs = store.runs(&key(), 100).await.unwrap();
    runs.reverse();
    runs
}
