//! A commit that becomes visible late: a cursor does not pass it.

use crate::common::proxied;
use session::{Commit, Error, Result, Seq};
use std::sync::Arc;
use testkit::store_suite::make::{ids, message_commit, page, session};
use tokio::task;

/// The slow commit has its sequence number and waits with its COMMIT. A second commit of the session waits for the row lock,
/// although one of another session does not. So no reader sees the second one first.
#[tokio::test(flavor = "multi_thread")]
async fn no_reader_sees_a_row_before_an_earlier_one() -> Result<()> {
    let failed = |error: task::JoinError| Error::Backend(error.into());
    let Some(proxied) = proxied().await else { return Ok(()) };
    let (slow, fast) = (&proxied.store, &proxied.direct);
    let (key, other) = (session(slow, "s").await?, session(fast, "other").await?);
    slow.commit(&key, message_commit("m1")).await?;
    proxied.proxy.hold_at(b"COMMIT\0");
    let commit = |store: &Arc<dyn session::Store>, id: &'static str| {
        let (store, key) = (Arc::clone(store), key.clone());
        // The condition makes it a transaction of two batches.
        let expected_seq = (id == "slow").then_some(Seq(1));
        task::spawn(async move { store.commit(&key, Commit { expected_seq, ..message_commit(id) }).await })
    };
    let first = commit(slow, "slow");
    task::block_in_place(|| proxied.proxy.wait_until_held());
    let second = commit(fast, "fast");
    fast.commit(&other, message_commit("elsewhere")).await?;
    assert_eq!(ids(&fast.read(&key, page(0, 10)).await?), ["m1"]);
    assert!(!second.is_finished());
    proxied.proxy.release();
    let seqs = (first.await.map_err(failed)??.seq.0, second.await.map_err(failed)??.seq.0);
    assert_eq!(seqs, (2, 3));
    assert_eq!(ids(&fast.read(&key, page(1, 10)).await?), ["slow", "fast"]);
    Ok(())
}
