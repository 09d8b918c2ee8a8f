//! What a command created although it is protected: found after the command, and renamed so that nothing uses it.
//!
//! A mount protects what exists. A repository that a command creates can only be examined afterwards. Its files stay if they
//! cannot make git run a program.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use super::super::{messages::Launch, repository, survey::Survey};

const SUFFIX: &str = "quarantined";

/// Renames what is new since `before` and could run a program, restores links, and returns the new paths. This process must see
/// the host's file system.
pub(super) fn quarantine(launch: &Launch, before: &Survey) -> Vec<PathBuf> {
    let command = &launch.command;
    let after = Survey::take(&launch.settings, command.profile, &command.granted);
    let is_new =
        |path: &&PathBuf| !before.protected.contains_key(*path) && fs::symlink_metadata(path).is_ok();
    let git_files = after.protected.keys().chain(after.links.keys()).filter(|path| is_git_file(path));
    let suspect = git_files.filter(is_new).filter(|path| !before.links.contains_key(*path));
    let mut renamed: Vec<PathBuf> = suspect
        .filter(|path| {
            !repository::is_harmless(path, |git_dir| before.protected.contains_key(&git_dir.join("config")))
        })
        .filter_map(|path| rename(path))
        .collect();
    for (path, target) in &before.links {
        if fs::read_link(path).is_ok_and(|now| now == *target) {
            continue;
        }
        renamed.extend(rename(path));
        // If it fails, the link is missing, which makes no program run.
        let _ = symlink(target, path);
    }
    renamed
}

/// New configuration of this program below the top of a root needs trust before it is used.
fn is_git_file(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| repository::FILES.contains(&name))
}

/// Renames a file beside itself, and returns the new path.
fn rename(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let free = (0..1000).map(|number| {
        path.with_file_name(match number {
            0 => format!("{name}.{SUFFIX}"),
            number => format!("{name}.{SUFFIX}-{number}"),
        })
    });
    let target = free.into_iter().find(|path| fs::symlink_metadata(path).is_err())?;
    fs::rename(path, &target).is_ok().then_some(target)
}
