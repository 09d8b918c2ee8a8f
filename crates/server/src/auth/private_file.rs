//! Files that are their owner's alone. They are replaced as a whole: whoever reads one sees the old one or the new one.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, ErrorKind, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// Changes when the file does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileRevision {
    inode: u64,
    changed: (i64, i64),
    length: u64,
}

/// `None` if there is no such file.
pub(super) fn stamp(path: &Path) -> io::Result<Option<FileRevision>> {
    let found = fs::metadata(path).map(|file| FileRevision {
        inode: file.ino(),
        changed: (file.mtime(), file.mtime_nsec()),
        length: file.len(),
    });
    if_there(found)
}

/// What it holds, unless others may look into it or write it.
pub(super) fn read(path: &Path) -> io::Result<Option<String>> {
    let Some(file) = if_there(File::open(path))? else { return Ok(None) };
    if file.metadata()?.mode() & 0o077 != 0 {
        let fix = format!("others may read it; say: chmod 600 {}", path.display());
        return Err(io::Error::new(ErrorKind::PermissionDenied, fix));
    }
    io::read_to_string(file).map(Some)
}

pub(super) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let new = write_beside(path, text)?;
    fs::rename(&new, path).inspect_err(|_| drop(fs::remove_file(&new)))
}

/// Makes the file unless somebody else has made it.
pub(super) fn create(path: &Path, text: &str) -> io::Result<()> {
    let new = write_beside(path, text)?;
    let made = fs::hard_link(&new, path);
    fs::remove_file(&new)?;
    match made {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Does something to a file that no other process does at the same time.
pub(super) fn alone<T>(path: &Path, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    make_directory(path)?;
    let lock = OpenOptions::new().create(true).append(true).mode(0o600).open(beside(path, "lock"))?;
    lock.lock()?;
    work()
}

fn write_beside(path: &Path, text: &str) -> io::Result<PathBuf> {
    make_directory(path)?;
    let new = beside(path, &uuid::Uuid::new_v4().to_string());
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    Ok(new)
}

fn make_directory(path: &Path) -> io::Result<()> {
    let Some(directory) = path.parent() else { return Ok(()) };
    DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

fn beside(path: &Path, end: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{end}"))
}

fn if_there<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs::Permissions, os::unix::fs::PermissionsExt};

    #[test]
    fn a_new_file_is_its_owners_alone_and_so_is_one_that_was_replaced() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("below/secret");
        create(&path, "one").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().mode() & 0o777, 0o700);
        replace(&path, "two").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(read(&path).unwrap().as_deref(), Some("two"));
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing else is left behind");
    }

    #[test]
    fn the_first_to_make_a_file_decides_what_is_in_it() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("secret");
        create(&path, "first").unwrap();
        create(&path, "second").unwrap();
        assert_eq!(read(&path).unwrap().as_deref(), Some("first"));
    }

    #[test]
    fn a_file_that_others_may_read_is_refused_with_the_remedy() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("secret");
        create(&path, "canary").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let refused = read(&path).unwrap_err().to_string();
        assert!(refused.starts_with("others may read it; say: chmod 600 "), "{refused}");
    }

    #[test]
    fn what_is_not_there_is_nothing() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(read(&home.path().join("none")).unwrap(), None);
        assert_eq!(stamp(&home.path().join("none")).unwrap(), None);
    }
}
