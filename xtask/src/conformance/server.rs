//! The real binary with the canned agent, on a port of its own and with a home that is thrown away.

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

/// Ends with its value.
pub(crate) struct Server {
    process: Child,
    /// A directory of its own, gone with it.
    pub(crate) home: PathBuf,
    /// What it asks to be opened in a browser.
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

    /// With a configuration and a home that stay until it ends.
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
}

/// The very binary of the tests, which has been built by then: of all packages together, and, because of the examples, with what
/// their tests depend on. Alone, it would be built again with other features of the same crates.
pub(crate) fn build(workspace: &Workspace) -> Result<()> {
    let args = ["build", "--quiet", "--locked", "--workspace", "--bin", "lango", "--examples"];
    if workspace.cargo(&args).status()?.success() { Ok(()) } else { Err("the binary does not build".into()) }
}

/// A directory that is not there yet.
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

/// The binary with that home.
pub(crate) fn lango(workspace: &Workspace, home: &Path) -> Command {
    let mut command = Command::new(workspace.target.join("debug/lango"));
    command.env("LANGO_HOME", home).env("LANGO_DATABASE", home.join("lango.db"));
    command
}

/// From the line that tells it. The rest is read as well, so that the server never waits for us.
fn link(process: &mut Child) -> Result<String> {
    let (tell, told) = mpsc::channel();
    for stream in streams(process) {
        let tell = tell.clone();
        thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(std::io::Result::ok) {
                // Nobody listens once the link is known.
                let _ = tell.send(line);
            }
        });
    }
    drop(tell);
    let mut said = Vec::new();
    while let Ok(line) = told.recv_timeout(STARTS_WITHIN) {
        if let Some(link) = line.strip_prefix("open ").and_then(|line| line.split(' ').next()) {
            return Ok(link.to_owned());
        }
        said.push(line);
    }
    Err(format!("the server did not say where it listens; it said:\n{}", said.join("\n")).into())
}

fn streams(process: &mut Child) -> Vec<Box<dyn Read + Send>> {
    let out = process.stdout.take().map(|stream| Box::new(stream) as Box<dyn Read + Send>);
    let err = process.stderr.take().map(|stream| Box::new(stream) as Box<dyn Read + Send>);
    out.into_iter().chain(err).collect()
}

/// `http://127.0.0.1:4711`, wherever in a line it stands and whatever path follows it.
fn url(line: &str) -> Option<&str> {
    let rest = &line[line.find("http://")?..];
    let host = "http://".len();
    let end = rest[host..].find(|c: char| !(c.is_alphanumeric() || ".:-[]".contains(c)));
    Some(rest[..end.map_or(rest.len(), |end| host + end)].trim_end_matches('.'))
}

fn end(process: &mut Child, home: &PathBuf) {
    let _ = process.kill();
    let _ = process.wait();
    let _ = fs::remove_dir_all(home);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    #[test]
    fn a_server_is_ready_when_it_says_where_it_is() {
        let mut process =
            shell("echo listening; echo open http://127.0.0.1:1/a?b in a browser >&2; exec sleep 60");
        let link = link(&mut process);
        process.kill().unwrap();
        process.wait().unwrap();
        assert_eq!(link.unwrap(), "http://127.0.0.1:1/a?b");
    }

    #[test]
    fn a_server_that_does_not_start_is_told_with_its_own_words() {
        let error = link(&mut shell("echo no such command >&2")).unwrap_err().to_string();
        assert!(error.ends_with("it said:\nno such command"), "{error}");
    }

    #[test]
    fn the_address_is_found_in_what_the_server_says() {
        assert_eq!(url("listening on http://127.0.0.1:4711"), Some("http://127.0.0.1:4711"));
        assert_eq!(url("open http://127.0.0.1:4711/dev-ui/?code=x now"), Some("http://127.0.0.1:4711"));
        assert_eq!(url("http://[::1]:80."), Some("http://[::1]:80"));
        assert_eq!(url("nothing yet"), None);
    }
}
