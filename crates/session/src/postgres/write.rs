//! Writes: each is a transaction that is attempted until its outcome is known.
//!
//! If the connection is lost after COMMIT was sent, the transaction may be committed. The next attempt first locks the row of
//! the session, so the earlier transaction has ended by then, and finds the id of the write if it was committed. Ids that come
//! from the database (a transaction id) would be wrong after a failover to a standby that missed the commit.

use super::{
    PostgresDatabase,
    batch::{Batch, Frame},
    fault::{Cure, JobError, JobResult},
    pool,
};
use crate::{Error, Result, health::AccessKind};
use deadpool_postgres::Object;
use ring::rand::{SecureRandom, SystemRandom};
use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::{Duration, Instant},
};
use tokio_postgres::Row;

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Attempts of a transaction that conflicts with others.
const CONFLICTS: u32 = 20;

/// A write. An attempt may be repeated, so it changes nothing but the transaction.
pub(super) trait WriteJob: Send + Sync + 'static {
    type Output: Send + 'static;

    /// Runs the statements. The last batch commits the transaction; without one it is rolled back.
    fn run(&self, transaction: &Transaction) -> impl Future<Output = JobResult<Self::Output>> + Send;
}

const UNBEGUN: u8 = 0;
const OPEN: u8 = 1;
const COMMITTING: u8 = 2;
const COMMITTED: u8 = 3;

/// One attempt of a write.
pub(super) struct Transaction {
    connection: Object,
    /// Identifies the write in all of its attempts.
    pub(super) write_id: i64,
    /// Whether an earlier attempt may have been committed.
    pub(super) is_uncertain: bool,
    phase: AtomicU8,
}

impl Transaction {
    /// Sends statements; the first batch begins the transaction.
    pub(super) async fn send(&self, batch: Batch<'_>) -> JobResult<Vec<Vec<Row>>> {
        let frame = if self.advance(UNBEGUN, OPEN) { Frame::Begin } else { Frame::Inside };
        batch.send(&self.connection, frame).await
    }

    /// Sends the last statements and commits.
    pub(super) async fn commit(&self, batch: Batch<'_>) -> JobResult<Vec<Vec<Row>>> {
        failpoint::hit(failpoint::Point::BeforeCommit).map_err(Error::from)?;
        self.phase.store(COMMITTING, Ordering::Relaxed);
        let rows = batch.send(&self.connection, Frame::Commit).await?;
        self.phase.store(COMMITTED, Ordering::Relaxed);
        failpoint::hit(failpoint::Point::AfterCommit).map_err(Error::from)?;
        Ok(rows)
    }

    /// Sends one statement that is a transaction of its own.
    pub(super) async fn statement(&self, batch: Batch<'_>) -> JobResult<Vec<Row>> {
        self.phase.store(COMMITTING, Ordering::Relaxed);
        let sent = batch.send(&self.connection, Frame::Inside).await;
        // Unless the connection is lost, the statement was committed or rolled back.
        if !sent.as_ref().is_err_and(|error| matches!(error.cure(), Cure::Reconnect | Cure::Later)) {
            self.phase.store(UNBEGUN, Ordering::Relaxed);
        }
        Ok(sent?.into_iter().next().unwrap_or_default())
    }

    fn advance(&self, from: u8, to: u8) -> bool {
        self.phase.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    fn may_be_committed(&self) -> bool {
        self.phase.load(Ordering::Relaxed) >= COMMITTING
    }

    /// Returns the connection to the pool, or closes it if its state is unknown.
    async fn end(self, is_usable: bool) {
        let phase = self.phase.load(Ordering::Relaxed);
        if !is_usable {
            return pool::discard(self.connection);
        }
        if (phase == OPEN || phase == COMMITTING) && self.connection.batch_execute("ROLLBACK").await.is_err()
        {
            pool::discard(self.connection);
        }
    }
}

/// The attempts of one write.
struct Attempts {
    began: Instant,
    pause: Duration,
    conflicts: u32,
    is_uncertain: bool,
}

impl PostgresDatabase {
    /// Runs a write. It continues if the caller drops the future: a transaction is not left open.
    pub(super) async fn write<J: WriteJob>(self: &Arc<Self>, job: J) -> Result<J::Output> {
        let database = Arc::clone(self);
        let task = tokio::spawn(async move { database.attempt(&job).await });
        task.await.map_err(|_| Error::Closed)?
    }

    async fn attempt<J: WriteJob>(&self, job: &J) -> Result<J::Output> {
        let write_id = random_id()?;
        let mut attempts =
            Attempts { began: Instant::now(), pause: FIRST_PAUSE, conflicts: 0, is_uncertain: false };
        let result = loop {
            let error = match self.attempt_once(job, write_id, &mut attempts).await {
                Ok(output) => break Ok(output),
                Err(error) => error,
            };
            if !self.continues(&error, &mut attempts) {
                break Err(error.at(&self.path));
            }
            tokio::time::sleep(attempts.pause).await;
            attempts.pause = (attempts.pause * 2).min(LONGEST_PAUSE);
        };
        self.health.record(AccessKind::Write, &result);
        result
    }

    fn continues(&self, error: &JobError, attempts: &mut Attempts) -> bool {
        match error.cure() {
            Cure::None | Cure::Later => false,
            Cure::Repeat => {
                attempts.conflicts += 1;
                attempts.conflicts < CONFLICTS
            }
            Cure::Reconnect => attempts.began.elapsed() < self.options.retry,
        }
    }

    async fn attempt_once<J: WriteJob>(
        &self,
        job: &J,
        write_id: i64,
        attempts: &mut Attempts,
    ) -> JobResult<J::Output> {
        let connection = pool::connection(&self.pool).await?;
        let is_uncertain = attempts.is_uncertain;
        let transaction = Transaction { connection, write_id, is_uncertain, phase: AtomicU8::new(UNBEGUN) };
        let work = job.run(&transaction);
        let result = match tokio::time::timeout(self.options.attempt, work).await {
            Ok(result) => result,
            Err(_) => Err(JobError::Silent),
        };
        let cure = result.as_ref().err().map(JobError::cure);
        let is_usable = !matches!(cure, Some(Cure::Reconnect | Cure::Later));
        // A server that reports an error has rolled the transaction back; a lost connection says nothing.
        attempts.is_uncertain |= !is_usable && transaction.may_be_committed();
        transaction.end(is_usable).await;
        result
    }
}

/// The id of a write: random, because ids of several processes must differ.
fn random_id() -> Result<i64> {
    let mut bytes = [0; 8];
    let failed = |_| Error::Backend("the system has no random numbers".into());
    SystemRandom::new().fill(&mut bytes).map_err(failed)?;
    Ok(i64::from_le_bytes(bytes))
}
