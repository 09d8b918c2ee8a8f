//! What the conditions of a commit need, and the decision.

use super::{
    batch::{Batch, parameters},
    commit,
    fault::{JobError, JobResult},
    idempotency_keys::KnownRows,
    runs::{self, ADMISSION, BY_IDS, BY_NUMBER, StoredRun},
    sessions::{LOCK_HEAD, SessionHead, key_of},
    state,
    text::{Text, integer, number, text},
    write::Transaction,
};
use crate::{
    Commit, Committed, Error, Lease, RunStatus, Seq, SessionKey, Start, StartedTurn, TurnChange,
    lifecycle::{self, NextState, RunState, Transition, TurnState},
    run::{AcceptedAs, KnownRequest},
};
use std::collections::HashSet;
use tokio_postgres::Row;

/// The effect of an admitted commit on runs and the lease.
pub(super) enum AdmittedCommit<'a> {
    Untouched,
    Step(&'a Lease),
    Start {
        start: &'a Start,
        number: u64,
        is_new: bool,
        /// Whether the idempotency key is stored already.
        is_known_request: bool,
        next: NextState<String>,
        /// The superseded runs with their next states.
        superseded: Vec<(u64, RunState<String>)>,
        settled: Settled<'a>,
    },
    /// The run of this number leaves `running` or `waiting`.
    Finish {
        number: u64,
        next: NextState<String>,
        error: Option<&'a str>,
    },
}

/// The messages of a start that belong to earlier runs.
#[derive(Default)]
pub(super) struct Settled<'a> {
    /// The ids of the messages, with the numbers of those runs.
    runs: Vec<(&'a str, Option<u64>)>,
    /// The numbers of those runs with the sequence numbers of the messages.
    pub(super) extended: Vec<(i64, i64)>,
}

impl AdmittedCommit<'_> {
    /// The number of the run of a message, or 0.
    pub(super) fn run_of(&self, message: &str) -> u64 {
        match self {
            Self::Untouched => 0,
            Self::Step(lease) => lease.run,
            Self::Start { number, settled, .. } => {
                let run = settled.runs.iter().find(|(id, _)| *id == message);
                run.map_or(*number, |(_, number)| number.unwrap_or(0))
            }
            Self::Finish { number, .. } => *number,
        }
    }

    pub(super) fn epoch(&self) -> Option<u64> {
        match self {
            Self::Untouched | Self::Step(_) => None,
            Self::Start { next, .. } | Self::Finish { next, .. } => Some(next.epoch),
        }
    }
}

/// Messages with the ids of the commit; the last column tells whether one is the commit's last message with the same content.
const KNOWN_MESSAGES: &str = "SELECT seq, message_id, message_id = $3 AND content = $4
         AND tool_calls IS NOT DISTINCT FROM $5 AND meta IS NOT DISTINCT FROM $6 AND timestamp = $7
     FROM messages WHERE session_key = $1 AND message_id = ANY ($2)";

/// The rows of a batch that a commit depends on.
pub(super) struct CommitRows {
    head: usize,
    messages: Option<usize>,
    runs: Option<usize>,
    admission: Option<usize>,
    request: Option<KnownRows>,
}

impl CommitRows {
    pub(super) fn add<'a>(
        batch: &mut Batch<'a>,
        (key, commit): (&'a SessionKey, &'a Commit),
        (calls, write_id): (&'a [Option<String>], i64),
    ) -> Self {
        let session_key = key_of(key);
        let head = batch.add(LOCK_HEAD, parameters![session_key, write_id]);
        let messages = commit.messages.last().map(|last| {
            let ids: Vec<_> = commit.messages.iter().map(|message| Text(&message.id)).collect();
            let calls = calls.last().and_then(Option::as_deref).map(Text);
            let meta = last.meta.as_deref().map(Text);
            let content = Text(&last.content);
            batch.add(
                KNOWN_MESSAGES,
                parameters![session_key, ids, Text(&last.id), content, calls, meta, last.timestamp],
            )
        });
        let mut rows = Self { head, messages, runs: None, admission: None, request: None };
        match &commit.turn {
            TurnChange::None | TurnChange::Step(_) => {}
            TurnChange::Finish { lease, .. } => {
                rows.runs = Some(batch.add(BY_NUMBER, parameters![session_key, integer(lease.run)]));
            }
            TurnChange::Cancel { run, .. } => {
                rows.runs = Some(batch.add(BY_IDS, parameters![session_key, vec![Text(run)]]));
                rows.admission = Some(batch.add(ADMISSION, parameters![session_key]));
            }
            TurnChange::Start(start) => {
                let settled = start.settled.iter().filter_map(|settled| settled.run.as_deref());
                let named = start.supersedes.iter().map(String::as_str).chain(settled);
                let ids = runs::ids(named.chain([start.run.id.as_str()]));
                rows.runs = Some(batch.add(BY_IDS, parameters![session_key, ids]));
                rows.admission = Some(batch.add(ADMISSION, parameters![session_key]));
                rows.request = Some(KnownRows::add(batch, key, start.run.idempotency_key.as_ref()));
            }
        }
        rows
    }

    pub(super) fn read(self, mut rows: Vec<Vec<Row>>, key: &SessionKey) -> JobResult<Found> {
        let head = SessionHead::read(&rows[self.head], key)?;
        let request = self.request.map(|known| known.read(&rows)).transpose()?.flatten();
        let runs = self.runs.map(|at| StoredRun::read_all(&rows[at])).transpose()?.unwrap_or_default();
        let admission = match self.admission.and_then(|at| rows[at].first()) {
            Some(row) => {
                let (next_number, has_draft) = (number(row, 0)?, row.try_get(3)?);
                Some((runs::turns(row, &head)?, next_number, has_draft))
            }
            None => None,
        };
        let (mut ids, mut repeated) = (HashSet::new(), None);
        for row in self.messages.map(|at| std::mem::take(&mut rows[at])).unwrap_or_default() {
            if row.try_get(2)? {
                repeated = Some(Seq(number(&row, 0)?));
            }
            ids.insert(text(&row, 1)?);
        }
        Ok(Found { head, runs, admission, request, ids, repeated })
    }
}

/// What the first batch of a commit found.
pub(super) struct Found {
    pub(super) head: SessionHead,
    runs: Vec<StoredRun>,
    /// The turn state, the number of the next new run, and whether the session has a draft.
    admission: Option<(TurnState, u64, bool)>,
    request: Option<KnownRequest>,
    /// The ids of the commit's messages that the session has.
    ids: HashSet<String>,
    /// The sequence number of the commit's last message, if it is in the log with the same content.
    repeated: Option<Seq>,
}

impl Found {
    fn run(&self, id: &str) -> Option<&StoredRun> {
        self.runs.iter().find(|run| run.id == id)
    }

    pub(super) fn repeated(&self) -> Option<Committed> {
        let epoch = self.head.lease_epoch;
        self.repeated.map(|seq| Committed { seq, repeated: true, started: None, epoch })
    }

    /// The id of a message that the session has, or that occurs twice in the commit.
    pub(super) fn duplicate_id<'a>(&self, commit: &'a Commit) -> Option<&'a str> {
        let mut seen = HashSet::new();
        let ids = commit.messages.iter().map(|message| message.id.as_str());
        ids.rev().find(|id| self.ids.contains(*id) || !seen.insert(*id))
    }

    pub(super) fn admit<'a>(&self, key: &SessionKey, commit: &'a Commit) -> JobResult<AdmittedCommit<'a>> {
        let turns = self.head.turns();
        let admitted = match &commit.turn {
            TurnChange::None => AdmittedCommit::Untouched,
            TurnChange::Step(lease) | TurnChange::Finish { lease, .. } if lease.key != *key => {
                return Err(Error::Fenced(key.clone()).into());
            }
            TurnChange::Step(lease) => {
                lifecycle::fence(&turns, lease.epoch).map_err(|refusal| runs::refused(refusal, key, ""))?;
                AdmittedCommit::Step(lease)
            }
            TurnChange::Finish { lease, status, error } => {
                let run = self.runs.first();
                let change = Transition::Finish { epoch: lease.epoch, to: *status };
                let next = lifecycle::transition(&turns, run.map(|run| &run.state), &change);
                let id = run.map_or("", |run| &run.id);
                let next = next.map_err(|refusal| runs::refused(refusal, key, id))?;
                AdmittedCommit::Finish { number: lease.run, next, error: error.as_deref() }
            }
            TurnChange::Cancel { run: id, error } => {
                let run = self.run(id);
                let turns = self.admission.as_ref().map_or(&turns, |(turns, ..)| turns);
                let next = lifecycle::transition(turns, run.map(|run| &run.state), &Transition::Cancel);
                let next = next.map_err(|refusal| runs::refused(refusal, key, id))?;
                let number = run.map_or(0, |run| run.number);
                AdmittedCommit::Finish { number, next, error: error.as_deref() }
            }
            TurnChange::Start(start) => self.admit_start(key, commit, start)?,
        };
        if commit.expected_seq.is_some_and(|expected| expected.0 != self.head.last_seq) {
            return Err(self.conflict(key, commit));
        }
        Ok(admitted)
    }

    fn admit_start<'a>(
        &self,
        key: &SessionKey,
        commit: &Commit,
        start: &'a Start,
    ) -> JobResult<AdmittedCommit<'a>> {
        let (id, owner) = (start.run.id.as_str(), &start.run.owner);
        if let Some(request) = self.request.clone() {
            request.admit(key, &start.run, AcceptedAs::Start)?;
        }
        let run = self.run(id);
        start.run.admit(key, run.is_some())?;
        let Some((turns, next_number, has_draft)) = &self.admission else {
            return Err(Error::NotFound(key.clone()).into());
        };
        let change = Transition::Start { owner: owner.clone(), if_epoch: start.if_epoch };
        let next = lifecycle::transition(turns, run.map(|run| &run.state), &change)
            .map_err(|refusal| runs::refused(refusal, key, id))?;
        if *has_draft && !commit.discards_draft {
            return Err(self.conflict(key, commit));
        }
        let others = start.supersedes.iter().filter(|other| *other != id).collect::<HashSet<_>>();
        let superseded = others.into_iter().filter_map(|id| {
            let run = self.run(id)?;
            Some((run.number, commit::superseded(&self.head, run)?.run))
        });
        let (number, is_new) = run.map_or((*next_number, true), |run| (run.number, false));
        Ok(AdmittedCommit::Start {
            start,
            number,
            is_new,
            is_known_request: self.request.is_some(),
            next,
            superseded: superseded.collect(),
            settled: self.settled(commit, start),
        })
    }

    fn settled<'a>(&self, commit: &Commit, start: &'a Start) -> Settled<'a> {
        let number = |id: &String| self.run(id).map(|run| run.number);
        let settled = start.settled.iter();
        let runs: Vec<(&str, Option<u64>)> =
            settled.map(|settled| (settled.id.as_str(), settled.run.as_ref().and_then(number))).collect();
        let mut extended = Vec::new();
        for (message, seq) in commit.messages.iter().zip(self.head.last_seq + 1..) {
            if let Some((_, Some(number))) = runs.iter().find(|(id, _)| *id == message.id) {
                extended.push((integer(*number), integer(seq)));
            }
        }
        Settled { runs, extended }
    }

    /// The error for a session that changed since the caller read it.
    fn conflict(&self, key: &SessionKey, commit: &Commit) -> JobError {
        let found = Seq(self.head.last_seq);
        Error::Conflict { key: key.clone(), expected: commit.expected_seq.unwrap_or(found), found }.into()
    }

    /// The result of an earlier attempt whose acknowledgement was lost.
    pub(super) async fn committed_earlier(
        &self,
        transaction: &Transaction,
        (key, commit): (&SessionKey, &Commit),
    ) -> JobResult<Committed> {
        let epoch = self.head.lease_epoch;
        let seq = self.repeated.unwrap_or(Seq(self.head.last_seq));
        let mut batch = Batch::default();
        let shared = state::add_shared(&mut batch, key);
        let rows = transaction.commit(batch).await?;
        let started = match &commit.turn {
            TurnChange::Start(start) => {
                let is_own = |run: &&StoredRun| {
                    run.state.status == RunStatus::Running && run.state.owner == start.run.owner
                };
                let run = self.run(&start.run.id).filter(is_own);
                let lease = run.map(|run| Lease { key: key.clone(), run: run.number, epoch });
                let shared = match start.if_epoch {
                    Some(_) => state::merged(&rows, &shared)?,
                    None => Vec::new(),
                };
                lease.map(|lease| StartedTurn { lease, shared })
            }
            _ => None,
        };
        Ok(Committed { seq, repeated: false, started, epoch })
    }
}
