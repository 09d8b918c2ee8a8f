//! The second stage of the helper: PID 1 of the namespace. It gives up its rights, runs the command as its child, and reaps.

use std::{
    io,
    os::{
        fd::OwnedFd,
        unix::{net::UnixStream, process::CommandExt},
    },
    process::{Command, Stdio},
    sync::atomic::Ordering,
    thread,
    time::Duration,
};

use nix::sys::signal::{Signal as NixSignal, kill};
use rustix::{
    mount::MountFlags,
    process::{Pid, Signal, WaitOptions, WaitStatus},
};

use super::{
    CommandEnd, Control, Exceeded, InitLaunch, Isolation, SandboxOutcome, channel, descendants, landlock,
    limits, namespaces, seccomp, stdin_socket,
};

/// The Landlock version that can limit signals.
const FIRST_WITH_SIGNALS: u32 = 6;

/// The main function of the second stage. All processes of the namespace end when it returns.
pub(in super::super) fn run_init() -> Result<(), String> {
    let socket = stdin_socket()?;
    let errno = |errno: rustix::io::Errno| errno.to_string();
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(errno)?;
    rustix::process::setsid().map_err(errno)?;
    let received = channel::receive::<InitLaunch>(&socket).map_err(|error| error.to_string())?;
    let Some((launch, files)) = received else { return Ok(()) };
    let outcome = confine(&launch).and_then(|()| run(&launch, files, &socket));
    let outcome = outcome.unwrap_or_else(SandboxOutcome::Failed);
    channel::send(&socket, &outcome, &[]).map_err(|error| error.to_string())
}

/// Gives up everything that the command must not have.
fn confine(launch: &InitLaunch) -> Result<(), String> {
    limits::apply(launch)?;
    match launch.isolation {
        Isolation::Namespaces => mount_proc()?,
        Isolation::Landlock => become_subreaper()?,
    }
    rustix::thread::set_no_new_privs(true).map_err(|errno| format!("no_new_privs: {errno}"))?;
    restrict_files(launch)?;
    namespaces::drop_capabilities(launch.isolation).map_err(|error| format!("capabilities: {error}"))?;
    seccomp::apply(seccomp::FilterOptions {
        profile: launch.profile,
        network: launch.network,
        unix_sockets: launch.unix_sockets,
        isolation: launch.isolation,
    })
}

/// In namespaces, Landlock is a second line of defence. Without them it is the only one, and must be able to limit signals.
fn restrict_files(launch: &InitLaunch) -> Result<(), String> {
    match (launch.isolation, landlock::restrict(&launch.files)) {
        (Isolation::Namespaces, _) | (Isolation::Landlock, Ok(FIRST_WITH_SIGNALS..)) => Ok(()),
        (Isolation::Landlock, Ok(version)) => {
            Err(format!("Landlock {version} of this kernel is too old, {FIRST_WITH_SIGNALS} is needed"))
        }
        (Isolation::Landlock, Err(why)) => Err(why),
    }
}

fn mount_proc() -> Result<(), String> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::RDONLY;
    rustix::mount::mount("proc", "/proc", "proc", flags, None)
        .map_err(|errno| format!("/proc could not be mounted: {errno}"))
}

/// Orphans of the command become children of this process.
pub(super) fn become_subreaper() -> Result<(), String> {
    let own = rustix::process::getpid();
    rustix::process::set_child_subreaper(Some(own)).map_err(|errno| format!("child subreaper: {errno}"))
}

fn run(launch: &InitLaunch, files: Vec<OwnedFd>, socket: &UnixStream) -> Result<SandboxOutcome, String> {
    let [program, args @ ..] = launch.argv.as_slice() else { return Err("no command".to_owned()) };
    let isolation = launch.isolation;
    // Before the command, which may use up all threads.
    let threads = |error: io::Error| format!("a thread of the init process: {error}");
    obey(socket.try_clone().map_err(threads)?, isolation).map_err(threads)?;
    let memory_exceeded = limits::watch_memory(launch.memory_bytes, isolation).map_err(threads)?;
    let mut command = Command::new(program);
    command.args(args).current_dir(&launch.directory).env("TMPDIR", &launch.tmp).process_group(0);
    command.stdin(files.into_iter().next().map_or_else(Stdio::null, Stdio::from));
    let child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return Ok(SandboxOutcome::CannotRun(spawn_error(program, launch, &error))),
    };
    // It holds the standard input of the command.
    drop(command);
    let shell = Pid::from_child(&child);
    let status = reap_until(shell)?;
    let left_behind = has_children()?;
    if left_behind {
        signal_all(NixSignal::SIGTERM, isolation);
        kill_after(launch.grace, isolation);
        while wait(WaitOptions::empty())?.is_some() {}
    }
    let (code, signal) = (status.exit_status(), status.terminating_signal());
    let exceeded = memory_exceeded.load(Ordering::Acquire).then_some(Exceeded::Memory).into_iter().collect();
    Ok(SandboxOutcome::Exited(CommandEnd { code, signal, left_behind, exceeded, ..CommandEnd::default() }))
}

fn spawn_error(program: &str, launch: &InitLaunch, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound if !launch.directory.is_dir() => format!(
            "its directory {} is not visible in the sandbox; add it to `readable` in [tools]",
            launch.directory.display()
        ),
        io::ErrorKind::NotFound => format!(
            "the program `{program}` is not on the PATH of the sandbox; install it, set `command` to its full path, or add its \
             directory to `readable` in [tools]"
        ),
        _ => format!("`{program}` cannot be run: {error}"),
    }
}

/// Reaps children, orphans among them, until the command ends.
fn reap_until(shell: Pid) -> Result<WaitStatus, String> {
    loop {
        match wait(WaitOptions::empty())? {
            Some((pid, status)) if pid == shell => return Ok(status),
            Some(_) => {}
            None => return Err("the command could not be waited for".to_owned()),
        }
    }
}

/// Whether processes are left after the zombies were reaped.
fn has_children() -> Result<bool, String> {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
            Ok(None) => return Ok(true),
            Err(rustix::io::Errno::CHILD) => return Ok(false),
            Err(errno) => return Err(errno.to_string()),
        }
    }
}

/// Waits for any child; `None` if there is none.
fn wait(options: WaitOptions) -> Result<Option<(Pid, WaitStatus)>, String> {
    loop {
        match rustix::process::wait(options) {
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::CHILD) => return Ok(None),
            other => return other.map_err(|errno| errno.to_string()),
        }
    }
}

/// Signals all processes of the command.
pub(super) fn signal_all(signal: NixSignal, isolation: Isolation) {
    match isolation {
        // Every process of the namespace but this one. It fails if there is none.
        Isolation::Namespaces => drop(kill(nix::unistd::Pid::from_raw(-1), signal)),
        Isolation::Landlock => descendants::signal(signal),
    }
}

/// Kills all processes after a time; at once if they have used up all threads.
fn kill_after(grace: Duration, isolation: Isolation) {
    let waiting = thread::Builder::new().spawn(move || {
        thread::sleep(grace);
        signal_all(NixSignal::SIGKILL, isolation);
    });
    if waiting.is_err() {
        signal_all(NixSignal::SIGKILL, isolation);
    }
}

/// Executes the supervisor's requests. When the supervisor is gone, this process ends, and all others with it.
fn obey(socket: UnixStream, isolation: Isolation) -> io::Result<()> {
    let obeying = thread::Builder::new().spawn(move || {
        while let Ok(Some((Control::Terminate, _))) = channel::receive::<Control>(&socket) {
            signal_all(NixSignal::SIGTERM, isolation);
        }
        signal_all(NixSignal::SIGKILL, isolation);
        std::process::exit(1);
    });
    obeying.map(drop)
}
