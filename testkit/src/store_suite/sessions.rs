//! Contract tests of sessions: creation, isolation by key, deletion.

use super::{
    SharedStore,
    make::{
        changes, enqueue, entry, key, load, message, message_commit, new_session, page, run, session, sets,
        sets_entry, start, withdrawal,
    },
};
use serde_json::json;
use session::{
    ArtifactKey, Commit, Error, Lease, ListQuery, NewArtifact, NewSession, OnConflict, Result, RunStatus,
    Scope, Seq, SessionKey, TailBudget,
};

pub async fn a_new_session_is_empty(store: SharedStore) -> Result<()> {
    let made = store.create(new_session(&key("s"), OnConflict::Fail)).await?;
    assert_eq!((made.last_seq, made.total_tokens, &made.title), (Seq::START, 0, &None));
    assert!(made.created_at > 1_600_000_000.0 && made.updated_at >= made.created_at);
    let found = load(&store, &key("s")).await?;
    assert_eq!(found.row, made);
    assert!(found.tail.is_empty() && found.state.is_empty() && found.pending.is_empty() && !found.truncated);
    Ok(())
}

pub async fn creating_an_existing_session_fails_or_returns_it(store: SharedStore) -> Result<()> {
    let made = store.create(new_session(&key("s"), OnConflict::Fail)).await?;
    let again = store.create(new_session(&key("s"), OnConflict::Fail)).await;
    assert!(matches!(again, Err(Error::Exists(found)) if found == key("s")));
    assert_eq!(store.create(new_session(&key("s"), OnConflict::Keep)).await?, made);
    Ok(())
}

pub async fn creating_an_existing_session_with_keep_changes_nothing(store: SharedStore) -> Result<()> {
    let state = |value| vec![sets(Scope::Session, "a", value), sets(Scope::App, "b", value)];
    let new = |value| NewSession { state: state(value), ..new_session(&key("s"), OnConflict::Keep) };
    store.create(new(1)).await?;
    store.commit(&key("s"), message_commit("m1")).await?;
    let kept = store.create(new(2)).await?;
    let found = load(&store, &key("s")).await?;
    assert_eq!(found.row, kept);
    assert_eq!(found.state, [sets(Scope::App, "b", 1), sets(Scope::Session, "a", 1)]);
    assert_eq!(found.tail.len(), 1);
    Ok(())
}

pub async fn a_session_is_created_with_its_steps(store: SharedStore) -> Result<()> {
    let new = |on_conflict| NewSession {
        state: vec![sets(Scope::Session, "a", 1)],
        steps: ["m1", "m2"].map(message_commit).into(),
        ..new_session(&key("s"), on_conflict)
    };
    let made = store.create(new(OnConflict::Fail)).await?;
    assert_eq!((made.last_seq, made.total_tokens), (Seq(3), 20));
    let found = load(&store, &key("s")).await?;
    assert_eq!(found.row, made);
    let ids: Vec<&str> = found.tail.iter().map(|row| row.message.id.as_str()).collect();
    assert_eq!(ids, ["m1", "m2"]);
    assert_eq!(store.create(new(OnConflict::Keep)).await?, made);
    Ok(())
}

pub async fn writes_and_paged_reads_of_a_missing_session_fail_with_not_found(
    store: SharedStore,
) -> Result<()> {
    let none = key("none");
    let lease = Lease { key: none.clone(), run: 1, epoch: 1 };
    let refused = [
        store.commit(&none, message_commit("m")).await.err(),
        store.read(&none, page(0, 10)).await.err(),
        store.state_changes(&none, page(0, 10)).await.err(),
        store.read_run(&none, 1, page(0, 10)).await.err(),
        store.activity(&none).await.err(),
        start(&store, &none, run("r")).await.err(),
        enqueue(&store, &none, run("r")).await.err(),
        store.extend_draft(&lease, "x".into()).await.err(),
    ];
    for error in refused {
        assert!(matches!(error, Some(Error::NotFound(missing)) if missing == none));
    }
    Ok(())
}

pub async fn lookups_in_a_missing_session_return_nothing(store: SharedStore) -> Result<()> {
    let none = key("none");
    assert!(store.load(&none, TailBudget::ALL).await?.is_none());
    assert!(store.pending_entry(&none, "kind", "id").await?.is_none());
    assert!(store.run(&none, "r").await?.is_none());
    assert!(store.runs(&none, 10).await?.is_empty());
    assert!(store.payload(&none, "r").await?.is_none());
    assert!(!store.withdraw(&none, withdrawal("r", RunStatus::Cancelled)).await?);
    assert!(!store.delete(&none).await?);
    Ok(())
}

pub async fn sessions_of_users_and_apps_are_isolated(store: SharedStore) -> Result<()> {
    let keys =
        [("app", "ann"), ("app", "bob"), ("other", "ann")].map(|(app, user)| SessionKey::new(app, user, "s"));
    for key in &keys {
        store.create(new_session(key, OnConflict::Fail)).await?;
        store.commit(key, message_commit(&format!("{key}"))).await?;
    }
    for key in &keys {
        let found = load(&store, key).await?;
        assert_eq!((found.tail.len(), found.row.last_seq), (1, Seq(1)));
        assert_eq!(found.tail[0].message.id, format!("{key}"));
    }
    assert!(store.delete(&keys[0]).await?);
    assert!(store.load(&keys[1], TailBudget::NONE).await?.is_some());
    assert!(store.load(&keys[2], TailBudget::NONE).await?.is_some());
    Ok(())
}

/// Creates a session with messages, state, pending work, runs, a draft and artifacts.
async fn create_full(store: &SharedStore, key: &SessionKey) -> Result<()> {
    store.create(new_session(key, OnConflict::Fail)).await?;
    store.commit(key, message_commit("m1")).await?;
    let scopes = [Scope::App, Scope::User, Scope::Session];
    store.commit(key, changes(scopes.map(|scope| sets(scope, "k", "v")).into())).await?;
    store.commit(key, sets_entry(entry("agent", "", "\"root\""))).await?;
    let lease = start(store, key, run("r1")).await?;
    store.extend_draft(&lease, "draft".into()).await?;
    enqueue(store, key, run("q1")).await?;
    for name in ["own.txt", "user:shared.txt"] {
        store.save(&ArtifactKey { session: key.clone(), name: name.into() }, file()).await?;
    }
    Ok(())
}

fn file() -> NewArtifact {
    NewArtifact { part: json!({"text": "x"}).to_string(), mime_type: None, custom_metadata: "{}".into() }
}

pub async fn deleting_a_session_removes_all_of_its_data_and_nothing_else(store: SharedStore) -> Result<()> {
    let (gone, stays) = (key("gone"), key("stays"));
    create_full(&store, &gone).await?;
    create_full(&store, &stays).await?;
    assert!(store.delete(&gone).await?);
    assert!(!store.delete(&gone).await?);

    assert!(store.load(&gone, TailBudget::ALL).await?.is_none());
    assert!(matches!(store.commit(&gone, message_commit("m2")).await, Err(Error::NotFound(_))));
    let left = store.list(ListQuery { limit: 10, ..ListQuery::default() }).await?;
    assert_eq!(left.iter().map(|row| &row.key).collect::<Vec<_>>(), [&stays]);

    let other = load(&store, &stays).await?;
    assert_eq!((other.tail.len(), other.pending.len(), other.state.len()), (2, 1, 3));
    assert!(other.draft.is_some());
    assert!(store.payload(&stays, "q1").await?.is_some());
    assert_eq!(store.runs(&stays, 10).await?.len(), 2);
    assert_eq!(store.names(&stays).await?, ["own.txt", "user:shared.txt"]);
    Ok(())
}

pub async fn a_recreated_session_is_empty(store: SharedStore) -> Result<()> {
    create_full(&store, &key("s")).await?;
    assert!(store.delete(&key("s")).await?);
    session(&store, "s").await?;
    let recreated = load(&store, &key("s")).await?;
    assert_eq!(recreated.row.last_seq, Seq::START);
    assert!(recreated.tail.is_empty() && recreated.pending.is_empty() && recreated.draft.is_none());
    // The app and user state remains.
    assert_eq!(recreated.state, [sets(Scope::App, "k", "v"), sets(Scope::User, "k", "v")]);
    assert!(store.state_changes(&key("s"), page(0, 10)).await?.is_empty());
    assert_eq!(store.activity(&key("s")).await?, session::Activity::default());
    assert!(store.runs(&key("s"), 10).await?.is_empty());
    assert!(store.pending_entry(&key("s"), "agent", "").await?.is_none());
    assert_eq!(store.names(&key("s")).await?, ["user:shared.txt"]);
    assert_eq!(store.commit(&key("s"), message_commit("m1")).await?.seq, Seq(1));
    Ok(())
}

pub async fn a_title_is_set_once(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let titled = |id: &str, title: Option<&str>| Commit {
        messages: vec![message(id)],
        title: title.map(str::to_owned),
        ..Commit::default()
    };
    store.commit(&key, titled("m1", None)).await?;
    assert_eq!(load(&store, &key).await?.row.title, None);
    store.commit(&key, titled("m2", Some("first"))).await?;
    store.commit(&key, titled("m3", Some("second"))).await?;
    assert_eq!(load(&store, &key).await?.row.title.as_deref(), Some("first"));
    Ok(())
}

pub async fn a_session_above_the_quota_is_not_created(store: SharedStore) -> Result<()> {
    let create = |app: &str, user: &str, id: &str, quota: u64| {
        let new = new_session(&SessionKey::new(app, user, id), OnConflict::Fail);
        store.create(NewSession { quota: Some(quota), ..new })
    };
    create("app", "ann", "1", 2).await?;
    // The sessions of all apps count, those of other users do not.
    create("other", "ann", "2", 2).await?;
    create("app", "bob", "1", 2).await?;
    let refused = create("app", "ann", "3", 2).await;
    assert!(matches!(&refused, Err(Error::QuotaReached { user, quota: 2 }) if user == "ann"), "{refused:?}");
    assert!(store.load(&key("3"), TailBudget::NONE).await?.is_none());
    assert!(matches!(create("app", "ann", "1", 2).await, Err(Error::Exists(_))));
    let kept = NewSession { quota: Some(0), ..new_session(&key("1"), OnConflict::Keep) };
    assert_eq!(store.create(kept).await?.key, key("1"));
    // A refused or deleted session does not count.
    assert!(store.delete(&key("1")).await?);
    create("app", "ann", "3", 2).await?;
    assert!(create("app", "ann", "4", 2).await.is_err());
    assert!(matches!(create("app", "eve", "1", 0).await, Err(Error::QuotaReached { .. })));
    store.create(new_session(&key("5"), OnConflict::Fail)).await?;
    Ok(())
}
