//! The queue of a session: messages that wait, their withdrawal, and requests to cancel.

use super::{
    batch::{Batch, parameters},
    fault::JobResult,
    idempotency_keys::{self, KnownRows},
    runs::{self, BY_IDS, RECORDS, RunUpdate, StoredRun, record_of},
    sessions::{LOCK_HEAD, SessionHead, key_of, now, recent},
    text::{Text, integer, number},
    write::{Transaction, WriteJob},
};
use crate::{
    NewRun, RunRecord, SessionKey, Withdrawal,
    lifecycle::{self, RunState, Transition, TurnState},
    run::AcceptedAs,
};

/// Queues a waiting run again, with the answer to its question.
const REQUEUE: &str = concat!(
    "UPDATE runs SET status = $3, owner = $4, ticket = $5, payload = $6, updated_at = ",
    now!(),
    " WHERE session_key = $1 AND position = $2"
);
const NEXT_NUMBERS: &str =
    "SELECT (SELECT COALESCE(MAX(position), 0) + 1 FROM runs WHERE session_key = $1), nextval('numbers')";
/// Notes the id of a write that changes no other column.
const NOTE: &str = concat!("UPDATE sessions SET ", recent!("$2"), " WHERE session_key = $1");

/// Queues a message.
pub(super) struct Enqueue {
    pub(super) key: SessionKey,
    pub(super) run: NewRun,
    pub(super) payload: String,
}

impl WriteJob for Enqueue {
    type Output = RunRecord;

    async fn run(&self, transaction: &Transaction) -> JobResult<RunRecord> {
        let Self { key, run: new, .. } = self;
        let session_key = key_of(key);
        let mut batch = Batch::default();
        let head = batch.add(LOCK_HEAD, parameters![session_key, transaction.write_id]);
        let known = KnownRows::add(&mut batch, key, new.idempotency_key.as_ref());
        let by_id = batch.add(BY_IDS, parameters![session_key, vec![Text(&new.id)]]);
        // Evaluated while the row is locked, so tickets grow in the order of acceptance.
        let next = batch.add(NEXT_NUMBERS, parameters![session_key]);
        let rows = transaction.send(batch).await?;
        let head = SessionHead::read(&rows[head], key)?;
        if transaction.is_uncertain && head.is_written {
            let mut batch = Batch::default();
            let record = batch.add(RECORDS, parameters![session_key, Text(&new.id)]);
            let rows = transaction.commit(batch).await?;
            return record_of(&rows[record], key);
        }
        let request = known.read(&rows)?;
        let is_known = request.is_some();
        request.map_or(Ok(()), |known| known.admit(key, new, AcceptedAs::Enqueue))?;
        let run = StoredRun::read_all(&rows[by_id])?.pop();
        new.admit(key, run.is_some())?;
        let (next_number, ticket) = (number(&rows[next][0], 0)?, number(&rows[next][0], 1)?);
        let change = Transition::Enqueue { owner: new.owner.clone(), ticket };
        let state = lifecycle::transition(&head.turns(), run.as_ref().map(|run| &run.state), &change)
            .map_err(|refusal| runs::refused(refusal, key, &new.id))?
            .run;
        let known = run.map(|run| run.number);
        self.store(transaction, (&head, is_known), (known, next_number, &state)).await
    }
}

impl Enqueue {
    async fn store(
        &self,
        transaction: &Transaction,
        (head, is_known): (&SessionHead, bool),
        (known, next_number, state): (Option<u64>, u64, &RunState<String>),
    ) -> JobResult<RunRecord> {
        let Self { key, run: new, payload } = self;
        let number = known.unwrap_or(next_number);
        let mut batch = Batch::default();
        batch.add(NOTE, parameters![head.session_key, transaction.write_id]);
        if known.is_some() {
            let ticket = integer(state.ticket.unwrap_or(0));
            let place = (head.session_key, integer(number));
            let (status, owner) = (state.status.as_str(), Text(&state.owner));
            batch.add(REQUEUE, parameters![place.0, place.1, status, owner, ticket, Text(payload)]);
        } else {
            let range = (head.last_seq, head.last_seq);
            runs::add_insert(
                &mut batch,
                (head.session_key, number),
                (&new.id, state),
                (range, Some(payload)),
            );
        }
        if let Some(request) = new.idempotency_key.as_ref().filter(|_| !is_known) {
            idempotency_keys::add_insert(&mut batch, key, (head.session_key, number), request);
        }
        let record = batch.add(RECORDS, parameters![head.session_key, Text(&new.id)]);
        let rows = transaction.commit(batch).await.map_err(idempotency_keys::contended)?;
        record_of(&rows[record], key)
    }
}

/// Withdraws a queued run.
pub(super) struct Withdraw {
    pub(super) key: SessionKey,
    pub(super) withdrawal: Withdrawal,
}

impl WriteJob for Withdraw {
    type Output = bool;

    async fn run(&self, transaction: &Transaction) -> JobResult<bool> {
        let Self { key, withdrawal } = self;
        let session_key = key_of(key);
        let mut batch = Batch::default();
        let head = batch.add(LOCK_HEAD, parameters![session_key, transaction.write_id]);
        let by_id = batch.add(BY_IDS, parameters![session_key, vec![Text(&withdrawal.id)]]);
        let rows = transaction.send(batch).await?;
        if rows[head].is_empty() {
            return Ok(false);
        }
        if transaction.is_uncertain && SessionHead::read(&rows[head], key)?.is_written {
            return Ok(true);
        }
        let Some(run) = StoredRun::read_all(&rows[by_id])?.pop() else { return Ok(false) };
        let change = Transition::Withdraw { owner: withdrawal.owner.clone(), to: withdrawal.status };
        // A withdrawal depends neither on the lease nor on the queue.
        let turns = TurnState { epoch: 0, is_leased: false, first_ticket: None };
        let Ok(next) = lifecycle::transition(&turns, Some(&run.state), &change) else { return Ok(false) };
        let mut batch = Batch::default();
        batch.add(NOTE, parameters![session_key, transaction.write_id]);
        let update = RunUpdate { error: withdrawal.error.as_deref(), ..RunUpdate::default() };
        runs::add_update(&mut batch, (session_key, run.number), &next.run, update);
        transaction.commit(batch).await?;
        Ok(true)
    }
}

/// Asks the owner of an open run to cancel it.
pub(super) struct RequestCancel {
    pub(super) key: SessionKey,
    pub(super) id: String,
}

const REQUEST_CANCEL: &str = "WITH locked AS (SELECT session_key FROM sessions WHERE session_key = $1 FOR NO KEY UPDATE)
     UPDATE runs SET is_cancelled = TRUE FROM locked
     WHERE runs.session_key = locked.session_key AND run_id = $2 AND status IN ('queued', 'running') RETURNING 1";

impl WriteJob for RequestCancel {
    type Output = bool;

    async fn run(&self, transaction: &Transaction) -> JobResult<bool> {
        let mut batch = Batch::default();
        batch.add(REQUEST_CANCEL, parameters![key_of(&self.key), Text(&self.id)]);
        Ok(!transaction.statement(batch).await?.is_empty())
    }
}
