//! The output store: whole outputs of tools, and the file contents that edits replaced. Entries survive a restart. Each has
//! a random handle, and no file tool can reach the directory.

mod capture;
mod plain_text;
mod read_output;

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::SystemTime,
};

pub(crate) use capture::{CapturedOutput, OutputCapture};
pub(crate) use plain_text::to_plain_text;
pub use read_output::ReadOutput;

use crate::{Mask, ToolsError};

/// The default size limit of the store.
const DEFAULT_MAX_BYTES: u64 = 1 << 30;

/// A directory of stored files with mode 0700. It is created with the first file.
#[derive(Debug, Clone)]
pub struct OutputStore {
    dir: PathBuf,
    /// When the files exceed this size, the oldest are deleted.
    max_bytes: u64,
    mask: Mask,
    /// Whether outputs are untrusted text, which their handles show.
    is_untrusted: bool,
}

/// The prefix of the handles of outputs that are untrusted text, in this session or another one.
const UNTRUSTED: &str = "net-";

/// The kind of a stored file. It is the prefix of the handle, so that a handle of one kind is not accepted for the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HandleKind {
    Output,
    Edit,
}

impl HandleKind {
    fn prefix(self) -> &'static str {
        match self {
            Self::Output => "out-",
            Self::Edit => "edit-",
        }
    }
}

/// Whether a handle names untrusted text.
pub fn is_untrusted_handle(handle: &str) -> bool {
    handle.starts_with(UNTRUSTED)
}

impl OutputStore {
    pub fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), max_bytes: DEFAULT_MAX_BYTES, mask: Mask::default(), is_untrusted: false }
    }

    /// Sets the size limit. It is enforced after each output, so the store may exceed it for a moment.
    pub fn with_max_bytes(self, max_bytes: u64) -> Self {
        Self { max_bytes, ..self }
    }

    /// Sets the secrets that are redacted in outputs before they are stored.
    pub fn with_mask(self, mask: Mask) -> Self {
        Self { mask, ..self }
    }

    /// The same store, for outputs that are untrusted text.
    pub fn untrusted(self) -> Self {
        Self { is_untrusted: true, ..self }
    }

    pub(crate) fn create(&self, kind: HandleKind) -> Result<(String, File), ToolsError> {
        let fail = |source| ToolsError::OutputStore { source };
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir).map_err(fail)?;
        let random = uuid::Uuid::new_v4().simple().to_string();
        let prefix = if self.is_untrusted && kind == HandleKind::Output { UNTRUSTED } else { kind.prefix() };
        let handle = format!("{prefix}{}", &random[..16]);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(self.dir.join(&handle));
        Ok((handle, file.map_err(fail)?))
    }

    pub(crate) fn open(&self, kind: HandleKind, handle: &str) -> Result<File, ToolsError> {
        let untrusted = handle.strip_prefix(UNTRUSTED).filter(|_| kind == HandleKind::Output);
        let random = untrusted.or_else(|| handle.strip_prefix(kind.prefix())).unwrap_or_default();
        if random.len() != 16 || !random.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(ToolsError::UnknownHandle { handle: handle.to_owned() });
        }
        File::open(self.dir.join(handle)).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => ToolsError::UnknownHandle { handle: handle.to_owned() },
            _ => ToolsError::OutputStore { source },
        })
    }

    /// Enforces the size limit. A failure is ignored, because the next call retries.
    pub(crate) fn prune(&self) {
        let _ = self.shrink_to(self.max_bytes);
    }

    /// Deletes the oldest files until the rest has at most `bytes`, and returns how many were deleted.
    pub fn shrink_to(&self, bytes: u64) -> Result<usize, ToolsError> {
        let fail = |source| ToolsError::OutputStore { source };
        let mut files: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
        for entry in fs::read_dir(&self.dir).map_err(fail)?.filter_map(Result::ok) {
            // Another process may have deleted the file in the meantime.
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
    fn handle_opens_its_file_after_a_restart_and_other_handles_are_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let store_dir = dir.path().join("a/outputs");
        let (handle, mut file) = OutputStore::new(&store_dir).create(HandleKind::Output).unwrap();
        file.write_all(b"text").unwrap();
        let again = OutputStore::new(&store_dir);
        assert_eq!(io::read_to_string(again.open(HandleKind::Output, &handle).unwrap()).unwrap(), "text");
        assert!(again.open(HandleKind::Edit, &handle.replace("out-", "edit-")).is_err());
        let (untrusted, _) = OutputStore::new(&store_dir).untrusted().create(HandleKind::Output).unwrap();
        assert!(is_untrusted_handle(&untrusted) && !is_untrusted_handle(&handle));
        assert!(again.open(HandleKind::Output, &untrusted).is_ok());
        assert!(again.open(HandleKind::Output, &untrusted.replace("net-", "out-")).is_err());
        assert!(again.open(HandleKind::Edit, &untrusted).is_err());
        for handle in
            ["", "out-", "out-../../../../etc", "/etc/passwd", "out-0000000000000000", "out-00000000000000é"]
        {
            let error = again.open(HandleKind::Output, handle).unwrap_err().to_string();
            assert!(error.contains("is not a handle"), "{error}");
        }
    }

    #[test]
    fn oldest_files_are_deleted_first() {
        let dir = tempfile::tempdir().unwrap();
        let store = OutputStore::new(dir.path());
        let handles: Vec<String> = (0_u64..3)
            .map(|age| {
                let (handle, mut file) = store.create(HandleKind::Output).unwrap();
                file.write_all(&[0; 10]).unwrap();
                file.set_modified(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(age)).unwrap();
                handle
            })
            .collect();
        assert_eq!(store.shrink_to(25).unwrap(), 1);
        assert!(store.open(HandleKind::Output, &handles[0]).is_err());
        assert!(store.open(HandleKind::Output, &handles[1]).is_ok());
        assert_eq!(store.shrink_to(0).unwrap(), 2);
    }
}
