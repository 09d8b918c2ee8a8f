//! What the file tools of one agent have seen, so that an edit is not made to a file that somebody else has changed.

use std::{
    collections::HashMap,
    fs::Metadata,
    hash::{DefaultHasher, Hasher},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

/// The state in which each file was last read or written, shared by the tools of one registry.
#[derive(Debug, Clone, Default)]
pub struct Seen(Arc<Mutex<HashMap<PathBuf, Version>>>);

/// A content, known by its hash. It never leaves the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Digest(u64);

impl Digest {
    pub(super) fn of(content: &[u8]) -> Self {
        let mut hasher = DefaultHasher::new();
        hasher.write(content);
        Self(hasher.finish())
    }
}

#[derive(Debug, Clone, Copy)]
struct Version {
    stamp: Stamp,
    /// Of a file that was seen whole. It decides: two changes may fall into one tick of the clock, and a file that was
    /// only touched is the same.
    digest: Option<Digest>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl From<&Metadata> for Stamp {
    fn from(metadata: &Metadata) -> Self {
        let modified = (metadata.mtime(), metadata.mtime_nsec());
        Self { inode: metadata.ino(), size: metadata.size(), modified }
    }
}

impl Seen {
    pub(super) fn note(&self, path: &Path, metadata: &Metadata, digest: Option<Digest>) {
        let version = Version { stamp: metadata.into(), digest };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), version);
    }

    /// Whether the file is another than the one that was seen. What was never seen has not changed.
    pub(super) fn has_changed(&self, path: &Path, metadata: &Metadata, content: &[u8]) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(path).copied();
        known.is_some_and(|known| match known.digest {
            Some(digest) => digest != Digest::of(content),
            None => known.stamp != Stamp::from(metadata),
        })
    }
}
