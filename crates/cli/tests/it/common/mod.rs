//! An isolated environment for each test, and the output of the binary in it.

mod gate;
mod http;
mod log;
mod remote;
mod terminal;

pub(crate) use gate::Gate;
pub(crate) use http::{AuthServer, HttpResponse};
pub(crate) use log::{StoredLog, text_of};
pub(crate) use remote::{CANARY, REST, api_name, provider};
pub(crate) use terminal::{CTRL_C, QUESTION, Terminal, without_escapes};

use std::{
    ffi::OsStr,
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};
use tempfile::TempDir;

pub(crate) const LANGO: &str = env!("CARGO_BIN_EXE_lango");

/// A temporary data directory and working directory.
pub(crate) struct TestEnv {
    dir: TempDir,
}

impl TestEnv {
    pub(crate) fn new() -> Self {
        Self::of(tempfile::tempdir().unwrap())
    }

    /// On a tmpfs if there is one, for tests of saves with a deadline: fsync does not wait for a busy
    /// disk.
    pub(crate) fn in_memory() -> Self {
        tempfile::tempdir_in("/dev/shm").map_or_else(|_| Self::new(), Self::of)
    }

    fn of(dir: TempDir) -> Self {
        fs::create_dir(dir.path().join("here")).unwrap();
        Self { dir }
    }

    /// With the canned agent, which ADK's transcripts were recorded with, in the working directory.
    pub(crate) fn canned() -> Self {
        let env = Self::new();
        let canned = fixtures().join("canned");
        for file in [
            "lango.toml",
            "agents/canned/root_agent.yaml",
            "agents/canned/helper.yaml",
            "agents/canned/canned.yaml",
        ] {
            env.file(file, fs::read(canned.join(file)).unwrap());
        }
        env
    }

    /// With a scripted model, and further settings in `lango.toml`.
    pub(crate) fn scripted(toml: &str, script: &str) -> Self {
        let env = Self::new();
        env.file("lango.toml", format!("model = \"scripted/script.yaml\"\n{toml}"));
        env.file("script.yaml", script);
        env
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    pub(crate) fn workdir(&self) -> PathBuf {
        self.dir.path().join("here")
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.home().join("lango.db")
    }

    /// Writes a file below the working directory.
    pub(crate) fn file(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.workdir().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// The command, with `PATH` as the only variable of this process's environment. The working directory is trusted.
    pub(crate) fn command(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
        let mut trusting = self.command_without_trust(["--trust"]);
        trusting.args(args);
        trusting
    }

    /// Like [`command`](Self::command), without trust in the working directory.
    pub(crate) fn command_without_trust(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
        let mut command = Command::new(LANGO);
        command.args(args).current_dir(self.workdir()).stdin(Stdio::null());
        command.env_clear().envs(self.variables());
        command
    }

    pub(crate) fn variables(&self) -> Vec<(&'static str, std::ffi::OsString)> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        // Model servers of this machine must not affect a test.
        let alone = ("LANGO_DISCOVER", "false".into());
        vec![("PATH", path), ("LANGO_HOME", self.home().into()), ("TZ", "UTC".into()), alone]
    }

    pub(crate) fn lango(&self, args: &[&str]) -> CliOutput {
        self.run(&mut self.command(args))
    }

    /// Like [`lango`](Self::lango), with standard input.
    pub(crate) fn lango_with_stdin(&self, args: &[&str], input: &[u8]) -> CliOutput {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        let feeding = std::thread::spawn(move || drop(stdin.write_all(&input)));
        let output = child.wait_with_output().unwrap();
        feeding.join().unwrap();
        self.cli_output(&output)
    }

    pub(crate) fn run(&self, command: &mut Command) -> CliOutput {
        self.cli_output(&command.output().unwrap())
    }

    pub(crate) fn cli_output(&self, output: &Output) -> CliOutput {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        CliOutput {
            code: output.status.code(),
            out: text(&output.stdout),
            err: text(&output.stderr),
            dir: self.dir.path().to_path_buf(),
        }
    }
}

pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

/// The exit code and output of a command.
#[derive(Debug)]
pub(crate) struct CliOutput {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
    dir: PathBuf,
}

impl CliOutput {
    #[track_caller]
    pub(crate) fn success(self) -> Self {
        assert_eq!(self.code, Some(0), "{self:?}");
        self
    }

    #[track_caller]
    pub(crate) fn failure(self) -> Self {
        assert!(self.code.is_some_and(|code| code != 0), "{self:?}");
        assert!(!self.err.contains("panicked"), "{self:?}");
        self
    }

    /// Each line of standard output as JSON.
    #[track_caller]
    pub(crate) fn json_lines(&self) -> Vec<serde_json::Value> {
        self.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Standard output, standard error and the exit code, without the paths of this machine.
    pub(crate) fn snapshot(&self) -> String {
        let mut text = self.out.clone();
        if !self.err.is_empty() {
            text = format!("{text}{}", self.err);
        }
        let code = self.code.map_or_else(|| "killed".to_owned(), |code| code.to_string());
        self.without_paths(&format!("{}\n[exit {code}]", text.trim_end()))
    }

    fn without_paths(&self, text: &str) -> String {
        let real = self.dir.canonicalize().unwrap_or_default();
        let text = text.replace(&*real.to_string_lossy(), "");
        text.replace(&*self.dir.to_string_lossy(), "")
    }
}
