//! The session of the store that receives the rows of an old session.

use super::{
    report::{Anomaly, ImportReport},
    row::OldRow,
    source::OldSession,
};
use crate::{
    Commit, Committed, NewSession, OnConflict, PageRequest, Pending, Result, Seq, SessionKey, Store,
    TailBudget,
};
use std::collections::HashSet;

/// Page size for reading existing rows. A row may be large.
const PAGE: usize = 200;
/// Maximum length of the title, in characters.
const TITLE: usize = 80;

/// A store that applies many commits to one session in one transaction. Separate from the other traits, because only an import
/// needs it.
pub trait BulkCommit: Store {
    /// Applies all commits in one transaction, or none.
    fn commit_all(&self, key: &SessionKey, steps: Vec<Commit>) -> Pending<'_, Vec<Committed>>;
}

/// The target session of an import.
pub struct ImportTarget<'a> {
    store: &'a dyn BulkCommit,
    key: SessionKey,
    /// The expected last sequence number. A concurrent write is a conflict and ends the import, because the order of messages
    /// would be lost.
    end: Seq,
    /// The ids of messages of earlier imports.
    present: HashSet<String>,
    /// The session starts with a message that was not imported. Reset after it was reported.
    is_native: bool,
    has_title: bool,
}

impl<'a> ImportTarget<'a> {
    /// Finds or creates the session. A new session gets the state of the old one; an existing session keeps its own.
    pub async fn open(
        store: &'a dyn BulkCommit,
        key: SessionKey,
        old: &OldSession,
        report: &mut ImportReport,
    ) -> Result<Self> {
        let state = old.state.clone();
        let found = store.load(&key, TailBudget::NONE).await?.map(|snapshot| snapshot.row);
        let Some(row) = found else {
            let new =
                NewSession { key, state, steps: Vec::new(), on_conflict: OnConflict::Fail, quota: None };
            let row = store.create(new).await?;
            report.sessions.imported += 1;
            for anomaly in &old.anomalies {
                report.note(*anomaly, || old.key.clone());
            }
            let (key, end) = (row.key, row.last_seq);
            return Ok(Self { store, key, end, present: HashSet::new(), is_native: false, has_title: false });
        };
        report.sessions.present += 1;
        let (end, has_title) = (row.last_seq, row.title.is_some());
        let mut target = Self { store, key, end, present: HashSet::new(), is_native: false, has_title };
        target.read_present_ids().await?;
        Ok(target)
    }

    /// Collects the ids of earlier imports.
    async fn read_present_ids(&mut self) -> Result<()> {
        let mut after = Seq::START;
        loop {
            let rows =
                self.store.read(&self.key, PageRequest { after, limit: PAGE, max_bytes: usize::MAX }).await?;
            let Some(last) = rows.last() else { return Ok(()) };
            if after == Seq::START {
                self.is_native = rows.first().is_some_and(|row| !row.message.id.starts_with("lango:"));
            }
            after = last.seq;
            let ids = rows.into_iter().map(|row| row.message.id);
            self.present.extend(ids.filter(|id| id.starts_with("lango:")));
        }
    }

    /// Stores the new rows in order, in one transaction.
    pub async fn add(&mut self, rows: Vec<OldRow>, report: &mut ImportReport) -> Result<()> {
        let all = rows.len();
        let new: Vec<OldRow> =
            rows.into_iter().filter(|row| !self.present.contains(&row.message.id)).collect();
        report.messages.present += (all - new.len()) as u64;
        if new.is_empty() {
            return Ok(());
        }
        if std::mem::take(&mut self.is_native) {
            report.note(Anomaly::ExistingSession, || self.key.session_id.clone());
        }
        let anomalies: Vec<_> = new.iter().map(|row| (row.number, row.anomalies.clone())).collect();
        let mut end = self.end;
        let mut steps = Vec::with_capacity(new.len());
        for row in new {
            steps.push(self.step(row, end));
            end = end.next();
        }
        self.store.commit_all(&self.key, steps).await?;
        self.end = end;
        report.messages.imported += anomalies.len() as u64;
        for (number, anomaly) in
            anomalies.iter().flat_map(|(number, all)| all.iter().map(move |one| (number, one)))
        {
            report.note(*anomaly, || format!("{} #{number}", self.key.session_id));
        }
        Ok(())
    }

    fn step(&mut self, row: OldRow, end: Seq) -> Commit {
        let title = if self.has_title { None } else { title(&row) };
        self.has_title |= title.is_some();
        Commit { expected_seq: Some(end), title, ..Commit::message(row.message) }
    }
}

/// The first line of the first user message.
fn title(row: &OldRow) -> Option<String> {
    let message =
        Some(&row.message).filter(|message| message.role == "user" && message.tool_calls.is_empty())?;
    let line = message.content.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(line.chars().take(TITLE).collect())
}

impl std::fmt::Debug for ImportTarget<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ImportTarget").field("key", &self.key).field("end", &self.end).finish_non_exhaustive()
    }
}
