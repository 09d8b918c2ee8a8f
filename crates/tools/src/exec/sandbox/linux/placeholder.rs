//! Mount points for protected paths that do not exist: created before a command, removed after it.
//!
//! A placeholder can be used by several commands. Each holds a shared lock on it, and the last one removes it. Removing a
//! mount point would end the protection in the other commands.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, Read, Write},
    os::{fd::OwnedFd, unix::fs::MetadataExt},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, FlockOperation, Mode, OFlags},
    io::Errno,
    mount::UnmountFlags,
};

use super::{
    super::survey::{PLACEHOLDER_MODE, PLACEHOLDER_TEXT, Protection, Survey},
    strict,
};

/// The placeholders of one command.
#[derive(Debug, Default)]
pub(super) struct Placeholders(Vec<Placeholder>);

#[derive(Debug)]
struct Placeholder {
    path: PathBuf,
    name: OsString,
    parent: OwnedFd,
    /// Holds the lock.
    file: File,
    is_dir: bool,
}

impl Placeholders {
    /// Creates the missing mount points. If one cannot be created, the command could not create it either, unless it first
    /// changes the permissions of the directory; so that is an error.
    pub(super) fn create(survey: &Survey) -> Result<Self, String> {
        let mut created = Self::default();
        for (path, protection) in survey.protected.iter().filter(|(_, protection)| protection.is_missing()) {
            match Placeholder::create(path, *protection == Protection::MissingDir) {
                Ok(placeholder) => created.0.push(placeholder),
                Err(error) => {
                    created.delete();
                    return Err(format!("{} could not be protected: {error}", path.display()));
                }
            }
        }
        Ok(created)
    }

    /// Removes what no other command uses. `host_root` is the root directory before the mounts were made.
    pub(super) fn remove(self, host_root: &File) {
        for placeholder in &self.0 {
            // The mount point is visible under the same path in this namespace, or the mounts were never made.
            let _ = rustix::mount::unmount(&placeholder.path, UnmountFlags::DETACH);
        }
        if rustix::process::fchdir(host_root).is_ok() {
            let _ = rustix::process::chroot(".");
        }
        self.delete();
    }

    fn delete(self) {
        for placeholder in self.0 {
            placeholder.delete();
        }
    }
}

impl Placeholder {
    fn create(path: &Path, is_dir: bool) -> io::Result<Self> {
        let (parent, name) = strict::open_parent(path)?;
        // Another command may remove it between the creation and the lock.
        for _ in 0..100 {
            if is_dir {
                create_dir(&parent, name)?;
            } else {
                create_file(&parent, name)?;
            }
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let file = File::from(rustix::fs::openat(&parent, name, flags, Mode::empty())?);
            rustix::fs::flock(&file, FlockOperation::LockShared)?;
            let now = rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW);
            if now.is_ok_and(|now| file.metadata().is_ok_and(|held| held.ino() == now.st_ino)) {
                return Ok(Self { path: path.to_owned(), name: name.to_owned(), parent, file, is_dir });
            }
        }
        Err(io::Error::other("it is created and removed by another program"))
    }

    fn delete(mut self) {
        let alone = rustix::fs::flock(&self.file, FlockOperation::NonBlockingLockExclusive).is_ok();
        if !alone || !self.is_untouched() {
            return;
        }
        let flags = if self.is_dir { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        let _ = rustix::fs::unlinkat(&self.parent, &self.name, flags);
    }

    /// Whether it is as it was created. A directory that is not empty cannot be removed.
    fn is_untouched(&mut self) -> bool {
        let Ok(metadata) = self.file.metadata() else { return false };
        if self.is_dir {
            return metadata.mode() & 0o7777 == PLACEHOLDER_MODE;
        }
        let mut text = String::new();
        metadata.len() == PLACEHOLDER_TEXT.len() as u64
            && (&mut self.file).take(PLACEHOLDER_TEXT.len() as u64).read_to_string(&mut text).is_ok()
            && text == PLACEHOLDER_TEXT
    }
}

fn create_dir(parent: &OwnedFd, name: &OsStr) -> io::Result<()> {
    match rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o755)) {
        Ok(()) => {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let dir = rustix::fs::openat(parent, name, flags, Mode::empty())?;
            Ok(rustix::fs::fchmod(dir, Mode::from_raw_mode(PLACEHOLDER_MODE))?)
        }
        Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

fn create_file(parent: &OwnedFd, name: &OsStr) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat(parent, name, flags, Mode::from_raw_mode(0o644)) {
        Ok(file) => File::from(file).write_all(PLACEHOLDER_TEXT.as_bytes()),
        Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A command that runs meanwhile replaces a directory by a link after the survey.
    #[test]
    fn placeholder_is_not_created_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(base.join("outside")).unwrap();
        std::fs::create_dir_all(base.join("root")).unwrap();
        std::os::unix::fs::symlink("../outside", base.join("root/sub")).unwrap();
        for missing in [Protection::MissingDir, Protection::MissingFile] {
            let mut survey = Survey::default();
            survey.protected.insert(base.join("root/sub/hooks"), missing);
            let error = Placeholders::create(&survey).unwrap_err();
            assert!(error.contains("could not be protected"), "{error}");
            assert!(!base.join("outside/hooks").exists());
        }
        let mut survey = Survey::default();
        survey.protected.insert(base.join("root/hooks"), Protection::MissingDir);
        let placeholders = Placeholders::create(&survey).unwrap();
        assert!(base.join("root/hooks").is_dir());
        placeholders.delete();
        assert!(!base.join("root/hooks").exists());
    }
}
