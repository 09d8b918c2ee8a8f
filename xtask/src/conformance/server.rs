//! The real binary with the canned agent, on a free port and with a temporary home directory.

use super::http::Base;
use crate::{Result, Workspace};
use std::{
    fs,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

const STARTS_WITHIN: Duration = Duration::from_secs(20);

/// A server process that is killed when it is dropped.
pub(crate) struct Server {
    process: Child,
    /// The home directory, removed on drop.
    pub(crate) home: PathBuf,
    /// The link for the browser that the server prints.
    pub(crate) link: String,
    pub(crate) url: String,
    pub(crate) base: Base,
}

impl Server {
    pub(super) fn start(workspace: &Workspace) -> Result<Self> {
        let home = home(workspace, "conformance")?;
        let config = workspace.root.join("fixtures/canned/lango.toml");
        Self::start_in(workspace, home, &config, &["--no-auth"])
    }

    /// Starts a server with this home directory and configuration.
    pub(crate) fn start_in(
        workspace: &Workspace,
        home: PathBuf,
        config: &Path,
        args: &[&str],
    ) -> Result<Self> {
        build(workspace)?;
        let mut command = lango(workspace, &home);
        command.args(["serve", "--port", "0", "--config"]).arg(config).args(args);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn()?;
        let ready = link(&mut process).and_then(|link| {
            let url = url(&link).unwrap_or_default().to_owned();
            Ok((Base::parse(&url)?, url, link))
        });
        match ready {
            Ok((base, url, link)) => Ok(Self { process, home, link, url, base }),
            Err(error) => {
                end(&mut process, &home);
                Err(error)
            }
        }
    }

    /// Kills the server and returns its home directory, for another one.
    pub(crate) fn stop(mut self) -> Result<PathBuf> {
        self.process.kill()?;
        self.process.wait()?;
        Ok(std::mem::take(&mut self.home))
    }
}

/// Builds the binary with the features that the tests unify: all packages, and with `--examples` their dev-dependencies. A build of
/// the package alone would compile its dependencies again with other features.
pub(crate) fn build(workspace: &Workspace) -> Result<()> {
    let args = ["build", "--quiet", "--locked", "--workspace", "--bin", "lango", "--examples"];
    if workspace.cargo(&args).status()?.success() { Ok(()) } else { Err("the binary does not build".into()) }
}

/// Creates the home directory of a server.
pub(crate) fn home(workspace: &Workspace, name: &str) -> Result<PathBuf> {
    let home = workspace.target.join(format!("{name}-{}", std::process::id()));
    fs::create_dir_all(&home)?;
    Ok(home)
}

impl Drop for Server {
    fn drop(&mut self) {
        end(&mut self.process, &self.home);
    }
}

/// A command of the binary with that home directory.
pub(crate) fn lango(workspace: &Workspace, home: &Path) -> Command {
    let mut command = Command::new(workspace.target.join("debug/lango"));
    command.env("LANGO_HOME", home).env("LANGO_DATABASE", home.join("lango.db"));
    command
}

/// Waits for the line with the link. The output is read to its end, so that the server never blocks on a full pipe.
fn link(process: &mut Child) -> Result<String> {
    let (sender, lines) = mpsc::channel();
    for stream in streams(process) {
        let sender = sender.clone();
        thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(std::io::Result::ok) {
                // The receiver is dropped once the link is known.
                let _ = sender.send(line);
            }
        });
    }
    drop(sender);
    let mut output = Vec::new();
    while let Ok(line) = lines.recv_timeout(STARTS_WITHIN) {
        if let Some(link) = line.strip_prefix("open ").and_then(|line| line.split(' ').next()) {
            return Ok(link.to_owned());
        }
        output.push(line);
    }
    Err(format!("the server did not print its address; it printed:\n{}", output.join("\n")).into())
}

fn streams(process: &mut Child) -> Vec<Box<dyn Read + Send>> {
    let out = process.stdout.take().map(|stream| Box::new(stream) as Box<dyn Read + Send>);
    let err = process.stderr.take().map(|stream| Box::new(stream) as Box<dyn Read + Send>);
    out.into_iter().chain(err).collect()
}

/// Finds a base URL such as `http://127.0.0.1:4711` in a line, without its path.
fn url(line: &str) -> Option<&str> {
    let rest = &line[line.find("http://")?..];
    let host = "http://".len();
    let end = rest[host..].find(|c: char| !(c.is_alphanumeric() || ".:-[]".contains(c)));
    Some(rest[..end.map_or(rest.len(), |end| host + end)].trim_end_matches('.'))
}

fn end(process: &mut Child, home: &PathBuf) {
    let _ = process.kill();
    let _ = process.wait();
    // Empty after `stop`.
    if !home.as_os_str().is_empty() {
        let _ = fs::remove_dir_all(home);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    #[test]
    fn server_is_ready_when_it_prints_its_link() {
        let mut process =
            shell("echo listening; echo open http://127.0.0.1:1/a?b in a browser >&2; exec sleep 60");
        let link = link(&mut process);
        process.kill().unwrap();
        process.wait().unwrap();
        assert_eq!(link.unwrap(), "http://127.0.0.1:1/a?b");
    }

    #[test]
    fn failed_start_is_reported_with_the_output_of_the_server() {
        let error = link(&mut shell("echo no such command >&2")).unwrap_err().to_string();
        assert!(error.ends_with("it printed:\nno such command"), "{error}");
    }

    #[test]
    fn base_url_is_found_in_the_output() {
        assert_eq!(url("listening on http://127.0.0.1:4711"), Some("http://127.0.0.1:4711"));
        assert_eq!(url("open http://127.0.0.1:4711/dev-ui/?code=x now"), Some("http://127.0.0.1:4711"));
        assert_eq!(url("http://[::1]:80."), Some("http://[::1]:80"));
        assert_eq!(url("nothing yet"), None);
    }
}
