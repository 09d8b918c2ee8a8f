//! What a command created although it is protected: found after the command, and renamed so that nothing uses it.
//!
//! A mount protects what exists. A repository that a command creates can only be examined afterwards. Its files stay if they
//! cannot make git run a program.

use std::{
    fs,
    path::{Path, PathBuf},
};

use rustix::fs::AtFlags;

use super::{
    super::{messages::Launch, repository, survey::Survey},
    strict,
};

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
        restore_link(target, path);
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
    let (parent, name) = strict::open_parent(path).ok()?;
    let base = name.to_str()?;
    let free = (0..1000).map(|number| match number {
        0 => format!("{base}.{SUFFIX}"),
        number => format!("{base}.{SUFFIX}-{number}"),
    });
    let is_free =
        |new: &String| rustix::fs::statat(&parent, new.as_str(), AtFlags::SYMLINK_NOFOLLOW).is_err();
    let new = free.into_iter().find(is_free)?;
    rustix::fs::renameat(&parent, name, &parent, new.as_str()).is_ok().then(|| path.with_file_name(new))
}

/// Creates a link. If it fails, the link is missing, which makes no program run.
fn restore_link(target: &Path, path: &Path) {
    if let Ok((parent, name)) = strict::open_parent(path) {
        let _ = rustix::fs::symlinkat(target, parent, name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_behind_a_link_is_not_renamed() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        fs::create_dir_all(base.join("outside")).unwrap();
        fs::write(base.join("outside/config"), "").unwrap();
        std::os::unix::fs::symlink("outside", base.join("link")).unwrap();
        assert_eq!(rename(&base.join("link/config")), None);
        let first = base.join("outside/config.quarantined");
        assert_eq!(rename(&base.join("outside/config")), Some(first.clone()));
        fs::write(base.join("outside/config"), "").unwrap();
        assert_eq!(rename(&base.join("outside/config")), Some(base.join("outside/config.quarantined-1")));
        assert!(first.exists());
    }
}
