//! The open files: whether those at the paths of the database are still the ones that SQLite has open. SQLite goes on
//! writing to a file that was deleted or replaced; what it acknowledges then is lost.

use super::fault::Fault;
use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Device and inode.
type Id = (u64, u64);

/// The identities of a database and of the files beside it, taken while a connection holds them.
///
/// SQLite itself removes or creates none of them as long as that connection exists.
#[derive(Clone, Debug)]
pub(super) struct OpenFiles {
    database: OpenFile,
    /// The write-ahead log and its index.
    beside: Vec<OpenFile>,
}

#[derive(Clone, Debug)]
struct OpenFile {
    path: PathBuf,
    id: Id,
}

impl OpenFiles {
    /// `before` is the identity of the database before it was opened: a file that was replaced meanwhile is noticed.
    pub(super) fn identify(path: &Path, before: Id) -> Result<Self, Fault> {
        let database = OpenFile { path: path.to_path_buf(), id: before };
        database.check()?;
        // SQLite follows links, and has its files beside the one that it finds.
        let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        let beside = ["-wal", "-shm"].into_iter().filter_map(|suffix| OpenFile::new(with(&real, suffix)));
        Ok(Self { database, beside: beside.collect() })
    }

    /// The same without the files beside it, for a reader to which they may be closed.
    pub(super) fn database_only(path: &Path, before: Id) -> Result<Self, Fault> {
        let database = OpenFile { path: path.to_path_buf(), id: before };
        database.check()?;
        Ok(Self { database, beside: Vec::new() })
    }

    /// Whether all of them are in their places. Costs a microsecond for each.
    pub(super) fn check(&self) -> Result<(), Fault> {
        self.check_database()?;
        self.beside.iter().try_for_each(OpenFile::check).map_err(|fault| match fault {
            Fault::Deleted(path) | Fault::Replaced(path) => Fault::Detached(path),
            other => other,
        })
    }

    /// Whether the write-ahead log was deleted, and everything else is in its place.
    pub(super) fn lacks_log_only(&self) -> bool {
        let Some((log, others)) = self.beside.split_first() else { return false };
        let is_deleted = matches!(log.check(), Err(Fault::Deleted(_)));
        is_deleted && self.check_database().is_ok() && others.iter().all(|file| file.check().is_ok())
    }

    pub(super) fn check_database(&self) -> Result<(), Fault> {
        self.database.check()
    }
}

impl OpenFile {
    fn new(path: PathBuf) -> Option<Self> {
        let id = id(&path).ok()?;
        Some(Self { path, id })
    }

    fn check(&self) -> Result<(), Fault> {
        match id(&self.path) {
            Ok(found) if found == self.id => Ok(()),
            Ok(_) => Err(Fault::Replaced(self.path.clone())),
            Err(error) if is_absence(&error) => Err(Fault::Deleted(self.path.clone())),
            Err(error) => Err(Fault::unreadable(&self.path, error)),
        }
    }
}

/// The identity of the file at a path. The file is not opened: closing it would release SQLite's locks on it.
pub(super) fn id(path: &Path) -> io::Result<Id> {
    fs::metadata(path).map(|file| (file.dev(), file.ino()))
}

fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// The path of a file beside the database.
pub(super) fn with(path: &Path, suffix: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}
