//! Contract tests of artifacts.

use super::{SharedStore, make::key};
use session::{Artifact, ArtifactKey, Error, NewArtifact, Result, SessionKey};

fn file(session: &SessionKey, name: &str) -> ArtifactKey {
    ArtifactKey { session: session.clone(), name: name.into() }
}

fn text(text: &str) -> NewArtifact {
    NewArtifact {
        part: format!("{{\"text\":\"{text}\"}}"),
        mime_type: Some("text/plain".into()),
        custom_metadata: "{\"b\":1,\"a\":2}".into(),
    }
}

async fn found(store: &SharedStore, file: &ArtifactKey, version: Option<u64>) -> Result<Artifact> {
    store.artifact(file, version).await?.ok_or(Error::Closed)
}

pub async fn artifact_versions_count_from_zero(store: SharedStore) -> Result<()> {
    let file = file(&key("s"), "notes.txt");
    assert_eq!(store.artifact(&file, None).await?, None);
    assert!(store.versions(&file).await?.is_empty());
    for (version, content) in (0..).zip(["a", "b", "c"]) {
        assert_eq!(store.save(&file, text(content)).await?, version);
    }
    assert_eq!(store.versions(&file).await?, [0, 1, 2]);
    let newest = found(&store, &file, None).await?;
    assert_eq!((newest.version, newest.part), (2, text("c").part));
    assert_eq!((newest.mime_type, newest.custom_metadata), (text("c").mime_type, text("c").custom_metadata));
    assert!(newest.created_at > 1_600_000_000.0);
    let oldest = found(&store, &file, Some(0)).await?;
    assert_eq!((oldest.version, oldest.part), (0, text("a").part));
    assert_eq!(store.artifact(&file, Some(3)).await?, None);
    Ok(())
}

pub async fn a_user_artifact_is_shared_by_all_sessions(store: SharedStore) -> Result<()> {
    let (one, two, bob) = (key("one"), key("two"), SessionKey::new("app", "bob", "one"));
    assert_eq!(store.save(&file(&one, "user:cv"), text("a")).await?, 0);
    assert_eq!(store.save(&file(&two, "user:cv"), text("b")).await?, 1);
    assert_eq!(found(&store, &file(&one, "user:cv"), None).await?.part, text("b").part);
    assert_eq!(store.names(&key("three")).await?, ["user:cv"]);
    assert!(store.names(&bob).await?.is_empty());
    assert_eq!(store.artifact(&file(&bob, "user:cv"), None).await?, None);
    Ok(())
}

pub async fn artifact_names_are_sorted_and_scoped(store: SharedStore) -> Result<()> {
    let (one, two, nameless) = (key("one"), key("two"), key(""));
    for (session, name) in
        [(&one, "z"), (&one, "user:m"), (&one, "a"), (&one, "a"), (&two, "b"), (&nameless, "c")]
    {
        store.save(&file(session, name), text("x")).await?;
    }
    assert_eq!(store.names(&one).await?, ["a", "user:m", "z"]);
    assert_eq!(store.names(&two).await?, ["b", "user:m"]);
    assert_eq!(store.names(&nameless).await?, ["c", "user:m"]);
    Ok(())
}

pub async fn removing_an_artifact_removes_all_versions(store: SharedStore) -> Result<()> {
    let session = key("s");
    for name in ["gone", "gone", "stays"] {
        store.save(&file(&session, name), text("x")).await?;
    }
    assert!(store.remove(&file(&session, "gone")).await?);
    assert!(!store.remove(&file(&session, "gone")).await?);
    assert_eq!(store.names(&session).await?, ["stays"]);
    assert_eq!(store.save(&file(&session, "gone"), text("y")).await?, 0);
    Ok(())
}
