//! One session in memory: what is its own, and which steps it admits.

use crate::{
    Append, Error, Fact, FactChange, Lease, NewRun, PageRequest, Result, Run, RunStatus, RunUpdate, Seq,
    SessionKey, SessionRow, StateEntry, Stored, TailBudget, Ticket, clock,
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

/// The keys of one scope in the order in which they were first set.
pub(super) type Values = Vec<(String, Value)>;

pub(super) fn set(values: &mut Values, key: String, value: Value) {
    match values.iter_mut().find(|(known, _)| *known == key) {
        Some((_, old)) => *old = value,
        None => values.push((key, value)),
    }
}

#[derive(Debug)]
pub(super) struct Session {
    pub(super) row: SessionRow,
    pub(super) state: Values,
    pub(super) changes: Vec<StateEntry>,
    pub(super) inbox: Vec<Ticket>,
    pub(super) lease_owner: Option<String>,
    pub(super) lease_epoch: u64,
    pub(super) lease_until: f64,
    messages: Vec<Stored>,
    places: HashMap<String, Seq>,
    facts: BTreeMap<(String, String), Fact>,
    runs: Vec<Run>,
}

impl Session {
    pub(super) fn new(key: SessionKey) -> Self {
        let now = clock::now();
        Self {
            row: SessionRow {
                key,
                title: None,
                last_seq: Seq::START,
                total_tokens: 0,
                created_at: now,
                updated_at: now,
            },
            state: Values::new(),
            changes: Vec::new(),
            inbox: Vec::new(),
            lease_owner: None,
            lease_epoch: 0,
            lease_until: 0.0,
            messages: Vec::new(),
            places: HashMap::new(),
            facts: BTreeMap::new(),
            runs: Vec::new(),
        }
    }

    /// The place of the step's message if it is in the log already.
    pub(super) fn place(&self, step: &Append) -> Option<Seq> {
        self.places.get(&step.message.as_ref()?.id).copied()
    }

    /// After this a step cannot fail any more.
    pub(super) fn admit(&self, step: &Append) -> Result<()> {
        let key = &self.row.key;
        if step.epoch.is_some_and(|epoch| epoch != self.lease_epoch) {
            return Err(Error::Fenced(key.clone()));
        }
        if step.enters.is_some() && (self.lease_owner.is_some() || !self.inbox.is_empty()) {
            return Err(Error::Busy(key.clone()));
        }
        let follows = step.enters.as_ref().and_then(|enter| enter.follows);
        if follows.is_some_and(|epoch| epoch != self.lease_epoch) {
            return Err(Error::Fenced(key.clone()));
        }
        if let Some(expected) = step.expected_seq
            && expected != self.row.last_seq
        {
            return Err(Error::Conflict { key: key.clone(), expected, found: self.row.last_seq });
        }
        if let Some(number) = step.takes
            && self.inbox.iter().all(|ticket| ticket.number != number)
        {
            return Err(Error::TicketGone { key: key.clone(), number });
        }
        if let Some(new) = &step.starts
            && self.run(&new.id).is_some_and(|run| run.is_begun_before(new))
        {
            return Err(Error::RunBegun { key: key.clone(), id: new.id.clone() });
        }
        let starts = |id: &str| step.starts.as_ref().is_some_and(|run| run.id == id);
        if let Some(RunUpdate { id, .. }) = &step.run
            && !starts(id)
            && self.run(id).is_none()
        {
            return Err(Error::NoRun { key: key.clone(), id: id.clone() });
        }
        Ok(())
    }

    /// Stores an admitted step; its state is the world's business. Answers with the place that the step has.
    pub(super) fn store(&mut self, step: Append) -> Seq {
        let takes_place = step.message.is_some() || !step.state.is_empty();
        let starts = step.starts.map(|new| self.begin(new));
        if takes_place {
            self.row.last_seq = self.row.last_seq.next();
        }
        let seq = self.row.last_seq;
        self.row.updated_at = clock::now();
        if step.release && step.epoch.is_some() {
            self.lease_owner = None;
        }
        if self.row.title.is_none() {
            self.row.title = step.title;
        }
        if let Some(message) = step.message {
            self.row.total_tokens += u64::from(message.tokens);
            self.places.insert(message.id.clone(), seq);
            self.messages.push(Stored { seq, message });
        }
        for change in step.facts {
            self.change_fact(change);
        }
        if let Some(number) = step.takes {
            self.take(number);
        }
        if let Some(run) = starts {
            self.runs[run].last_seq = seq;
        }
        if let Some(update) = step.run {
            self.update_run(update, takes_place.then_some(seq));
        }
        seq
    }

    fn change_fact(&mut self, change: FactChange) {
        match change {
            FactChange::Set(fact) => self.facts.insert((fact.kind.clone(), fact.id.clone()), fact),
            FactChange::Clear { kind, id } => self.facts.remove(&(kind, id)),
        };
    }

    fn update_run(&mut self, update: RunUpdate, seq: Option<Seq>) {
        if let Some(run) = self.runs.iter_mut().find(|run| run.id == update.id) {
            run.status = update.status;
            run.error = update.error;
            run.last_seq = seq.unwrap_or(run.last_seq);
            run.updated_at = self.row.updated_at;
        }
    }

    /// The rows that fit, oldest first, and whether older ones were left out.
    pub(super) fn tail(&self, budget: TailBudget) -> (Vec<Stored>, bool) {
        let mut tokens = 0_u64;
        let fits = |(taken, stored): &(usize, &Stored)| {
            tokens = tokens.saturating_add(u64::from(stored.message.tokens));
            *taken < budget.rows && (*taken == 0 || tokens <= budget.tokens)
        };
        let taken = self.messages.iter().rev().enumerate().take_while(fits).count();
        let start = self.messages.len() - taken;
        (self.messages[start..].to_vec(), start > 0)
    }

    pub(super) fn read(&self, page: PageRequest) -> Vec<Stored> {
        let start = self.messages.partition_point(|stored| stored.seq <= page.after);
        self.messages[start..].iter().take(page.limit).cloned().collect()
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

    pub(super) fn waiting(&self, limit: usize) -> Vec<Ticket> {
        self.inbox.iter().take(limit).cloned().collect()
    }

    /// Whether the ticket was there.
    pub(super) fn take(&mut self, number: u64) -> bool {
        let before = self.inbox.len();
        self.inbox.retain(|ticket| ticket.number != number);
        self.inbox.len() < before
    }

    fn holds(&self, lease: &Lease) -> bool {
        self.lease_epoch == lease.epoch && self.lease_owner.as_ref() == Some(&lease.owner)
    }

    pub(super) fn renew(&mut self, lease: &Lease, ttl: Duration) -> Result<()> {
        if !self.holds(lease) {
            return Err(Error::Fenced(lease.key.clone()));
        }
        self.lease_until = clock::now() + ttl.as_secs_f64();
        Ok(())
    }

    pub(super) fn release(&mut self, lease: &Lease) {
        if self.holds(lease) {
            self.lease_owner = None;
        }
    }

    /// Records a run together with the step that begins it; answers with its place.
    fn begin(&mut self, new: NewRun) -> usize {
        let (status, owner) = (new.status, new.owner.clone());
        let id = self.start(new).id;
        let place = self.runs.iter().position(|run| run.id == id).unwrap_or_default();
        let last_seq = self.row.last_seq;
        let run = &mut self.runs[place];
        if run.status == RunStatus::Queued {
            run.started_after = last_seq;
        }
        (run.status, run.owner, run.updated_at) = (status, owner, clock::now());
        place
    }

    pub(super) fn start(&mut self, new: NewRun) -> Run {
        let same = |run: &&Run| {
            run.id == new.id || (run.idempotency_key.is_some() && run.idempotency_key == new.idempotency_key)
        };
        if let Some(run) = self.runs.iter().find(same) {
            return run.clone();
        }
        let now = clock::now();
        let run = Run {
            id: new.id,
            key: new.key,
            status: new.status,
            idempotency_key: new.idempotency_key,
            owner: new.owner,
            started_after: self.row.last_seq,
            last_seq: self.row.last_seq,
            error: None,
            created_at: now,
            updated_at: now,
        };
        self.runs.push(run.clone());
        run
    }

    pub(super) fn run(&self, id: &str) -> Option<&Run> {
        self.runs.iter().find(|run| run.id == id)
    }

    pub(super) fn runs(&self, limit: usize) -> Vec<Run> {
        self.runs.iter().rev().take(limit).cloned().collect()
    }
}
