//! What is on disk: the protected paths and the denied files below the directories that commands can access.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fs::{self, Metadata},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use super::{plan::HostDirs, repository, settings::SandboxSettings};
use crate::SandboxProfile;

/// Configuration of this program at the top of a root: a command cannot create it either.
const OWN_FILES: [&str; 2] = ["lango.toml", ".mcp.json"];

/// System directories whose files come from packages or from the kernel. [`LOCAL`] is the exception in `/usr`.
const WITHOUT_SECRETS: [&str; 12] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/sys", "/nix", "/gnu", "/snap", "/var"];
const LOCAL: &str = "/usr/local";

/// Protected and denied paths. All are absolute; those that exist are without links.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Survey {
    /// Paths inside the writable directories that stay read-only.
    pub(super) protected: BTreeMap<PathBuf, Protection>,
    /// Files and directories that cannot be read.
    pub(super) denied: BTreeSet<PathBuf>,
    /// Protected names that are links, with their targets. A link cannot be a mount point.
    pub(super) links: BTreeMap<PathBuf, PathBuf>,
    /// Whether the directories have more entries than were searched.
    pub(super) truncated: bool,
}

/// How a protected path is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Protection {
    /// It exists and is mounted read-only.
    Existing,
    /// It does not exist: an empty file or directory is created as the mount point.
    MissingFile,
    MissingDir,
}

/// The mode of placeholder directories: the sticky bit tells them from directories of the user.
pub(super) const PLACEHOLDER_MODE: u32 = 0o1755;
/// What a placeholder file contains: an empty configuration of git.
pub(super) const PLACEHOLDER_TEXT: &str =
    "# An empty file that lango creates while a sandboxed command runs, and removes afterwards.\n";

impl Protection {
    /// Whether what exists is a mount point that a command created.
    pub(super) fn is_placeholder(self, path: &Path, metadata: &Metadata) -> bool {
        match self {
            Self::Existing => false,
            Self::MissingDir => {
                metadata.is_dir()
                    && metadata.permissions().mode() & 0o7777 == PLACEHOLDER_MODE
                    && fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
            }
            Self::MissingFile => {
                metadata.len() == PLACEHOLDER_TEXT.len() as u64
                    && fs::read_to_string(path).is_ok_and(|text| text == PLACEHOLDER_TEXT)
            }
        }
    }
}

/// The denied files in the directories that commands can read besides the roots: system directories and toolchains. They are
/// searched once, because commands cannot change them.
pub(super) fn denied_in_system(settings: &SandboxSettings) -> Vec<PathBuf> {
    let host = HostDirs::find(settings, SandboxProfile::Workspace);
    let is_searched = |dir: &PathBuf| !WITHOUT_SECRETS.iter().any(|top| dir.starts_with(top));
    let tops = host.readable.into_iter().filter(is_searched).chain([PathBuf::from(LOCAL)]);
    let mut walk = Walk { settings, writable: &[], entries: 0, found: Survey::default() };
    walk.run(tops.filter(|dir| dir.is_dir()).collect());
    walk.found.denied.into_iter().collect()
}

impl Survey {
    /// Searches the disk. `granted` paths are not protected.
    pub(super) fn take(settings: &SandboxSettings, profile: SandboxProfile, granted: &[PathBuf]) -> Self {
        let mut survey = Self::default();
        let writable = settings.writable_dirs(profile);
        for top in &writable {
            survey.add_top(top);
        }
        let agents = settings.agents_dir.iter().filter(|dir| writable.iter().any(|top| dir.starts_with(top)));
        for dir in agents {
            survey.protect(dir, Some(Protection::MissingDir));
        }
        let roots = settings.roots.iter().map(|root| &root.path).chain(&settings.readable);
        let mut walk = Walk { settings, writable: &writable, entries: 0, found: survey };
        let tops: BTreeSet<&PathBuf> = roots.chain(&settings.writable).collect();
        walk.run(tops.into_iter().cloned().collect());
        let mut survey = walk.found;
        survey.truncated = walk.entries > settings.limits.scan_entries;
        survey.denied.extend(settings.denied.iter().cloned());
        survey.denied.extend(settings.deny.existing_paths());
        survey.denied.extend(settings.data_dir.canonicalize());
        survey.drop_unwritable(&writable);
        // A file inside a protected directory is granted with the directory, because a mount protects all of it.
        let is_granted = |path: &Path| {
            granted.iter().any(|granted| path.starts_with(granted) || granted.starts_with(path))
        };
        survey.protected.retain(|path, _| !is_granted(path));
        survey.links.retain(|path, _| !is_granted(path));
        survey
    }

    /// Protects what is at the top of a writable directory.
    fn add_top(&mut self, top: &Path) {
        // A directory, although it stands for a file: git does not see empty directories, so they are never committed.
        for name in OWN_FILES {
            self.protect(&top.join(name), Some(Protection::MissingDir));
        }
        self.protect(&top.join("agents"), Some(Protection::MissingDir));
        let dot_git = top.join(".git");
        let is_repository = fs::symlink_metadata(&dot_git)
            .is_ok_and(|metadata| !Protection::MissingDir.is_placeholder(&dot_git, &metadata));
        if !is_repository {
            self.protect(&dot_git, Some(Protection::MissingDir));
        }
    }

    /// Protects a path; `missing` says how if it does not exist.
    pub(super) fn protect(&mut self, path: &Path, missing: Option<Protection>) {
        match fs::symlink_metadata(path) {
            Ok(metadata) if metadata.is_symlink() => {
                if let Ok(target) = fs::read_link(path) {
                    self.links.insert(path.to_owned(), target);
                }
                if let Ok(real) = path.canonicalize() {
                    self.protected.insert(real, Protection::Existing);
                }
            }
            Ok(metadata) => {
                // A placeholder of another command exists as long as one of the commands that use it.
                let missing = missing.filter(|missing| missing.is_placeholder(path, &metadata));
                self.protected.insert(path.to_owned(), missing.unwrap_or(Protection::Existing));
            }
            Err(_) if path.parent().is_some_and(Path::is_dir) => {
                self.protected.extend(missing.map(|missing| (path.to_owned(), missing)));
            }
            Err(_) => {}
        }
    }

    /// What is outside the writable directories is read-only anyway.
    fn drop_unwritable(&mut self, writable: &[PathBuf]) {
        let is_inside = |path: &Path| writable.iter().any(|top| path.starts_with(top) && path != top);
        self.protected.retain(|path, _| is_inside(path));
        self.links.retain(|path, _| is_inside(path));
    }
}

/// A breadth-first search, so that what is near the top is found before the limit is reached.
struct Walk<'a> {
    settings: &'a SandboxSettings,
    writable: &'a [PathBuf],
    entries: usize,
    found: Survey,
}

impl Walk<'_> {
    fn run(&mut self, mut queue: VecDeque<PathBuf>) {
        while let Some(dir) = queue.pop_front() {
            if self.entries > self.settings.limits.scan_entries {
                return;
            }
            if dir == self.settings.data_dir {
                continue;
            }
            self.visit(&dir, &mut queue);
        }
    }

    fn visit(&mut self, dir: &Path, queue: &mut VecDeque<PathBuf>) {
        let is_writable = self.writable.iter().any(|top| dir.starts_with(top));
        let mut shape = repository::Shape::default();
        let Ok(entries) = fs::read_dir(dir) else { return };
        for entry in entries.flatten() {
            self.entries += 1;
            let (name, Ok(kind)) = (entry.file_name(), entry.file_type()) else { continue };
            let is_special = name.to_str().is_some_and(|name| {
                shape.add(name);
                if self.settings.deny.matches_name(name) {
                    self.deny(&entry.path());
                }
                is_writable && self.protect(name, &entry)
            });
            if kind.is_dir() && !is_special {
                queue.push_back(entry.path());
            }
        }
        if is_writable && shape.is_git_dir() {
            repository::protect_git_dir(dir, &mut self.found);
        }
    }

    /// Protects an entry if its name says so. Returns whether it does.
    fn protect(&mut self, name: &str, entry: &fs::DirEntry) -> bool {
        let is_repository = name == ".git";
        if (!is_repository && !OWN_FILES.contains(&name)) || self.found.protected.contains_key(&entry.path())
        {
            return false;
        }
        if is_repository {
            repository::protect(&entry.path(), &mut self.found);
        } else {
            self.found.protect(&entry.path(), None);
        }
        true
    }

    fn deny(&mut self, path: &Path) {
        if self.settings.deny.denies(path) {
            self.found.denied.extend(path.canonicalize());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::settings::RootAccess, *};

    #[test]
    fn survey_of_more_files_than_the_limit_is_truncated() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        let mut settings = SandboxSettings {
            roots: vec![RootAccess { path: dir.path().to_owned(), write: false }],
            ..SandboxSettings::default()
        };
        for (limit, is_truncated) in [(2, true), (3, false)] {
            settings.limits.scan_entries = limit;
            assert_eq!(Survey::take(&settings, SandboxProfile::ReadOnly, &[]).truncated, is_truncated);
        }
    }
}
