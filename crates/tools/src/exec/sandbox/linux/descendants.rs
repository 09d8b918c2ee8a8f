//! All descendants of this process, for systems without PID namespaces. This process must be a child subreaper, so that none
//! of them leaves the tree.

use std::{collections::BTreeMap, fs};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// Signals all descendants.
pub(super) fn signal(signal: Signal) {
    for pid in descendants() {
        // It may be gone already.
        let _ = kill(Pid::from_raw(pid), signal);
    }
}

/// Kills all descendants, those that they create meanwhile included, and reaps them.
pub(super) fn kill_all() {
    loop {
        signal(Signal::SIGKILL);
        // Blocks for a child that was killed; fails if there is none.
        if rustix::process::wait(rustix::process::WaitOptions::empty()).is_err() {
            return;
        }
    }
}

/// All processes that `/proc` shows.
pub(super) fn all_processes() -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

pub(super) fn descendants() -> Vec<i32> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for pid in all_processes() {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if let Some(parent) = parent_of(&stat) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut queue = vec![std::process::id().cast_signed()];
    while let Some(pid) = queue.pop() {
        let of_pid = children.remove(&pid).unwrap_or_default();
        found.extend(&of_pid);
        queue.extend(of_pid);
    }
    found
}

/// The parent in a line of `/proc/PID/stat`. The name of the program, in parentheses, may contain anything.
fn parent_of(stat: &str) -> Option<i32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parent_is_found_after_any_program_name() {
        assert_eq!(parent_of("12 (a) S 7 (b)) R 3 12 12 0"), Some(3));
        assert_eq!(parent_of("12"), None);
    }
}
