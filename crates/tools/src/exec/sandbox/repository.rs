//! The files of git repositories that decide which programs git runs.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::survey::{Protection, Survey};

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
