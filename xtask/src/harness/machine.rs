//! A directory with a configuration, a database and a copy of the real binary.

use super::{
    preload::{Control, Library},
    script::{self, Pace},
};
use crate::{Result, Workspace};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    ffi::OsStr,
    fs::{self, File, OpenOptions},
    io,
    net::SocketAddr,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// The longest time until a server listens; a start takes milliseconds.
const START: Duration = Duration::from_mins(1);
const LISTENING: &str = "listening on http://";

/// The user whose sessions the server and the terminal share.
pub(crate) const USER: &str = "u";
pub(crate) const APP: &str = "lango";

/// Builds the binary that the tests kill.
pub(crate) fn build(workspace: &Workspace) -> Result<PathBuf> {
    if !workspace.cargo(&["build", "--quiet", "--package", "lango"]).status()?.success() {
        return Err("lango does not build".into());
    }
    Ok(workspace.target.join("debug/lango"))
}

/// A directory in which the binary runs.
#[derive(Debug)]
pub(crate) struct Machine {
    root: PathBuf,
    binary: PathBuf,
    library: Option<Library>,
    seed: u64,
    /// The file in which the preloaded library records writes.
    trace: Option<PathBuf>,
}

impl Machine {
    /// Creates the directory, which is emptied if it exists.
    pub(crate) fn new(root: PathBuf, binary: &Path, library: Option<Library>) -> Result<Self> {
        if root.exists() {
            fs::remove_dir_all(&root)?;
        }
        fs::create_dir_all(&root)?;
        // A copy, so that a build does not change the binary under test. The evidence contains it.
        let copy = root.join("lango");
        fs::copy(binary, &copy)?;
        let machine = Self { root, binary: copy, library, seed: 0, trace: None };
        machine.configure(Pace::Slow)?;
        Ok(machine)
    }

    /// Another directory with the same binary and an empty database. Nothing is traced, and the model answers at once.
    pub(crate) fn beside(&self, root: PathBuf) -> Result<Self> {
        let (binary, library) = (self.binary.clone(), self.library.clone());
        let machine = Self { root, binary, library, seed: 0, trace: None };
        machine.configure(Pace::AtOnce)?;
        Ok(machine)
    }

    pub(crate) fn configure(&self, pace: Pace) -> Result<()> {
        fs::create_dir_all(self.here())?;
        fs::write(self.here().join("lango.toml"), script::CONFIGURATION)?;
        fs::write(self.here().join("script.yaml"), script::script(pace))?;
        Ok(())
    }

    #[must_use]
    pub(crate) fn with_seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    #[must_use]
    pub(crate) fn with_trace(self, trace: PathBuf) -> Self {
        Self { trace: Some(trace), ..self }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    fn here(&self) -> PathBuf {
        self.root.join("here")
    }

    /// The data directory.
    pub(crate) fn data(&self) -> PathBuf {
        self.root.join("data")
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.data().join("lango.db")
    }

    /// From now on the held tools do not return.
    pub(crate) fn hold_tools(&self) -> Result<()> {
        match fs::remove_file(self.here().join(script::RELEASED)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Lets the held tools return.
    pub(crate) fn release_tools(&self) -> Result<()> {
        Ok(fs::write(self.here().join(script::RELEASED), "")?)
    }

    /// The ids of the calls that held tools have executed, one for each execution.
    pub(crate) fn held_calls(&self) -> Result<Vec<String>> {
        match fs::read_to_string(self.here().join(script::HELD_CALLS)) {
            Ok(lines) => Ok(lines.lines().map(str::to_owned).collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    /// Switches faults on and off, if a library is preloaded.
    pub(crate) fn control(&self) -> Result<Option<Control>> {
        self.library.as_ref().map(|_| Control::new(self.root.join("faults"))).transpose()
    }

    pub(crate) fn command(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
        let mut command = Command::new(&self.binary);
        command.arg("--trust").args(args).current_dir(self.here()).stdin(Stdio::null()).env_clear();
        command.envs([
            ("PATH", std::env::var_os("PATH").unwrap_or_default()),
            ("LANGO_HOME", self.data().into()),
            ("LANGO_USER", USER.into()),
            ("LANGO_DISCOVER", "false".into()),
            ("TZ", "UTC".into()),
        ]);
        // Ctrl-C is sent to the test alone, which kills its children.
        command.process_group(0);
        if let Some(library) = &self.library {
            command.env("LD_PRELOAD", library.path());
            command.env("STORAGE_DATABASE", self.database()).env("STORAGE_CONTROL", self.root.join("faults"));
            command.env("STORAGE_SEED", self.seed.to_string()).env("STORAGE_NO_SYNC", "1");
            command.env("STORAGE_PARENT", std::process::id().to_string());
            if let Some(trace) = &self.trace {
                command.env("STORAGE_TRACED", self.data()).env("STORAGE_TRACE", trace);
            }
        }
        command
    }

    /// Starts a server and does not wait until it listens. It is killed when the thread that calls this ends.
    pub(crate) fn spawn_server(&self, name: &str) -> Result<Starting> {
        let path = self.root.join(format!("{name}.log"));
        let log = OpenOptions::new().create(true).append(true).open(&path)?;
        let begin = log.metadata()?.len();
        let mut command = self.command(["serve", "--port", "0", "--no-auth"]);
        let child = command.stdout(Stdio::null()).stderr(log).spawn()?;
        Ok(Starting { process: Process(child), log: path, begin })
    }

    /// Starts a server and waits until it listens.
    pub(crate) fn serve(&self, name: &str) -> Result<Server> {
        let deadline = Instant::now() + START;
        let mut starting = self.spawn_server(name)?;
        loop {
            match starting.poll()? {
                Started::Listens(server) => return Ok(server),
                Started::Not(same) => starting = same,
            }
            if Instant::now() > deadline {
                return Err(format!("the server does not listen: see {}", starting.log.display()).into());
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}

/// A child process that is killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Process(Child);

impl Process {
    pub(crate) fn new(child: Child) -> Self {
        Self(child)
    }

    fn signal(&self, signal: Signal) {
        // The process may have ended.
        let _ = kill_process(Pid::from_child(&self.0), signal);
    }

    /// SIGSTOP.
    pub(crate) fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// SIGCONT.
    pub(crate) fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// SIGTERM, and waits until it has ended.
    pub(crate) fn terminate(mut self) -> Result<()> {
        self.signal(Signal::TERM);
        self.0.wait()?;
        Ok(())
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }

    pub(crate) fn has_ended(&mut self) -> Result<Option<std::process::ExitStatus>> {
        Ok(self.0.try_wait()?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A server that may not listen yet.
#[derive(Debug)]
pub(crate) struct Starting {
    pub(crate) process: Process,
    log: PathBuf,
    begin: u64,
}

pub(crate) enum Started {
    Listens(Server),
    Not(Starting),
}

impl Starting {
    /// Whether the server listens; an error if its process has ended.
    pub(crate) fn poll(mut self) -> Result<Started> {
        let log = read_from(&self.log, self.begin)?;
        let line = log.lines().find_map(|line| line.strip_prefix(LISTENING));
        if let Some(address) = line.filter(|_| log.ends_with('\n')) {
            return Ok(Started::Listens(Server { address: address.trim().parse()?, process: self.process }));
        }
        if let Some(status) = self.process.has_ended()? {
            return Err(format!("the server ended with {status}: {log}").into());
        }
        Ok(Started::Not(self))
    }
}

fn read_from(path: &Path, begin: u64) -> Result<String> {
    use std::io::{Read, Seek, SeekFrom};
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(begin))?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(text)
}

/// A server that listens.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) process: Process,
}

pub(crate) fn sessions_path() -> String {
    format!("/apps/{APP}/users/{USER}/sessions")
}

pub(crate) fn session_path(session: &str) -> String {
    format!("/apps/{APP}/users/{USER}/sessions/{session}")
}

pub(crate) fn run_path(session: &str, run: &str) -> String {
    format!("{}/runs/{run}", session_path(session))
}
