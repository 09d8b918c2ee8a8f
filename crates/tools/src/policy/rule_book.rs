//! Rules that people stored by answering "always", one JSON object per line.
//!
//! A stored rule can only allow, and applies to one user of one app.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::PolicyRule;
use crate::{AppUser, ToolsError};

/// The file of stored rules. A missing file has no rules.
#[derive(Debug, Clone)]
pub struct RuleBook {
    path: PathBuf,
}

/// A stored rule with its id and owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredRule {
    pub id: String,
    #[serde(flatten)]
    pub owner: AppUser,
    #[serde(flatten)]
    pub rule: PolicyRule,
}

impl RuleBook {
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// All rules, oldest first. A malformed line is skipped.
    pub fn all(&self) -> Result<Vec<StoredRule>, ToolsError> {
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(self.read_error(source)),
        };
        Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }

    pub fn rules_of(&self, owner: &AppUser) -> Result<Vec<PolicyRule>, ToolsError> {
        let owned = self.all()?.into_iter().filter(|stored| stored.owner == *owner);
        Ok(owned.map(|stored| stored.rule).collect())
    }

    /// Stores the rules that the owner does not have yet.
    pub fn add(&self, owner: &AppUser, rules: &[PolicyRule]) -> Result<(), ToolsError> {
        let fail = |source| ToolsError::Write { path: self.path.display().to_string(), source };
        if let Some(dir) = self.path.parent() {
            fs::create_dir_all(dir).map_err(fail)?;
        }
        let mut file = self.lock()?;
        let known = self.rules_of(owner)?;
        for rule in rules.iter().filter(|rule| !known.contains(rule)) {
            let id = uuid::Uuid::new_v4().simple().to_string()[..8].to_owned();
            let stored = StoredRule { id, owner: owner.clone(), rule: rule.clone() };
            let line = serde_json::to_string(&stored).map_err(|error| fail(error.into()))?;
            writeln!(file, "{line}").map_err(fail)?;
        }
        file.sync_data().map_err(fail)
    }

    /// Deletes a rule. Returns `false` if there is none with that id.
    pub fn revoke(&self, id: &str) -> Result<bool, ToolsError> {
        let fail = |source| ToolsError::Write { path: self.path.display().to_string(), source };
        if !self.path.exists() {
            return Ok(false);
        }
        let file = self.lock()?;
        let all = self.all()?;
        let remaining: Vec<&StoredRule> = all.iter().filter(|stored| stored.id != id).collect();
        if remaining.len() == all.len() {
            return Ok(false);
        }
        let mut text = String::new();
        for stored in remaining {
            text += &serde_json::to_string(stored).map_err(|error| fail(error.into()))?;
            text.push('\n');
        }
        // In place, so that a process that waits for the lock appends to the same inode.
        file.set_len(0).and_then(|()| (&file).write_all(text.as_bytes())).map_err(fail)?;
        file.sync_data().map_err(fail)?;
        Ok(true)
    }

    /// Opens the file for appending, with an exclusive lock.
    fn lock(&self) -> Result<File, ToolsError> {
        let fail = |source| ToolsError::Write { path: self.path.display().to_string(), source };
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path).map_err(fail)?;
        file.lock().map_err(fail)?;
        Ok(file)
    }

    fn read_error(&self, source: io::Error) -> ToolsError {
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

    fn allow_rule(words: &[&str]) -> PolicyRule {
        PolicyRule::new(
            Subject::Command(words.iter().map(|word| (*word).to_owned()).collect()),
            Decision::Allow,
        )
    }

    #[test]
    fn rule_is_stored_once_per_owner_and_can_be_revoked() {
        let dir = tempfile::tempdir().unwrap();
        let book = RuleBook::new(&dir.path().join("data/rules.jsonl"));
        assert_eq!(book.all().unwrap(), []);
        assert!(!book.revoke("x").unwrap());
        let rules = [allow_rule(&["cargo", "test"]), allow_rule(&["ls"])];
        book.add(&owner("ann"), &rules).unwrap();
        book.add(&owner("ann"), &rules[..1]).unwrap();
        assert_eq!(book.rules_of(&owner("ann")).unwrap(), rules);
        assert_eq!(book.rules_of(&owner("bob")).unwrap(), []);
        let first = book.all().unwrap()[0].clone();
        assert!(book.revoke(&first.id).unwrap());
        assert_eq!(book.rules_of(&owner("ann")).unwrap(), rules[1..]);
    }

    #[test]
    fn malformed_line_is_skipped() {
        let dir = tempfile::tempdir().unwrap();
        let book = RuleBook::new(&dir.path().join("rules.jsonl"));
        book.add(&owner("ann"), &[allow_rule(&["ls"])]).unwrap();
        let path = dir.path().join("rules.jsonl");
        fs::write(&path, format!("{{\"id\":\n{}", fs::read_to_string(&path).unwrap())).unwrap();
        assert_eq!(book.rules_of(&owner("ann")).unwrap(), [allow_rule(&["ls"])]);
    }
}
