//! Opens paths without following symbolic links. A command that runs meanwhile can replace a directory of a root by a link; what
//! is opened here is never anything outside.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    path::Path,
};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};

/// Opens a path that has no links, as a reference to a file or directory.
pub(super) fn open(path: &Path) -> io::Result<OwnedFd> {
    open_at(CWD, path, ResolveFlags::NO_SYMLINKS)
}

/// Opens a directory that has no links in its path, for changes inside it, and returns the name of `path` in it.
pub(super) fn open_parent(path: &Path) -> io::Result<(OwnedFd, &std::ffi::OsStr)> {
    let (parent, name) = path.parent().zip(path.file_name()).ok_or(io::ErrorKind::InvalidInput)?;
    Ok((open(parent)?, name))
}

/// Opens a path relative to a directory. If the last component is a link, it is opened itself.
pub(super) fn open_at(base: impl AsFd, path: &Path, resolve: ResolveFlags) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // The kernel asks for another try if a directory was renamed meanwhile.
    loop {
        match rustix::fs::openat2(base.as_fd(), path, flags, Mode::empty(), resolve) {
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            done => return Ok(done?),
        }
    }
}
