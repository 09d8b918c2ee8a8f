//! Contract tests of drafts.

use super::{
    SharedStore,
    make::{
        finish, finishes, key, load, message_commit, run, run_of, session, start, start_commit, step,
        take_over, taken_lease,
    },
};
use session::{Commit, Draft, Error, Lease, Result, RunStatus, Seq, SessionKey};

async fn extend(store: &SharedStore, lease: &Lease, chunks: &[&str]) -> Result<()> {
    for chunk in chunks {
        store.extend_draft(lease, (*chunk).to_owned()).await?;
    }
    Ok(())
}

async fn draft(store: &SharedStore, key: &SessionKey) -> Result<Option<(String, String)>> {
    let draft = load(store, key).await?.draft;
    Ok(draft.map(|Draft { run, chunks }| (run, chunks.concat())))
}

fn discards(commit: Commit) -> Commit {
    Commit { discards_draft: true, ..commit }
}

pub async fn a_draft_grows_by_its_chunks(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let other = session(&store, "other").await?;
    assert_eq!(draft(&store, &key).await?, None);
    let lease = start(&store, &key, run("r")).await?;
    let before = load(&store, &key).await?.row;
    extend(&store, &lease, &["z", "", "a\0", "z"]).await?;
    let chunks = ["z", "", "a\0", "z"].map(str::to_owned).into();
    let found = load(&store, &key).await?;
    assert_eq!(found.draft, Some(Draft { run: "r".into(), chunks }));
    assert_eq!(draft(&store, &other).await?, None);
    // The log is unchanged.
    assert_eq!((found.row, found.tail.len()), (before, 1));
    Ok(())
}

pub async fn a_draft_is_kept_until_a_commit_discards_it(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let lease = start(&store, &key, run("r")).await?;
    extend(&store, &lease, &["a", "b"]).await?;
    store.commit(&key, step(&lease, "m1")).await?;
    let refused = Commit { expected_seq: Some(Seq(9)), ..discards(step(&lease, "m2")) };
    assert!(matches!(store.commit(&key, refused).await, Err(Error::Conflict { .. })));
    assert!(store.commit(&key, discards(step(&lease, "m1"))).await?.repeated);
    assert_eq!(draft(&store, &key).await?, Some(("r".into(), "ab".into())));
    store.commit(&key, discards(step(&lease, "m2"))).await?;
    assert_eq!(draft(&store, &key).await?, None);
    extend(&store, &lease, &["c"]).await?;
    assert_eq!(draft(&store, &key).await?, Some(("r".into(), "c".into())));
    store
        .commit(&key, discards(Commit { turn: finishes(&lease, RunStatus::Done), ..message_commit("m3") }))
        .await?;
    assert_eq!(draft(&store, &key).await?, None);
    Ok(())
}

pub async fn a_lost_lease_cannot_extend_a_draft(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let old = start(&store, &key, run_of("gone", "r")).await?;
    extend(&store, &old, &["shown "]).await?;
    let new = taken_lease(&take_over(&store, &["gone"], "new").await?)?;
    let late = store.extend_draft(&old, "late".into()).await;
    assert!(matches!(late, Err(Error::Fenced(fenced)) if fenced == key));
    // The new owner reads the draft.
    assert_eq!(draft(&store, &key).await?, Some(("r".into(), "shown ".into())));
    extend(&store, &new, &["again"]).await?;
    assert_eq!(draft(&store, &key).await?, Some(("r".into(), "shown again".into())));
    finish(&store, &new, RunStatus::Interrupted).await?;
    assert!(matches!(store.extend_draft(&new, "late".into()).await, Err(Error::Fenced(_))));
    Ok(())
}

pub async fn the_next_start_must_discard_the_draft_of_an_interrupted_run(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let lease = start(&store, &key, run("r1")).await?;
    extend(&store, &lease, &["left"]).await?;
    finish(&store, &lease, RunStatus::Interrupted).await?;
    // Otherwise the draft would contain text of two runs.
    let unaware = store.commit(&key, start_commit(run("r2"))).await;
    assert!(matches!(unaware, Err(Error::Conflict { .. })), "{unaware:?}");
    assert_eq!(draft(&store, &key).await?, Some(("r1".into(), "left".into())));
    store.commit(&key, discards(start_commit(run("r2")))).await?;
    assert_eq!(draft(&store, &key).await?, None);
    Ok(())
}

pub async fn a_draft_is_deleted_with_its_session(store: SharedStore) -> Result<()> {
    let lease = start(&store, &session(&store, "s").await?, run("r")).await?;
    extend(&store, &lease, &["x"]).await?;
    store.delete(&key("s")).await?;
    assert!(matches!(store.extend_draft(&lease, "y".into()).await, Err(Error::NotFound(_))));
    session(&store, "s").await?;
    assert_eq!(draft(&store, &key("s")).await?, None);
    Ok(())
}
