//! Laws of paging, also during changes.

use super::{
    SharedStore,
    make::{changes, load, new_session, page, says, seqs, session, sets},
};
use session::{ListQuery, OnConflict, Result, Scope, SessionKey, SessionRow};
use std::{cmp::Reverse, collections::BTreeSet};

async fn read_all(store: &SharedStore, key: &SessionKey, limit: usize) -> Result<Vec<u64>> {
    let mut read = Vec::new();
    loop {
        let rows = store.read(key, page(read.last().copied().unwrap_or(0), limit)).await?;
        assert!(rows.len() <= limit);
        if rows.is_empty() {
            return Ok(read);
        }
        read.extend(seqs(&rows));
    }
}

pub async fn pages_cover_the_whole_log(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    for n in 1..=20_u64 {
        // Every fifth commit has no message: a gap in the sequence numbers of the rows.
        let step =
            if n % 5 == 0 { changes(vec![sets(Scope::Session, "n", n)]) } else { says(&format!("m{n}")) };
        store.commit(&key, step).await?;
    }
    let expected: Vec<u64> = (1..=20).filter(|n| n % 5 != 0).collect();
    for limit in [1, 2, 3, 7, 16, 17, usize::MAX] {
        assert_eq!(read_all(&store, &key, limit).await?, expected);
    }
    assert!(store.read(&key, page(u64::MAX, 10)).await?.is_empty());
    assert!(store.read(&key, page(0, 0)).await?.is_empty());
    Ok(())
}

pub async fn paging_is_stable_during_commits(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    for n in 1..=10 {
        store.commit(&key, says(&format!("m{n}"))).await?;
    }
    let mut read = Vec::new();
    for n in 11..=20 {
        let rows = store.read(&key, page(read.last().copied().unwrap_or(0), 2)).await?;
        read.extend(seqs(&rows));
        store.commit(&key, says(&format!("m{n}"))).await?;
    }
    let rest = store.read(&key, page(read.last().copied().unwrap_or(0), 100)).await?;
    read.extend(seqs(&rest));
    assert_eq!(read, (1..=20).collect::<Vec<_>>());
    Ok(())
}

/// Twelve sessions of two users and two apps.
async fn crowd(store: &SharedStore) -> Result<Vec<SessionKey>> {
    let mut keys = Vec::new();
    for n in 0..12 {
        let (app, user) = ([("one", "ann"), ("one", "bob"), ("two", "ann")])[n % 3];
        keys.push(SessionKey::new(app, user, format!("s{n}")));
    }
    for key in &keys {
        store.create(new_session(key, OnConflict::Fail)).await?;
    }
    Ok(keys)
}

fn all() -> ListQuery {
    ListQuery { limit: 100, ..ListQuery::default() }
}

fn keys(rows: &[SessionRow]) -> Vec<SessionKey> {
    rows.iter().map(|row| row.key.clone()).collect()
}

pub async fn a_list_is_ordered_by_last_change_descending(store: SharedStore) -> Result<()> {
    let crowd = crowd(&store).await?;
    store.commit(&crowd[3], says("m1")).await?;
    let rows = store.list(all()).await?;
    assert_eq!(rows.len(), crowd.len());
    // The key breaks ties of the clock.
    let mut sorted = rows.clone();
    sorted.sort_by_key(|row| Reverse((row.updated_at.to_bits(), row.key.clone())));
    assert_eq!(rows, sorted);
    let changed = load(&store, &crowd[3]).await?.row;
    assert_eq!(rows[0].updated_at.to_bits(), changed.updated_at.to_bits());
    assert!(rows.contains(&changed));
    Ok(())
}

pub async fn a_list_is_filtered_by_app_and_user(store: SharedStore) -> Result<()> {
    let crowd = crowd(&store).await?;
    for (app, user) in
        [(Some("one"), None), (None, Some("ann")), (Some("one"), Some("bob")), (Some("x"), None)]
    {
        let query = ListQuery { app: app.map(Into::into), user: user.map(Into::into), ..all() };
        let listed: BTreeSet<SessionKey> = keys(&store.list(query).await?).into_iter().collect();
        let wanted = |key: &&SessionKey| {
            app.is_none_or(|app| app == key.app) && user.is_none_or(|user| user == key.user)
        };
        assert_eq!(listed, crowd.iter().filter(wanted).cloned().collect());
    }
    Ok(())
}

pub async fn paging_a_list_has_no_gap_and_no_duplicate(store: SharedStore) -> Result<()> {
    crowd(&store).await?;
    for app in [None, Some("one".to_owned())] {
        let whole = store.list(ListQuery { app: app.clone(), ..all() }).await?;
        for limit in 1..=5 {
            let mut pages: Vec<SessionRow> = Vec::new();
            loop {
                let query = ListQuery { app: app.clone(), after: pages.last().cloned(), limit, ..all() };
                let rows = store.list(query).await?;
                assert!(rows.len() <= limit);
                if rows.is_empty() {
                    break;
                }
                pages.extend(rows);
            }
            assert_eq!(pages, whole);
        }
    }
    assert!(store.list(ListQuery { limit: 0, ..all() }).await?.is_empty());
    Ok(())
}

pub async fn paging_a_changing_list_repeats_no_session_and_skips_no_unchanged_one(
    store: SharedStore,
) -> Result<()> {
    let crowd = crowd(&store).await?;
    let (mut listed, mut after) = (Vec::new(), None);
    for changed in &crowd {
        // Listed and unlisted sessions move to the front between two pages.
        store.commit(changed, says("m1")).await?;
        let rows = store.list(ListQuery { after, limit: 1, ..all() }).await?;
        after = rows.last().cloned();
        listed.extend(keys(&rows));
        if after.is_none() {
            break;
        }
    }
    let distinct: BTreeSet<_> = listed.iter().collect();
    assert_eq!(distinct.len(), listed.len());
    let mut untouched = BTreeSet::new();
    for key in &crowd {
        if load(&store, key).await?.tail.is_empty() {
            untouched.insert(key);
        }
    }
    assert!(untouched.is_subset(&distinct));
    Ok(())
}
