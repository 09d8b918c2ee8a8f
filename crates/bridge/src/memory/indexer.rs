//! Keeps the search index up to date while a process runs, so that searches need not wait for it.

use session::{IndexProgress, Store};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Commits within this time are indexed together.
const DELAY: Duration = Duration::from_millis(250);
/// The least pause between two slices.
const PAUSE: Duration = Duration::from_millis(5);
/// A pause is this many times as long as the slice before it: while the machine is busy with turns, the index falls behind
/// instead of competing with them.
const PAUSE_PER_SLICE: u32 = 3;
/// The pause after a failure, such as a full disk.
const RETRY: Duration = Duration::from_secs(30);
/// How often all sessions are checked: another process may have ended before it indexed its commits.
const CHECK: Duration = Duration::from_mins(10);

/// Indexes the commits of this process, and those that other processes left. Runs until it is dropped.
pub async fn keep_indexed(store: Arc<dyn Store>) {
    // A file that damages an index again is not to be written over and over.
    let mut is_rebuilt = false;
    loop {
        if tokio::time::timeout(CHECK, store.index_lags()).await.is_err() {
            store.check_index();
        }
        tokio::time::sleep(DELAY).await;
        loop {
            let start = Instant::now();
            match store.index_next().await {
                Ok(IndexProgress::More) => {
                    tokio::time::sleep(PAUSE.max(start.elapsed() * PAUSE_PER_SLICE)).await;
                }
                Ok(IndexProgress::Complete) => break,
                // The log has everything that the index needs.
                Err(session::Error::DamagedIndex { .. }) if !is_rebuilt => {
                    is_rebuilt = store.reset_index().await.is_ok();
                }
                // The store reports its faults itself.
                Err(_) => {
                    tokio::time::sleep(RETRY).await;
                    break;
                }
            }
        }
    }
}
