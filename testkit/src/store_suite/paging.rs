//! Contract tests of paging, also during changes.

use super::{
    SharedStore,
    make::{changes, load, message_commit, new_session, page, run, seqs, session, sets, start},
};
use session::{
    Commit, ListOrder, ListQuery, OnConflict, PageRequest, Result, Scope, SessionKey, SessionRow, TurnChange,
};
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
        let step = if n % 5 == 0 {
            changes(vec![sets(Scope::Session, "n", n)])
        } else {
            message_commit(&format!("m{n}"))
        };
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

pub async fn a_page_ends_at_its_maximum_of_bytes(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let lease = start(&store, &key, run("m0")).await?;
    for n in 1..=6 {
        let turn = TurnChange::Step(lease.clone());
        store.commit(&key, Commit { turn, ..message_commit(&format!("m{n}")) }).await?;
    }
    let all = store.read(&key, page(0, 100)).await?;
    let row = all[0].message.size();
    for (max_bytes, expected) in [(0, 1), (1, 1), (row, 1), (row + 1, 2), (2 * row, 2), (usize::MAX, 4)] {
        let page = PageRequest { max_bytes, ..page(2, 4) };
        assert_eq!(store.read(&key, page).await?, all[2..2 + expected], "{max_bytes}");
        assert_eq!(store.read_run(&key, lease.run, page).await?, all[2..2 + expected], "{max_bytes}");
    }
    Ok(())
}

pub async fn paging_is_stable_during_commits(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    for n in 1..=10 {
        store.commit(&key, message_commit(&format!("m{n}"))).await?;
    }
    let mut read = Vec::new();
    for n in 11..=20 {
        let rows = store.read(&key, page(read.last().copied().unwrap_or(0), 2)).await?;
        read.extend(seqs(&rows));
        store.commit(&key, message_commit(&format!("m{n}"))).await?;
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
    store.commit(&crowd[3], message_commit("m1")).await?;
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
            app.is_none_or(|app| app == key.app_name) && user.is_none_or(|user| user == key.user_id)
        };
        assert_eq!(listed, crowd.iter().filter(wanted).cloned().collect());
    }
    for session in [&crowd[0].session_id, "x"] {
        let query = ListQuery { session: Some(session.to_owned()), ..all() };
        let listed: BTreeSet<SessionKey> = keys(&store.list(query).await?).into_iter().collect();
        assert_eq!(listed, crowd.iter().filter(|key| key.session_id == session).cloned().collect());
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
        store.commit(changed, message_commit("m1")).await?;
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

pub async fn paging_by_creation_lists_every_remaining_session_once_during_changes(
    store: SharedStore,
) -> Result<()> {
    let mut crowd = crowd(&store).await?;
    for filter in [None, Some("ann".to_owned())] {
        let (mut listed, mut after, mut round) = (Vec::new(), None, 0);
        loop {
            let query =
                ListQuery { order: ListOrder::Created, user: filter.clone(), after, limit: 2, ..all() };
            let rows = store.list(query).await?;
            after = rows.last().cloned();
            listed.extend(keys(&rows));
            if after.is_none() {
                break;
            }
            // Between two pages, a session changes, one is deleted and one is created.
            store.commit(&crowd[round], message_commit(&format!("{round} {filter:?}"))).await?;
            let deleted = crowd.swap_remove(crowd.len() / 2);
            assert!(store.delete(&deleted).await?);
            let created = SessionKey::new("one", "ann", format!("new {round} {filter:?}"));
            store.create(new_session(&created, OnConflict::Fail)).await?;
            round += 1;
        }
        let distinct: BTreeSet<_> = listed.iter().cloned().collect();
        assert_eq!(distinct.len(), listed.len());
        let remaining = crowd.iter().filter(|key| filter.as_ref().is_none_or(|user| *user == key.user_id));
        for key in remaining {
            assert!(distinct.contains(key), "{key} was not listed");
        }
    }
    Ok(())
}

pub async fn the_numbers_of_sessions_are_ordered_by_last_change_descending(store: SharedStore) -> Result<()> {
    let crowd = crowd(&store).await?;
    let changed = load(&store, &crowd[3]).await?.row.number;
    store.commit(&crowd[3], message_commit("m1")).await?;
    let numbers = store.session_numbers("one", "ann").await?;
    assert_eq!((numbers.len(), numbers[0]), (4, changed));
    assert!(store.session_numbers("two", "bob").await?.is_empty());
    Ok(())
}

pub async fn heads_are_in_the_requested_order_without_deleted_sessions(store: SharedStore) -> Result<()> {
    let crowd = crowd(&store).await?;
    for (scope, key, value) in [(Scope::App, "a", 1), (Scope::User, "u", 2), (Scope::Session, "s", 3)] {
        store.commit(&crowd[0], changes(vec![sets(scope, key, value)])).await?;
    }
    store.commit(&crowd[0], changes(vec![sets(Scope::Session, "t", 4)])).await?;
    let mut numbers = store.session_numbers("one", "ann").await?;
    numbers.reverse();
    assert!(store.delete(&crowd[3]).await?);
    let page = store.heads("one", "ann", numbers.clone()).await?;
    assert_eq!(page.shared, [sets(Scope::App, "a", 1), sets(Scope::User, "u", 2)]);
    let listed: Vec<_> =
        page.heads.iter().map(|head| (head.row.key.session_id.as_str(), head.state.len())).collect();
    assert_eq!(listed, [("s6", 0), ("s9", 0), ("s0", 2)]);
    assert_eq!(page.heads[2].state, [sets(Scope::Session, "s", 3), sets(Scope::Session, "t", 4)]);
    assert_eq!(page.heads[2].row, load(&store, &crowd[0]).await?.row);
    // The numbers of other users are not found.
    assert!(store.heads("one", "bob", numbers).await?.heads.is_empty());
    Ok(())
}
