//! The two servers, each with an instant model and a session of many events.

use super::{
    process::Process,
    wire::{APP, BenchSession},
};
use crate::{Result, raw, turn};
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

const USER: &str = "u";
const LONG: &str = "long";

/// The session with many events of 200 bytes each.
pub(super) fn long() -> BenchSession {
    BenchSession::new(USER, LONG)
}

const SCRIPT: &str = "
rules:
  - when: {first_word: hang}
    reply: [{text: beginning}, hang]
  - reply: [{text: 'Sunny, with a light wind from the west, and no rain before the evening.'}]
";
/// The readers need more connections than the default allows.
const CONFIG: &str = "discover = false\n[server]\nmax_connections = 12000\n";
/// The agent has the author name of the stored events: events of another agent would be converted to notes at every turn.
const AGENT: &str = "name: bench\nmodel: scripted/script.yaml\ninstruction: Be fast.\n";

/// One of the two servers.
pub(super) enum Side {
    Ours(PathBuf),
    /// The Python with google-adk.
    Theirs(PathBuf),
}

impl Side {
    /// Creates in `home` the agent, and a database with a session of `events` events.
    pub(super) fn prepare(&self, home: &Path, events: i64) -> Result<()> {
        match self {
            Self::Ours(_) => ours(home, events),
            Self::Theirs(python) => theirs(python, home, events),
        }
    }

    pub(super) async fn start(&self, home: &Path) -> Result<Process> {
        match self {
            Self::Ours(binary) => Process::start(|port| serve(binary, home, port)).await,
            Self::Theirs(python) => Process::start(|port| api_server(python, home, port)).await,
        }
    }
}

fn ours(home: &Path, events: i64) -> Result<()> {
    let agent = home.join("agents").join(APP);
    fs::create_dir_all(&agent)?;
    fs::write(home.join("lango.toml"), CONFIG)?;
    fs::write(agent.join("root_agent.yaml"), AGENT)?;
    fs::write(agent.join("script.yaml"), SCRIPT)?;
    let database = home.join("lango.db");
    drop(raw::create(&database, &[session::SessionKey::new(APP, USER, LONG)])?);
    raw::grow(&database, &mut turn::history(&turn::SHORT)?, events)
}

fn serve(binary: &Path, home: &Path, port: u16) -> Command {
    let mut serve = Command::new(binary);
    serve.args(["serve", "--no-auth", "--port", &port.to_string()]);
    serve.current_dir(home).env("LANGO_HOME", home);
    with_log_file(serve, home)
}

fn theirs(python: &Path, home: &Path, events: i64) -> Result<()> {
    let mut fill = Command::new(python);
    fill.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/google-adk/fill.py"));
    fill.args([&database(home), APP, USER, LONG, &events.to_string()]);
    let filled = fill.env("HOME", home).stdin(Stdio::null()).output()?;
    if !filled.status.success() {
        return Err(format!("google-adk's session: {}", String::from_utf8_lossy(&filled.stderr)).into());
    }
    Ok(())
}

fn api_server(python: &Path, home: &Path, port: u16) -> Command {
    let mut serve = Command::new(python);
    serve.args(["-m", "google.adk.cli", "api_server", "--port", &port.to_string()]);
    serve.args(["--session_service_uri", &database(home)]);
    serve.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/google-adk/agents"));
    serve.env("PYTHONDONTWRITEBYTECODE", "1").env("HOME", home).current_dir(home);
    with_log_file(serve, home)
}

fn database(home: &Path) -> String {
    format!("sqlite+aiosqlite:///{}", home.join("adk.db").display())
}

/// Redirects the output to a file, so that the server never blocks on a full pipe.
fn with_log_file(mut command: Command, home: &Path) -> Command {
    let log = File::create(home.join("server.log"));
    let out = |log: &std::io::Result<File>| {
        log.as_ref().ok().and_then(|file| file.try_clone().ok()).map_or_else(Stdio::null, Stdio::from)
    };
    command.stdin(Stdio::null()).stdout(out(&log)).stderr(out(&log));
    command
}
