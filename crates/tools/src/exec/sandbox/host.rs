//! Which directories of the host commands can read: system directories, toolchains that `PATH` leads to, and the roots.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use super::{plan::HostDirs, settings::SandboxSettings};
use crate::SandboxProfile;

/// Directories with programs, libraries and their configuration. None contains users' files or sockets.
const SYSTEM: [&str; 18] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    "/sys",
    "/nix/store",
    "/nix/var/nix/profiles",
    "/run/current-system",
    "/gnu/store",
    "/snap",
    "/var/lib/dpkg",
    "/var/lib/rpm",
    "/var/lib/flatpak",
];

/// Directories of `$HOME` that programs of these toolchains read, although `PATH` does not lead there.
const COMPANIONS: [(&str, &str); 2] = [(".cargo/bin", ".rustup"), (".local/bin", ".local/lib")];

/// How many entries of a `PATH` directory are searched for links.
const MAX_LINKS: usize = 2_000;

impl HostDirs {
    pub(super) fn find(settings: &SandboxSettings, profile: SandboxProfile) -> Self {
        let mut readable: BTreeSet<PathBuf> =
            SYSTEM.iter().map(PathBuf::from).filter(|dir| dir.exists()).collect();
        readable.extend(settings.readable.iter().filter_map(|path| path.canonicalize().ok()));
        for dir in std::env::split_paths(&settings.search_path(profile)) {
            readable.extend(toolchains(&dir, settings));
        }
        // Inside a root, the root decides what is writable.
        readable.retain(|dir| !settings.roots.iter().any(|root| dir.starts_with(&root.path)));
        let existing = |dirs: Vec<PathBuf>| dirs.into_iter().filter(|dir| dir.exists()).collect();
        Self {
            readable: readable.into_iter().collect(),
            roots: existing(settings.roots.iter().map(|root| root.path.clone()).collect()),
            writable: existing(settings.writable_dirs(profile)),
        }
    }
}

/// A directory of `PATH`, where its links lead, and what those programs need.
fn toolchains(dir: &Path, settings: &SandboxSettings) -> Vec<PathBuf> {
    let mut found = Vec::new();
    // A system directory is readable already, and has many links. A home directory contains more than programs.
    if is_system(dir) || settings.home.starts_with(dir) {
        return found;
    }
    let Ok(real) = dir.canonicalize() else { return found };
    found.extend([dir.to_owned(), prefix(dir, settings), prefix(&real, settings)]);
    let entries = fs::read_dir(&real).into_iter().flatten().flatten().take(MAX_LINKS);
    for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink())) {
        let Ok(target) = entry.path().canonicalize() else { continue };
        if let Some(parent) = target.parent().filter(|parent| !is_system(parent)) {
            found.push(prefix(parent, settings));
        }
    }
    for (bin, companion) in COMPANIONS {
        let companion = settings.home.join(companion);
        found.extend((dir == settings.home.join(bin) && companion.exists()).then_some(companion));
    }
    found.sort();
    found.dedup();
    found
}

/// The directory that a toolchain is installed in: the parent of `bin` or `shims`, unless it is a directory that also contains
/// other things of the user.
fn prefix(bin: &Path, settings: &SandboxSettings) -> PathBuf {
    let is_bin = bin.file_name().is_some_and(|name| name == "bin" || name == "shims");
    let shared = [settings.home.clone(), settings.home.join(".local"), PathBuf::from("/")];
    match bin.parent() {
        Some(parent) if is_bin && !shared.iter().any(|dir| dir.starts_with(parent)) => parent.to_owned(),
        _ => bin.to_owned(),
    }
}

fn is_system(dir: &Path) -> bool {
    SYSTEM.iter().any(|system| dir.starts_with(system))
}
