//! Contract tests of the tail within a budget.

use super::{
    SharedStore,
    make::{changes, ids, load_tail, message, message_commit, seqs, session, sets},
};
use session::{Commit, Result, Scope, SessionKey, TailBudget};

/// A session whose messages `m1`, `m2`, … have these tokens.
async fn session_with(store: &SharedStore, tokens: &[u32]) -> Result<SessionKey> {
    let key = session(store, "s").await?;
    for (n, tokens) in (1..).zip(tokens) {
        let message = session::SessionMessage { tokens: *tokens, ..message(&format!("m{n}")) };
        store.commit(&key, Commit::message(message)).await?;
    }
    Ok(key)
}

async fn assert_tail(
    store: &SharedStore,
    key: &SessionKey,
    budget: TailBudget,
    expected: (&[&str], bool),
) -> Result<()> {
    let found = load_tail(store, key, budget).await?;
    assert_eq!((ids(&found.tail).as_slice(), found.truncated), expected, "with {budget:?}");
    Ok(())
}

fn tokens(tokens: u64) -> TailBudget {
    TailBudget { tokens, rows: usize::MAX }
}

pub async fn the_tail_has_the_newest_rows_within_the_budget(store: SharedStore) -> Result<()> {
    let key = session_with(&store, &[10, 20, 30, 40]).await?;
    assert_tail(&store, &key, tokens(75), (&["m3", "m4"], true)).await?;
    assert_tail(&store, &key, tokens(1000), (&["m1", "m2", "m3", "m4"], false)).await?;
    assert_tail(&store, &key, TailBudget::ALL, (&["m1", "m2", "m3", "m4"], false)).await
}

pub async fn a_budget_equal_to_the_tokens_includes_all_rows(store: SharedStore) -> Result<()> {
    let key = session_with(&store, &[10, 20, 30, 40]).await?;
    assert_tail(&store, &key, tokens(69), (&["m4"], true)).await?;
    assert_tail(&store, &key, tokens(70), (&["m3", "m4"], true)).await?;
    assert_tail(&store, &key, tokens(99), (&["m2", "m3", "m4"], true)).await?;
    assert_tail(&store, &key, tokens(100), (&["m1", "m2", "m3", "m4"], false)).await
}

pub async fn the_newest_row_is_included_even_beyond_the_budget(store: SharedStore) -> Result<()> {
    let key = session_with(&store, &[1, 50]).await?;
    assert_tail(&store, &key, tokens(49), (&["m2"], true)).await?;
    assert_tail(&store, &key, tokens(0), (&["m2"], true)).await
}

pub async fn the_tail_ends_at_a_row_beyond_the_budget(store: SharedStore) -> Result<()> {
    let key = session_with(&store, &[1, 100, 1]).await?;
    assert_tail(&store, &key, tokens(50), (&["m3"], true)).await
}

pub async fn the_tail_is_limited_in_rows(store: SharedStore) -> Result<()> {
    let key = session_with(&store, &[1, 1, 1]).await?;
    let rows = |rows| TailBudget { tokens: u64::MAX, rows };
    assert_tail(&store, &key, rows(1), (&["m3"], true)).await?;
    assert_tail(&store, &key, rows(2), (&["m2", "m3"], true)).await?;
    assert_tail(&store, &key, rows(3), (&["m1", "m2", "m3"], false)).await
}

pub async fn an_empty_budget_returns_no_rows(store: SharedStore) -> Result<()> {
    let key = session_with(&store, &[]).await?;
    assert_tail(&store, &key, TailBudget::NONE, (&[], false)).await?;
    store.commit(&key, message_commit("m1")).await?;
    store.commit(&key, changes(vec![sets(Scope::Session, "k", 1)])).await?;
    assert_tail(&store, &key, TailBudget::NONE, (&[], true)).await?;
    assert_eq!(load_tail(&store, &key, TailBudget::NONE).await?.state.len(), 1);
    Ok(())
}

pub async fn rows_without_tokens_cost_nothing(store: SharedStore) -> Result<()> {
    let key = session_with(&store, &[5, 0, 0, 5, 0]).await?;
    assert_tail(&store, &key, tokens(5), (&["m2", "m3", "m4", "m5"], true)).await?;
    let found = load_tail(&store, &key, tokens(5)).await?;
    assert_eq!(seqs(&found.tail), [2, 3, 4, 5]);
    Ok(())
}
