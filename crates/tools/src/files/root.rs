//! A root directory that paths cannot escape: not by `..`, not through a link, and not by a race that swaps a link in.
//!
//! A path is resolved first and then opened component by component from the root with `O_NOFOLLOW`. A path that resolved to
//! the inside can therefore only be opened inside, whatever happens to the tree in between.

use std::{
    fmt,
    fs::{self, File, FileType, Metadata},
    io,
    os::unix::fs::FileTypeExt,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use rustix::{
    fs::{CWD, Mode, OFlags},
    io::Errno,
};

use crate::{ToolsError, exec::sandbox::deny::DenyList};

/// Reasons of [`ToolsError::Outside`].
pub(super) const ABSOLUTE_OUTSIDE: &str = "is an absolute path outside of the roots";
pub(super) const HAS_PARENT_DIR: &str = "contains `..`";
const LINK_OUTSIDE: &str = "leads outside through a link";
const HAS_NUL: &str = "contains a NUL byte";

/// A directory that file tools may access.
#[derive(Debug, Clone)]
pub struct FileRoot {
    dir: PathBuf,
    is_writable: bool,
    /// Whether relative paths refer to this root.
    is_working_dir: bool,
    /// Files that must not be read.
    deny: Arc<DenyList>,
}

/// An existing file or directory inside a root. The path has no links.
#[derive(Debug, Clone)]
pub(crate) struct ResolvedPath {
    pub(super) root: FileRoot,
    pub(crate) relative: PathBuf,
    pub(crate) metadata: Metadata,
}

impl ResolvedPath {
    /// The path in the form that the model uses.
    pub(crate) fn display_path(&self) -> String {
        self.root.display_path(&self.relative)
    }

    pub(crate) fn absolute(&self) -> PathBuf {
        self.root.dir.join(&self.relative)
    }

    /// Opens a regular file for reading.
    pub(super) fn open(&self) -> Result<File, ToolsError> {
        // Checked before opening, too: opening a FIFO blocks, and opening a device may have side effects.
        require_regular_file(self, &self.metadata)?;
        let fail = |source| read_error(&self.display_path(), source);
        let file = self.root.open_beneath(&self.relative).map_err(fail)?;
        let opened = file.metadata().map_err(fail)?;
        require_regular_file(self, &opened)?;
        Ok(file)
    }
}

impl FileRoot {
    pub fn new(dir: &Path) -> Result<Self, ToolsError> {
        let fail = |source| ToolsError::Root { path: dir.to_owned(), source };
        let dir = dir.canonicalize().map_err(fail)?;
        if !dir.is_dir() {
            return Err(fail(io::ErrorKind::NotADirectory.into()));
        }
        Ok(Self { dir, is_writable: true, is_working_dir: true, deny: Arc::default() })
    }

    /// The same root without write access.
    pub fn read_only(self) -> Self {
        Self { is_writable: false, ..self }
    }

    /// The same root without the files of a list.
    pub fn without(self, deny: Arc<DenyList>) -> Self {
        Self { deny, ..self }
    }

    /// Whether a path inside the root must not be read.
    pub(super) fn denies(&self, path: &Path) -> bool {
        self.deny.denies(path)
    }

    /// The same root, accessible only by absolute paths.
    pub(super) fn absolute_only(self) -> Self {
        Self { is_working_dir: false, ..self }
    }

    pub fn path(&self) -> &Path {
        &self.dir
    }

    pub fn is_writable(&self) -> bool {
        self.is_writable
    }

    /// A path inside the root in the form that the model uses.
    pub(super) fn display_path(&self, relative: &Path) -> String {
        match (self.is_working_dir, relative.as_os_str().is_empty()) {
            (true, true) => ".".to_owned(),
            (true, false) => relative.display().to_string(),
            (false, true) => self.dir.display().to_string(),
            (false, false) => self.dir.join(relative).display().to_string(),
        }
    }

    /// Resolves a relative path to an existing file or directory inside the root.
    pub(crate) fn resolve(&self, path: &str) -> Result<ResolvedPath, ToolsError> {
        let outside = |why| ToolsError::outside(path, why);
        if path.contains('\0') {
            return Err(outside(HAS_NUL));
        }
        for component in Path::new(path).components() {
            match component {
                Component::Normal(_) | Component::CurDir => {}
                Component::ParentDir => return Err(outside(HAS_PARENT_DIR)),
                Component::RootDir | Component::Prefix(_) => return Err(outside(ABSOLUTE_OUTSIDE)),
            }
        }
        let full = self.dir.join(path);
        let found = full.canonicalize().map_err(|error| self.resolve_error(path, &full, error))?;
        let relative = found.strip_prefix(&self.dir).map_err(|_| outside(LINK_OUTSIDE))?.to_owned();
        if self.denies(&found) || self.denies(&full) {
            return Err(ToolsError::Denied { path: path.to_owned() });
        }
        let metadata = fs::symlink_metadata(&found).map_err(|source| read_error(path, source))?;
        Ok(ResolvedPath { root: self.clone(), relative, metadata })
    }

    /// The error for a path that cannot be canonicalized. A path that leads outside gets the same error whether or not its
    /// target exists, so that the error reveals nothing.
    fn resolve_error(&self, path: &str, full: &Path, error: io::Error) -> ToolsError {
        let nearest = full.ancestors().skip(1).find_map(|ancestor| ancestor.canonicalize().ok());
        if nearest.is_none_or(|nearest| !nearest.starts_with(&self.dir)) {
            return ToolsError::outside(path, LINK_OUTSIDE);
        }
        if error.kind() != io::ErrorKind::NotFound {
            return read_error(path, error);
        }
        if fs::symlink_metadata(full).is_ok_and(|metadata| metadata.is_symlink()) {
            return ToolsError::WrongKind { path: path.to_owned(), is: "a dangling link", wanted: "a file" };
        }
        ToolsError::NotFound { path: path.to_owned() }
    }

    fn open_beneath(&self, relative: &Path) -> io::Result<File> {
        let step = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let directory = step | OFlags::DIRECTORY;
        let mut at = rustix::fs::openat(CWD, &self.dir, directory, Mode::empty())?;
        let mut components = relative.components().peekable();
        while let Some(component) = components.next() {
            let last = components.peek().is_none();
            let flags = if last { step | OFlags::NONBLOCK | OFlags::NOCTTY } else { directory };
            at = rustix::fs::openat(&at, component.as_os_str(), flags, Mode::empty()).map_err(swap_error)?;
        }
        Ok(File::from(at))
    }
}

impl fmt::Display for FileRoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.dir.display(), if self.is_writable { "" } else { " (read only)" })
    }
}

fn require_regular_file(file: &ResolvedPath, metadata: &Metadata) -> Result<(), ToolsError> {
    let kind = metadata.file_type();
    if kind.is_file() {
        return Ok(());
    }
    Err(ToolsError::WrongKind { path: file.display_path(), is: describe_file_type(kind), wanted: "a file" })
}

/// The error for a component that became a link after the path was resolved.
pub(super) fn swap_error(errno: Errno) -> io::Error {
    if matches!(errno, Errno::LOOP | Errno::NOTDIR) {
        io::Error::other("it was replaced while it was being opened")
    } else {
        errno.into()
    }
}

pub(super) fn read_error(path: &str, source: io::Error) -> ToolsError {
    ToolsError::Read { path: path.to_owned(), source }
}

fn describe_file_type(kind: FileType) -> &'static str {
    match kind {
        kind if kind.is_file() => "a file",
        kind if kind.is_dir() => "a directory",
        kind if kind.is_symlink() => "a link",
        kind if kind.is_fifo() => "a pipe",
        kind if kind.is_socket() => "a socket",
        _ => "a device",
    }
}
