//! The sandbox of commands: what the kernel lets them read, write and reach.
//!
//! Confining a child between fork and exec would need unsafe code. So the binary runs itself again, twice: `lango __confine
//! --supervise` makes namespaces and mounts, and starts `lango __confine --init`, which is PID 1 of the new PID namespace, gives
//! up its rights, and runs the command.
//!
//! | module | contents |
//! |---|---|
//! | `settings` | what commands may access, and one command |
//! | [`deny`] | the files that must not be read |
//! | `survey`, `repository` | protected and denied paths on this disk |
//! | `host` | system directories and toolchains |
//! | `plan` | the mounts, as data |
//! | `channel`, `messages` | the protocol with the helper |
//! | `linux` | the helper: supervisor, init process, mounts, Landlock, seccomp |
//! | `probe`, `limits` | tests of the guarantees and the limits for `lango doctor` |
//! | `helper` | the subcommand that runs the helper |

#[cfg_attr(target_os = "linux", path = "linux/mod.rs")]
#[cfg_attr(not(target_os = "linux"), path = "unsupported.rs")]
mod backend;
pub(crate) mod channel;
pub mod deny;
mod helper;
mod host;
mod limits;
pub(crate) mod messages;
mod plan;
mod probe;
mod repository;
mod settings;
mod survey;

use std::{
    fmt,
    os::{fd::OwnedFd, unix::net::UnixStream},
    process::{Command, Stdio},
    sync::{Arc, LazyLock},
    time::Duration,
};

pub use helper::{CONFINE, confined_main};
use helper::{INIT, SUPERVISE};
pub use limits::SandboxLimit;
use messages::{Isolation, Launch, SandboxOutcome};
pub use probe::Tested;
pub(crate) use settings::SandboxedCommand;
pub use settings::{RootAccess, SandboxConfig, SandboxLimits, SandboxSettings};

use crate::SandboxProfile;

/// The error for a program that should be confined on a system that cannot do it.
pub(crate) const NOT_CONFINED: &str =
    "cannot be confined on this system, see `lango doctor`; sandbox = \"off\" runs it without a sandbox";

/// The sandbox that commands run in.
#[derive(Debug, Clone)]
pub struct Sandbox {
    config: Option<Arc<SandboxConfig>>,
    confinement: Confinement,
}

/// What `workspace` lacks without namespaces: Landlock cannot except a part of a writable directory.
const WITHOUT_NAMESPACES: [Guarantee; 3] =
    [Guarantee::ProtectedPaths, Guarantee::DeniedFiles, Guarantee::AttributesConfined];

/// A sandbox that is built on first use, because building it starts probe processes.
#[derive(Clone)]
pub struct LazySandbox(Arc<LazyLock<Sandbox, SandboxInit>>);

type SandboxInit = Box<dyn FnOnce() -> Sandbox + Send>;

impl LazySandbox {
    pub fn new(config: SandboxConfig) -> Self {
        Self(Arc::new(LazyLock::new(Box::new(|| Sandbox::build(config)))))
    }

    /// Returns the sandbox, built on a blocking thread.
    pub(crate) async fn built(&self) -> &Sandbox {
        let building = self.clone();
        // If the thread panics, the sandbox is built here.
        let _ = tokio::task::spawn_blocking(move || drop(building.get().confinement().clone())).await;
        self.get()
    }

    /// Returns the sandbox. The first call builds it and blocks.
    pub fn get(&self) -> &Sandbox {
        &self.0
    }
}

impl From<Sandbox> for LazySandbox {
    fn from(sandbox: Sandbox) -> Self {
        Self(Arc::new(LazyLock::new(Box::new(|| sandbox))))
    }
}

impl fmt::Debug for LazySandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LazySandbox")
    }
}

/// How commands are confined on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Confinement {
    /// By namespaces, mounts, Landlock and seccomp.
    Full { network: bool, unix_sockets: bool },
    /// By Landlock and seccomp.
    Partial { network: bool, unix_sockets: bool, why: String },
    /// Not at all.
    Open { why: String },
}

/// What a profile promises. A system may be unable to keep some of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Guarantee {
    /// Nothing is written outside the writable directories.
    WritesConfined,
    /// Protected paths are not written.
    ProtectedPaths,
    /// Denied files are not read.
    DeniedFiles,
    /// Permissions, times and attributes of files outside are not changed.
    AttributesConfined,
    /// There is no network.
    NoNetwork,
    /// There are no Unix sockets.
    NoUnixSockets,
    /// No process outlives the call.
    NoSurvivors,
    /// Other processes cannot be seen or influenced.
    ProcessesHidden,
}

impl Guarantee {
    pub const ALL: [Self; 8] = [
        Self::WritesConfined,
        Self::ProtectedPaths,
        Self::DeniedFiles,
        Self::AttributesConfined,
        Self::NoNetwork,
        Self::NoUnixSockets,
        Self::NoSurvivors,
        Self::ProcessesHidden,
    ];
}

impl fmt::Display for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WritesConfined => "no writing outside the roots",
            Self::ProtectedPaths => "no writing to protected paths",
            Self::DeniedFiles => "no reading of denied files",
            Self::AttributesConfined => "no change of file attributes outside the roots",
            Self::NoNetwork => "no network",
            Self::NoUnixSockets => "no Unix sockets",
            Self::NoSurvivors => "no process outlives the call",
            Self::ProcessesHidden => "no access to other processes",
        })
    }
}

impl Sandbox {
    /// No restrictions: commands can do what this program can.
    pub fn unrestricted(why: &str) -> Self {
        Self { config: None, confinement: Confinement::Open { why: why.to_owned() } }
    }

    /// The strictest sandbox of this system. It runs commands to find out what works, and blocks.
    pub fn build(mut config: SandboxConfig) -> Self {
        config.settings.denied.extend(survey::denied_in_system(&config.settings));
        let SandboxSettings { network, unix_sockets, .. } = config.settings;
        let full = Confinement::Full { network, unix_sockets };
        let sandbox = Self { confinement: full, config: Some(Arc::new(config)) };
        let why = match sandbox.probe() {
            Ok(()) => return sandbox,
            Err(why) => why,
        };
        let partial =
            Self { confinement: Confinement::Partial { network, unix_sockets, why: why.clone() }, ..sandbox };
        match partial.probe() {
            Ok(()) => partial,
            Err(also) => Self::unrestricted(&format!("{why}; {also}")),
        }
    }

    pub fn confinement(&self) -> &Confinement {
        &self.confinement
    }

    /// What a profile promises and this system cannot keep. Empty if the profile is complete.
    pub fn missing(&self, profile: SandboxProfile) -> &'static [Guarantee] {
        match (&self.confinement, profile) {
            (Confinement::Full { .. }, _) | (Confinement::Partial { .. }, SandboxProfile::ReadOnly) => &[],
            (Confinement::Partial { .. }, SandboxProfile::Workspace) => &WITHOUT_NAMESPACES,
            (Confinement::Open { .. }, _) => &Guarantee::ALL,
        }
    }

    fn isolation(&self) -> Isolation {
        match self.confinement {
            Confinement::Full { .. } | Confinement::Open { .. } => Isolation::Namespaces,
            Confinement::Partial { .. } => Isolation::Landlock,
        }
    }

    /// The settings, if commands are confined.
    pub(crate) fn settings(&self) -> Option<&SandboxSettings> {
        self.config.as_ref().map(|config| &config.settings)
    }

    /// The command line of a supervisor, which reads its command from the other end of `socket`; `None` if commands are not
    /// confined.
    pub(crate) fn supervisor(&self, socket: UnixStream) -> Option<Command> {
        let config = self.config.as_ref()?;
        let mut command = Command::new(&config.helper);
        command.args([CONFINE, SUPERVISE]).current_dir("/").stdin(Stdio::from(OwnedFd::from(socket)));
        Some(command)
    }

    /// Sets the variables that differ in the sandbox. The helper sets `TMPDIR`.
    pub(crate) fn set_env(&self, command: &mut tokio::process::Command, profile: SandboxProfile) {
        if let Some(settings) = self.settings() {
            command.env("PATH", settings.search_path(profile));
        }
    }

    /// The message that starts a command.
    pub(crate) fn launch(&self, command: SandboxedCommand) -> Option<Launch> {
        Some(Launch { isolation: self.isolation(), settings: self.settings()?.clone(), command })
    }

    /// Runs a command that does nothing.
    fn probe(&self) -> Result<(), String> {
        let argv = ["/bin/sh", "-c", ":"].map(str::to_owned).to_vec();
        let command = SandboxedCommand {
            profile: SandboxProfile::ReadOnly,
            granted: Vec::new(),
            argv,
            directory: "/".into(),
            grace: Duration::ZERO,
        };
        match self.run_silently(command)? {
            SandboxOutcome::Exited(end) if end.code == Some(0) => Ok(()),
            SandboxOutcome::Exited(end) => Err(format!("a test command failed: {end:?}")),
            SandboxOutcome::Failed(why) | SandboxOutcome::CannotRun(why) => Err(why),
        }
    }

    /// Runs a command without output and waits for it.
    fn run_silently(&self, command: SandboxedCommand) -> Result<SandboxOutcome, String> {
        self.run_with_output(command, Stdio::null())
    }

    /// Runs a command with this standard output, and waits for it.
    fn run_with_output(&self, command: SandboxedCommand, output: Stdio) -> Result<SandboxOutcome, String> {
        let fail = |error: std::io::Error| format!("the helper could not be started: {error}");
        let (ours, theirs) = UnixStream::pair().map_err(fail)?;
        let Some(mut line) = self.supervisor(theirs) else { return Err("not confined".to_owned()) };
        line.env_clear().stdout(output).stderr(Stdio::null());
        let mut helper = line.spawn().map_err(fail)?;
        drop(line);
        let launch = self.launch(command).ok_or("not confined")?;
        let sent = channel::send(&ours, &launch, &[]);
        let outcome = sent.and_then(|()| channel::receive::<SandboxOutcome>(&ours));
        drop(ours);
        let _ = helper.wait();
        match outcome.map_err(fail)? {
            Some((outcome, _)) => Ok(outcome),
            None => Err("the helper ended without an answer".to_owned()),
        }
    }
}

impl fmt::Display for Confinement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sockets = |network: bool, unix_sockets: bool| match (network, unix_sockets) {
            (false, false) => "they have no network and no Unix sockets",
            (true, false) => "the configuration lets them use the network",
            (false, true) => "the configuration lets them use Unix sockets",
            (true, true) => "the configuration lets them use the network and Unix sockets",
        };
        match self {
            Self::Full { network, unix_sockets } => {
                let sockets = sockets(*network, *unix_sockets);
                write!(f, "Commands run in a sandbox (namespaces, Landlock, seccomp); {sockets}.")
            }
            Self::Partial { network, unix_sockets, why } => {
                let sockets = sockets(*network, *unix_sockets);
                write!(
                    f,
                    "Commands run in a sandbox without namespaces (Landlock, seccomp), because {why}; {sockets}."
                )
            }
            Self::Open { why } => write!(f, "Commands can do whatever this program can ({why})."),
        }
    }
}
