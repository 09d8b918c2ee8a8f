//! What a person has seen of servers: which tools they had, word for word, and which project files may start programs. One
//! line of JSON each; the last one counts.

use std::{
    collections::HashMap,
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use serde::{Deserialize, Serialize};

use crate::ToolsError;

/// The file of what was seen. It need not exist.
#[derive(Debug)]
pub struct Pins {
    path: PathBuf,
    known: Mutex<Option<HashMap<(String, String), String>>>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    /// A server, or [`FILE`].
    of: String,
    name: String,
    hash: String,
}

/// Stands for "a file that names servers" where a server's name would be.
const FILE: &str = "file";

/// How something looks beside what was seen of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    New,
    Known,
    Changed,
}

impl Pins {
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), known: Mutex::default() }
    }

    /// Whether the file was approved with this very content.
    pub fn is_approved(&self, file: &Path, hash: &str) -> bool {
        self.standing(FILE, &file.display().to_string(), hash) == Standing::Known
    }

    /// Lets the servers of a file start, as it is now.
    pub fn approve(&self, file: &Path, hash: &str) -> Result<(), ToolsError> {
        self.pin(FILE, &file.display().to_string(), hash)
    }

    pub(super) fn standing(&self, of: &str, name: &str, hash: &str) -> Standing {
        let mut known = self.known();
        let known = known.get_or_insert_with(|| read(&self.path));
        match known.get(&(of.to_owned(), name.to_owned())) {
            None => Standing::New,
            Some(pinned) if pinned == hash => Standing::Known,
            Some(_) => Standing::Changed,
        }
    }

    pub(super) fn pin(&self, of: &str, name: &str, hash: &str) -> Result<(), ToolsError> {
        let fail = |source: io::Error| ToolsError::Write { path: self.path.display().to_string(), source };
        let line = Line { of: of.to_owned(), name: name.to_owned(), hash: hash.to_owned() };
        let text = serde_json::to_string(&line).map_err(|error| fail(error.into()))?;
        let mut known = self.known();
        if let Some(dir) = self.path.parent() {
            fs::create_dir_all(dir).map_err(fail)?;
        }
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path);
        // One write, so that lines of two programs do not mix.
        file.and_then(|mut file| file.write_all(format!("{text}\n").as_bytes())).map_err(fail)?;
        known.get_or_insert_with(|| read(&self.path)).insert((line.of, line.name), line.hash);
        Ok(())
    }

    fn known(&self) -> MutexGuard<'_, Option<HashMap<(String, String), String>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A line that cannot be read has seen nothing.
fn read(path: &Path) -> HashMap<(String, String), String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
    lines.map(|line| ((line.of, line.name), line.hash)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_is_known_after_a_restart_and_the_last_word_counts() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("home/mcp.jsonl");
        let pins = Pins::new(&path);
        assert_eq!(pins.standing("s", "t", "1"), Standing::New);
        pins.pin("s", "t", "1").unwrap();
        assert_eq!(pins.standing("s", "t", "1"), Standing::Known);
        assert_eq!(pins.standing("other", "t", "1"), Standing::New);
        assert_eq!(Pins::new(&path).standing("s", "t", "2"), Standing::Changed);
        pins.pin("s", "t", "2").unwrap();
        assert_eq!(Pins::new(&path).standing("s", "t", "1"), Standing::Changed);
        assert_eq!(Pins::new(&path).standing("s", "t", "2"), Standing::Known);
    }

    #[test]
    fn a_file_is_approved_as_it_is_and_not_as_it_becomes() {
        let dir = tempfile::tempdir().unwrap();
        let pins = Pins::new(&dir.path().join("mcp.jsonl"));
        let file = Path::new("project/.mcp.json");
        assert!(!pins.is_approved(file, "1"));
        pins.approve(file, "1").unwrap();
        assert!(pins.is_approved(file, "1"));
        assert!(!pins.is_approved(file, "2") && !pins.is_approved(Path::new("other/.mcp.json"), "1"));
    }
}
