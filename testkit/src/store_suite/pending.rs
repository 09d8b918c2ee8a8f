//! Contract tests of pending work.

use super::{
    SharedStore,
    make::{entry, load, message_commit, session, sets_entry},
};
use session::{Commit, PendingEntry, PendingEntryChange, Result};

pub async fn a_pending_entry_is_set_replaced_and_cleared(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    assert_eq!(store.pending_entry(&key, "agent", "").await?, None);
    store.commit(&key, sets_entry(entry("agent", "", "\"root\""))).await?;
    store.commit(&key, sets_entry(entry("call", "c1", "{}"))).await?;
    store
        .commit(
            &key,
            Commit {
                pending: vec![PendingEntryChange::Set(entry("agent", "", "\"sub\""))],
                ..message_commit("m1")
            },
        )
        .await?;
    assert_eq!(store.pending_entry(&key, "agent", "").await?, Some(entry("agent", "", "\"sub\"")));
    assert_eq!(load(&store, &key).await?.pending, [entry("agent", "", "\"sub\""), entry("call", "c1", "{}")]);

    let clear = |kind: &str, id: &str| PendingEntryChange::Clear { kind: kind.into(), id: id.into() };
    let pending = vec![
        clear("call", "c1"),
        clear("call", "never set"),
        PendingEntryChange::Set(entry("call", "c2", "{}")),
    ];
    store.commit(&key, Commit { pending, ..Commit::default() }).await?;
    assert_eq!(store.pending_entry(&key, "call", "c1").await?, None);
    assert_eq!(load(&store, &key).await?.pending, [entry("agent", "", "\"sub\""), entry("call", "c2", "{}")]);
    Ok(())
}

fn not_carried(id: &str) -> PendingEntry {
    PendingEntry { carried: false, ..entry("ledger", id, "1") }
}

pub async fn a_snapshot_contains_only_carried_entries(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let pending = (0..100).map(|n| PendingEntryChange::Set(not_carried(&format!("{n}")))).collect();
    store.commit(&key, Commit { pending, ..Commit::default() }).await?;
    store.commit(&key, sets_entry(entry("b", "2", "1"))).await?;
    store.commit(&key, sets_entry(entry("b", "1", "1"))).await?;
    store.commit(&key, sets_entry(entry("a", "9", "1"))).await?;
    assert_eq!(
        load(&store, &key).await?.pending,
        [entry("a", "9", "1"), entry("b", "1", "1"), entry("b", "2", "1")]
    );
    assert_eq!(store.pending_entry(&key, "ledger", "42").await?, Some(not_carried("42")));
    Ok(())
}

pub async fn a_pending_entry_may_stop_being_carried(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    store.commit(&key, sets_entry(PendingEntry { carried: true, ..not_carried("1") })).await?;
    assert_eq!(load(&store, &key).await?.pending.len(), 1);
    store.commit(&key, sets_entry(not_carried("1"))).await?;
    assert!(load(&store, &key).await?.pending.is_empty());
    assert_eq!(store.pending_entry(&key, "ledger", "1").await?, Some(not_carried("1")));
    Ok(())
}
