//! Blocking work beside the runtime, which ends when its call does.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use crate::{Error, Host};

/// Tells blocking work that nobody waits for it any more.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.0.load(Ordering::Relaxed) { Err(Error::Cancelled) } else { Ok(()) }
    }
}

/// Stops the work when the call's future is dropped.
struct StopOnDrop(Stop);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `job` on a blocking thread until it is done or the turn is stopped.
pub(crate) async fn run<T, F>(host: &dyn Host, job: F) -> Result<T, Error>
where
    T: Send + 'static,
    F: FnOnce(&Stop) -> Result<T, Error> + Send + 'static,
{
    let stop = Stop::default();
    let _guard = StopOnDrop(stop.clone());
    let work = tokio::task::spawn_blocking(move || job(&stop));
    tokio::select! {
        // A turn that was stopped before it began does not race with the disk.
        biased;
        () = host.cancelled() => Err(Error::Cancelled),
        done = work => done.unwrap_or_else(|error| Err(Error::Failed(format!("the tool broke down: {error}")))),
    }
}
