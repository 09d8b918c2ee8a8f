//! Contract tests of usage: every commit adds its tokens once, and the sums outlive their session.

use super::{
    SharedStore,
    make::{key, message_commit, new_session, session},
};
use session::{
    Commit, Error, NewSession, OnConflict, Result, Seq, SessionKey, TokenCounts, UsageEntry, UsageGroup,
    UsageKey, UsageQuery, UsageSum,
};

fn entry(day: i64, agent: &str, model: &str, fresh: u64) -> UsageEntry {
    let key = UsageKey { day, agent: agent.into(), model: model.into() };
    let counts = TokenCounts { calls: 1, fresh, cache_reads: 2, cache_writes: 3, output: 4, reasoning: 5 };
    UsageEntry { key, counts }
}

fn used(id: &str, usage: Vec<UsageEntry>) -> Commit {
    Commit { usage, ..message_commit(id) }
}

async fn sum(store: &SharedStore, query: UsageQuery) -> Result<TokenCounts> {
    let mut total = TokenCounts::default();
    store.usage(query).await?.into_iter().for_each(|sum| total += sum.counts);
    Ok(total)
}

/// The fresh tokens of each group, as text.
async fn fresh_by(store: &SharedStore, groups: Vec<UsageGroup>) -> Result<Vec<String>> {
    let sums = store.usage(UsageQuery { groups, ..UsageQuery::default() }).await?;
    let line = |sum: UsageSum| {
        let day = sum.day.map(|day| day.to_string());
        let names = [Some(sum.model), day, sum.app, sum.user, sum.session, sum.agent];
        let names: Vec<String> = names.into_iter().flatten().collect();
        format!("{} {}", names.join(" "), sum.counts.fresh)
    };
    let mut lines: Vec<String> = sums.into_iter().map(line).collect();
    lines.sort();
    Ok(lines)
}

pub async fn usage_is_added_by_commits(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    store.commit(&key, used("m1", vec![entry(7, "root", "p/a", 10)])).await?;
    store.commit(&key, used("m2", vec![entry(7, "root", "p/a", 5), entry(7, "root", "p/b", 1)])).await?;
    let all = sum(&store, UsageQuery::default()).await?;
    let expected =
        TokenCounts { calls: 3, fresh: 16, cache_reads: 6, cache_writes: 9, output: 12, reasoning: 15 };
    assert_eq!(all, expected);
    assert_eq!(fresh_by(&store, Vec::new()).await?, ["p/a 15", "p/b 1"]);
    Ok(())
}

pub async fn usage_of_a_refused_or_repeated_commit_is_not_added(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let first = used("m1", vec![entry(7, "root", "p/a", 10)]);
    store.commit(&key, first.clone()).await?;
    assert!(store.commit(&key, first.clone()).await?.repeated);
    let late = Commit { expected_seq: Some(Seq(9)), ..used("m2", vec![entry(7, "root", "p/a", 10)]) };
    assert!(matches!(store.commit(&key, late.clone()).await, Err(Error::Conflict { .. })));
    let steps = vec![first, late];
    let bad = NewSession { steps, ..new_session(&SessionKey::new("app", "ann", "bad"), OnConflict::Fail) };
    assert!(store.create(bad).await.is_err());
    assert_eq!(sum(&store, UsageQuery::default()).await?.fresh, 10);
    Ok(())
}

pub async fn usage_of_several_days_is_kept_apart(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    // Clocks of two processes may differ, and a commit may have entries of two days.
    for (id, days) in [("m1", vec![7]), ("m2", vec![8]), ("m3", vec![7]), ("m4", vec![8, 9]), ("m5", vec![8])]
    {
        let entries = days.into_iter().map(|day| entry(day, "root", "p/a", 1)).collect();
        store.commit(&key, used(id, entries)).await?;
    }
    assert_eq!(fresh_by(&store, vec![UsageGroup::Day]).await?, ["p/a 7 2", "p/a 8 3", "p/a 9 1"]);
    let query = UsageQuery { from: Some(8), to: Some(8), ..UsageQuery::default() };
    assert_eq!(sum(&store, query).await?.fresh, 3);
    Ok(())
}

pub async fn usage_is_grouped_and_filtered(store: SharedStore) -> Result<()> {
    for (app, user, name, fresh) in
        [("one", "ann", "s", 1), ("one", "ann", "t", 2), ("one", "bob", "s", 4), ("two", "ann", "s", 8)]
    {
        let key = SessionKey::new(app, user, name);
        store.create(new_session(&key, OnConflict::Fail)).await?;
        store.commit(&key, used("m1", vec![entry(7, "root", "p/a", fresh)])).await?;
        store.commit(&key, used("m2", vec![entry(8, "sub", "p/b", fresh * 16)])).await?;
    }
    let by_session = fresh_by(&store, vec![UsageGroup::App, UsageGroup::User, UsageGroup::Session]).await?;
    assert_eq!(
        by_session,
        [
            "p/a one ann s 1",
            "p/a one ann t 2",
            "p/a one bob s 4",
            "p/a two ann s 8",
            "p/b one ann s 16",
            "p/b one ann t 32",
            "p/b one bob s 64",
            "p/b two ann s 128"
        ]
    );
    assert_eq!(fresh_by(&store, vec![UsageGroup::Agent]).await?, ["p/a root 15", "p/b sub 240"]);
    let some = |text: &str| Some(text.to_owned());
    let filters = [
        (UsageQuery { app: some("one"), ..UsageQuery::default() }, 7 * 17),
        (UsageQuery { user: some("ann"), ..UsageQuery::default() }, 11 * 17),
        (UsageQuery { session: some("t"), ..UsageQuery::default() }, 2 * 17),
        (UsageQuery { agent: some("sub"), ..UsageQuery::default() }, 240),
        (UsageQuery { model: some("p/a"), user: some("bob"), ..UsageQuery::default() }, 4),
        (UsageQuery { model: some("p/c"), ..UsageQuery::default() }, 0),
    ];
    for (query, expected) in filters {
        assert_eq!(sum(&store, query.clone()).await?.fresh, expected, "{query:?}");
    }
    Ok(())
}

pub async fn usage_outlives_its_session_without_its_id(store: SharedStore) -> Result<()> {
    let gone = session(&store, "s").await?;
    store.commit(&gone, used("m1", vec![entry(7, "root", "p/a", 10)])).await?;
    store.commit(&gone, used("m2", vec![entry(8, "root", "p/a", 20)])).await?;
    assert!(store.delete(&gone).await?);
    let by_session = vec![UsageGroup::Day, UsageGroup::Session];
    assert_eq!(fresh_by(&store, by_session.clone()).await?, ["p/a 7  10", "p/a 8  20"]);
    // A new session of the same name begins without usage.
    session(&store, "s").await?;
    let of_session = UsageQuery { session: Some("s".into()), ..UsageQuery::default() };
    assert_eq!(sum(&store, of_session).await?, TokenCounts::default());
    store.commit(&key("s"), used("m1", vec![entry(8, "root", "p/a", 1)])).await?;
    assert!(store.delete(&key("s")).await?);
    assert_eq!(fresh_by(&store, by_session).await?, ["p/a 7  10", "p/a 8  21"]);
    Ok(())
}
