//! The stored log, read while other processes may write it.

use adk::event::Event;
use bridge::store::row::Restorer;
use session::{
    PageRequest, Seq, SessionKey, SessionLog, SessionStore, TailBudget,
    sqlite::{Options, SqliteStore},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

#[derive(Debug, Default)]
pub(crate) struct StoredLog {
    pub(crate) events: Vec<Event>,
    /// The sequence numbers of messages and state changes.
    seqs: BTreeSet<u64>,
    last: u64,
}

impl StoredLog {
    /// Empty before the first message.
    pub(crate) fn read(database: &Path, key: &SessionKey) -> Self {
        if !database.exists() {
            return Self::default();
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(Self::load(database, key)).unwrap()
    }

    async fn load(database: &Path, key: &SessionKey) -> session::Result<Self> {
        let store = SqliteStore::open(database, Options::default())?;
        let Some(found) = store.load(key, TailBudget::NONE).await? else { return Ok(Self::default()) };
        let all = PageRequest { after: Seq::START, limit: usize::MAX, max_bytes: usize::MAX };
        let rows = store.read(key, all).await?;
        let changes = store.state_changes(key, all).await?;
        let mut restorer = Restorer::new("");
        Ok(Self {
            seqs: rows.iter().map(|row| row.seq.0).chain(changes.iter().map(|change| change.seq.0)).collect(),
            events: rows.iter().map(|row| restorer.restore(row)).collect(),
            last: found.row.last_seq.0,
        })
    }

    /// The user's messages, in order.
    pub(crate) fn user_messages(&self) -> Vec<String> {
        let messages =
            self.events.iter().filter(|event| event.is_from_user() && event.responses().next().is_none());
        messages.map(text_of).collect()
    }

    /// No gap, no duplicate, every call answered.
    #[track_caller]
    pub(crate) fn assert_consistent(&self) {
        assert!(self.seqs.iter().copied().eq(1..=self.last), "a gap before {}: {:?}", self.last, self.seqs);
        let mut ids = BTreeSet::new();
        assert!(self.events.iter().all(|event| ids.insert(&event.id)), "duplicate event id");
        let mut results: BTreeMap<String, (usize, usize)> = BTreeMap::new();
        for event in &self.events {
            event.calls().for_each(|call| results.entry(call.id_or_name()).or_default().0 += 1);
            event.responses().for_each(|answer| results.entry(answer.id_or_name()).or_default().1 += 1);
        }
        assert!(results.values().all(|counts| *counts == (1, 1)), "calls and results by id: {results:?}");
    }
}

pub(crate) fn text_of(event: &Event) -> String {
    event.content.as_ref().map(adk::content::Content::text).unwrap_or_default()
}
