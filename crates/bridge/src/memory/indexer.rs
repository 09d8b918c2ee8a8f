//! Keeps the search index up to date while a process runs, so that searches need not wait for it.

use session::{IndexProgress, Store};
use std::{sync::Arc, time::Duration};

/// Commits within this time are indexed together.
const DELAY: Duration = Duration::from_millis(250);
/// A pause between two slices lets commits go first.
const PAUSE: Duration = Duration::from_millis(5);
/// The pause after a failure, such as a full disk.
const RETRY: Duration = Duration::from_secs(30);
/// How often all sessions are checked: another process may have ended before it indexed its commits.
const CHECK: Duration = Duration::from_mins(10);

/// Indexes the commits of this process, and those that other processes left. Runs until it is dropped.
pub async fn keep_indexed(store: Arc<dyn Store>) {
    loop {
        if tokio::time::timeout(CHECK, store.index_lags()).await.is_err() {
            store.check_index();
        }
        tokio::time::sleep(DELAY).await;
        loop {
            match store.index_next().await {
                Ok(IndexProgress::More) => tokio::time::sleep(PAUSE).await,
                Ok(IndexProgress::Complete) => break,
                // The store reports its faults itself.
                Err(_) => {
                    tokio::time::sleep(RETRY).await;
                    break;
                }
            }
        }
    }
}
