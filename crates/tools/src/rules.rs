//! Rules that a person has stored by saying "always": one line of JSON each, to be read, listed and revoked.
//!
//! They only allow, and only what one user asked of one app.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{AppUser, ToolsError, policy::Rule};

/// The file of stored rules. It need not exist.
#[derive(Debug, Clone)]
pub struct RuleBook {
    path: PathBuf,
}

/// A rule with what it is revoked by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    pub id: String,
    #[serde(flatten)]
    pub owner: AppUser,
    #[serde(flatten)]
    pub rule: Rule,
}

impl RuleBook {
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// All rules, the oldest first. A line that cannot be read allows nothing.
    pub fn all(&self) -> Result<Vec<Stored>, ToolsError> {
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(self.unreadable(source)),
        };
        Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }

    pub fn of(&self, owner: &AppUser) -> Result<Vec<Rule>, ToolsError> {
        let mine = self.all()?.into_iter().filter(|stored| stored.owner == *owner);
        Ok(mine.map(|stored| stored.rule).collect())
    }

    /// Stores what is not there yet.
    pub fn add(&self, owner: &AppUser, rules: &[Rule]) -> Result<(), ToolsError> {
        let fail = |source| ToolsError::Write { path: self.path.display().to_string(), source };
        if let Some(dir) = self.path.parent() {
            fs::create_dir_all(dir).map_err(fail)?;
        }
        let mut file = self.locked()?;
        let known = self.of(owner)?;
        for rule in rules.iter().filter(|rule| !known.contains(rule)) {
            let id = uuid::Uuid::new_v4().simple().to_string()[..8].to_owned();
            let stored = Stored { id, owner: owner.clone(), rule: rule.clone() };
            let line = serde_json::to_string(&stored).map_err(|error| fail(error.into()))?;
            writeln!(file, "{line}").map_err(fail)?;
        }
        file.sync_data().map_err(fail)
    }

    /// Takes a rule back; `false` if there is none of that id.
    pub fn revoke(&self, id: &str) -> Result<bool, ToolsError> {
        let fail = |source| ToolsError::Write { path: self.path.display().to_string(), source };
        if !self.path.exists() {
            return Ok(false);
        }
        let file = self.locked()?;
        let all = self.all()?;
        let kept: Vec<&Stored> = all.iter().filter(|stored| stored.id != id).collect();
        if kept.len() == all.len() {
            return Ok(false);
        }
        let mut text = String::new();
        for stored in kept {
            text += &serde_json::to_string(stored).map_err(|error| fail(error.into()))?;
            text.push('\n');
        }
        // In place, so that whoever waits for the lock appends to the same file.
        file.set_len(0).and_then(|()| (&file).write_all(text.as_bytes())).map_err(fail)?;
        file.sync_data().map_err(fail)?;
        Ok(true)
    }

    /// The file, to be written at its end by us alone.
    fn locked(&self) -> Result<File, ToolsError> {
        let fail = |source| ToolsError::Write { path: self.path.display().to_string(), source };
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path).map_err(fail)?;
        file.lock().map_err(fail)?;
        Ok(file)
    }

    fn unreadable(&self, source: io::Error) -> ToolsError {
        ToolsError::Read { path: self.path.display().to_string(), source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Decision, Subject};

    fn owner(user: &str) -> AppUser {
        AppUser { app: "lango".to_owned(), user: user.to_owned() }
    }

    fn allowing(words: &[&str]) -> Rule {
        Rule::new(Subject::Command(words.iter().map(|word| (*word).to_owned()).collect()), Decision::Allow)
    }

    #[test]
    fn a_rule_is_stored_once_for_its_owner_and_can_be_revoked() {
        let dir = tempfile::tempdir().unwrap();
        let book = RuleBook::new(&dir.path().join("data/rules.jsonl"));
        assert_eq!(book.all().unwrap(), []);
        assert!(!book.revoke("x").unwrap());
        let rules = [allowing(&["cargo", "test"]), allowing(&["ls"])];
        book.add(&owner("ann"), &rules).unwrap();
        book.add(&owner("ann"), &rules[..1]).unwrap();
        assert_eq!(book.of(&owner("ann")).unwrap(), rules);
        assert_eq!(book.of(&owner("bob")).unwrap(), []);
        let first = book.all().unwrap()[0].clone();
        assert!(book.revoke(&first.id).unwrap());
        assert_eq!(book.of(&owner("ann")).unwrap(), rules[1..]);
    }

    #[test]
    fn a_damaged_line_allows_nothing_and_spoils_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let book = RuleBook::new(&dir.path().join("rules.jsonl"));
        book.add(&owner("ann"), &[allowing(&["ls"])]).unwrap();
        let path = dir.path().join("rules.jsonl");
        fs::write(&path, format!("{{\"id\":\n{}", fs::read_to_string(&path).unwrap())).unwrap();
        assert_eq!(book.of(&owner("ann")).unwrap(), [allowing(&["ls"])]);
    }
}
