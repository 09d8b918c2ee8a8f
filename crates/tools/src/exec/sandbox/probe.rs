//! Tests of the guarantees on this machine: each tries what must not work, in a project made for it.

use std::{
    fs,
    io::{self, Read},
    net::{TcpListener, TcpStream},
    os::unix::{
        fs::PermissionsExt,
        net::{UnixDatagram, UnixListener, UnixStream},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use rustix::process::Pid;

use super::{
    CONFINE, Guarantee, RootAccess, Sandbox, SandboxConfig, SandboxProfile, SandboxedCommand, limits,
    messages::SandboxOutcome,
};

/// The argument after [`CONFINE`] that tries one thing.
pub(super) const PROBE: &str = "--probe";
/// How long a process that should be dead may hold its output.
const DEATH_TIME: Duration = Duration::from_secs(1);
const LINGER_TIME: Duration = Duration::from_secs(5);

/// The outcome of the test of one guarantee.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tested {
    Holds,
    Broken,
    /// The configuration allows it.
    Allowed,
}

impl Sandbox {
    /// Tests what a profile promises. It creates a directory for temporary files, runs commands, and blocks.
    pub fn test(&self, profile: SandboxProfile) -> Result<Vec<(Guarantee, Tested)>, String> {
        let Some(config) = &self.config else {
            return Ok(Guarantee::ALL.map(|guarantee| (guarantee, Tested::Broken)).to_vec());
        };
        let project = ProbeProject::create().map_err(|error| format!("a test directory: {error}"))?;
        let sandbox = Self { config: Some(project.config(config).into()), ..self.clone() };
        let run = |action: &str, arg: &str| project.run(&sandbox, profile, (action, arg));
        if !run("nothing", "")?.0 {
            return Err("the test program cannot be run in the sandbox".to_owned());
        }
        let mut tested = Vec::new();
        for guarantee in Guarantee::ALL {
            let mut broken = false;
            for (action, arg) in project.actions(guarantee) {
                let (done, outlived) = run(action, &arg)?;
                broken |= if guarantee == Guarantee::NoSurvivors { outlived } else { done };
            }
            let allowed = profile == SandboxProfile::Workspace
                && match guarantee {
                    Guarantee::NoNetwork => config.settings.network,
                    Guarantee::NoUnixSockets => config.settings.unix_sockets,
                    _ => false,
                };
            tested.push((
                guarantee,
                match (broken, allowed) {
                    (_, true) => Tested::Allowed,
                    (true, false) => Tested::Broken,
                    (false, false) => Tested::Holds,
                },
            ));
        }
        Ok(tested)
    }
}

/// A repository with a denied file, a directory outside of it that is readable, and sockets.
pub(super) struct ProbeProject {
    dir: PathBuf,
    tcp: TcpListener,
    _unix: (UnixListener, UnixDatagram),
}

impl ProbeProject {
    pub(super) fn create() -> io::Result<Self> {
        let dir = std::env::temp_dir().join(format!(
            "lango-doctor-{}-{:?}",
            std::process::id(),
            thread::current().id()
        ));
        let _ = fs::remove_dir_all(&dir);
        for name in ["root/.git/hooks", "root/.git/objects", "root/.git/refs", "outside"] {
            fs::create_dir_all(dir.join(name))?;
        }
        for name in ["root/.git/HEAD", "root/.git/config", "root/.env", "outside/file"] {
            fs::write(dir.join(name), "x\n")?;
        }
        let dir = dir.canonicalize()?;
        let tcp = TcpListener::bind("127.0.0.1:0")?;
        let unix =
            (UnixListener::bind(dir.join("root/socket"))?, UnixDatagram::bind(dir.join("root/datagrams"))?);
        Ok(Self { dir, tcp, _unix: unix })
    }

    fn path(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }

    /// The configuration with this project as the only root.
    pub(super) fn config(&self, config: &SandboxConfig) -> SandboxConfig {
        let mut config = config.clone();
        let settings = &mut config.settings;
        settings.roots = vec![RootAccess { path: self.dir.join("root"), write: true }];
        settings.writable = Vec::new();
        settings.agents_dir = None;
        settings.readable.extend([self.dir.join("outside")]);
        settings.readable.extend(std::env::current_exe());
        config
    }

    /// What must not work.
    fn actions(&self, guarantee: Guarantee) -> Vec<(&'static str, String)> {
        let at = |action, name: &str| (action, self.path(name));
        match guarantee {
            Guarantee::WritesConfined => vec![at("write", "outside/new"), at("write", "outside/file")],
            Guarantee::ProtectedPaths => {
                vec![
                    at("write", "root/.git/config"),
                    at("write", "root/.git/hooks/x"),
                    at("write", "root/lango.toml"),
                ]
            }
            Guarantee::DeniedFiles => vec![at("read", "root/.env")],
            Guarantee::AttributesConfined => vec![at("chmod", "outside/file")],
            Guarantee::NoNetwork => {
                self.tcp.local_addr().map(|address| ("tcp", address.to_string())).into_iter().collect()
            }
            Guarantee::NoUnixSockets => {
                vec![at("unix", "root/socket"), at("datagram", "root/datagrams")]
            }
            Guarantee::NoSurvivors => vec![("survive", String::new())],
            Guarantee::ProcessesHidden => vec![("signal", std::process::id().to_string())],
        }
    }

    /// Whether the action was done, and whether a process outlived the call.
    pub(super) fn run(
        &self,
        sandbox: &Sandbox,
        profile: SandboxProfile,
        (action, arg): (&str, &str),
    ) -> Result<(bool, bool), String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let argv = [&program.display().to_string(), CONFINE, PROBE, action, arg].map(str::to_owned).to_vec();
        let command = SandboxedCommand {
            profile,
            granted: Vec::new(),
            argv,
            directory: self.dir.join("root"),
            grace: Duration::from_millis(50),
        };
        let (mut reader, writer) = io::pipe().map_err(|error| error.to_string())?;
        let outcome = sandbox.run_with_output(command, writer.into())?;
        let (sender, closed) = mpsc::channel();
        thread::spawn(move || {
            let _ = reader.read_to_end(&mut Vec::new());
            let _ = sender.send(());
        });
        let outlived = closed.recv_timeout(DEATH_TIME).is_err();
        match outcome {
            SandboxOutcome::Exited(end) => Ok((end.code == Some(0), outlived)),
            SandboxOutcome::Failed(why) | SandboxOutcome::CannotRun(why) => Err(why),
        }
    }
}

impl Drop for ProbeProject {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// The main function of a probe: it succeeds if the action was possible.
pub(super) fn run_probe(action: &str, arg: &str) -> Result<(), String> {
    let path = Path::new(arg);
    let done = match action {
        "nothing" => Ok(()),
        "write" => fs::OpenOptions::new().append(true).create(true).open(path).map(drop),
        "read" => fs::read(path).map(drop),
        "chmod" => fs::set_permissions(path, fs::Permissions::from_mode(0o777)),
        "tcp" => TcpStream::connect(arg).map(drop),
        "unix" => UnixStream::connect(path).map(drop),
        // A pair is created without `socket`, and can be connected to something else.
        "datagram" => UnixDatagram::pair().and_then(|(socket, _)| socket.send_to(b"x", path)).map(drop),
        "survive" => survive(),
        "linger" => {
            let _ = rustix::process::setsid();
            thread::sleep(LINGER_TIME);
            Ok(())
        }
        "signal" => signal(arg),
        "memory" => {
            limits::use_memory();
            Ok(())
        }
        "threads" => limits::start_threads(),
        "fill" => limits::fill(arg),
        _ => Err(io::ErrorKind::Unsupported.into()),
    };
    done.map_err(|error| error.to_string())
}

/// Leaves a process behind that ignores the end of its parent.
fn survive() -> io::Result<()> {
    let program = std::env::current_exe()?;
    let mut command = Command::new(program);
    command.args([CONFINE, PROBE, "linger", ""]).stdin(Stdio::null()).process_group(0);
    command.spawn().map(drop)
}

/// Whether another process can be signalled, or its environment read.
fn signal(pid: &str) -> io::Result<()> {
    let found = pid.parse().ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
    match rustix::process::test_kill_process(found) {
        Ok(()) => Ok(()),
        Err(_) => fs::read(format!("/proc/{pid}/environ")).map(drop),
    }
}
