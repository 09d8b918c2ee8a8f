//! The sandbox of commands: no writes outside of the roots, and no network.
//!
//! Confining a child between fork and exec would need unsafe code. So the binary runs itself again: `lango __confine …`
//! applies Landlock to itself and executes the shell. The network is removed by a network namespace (`unshare`) where the
//! system allows one, else Landlock blocks TCP only.

#[cfg_attr(target_os = "linux", path = "landlock.rs")]
#[cfg_attr(not(target_os = "linux"), path = "unsupported.rs")]
mod backend;
mod helper;

use std::{
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, LazyLock},
};

pub use helper::{CONFINE, confined_main};

/// Brings the loopback interface up in a network namespace if `ip` is installed, because test suites use it.
const LOOPBACK: &str = r#"ip link set lo up 2>/dev/null; exec "$@""#;

/// The gate in shell, for use without the helper.
const GATE: &str = r#"read -r open && exec sh -c "$1" < /dev/null"#;

/// Command prefixes that enter a network namespace: as root, and as another user.
const UNSHARE: [&[&str]; 2] =
    [&["unshare", "--net", "--"], &["unshare", "--map-current-user", "--keep-caps", "--net", "--"]];

/// The sandbox that commands run in.
#[derive(Debug, Clone)]
pub struct Sandbox {
    helper: Option<PathBuf>,
    writable: Vec<PathBuf>,
    confinement: Confinement,
}

/// A sandbox that is built on first use, because building it starts probe processes.
#[derive(Clone)]
pub struct LazySandbox(Arc<LazyLock<Sandbox, SandboxInit>>);

type SandboxInit = Box<dyn FnOnce() -> Sandbox + Send>;

impl LazySandbox {
    pub fn new(config: SandboxConfig) -> Self {
        Self(Arc::new(LazyLock::new(Box::new(|| Sandbox::build(config)))))
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

/// The restrictions that are in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confinement {
    pub files: FileConfinement,
    pub network: NetworkConfinement,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileConfinement {
    /// Writes are limited to the roots and the directory for temporary files. The number is the Landlock ABI version.
    Landlock(u32),
    /// Not restricted.
    Open { why: String },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkConfinement {
    /// Commands see only their own loopback interface.
    Namespace(NamespaceMode),
    /// TCP is blocked; UDP is not.
    LandlockTcp,
    /// The configuration allows network access.
    Allowed,
    /// Not restricted, because this system offers no way.
    Open,
}

/// How a network namespace is entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamespaceMode {
    Root,
    User,
}

impl NamespaceMode {
    fn command_prefix(self) -> &'static [&'static str] {
        match self {
            Self::Root => UNSHARE[0],
            Self::User => UNSHARE[1],
        }
    }
}

/// The configuration of a sandbox.
#[derive(Debug, Clone)]
pub struct SandboxConfig {
    /// The binary that understands [`CONFINE`].
    pub helper: PathBuf,
    /// Directories that commands may write to: the roots and the directory for temporary files.
    pub writable: Vec<PathBuf>,
    /// Whether commands may use the network.
    pub network: bool,
    /// `PATH` for the probe processes.
    pub path: String,
}

impl Sandbox {
    /// No restrictions: commands can do what this program can.
    pub fn unrestricted(why: &str) -> Self {
        let files = FileConfinement::Open { why: why.to_owned() };
        let confinement = Confinement { files, network: NetworkConfinement::Open };
        Self { helper: None, writable: Vec::new(), confinement }
    }

    /// The strictest sandbox that this system supports. It runs a few short processes to find out, and blocks.
    pub fn build(config: SandboxConfig) -> Self {
        let version = probe_landlock(&config.helper, &config.path);
        let network = match &version {
            _ if config.network => NetworkConfinement::Allowed,
            version => probe_network(&config.path, version.as_ref().is_ok_and(|version| *version >= 4)),
        };
        let helper = version.is_ok().then_some(config.helper);
        let files = version.map_or_else(|why| FileConfinement::Open { why }, FileConfinement::Landlock);
        Self { helper, writable: config.writable, confinement: Confinement { files, network } }
    }

    pub fn confinement(&self) -> &Confinement {
        &self.confinement
    }

    /// Whether the command line creates its own process group: the helper calls `setsid`.
    pub(super) fn creates_process_group(&self) -> bool {
        self.helper.is_some()
    }

    /// The command line that runs a script in the sandbox. The script starts when a line arrives on standard input, and not
    /// at all if the input ends first.
    pub(super) fn command_line(&self, script: &str) -> Vec<OsString> {
        let mut line: Vec<OsString> = Vec::new();
        if let NetworkConfinement::Namespace(mode) = self.confinement.network {
            line.extend(mode.command_prefix().iter().map(OsString::from));
            line.extend(["sh", "-c", LOOPBACK, "sh"].map(OsString::from));
        }
        if let Some(helper) = &self.helper {
            line.extend([helper.into(), CONFINE.into()]);
            for dir in &self.writable {
                line.extend(["--rw".into(), dir.into()]);
            }
            if self.confinement.network == NetworkConfinement::LandlockTcp {
                line.push("--no-tcp".into());
            }
            line.extend(["--gate", "--", "sh", "-c"].map(OsString::from));
        } else {
            line.extend(["sh", "-c", GATE, "sh"].map(OsString::from));
        }
        line.push(script.into());
        line
    }
}

/// Runs the helper to find the Landlock ABI version, or why there is none.
fn probe_landlock(helper: &Path, path: &str) -> Result<u32, String> {
    let output = Command::new(helper).args([CONFINE, "--probe"]).env_clear().env("PATH", path).output();
    let output = output.map_err(|error| format!("the helper could not be started: {error}"))?;
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    version.parse().map_err(|_| String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

fn probe_network(path: &str, landlock_supports_tcp: bool) -> NetworkConfinement {
    let works = |mode: &NamespaceMode| {
        let prefix = mode.command_prefix();
        let mut command = Command::new(prefix[0]);
        command.args(&prefix[1..]).arg("true").env_clear().env("PATH", path);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    match [NamespaceMode::Root, NamespaceMode::User].into_iter().find(works) {
        Some(mode) => NetworkConfinement::Namespace(mode),
        None if landlock_supports_tcp => NetworkConfinement::LandlockTcp,
        None => NetworkConfinement::Open,
    }
}

impl fmt::Display for Confinement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.files {
            FileConfinement::Landlock(version) => {
                write!(f, "Commands write only inside the roots and $TMPDIR (Landlock {version})")?;
            }
            FileConfinement::Open { why } => {
                write!(f, "Commands can write wherever this program can ({why})")?;
            }
        }
        match self.network {
            NetworkConfinement::Namespace(_) => write!(f, "; they have no network."),
            NetworkConfinement::LandlockTcp => write!(f, "; they have no TCP."),
            NetworkConfinement::Allowed => write!(f, "; the configuration lets them use the network."),
            NetworkConfinement::Open => write!(f, "; their network access is not restricted."),
        }
    }
}
