//! A watchdog process that kills all commands when this program dies, even by SIGKILL.
//!
//! The watchdog reads from a pipe that only this program writes to. Each process group is registered before its command
//! begins, and released after its end. When the program dies, the pipe closes, and the watchdog kills the groups that are
//! still registered. `PR_SET_PDEATHSIG` would not suffice: it fires when the parent's *thread* ends, it reaches the shell
//! but not its children, and a command can reset it.

use lock::LockExt;
use std::{
    collections::BTreeSet,
    fmt,
    io::{self, BufRead, Write},
    path::PathBuf,
    process::{ChildStdin, Command, Stdio},
    sync::{Arc, Mutex, MutexGuard},
};

use rustix::process::{Pid, Signal};

use super::sandbox::CONFINE;

/// The argument after [`CONFINE`] that runs the binary as the watchdog.
pub(super) const WATCH: &str = "--watch";

/// A handle of the watchdog process, which is started with the first command.
#[derive(Clone)]
pub struct Watchdog(Option<Arc<Mutex<WatchdogState>>>);

struct WatchdogState {
    helper: PathBuf,
    /// The registered process groups.
    groups: BTreeSet<i32>,
    /// The pipe to the watchdog, if it is running.
    pipe: Option<ChildStdin>,
}

impl Watchdog {
    /// `helper` is the binary that understands [`CONFINE`].
    pub fn new(helper: PathBuf) -> Self {
        Self(Some(Arc::new(Mutex::new(WatchdogState { helper, groups: BTreeSet::new(), pipe: None }))))
    }

    /// A handle without a watchdog process.
    pub fn disabled() -> Self {
        Self(None)
    }

    /// Registers a process group until the result is dropped.
    pub(super) fn register(&self, leader: Pid) -> WatchedGroup {
        let group = leader.as_raw_nonzero().get();
        if let Some(mut state) = self.lock() {
            state.groups.insert(group);
            state.send(&format!("+{group}\n"));
        }
        WatchedGroup { watchdog: self.clone(), group }
    }

    fn lock(&self) -> Option<MutexGuard<'_, WatchdogState>> {
        Some(self.0.as_ref()?.locked())
    }
}

/// A registered process group. Dropping it releases the group.
pub(super) struct WatchedGroup {
    watchdog: Watchdog,
    group: i32,
}

impl Drop for WatchedGroup {
    fn drop(&mut self) {
        if let Some(mut state) = self.watchdog.lock() {
            state.groups.remove(&self.group);
            state.send(&format!("-{}\n", self.group));
        }
    }
}

impl WatchdogState {
    /// Sends a line to the watchdog. If the watchdog was killed, a new one is started with all groups. If that fails,
    /// commands run without it.
    fn send(&mut self, line: &str) {
        let sent = self.pipe.as_mut().is_some_and(|pipe| pipe.write_all(line.as_bytes()).is_ok());
        if !sent && !self.groups.is_empty() {
            self.pipe = self.start().ok();
        }
    }

    fn start(&self) -> io::Result<ChildStdin> {
        let mut watchdog = Command::new(&self.helper)
            .args([CONFINE, WATCH])
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let mut pipe = watchdog.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        for group in &self.groups {
            writeln!(pipe, "+{group}")?;
        }
        Ok(pipe)
    }
}

impl fmt::Debug for Watchdog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watchdog")
    }
}

/// The main function of the watchdog process: waits for the end of the pipe, then kills the registered groups.
pub(super) fn run_watchdog() -> Result<(), String> {
    // A new session, so that signals from the program's terminal (Ctrl-C) do not reach the watchdog.
    rustix::process::setsid().map_err(|errno| format!("setsid failed: {errno}"))?;
    for group in registered_groups(io::stdin().lock()) {
        let Some(leader) = Pid::from_raw(group) else { continue };
        if rustix::process::kill_process_group(leader, Signal::KILL).is_err() {
            // The helper may not have created its group yet.
            let _ = rustix::process::kill_process(leader, Signal::KILL);
        }
    }
    Ok(())
}

/// The groups that were registered and not released at the end of the pipe.
fn registered_groups(pipe: impl BufRead) -> BTreeSet<i32> {
    let mut groups = BTreeSet::new();
    for line in pipe.lines().map_while(Result::ok) {
        let number = |sign| line.strip_prefix(sign).and_then(|number| number.parse::<i32>().ok());
        if let Some(group) = number('+').filter(|group| *group > 1) {
            groups.insert(group);
        } else if let Some(group) = number('-') {
            groups.remove(&group);
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn released_and_invalid_groups_are_not_killed() {
        let lines = "+10\n+11\n-10\n+12\n\nx\n+1\n+-5\n+0\n+é\né\n-99\n+1";
        assert_eq!(registered_groups(lines.as_bytes()).into_iter().collect::<Vec<_>>(), [11, 12]);
    }
}
