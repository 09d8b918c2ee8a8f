//! The first stage of the helper: makes the namespaces and mounts, starts the init process, and outlives it.
//!
//! The supervisor has one thread, as `unshare` requires, and stays outside the new PID namespace. When this program dies, the
//! socket to it closes, and the supervisor kills the init process and with it all processes of the namespace.

use std::{
    fs::{self, DirBuilder, File},
    os::{
        fd::{AsFd, OwnedFd},
        unix::{fs::DirBuilderExt, net::UnixStream, process::ExitStatusExt},
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use rustix::event::{PollFd, PollFlags};

use super::{
    super::{
        CONFINE, INIT,
        plan::{HostDirs, MountPlan},
        settings::SandboxSettings,
        survey::Survey,
    },
    CommandEnd, Control, InitLaunch, Isolation, Launch, SandboxOutcome,
    cgroup::Cgroup,
    channel, descendants, init,
    landlock::{Denial, FileRules, ReadRules},
    mounts, namespaces,
    placeholder::Placeholders,
    quarantine,
    renewal::MountRenewal,
    stdin_socket,
};
use crate::SandboxProfile;

/// The main function of the first stage.
pub(in super::super) fn run_supervisor() -> Result<(), String> {
    // A new session, so that signals from the program's terminal (Ctrl-C) do not reach the command.
    rustix::process::setsid().map_err(|errno| format!("setsid failed: {errno}"))?;
    let socket = stdin_socket()?;
    let received = channel::receive::<Launch>(&socket).map_err(|error| error.to_string())?;
    let Some((launch, files)) = received else { return Ok(()) };
    let outcome = supervise(&socket, &launch, &files).unwrap_or_else(SandboxOutcome::Failed);
    // If this program is gone, nobody needs the outcome.
    let _ = channel::send(&socket, &outcome, &[]);
    Ok(())
}

fn supervise(socket: &UnixStream, launch: &Launch, files: &[OwnedFd]) -> Result<SandboxOutcome, String> {
    let (settings, command) = (&launch.settings, &launch.command);
    let survey = Survey::take(settings, command.profile, &command.granted);
    if survey.truncated {
        return Ok(SandboxOutcome::CannotRun(too_many_entries(settings)));
    }
    let host = HostDirs::find(settings, command.profile);
    let mut cgroup = Cgroup::create(&settings.limits);
    let mut call = Call { socket, launch, files, cgroup: cgroup.as_mut(), renewal: None };
    let mut outcome = match launch.isolation {
        Isolation::Namespaces => supervise_isolated(&mut call, &host, &survey),
        Isolation::Landlock => supervise_restricted(&mut call, &host, &survey),
    }?;
    if let (SandboxOutcome::Exited(end), Some(cgroup)) = (&mut outcome, &mut cgroup) {
        end.exceeded.extend(cgroup.exceeded());
    }
    if let SandboxOutcome::Exited(end) = &mut outcome
        && command.profile == SandboxProfile::Workspace
    {
        end.quarantined = quarantine::quarantine(launch, &survey);
    }
    Ok(outcome)
}

/// A file that was not found could not be protected.
fn too_many_entries(settings: &SandboxSettings) -> String {
    format!(
        "the roots have more than {} files, too many to find all protected and denied ones; name smaller directories in `roots`, \
         `readable` and `writable` of [tools] in lango.toml",
        settings.limits.scan_entries
    )
}

/// What is needed to run the command of a call.
struct Call<'a> {
    socket: &'a UnixStream,
    launch: &'a Launch,
    files: &'a [OwnedFd],
    /// `None` where this process cannot create one.
    cgroup: Option<&'a mut Cgroup>,
    /// With namespaces: keeps the mounts of protected and denied paths.
    renewal: Option<MountRenewal>,
}

/// In namespaces of its own. Afterwards this process sees the host's file system again.
fn supervise_isolated(
    call: &mut Call<'_>,
    host: &HostDirs,
    survey: &Survey,
) -> Result<SandboxOutcome, String> {
    let (settings, command) = (&call.launch.settings, &call.launch.command);
    let plan = MountPlan::new(host, survey, command.profile, settings.limits.tmp_bytes);
    let host_root = File::open("/").map_err(|error| format!("/: {error}"))?;
    let placeholders = Placeholders::create(survey)?;
    let own = ["/tmp", "/dev/shm", "/dev/null", "/dev/zero", "/dev/full", "/dev/pts"].map(PathBuf::from);
    let writable = host.writable.iter().cloned().chain(own).collect();
    let rules = FileRules { writable, readable: None };
    let outcome = enter(&plan, settings.network).and_then(|renewal| {
        call.renewal = Some(renewal);
        run_init_process(call, init_launch(call.launch, rules, "/tmp".into()))
    });
    placeholders.remove(&host_root);
    outcome
}

/// Without namespaces: Landlock and seccomp confine the command, and all its descendants are killed at the end.
fn supervise_restricted(
    call: &mut Call<'_>,
    host: &HostDirs,
    survey: &Survey,
) -> Result<SandboxOutcome, String> {
    init::become_subreaper()?;
    let tmp = call.launch.settings.data_dir.join("tmp").join(format!("call-{}", std::process::id()));
    let create = DirBuilder::new().recursive(true).mode(0o700).create(&tmp);
    create.map_err(|error| format!("{}: {error}", tmp.display()))?;
    let devices =
        ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/proc"].map(PathBuf::from);
    let tops: Vec<PathBuf> =
        host.readable.iter().chain(&host.roots).cloned().chain(devices.clone()).collect();
    let readable = ReadRules::carve(&tops, |path| denial(path, survey));
    let null = devices.into_iter().take(3);
    let writable = host.writable.iter().cloned().chain(null).chain([tmp.clone()]).collect();
    let rules = FileRules { writable, readable: Some(readable) };
    let outcome = run_init_process(call, init_launch(call.launch, rules, tmp.clone()));
    descendants::kill_all();
    // What cannot be removed stays in the data directory.
    let _ = fs::remove_dir_all(&tmp);
    outcome
}

fn denial(path: &Path, survey: &Survey) -> Denial {
    match path {
        _ if survey.denied.contains(path) => Denial::Whole,
        _ if survey.denied.iter().any(|denied| denied.starts_with(path)) => Denial::Inside,
        _ => Denial::None,
    }
}

/// The init process is moved to the cgroup before it gets the command, so that the command is in it from its start.
fn run_init_process(call: &mut Call<'_>, message: InitLaunch) -> Result<SandboxOutcome, String> {
    let (ours, theirs) = UnixStream::pair().map_err(|error| error.to_string())?;
    let mut init = start_init(theirs)?;
    let is_limited = call.cgroup.as_mut().is_some_and(|cgroup| cgroup.add(init.id()));
    let message =
        if is_limited { InitLaunch { memory_bytes: None, processes: None, ..message } } else { message };
    let files: Vec<_> = call.files.iter().map(AsFd::as_fd).collect();
    channel::send(&ours, &message, &files).map_err(|error| format!("the init process failed: {error}"))?;
    Ok(relay(call, &ours, &mut init))
}

fn enter(plan: &MountPlan, network: bool) -> Result<MountRenewal, String> {
    namespaces::enter(network)?;
    if !network {
        namespaces::bring_up_loopback().map_err(|error| error.to_string())?;
    }
    mounts::apply(plan)?;
    namespaces::keep_capabilities().map_err(|error| format!("capabilities: {error}"))?;
    MountRenewal::new(plan).map_err(|error| format!("the table of mounts: {error}"))
}

fn init_launch(launch: &Launch, files: FileRules, tmp: PathBuf) -> InitLaunch {
    let (settings, command) = (&launch.settings, &launch.command);
    InitLaunch {
        argv: command.argv.clone(),
        directory: command.directory.clone(),
        grace: command.grace,
        profile: command.profile,
        network: settings.network,
        unix_sockets: settings.unix_sockets,
        file_bytes: settings.limits.file_bytes,
        memory_bytes: Some(settings.limits.memory_bytes),
        processes: Some(settings.limits.processes),
        isolation: launch.isolation,
        files,
        tmp,
    }
}

/// The new process has the PID 1 in its namespace. It is this executable, found by the kernel and not by a name.
fn start_init(socket: UnixStream) -> Result<Child, String> {
    let mut command = Command::new("/proc/self/exe");
    command.args([CONFINE, INIT]).stdin(Stdio::from(OwnedFd::from(socket)));
    command.spawn().map_err(|error| format!("the init process could not be started: {error}"))
}

/// Forwards requests to the init process, and renews mounts, until it ends.
fn relay(call: &mut Call<'_>, init_socket: &UnixStream, init: &mut Child) -> SandboxOutcome {
    let mut listening = true;
    let outcome = loop {
        let renewal = &mut call.renewal;
        let [from_program, from_init, is_changed] =
            wait_readable(call.socket, init_socket, (listening, renewal.as_ref()));
        // What is unprotected must not be reachable.
        if is_changed && renewal.as_mut().is_some_and(|renewal| renewal.renew().is_err()) {
            let _ = init.kill();
        }
        if from_program {
            if let Ok(Some((request, _))) = channel::receive::<Control>(call.socket) {
                // If the init process is gone, its socket says so.
                let _ = channel::send(init_socket, &request, &[]);
            } else {
                let _ = init.kill();
                listening = false;
            }
        }
        if from_init {
            break channel::receive::<SandboxOutcome>(init_socket).ok().flatten();
        }
    };
    let status = init.wait();
    outcome.map_or_else(
        || {
            let status = status.ok();
            let code = status.and_then(|status| status.code());
            let signal = status.and_then(|status| status.signal());
            SandboxOutcome::Exited(CommandEnd { code, signal, ..CommandEnd::default() })
        },
        |(outcome, _)| outcome,
    )
}

/// Waits until one of the sockets has data or is closed, or mounts changed.
fn wait_readable(
    program: &UnixStream,
    init: &UnixStream,
    (listening, renewal): (bool, Option<&MountRenewal>),
) -> [bool; 3] {
    // The processes are being killed if nobody listens.
    let table = renewal.filter(|_| listening);
    let mut polled = vec![PollFd::new(init, PollFlags::IN)];
    polled.extend(listening.then(|| PollFd::new(program, PollFlags::IN)));
    polled.extend(table.map(|renewal| PollFd::from_borrowed_fd(renewal.changes(), PollFlags::PRI)));
    // An interrupted call reports nothing, and is repeated by the caller.
    let ready = rustix::event::poll(&mut polled, table.and_then(MountRenewal::timeout).as_ref());
    let is_ready = |at: usize| polled.get(at).is_some_and(|polled| !polled.revents().is_empty());
    [listening && is_ready(1), is_ready(0), is_ready(2) || ready == Ok(0)]
}
