//! The file of the model memory: bounded, replaced atomically, and changed under an advisory lock.

use super::MemoryEntry;
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Read, Write},
    path::{Path, PathBuf},
};

/// A larger file was not written by this program.
const MAX_BYTES: u64 = 1 << 20;
const VERSION: u32 = 1;

#[derive(Default, Serialize, Deserialize)]
struct MemoryFile {
    version: u32,
    models: Vec<MemoryEntry>,
}

/// Reads the entries. A missing file has none; the error is a warning for the user.
pub(super) fn read(path: &Path) -> Result<Vec<MemoryEntry>, String> {
    let damaged = || format!("{} is damaged and ignored; `lango models --forget` deletes it", path.display());
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(format!("{} cannot be read: {error}", path.display())),
    };
    let mut text = String::new();
    let read = file.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(|_| damaged())?;
    if read as u64 > MAX_BYTES {
        return Err(damaged());
    }
    let content: MemoryFile = serde_json::from_str(&text).map_err(|_| damaged())?;
    if content.version == VERSION { Ok(content.models) } else { Err(damaged()) }
}

/// Changes the entries. A damaged file is replaced.
pub(super) fn update(path: &Path, change: impl FnOnce(&mut Vec<MemoryEntry>)) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let lock = private().append(true).open(sibling(path, "lock"))?;
    lock.lock()?;
    let mut models = read(path).unwrap_or_default();
    change(&mut models);
    let text = serde_json::to_string(&MemoryFile { version: VERSION, models })?;
    let new = sibling(path, &uuid::Uuid::new_v4().to_string());
    let written = private().write(true).open(&new).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    written.and_then(|()| fs::rename(&new, path)).inspect_err(|_| drop(fs::remove_file(&new)))
}

/// A file that is created for its owner only.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{suffix}"))
}
