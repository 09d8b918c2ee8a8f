//! One session in memory: what is its own, and which steps it admits.

use crate::{
    Commit, Draft, Error, Fact, FactChange, Lease, Message, NewRun, PageRequest, Result, Run, RunStatus, Seq,
    SessionKey, SessionRow, Start, StateEntry, Stored, TailBudget, TurnChange, clock,
    lifecycle::{self, Next, Refusal, RunState, Transition, Turns},
    run::SUPERSEDED,
};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};

/// The keys of one scope in the order in which they were first set.
pub(super) type Values = Vec<(String, Value)>;

pub(super) fn set(values: &mut Values, key: String, value: Value) {
    match values.iter_mut().find(|(known, _)| *known == key) {
        Some((_, old)) => *old = value,
        None => values.push((key, value)),
    }
}

/// A run with its payload: the message of a queued run, the options of a running one.
#[derive(Clone, Debug)]
pub(super) struct QueuedRun {
    pub(super) run: Run,
    pub(super) payload: Option<String>,
}

impl QueuedRun {
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
pub(super) struct Session {
    pub(super) row: SessionRow,
    pub(super) state: Values,
    pub(super) changes: Vec<StateEntry>,
    pub(super) lease_epoch: u64,
    pub(super) draft: Option<Draft>,
    /// Rows with the number of the run that appended them.
    messages: Vec<(Option<u64>, Stored)>,
    places: HashMap<String, Seq>,
    facts: BTreeMap<(String, String), Fact>,
    pub(super) runs: Vec<QueuedRun>,
}

/// What an admitted commit does to the runs of its session.
pub(super) enum Admitted {
    Untouched,
    Step(u64),
    Start { start: Start, number: u64, next: Next<String> },
    Finish { number: u64, next: Next<String>, error: Option<String> },
}

impl Admitted {
    fn run(&self) -> Option<u64> {
        match self {
            Self::Untouched => None,
            Self::Step(number) | Self::Start { number, .. } | Self::Finish { number, .. } => Some(*number),
        }
    }
}

impl Session {
    /// Epochs grow from `epoch`, which no other session of this name ever had.
    pub(super) fn new(key: SessionKey, epoch: u64) -> Self {
        let now = clock::now();
        Self {
            row: SessionRow {
                key,
                title: None,
                last_seq: Seq::START,
                total_tokens: 0,
                created_at: now,
                updated_at: now,
                is_damaged: false,
            },
            state: Values::new(),
            changes: Vec::new(),
            lease_epoch: epoch,
            draft: None,
            messages: Vec::new(),
            places: HashMap::new(),
            facts: BTreeMap::new(),
            runs: Vec::new(),
        }
    }

    /// The place of the commit's last message if it is in the log already.
    pub(super) fn place(&self, commit: &Commit) -> Option<Seq> {
        self.places.get(&commit.messages.last()?.id).copied()
    }

    pub(super) fn turns(&self) -> Turns {
        let queued = self.runs.iter().filter(|run| run.run.status == RunStatus::Queued);
        Turns {
            epoch: self.lease_epoch,
            is_leased: self.runs.iter().any(|run| run.run.status == RunStatus::Running),
            first_ticket: queued.filter_map(|run| run.run.ticket).min(),
        }
    }

    fn refused(&self, refusal: Refusal, id: &str) -> Error {
        let key = self.row.key.clone();
        match refusal {
            Refusal::Busy => Error::Busy(key),
            Refusal::Fenced => Error::Fenced(key),
            Refusal::Moved => Error::RunMoved { key, id: id.to_owned() },
        }
    }

    pub(super) fn apply(&self, id: &str, change: &Transition<String>) -> Result<Next<String>> {
        let run = self.by_id(id).map(QueuedRun::state);
        lifecycle::transition(&self.turns(), run.as_ref(), change)
            .map_err(|refusal| self.refused(refusal, id))
    }

    pub(super) fn by_id(&self, id: &str) -> Option<&QueuedRun> {
        self.runs.iter().find(|run| run.run.id == id)
    }

    pub(super) fn by_id_mut(&mut self, id: &str) -> Option<&mut QueuedRun> {
        self.runs.iter_mut().find(|run| run.run.id == id)
    }

    fn by_number_mut(&mut self, number: u64) -> Option<&mut QueuedRun> {
        self.runs.iter_mut().find(|run| run.run.number == number)
    }

    /// After this a commit cannot fail any more.
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

    /// The session is not as the caller has read it.
    fn conflict(&self, commit: &Commit) -> Error {
        let (key, found) = (self.row.key.clone(), self.row.last_seq);
        Error::Conflict { key, expected: commit.expected_seq.unwrap_or(found), found }
    }

    /// No message of the commit is in the log, nor twice in the commit.
    fn check_ids(&self, commit: &Commit) -> Result<()> {
        let mut seen = HashSet::new();
        match commit.messages.iter().find(|new| self.places.contains_key(&new.id) || !seen.insert(&new.id)) {
            Some(Message { id, .. }) => {
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

    /// Stores an admitted commit; its state is the world's business. Answers with its last place, and the lease if it
    /// started a run.
    pub(super) fn store(&mut self, commit: Commit, admitted: Admitted) -> (Seq, Option<Lease>) {
        let (places, before, run) = (commit.places(), self.row.last_seq, admitted.run());
        self.row.updated_at = clock::now();
        if self.row.title.is_none() {
            self.row.title = commit.title;
        }
        for (message, number) in commit.messages.into_iter().zip(before.0 + 1..) {
            let seq = Seq(number);
            self.row.total_tokens += u64::from(message.tokens);
            self.places.insert(message.id.clone(), seq);
            self.messages.push((run, Stored { seq, message }));
        }
        self.row.last_seq = Seq(before.0 + places);
        for change in commit.facts {
            self.change_fact(change);
        }
        if commit.discards_draft {
            self.draft = None;
        }
        let lease = self.change_runs(before, admitted);
        (self.row.last_seq, lease)
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
        let run = Run {
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
        self.runs.push(QueuedRun { run, payload });
    }

    fn change_fact(&mut self, change: FactChange) {
        match change {
            FactChange::Set(fact) => self.facts.insert((fact.kind.clone(), fact.id.clone()), fact),
            FactChange::Clear { kind, id } => self.facts.remove(&(kind, id)),
        };
    }

    /// The rows that fit, oldest first, and whether older ones were left out.
    pub(super) fn tail(&self, budget: TailBudget) -> (Vec<Stored>, bool) {
        let mut tokens = 0_u64;
        let fits = |(taken, (_, stored)): &(usize, &(Option<u64>, Stored))| {
            tokens = tokens.saturating_add(u64::from(stored.message.tokens));
            *taken < budget.rows && (*taken == 0 || tokens <= budget.tokens)
        };
        let taken = self.messages.iter().rev().enumerate().take_while(fits).count();
        let start = self.messages.len() - taken;
        (self.messages[start..].iter().map(|(_, stored)| stored.clone()).collect(), start > 0)
    }

    fn after(&self, seq: Seq) -> &[(Option<u64>, Stored)] {
        &self.messages[self.messages.partition_point(|(_, stored)| stored.seq <= seq)..]
    }

    pub(super) fn read(&self, page: PageRequest) -> Vec<Stored> {
        self.after(page.after).iter().take(page.limit).map(|(_, stored)| stored.clone()).collect()
    }

    pub(super) fn read_run(&self, run: u64, page: PageRequest) -> Vec<Stored> {
        let own = self.after(page.after).iter().filter(|(by, _)| *by == Some(run));
        own.take(page.limit).map(|(_, stored)| stored.clone()).collect()
    }

    pub(super) fn state_changes(&self, page: PageRequest) -> Vec<StateEntry> {
        let start = self.changes.partition_point(|entry| entry.seq <= page.after);
        let rest = &self.changes[start..];
        let last = rest.get(..page.limit.min(rest.len())).and_then(<[_]>::last).map(|entry| entry.seq);
        rest.iter().take_while(|entry| Some(entry.seq) <= last).cloned().collect()
    }

    pub(super) fn fact(&self, kind: String, id: String) -> Option<Fact> {
        self.facts.get(&(kind, id)).cloned()
    }

    pub(super) fn carried(&self) -> Vec<Fact> {
        self.facts.values().filter(|fact| fact.carried).cloned().collect()
    }
}
