//! Commands do not outlive the program, however it ends: a second process of ours waits for that end.
//!
//! It reads from a pipe that the program alone writes to. Each process group is announced before its command begins, and
//! taken back when it is over. The pipe ends with the program, also by `kill -9`; the groups that are left are killed then.
//! The kernel's own signal at a parent's death would not do: it comes when the parent's *thread* ends, reaches the shell
//! without those that the shell started, and a command could switch it off.

use std::{
    collections::BTreeSet,
    fmt,
    io::{self, BufRead, Write},
    path::PathBuf,
    process::{ChildStdin, Command, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rustix::process::{Pid, Signal};

use super::confine::CONFINE;

/// The argument after [`CONFINE`] that makes the binary a watchdog.
pub(super) const WATCH: &str = "--watch";

/// Started with the first command that it is to watch.
#[derive(Clone)]
pub struct Watchdog(Option<Arc<Mutex<Post>>>);

struct Post {
    helper: PathBuf,
    groups: BTreeSet<i32>,
    line: Option<ChildStdin>,
}

impl Watchdog {
    /// `helper` is the binary that understands [`CONFINE`].
    pub fn new(helper: PathBuf) -> Self {
        Self(Some(Arc::new(Mutex::new(Post { helper, groups: BTreeSet::new(), line: None }))))
    }

    /// Nobody watches.
    pub fn none() -> Self {
        Self(None)
    }

    /// From now on the group does not outlive this program.
    pub(super) fn watch(&self, leader: Pid) -> Watched {
        let group = leader.as_raw_nonzero().get();
        if let Some(mut post) = self.post() {
            post.groups.insert(group);
            post.tell(&format!("+{group}\n"));
        }
        Watched { watchdog: self.clone(), group }
    }

    fn post(&self) -> Option<MutexGuard<'_, Post>> {
        Some(self.0.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A group that is watched as long as this is there.
pub(super) struct Watched {
    watchdog: Watchdog,
    group: i32,
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(mut post) = self.watchdog.post() {
            post.groups.remove(&self.group);
            post.tell(&format!("-{}\n", self.group));
        }
    }
}

impl Post {
    /// Whoever has killed the watchdog gets another, which is told of all groups. A command that nobody can watch runs
    /// all the same.
    fn tell(&mut self, news: &str) {
        let told = self.line.as_mut().is_some_and(|line| line.write_all(news.as_bytes()).is_ok());
        if !told && !self.groups.is_empty() {
            self.line = self.begin().ok();
        }
    }

    fn begin(&self) -> io::Result<ChildStdin> {
        let mut dog = Command::new(&self.helper)
            .args([CONFINE, WATCH])
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let mut line = dog.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        for group in &self.groups {
            writeln!(line, "+{group}")?;
        }
        Ok(line)
    }
}

impl fmt::Debug for Watchdog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watchdog")
    }
}

/// The other process: it listens until the program is gone.
pub(super) fn watch() -> Result<(), String> {
    // Keys that are pressed at the program's terminal are not for us.
    rustix::process::setsid().map_err(|errno| format!("no session of its own: {errno}"))?;
    for group in left(io::stdin().lock()) {
        let Some(leader) = Pid::from_raw(group) else { continue };
        if rustix::process::kill_process_group(leader, Signal::KILL).is_err() {
            // It may not have made its group yet.
            let _ = rustix::process::kill_process(leader, Signal::KILL);
        }
    }
    Ok(())
}

/// The groups that were announced and not taken back.
fn left(news: impl BufRead) -> BTreeSet<i32> {
    let mut groups = BTreeSet::new();
    for line in news.lines().map_while(Result::ok) {
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
    fn what_was_announced_and_not_taken_back_is_left() {
        let news = "+10\n+11\n-10\n+12\n\nx\n+1\n+-5\n+0\n+é\né\n-99\n+1";
        assert_eq!(left(news.as_bytes()).into_iter().collect::<Vec<_>>(), [11, 12]);
    }
}
