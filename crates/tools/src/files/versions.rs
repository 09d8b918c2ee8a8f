//! The last known version of each file, so that an edit does not overwrite a change by another process or person.

use bounded_cache::{BoundedCache, Limits};
use file_stamp::FileStamp;
use lock::LockExt;
use std::{
    fs::Metadata,
    hash::{DefaultHasher, Hasher},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

/// The number of files whose version is known. A server reads files for all of its sessions.
const MAX_FILES: usize = 10_000;

/// The version of each file when these tools last read or wrote it, shared by the tools of one registry. Beyond the limit,
/// the version of the least recently used file is forgotten.
#[derive(Debug, Clone)]
pub struct FileVersions(Arc<Mutex<BoundedCache<PathBuf, FileVersion>>>);

impl Default for FileVersions {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(BoundedCache::new(Limits::entries(MAX_FILES)))))
    }
}

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

impl FileVersions {
    pub(super) fn record(&self, path: &Path, metadata: &Metadata, digest: Option<ContentDigest>) {
        let version = FileVersion { stamp: metadata.into(), digest };
        self.0.locked().insert(path.to_owned(), version, 1);
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_number_of_known_versions_is_bounded_and_the_newest_stay() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a");
        fs::write(&path, "one").unwrap();
        let metadata = fs::metadata(&path).unwrap();
        let versions = FileVersions::default();
        for number in 0..=MAX_FILES {
            versions.record(
                &home.path().join(number.to_string()),
                &metadata,
                Some(ContentDigest::compute(b"one")),
            );
        }
        assert_eq!(versions.0.locked().len(), MAX_FILES);
        let newest = home.path().join(MAX_FILES.to_string());
        assert!(versions.has_changed(&newest, &metadata, b"two"));
        assert!(!versions.has_changed(&home.path().join("0"), &metadata, b"two"), "the oldest is forgotten");
    }
}
