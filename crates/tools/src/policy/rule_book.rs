//! Rules that people stored by answering "always", one JSON object per line.
//!
//! A stored rule can only allow. It applies to one user of one app, in one folder and working directory. A rule of an older
//! version has no folder: it is kept, but applies to nothing until a person confirms it by another "always".

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

/// A stored rule with its id, owner and place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredRule {
    pub id: String,
    #[serde(flatten)]
    pub owner: AppUser,
    #[serde(flatten)]
    pub rule: PolicyRule,
    /// `None` for a rule of an older version.
    #[serde(flatten, default, skip_serializing_if = "Option::is_none")]
    pub place: Option<RulePlace>,
}

/// Where a rule applies: the first root, and the working directory of the call, both with links resolved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RulePlace {
    pub folder: PathBuf,
    pub workdir: PathBuf,
}

/// A rule with the place that it applies in, as the state of a session stores it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacedRule {
    #[serde(flatten)]
    pub rule: PolicyRule,
    #[serde(flatten)]
    pub place: RulePlace,
}

impl RuleBook {
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// All rules, oldest first. A malformed line is skipped.
    pub fn all(&self) -> Result<Vec<StoredRule>, ToolsError> {
        Ok(self.text()?.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }

    /// All rules of an owner, wherever they apply.
    pub fn rules_of(&self, owner: &AppUser) -> Result<Vec<StoredRule>, ToolsError> {
        Ok(self.all()?.into_iter().filter(|stored| stored.owner == *owner).collect())
    }

    /// Stores the rules that the owner does not have yet in that place, and deletes the rules with the ids in `replaced`.
    pub fn add(
        &self,
        owner: &AppUser,
        place: &RulePlace,
        (rules, replaced): (&[PolicyRule], &[String]),
    ) -> Result<(), ToolsError> {
        let fail = |source| ToolsError::Write { path: self.path.display().to_string(), source };
        if let Some(dir) = self.path.parent() {
            fs::create_dir_all(dir).map_err(fail)?;
        }
        let file = self.lock()?;
        let known = self.rules_of(owner)?;
        let is_known = |rule: &&PolicyRule| {
            known.iter().any(|stored| stored.rule == **rule && stored.place.as_ref() == Some(place))
        };
        let mut text = String::new();
        for rule in rules.iter().filter(|rule| !is_known(rule)) {
            let id = uuid::Uuid::new_v4().simple().to_string()[..8].to_owned();
            let (owner, place) = (owner.clone(), Some(place.clone()));
            let stored = StoredRule { id, owner, rule: rule.clone(), place };
            text += &serde_json::to_string(&stored).map_err(|error| fail(error.into()))?;
            text.push('\n');
        }
        if replaced.is_empty() {
            return (&file).write_all(text.as_bytes()).and_then(|()| file.sync_data()).map_err(fail);
        }
        replace(&file, &(self.text_without(replaced)? + &text)).map_err(fail)
    }

    /// Deletes a rule. Returns `false` if there is none with that id.
    pub fn revoke(&self, id: &str) -> Result<bool, ToolsError> {
        let fail = |source| ToolsError::Write { path: self.path.display().to_string(), source };
        if !self.path.exists() {
            return Ok(false);
        }
        let file = self.lock()?;
        if !self.all()?.iter().any(|stored| stored.id == id) {
            return Ok(false);
        }
        replace(&file, &self.text_without(&[id.to_owned()])?).map_err(fail)?;
        Ok(true)
    }

    /// The file without some rules. Lines that are not understood are kept.
    fn text_without(&self, ids: &[String]) -> Result<String, ToolsError> {
        let is_kept = |line: &&str| match serde_json::from_str::<StoredRule>(line) {
            Ok(stored) => !ids.contains(&stored.id),
            Err(_) => !line.is_empty(),
        };
        Ok(self.text()?.lines().filter(is_kept).flat_map(|line| [line, "\n"]).collect())
    }

    fn text(&self) -> Result<String, ToolsError> {
        match fs::read_to_string(&self.path) {
            Ok(text) => Ok(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            Err(source) => Err(ToolsError::Read { path: self.path.display().to_string(), source }),
        }
    }

    /// Opens the file for appending, with an exclusive lock.
    fn lock(&self) -> Result<File, ToolsError> {
        let fail = |source| ToolsError::Write { path: self.path.display().to_string(), source };
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path).map_err(fail)?;
        file.lock().map_err(fail)?;
        Ok(file)
    }
}

/// In place, so that a process that waits for the lock changes the same inode.
fn replace(mut file: &File, text: &str) -> io::Result<()> {
    file.set_len(0)?;
    file.write_all(text.as_bytes())?;
    file.sync_data()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Decision, Subject};

    fn owner(user: &str) -> AppUser {
        AppUser { app: "lango".to_owned(), user: user.to_owned() }
    }

    fn place(folder: &str) -> RulePlace {
        RulePlace { folder: folder.into(), workdir: folder.into() }
    }

    fn allow_rule(words: &[&str]) -> PolicyRule {
        PolicyRule::new(
            Subject::Command(words.iter().map(|word| (*word).to_owned()).collect()),
            Decision::Allow,
        )
    }

    fn rules(book: &RuleBook, user: &str) -> Vec<PolicyRule> {
        book.rules_of(&owner(user)).unwrap().into_iter().map(|stored| stored.rule).collect()
    }

    #[test]
    fn rule_is_stored_once_per_owner_and_place_and_can_be_revoked() {
        let dir = tempfile::tempdir().unwrap();
        let book = RuleBook::new(&dir.path().join("data/rules.jsonl"));
        assert_eq!(book.all().unwrap(), []);
        assert!(!book.revoke("x").unwrap());
        let all = [allow_rule(&["cargo", "test"]), allow_rule(&["ls"])];
        book.add(&owner("ann"), &place("/a"), (&all, &[])).unwrap();
        book.add(&owner("ann"), &place("/a"), (&all[..1], &[])).unwrap();
        assert_eq!(rules(&book, "ann"), all);
        assert_eq!(rules(&book, "bob"), []);
        book.add(&owner("ann"), &place("/b"), (&all[..1], &[])).unwrap();
        assert_eq!(rules(&book, "ann").len(), 3);
        let first = book.all().unwrap()[0].clone();
        assert_eq!(first.place, Some(place("/a")));
        assert!(book.revoke(&first.id).unwrap());
        assert_eq!(rules(&book, "ann").len(), 2);
    }

    #[test]
    fn malformed_line_is_skipped_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rules.jsonl");
        let book = RuleBook::new(&path);
        fs::write(&path, "{\"id\":\n").unwrap();
        book.add(&owner("ann"), &place("/a"), (&[allow_rule(&["ls"])], &[])).unwrap();
        assert_eq!(rules(&book, "ann"), [allow_rule(&["ls"])]);
        let id = book.all().unwrap()[0].id.clone();
        assert!(book.revoke(&id).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"id\":\n");
    }

    #[test]
    fn rule_of_an_older_version_is_read_without_a_place_and_can_be_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rules.jsonl");
        let old = r#"{"id":"0","app":"lango","user":"ann","decision":"allow","command":["git","fetch"]}"#;
        fs::write(&path, format!("{old}\n")).unwrap();
        let book = RuleBook::new(&path);
        assert_eq!(book.all().unwrap()[0].place, None);
        let rule = allow_rule(&["mkdir"]);
        book.add(&owner("ann"), &place("/a"), (std::slice::from_ref(&rule), &["0".to_owned()])).unwrap();
        assert_eq!(rules(&book, "ann"), [rule]);
    }
}
