//! Ctrl-C stops a turn.

use std::{future::Future, io, pin::pin};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Listens from the beginning: a Ctrl-C that comes before the turn has begun must not end the program.
pub(crate) struct Interrupts(Signal);

impl Interrupts {
    pub(crate) fn listen() -> io::Result<Self> {
        signal(SignalKind::interrupt()).map(Self)
    }

    /// Does the work to its end; its token is cancelled by Ctrl-C.
    pub(crate) async fn cancel<T, W: Future<Output = T>>(
        &mut self,
        work: impl FnOnce(CancellationToken) -> W,
    ) -> T {
        let cancel = CancellationToken::new();
        let mut work = pin!(work(cancel.clone()));
        loop {
            tokio::select! {
                done = &mut work => return done,
                Some(()) = self.0.recv() => cancel.cancel(),
            }
        }
    }
}
