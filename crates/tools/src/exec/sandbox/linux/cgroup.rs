//! A control group (version 2) per call, which limits the memory and the processes of the command.
//!
//! It is a child of an ancestor of this process's group, because a group that contains processes cannot limit its children, except
//! the root of the hierarchy. A user can create it where the system delegates a part of the tree, as systemd does for the
//! services of a user.

use std::{
    fs::{self, File, OpenOptions},
    io::{Read, Write},
    path::{Path, PathBuf},
};

use super::super::{messages::Exceeded, settings::SandboxLimits};

/// The prefix of the names, which the process id of a supervisor follows.
const PREFIX: &str = "lango-call-";
const CONTROLLERS: [&str; 2] = ["memory", "pids"];

/// The group of one command. It is removed when it is dropped.
#[derive(Debug)]
pub(super) struct Cgroup {
    dir: PathBuf,
    /// Opened before the namespaces are entered, because the kernel checks a migration by who opened the file.
    procs: File,
    memory_events: File,
    pids_events: File,
}

impl Cgroup {
    /// Creates a group; `None` if this process may not.
    pub(super) fn create(limits: &SandboxLimits) -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let (mount, dir) = own_directory(&mounts, &own)?;
        // A group that has the controllers is preferred to one where they must be enabled.
        let candidates = || dir.ancestors().take_while(|dir| dir.starts_with(&mount));
        let enabled =
            candidates().filter(|dir| has_controllers(dir)).find_map(|dir| Self::create_in(dir, limits));
        enabled.or_else(|| {
            // The kernel refuses it for a group with processes, unless it is the root of the hierarchy.
            let delegated = candidates().filter(|dir| enable_controllers(dir));
            delegated.into_iter().find_map(|dir| Self::create_in(dir, limits))
        })
    }

    /// Creates a group in another one, and removes those of supervisors that are gone.
    fn create_in(parent: &Path, limits: &SandboxLimits) -> Option<Self> {
        remove_stale(parent);
        let dir = parent.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&dir).ok()?;
        let created = Self::open(&dir, limits);
        if created.is_none() {
            let _ = fs::remove_dir(&dir);
        }
        created
    }

    fn open(dir: &Path, limits: &SandboxLimits) -> Option<Self> {
        let set = |name: &str, value: String| {
            OpenOptions::new()
                .write(true)
                .open(dir.join(name))
                .and_then(|mut file| file.write_all(value.as_bytes()))
        };
        set("memory.max", limits.memory_bytes.to_string()).ok()?;
        set("pids.max", limits.processes.to_string()).ok()?;
        // A kernel without swap accounting has no such file. One process of a group is killed if all cannot be.
        let _ = set("memory.swap.max", "0".to_owned());
        let _ = set("memory.oom.group", "1".to_owned());
        Some(Self {
            dir: dir.to_owned(),
            procs: OpenOptions::new().write(true).open(dir.join("cgroup.procs")).ok()?,
            memory_events: File::open(dir.join("memory.events")).ok()?,
            pids_events: File::open(dir.join("pids.events")).ok()?,
        })
    }

    /// Moves a process into the group. Its later descendants are in it too.
    pub(super) fn add(&mut self, pid: u32) -> bool {
        self.procs.write_all(pid.to_string().as_bytes()).is_ok()
    }

    /// The limits that the command reached.
    pub(super) fn exceeded(&mut self) -> Vec<Exceeded> {
        let memory = count(&mut self.memory_events, "oom_kill") > 0;
        let processes = count(&mut self.pids_events, "max") > 0;
        let found = [(memory, Exceeded::Memory), (processes, Exceeded::Processes)];
        found.into_iter().filter(|(is_exceeded, _)| *is_exceeded).map(|(_, limit)| limit).collect()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // A group that still has processes stays, and is removed by a later call.
        let _ = fs::remove_dir(&self.dir);
    }
}

/// The mount point of the hierarchy, and the directory of the group that this process is in.
fn own_directory(mounts: &str, own: &str) -> Option<(PathBuf, PathBuf)> {
    let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let (root, mount) = mounts.lines().find_map(|line| {
        let (fields, rest) = line.split_once(" - ")?;
        let mut fields = fields.split(' ').skip(3);
        rest.starts_with("cgroup2 ").then_some((fields.next()?, fields.next()?))
    })?;
    let inside = Path::new(path).strip_prefix(root).ok()?;
    // `join` with an empty path would add a slash.
    let dir = Path::new(mount).components().chain(inside.components()).collect();
    Some((PathBuf::from(mount), dir))
}

fn has_controllers(dir: &Path) -> bool {
    let enabled = fs::read_to_string(dir.join("cgroup.subtree_control")).unwrap_or_default();
    CONTROLLERS.iter().all(|name| enabled.split_whitespace().any(|enabled| enabled == *name))
}

fn enable_controllers(dir: &Path) -> bool {
    let file = OpenOptions::new().write(true).open(dir.join("cgroup.subtree_control"));
    file.and_then(|mut file| file.write_all(b"+memory +pids")).is_ok() && has_controllers(dir)
}

/// Removes groups without processes whose supervisor was killed.
fn remove_stale(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists() || pid == std::process::id()) {
            // It fails while processes are left.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// A number in a file of lines with a name and a number.
fn count(file: &mut File, name: &str) -> u64 {
    let mut text = String::new();
    let _ = file.read_to_string(&mut text);
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.filter(|(key, _)| *key == name).find_map(|(_, value)| value.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_group_is_found_below_the_mount_of_the_second_version() {
        let mounts = "30 24 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      31 24 0:27 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
        let own = "4:memory:/other\n0::/user.slice/app.scope\n";
        let found = own_directory(mounts, own).unwrap();
        assert_eq!(found, ("/sys/fs/cgroup".into(), "/sys/fs/cgroup/user.slice/app.scope".into()));
        let root = own_directory(mounts, "0::/\n").unwrap();
        assert_eq!(root.0.as_os_str(), root.1.as_os_str());
        assert_eq!(own_directory("30 24 0:26 / /sys/fs/cgroup rw - cgroup cgroup rw", own), None);
    }

    #[test]
    fn limits_are_written_and_events_are_read() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["memory.max", "pids.max", "memory.oom.group", "cgroup.procs"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        fs::write(dir.path().join("memory.events"), "low 0\noom 1\noom_kill 1\n").unwrap();
        fs::write(dir.path().join("pids.events"), "max 0\n").unwrap();
        let limits = SandboxLimits { memory_bytes: 64 << 20, processes: 500, ..SandboxLimits::default() };
        let mut cgroup = Cgroup::open(dir.path(), &limits).unwrap();
        assert!(cgroup.add(77));
        assert_eq!(cgroup.exceeded(), [Exceeded::Memory]);
        for (name, text) in [("memory.max", "67108864"), ("pids.max", "500"), ("cgroup.procs", "77")] {
            assert_eq!(fs::read_to_string(dir.path().join(name)).unwrap(), text);
        }
    }

    #[test]
    fn groups_of_supervisors_that_are_gone_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (gone, alive) =
            (dir.path().join(format!("{PREFIX}{}", u32::MAX)), dir.path().join(format!("{PREFIX}1")));
        for dir in [&gone, &alive, &dir.path().join("other")] {
            fs::create_dir(dir).unwrap();
        }
        remove_stale(dir.path());
        assert!(!gone.exists() && alive.exists() && dir.path().join("other").exists());
    }
}
