//! [`FileStamp`]: inode, size and modification time of a file, to detect that it was changed or replaced.

use std::{
    fs::{self, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::Path,
};

/// Differs between two versions of a file, unless the same inode was changed without a change of size and modification time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl FileStamp {
    /// Reads the stamp of the file that a path leads to; follows links.
    pub fn read(path: &Path) -> io::Result<Self> {
        fs::metadata(path).map(|metadata| Self::from(&metadata))
    }
}

impl From<&Metadata> for FileStamp {
    fn from(metadata: &Metadata) -> Self {
        let modified = (metadata.mtime(), metadata.mtime_nsec());
        Self { inode: metadata.ino(), size: metadata.size(), modified }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    #[test]
    fn size_modification_time_and_inode_change_the_stamp() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a");
        fs::write(&path, "one").unwrap();
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        let restore = || fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
        let first = FileStamp::read(&path).unwrap();
        assert_eq!(FileStamp::read(&path).unwrap(), first);
        fs::write(&path, "longer").unwrap();
        restore();
        assert_ne!(FileStamp::read(&path).unwrap(), first, "another size");
        fs::write(&path, "two").unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        assert_ne!(FileStamp::read(&path).unwrap(), first, "another modification time");
        fs::write(home.path().join("b"), "two").unwrap();
        fs::rename(home.path().join("b"), &path).unwrap();
        restore();
        assert_ne!(FileStamp::read(&path).unwrap(), first, "another inode");
    }
}
