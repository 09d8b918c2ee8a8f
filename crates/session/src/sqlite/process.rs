//! Process locks: each process that owns runs holds an advisory lock on its own file beside the database. The kernel
//! releases the lock when the process ends, also after SIGKILL. Containers that share the file share its locks.
//!
//! **Invariant.** The lock is acquired before the process's name is stored, and held until the process ends or closes the
//! store. A missing or unlocked file means that the process has ended.

use crate::{Error, Liveness, Result};
use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// The directory of lock files that belongs to a database.
#[derive(Debug)]
pub(super) struct LockDirectory {
    path: PathBuf,
}

/// The lock of this process. Dropping it ends the process's ownership.
#[derive(Debug)]
pub(super) struct ProcessLock {
    name: String,
    path: PathBuf,
    _file: File,
}

impl LockDirectory {
    pub(super) fn beside(database: &Path) -> Self {
        let mut path = database.as_os_str().to_owned();
        path.push("-owners");
        Self { path: path.into() }
    }

    /// Creates and locks a file for this process.
    pub(super) fn acquire(&self) -> Result<ProcessLock> {
        self.try_acquire().map_err(|error| {
            let (path, source) = (self.path.clone(), Box::from(error.to_string()));
            match error.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::DiskFull { path, source },
                io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
                    Error::ReadOnly { path, source }
                }
                _ => Error::Open { path, source },
            }
        })
    }

    fn try_acquire(&self) -> io::Result<ProcessLock> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.path)?;
        loop {
            let name = format!("{}-{}", std::process::id(), uuid::Uuid::new_v4().simple());
            let path = self.path.join(&name);
            let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
            file.lock()?;
            // Another process may have removed the file as a leftover before it was locked.
            if file.metadata()?.nlink() > 0 {
                // No fsync: after a power cut a missing file means the same as an unlocked one.
                return Ok(ProcessLock { name, path, _file: file });
            }
        }
    }

    /// Whether the process with this name is alive.
    pub(super) fn liveness(&self, process: &str) -> Liveness {
        if process.contains('/') {
            return Liveness::Dead;
        }
        let locked = File::open(self.path.join(process)).map(|file| file.try_lock_shared());
        match locked {
            Ok(Ok(())) => Liveness::Dead,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Liveness::Dead,
            // Any other error, such as a lack of file descriptors, is no proof of death.
            Ok(Err(TryLockError::WouldBlock | TryLockError::Error(_))) | Err(_) => Liveness::Alive,
        }
    }

    /// The names of ended processes whose file still exists.
    pub(super) fn leftovers(&self) -> Vec<String> {
        self.names(Liveness::Dead)
    }

    /// The names of living processes.
    pub(super) fn living(&self) -> Vec<String> {
        self.names(Liveness::Alive)
    }

    fn names(&self, liveness: Liveness) -> Vec<String> {
        let Ok(entries) = fs::read_dir(&self.path) else { return Vec::new() };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names.filter(|name| self.liveness(name) == liveness).collect()
    }

    /// Removes the file of an ended process. The lock is held during the removal, so a process that has created the file but not
    /// locked it yet detects the removal.
    pub(super) fn remove(&self, process: &str) {
        let path = self.path.join(process);
        let Ok(file) = File::open(&path) else { return };
        if file.try_lock().is_ok() {
            let _ = fs::remove_file(&path);
        }
    }
}

impl ProcessLock {
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for ProcessLock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_alive_while_its_lock_is_held() {
        let dir = tempfile::tempdir().unwrap();
        let locks = LockDirectory::beside(&dir.path().join("lango.db"));
        let lock = locks.acquire().unwrap();
        let name = lock.name().to_owned();
        assert_eq!(locks.liveness(&name), Liveness::Alive);
        assert!(locks.leftovers().is_empty());
        drop(lock);
        assert_eq!(locks.liveness(&name), Liveness::Dead);
    }

    #[test]
    fn an_unlocked_file_is_a_leftover() {
        let dir = tempfile::tempdir().unwrap();
        let locks = LockDirectory::beside(&dir.path().join("lango.db"));
        let held = locks.acquire().unwrap();
        fs::write(locks.path.join("1-dead"), "").unwrap();
        assert_eq!(locks.leftovers(), ["1-dead"]);
        locks.remove("1-dead");
        assert!(locks.leftovers().is_empty());
        assert_eq!(locks.liveness(held.name()), Liveness::Alive);
    }

    #[test]
    fn a_locked_file_is_not_removed() {
        let dir = tempfile::tempdir().unwrap();
        let locks = LockDirectory::beside(&dir.path().join("lango.db"));
        let held = locks.acquire().unwrap();
        // As by another process that saw the file before it was locked.
        locks.remove(held.name());
        assert!(locks.path.join(held.name()).exists());
        assert_eq!(locks.liveness(held.name()), Liveness::Alive);
    }

    #[test]
    fn a_process_whose_file_cannot_be_opened_counts_as_alive() {
        let dir = tempfile::tempdir().unwrap();
        let locks = LockDirectory::beside(&dir.path().join("lango.db"));
        fs::create_dir(&locks.path).unwrap();
        // A symbolic link to itself fails to open with an error other than "not found".
        std::os::unix::fs::symlink("loop", locks.path.join("loop")).unwrap();
        assert_eq!(locks.liveness("loop"), Liveness::Alive);
        assert!(locks.leftovers().is_empty());
    }

    #[test]
    fn names_in_the_format_of_earlier_versions_are_dead() {
        let dir = tempfile::tempdir().unwrap();
        let locks = LockDirectory::beside(&dir.path().join("lango.db"));
        assert_eq!(locks.liveness("machine/boot/1/2"), Liveness::Dead);
        assert_eq!(locks.liveness("../lango.db"), Liveness::Dead);
        assert_eq!(locks.liveness("1-never"), Liveness::Dead);
    }
}
