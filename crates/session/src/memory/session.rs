//! A session in memory, and the commits that it admits.

use super::recipes::MemoryRecipes;
use crate::{
    Commit, Draft, Error, Lease, NewRun, PageRequest, PendingEntry, PendingEntryChange, Result, RunRecord,
    RunStatus, Seq, SessionKey, SessionMessage, SessionRow, Start, StateEntry, StoredMessage, TailBudget,
    TurnChange, clock,
    lifecycle::{self, NextState, RunState, Transition, TransitionRefusal, TurnState},
    run::SUPERSEDED,
};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};

/// The state of one scope, ordered by the first assignment of each key.
pub(super) type ScopeValues = Vec<(String, Value)>;

pub(super) fn set(values: &mut ScopeValues, key: String, value: Value) {
    match values.iter_mut().find(|(known, _)| *known == key) {
        Some((_, old)) => *old = value,
        None => values.push((key, value)),
    }
}

/// A run with its payload: the message of a queued run or the options of a running one.
#[derive(Clone, Debug)]
pub(super) struct RunWithPayload {
    pub(super) run: RunRecord,
    pub(super) payload: Option<String>,
}

impl RunWithPayload {
    fn state(&self) -> RunState<String> {
        RunState { status: self.run.status, owner: self.run.owner.clone(), ticket: self.run.ticket }
    }

    pub(super) fn set(&mut self, state: RunState<String>) {
        (self.run.status, self.run.owner, self.run.ticket) = (state.status, state.owner, state.ticket);
        self.run.updated_at = clock::now();
        if self.run.status != RunStatus::Queued {
            self.payload = None;
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct MemorySession {
    pub(super) row: SessionRow,
    pub(super) state: ScopeValues,
    pub(super) changes: Vec<StateEntry>,
    pub(super) lease_epoch: u64,
    pub(super) draft: Option<Draft>,
    /// Rows, each with the number of its run.
    pub(super) messages: Vec<(Option<u64>, StoredMessage)>,
    /// The sequence numbers by message id.
    seqs: HashMap<String, Seq>,
    pending: BTreeMap<(String, String), PendingEntry>,
    pub(super) runs: Vec<RunWithPayload>,
    pub(super) recipes: MemoryRecipes,
    /// The last row that is in the memory of the user.
    pub(super) remembered: Option<Seq>,
}

/// The effect of an admitted commit on the runs of its session.
pub(super) enum Admitted {
    Untouched,
    Step(u64),
    Start { start: Start, number: u64, next: NextState<String> },
    Finish { number: u64, next: NextState<String>, error: Option<String> },
}

impl Admitted {
    fn run(&self) -> Option<u64> {
        match self {
            Self::Untouched => None,
            Self::Step(number) | Self::Start { number, .. } | Self::Finish { number, .. } => Some(*number),
        }
    }
}

impl MemorySession {
    /// `epoch` is greater than every epoch of an earlier session of the same name.
    pub(super) fn new(key: SessionKey, epoch: u64) -> Self {
        let now = clock::now();
        Self {
            row: SessionRow {
                key,
                number: epoch >> 32,
                title: None,
                last_seq: Seq::START,
                total_tokens: 0,
                created_at: now,
                updated_at: now,
                is_damaged: false,
            },
            state: ScopeValues::new(),
            changes: Vec::new(),
            lease_epoch: epoch,
            draft: None,
            messages: Vec::new(),
            seqs: HashMap::new(),
            pending: BTreeMap::new(),
            runs: Vec::new(),
            recipes: MemoryRecipes::default(),
            remembered: None,
        }
    }

    /// The sequence number of the commit's last message, if it is in the log already, with the same content.
    pub(super) fn repeated_seq(&self, commit: &Commit) -> Option<Seq> {
        let last = commit.messages.last()?;
        let seq = *self.seqs.get(&last.id)?;
        let at = self.messages.binary_search_by_key(&seq, |(_, stored)| stored.seq).ok()?;
        let (_, StoredMessage { message, .. }) = self.messages.get(at)?;
        let is_same = message.content == last.content
            && message.tool_calls == last.tool_calls
            && message.meta == last.meta
            && message.timestamp.to_bits() == last.timestamp.to_bits();
        is_same.then_some(seq)
    }

    pub(super) fn turns(&self) -> TurnState {
        let queued = self.runs.iter().filter(|run| run.run.status == RunStatus::Queued);
        TurnState {
            epoch: self.lease_epoch,
            is_leased: self.runs.iter().any(|run| run.run.status == RunStatus::Running),
            first_ticket: queued.filter_map(|run| run.run.ticket).min(),
        }
    }

    fn refused(&self, refusal: TransitionRefusal, id: &str) -> Error {
        let key = self.row.key.clone();
        match refusal {
            TransitionRefusal::Busy => Error::Busy(key),
            TransitionRefusal::Fenced => Error::Fenced(key),
            TransitionRefusal::Moved => Error::RunMoved { key, id: id.to_owned() },
        }
    }

    pub(super) fn apply(&self, id: &str, change: &Transition<String>) -> Result<NextState<String>> {
        let run = self.by_id(id).map(RunWithPayload::state);
        lifecycle::transition(&self.turns(), run.as_ref(), change)
            .map_err(|refusal| self.refused(refusal, id))
    }

    pub(super) fn by_id(&self, id: &str) -> Option<&RunWithPayload> {
        self.runs.iter().find(|run| run.run.id == id)
    }

    pub(super) fn by_id_mut(&mut self, id: &str) -> Option<&mut RunWithPayload> {
        self.runs.iter_mut().find(|run| run.run.id == id)
    }

    fn by_number_mut(&mut self, number: u64) -> Option<&mut RunWithPayload> {
        self.runs.iter_mut().find(|run| run.run.number == number)
    }

    /// Checks all conditions of a commit. An admitted commit cannot fail.
    pub(super) fn admit(&self, commit: &Commit) -> Result<Admitted> {
        let admitted = match &commit.turn {
            TurnChange::None => Admitted::Untouched,
            TurnChange::Step(lease) | TurnChange::Finish { lease, .. } if lease.key != self.row.key => {
                return Err(Error::Fenced(self.row.key.clone()));
            }
            TurnChange::Step(lease) => {
                self.fence(lease)?;
                Admitted::Step(lease.run)
            }
            TurnChange::Finish { lease, status, error } => {
                let run = self.runs.iter().find(|run| run.run.number == lease.run);
                let id = run.map(|run| run.run.id.clone()).unwrap_or_default();
                let change = Transition::Finish { epoch: lease.epoch, to: *status };
                let next = self.apply(&id, &change)?;
                Admitted::Finish { number: lease.run, next, error: error.clone() }
            }
            TurnChange::Cancel { run: id, error } => {
                let next = self.apply(id, &Transition::Cancel)?;
                let number = self.by_id(id).map_or(0, |run| run.run.number);
                Admitted::Finish { number, next, error: error.clone() }
            }
            TurnChange::Start(start) => {
                let NewRun { id, owner, .. } = &start.run;
                start.run.admit(&self.row.key, self.by_id(id).is_some())?;
                let change = Transition::Start { owner: owner.clone(), if_epoch: start.if_epoch };
                let next = self.apply(id, &change)?;
                let number = self.by_id(id).map_or_else(|| self.next_number(), |run| run.run.number);
                if self.draft.is_some() && !commit.discards_draft {
                    return Err(self.conflict(commit));
                }
                Admitted::Start { start: start.clone(), number, next }
            }
        };
        if commit.expected_seq.is_some_and(|expected| expected != self.row.last_seq) {
            return Err(self.conflict(commit));
        }
        self.check_ids(commit)?;
        Ok(admitted)
    }

    /// The error for a session that changed since the caller read it.
    fn conflict(&self, commit: &Commit) -> Error {
        let (key, found) = (self.row.key.clone(), self.row.last_seq);
        Error::Conflict { key, expected: commit.expected_seq.unwrap_or(found), found }
    }

    /// Fails if a message id is in the log or occurs twice in the commit.
    fn check_ids(&self, commit: &Commit) -> Result<()> {
        let mut seen = HashSet::new();
        match commit.messages.iter().find(|new| self.seqs.contains_key(&new.id) || !seen.insert(&new.id)) {
            Some(SessionMessage { id, .. }) => {
                Err(Error::DuplicateMessage { key: self.row.key.clone(), id: id.clone() })
            }
            None => Ok(()),
        }
    }

    pub(super) fn fence(&self, lease: &Lease) -> Result<()> {
        lifecycle::fence(&self.turns(), lease.epoch).map_err(|refusal| self.refused(refusal, ""))
    }

    pub(super) fn next_number(&self) -> u64 {
        self.runs.len() as u64 + 1
    }

    /// Stores an admitted commit except for its state changes. Returns its last sequence number, and the lease if it started
    /// a run.
    pub(super) fn store(&mut self, commit: Commit, admitted: Admitted) -> (Seq, Option<Lease>) {
        let (count, before) = (commit.sequence_numbers(), self.row.last_seq);
        let settled = self.settled_runs(&admitted);
        self.row.updated_at = clock::now();
        if self.row.title.is_none() {
            self.row.title = commit.title;
        }
        for (message, number) in commit.messages.into_iter().zip(before.0 + 1..) {
            let seq = Seq(number);
            self.row.total_tokens += u64::from(message.tokens);
            self.seqs.insert(message.id.clone(), seq);
            let run = match settled.iter().find(|(id, _)| *id == message.id) {
                Some((_, earlier)) => *earlier,
                None => admitted.run(),
            };
            if let Some(earlier) = run.filter(|run| admitted.run() != Some(*run)) {
                self.extend_range(earlier, seq);
            }
            self.messages.push((run, StoredMessage { seq, message }));
        }
        if let Some(recipe) = commit.recipe
            && let Some(seq) = self.seqs.get(&recipe.message)
        {
            self.recipes.add(*seq, recipe);
        }
        self.row.last_seq = Seq(before.0 + count);
        for change in commit.pending {
            self.change_pending(change);
        }
        if commit.discards_draft {
            self.draft = None;
        }
        let lease = self.change_runs(before, admitted);
        (self.row.last_seq, lease)
    }

    /// The messages of a start that belong to earlier runs, with the numbers of those runs.
    fn settled_runs(&self, admitted: &Admitted) -> Vec<(String, Option<u64>)> {
        let Admitted::Start { start, .. } = admitted else { return Vec::new() };
        let number = |id: &String| self.by_id(id).map(|run| run.run.number);
        let settled = start.settled.iter();
        settled.map(|settled| (settled.id.clone(), settled.run.as_ref().and_then(number))).collect()
    }

    /// Extends the range of a run to a message that was appended for it after it had left `running`.
    fn extend_range(&mut self, number: u64, seq: Seq) {
        if let Some(run) = self.by_number_mut(number) {
            run.run.last_seq = run.run.last_seq.max(seq);
        }
    }

    fn change_runs(&mut self, before: Seq, admitted: Admitted) -> Option<Lease> {
        let last_seq = self.row.last_seq;
        match admitted {
            Admitted::Untouched | Admitted::Step(_) => None,
            Admitted::Finish { number, next, error } => {
                self.lease_epoch = next.epoch;
                if let Some(run) = self.by_number_mut(number) {
                    run.set(next.run);
                    (run.run.error, run.run.last_seq) = (error, last_seq);
                }
                None
            }
            Admitted::Start { start, number, next } => {
                for id in start.supersedes.iter().filter(|id| **id != start.run.id) {
                    self.supersede(id);
                }
                self.lease_epoch = next.epoch;
                if let Some(run) = self.by_number_mut(number) {
                    run.set(next.run);
                    if run.run.started_after == run.run.last_seq {
                        run.run.started_after = before;
                    }
                    (run.run.error, run.run.last_seq) = (None, last_seq);
                    run.payload = start.options;
                } else {
                    self.insert(start.run.id, number, (next.run, before, start.options));
                }
                Some(Lease { key: self.row.key.clone(), run: number, epoch: next.epoch })
            }
        }
    }

    fn supersede(&mut self, id: &str) {
        let Ok(next) = self.apply(id, &Transition::Supersede) else { return };
        if let Some(run) = self.by_id_mut(id) {
            run.set(next.run);
            run.run.error = Some(SUPERSEDED.to_owned());
        }
    }

    pub(super) fn insert(&mut self, id: String, number: u64, row: (RunState<String>, Seq, Option<String>)) {
        let (RunState { status, owner, ticket }, started_after, payload) = row;
        let now = clock::now();
        let run = RunRecord {
            id,
            key: self.row.key.clone(),
            number,
            status,
            owner,
            started_after,
            last_seq: self.row.last_seq,
            error: None,
            created_at: now,
            updated_at: now,
            ticket,
            ahead: None,
        };
        self.runs.push(RunWithPayload { run, payload });
    }

    fn change_pending(&mut self, change: PendingEntryChange) {
        match change {
            PendingEntryChange::Set(entry) => {
                self.pending.insert((entry.kind.clone(), entry.id.clone()), entry)
            }
            PendingEntryChange::Clear { kind, id } => self.pending.remove(&(kind, id)),
        };
    }

    /// The newest rows within the budget, oldest first, and whether older rows were excluded.
    pub(super) fn tail(&self, budget: TailBudget) -> (Vec<StoredMessage>, bool) {
        let mut tokens = 0_u64;
        let fits = |(taken, (_, stored)): &(usize, &(Option<u64>, StoredMessage))| {
            tokens = tokens.saturating_add(u64::from(stored.message.tokens));
            *taken < budget.rows && (*taken == 0 || tokens <= budget.tokens)
        };
        let taken = self.messages.iter().rev().enumerate().take_while(fits).count();
        let start = self.messages.len() - taken;
        (self.messages[start..].iter().map(|(_, stored)| stored.clone()).collect(), start > 0)
    }

    fn after(&self, seq: Seq) -> &[(Option<u64>, StoredMessage)] {
        &self.messages[self.messages.partition_point(|(_, stored)| stored.seq <= seq)..]
    }

    pub(super) fn read(&self, page: PageRequest) -> Vec<StoredMessage> {
        page_of(self.after(page.after).iter(), page)
    }

    pub(super) fn read_run(&self, run: u64, page: PageRequest) -> Vec<StoredMessage> {
        let own = self.after(page.after).iter().filter(|(by, _)| *by == Some(run));
        page_of(own, page)
    }

    pub(super) fn state_changes(&self, page: PageRequest) -> Vec<StateEntry> {
        let start = self.changes.partition_point(|entry| entry.seq <= page.after);
        let rest = &self.changes[start..];
        let last = rest.get(..page.limit.min(rest.len())).and_then(<[_]>::last).map(|entry| entry.seq);
        rest.iter().take_while(|entry| Some(entry.seq) <= last).cloned().collect()
    }

    pub(super) fn pending_entry(&self, kind: String, id: String) -> Option<PendingEntry> {
        self.pending.get(&(kind, id)).cloned()
    }

    pub(super) fn carried(&self) -> Vec<PendingEntry> {
        self.pending.values().filter(|entry| entry.carried).cloned().collect()
    }
}

/// The rows of a page.
fn page_of<'a>(
    rows: impl Iterator<Item = &'a (Option<u64>, StoredMessage)>,
    page: PageRequest,
) -> Vec<StoredMessage> {
    let mut bytes = 0_usize;
    let fits = |(_, stored): &&(Option<u64>, StoredMessage)| {
        let is_full = bytes > 0 && bytes >= page.max_bytes;
        bytes = bytes.saturating_add(stored.message.size());
        !is_full
    };
    rows.take(page.limit).take_while(fits).map(|(_, stored)| stored.clone()).collect()
}
