//! The mounts of a command's file system, as a pure function of the settings, the profile and what is on disk.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::survey::{Protection, Survey};
use crate::SandboxProfile;

/// The mounts in the order in which they are made: a directory before what is in it.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MountPlan {
    pub(super) mounts: Vec<(PathBuf, MountKind)>,
    /// Directories in which commands can replace paths by links. Paths inside them have none.
    pub(super) changeable: Vec<PathBuf>,
}

/// What is mounted at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum MountKind {
    /// A tmpfs with this size in bytes.
    Tmpfs(u64),
    /// The same path of the host.
    ReadOnly,
    ReadWrite,
    /// A device of the host that every user may open.
    Device,
    /// A new instance of devpts.
    Pts,
    /// An empty file or directory without permissions.
    Denied,
}

/// Devices that every process may use.
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// The parts of the host's file system that the plan depends on, besides the survey.
#[derive(Debug, Default)]
pub(super) struct HostDirs {
    /// Existing system directories and toolchains.
    pub(super) readable: Vec<PathBuf>,
    pub(super) roots: Vec<PathBuf>,
    pub(super) writable: Vec<PathBuf>,
}

impl MountPlan {
    pub(super) fn new(host: &HostDirs, survey: &Survey, profile: SandboxProfile, tmp_bytes: u64) -> Self {
        let mut mounts: BTreeMap<PathBuf, MountKind> = BTreeMap::new();
        mounts
            .extend(host.readable.iter().chain(&host.roots).map(|path| (path.clone(), MountKind::ReadOnly)));
        mounts.extend(
            [("/tmp", tmp_bytes), ("/dev/shm", tmp_bytes)]
                .map(|(path, size)| (path.into(), MountKind::Tmpfs(size))),
        );
        mounts.extend(DEVICES.map(|path| (path.into(), MountKind::Device)));
        if profile == SandboxProfile::Workspace {
            mounts.insert("/dev/pts".into(), MountKind::Pts);
        }
        mounts.extend(host.writable.iter().map(|path| (path.clone(), MountKind::ReadWrite)));
        let is_protected = |path: &Path| {
            path.ancestors()
                .any(|above| survey.protected.contains_key(above) || survey.denied.contains(above))
        };
        for path in survey.protected.keys().chain(&survey.denied) {
            let pinned = ancestors_below(path, &host.writable);
            for ancestor in pinned.into_iter().filter(|ancestor| !is_protected(ancestor)) {
                mounts.entry(ancestor).or_insert(MountKind::ReadWrite);
            }
        }
        mounts.extend(survey.protected.keys().map(|path| (path.clone(), MountKind::ReadOnly)));
        let mounted: BTreeSet<PathBuf> = mounts.keys().cloned().collect();
        let is_visible = |path: &Path| path.ancestors().any(|ancestor| mounted.contains(ancestor));
        // The mask of a directory is empty.
        let is_masked = |path: &Path| path.ancestors().skip(1).any(|above| survey.denied.contains(above));
        let denied: Vec<&PathBuf> =
            survey.denied.iter().filter(|path| is_visible(path) && !is_masked(path)).collect();
        for path in &denied {
            mounts.retain(|inner, _| !inner.starts_with(path));
        }
        mounts.extend(denied.into_iter().map(|path| (path.clone(), MountKind::Denied)));
        let changeable = host.roots.iter().chain(&host.writable).cloned().collect();
        Self { mounts: without_redundant(mounts), changeable }
    }

    /// Whether a command of this machine can replace a component of the path by a link.
    pub(super) fn is_changeable(&self, path: &Path) -> bool {
        self.changeable.iter().any(|top| path.starts_with(top))
    }

    /// The kind of the innermost mount that contains a path.
    pub(super) fn kind_at(&self, path: &Path) -> Option<MountKind> {
        let containing = self.mounts.iter().filter(|(mount, _)| path.starts_with(mount));
        containing.max_by_key(|(mount, _)| mount.components().count()).map(|(_, kind)| *kind)
    }
}

/// The directories between a writable directory and a path in it. Each becomes a mount point of its own, because a mount point
/// cannot be renamed: renaming a directory would move the protected path away, and another one could take its place. A denied
/// file would move too, past the survey of another command.
fn ancestors_below(path: &Path, writable: &[PathBuf]) -> Vec<PathBuf> {
    let Some(top) = writable.iter().filter(|top| path.starts_with(top)).min() else { return Vec::new() };
    let inside = path.ancestors().skip(1).take_while(|dir| *dir != top && dir.starts_with(top));
    inside.map(Path::to_owned).collect()
}

/// A read-only directory inside a read-only one needs no mount of its own.
fn without_redundant(mounts: BTreeMap<PathBuf, MountKind>) -> Vec<(PathBuf, MountKind)> {
    let mut kept: Vec<(PathBuf, MountKind)> = Vec::new();
    // Paths are compared by components, so a directory comes before what is in it.
    for (path, kind) in mounts {
        let around = kept
            .iter()
            .filter(|(outer, _)| path.starts_with(outer))
            .max_by_key(|(outer, _)| outer.components().count());
        let is_redundant =
            kind == MountKind::ReadOnly && around.is_some_and(|(_, outer)| *outer == MountKind::ReadOnly);
        if !is_redundant {
            kept.push((path, kind));
        }
    }
    kept
}

impl Protection {
    /// Whether the mount point must be created.
    pub(super) fn is_missing(self) -> bool {
        self != Self::Existing
    }
}

impl std::fmt::Display for MountPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (path, kind) in &self.mounts {
            let kind = match kind {
                MountKind::Tmpfs(size) => format!("tmpfs {} MB", size >> 20),
                MountKind::ReadOnly => "ro".to_owned(),
                MountKind::ReadWrite => "rw".to_owned(),
                MountKind::Device => "device".to_owned(),
                MountKind::Pts => "devpts".to_owned(),
                MountKind::Denied => "denied".to_owned(),
            };
            writeln!(f, "{kind:<12} {}", path.display())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(paths: &[&str]) -> Vec<PathBuf> {
        paths.iter().map(PathBuf::from).collect()
    }

    fn host() -> HostDirs {
        HostDirs {
            readable: paths(&["/usr", "/etc", "/u/ann/.cargo", "/usr/lib"]),
            roots: paths(&["/u/ann/project", "/data"]),
            writable: paths(&["/u/ann/project"]),
        }
    }

    fn survey() -> Survey {
        let mut survey = Survey::default();
        for path in
            ["/u/ann/project/lango.toml", "/u/ann/project/a/b/.git/config", "/u/ann/project/a/b/.git/hooks"]
        {
            survey.protected.insert(path.into(), Protection::Existing);
        }
        survey.denied =
            paths(&["/u/ann/.ssh", "/etc/shadow", "/u/ann/project/.env", "/u/ann/.cargo/credentials"])
                .into_iter()
                .collect();
        survey
    }

    #[test]
    fn workspace_keeps_protected_paths_and_their_ancestors_in_place() {
        let plan = MountPlan::new(&host(), &survey(), SandboxProfile::Workspace, 64 << 20);
        insta::assert_snapshot!(plan, @"
        ro           /data
        device       /dev/full
        device       /dev/null
        devpts       /dev/pts
        device       /dev/random
        tmpfs 64 MB  /dev/shm
        device       /dev/urandom
        device       /dev/zero
        ro           /etc
        denied       /etc/shadow
        tmpfs 64 MB  /tmp
        ro           /u/ann/.cargo
        denied       /u/ann/.cargo/credentials
        rw           /u/ann/project
        denied       /u/ann/project/.env
        rw           /u/ann/project/a
        rw           /u/ann/project/a/b
        rw           /u/ann/project/a/b/.git
        ro           /u/ann/project/a/b/.git/config
        ro           /u/ann/project/a/b/.git/hooks
        ro           /u/ann/project/lango.toml
        ro           /usr
        ");
        assert_eq!(plan.kind_at(Path::new("/u/ann/project/a/b/.git/hooks/x")), Some(MountKind::ReadOnly));
    }

    #[test]
    fn directories_above_a_denied_file_stay_in_place_and_protected_ones_read_only() {
        let mut survey = Survey::default();
        for path in ["/u/ann/project/agents", "/u/ann/project/agents/lib/.git/config"] {
            survey.protected.insert(path.into(), Protection::Existing);
        }
        survey.denied =
            paths(&["/u/ann/project/a/b/.env", "/u/ann/project/.ssh", "/u/ann/project/.ssh/id_rsa"])
                .into_iter()
                .collect();
        let host = HostDirs { readable: Vec::new(), ..host() };
        let plan = MountPlan::new(&host, &survey, SandboxProfile::Workspace, 64 << 20);
        let inside =
            plan.to_string().lines().filter(|line| line.contains("/project")).collect::<Vec<_>>().join("\n");
        insta::assert_snapshot!(inside, @"
        rw           /u/ann/project
        denied       /u/ann/project/.ssh
        rw           /u/ann/project/a
        rw           /u/ann/project/a/b
        denied       /u/ann/project/a/b/.env
        ro           /u/ann/project/agents
        ");
    }

    #[test]
    fn read_only_has_no_writable_mount_but_tmpfs() {
        let host = HostDirs { writable: Vec::new(), ..host() };
        let plan = MountPlan::new(
            &host,
            &Survey { denied: survey().denied, ..Survey::default() },
            SandboxProfile::ReadOnly,
            64 << 20,
        );
        insta::assert_snapshot!(plan, @"
        ro           /data
        device       /dev/full
        device       /dev/null
        device       /dev/random
        tmpfs 64 MB  /dev/shm
        device       /dev/urandom
        device       /dev/zero
        ro           /etc
        denied       /etc/shadow
        tmpfs 64 MB  /tmp
        ro           /u/ann/.cargo
        denied       /u/ann/.cargo/credentials
        ro           /u/ann/project
        denied       /u/ann/project/.env
        ro           /usr
        ");
    }
}
