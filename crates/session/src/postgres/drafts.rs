//! Drafts: one row per chunk of streamed text.

use super::{
    batch::{Batch, parameters},
    fault::JobResult,
    runs,
    sessions::{LOCK_HEAD, SessionHead, key_of},
    text::{Text, integer, text},
    write::{Transaction, WriteJob},
};
use crate::{Draft, Lease, lifecycle};
use tokio_postgres::Row;

/// One statement, which stores nothing if the epoch is not the current one. A chunk that an earlier attempt stored is kept.
const EXTEND: &str = "WITH leased AS (
         SELECT session_key FROM sessions WHERE session_key = $1 AND lease_epoch = $2 FOR SHARE
     ), stored AS (
         SELECT 1 FROM drafts WHERE session_key = $1 AND write_id = $4
     ), added AS (
         INSERT INTO drafts (session_key, number, run, write_id, piece)
         SELECT session_key, nextval('numbers'), $3, $4, $5 FROM leased WHERE NOT EXISTS (SELECT 1 FROM stored)
         RETURNING 1
     )
     SELECT 1 FROM leased";
pub(super) const LOAD: &str = "SELECT run_id, piece FROM drafts JOIN runs
         ON runs.session_key = drafts.session_key AND runs.position = drafts.run
     WHERE drafts.session_key = $1 ORDER BY number";

/// Appends a chunk to the draft of a session.
pub(super) struct Extend {
    pub(super) lease: Lease,
    pub(super) chunk: String,
}

impl WriteJob for Extend {
    type Output = ();

    async fn run(&self, transaction: &Transaction) -> JobResult<()> {
        let Self { lease, chunk } = self;
        let session_key = key_of(&lease.key);
        let mut batch = Batch::default();
        let (epoch, run) = (integer(lease.epoch), integer(lease.run));
        batch.add(EXTEND, parameters![session_key, epoch, run, transaction.write_id, Text(chunk)]);
        if !transaction.statement(batch).await?.is_empty() {
            return Ok(());
        }
        let mut batch = Batch::default();
        batch.add(LOCK_HEAD, parameters![session_key, transaction.write_id]);
        let rows = transaction.statement(batch).await?;
        let head = SessionHead::read(&rows, &lease.key)?;
        Ok(lifecycle::fence(&head.turns(), lease.epoch)
            .map_err(|refusal| runs::refused(refusal, &lease.key, ""))?)
    }
}

pub(super) fn read(rows: &[Row]) -> JobResult<Option<Draft>> {
    let mut draft: Option<Draft> = None;
    for row in rows {
        let draft = match &mut draft {
            Some(draft) => draft,
            None => draft.insert(Draft { run: text(row, 0)?, chunks: Vec::new() }),
        };
        draft.chunks.push(text(row, 1)?);
    }
    Ok(draft)
}
