//! The last known version of each file, so that an edit does not overwrite a change by another process or person.

use lock::LockExt;
use std::{
    collections::HashMap,
    fs::Metadata,
    hash::{DefaultHasher, Hasher},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

/// The version of each file when these tools last read or wrote it, shared by the tools of one registry.
#[derive(Debug, Clone, Default)]
pub struct FileVersions(Arc<Mutex<HashMap<PathBuf, FileVersion>>>);

/// A hash of a file's content. It is valid only in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ContentDigest(u64);

impl ContentDigest {
    pub(super) fn compute(content: &[u8]) -> Self {
        let mut hasher = DefaultHasher::new();
        hasher.write(content);
        Self(hasher.finish())
    }
}

#[derive(Debug, Clone, Copy)]
struct FileVersion {
    stamp: FileStamp,
    /// Known if the whole file was read. It takes precedence over the stamp: two changes may have the same modification
    /// time, and a file that was only touched is unchanged.
    digest: Option<ContentDigest>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileStamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl From<&Metadata> for FileStamp {
    fn from(metadata: &Metadata) -> Self {
        let modified = (metadata.mtime(), metadata.mtime_nsec());
        Self { inode: metadata.ino(), size: metadata.size(), modified }
    }
}

impl FileVersions {
    pub(super) fn record(&self, path: &Path, metadata: &Metadata, digest: Option<ContentDigest>) {
        let version = FileVersion { stamp: metadata.into(), digest };
        self.0.locked().insert(path.to_owned(), version);
    }

    /// Whether the file differs from its recorded version. A file without a recorded version counts as unchanged.
    pub(super) fn has_changed(&self, path: &Path, metadata: &Metadata, content: &[u8]) -> bool {
        let known = self.0.locked().get(path).copied();
        known.is_some_and(|known| match known.digest {
            Some(digest) => digest != ContentDigest::compute(content),
            None => known.stamp != FileStamp::from(metadata),
        })
    }
}
