//! Contract tests of state: scopes and the state log.

use super::{
    SharedStore,
    make::{changes, key, load, message, message_commit, new_session, page, session, sets},
};
use serde_json::{Value, json};
use session::{Commit, NewSession, OnConflict, Result, Scope, SessionKey, StateEntry};

pub async fn state_is_visible_within_its_scope(store: SharedStore) -> Result<()> {
    let here = session(&store, "s").await?;
    let scopes = [Scope::App, Scope::User, Scope::Session];
    store.commit(&here, changes(scopes.map(|scope| sets(scope, "k", format!("{scope:?}"))).into())).await?;
    let seen = [
        (here, vec!["App", "User", "Session"]),
        (key("other session"), vec!["App", "User"]),
        (SessionKey::new("app", "bob", "s"), vec!["App"]),
        (SessionKey::new("other app", "ann", "s"), vec![]),
    ];
    for (key, expected) in seen {
        store.create(new_session(&key, OnConflict::Keep)).await?;
        let state = load(&store, &key).await?.state;
        let values: Vec<_> = state.iter().filter_map(|change| change.value.as_str()).collect();
        assert_eq!(values, expected, "in {key}");
    }
    Ok(())
}

pub async fn app_and_user_state_survive_the_deletion_of_a_session(store: SharedStore) -> Result<()> {
    let first = session(&store, "first").await?;
    let scopes = [Scope::App, Scope::User, Scope::Session];
    store.commit(&first, changes(scopes.map(|scope| sets(scope, "k", 1)).into())).await?;
    store.delete(&first).await?;
    let next = session(&store, "next").await?;
    assert_eq!(load(&store, &next).await?.state, [sets(Scope::App, "k", 1), sets(Scope::User, "k", 1)]);
    Ok(())
}

pub async fn state_keys_are_ordered_by_first_assignment(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let set = |names: &[&str], value: i32| {
        let of = |scope| names.iter().map(move |name| sets(scope, name, value));
        changes(of(Scope::Session).chain(of(Scope::User)).chain(of(Scope::App)).collect())
    };
    store.commit(&key, set(&["z", "a"], 1)).await?;
    store.commit(&key, set(&["m", "z"], 2)).await?;
    let of = |scope| [("z", 2), ("a", 1), ("m", 2)].map(|(name, value)| sets(scope, name, value));
    let expected = [of(Scope::App), of(Scope::User), of(Scope::Session)].concat();
    assert_eq!(load(&store, &key).await?.state, expected);
    Ok(())
}

pub async fn null_is_a_value(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    store.commit(&key, changes(vec![sets(Scope::Session, "a", 1), sets(Scope::Session, "b", 2)])).await?;
    store.commit(&key, changes(vec![sets(Scope::Session, "a", Value::Null)])).await?;
    let expected = [sets(Scope::Session, "a", Value::Null), sets(Scope::Session, "b", 2)];
    assert_eq!(load(&store, &key).await?.state, expected);
    Ok(())
}

pub async fn the_initial_state_is_in_the_state_log(store: SharedStore) -> Result<()> {
    let state = vec![sets(Scope::App, "a", 1), sets(Scope::Session, "b", json!({"c": [1, 2]}))];
    let row = store.create(NewSession { state, ..new_session(&key("s"), OnConflict::Fail) }).await?;
    assert_eq!(row.last_seq.0, 1);
    assert_eq!(store.commit(&key("s"), message_commit("m1")).await?.seq.0, 2);
    let logged = store.state_changes(&key("s"), page(0, 10)).await?;
    assert_eq!(short(&logged), [(1, "a"), (1, "b")]);
    assert_eq!(logged[1].value, json!({"c": [1, 2]}));
    Ok(())
}

fn short(entries: &[StateEntry]) -> Vec<(u64, &str)> {
    entries.iter().map(|entry| (entry.seq.0, entry.key.as_str())).collect()
}

pub async fn every_state_change_is_logged_with_its_sequence_number(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    store.commit(&key, message_commit("m1")).await?;
    let state = vec![sets(Scope::Session, "z", 1), sets(Scope::App, "a", 1)];
    store.commit(&key, Commit { messages: vec![message("m2")], state, ..Commit::default() }).await?;
    store.commit(&key, changes(vec![sets(Scope::User, "u", 1)])).await?;
    store.commit(&key, message_commit("m4")).await?;
    // A change of a shared key is logged in the session that made it.
    let other = session(&store, "other").await?;
    store.commit(&other, changes(vec![sets(Scope::App, "a", 2)])).await?;
    store.commit(&key, changes(vec![sets(Scope::Session, "z", 2)])).await?;

    let logged = store.state_changes(&key, page(0, 100)).await?;
    assert_eq!(short(&logged), [(2, "z"), (2, "a"), (3, "u"), (5, "z")]);
    assert_eq!(
        logged.iter().map(|entry| entry.scope).collect::<Vec<_>>(),
        [Scope::Session, Scope::App, Scope::User, Scope::Session]
    );
    assert_eq!(short(&store.state_changes(&other, page(0, 100)).await?), [(1, "a")]);
    Ok(())
}

pub async fn a_page_of_state_changes_contains_whole_commits(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    for names in [["a", "b"], ["c", "d"], ["e", "f"]] {
        store.commit(&key, changes(names.map(|name| sets(Scope::Session, name, 1)).into())).await?;
    }
    let pages = [
        (page(0, 1), vec![(1, "a"), (1, "b")]),
        (page(0, 2), vec![(1, "a"), (1, "b")]),
        (page(0, 3), vec![(1, "a"), (1, "b"), (2, "c"), (2, "d")]),
        (page(1, 2), vec![(2, "c"), (2, "d")]),
        (page(2, 100), vec![(3, "e"), (3, "f")]),
        (page(3, 100), vec![]),
        (page(0, 0), vec![]),
    ];
    for (page, expected) in pages {
        assert_eq!(short(&store.state_changes(&key, page).await?), expected, "with {page:?}");
    }
    Ok(())
}
