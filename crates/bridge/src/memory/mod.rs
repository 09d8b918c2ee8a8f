//! What an agent finds of earlier conversations: recall over all sessions of the user, and ADK's memory service.
//!
//! | module | contents |
//! |---|---|
//! | `passage` | a hit with the messages around it, bounded in size |
//! | [`recall`] | the tool `recall` |
//! | [`adk_tools`] | ADK's tools `load_memory` and `preload_memory` |
//! | `indexer` | keeps the search index up to date while a process runs |
//!
//! **Invariant.** A search is limited to the user and the app of the session that it is made for; no argument widens it.
//! Passages of a session with untrusted text are untrusted.

pub mod adk_tools;
mod indexer;
mod passage;
pub mod recall;

pub use indexer::keep_indexed;
pub use passage::{Passage, PassageMessage};
pub use session::{SearchHit, SearchQuery};

use crate::{store::service::service_error, tools::guard::UNTRUSTED};
use adk::{error::ServiceError, session::SessionKey};
use passage::Excerpt;
use session::{IndexProgress, PageRequest, Seq, Store, StoredMessage};
use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

/// How long a search waits for the index. What is committed by this process is indexed much faster.
const CATCH_UP: Duration = Duration::from_secs(1);
/// How many rows before and after a hit are part of its passage.
const AROUND: usize = 2;
/// State changes per page.
const STATE_PAGE: usize = 500;
/// Hits per requested passage: several hits are in the same passage.
const HITS_PER_PASSAGE: usize = 4;

/// The memory of the users of a store. Clones share it.
#[derive(Clone)]
pub struct Memory {
    store: Arc<dyn Store>,
}

/// The memory of an app whose store is opened later.
#[derive(Clone, Debug, Default)]
pub struct LazyMemory(Arc<OnceLock<Memory>>);

impl LazyMemory {
    /// Connects it to a store. A second call has no effect.
    pub fn open(&self, store: Arc<dyn Store>) {
        let _ = self.0.set(Memory::new(store));
    }

    fn get(&self) -> Option<&Memory> {
        self.0.get()
    }
}

/// Passages that a search found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recalled {
    /// Best first.
    pub passages: Vec<Passage>,
    /// Whether all messages are indexed.
    pub is_complete: bool,
    /// The first source of untrusted text in the passages.
    pub untrusted: Option<String>,
}

impl Memory {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// Adds a session with its present rows to the memory of its user.
    pub async fn add_session(&self, key: &SessionKey) -> Result<(), ServiceError> {
        self.store.add_to_memory(key).await.map_err(|error| service_error(error, key))
    }

    /// The messages that match, and whether all messages are indexed.
    pub async fn find(&self, query: SearchQuery) -> Result<(Vec<SearchHit>, bool), ServiceError> {
        let key = SessionKey::new(
            query.app.clone().unwrap_or_default(),
            &query.user,
            query.session.clone().unwrap_or_default(),
        );
        self.hits(query).await.map_err(|error| service_error(error, &key))
    }

    /// The hits of a search, after waiting shortly for the index.
    async fn hits(&self, query: SearchQuery) -> session::Result<(Vec<SearchHit>, bool)> {
        self.catch_up().await;
        let results = self.store.search(query).await?;
        Ok((results.hits, results.is_complete))
    }

    /// The passages around the best hits, at most `query.limit`.
    pub async fn search(&self, query: SearchQuery) -> session::Result<Recalled> {
        let limit = query.limit;
        let (hits, is_complete) =
            self.hits(SearchQuery { limit: limit.saturating_mul(HITS_PER_PASSAGE), ..query.clone() }).await?;
        let mut recalled = Recalled { is_complete, ..Recalled::default() };
        let mut sources: HashMap<SessionKey, Option<String>> = HashMap::new();
        for hit in hits {
            if recalled.passages.len() == limit {
                break;
            }
            if recalled.passages.iter().any(|passage| passage.contains(&hit.key, hit.seq)) {
                continue;
            }
            let Some(passage) = self.passage(&hit, query.until.as_ref()).await? else { continue };
            if !sources.contains_key(&hit.key) {
                sources.insert(hit.key.clone(), self.untrusted_source(&hit.key).await?);
            }
            let source = sources.get(&hit.key).cloned().flatten();
            recalled.untrusted = recalled.untrusted.or(source);
            recalled.passages.push(passage);
        }
        Ok(recalled)
    }

    /// Indexes what was committed, also by other processes. An index that cannot be written is searched as it is.
    async fn catch_up(&self) {
        self.store.check_index();
        let index = async { while let Ok(IndexProgress::More) = self.store.index_next().await {} };
        let _ = tokio::time::timeout(CATCH_UP, index).await;
    }

    /// `None` if the session was deleted meanwhile.
    async fn passage(
        &self,
        hit: &SearchHit,
        until: Option<&(SessionKey, Seq)>,
    ) -> session::Result<Option<Passage>> {
        let first = hit.seq.0.saturating_sub(2 * AROUND as u64 + 1);
        let rows = self.rows(&hit.key, Seq(first), 4 * AROUND + 2).await?;
        let Some(rows) = rows else { return Ok(None) };
        let is_shown =
            |row: &&StoredMessage| until.is_none_or(|(own, until)| *own != hit.key || row.seq <= *until);
        let rows: Vec<&StoredMessage> = rows.iter().filter(is_shown).collect();
        let Some(at) = rows.iter().position(|row| row.seq == hit.seq) else { return Ok(None) };
        let rows = &rows[at.saturating_sub(AROUND)..(at + AROUND + 1).min(rows.len())];
        Ok(Some(Passage::new(&hit.key, rows, Excerpt::Hit(hit))))
    }

    /// The rows after a sequence number; `None` if the session does not exist.
    async fn rows(
        &self,
        key: &SessionKey,
        after: Seq,
        limit: usize,
    ) -> session::Result<Option<Vec<StoredMessage>>> {
        let page = PageRequest { after, limit, max_bytes: usize::MAX };
        match self.store.read(key, page).await {
            Ok(rows) => Ok(Some(rows)),
            Err(session::Error::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The first source of untrusted text in a session, if it ever had any. The mark in the state ends when a person trusts the
    /// session; its text is no other text then, so the state log decides.
    async fn untrusted_source(&self, key: &SessionKey) -> session::Result<Option<String>> {
        let mut page = PageRequest { after: Seq::START, limit: STATE_PAGE, max_bytes: usize::MAX };
        loop {
            let changes = match self.store.state_changes(key, page).await {
                Ok(changes) => changes,
                Err(session::Error::NotFound(_)) => return Ok(None),
                Err(error) => return Err(error),
            };
            let Some(last) = changes.last() else { return Ok(None) };
            page.after = last.seq;
            let mark = changes.into_iter().find(|change| change.key == UNTRUSTED && !change.value.is_null());
            if let Some(mark) = mark {
                return Ok(Some(mark.value.as_str().map_or_else(|| mark.value.to_string(), str::to_owned)));
            }
        }
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").finish_non_exhaustive()
    }
}
