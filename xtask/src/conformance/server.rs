//! The real binary with the canned agent, on a port of its own and with a home that is thrown away.

use super::http::Base;
use crate::{Result, Workspace};
use std::{
    fs,
    io::{BufRead, BufReader, Read},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

const STARTS_WITHIN: Duration = Duration::from_secs(20);

/// Ends with its value.
pub(super) struct Server {
    process: Child,
    home: PathBuf,
    pub(super) base: Base,
}

impl Server {
    pub(super) fn start(workspace: &Workspace) -> Result<Self> {
        if !workspace.cargo(&["build", "--quiet", "--package", "lango"]).status()?.success() {
            return Err("the binary does not build".into());
        }
        let home = workspace.target.join(format!("conformance-{}", std::process::id()));
        fs::create_dir_all(&home)?;
        let mut process = command(workspace, &home).spawn()?;
        match address(&mut process) {
            Ok(base) => Ok(Self { process, home, base }),
            Err(error) => {
                end(&mut process, &home);
                Err(error)
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        end(&mut self.process, &self.home);
    }
}

fn command(workspace: &Workspace, home: &PathBuf) -> Command {
    let mut command = Command::new(workspace.target.join("debug/lango"));
    command.args(["serve", "--port", "0", "--no-auth", "--config"]);
    command.arg(workspace.root.join("fixtures/canned/lango.toml"));
    command.env("LANGO_HOME", home).env("LANGO_DATABASE", home.join("lango.db"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// From the first line that tells one. The rest is read as well, so that the server never waits for us.
fn address(process: &mut Child) -> Result<Base> {
    let (tell, told) = mpsc::channel();
    for stream in streams(process) {
        let tell = tell.clone();
        thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(std::io::Result::ok) {
                // Nobody listens once the address is known.
                let _ = tell.send(line);
            }
        });
    }
    drop(tell);
    let mut said = Vec::new();
    while let Ok(line) = told.recv_timeout(STARTS_WITHIN) {
        if let Some(url) = url(&line) {
            return Base::parse(url);
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
        let mut process = shell("echo starting; echo listening on http://127.0.0.1:1 >&2; exec sleep 60");
        let base = address(&mut process);
        process.kill().unwrap();
        process.wait().unwrap();
        assert!(base.is_ok());
    }

    #[test]
    fn a_server_that_does_not_start_is_told_with_its_own_words() {
        let error = address(&mut shell("echo no such command >&2")).unwrap_err().to_string();
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
