//! What the kernel keeps commands from: writing outside the roots, and the network.
//!
//! A process cannot be confined before it starts without unsafe code, so the binary runs itself again: `lango __confine …`
//! gives up rights by Landlock and becomes the shell. The network goes by a namespace that `unshare` makes, where the
//! machine allows it, else by Landlock for TCP alone.

mod helper;
#[cfg_attr(target_os = "linux", path = "landlock.rs")]
#[cfg_attr(not(target_os = "linux"), path = "elsewhere.rs")]
mod rules;

use std::{
    ffi::OsString,
    fmt,
    ops::Deref,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, LazyLock},
};

pub use helper::{CONFINE, confined_main};

/// Brings the loopback interface up in a network namespace, where there is a program for it: tests talk to themselves.
const LOOPBACK: &str = r#"ip link set lo up 2>/dev/null; exec "$@""#;

/// What the helper does for a gate, where there is no helper.
const GATE: &str = r#"read -r leave && exec sh -c "$1" < /dev/null"#;

/// The ways into a network namespace: for root, and for everyone else.
const UNSHARE: [&[&str]; 2] =
    [&["unshare", "--net", "--"], &["unshare", "--map-current-user", "--keep-caps", "--net", "--"]];

/// What commands run in.
#[derive(Debug, Clone)]
pub struct Cage {
    helper: Option<PathBuf>,
    writable: Vec<PathBuf>,
    confinement: Confinement,
}

/// A cage that is built when the first command needs it: finding out what the machine allows starts processes.
#[derive(Clone)]
pub struct LazyCage(Arc<LazyLock<Cage, Build>>);

type Build = Box<dyn FnOnce() -> Cage + Send>;

impl LazyCage {
    pub fn new(wanted: Wanted) -> Self {
        Self(Arc::new(LazyLock::new(Box::new(|| Cage::build(wanted)))))
    }
}

impl Deref for LazyCage {
    type Target = Cage;

    fn deref(&self) -> &Cage {
        &self.0
    }
}

impl From<Cage> for LazyCage {
    fn from(cage: Cage) -> Self {
        Self(Arc::new(LazyLock::new(Box::new(|| cage))))
    }
}

impl fmt::Debug for LazyCage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LazyCage")
    }
}

/// What is in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confinement {
    pub files: Files,
    pub network: Network,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Files {
    /// Writes reach only the roots and the directory for temporary files; the number is Landlock's version.
    Landlock(u32),
    Open {
        why: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// Commands see no interface but their own loopback.
    Namespace(Way),
    /// TCP is refused; UDP is not.
    LandlockTcp,
    /// The configuration lets commands use it.
    Allowed,
    /// Nothing keeps them from it here.
    Open,
}

/// How a namespace is entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Root,
    User,
}

impl Way {
    fn line(self) -> &'static [&'static str] {
        match self {
            Self::Root => UNSHARE[0],
            Self::User => UNSHARE[1],
        }
    }
}

/// What a cage is to be.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The binary that understands [`CONFINE`].
    pub helper: PathBuf,
    /// Where commands may write: the roots, and the directory for temporary files.
    pub writable: Vec<PathBuf>,
    pub network: bool,
    /// Where programs are found.
    pub path: String,
}

impl Cage {
    /// No cage: commands can do what the program itself can.
    pub fn open(why: &str) -> Self {
        let files = Files::Open { why: why.to_owned() };
        let confinement = Confinement { files, network: Network::Open };
        Self { helper: None, writable: Vec::new(), confinement }
    }

    /// The best that this machine allows. It starts a few short processes to find out.
    pub fn build(wanted: Wanted) -> Self {
        let version = probe(&wanted.helper, &wanted.path);
        let network = match &version {
            _ if wanted.network => Network::Allowed,
            version => network(&wanted.path, version.as_ref().is_ok_and(|version| *version >= 4)),
        };
        let helper = version.is_ok().then_some(wanted.helper);
        let files = version.map_or_else(|why| Files::Open { why }, Files::Landlock);
        Self { helper, writable: wanted.writable, confinement: Confinement { files, network } }
    }

    pub fn confinement(&self) -> &Confinement {
        &self.confinement
    }

    /// The helper begins a session of its own, and with it a process group.
    pub(super) fn makes_its_own_group(&self) -> bool {
        self.helper.is_some()
    }

    /// The whole command line for a script. It begins when a line comes in on its standard input, and not at all if that
    /// ends before.
    pub(super) fn line(&self, script: &str) -> Vec<OsString> {
        let mut line: Vec<OsString> = Vec::new();
        if let Network::Namespace(way) = self.confinement.network {
            line.extend(way.line().iter().map(OsString::from));
            line.extend(["sh", "-c", LOOPBACK, "sh"].map(OsString::from));
        }
        if let Some(helper) = &self.helper {
            line.extend([helper.into(), CONFINE.into()]);
            for dir in &self.writable {
                line.extend(["--rw".into(), dir.into()]);
            }
            if self.confinement.network == Network::LandlockTcp {
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

/// Landlock's version, as the helper finds it when it confines itself.
fn probe(helper: &Path, path: &str) -> Result<u32, String> {
    let output = Command::new(helper).args([CONFINE, "--probe"]).env_clear().env("PATH", path).output();
    let output = output.map_err(|error| format!("the helper could not be started: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    said.parse().map_err(|_| String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

fn network(path: &str, landlock_knows_tcp: bool) -> Network {
    let enters = |way: &Way| {
        let line = way.line();
        let mut command = Command::new(line[0]);
        command.args(&line[1..]).arg("true").env_clear().env("PATH", path);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    match [Way::Root, Way::User].into_iter().find(enters) {
        Some(way) => Network::Namespace(way),
        None if landlock_knows_tcp => Network::LandlockTcp,
        None => Network::Open,
    }
}

impl fmt::Display for Confinement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.files {
            Files::Landlock(version) => {
                write!(f, "Commands write only inside the roots and $TMPDIR (Landlock {version})")?;
            }
            Files::Open { why } => write!(f, "Commands can write wherever this program can ({why})")?,
        }
        match self.network {
            Network::Namespace(_) => write!(f, "; they have no network."),
            Network::LandlockTcp => write!(f, "; they have no TCP."),
            Network::Allowed => write!(f, "; the configuration lets them use the network."),
            Network::Open => write!(f, "; nothing keeps them from the network."),
        }
    }
}
