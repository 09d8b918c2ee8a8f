//! Files with mode 0600 that are replaced atomically: a reader sees the old or the new content.

use file_stamp::FileStamp;
use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, ErrorKind, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// `None` if the file does not exist.
pub(super) fn stamp(path: &Path) -> io::Result<Option<FileStamp>> {
    if_exists(FileStamp::read(path))
}

/// Reads a file; refuses one that other users of the machine can access.
pub fn read(path: &Path) -> io::Result<Option<String>> {
    let Some(file) = if_exists(File::open(path))? else { return Ok(None) };
    if file.metadata()?.mode() & 0o077 != 0 {
        let fix = format!("other users can access it; run: chmod 600 {}", path.display());
        return Err(io::Error::new(ErrorKind::PermissionDenied, fix));
    }
    io::read_to_string(file).map(Some)
}

pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    let new = write_temporary(path, text)?;
    fs::rename(&new, path).inspect_err(|_| drop(fs::remove_file(&new)))
}

/// Creates a file. If it exists already, it is left unchanged.
pub(super) fn create(path: &Path, text: &str) -> io::Result<()> {
    let new = write_temporary(path, text)?;
    let created = fs::hard_link(&new, path);
    fs::remove_file(&new)?;
    match created {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Runs `work` under an advisory lock that excludes other processes.
pub fn with_lock<T>(path: &Path, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    create_parent(path)?;
    let lock = OpenOptions::new().create(true).append(true).mode(0o600).open(sibling(path, "lock"))?;
    lock.lock()?;
    work()
}

fn write_temporary(path: &Path, text: &str) -> io::Result<PathBuf> {
    create_parent(path)?;
    let new = sibling(path, &uuid::Uuid::new_v4().to_string());
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    Ok(new)
}

fn create_parent(path: &Path) -> io::Result<()> {
    let Some(directory) = path.parent() else { return Ok(()) };
    DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{suffix}"))
}

fn if_exists<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs::Permissions, os::unix::fs::PermissionsExt};

    #[test]
    fn created_and_replaced_files_are_accessible_to_their_owner_only() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("below/secret");
        create(&path, "one").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().mode() & 0o777, 0o700);
        replace(&path, "two").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(read(&path).unwrap().as_deref(), Some("two"));
        assert_eq!(
            fs::read_dir(path.parent().unwrap()).unwrap().count(),
            1,
            "no temporary file is left behind"
        );
    }

    #[test]
    fn create_keeps_the_content_of_an_existing_file() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("secret");
        create(&path, "first").unwrap();
        create(&path, "second").unwrap();
        assert_eq!(read(&path).unwrap().as_deref(), Some("first"));
    }

    #[test]
    fn a_file_that_others_can_read_is_refused_with_the_fix() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("secret");
        create(&path, "canary").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.starts_with("other users can access it; run: chmod 600 "), "{error}");
    }

    #[test]
    fn a_missing_file_is_none() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(read(&home.path().join("none")).unwrap(), None);
        assert_eq!(stamp(&home.path().join("none")).unwrap(), None);
    }
}
