//! The open files: whether those at the paths of the database are still the ones that SQLite has open. SQLite goes on
//! writing to a file that was deleted or replaced; what it acknowledges then is lost.

use super::fault::Fault;
use rusqlite::{Connection, FileControl, MAIN_DB};
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
    /// The files of a connection.
    pub(super) fn identify(path: &Path, conn: &Connection) -> Result<Self, Fault> {
        let database = OpenFile::of(path, conn)?;
        // SQLite follows links, and has its files beside the one that it finds.
        let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        let beside = ["-wal", "-shm"].into_iter().filter_map(|suffix| OpenFile::new(with(&real, suffix)));
        Ok(Self { database, beside: beside.collect() })
    }

    /// The same without the files beside it, for a reader to which they may be closed.
    pub(super) fn database_only(path: &Path, conn: &Connection) -> Result<Self, Fault> {
        Ok(Self { database: OpenFile::of(path, conn)?, beside: Vec::new() })
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
    /// The database of a connection. SQLite compares the file that it has open with the one at the path, so a file that was
    /// replaced while it was being opened is noticed.
    fn of(path: &Path, conn: &Connection) -> Result<Self, Fault> {
        let id = id(path).map_err(|error| Fault::unreadable(path, error))?;
        let file = Self { path: path.to_path_buf(), id };
        let mut has_moved = 0;
        let asked = conn.file_control(MAIN_DB.into(), FileControl::HasMoved(&mut has_moved));
        asked.map_err(|error| Fault::of(path, error))?;
        file.check()?;
        if has_moved == 0 { Ok(file) } else { Err(Fault::Replaced(file.path)) }
    }

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
fn id(path: &Path) -> io::Result<Id> {
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
    fn a_file_that_was_replaced_while_it_was_opened_is_noticed() {
        let place = tempfile::tempdir().unwrap();
        let (path, other) = (place.path().join("a.db"), place.path().join("b.db"));
        let open = |path: &Path| {
            let conn = Connection::open(path).unwrap();
            conn.execute_batch("CREATE TABLE t (x)").unwrap();
            conn
        };
        let (conn, _) = (open(&path), open(&other));
        assert!(OpenFiles::identify(&path, &conn).is_ok());
        fs::rename(&other, &path).unwrap();
        let replaced = OpenFiles::identify(&path, &conn);
        assert!(matches!(replaced, Err(Fault::Replaced(_))), "{replaced:?}");
        fs::remove_file(&path).unwrap();
        assert!(OpenFiles::database_only(&path, &conn).is_err());
    }
}
