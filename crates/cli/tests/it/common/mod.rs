//! A machine of one's own for each test, and what the binary says on it.

mod gate;
mod http;
mod log;
mod remote;
mod terminal;

pub(crate) use gate::Gate;
pub(crate) use http::{Answer, Running};
pub(crate) use log::{Log, said};
pub(crate) use remote::{CANARY, REST, api_name, provider};
pub(crate) use terminal::{CTRL_C, Terminal, without_escapes};

use std::{
    ffi::OsStr,
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};
use tempfile::TempDir;

pub(crate) const LANGO: &str = env!("CARGO_BIN_EXE_lango");

/// A home and a working directory, empty at first, gone at the end.
pub(crate) struct Place {
    dir: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self::of(tempfile::tempdir().unwrap())
    }

    /// On a tmpfs if there is one, for tests of what lango saves within a deadline of its own: fsync does not wait for a busy
    /// disk.
    pub(crate) fn in_memory() -> Self {
        tempfile::tempdir_in("/dev/shm").map_or_else(|_| Self::new(), Self::of)
    }

    fn of(dir: TempDir) -> Self {
        fs::create_dir(dir.path().join("here")).unwrap();
        Self { dir }
    }

    /// With the agent that ADK's transcripts were recorded with, in the working directory.
    pub(crate) fn canned() -> Self {
        let place = Self::new();
        let canned = fixtures().join("canned");
        for file in [
            "lango.toml",
            "agents/canned/root_agent.yaml",
            "agents/canned/helper.yaml",
            "agents/canned/canned.yaml",
        ] {
            place.file(file, fs::read(canned.join(file)).unwrap());
        }
        place
    }

    /// With a script for a model, and the tools and settings that `lango.toml` says.
    pub(crate) fn scripted(toml: &str, script: &str) -> Self {
        let place = Self::new();
        place.file("lango.toml", format!("model = \"scripted/script.yaml\"\n{toml}"));
        place.file("script.yaml", script);
        place
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    pub(crate) fn here(&self) -> PathBuf {
        self.dir.path().join("here")
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.home().join("lango.db")
    }

    /// Writes a file below the working directory.
    pub(crate) fn file(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.here().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// The command, with nothing of this process's environment but the way to programs.
    pub(crate) fn command(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
        let mut command = Command::new(LANGO);
        command.args(args).current_dir(self.here()).stdin(Stdio::null());
        command.env_clear().envs(self.variables());
        command
    }

    pub(crate) fn variables(&self) -> Vec<(&'static str, std::ffi::OsString)> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        // What else runs on the machine is not part of any test.
        let alone = ("LANGO_DISCOVER", "false".into());
        vec![("PATH", path), ("LANGO_HOME", self.home().into()), ("TZ", "UTC".into()), alone]
    }

    pub(crate) fn lango(&self, args: &[&str]) -> Said {
        self.said(&mut self.command(args))
    }

    /// As [`lango`](Self::lango), with something on standard input.
    pub(crate) fn fed(&self, args: &[&str], input: &[u8]) -> Said {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        let feeding = std::thread::spawn(move || drop(stdin.write_all(&input)));
        let output = child.wait_with_output().unwrap();
        feeding.join().unwrap();
        self.heard(&output)
    }

    pub(crate) fn said(&self, command: &mut Command) -> Said {
        self.heard(&command.output().unwrap())
    }

    pub(crate) fn heard(&self, output: &Output) -> Said {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Said {
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

/// What became of a command.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
    dir: PathBuf,
}

impl Said {
    #[track_caller]
    pub(crate) fn well(self) -> Self {
        assert_eq!(self.code, Some(0), "{self:?}");
        self
    }

    #[track_caller]
    pub(crate) fn badly(self) -> Self {
        assert!(self.code.is_some_and(|code| code != 0), "{self:?}");
        assert!(!self.err.contains("panicked"), "{self:?}");
        self
    }

    /// Each line of standard output as JSON.
    #[track_caller]
    pub(crate) fn json_lines(&self) -> Vec<serde_json::Value> {
        self.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// All of it, with paths as on any other machine.
    pub(crate) fn picture(&self) -> String {
        let mut picture = self.out.clone();
        if !self.err.is_empty() {
            picture = format!("{picture}{}", self.err);
        }
        let code = self.code.map_or_else(|| "killed".to_owned(), |code| code.to_string());
        self.normal(&format!("{}\n[exit {code}]", picture.trim_end()))
    }

    fn normal(&self, text: &str) -> String {
        let real = self.dir.canonicalize().unwrap_or_default();
        let text = text.replace(&*real.to_string_lossy(), "");
        text.replace(&*self.dir.to_string_lossy(), "")
    }
}
