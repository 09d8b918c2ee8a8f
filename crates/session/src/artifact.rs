//! Artifacts: versioned files of a session, or of a user if the name has the prefix `user:`.

use crate::{Pending, SessionKey};

/// The key of an artifact. A name with the prefix `user:` is shared by all sessions of the user.
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
    /// An ADK part as JSON text: inline data, text or a reference.
    pub part: String,
    pub mime_type: Option<String>,
    /// A JSON object as text.
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

/// The session need not exist. Deleting it deletes its artifacts, but not those of the user.
pub trait ArtifactStore: Send + Sync {
    /// Stores a new version and returns its number, counted from 0.
    fn save(&self, key: &ArtifactKey, artifact: NewArtifact) -> Pending<'_, u64>;

    /// One version, or the newest.
    fn artifact(&self, key: &ArtifactKey, version: Option<u64>) -> Pending<'_, Option<Artifact>>;

    /// One version, or the newest, with an empty part: the content is not loaded.
    fn metadata(&self, key: &ArtifactKey, version: Option<u64>) -> Pending<'_, Option<Artifact>>;

    /// The names of the session's and the user's artifacts, sorted.
    fn names(&self, session: &SessionKey) -> Pending<'_, Vec<String>>;

    /// The version numbers of an artifact, oldest first.
    fn versions(&self, key: &ArtifactKey) -> Pending<'_, Vec<u64>>;

    /// Deletes all versions. Returns `false` if there were none.
    fn remove(&self, key: &ArtifactKey) -> Pending<'_, bool>;
}
