//! Files that belong to a session, or with the prefix `user:` to a user; each save is a new version.

use crate::{Pending, SessionKey};

/// Which file. A name that starts with `user:` is the same file in all sessions of the user.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ArtifactKey {
    pub session: SessionKey,
    pub name: String,
}

impl ArtifactKey {
    pub fn is_shared(&self) -> bool {
        self.name.starts_with("user:")
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct NewArtifact {
    /// The part as ADK's JSON text: inline data, text or a reference.
    pub part: String,
    pub mime_type: Option<String>,
    /// JSON text of an object.
    pub custom_metadata: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Artifact {
    pub version: u64,
    pub part: String,
    pub mime_type: Option<String>,
    pub custom_metadata: String,
    pub created_at: f64,
}

/// The session need not exist. Deleting it removes its files; those of the user stay.
pub trait ArtifactStore: Send + Sync {
    /// Stores a new version, counted from 0, and answers with its number.
    fn save(&self, key: &ArtifactKey, artifact: NewArtifact) -> Pending<'_, u64>;

    /// One version, or the newest.
    fn artifact(&self, key: &ArtifactKey, version: Option<u64>) -> Pending<'_, Option<Artifact>>;

    /// The names of the session's and of the user's files, sorted.
    fn names(&self, session: &SessionKey) -> Pending<'_, Vec<String>>;

    /// The version numbers of a file, oldest first.
    fn versions(&self, key: &ArtifactKey) -> Pending<'_, Vec<u64>>;

    /// Removes all versions. `false` if there were none.
    fn remove(&self, key: &ArtifactKey) -> Pending<'_, bool>;
}
