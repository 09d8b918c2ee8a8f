//! Reads regular files of bounded size: a pipe or a device in a folder cannot block the program, and a huge file cannot fill its
//! memory.

use rustix::fs::OFlags;
use std::{
    fs::OpenOptions,
    io::{self, ErrorKind, Read},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

/// The largest file, in bytes.
const MAX_BYTES: u64 = 4 << 20;

pub(super) fn read_regular_file(path: &Path) -> io::Result<String> {
    // Opening a pipe without this flag waits for its writer. The kind is that of the open file, not of the path.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(io::Error::new(
            ErrorKind::InvalidData,
            format!("it is larger than {} MB", MAX_BYTES >> 20),
        ));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not valid UTF-8"))
}

/// `None` if the file does not exist.
pub(super) fn if_exists(read: io::Result<String>) -> io::Result<Option<String>> {
    match read {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
