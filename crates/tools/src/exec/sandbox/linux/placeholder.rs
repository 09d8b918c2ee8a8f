//! Mount points for protected paths that do not exist: created before a command, removed after it.
//!
//! A placeholder can be used by several commands. Each holds a shared lock on it, and the last one removes it. Removing a
//! mount point would end the protection in the other commands.

use std::{
    ffi::OsString,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, FlockOperation},
    mount::UnmountFlags,
};

use super::super::survey::{PLACEHOLDER_MODE, PLACEHOLDER_TEXT, Protection, Survey};

/// The placeholders of one command.
#[derive(Debug, Default)]
pub(super) struct Placeholders(Vec<Placeholder>);

#[derive(Debug)]
struct Placeholder {
    path: PathBuf,
    name: OsString,
    parent: File,
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
        let (parent, name) = path.parent().zip(path.file_name()).ok_or(io::ErrorKind::InvalidInput)?;
        let parent = File::open(parent)?;
        // Another command may remove it between the creation and the lock.
        for _ in 0..100 {
            if is_dir {
                create_dir(path)?;
            } else {
                create_file(path)?;
            }
            let file = File::open(path)?;
            rustix::fs::flock(&file, FlockOperation::LockShared)?;
            if fs::symlink_metadata(path)
                .is_ok_and(|now| file.metadata().is_ok_and(|held| held.ino() == now.ino()))
            {
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

fn create_dir(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o755).create(path) {
        Ok(()) => fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(PLACEHOLDER_MODE)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

fn create_file(path: &Path) -> io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(0o644).open(path) {
        Ok(mut file) => file.write_all(PLACEHOLDER_TEXT.as_bytes()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}
