//! The files of git repositories that decide which programs git runs.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::survey::{Protection, Survey};

/// The protected files of git directories, and the pointer to one.
pub(super) const FILES: [&str; 6] = [".git", "config", "config.worktree", "hooks", "commondir", "gitdir"];

/// Keys of a configuration that `git init` and `git clone` write. None makes git run a program.
const HARMLESS_KEYS: [(&str, &[&str]); 3] = [
    (
        "core",
        &[
            "repositoryformatversion",
            "filemode",
            "bare",
            "logallrefupdates",
            "ignorecase",
            "precomposeunicode",
            "symlinks",
        ],
    ),
    ("remote", &["url", "fetch"]),
    ("branch", &["remote", "merge"]),
];

/// How deep submodules may be nested.
const MAX_NESTING: usize = 8;

/// The names in a directory that show that it is a git directory.
#[derive(Debug, Default)]
pub(super) struct Shape {
    head: bool,
    objects: bool,
    refs: bool,
}

impl Shape {
    pub(super) fn add(&mut self, name: &str) {
        match name {
            "HEAD" => self.head = true,
            "objects" => self.objects = true,
            "refs" => self.refs = true,
            _ => {}
        }
    }

    pub(super) fn is_git_dir(&self) -> bool {
        self.head && self.objects && self.refs
    }
}

/// Protects the repository of a `.git`, which is a directory, or a file that names one.
pub(super) fn protect(dot_git: &Path, survey: &mut Survey) {
    if dot_git.is_dir() {
        if dot_git.is_symlink() {
            survey.protect(dot_git, None);
        }
        let Ok(dir) = dot_git.canonicalize() else { return };
        return protect_git_dir(&dir, survey);
    }
    survey.protect(dot_git, None);
    if let Some(dir) = pointed_dir(dot_git, "gitdir:") {
        protect_git_dir(&dir, survey);
    }
}

/// Protects a git directory with its submodules and worktrees.
pub(super) fn protect_git_dir(dir: &Path, survey: &mut Survey) {
    protect_nested(dir, survey, MAX_NESTING);
}

fn protect_nested(dir: &Path, survey: &mut Survey, depth: usize) {
    let common = pointed_dir(&dir.join("commondir"), "");
    for name in ["commondir", "config.worktree"] {
        survey.protect(&dir.join(name), None);
    }
    // A worktree has the hooks and the configuration of its common directory.
    if common.is_none() {
        survey.protect(&dir.join("config"), Some(Protection::MissingFile));
        survey.protect(&dir.join("hooks"), Some(Protection::MissingDir));
        if uses_worktree_config(dir) {
            survey.protect(&dir.join("config.worktree"), Some(Protection::MissingFile));
        }
    }
    if depth == 0 {
        return;
    }
    if let Some(common) = common.filter(|common| common != dir) {
        protect_nested(&common, survey, depth - 1);
    }
    for worktree in subdirs(&dir.join("worktrees")) {
        for name in ["commondir", "gitdir", "config.worktree"] {
            survey.protect(&worktree.join(name), None);
        }
    }
    protect_modules(&dir.join("modules"), survey, depth - 1);
}

/// The name of a submodule may contain `/`, so its git directory may be deeper.
fn protect_modules(dir: &Path, survey: &mut Survey, depth: usize) {
    for module in subdirs(dir) {
        if module.join("HEAD").exists() {
            protect_nested(&module, survey, depth);
        } else if depth > 0 {
            protect_modules(&module, survey, depth - 1);
        }
    }
}

fn subdirs(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

/// The directory that a file names, relative to its own.
fn pointed_dir(file: &Path, prefix: &str) -> Option<PathBuf> {
    let text = fs::read_to_string(file).ok()?;
    let target = text.strip_prefix(prefix)?.trim();
    file.parent()?.join(target).canonicalize().ok()
}

fn uses_worktree_config(dir: &Path) -> bool {
    fs::read_to_string(dir.join("config")).is_ok_and(|text| text.to_lowercase().contains("worktreeconfig"))
}

/// Whether a new file of a repository cannot make git run a program. `is_protected` says whether a git directory was protected
/// before the file was created.
pub(super) fn is_harmless(path: &Path, is_protected: impl Fn(&Path) -> bool) -> bool {
    let is_link = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
    let owner_of_worktree = |dir: &Path| {
        dir.parent().filter(|parent| parent.ends_with("worktrees"))?.parent().map(Path::to_owned)
    };
    match path.file_name().and_then(|name| name.to_str()) {
        _ if is_link => false,
        Some("config" | "config.worktree") => {
            fs::read_to_string(path).is_ok_and(|text| is_harmless_config(&text))
        }
        Some("hooks") => only_samples(path),
        Some("gitdir") => true,
        // A worktree of a protected repository.
        Some("commondir") => path.parent().and_then(owner_of_worktree).is_some_and(|owner| {
            is_protected(&owner) && pointed_dir(path, "").is_some_and(|common| common == owner)
        }),
        Some(".git") => pointed_dir(path, "gitdir:")
            .and_then(|dir| owner_of_worktree(&dir))
            .is_some_and(|owner| is_protected(&owner)),
        _ => false,
    }
}

/// Git runs a hook by its exact name, so a file with another name is never run.
fn only_samples(hooks: &Path) -> bool {
    let Ok(mut entries) = fs::read_dir(hooks) else { return false };
    entries.all(|entry| {
        entry.is_ok_and(|entry| entry.path().extension().is_some_and(|extension| extension == "sample"))
    })
}

/// Whether a configuration has only [`HARMLESS_KEYS`]. What is not understood is not harmless.
fn is_harmless_config(text: &str) -> bool {
    let mut keys: Option<&[&str]> = None;
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', ';'])).all(|line| {
        if let Some(section) = line.strip_prefix('[') {
            let Some(section) = section.strip_suffix(']') else { return false };
            let name = section.split(' ').next().unwrap_or_default().to_lowercase();
            keys = HARMLESS_KEYS.iter().find(|(known, _)| *known == name).map(|(_, keys)| *keys);
            return keys.is_some();
        }
        let Some((key, value)) = line.split_once('=') else { return false };
        // `::` in an address names a helper program. A backslash continues a line or escapes a character.
        let is_plain = !value.contains("::") && !value.contains('\\');
        is_plain && keys.is_some_and(|keys| keys.contains(&key.trim().to_lowercase().as_str()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_of_git_init_and_clone_is_harmless() {
        let clone = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n[remote \"origin\"]\n\turl = https://example.com/x.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n";
        assert!(is_harmless_config(clone));
        for text in [
            "[core]\n\tfsmonitor = touch x\n",
            "[core]\nhooksPath=x",
            "[include]\n\tpath = x\n",
            "[core] fsmonitor = x\n",
            "[remote \"o\"]\n\turl = ext::sh -c x\n",
            "[remote \"o\"]\n\tuploadpack = x\n",
            "[core]\n\tbare = false \\\n fsmonitor = x",
            "bare = false",
            "[core]\n\tbare\n",
            "[filter \"x\"]\n\tclean = x\n",
        ] {
            assert!(!is_harmless_config(text), "{text}");
        }
    }
}
