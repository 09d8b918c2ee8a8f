//! Mounts that the kernel removed while a command runs, made again.
//!
//! When another program replaces a file that is a mount point here (as `git config` and most editors do when they save), the
//! kernel removes the mount, and the new file would be unprotected until the end of the command.

use std::{
    collections::HashSet,
    fs::File,
    io::{self, Read, Seek},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
};

use rustix::{event::Timespec, fs::FileType, io::Errno};

use super::{
    super::plan::{MountKind, MountPlan},
    mounts::{self, DENIED},
    strict,
};

/// The table changes before the new file has its name, so that the first attempts follow at once.
const QUICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000 };
const QUICK_ATTEMPTS: u32 = 100;
/// How often a path is checked that was deleted, and may be created again.
const SLOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// The mounts inside the roots, and the kernel's table of mounts, which is ready when it changed.
#[derive(Debug)]
pub(super) struct MountRenewal {
    table: File,
    mounts: Vec<(PathBuf, MountKind)>,
    /// How often a path did not exist, since all existed.
    attempts: u32,
}

impl MountRenewal {
    /// This process must have the mounts of the plan, and still see the host's `/proc`.
    pub(super) fn new(plan: &MountPlan) -> io::Result<Self> {
        let is_inside = |path: &Path| path.parent().is_some_and(|parent| plan.is_changeable(parent));
        let mounts = plan.mounts.iter().filter(|(path, _)| is_inside(path)).cloned().collect();
        Ok(Self { table: File::open("/proc/self/mountinfo")?, mounts, attempts: 0 })
    }

    pub(super) fn changes(&self) -> BorrowedFd<'_> {
        self.table.as_fd()
    }

    /// How long to wait for changes.
    pub(super) fn timeout(&self) -> Option<Timespec> {
        match self.attempts {
            0 => None,
            1..=QUICK_ATTEMPTS => Some(QUICK),
            _ => Some(SLOW),
        }
    }

    /// Makes the mounts again that are missing. After an error, the command must not continue.
    pub(super) fn renew(&mut self) -> io::Result<()> {
        let mut text = String::new();
        self.table.rewind()?;
        self.table.read_to_string(&mut text)?;
        let present: HashSet<PathBuf> =
            text.lines().filter_map(|line| Some(mounts::parse_mount(line)?.0)).collect();
        let mut is_missing = false;
        for (path, kind) in self.mounts.iter().filter(|(path, _)| !present.contains(path)) {
            match make(path, *kind) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => is_missing = true,
                done => done?,
            }
        }
        self.attempts = if is_missing { self.attempts.saturating_add(1) } else { 0 };
        Ok(())
    }
}

fn make(path: &Path, kind: MountKind) -> io::Result<()> {
    let found = strict::open(path)?;
    let source = match kind {
        MountKind::Denied => mask(&found)?,
        MountKind::ReadOnly | MountKind::ReadWrite => found.try_clone()?,
        MountKind::Tmpfs(_) | MountKind::Device | MountKind::Pts => return Ok(()),
    };
    match mounts::attach(&source, &found) {
        // It was replaced again, which changes the table again.
        Err(Errno::NOENT | Errno::INVAL) => return Err(io::ErrorKind::NotFound.into()),
        done => done?,
    }
    if kind == MountKind::ReadOnly { mounts::make_read_only(path) } else { Ok(()) }
}

fn mask(found: &OwnedFd) -> io::Result<OwnedFd> {
    let kind = FileType::from_raw_mode(rustix::fs::fstat(found)?.st_mode);
    let name = if kind == FileType::Directory { "dir" } else { "file" };
    strict::open(&Path::new(DENIED).join(name))
}
