//! Digests of the reviewed descriptions of server tools. The file has one JSON object per line, and the last one for a name
//! counts.

use lock::LockExt;
use std::{
    collections::HashMap,
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard},
};

use serde::{Deserialize, Serialize};

use crate::ToolsError;

/// The file of pinned digests. A missing file has no pins.
#[derive(Debug)]
pub struct ToolPins {
    path: PathBuf,
    /// Loaded on first use.
    known: Mutex<Option<HashMap<(String, String), String>>>,
}

#[derive(Serialize, Deserialize)]
struct PinLine {
    /// The server.
    of: String,
    name: String,
    hash: String,
}

/// A digest compared with the pinned one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PinStatus {
    New,
    Known,
    Changed,
}

impl ToolPins {
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), known: Mutex::default() }
    }

    pub(super) fn status(&self, of: &str, name: &str, hash: &str) -> PinStatus {
        let mut known = self.known();
        let known = known.get_or_insert_with(|| read(&self.path));
        match known.get(&(of.to_owned(), name.to_owned())) {
            None => PinStatus::New,
            Some(pinned) if pinned == hash => PinStatus::Known,
            Some(_) => PinStatus::Changed,
        }
    }

    pub(super) fn pin(&self, of: &str, name: &str, hash: &str) -> Result<(), ToolsError> {
        let fail = |source: io::Error| ToolsError::Write { path: self.path.display().to_string(), source };
        let line = PinLine { of: of.to_owned(), name: name.to_owned(), hash: hash.to_owned() };
        let text = serde_json::to_string(&line).map_err(|error| fail(error.into()))?;
        let mut known = self.known();
        if let Some(dir) = self.path.parent() {
            fs::create_dir_all(dir).map_err(fail)?;
        }
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path);
        // A single write, so that lines of two processes do not interleave.
        file.and_then(|mut file| file.write_all(format!("{text}\n").as_bytes())).map_err(fail)?;
        known.get_or_insert_with(|| read(&self.path)).insert((line.of, line.name), line.hash);
        Ok(())
    }

    fn known(&self) -> MutexGuard<'_, Option<HashMap<(String, String), String>>> {
        self.known.locked()
    }
}

/// Reads all pins. Malformed lines are skipped.
fn read(path: &Path) -> HashMap<(String, String), String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let lines = text.lines().filter_map(|line| serde_json::from_str::<PinLine>(line).ok());
    lines.map(|line| ((line.of, line.name), line.hash)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pins_survive_a_restart_and_the_last_one_counts() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("home/mcp.jsonl");
        let pins = ToolPins::new(&path);
        assert_eq!(pins.status("s", "t", "1"), PinStatus::New);
        pins.pin("s", "t", "1").unwrap();
        assert_eq!(pins.status("s", "t", "1"), PinStatus::Known);
        assert_eq!(pins.status("other", "t", "1"), PinStatus::New);
        assert_eq!(ToolPins::new(&path).status("s", "t", "2"), PinStatus::Changed);
        pins.pin("s", "t", "2").unwrap();
        assert_eq!(ToolPins::new(&path).status("s", "t", "1"), PinStatus::Changed);
        assert_eq!(ToolPins::new(&path).status("s", "t", "2"), PinStatus::Known);
    }
}
