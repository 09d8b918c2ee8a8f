//! What is kept beside a conversation: whole outputs, and what an edit replaced. Each has a handle that cannot be guessed,
//! and lies in a directory that no tool can name: it is there after a restart, whatever the model remembers.

mod display;
mod output;
mod read;

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::SystemTime,
};

pub(crate) use display::plain;
pub(crate) use output::{Capture, Shown};
pub use read::ReadOutput;

use crate::{Mask, ToolsError};

/// What is kept if nobody says how much.
const USUAL: u64 = 1 << 30;

/// A directory of kept files, readable by its owner alone. It is made with the first of them.
#[derive(Debug, Clone)]
pub struct Kept {
    dir: PathBuf,
    /// The oldest files go when all of them have more.
    bytes: u64,
    mask: Mask,
}

/// What is kept. The handle says it, so that one kind is not taken for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Output,
    Edit,
}

impl Kind {
    fn prefix(self) -> &'static str {
        match self {
            Self::Output => "out-",
            Self::Edit => "edit-",
        }
    }
}

impl Kept {
    pub fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), bytes: USUAL, mask: Mask::default() }
    }

    /// At most so many bytes, about.
    pub fn at_most(self, bytes: u64) -> Self {
        Self { bytes, ..self }
    }

    /// Outputs are kept without these secrets.
    pub fn masking(self, mask: Mask) -> Self {
        Self { mask, ..self }
    }

    pub(crate) fn create(&self, kind: Kind) -> Result<(String, File), ToolsError> {
        let fail = |source| ToolsError::OutputStore { source };
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir).map_err(fail)?;
        let random = uuid::Uuid::new_v4().simple().to_string();
        let handle = format!("{}{}", kind.prefix(), &random[..16]);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(self.dir.join(&handle));
        Ok((handle, file.map_err(fail)?))
    }

    pub(crate) fn open(&self, kind: Kind, handle: &str) -> Result<File, ToolsError> {
        let random = handle.strip_prefix(kind.prefix()).unwrap_or_default();
        if random.len() != 16 || !random.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(ToolsError::UnknownHandle { handle: handle.to_owned() });
        }
        File::open(self.dir.join(handle)).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => ToolsError::UnknownHandle { handle: handle.to_owned() },
            _ => ToolsError::OutputStore { source },
        })
    }

    /// Makes room after something was kept. What cannot be removed now can be next time.
    pub(crate) fn prune(&self) {
        let _ = self.shrink_to(self.bytes);
    }

    /// Removes the oldest files until the rest has at most `bytes`, and says how many went.
    pub fn shrink_to(&self, bytes: u64) -> Result<usize, ToolsError> {
        let fail = |source| ToolsError::OutputStore { source };
        let mut files: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
        for entry in fs::read_dir(&self.dir).map_err(fail)?.filter_map(Result::ok) {
            // What another process removes in between is gone, which is what was wanted.
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_file() {
                let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                files.push((modified, metadata.len(), entry.path()));
            }
        }
        files.sort();
        let mut total: u64 = files.iter().map(|(_, size, _)| size).sum();
        let mut removed = 0;
        for (_, size, path) in files {
            if total <= bytes {
                break;
            }
            removed += usize::from(fs::remove_file(path).is_ok());
            total -= size;
        }
        Ok(removed)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_handle_finds_its_file_after_a_restart_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("a/kept");
        let (handle, mut file) = Kept::new(&place).create(Kind::Output).unwrap();
        file.write_all(b"text").unwrap();
        let again = Kept::new(&place);
        assert_eq!(io::read_to_string(again.open(Kind::Output, &handle).unwrap()).unwrap(), "text");
        assert!(again.open(Kind::Edit, &handle.replace("out-", "edit-")).is_err());
        for handle in
            ["", "out-", "out-../../../../etc", "/etc/passwd", "out-0000000000000000", "out-00000000000000é"]
        {
            let error = again.open(Kind::Output, handle).unwrap_err().to_string();
            assert!(error.contains("is no handle"), "{error}");
        }
    }

    #[test]
    fn the_oldest_goes_first() {
        let dir = tempfile::tempdir().unwrap();
        let kept = Kept::new(dir.path());
        let handles: Vec<String> = (0_u64..3)
            .map(|age| {
                let (handle, mut file) = kept.create(Kind::Output).unwrap();
                file.write_all(&[0; 10]).unwrap();
                file.set_modified(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(age)).unwrap();
                handle
            })
            .collect();
        assert_eq!(kept.shrink_to(25).unwrap(), 1);
        assert!(kept.open(Kind::Output, &handles[0]).is_err());
        assert!(kept.open(Kind::Output, &handles[1]).is_ok());
        assert_eq!(kept.shrink_to(0).unwrap(), 2);
    }
}
