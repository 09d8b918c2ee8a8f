//! Limits of a command that the init process sets for itself and its descendants, and the memory limit without a cgroup.

use std::{
    fs, io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use nix::sys::signal::Signal;
use rustix::process::{Resource, Rlimit};

use super::{InitLaunch, Isolation, descendants, init};

/// The first kernel that counts `RLIMIT_NPROC` per user namespace. Before, all processes of the user count.
const NPROC_PER_NAMESPACE: (u32, u32) = (5, 14);
/// The first kernel with a `pid_max` per PID namespace. Before, it is a setting of the whole machine.
const PID_MAX_PER_NAMESPACE: (u32, u32) = (6, 14);
/// Numbers below are not used again after the first round.
const RESERVED_PIDS: u64 = 300;
/// The kernel kills processes with this score first when the machine has no memory left.
const FIRST_VICTIM: &str = "1000";
/// How often the memory of a command is added up: after the time in which it could allocate the rest at this speed.
const BYTES_PER_SECOND: u64 = 8 << 30;
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(2);

/// Sets all limits. `/proc` is still the host's.
pub(super) fn apply(launch: &InitLaunch) -> Result<(), String> {
    set_limit(Resource::Core, 0)?;
    set_limit(Resource::Fsize, launch.file_bytes)?;
    // Without it, the kernel chooses by the size of a process.
    let _ = fs::write("/proc/self/oom_score_adj", FIRST_VICTIM);
    let Some(processes) = launch.processes.filter(|_| launch.isolation == Isolation::Namespaces) else {
        return Ok(());
    };
    let kernel = kernel_version(&rustix::system::uname().release().to_string_lossy());
    if kernel >= PID_MAX_PER_NAMESPACE {
        // Read-only in some containers. The doctor tests whether the limit holds.
        let _ = fs::write("/proc/sys/kernel/pid_max", (processes + RESERVED_PIDS).to_string());
    }
    if kernel >= NPROC_PER_NAMESPACE {
        set_limit(Resource::Nproc, processes)?;
    }
    Ok(())
}

/// Lowers a limit; a lower one stays.
fn set_limit(resource: Resource, limit: u64) -> Result<(), String> {
    let current = rustix::process::getrlimit(resource);
    let lowered = |current: Option<u64>| Some(current.map_or(limit, |current| current.min(limit)));
    let new = Rlimit { current: lowered(current.current), maximum: lowered(current.maximum) };
    rustix::process::setrlimit(resource, new).map_err(|errno| format!("limits: {errno}"))
}

/// The first two numbers of a release such as `6.14.0-rc1`; zeros if it has none.
fn kernel_version(release: &str) -> (u32, u32) {
    let mut numbers = release.split(|character: char| !character.is_ascii_digit());
    let mut next = || numbers.next().and_then(|number| number.parse().ok()).unwrap_or_default();
    (next(), next())
}

/// Kills the command when its processes use more memory than `bytes`. The result says whether that happened.
pub(super) fn watch_memory(bytes: Option<u64>, isolation: Isolation) -> io::Result<Arc<AtomicBool>> {
    let exceeded = Arc::new(AtomicBool::new(false));
    let (Some(bytes), flag) = (bytes, exceeded.clone()) else { return Ok(exceeded) };
    // The thread ends with this process, which ends with the command.
    thread::Builder::new().spawn(move || {
        let mut used = 0;
        loop {
            thread::sleep(interval(bytes, used));
            used = private_memory(isolation);
            if used > bytes {
                flag.store(true, Ordering::Release);
                init::signal_all(Signal::SIGKILL, isolation);
            }
        }
    })?;
    Ok(exceeded)
}

fn interval(limit: u64, used: u64) -> Duration {
    let rest = limit.saturating_sub(used).saturating_mul(1_000) / BYTES_PER_SECOND;
    Duration::from_millis(rest).clamp(SHORTEST, LONGEST)
}

/// The resident memory of all processes of the command, without what they share with files and each other.
fn private_memory(isolation: Isolation) -> u64 {
    let processes = match isolation {
        Isolation::Namespaces => descendants::all_processes(),
        Isolation::Landlock => descendants::descendants(),
    };
    let page = rustix::param::page_size() as u64;
    let pages = processes.into_iter().map(|pid| {
        let text = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
        private_pages(&text)
    });
    pages.sum::<u64>() * page
}

/// Resident pages minus shared ones, from `/proc/PID/statm`.
fn private_pages(statm: &str) -> u64 {
    let mut numbers = statm.split(' ').skip(1).map(|number| number.parse::<u64>().unwrap_or_default());
    let (resident, shared) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    resident.saturating_sub(shared)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_versions_are_compared_by_number() {
        assert_eq!(kernel_version("6.18.44-x"), (6, 18));
        assert_eq!(kernel_version("5.4-rc1"), (5, 4));
        assert_eq!(kernel_version("unknown"), (0, 0));
        assert!(kernel_version("5.15.0") < PID_MAX_PER_NAMESPACE);
    }

    #[test]
    fn memory_is_checked_more_often_near_the_limit() {
        assert_eq!(interval(64 << 30, 0), LONGEST);
        assert_eq!(interval(16 << 30, 8 << 30), Duration::from_secs(1));
        assert_eq!(interval(1 << 30, 2 << 30), SHORTEST);
    }

    #[test]
    fn private_pages_are_resident_without_shared() {
        assert_eq!(private_pages("1000 300 120 5 0 200 0"), 180);
        assert_eq!(private_pages(""), 0);
    }
}
