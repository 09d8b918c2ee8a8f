//! One directory that paths cannot leave: not by `..`, not by a link, not by a link swapped in while we look.
//!
//! A path is resolved first, and then opened step by step from the root without following links. What was resolved to a
//! place inside can therefore only be opened inside, whatever happens to the tree in between.

use std::{
    fmt,
    fs::{self, File, FileType, Metadata},
    io,
    os::unix::fs::FileTypeExt,
    path::{Component, Path, PathBuf},
};

use rustix::{
    fs::{CWD, Mode, OFlags},
    io::Errno,
};

use crate::ToolsError;

/// Why an absolute path is refused.
pub(super) const ELSEWHERE: &str = "is an absolute path to somewhere else";

/// A directory that file tools live in.
#[derive(Debug, Clone)]
pub struct Root {
    dir: PathBuf,
    write: bool,
    /// Models name what is in it by relative paths.
    is_first: bool,
}

/// Something that exists inside a root: its path from there, free of links.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(super) root: Root,
    pub(crate) relative: PathBuf,
    pub(crate) metadata: Metadata,
}

impl Place {
    /// As the model may write it.
    pub(crate) fn shown(&self) -> String {
        self.root.shown(&self.relative)
    }

    pub(crate) fn absolute(&self) -> PathBuf {
        self.root.dir.join(&self.relative)
    }

    /// Opens a regular file for reading.
    pub(super) fn open(&self) -> Result<File, ToolsError> {
        // Opening is not always harmless: a pipe would wait for its writer, a device may act.
        insist_on_file(self, &self.metadata)?;
        let fail = |source| cannot_read(&self.shown(), source);
        let file = self.root.open_beneath(&self.relative).map_err(fail)?;
        let opened = file.metadata().map_err(fail)?;
        insist_on_file(self, &opened)?;
        Ok(file)
    }
}

impl Root {
    pub fn new(dir: &Path) -> Result<Self, ToolsError> {
        let fail = |source| ToolsError::Root { path: dir.to_owned(), source };
        let dir = dir.canonicalize().map_err(fail)?;
        if !dir.is_dir() {
            return Err(fail(io::ErrorKind::NotADirectory.into()));
        }
        Ok(Self { dir, write: true, is_first: true })
    }

    /// The same, for looking alone.
    pub fn read_only(self) -> Self {
        Self { write: false, ..self }
    }

    /// The same, beside the one that relative paths are for.
    pub(super) fn beside(self) -> Self {
        Self { is_first: false, ..self }
    }

    pub fn path(&self) -> &Path {
        &self.dir
    }

    pub fn is_writable(&self) -> bool {
        self.write
    }

    /// A path inside, as the model may write it.
    pub(super) fn shown(&self, relative: &Path) -> String {
        match (self.is_first, relative.as_os_str().is_empty()) {
            (true, true) => ".".to_owned(),
            (true, false) => relative.display().to_string(),
            (false, true) => self.dir.display().to_string(),
            (false, false) => self.dir.join(relative).display().to_string(),
        }
    }

    /// Finds what a relative path names, if that is inside.
    pub(crate) fn resolve(&self, path: &str) -> Result<Place, ToolsError> {
        let outside = |why| ToolsError::outside(path, why);
        if path.contains('\0') {
            return Err(outside("has a NUL byte in it"));
        }
        for component in Path::new(path).components() {
            match component {
                Component::Normal(_) | Component::CurDir => {}
                Component::ParentDir => return Err(outside("goes up with `..`")),
                Component::RootDir | Component::Prefix(_) => return Err(outside(ELSEWHERE)),
            }
        }
        let full = self.dir.join(path);
        let found = full.canonicalize().map_err(|error| self.why_missing(path, &full, error))?;
        let relative =
            found.strip_prefix(&self.dir).map_err(|_| outside("leads outside by a link"))?.to_owned();
        let metadata = fs::symlink_metadata(&found).map_err(|source| cannot_read(path, source))?;
        Ok(Place { root: self.clone(), relative, metadata })
    }

    /// A path that leads outside is refused in the same words whether its end exists or not.
    fn why_missing(&self, path: &str, full: &Path, error: io::Error) -> ToolsError {
        let nearest = full.ancestors().skip(1).find_map(|ancestor| ancestor.canonicalize().ok());
        if nearest.is_none_or(|nearest| !nearest.starts_with(&self.dir)) {
            return ToolsError::outside(path, "leads outside by a link");
        }
        if error.kind() != io::ErrorKind::NotFound {
            return cannot_read(path, error);
        }
        if fs::symlink_metadata(full).is_ok_and(|metadata| metadata.is_symlink()) {
            return ToolsError::WrongKind {
                path: path.to_owned(),
                is: "a link to nothing inside",
                wanted: "a file",
            };
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
            at = rustix::fs::openat(&at, component.as_os_str(), flags, Mode::empty()).map_err(tell_swap)?;
        }
        Ok(File::from(at))
    }
}

impl fmt::Display for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.dir.display(), if self.write { "" } else { " (read only)" })
    }
}

fn insist_on_file(place: &Place, metadata: &Metadata) -> Result<(), ToolsError> {
    let kind = metadata.file_type();
    if kind.is_file() {
        return Ok(());
    }
    Err(ToolsError::WrongKind { path: place.shown(), is: name_of(kind), wanted: "a file" })
}

/// A link where there was none a moment ago.
pub(super) fn tell_swap(errno: Errno) -> io::Error {
    if matches!(errno, Errno::LOOP | Errno::NOTDIR) {
        io::Error::other("it was replaced while it was being opened")
    } else {
        errno.into()
    }
}

pub(super) fn cannot_read(path: &str, source: io::Error) -> ToolsError {
    ToolsError::Read { path: path.to_owned(), source }
}

fn name_of(kind: FileType) -> &'static str {
    match kind {
        kind if kind.is_file() => "a file",
        kind if kind.is_dir() => "a directory",
        kind if kind.is_symlink() => "a link",
        kind if kind.is_fifo() => "a pipe",
        kind if kind.is_socket() => "a socket",
        _ => "a device",
    }
}
