//! Detects that the files at the paths of the database are no longer the open ones. SQLite keeps writing to a deleted or
//! replaced file, and such commits are lost.

use super::fault::FileFault;
use rusqlite::{Connection, FileControl, MAIN_DB};
#[cfg(target_os = "linux")]
use rustix::fs::{AtFlags, StatxFlags};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Device and inode number.
type FileId = (u64, u64);

/// The identities of a database and the files beside it, taken while a connection has them open.
///
/// SQLite neither removes nor creates any of them while that connection exists.
#[derive(Clone, Debug)]
pub(super) struct OpenFiles {
    database: OpenFile,
    /// The write-ahead log and its index.
    beside: Vec<OpenFile>,
}

#[derive(Clone, Debug)]
struct OpenFile {
    path: PathBuf,
    id: FileId,
}

impl OpenFiles {
    /// Identifies the files of a connection.
    pub(super) fn identify(path: &Path, conn: &Connection) -> Result<Self, FileFault> {
        let database = OpenFile::of(path, conn)?;
        // SQLite follows symbolic links and creates its files beside the target.
        let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        let beside = ["-wal", "-shm"].into_iter().filter_map(|suffix| OpenFile::new(with(&real, suffix)));
        Ok(Self { database, beside: beside.collect() })
    }

    /// Identifies only the database, for a reader that may not have access to the other files.
    pub(super) fn database_only(path: &Path, conn: &Connection) -> Result<Self, FileFault> {
        Ok(Self { database: OpenFile::of(path, conn)?, beside: Vec::new() })
    }

    /// Checks that each file is still at its path. Costs about a microsecond per file.
    pub(super) fn check(&self) -> Result<(), FileFault> {
        self.check_database()?;
        self.beside.iter().try_for_each(OpenFile::check).map_err(|fault| match fault {
            FileFault::Deleted(path) | FileFault::Replaced(path) => FileFault::Detached(path),
            other => other,
        })
    }

    /// Whether only the write-ahead log was deleted.
    pub(super) fn lacks_log_only(&self) -> bool {
        let Some((log, others)) = self.beside.split_first() else { return false };
        let is_deleted = matches!(log.check(), Err(FileFault::Deleted(_)));
        is_deleted && self.check_database().is_ok() && others.iter().all(|file| file.check().is_ok())
    }

    pub(super) fn check_database(&self) -> Result<(), FileFault> {
        self.database.check()
    }
}

impl OpenFile {
    /// Identifies the database of a connection. SQLite compares its open file with the one at the path, which detects a
    /// replacement during the opening.
    fn of(path: &Path, conn: &Connection) -> Result<Self, FileFault> {
        let id = id(path).map_err(|error| FileFault::unreadable(path, error))?;
        let file = Self { path: path.to_path_buf(), id };
        let mut has_moved = 0;
        let queried = conn.file_control(MAIN_DB.into(), FileControl::HasMoved(&mut has_moved));
        queried.map_err(|error| FileFault::of(path, error))?;
        file.check()?;
        if has_moved == 0 { Ok(file) } else { Err(FileFault::Replaced(file.path)) }
    }

    fn new(path: PathBuf) -> Option<Self> {
        let id = id(&path).ok()?;
        Some(Self { path, id })
    }

    fn check(&self) -> Result<(), FileFault> {
        match id(&self.path) {
            Ok(found) if found == self.id => Ok(()),
            Ok(_) => Err(FileFault::Replaced(self.path.clone())),
            Err(error) if is_absence(&error) => Err(FileFault::Deleted(self.path.clone())),
            Err(error) => Err(FileFault::unreadable(&self.path, error)),
        }
    }
}

/// The identity of the file at a path, without opening it: closing it would release SQLite's POSIX locks.
///
/// Only the inode number is requested: since Linux 6.13 a query of the time stamps makes the next write update them in the
/// inode, which every `fdatasync` of the file system then pays for.
#[cfg(target_os = "linux")]
fn id(path: &Path) -> io::Result<FileId> {
    let file = rustix::fs::statx(rustix::fs::CWD, path, AtFlags::empty(), StatxFlags::INO)?;
    Ok((rustix::fs::makedev(file.stx_dev_major, file.stx_dev_minor), file.stx_ino))
}

/// As above, on systems without `statx`.
#[cfg(not(target_os = "linux"))]
fn id(path: &Path) -> io::Result<FileId> {
    use std::os::unix::fs::MetadataExt;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_replaced_during_the_opening_is_detected() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("a.db"), dir.path().join("b.db"));
        let open = |path: &Path| {
            let conn = Connection::open(path).unwrap();
            conn.execute_batch("CREATE TABLE t (x)").unwrap();
            conn
        };
        let (conn, _) = (open(&path), open(&other));
        assert!(OpenFiles::identify(&path, &conn).is_ok());
        fs::rename(&other, &path).unwrap();
        let replaced = OpenFiles::identify(&path, &conn);
        assert!(matches!(replaced, Err(FileFault::Replaced(_))), "{replaced:?}");
        fs::remove_file(&path).unwrap();
        assert!(OpenFiles::database_only(&path, &conn).is_err());
    }
}
