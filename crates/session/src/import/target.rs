//! A session of the store that takes what is new of an old one.

use super::{
    report::{Oddity, Report},
    row::OldRow,
    source::OldSession,
};
use crate::{
    Commit, Committed, NewSession, OnConflict, PageRequest, Pending, Result, Seq, SessionKey, Store,
    TailBudget,
};
use std::collections::HashSet;

/// Rows that are looked through at a time; each may be large.
const PAGE: usize = 200;
/// How much of the first words becomes the title.
const TITLE: usize = 80;

/// A store that takes many steps of one session as one. Beside the ports, because only an import has many at once.
pub trait Bulk: Store {
    /// All of them are stored in one transaction, or none.
    fn append_all(&self, key: &SessionKey, steps: Vec<Commit>) -> Pending<'_, Vec<Committed>>;
}

pub struct Target<'a> {
    store: &'a dyn Bulk,
    key: SessionKey,
    /// Whoever else writes meanwhile ends the import: it cannot tell any more what stands behind what.
    end: Seq,
    /// Messages of earlier imports.
    there: HashSet<String>,
    /// Not yet told: the session began with something that was not imported.
    begun_here: bool,
    has_title: bool,
}

impl<'a> Target<'a> {
    /// Finds the session, or makes it with the old one's state. One that is there keeps its own.
    pub async fn open(
        store: &'a dyn Bulk,
        key: SessionKey,
        old: &OldSession,
        report: &mut Report,
    ) -> Result<Self> {
        let state = old.state.clone();
        let found = store.load(&key, TailBudget::NONE).await?.map(|snapshot| snapshot.row);
        let Some(row) = found else {
            let new = NewSession { key, state, steps: Vec::new(), on_conflict: OnConflict::Fail };
            let row = store.create(new).await?;
            report.sessions.came += 1;
            for oddity in &old.odd {
                report.note(*oddity, || old.key.clone());
            }
            let (key, end) = (row.key, row.last_seq);
            return Ok(Self { store, key, end, there: HashSet::new(), begun_here: false, has_title: false });
        };
        report.sessions.there += 1;
        let (end, has_title) = (row.last_seq, row.title.is_some());
        let mut target = Self { store, key, end, there: HashSet::new(), begun_here: false, has_title };
        target.look_through().await?;
        Ok(target)
    }

    /// Remembers what came before.
    async fn look_through(&mut self) -> Result<()> {
        let mut after = Seq::START;
        loop {
            let rows = self.store.read(&self.key, PageRequest { after, limit: PAGE }).await?;
            let Some(last) = rows.last() else { return Ok(()) };
            if after == Seq::START {
                self.begun_here = rows.first().is_some_and(|row| !row.message.id.starts_with("lango:"));
            }
            after = last.seq;
            let ids = rows.into_iter().map(|row| row.message.id);
            self.there.extend(ids.filter(|id| id.starts_with("lango:")));
        }
    }

    /// Stores the rows that are new, in their order: all of them, or none.
    pub async fn add(&mut self, rows: Vec<OldRow>, report: &mut Report) -> Result<()> {
        let all = rows.len();
        let new: Vec<OldRow> = rows.into_iter().filter(|row| !self.there.contains(&row.message.id)).collect();
        report.messages.there += (all - new.len()) as u64;
        if new.is_empty() {
            return Ok(());
        }
        if std::mem::take(&mut self.begun_here) {
            report.note(Oddity::BegunHere, || self.key.session.clone());
        }
        let odd: Vec<_> = new.iter().map(|row| (row.number, row.odd.clone())).collect();
        let mut end = self.end;
        let mut steps = Vec::with_capacity(new.len());
        for row in new {
            steps.push(self.step(row, end));
            end = end.next();
        }
        self.store.append_all(&self.key, steps).await?;
        self.end = end;
        report.messages.came += odd.len() as u64;
        for (number, oddity) in odd.iter().flat_map(|(number, odd)| odd.iter().map(move |odd| (number, odd)))
        {
            report.note(*oddity, || format!("{} #{number}", self.key.session));
        }
        Ok(())
    }

    fn step(&mut self, row: OldRow, end: Seq) -> Commit {
        let title = if self.has_title { None } else { title(&row) };
        self.has_title |= title.is_some();
        Commit { expected_seq: Some(end), title, ..Commit::message(row.message) }
    }
}

/// The first words of the user name the session.
fn title(row: &OldRow) -> Option<String> {
    let message =
        Some(&row.message).filter(|message| message.role == "user" && message.tool_calls.is_empty())?;
    let line = message.content.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(line.chars().take(TITLE).collect())
}

impl std::fmt::Debug for Target<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Target").field("key", &self.key).field("end", &self.end).finish_non_exhaustive()
    }
}
