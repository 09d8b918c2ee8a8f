//! A file that is going to be written: found inside the root, and replaced in one step.
//!
//! The new content goes into a file beside the old one, which it then replaces by a rename: whoever reads sees the old
//! content or the new one. The directory is opened step by step without following links, and held open meanwhile.

use std::{
    ffi::{OsStr, OsString},
    fs::{File, Metadata},
    io::{self, Read, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::{MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, Mode, OFlags, RenameFlags},
    io::Errno,
};

use super::{
    root::{Root, cannot_read, tell_swap},
    roots::Roots,
};
use crate::ToolsError;

/// Larger files are not text that somebody wrote.
const MAX_FILE: u64 = 8 * 1024 * 1024;

/// Where a content goes, and what is there now.
pub(super) struct Target {
    root: Root,
    parent: PathBuf,
    name: OsString,
    pub(super) before: Option<Before>,
}

pub(super) struct Before {
    pub(super) content: Vec<u8>,
    pub(super) metadata: Metadata,
}

impl Target {
    /// Finds the file, or the place where it would be, if it may be written there.
    pub(super) fn find(roots: &Roots, path: &str) -> Result<Self, ToolsError> {
        let (root, relative) = roots.split(path)?;
        let found = Self::find_in(root, &relative).map_err(|error| roots.named(error, path))?;
        if root.is_writable() { Ok(found) } else { Err(ToolsError::ReadOnly { path: found.shown() }) }
    }

    fn find_in(root: &Root, path: &str) -> Result<Self, ToolsError> {
        let (relative, before) = match root.resolve(path) {
            Ok(place) => {
                let before = read(place.open()?, path)?;
                (place.relative, Some(before))
            }
            Err(ToolsError::NotFound { .. }) => (place_for(root, path)?, None),
            Err(error) => return Err(error),
        };
        let name = relative.file_name().unwrap_or_default().to_owned();
        let parent = relative.parent().unwrap_or(Path::new("")).to_owned();
        Ok(Self { root: root.clone(), parent, name, before })
    }

    pub(super) fn root(&self) -> &Root {
        &self.root
    }

    pub(super) fn absolute(&self) -> PathBuf {
        self.root.path().join(self.relative())
    }

    pub(super) fn relative(&self) -> PathBuf {
        self.parent.join(&self.name)
    }

    pub(super) fn shown(&self) -> String {
        self.root.shown(&self.relative())
    }

    /// Replaces the content. A file that is no longer the one that was found is left as it is.
    pub(super) fn write(&self, content: &[u8]) -> Result<Metadata, ToolsError> {
        let fail = |source| ToolsError::Write { path: self.shown(), source };
        let dir = self.root.directory(&self.parent, Missing::Made).map_err(fail)?;
        let temporary = OsString::from(format!(".{}.tmp", uuid::Uuid::new_v4().simple()));
        let put = self.fill(&dir, &temporary, content).map_err(fail).and_then(|metadata| {
            self.swap_in(&dir, &temporary)?;
            Ok(metadata)
        });
        if put.is_err() {
            // Best effort: the failure that led here is the one to tell.
            let _ = rustix::fs::unlinkat(&dir, &temporary, AtFlags::empty());
        }
        put
    }

    /// Takes the file away, if it is still the one that was found.
    pub(super) fn remove(&self) -> Result<(), ToolsError> {
        let fail = |source| ToolsError::Write { path: self.shown(), source };
        let dir = self.root.directory(&self.parent, Missing::Refused).map_err(fail)?;
        self.insist_on_unchanged(&dir)?;
        rustix::fs::unlinkat(&dir, &self.name, AtFlags::empty()).map_err(|errno| fail(errno.into()))
    }

    fn fill(&self, dir: &OwnedFd, temporary: &OsStr, content: &[u8]) -> io::Result<Metadata> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(rustix::fs::openat(dir, temporary, flags, Mode::from_raw_mode(0o666))?);
        if let Some(before) = &self.before {
            file.set_permissions(PermissionsExt::from_mode(before.metadata.mode() & 0o777))?;
        }
        file.write_all(content)?;
        file.sync_all()?;
        file.metadata()
    }

    fn swap_in(&self, dir: &OwnedFd, temporary: &OsStr) -> Result<(), ToolsError> {
        self.insist_on_unchanged(dir)?;
        let flags = if self.before.is_some() { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
        let renamed = match rustix::fs::renameat_with(dir, temporary, dir, &self.name, flags) {
            // Not every file system knows the flag.
            Err(Errno::INVAL | Errno::NOSYS) => rustix::fs::renameat(dir, temporary, dir, &self.name),
            other => other,
        };
        match renamed {
            Ok(()) => {
                // The rename is durable once its directory is; some file systems cannot say.
                let _ = rustix::fs::fsync(dir);
                Ok(())
            }
            Err(Errno::EXIST) => Err(ToolsError::Changed { path: self.shown() }),
            Err(errno) => Err(ToolsError::Write { path: self.shown(), source: errno.into() }),
        }
    }

    fn insist_on_unchanged(&self, dir: &OwnedFd) -> Result<(), ToolsError> {
        let now = rustix::fs::statat(dir, &self.name, AtFlags::SYMLINK_NOFOLLOW);
        let same = match (&self.before, now) {
            (None, Err(Errno::NOENT)) => true,
            (Some(before), Ok(now)) => {
                let then = &before.metadata;
                let inode = now.st_ino == then.ino();
                let size = u64::try_from(now.st_size).ok() == Some(then.size());
                let time = i64::try_from(now.st_mtime_nsec).ok() == Some(then.mtime_nsec());
                inode && size && time && now.st_mtime == then.mtime()
            }
            (None, _) | (Some(_), Err(_)) => false,
        };
        if same { Ok(()) } else { Err(ToolsError::Changed { path: self.shown() }) }
    }
}

fn read(file: File, path: &str) -> Result<Before, ToolsError> {
    let fail = |source| cannot_read(path, source);
    let metadata = file.metadata().map_err(fail)?;
    let mut content = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut content).map_err(fail)?;
    if content.len() as u64 > MAX_FILE {
        let reason = format!("`{path}` has more than {} MiB and is not changed here", MAX_FILE >> 20);
        return Err(ToolsError::Failed(reason));
    }
    Ok(Before { content, metadata })
}

/// Where a file that is not there would be: below the nearest directory that is.
fn place_for(root: &Root, path: &str) -> Result<PathBuf, ToolsError> {
    if path.ends_with('/') {
        return Err(ToolsError::WrongKind { path: path.to_owned(), is: "a directory", wanted: "a file" });
    }
    for above in Path::new(path).ancestors().skip(1) {
        let Some(text) = above.to_str() else { break };
        match root.resolve(text) {
            Ok(place) if place.metadata.is_dir() => {
                let rest = Path::new(path).strip_prefix(above).unwrap_or(Path::new(path));
                return Ok(place.relative.join(rest));
            }
            Ok(place) => {
                let is = "a file";
                return Err(ToolsError::WrongKind { path: place.shown(), is, wanted: "a directory" });
            }
            Err(ToolsError::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Err(ToolsError::NotFound { path: path.to_owned() })
}

/// What becomes of a directory that is not there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Made,
    Refused,
}

impl Root {
    /// Opens a directory inside, one step at a time and without following links.
    fn directory(&self, relative: &Path, missing: Missing) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::DIRECTORY;
        let mut at = rustix::fs::openat(rustix::fs::CWD, self.path(), flags, Mode::empty())?;
        for component in relative.components() {
            let step = |at: &OwnedFd| rustix::fs::openat(at, component.as_os_str(), flags, Mode::empty());
            let opened = match step(&at) {
                Err(Errno::NOENT) if missing == Missing::Made => {
                    make(at.as_fd(), component.as_os_str())?;
                    step(&at)
                }
                other => other,
            };
            at = opened.map_err(tell_swap)?;
        }
        Ok(at)
    }
}

/// Two calls may make the same directory at once.
fn make(at: std::os::fd::BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    match rustix::fs::mkdirat(at, name, Mode::from_raw_mode(0o777)) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
