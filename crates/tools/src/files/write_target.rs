//! Atomic replacement of a file inside a root.
//!
//! The new content is written to a temporary file in the same directory and renamed over the old file: a reader sees either
//! the old content or the new one. The directory is opened component by component with `O_NOFOLLOW` and stays open until
//! the rename.

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
    root::{FileRoot, read_error, swap_error},
    roots::FileRoots,
};
use crate::ToolsError;

/// Larger files are not edited.
const MAX_FILE: u64 = 8 * 1024 * 1024;

/// A file to be written, with its present content.
pub(super) struct WriteTarget {
    root: FileRoot,
    parent: PathBuf,
    name: OsString,
    pub(super) before: Option<PreviousContent>,
}

/// The content of an existing file.
pub(super) struct PreviousContent {
    pub(super) content: Vec<u8>,
    pub(super) metadata: Metadata,
}

impl WriteTarget {
    /// Resolves the path of an existing or new file in a writable root.
    pub(super) fn find(roots: &FileRoots, path: &str) -> Result<Self, ToolsError> {
        let (root, relative) = roots.split(path)?;
        let found = Self::find_in(root, &relative).map_err(|error| roots.with_path(error, path))?;
        if root.is_writable() { Ok(found) } else { Err(ToolsError::ReadOnly { path: found.display_path() }) }
    }

    fn find_in(root: &FileRoot, path: &str) -> Result<Self, ToolsError> {
        let (relative, before) = match root.resolve(path) {
            Ok(found) => {
                let before = read(found.open()?, path)?;
                (found.relative, Some(before))
            }
            Err(ToolsError::NotFound { .. }) => (resolve_new(root, path)?, None),
            Err(error) => return Err(error),
        };
        let name = relative.file_name().unwrap_or_default().to_owned();
        let parent = relative.parent().unwrap_or(Path::new("")).to_owned();
        Ok(Self { root: root.clone(), parent, name, before })
    }

    pub(super) fn root(&self) -> &FileRoot {
        &self.root
    }

    pub(super) fn absolute(&self) -> PathBuf {
        self.root.path().join(self.relative())
    }

    pub(super) fn relative(&self) -> PathBuf {
        self.parent.join(&self.name)
    }

    pub(super) fn display_path(&self) -> String {
        self.root.display_path(&self.relative())
    }

    /// Replaces the content. Fails if the file has changed since it was resolved.
    pub(super) fn write(&self, content: &[u8]) -> Result<Metadata, ToolsError> {
        let fail = |source| ToolsError::Write { path: self.display_path(), source };
        let dir = self.root.open_dir(&self.parent, MissingDir::Create).map_err(fail)?;
        let temporary = OsString::from(format!(".{}.tmp", uuid::Uuid::new_v4().simple()));
        let written = self.write_temporary(&dir, &temporary, content).map_err(fail).and_then(|metadata| {
            self.rename_over(&dir, &temporary)?;
            Ok(metadata)
        });
        if written.is_err() {
            // Best effort: the caller gets the error that led here.
            let _ = rustix::fs::unlinkat(&dir, &temporary, AtFlags::empty());
        }
        written
    }

    /// Deletes the file. Fails if it has changed since it was resolved.
    pub(super) fn remove(&self) -> Result<(), ToolsError> {
        let fail = |source| ToolsError::Write { path: self.display_path(), source };
        let dir = self.root.open_dir(&self.parent, MissingDir::Refuse).map_err(fail)?;
        self.require_unchanged(&dir)?;
        rustix::fs::unlinkat(&dir, &self.name, AtFlags::empty()).map_err(|errno| fail(errno.into()))
    }

    fn write_temporary(&self, dir: &OwnedFd, temporary: &OsStr, content: &[u8]) -> io::Result<Metadata> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(rustix::fs::openat(dir, temporary, flags, Mode::from_raw_mode(0o666))?);
        if let Some(before) = &self.before {
            file.set_permissions(PermissionsExt::from_mode(before.metadata.mode() & 0o777))?;
        }
        file.write_all(content)?;
        file.sync_all()?;
        file.metadata()
    }

    fn rename_over(&self, dir: &OwnedFd, temporary: &OsStr) -> Result<(), ToolsError> {
        self.require_unchanged(dir)?;
        let flags = if self.before.is_some() { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
        let renamed = match rustix::fs::renameat_with(dir, temporary, dir, &self.name, flags) {
            // Some file systems do not support RENAME_NOREPLACE.
            Err(Errno::INVAL | Errno::NOSYS) => rustix::fs::renameat(dir, temporary, dir, &self.name),
            other => other,
        };
        match renamed {
            Ok(()) => {
                // The rename is durable after fsync of the directory, which some file systems do not support.
                let _ = rustix::fs::fsync(dir);
                Ok(())
            }
            Err(Errno::EXIST) => Err(ToolsError::Changed { path: self.display_path() }),
            Err(errno) => Err(ToolsError::Write { path: self.display_path(), source: errno.into() }),
        }
    }

    fn require_unchanged(&self, dir: &OwnedFd) -> Result<(), ToolsError> {
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
        if same { Ok(()) } else { Err(ToolsError::Changed { path: self.display_path() }) }
    }
}

fn read(file: File, path: &str) -> Result<PreviousContent, ToolsError> {
    let fail = |source| read_error(path, source);
    let metadata = file.metadata().map_err(fail)?;
    let mut content = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut content).map_err(fail)?;
    if content.len() as u64 > MAX_FILE {
        let reason = format!("`{path}` is larger than {} MiB, which is the limit for edits", MAX_FILE >> 20);
        return Err(ToolsError::Failed(reason));
    }
    Ok(PreviousContent { content, metadata })
}

/// The path of a new file, below its nearest existing ancestor with links resolved.
fn resolve_new(root: &FileRoot, path: &str) -> Result<PathBuf, ToolsError> {
    if path.ends_with('/') {
        return Err(ToolsError::WrongKind { path: path.to_owned(), is: "a directory", wanted: "a file" });
    }
    for above in Path::new(path).ancestors().skip(1) {
        let Some(text) = above.to_str() else { break };
        match root.resolve(text) {
            Ok(found) if found.metadata.is_dir() => {
                let rest = Path::new(path).strip_prefix(above).unwrap_or(Path::new(path));
                return Ok(found.relative.join(rest));
            }
            Ok(found) => {
                let is = "a file";
                return Err(ToolsError::WrongKind { path: found.display_path(), is, wanted: "a directory" });
            }
            Err(ToolsError::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Err(ToolsError::NotFound { path: path.to_owned() })
}

/// Handling of a missing directory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MissingDir {
    Create,
    Refuse,
}

impl FileRoot {
    /// Opens a directory inside the root, component by component without following links.
    fn open_dir(&self, relative: &Path, missing: MissingDir) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::DIRECTORY;
        let mut at = rustix::fs::openat(rustix::fs::CWD, self.path(), flags, Mode::empty())?;
        for component in relative.components() {
            let step = |at: &OwnedFd| rustix::fs::openat(at, component.as_os_str(), flags, Mode::empty());
            let opened = match step(&at) {
                Err(Errno::NOENT) if missing == MissingDir::Create => {
                    create_dir(at.as_fd(), component.as_os_str())?;
                    step(&at)
                }
                other => other,
            };
            at = opened.map_err(swap_error)?;
        }
        Ok(at)
    }
}

/// Creates a directory. A concurrent call may have created it already.
fn create_dir(at: std::os::fd::BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    match rustix::fs::mkdirat(at, name, Mode::from_raw_mode(0o777)) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
