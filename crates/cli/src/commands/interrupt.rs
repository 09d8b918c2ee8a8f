//! Ctrl-C cancels a turn.

use adk::error::RunError;
use std::{future::Future, io, pin::pin, time::Duration};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::sleep,
};
use tokio_util::sync::CancellationToken;

/// How long a cancelled turn may take to store its end. A turn that waits for a locked store is abandoned then.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(3);

/// The turn was abandoned before its end was stored: the text shown last may not be stored.
#[derive(Debug, thiserror::Error)]
#[error("stopped before the end of the answer was stored; the text that was shown last may be lost")]
pub(crate) struct Abandoned;

/// Receives SIGINT. Created before the first turn, so that an early Ctrl-C cancels the turn instead of killing the process.
pub(crate) struct Interrupts(Signal);

impl Interrupts {
    pub(crate) fn listen() -> io::Result<Self> {
        signal(SignalKind::interrupt()).map(Self)
    }

    /// Runs the work before the first turn. Ctrl-C drops it and returns [`RunError::Cancelled`].
    pub(crate) async fn or_cancelled<T>(
        &mut self,
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        tokio::select! {
            done = work => done,
            Some(()) = self.0.recv() => Err(RunError::Cancelled.into()),
        }
    }

    /// Runs the work to its end. Ctrl-C cancels its token.
    pub(crate) async fn cancellable<T, W: Future<Output = anyhow::Result<T>>>(
        &mut self,
        work: impl FnOnce(CancellationToken) -> W,
    ) -> anyhow::Result<T> {
        let cancel = CancellationToken::new();
        let mut work = pin!(work(cancel.clone()));
        tokio::select! {
            done = &mut work => return done,
            Some(()) = self.0.recv() => cancel.cancel(),
        }
        tokio::select! {
            done = &mut work => done,
            () = sleep(CANCEL_TIMEOUT) => Err(anyhow::Error::from(RunError::Cancelled).context(Abandoned)),
        }
    }
}
