//! Laws of facts (pending work).

use super::{
    SharedStore,
    make::{fact, load, message_commit, session, sets_fact},
};
use session::{Commit, Fact, FactChange, Result};

pub async fn a_fact_is_set_replaced_and_cleared(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    assert_eq!(store.fact(&key, "agent", "").await?, None);
    store.commit(&key, sets_fact(fact("agent", "", "\"root\""))).await?;
    store.commit(&key, sets_fact(fact("call", "c1", "{}"))).await?;
    store
        .commit(
            &key,
            Commit { facts: vec![FactChange::Set(fact("agent", "", "\"sub\""))], ..message_commit("m1") },
        )
        .await?;
    assert_eq!(store.fact(&key, "agent", "").await?, Some(fact("agent", "", "\"sub\"")));
    assert_eq!(load(&store, &key).await?.facts, [fact("agent", "", "\"sub\""), fact("call", "c1", "{}")]);

    let clear = |kind: &str, id: &str| FactChange::Clear { kind: kind.into(), id: id.into() };
    let facts =
        vec![clear("call", "c1"), clear("call", "never set"), FactChange::Set(fact("call", "c2", "{}"))];
    store.commit(&key, Commit { facts, ..Commit::default() }).await?;
    assert_eq!(store.fact(&key, "call", "c1").await?, None);
    assert_eq!(load(&store, &key).await?.facts, [fact("agent", "", "\"sub\""), fact("call", "c2", "{}")]);
    Ok(())
}

fn not_carried(id: &str) -> Fact {
    Fact { carried: false, ..fact("ledger", id, "1") }
}

pub async fn a_snapshot_contains_only_carried_facts(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let facts = (0..100).map(|n| FactChange::Set(not_carried(&format!("{n}")))).collect();
    store.commit(&key, Commit { facts, ..Commit::default() }).await?;
    store.commit(&key, sets_fact(fact("b", "2", "1"))).await?;
    store.commit(&key, sets_fact(fact("b", "1", "1"))).await?;
    store.commit(&key, sets_fact(fact("a", "9", "1"))).await?;
    assert_eq!(
        load(&store, &key).await?.facts,
        [fact("a", "9", "1"), fact("b", "1", "1"), fact("b", "2", "1")]
    );
    assert_eq!(store.fact(&key, "ledger", "42").await?, Some(not_carried("42")));
    Ok(())
}

pub async fn a_fact_may_stop_being_carried(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    store.commit(&key, sets_fact(Fact { carried: true, ..not_carried("1") })).await?;
    assert_eq!(load(&store, &key).await?.facts.len(), 1);
    store.commit(&key, sets_fact(not_carried("1"))).await?;
    assert!(load(&store, &key).await?.facts.is_empty());
    assert_eq!(store.fact(&key, "ledger", "1").await?, Some(not_carried("1")));
    Ok(())
}
