//! Unmodified clients of ADK against our server: ADK's web page in Chromium, Python HTTP clients with ADK's types, and Google's
//! own clients in Python and JavaScript.
//!
//! The client programs are in `xtask/peers`. The server is the real binary with the canned agents and the default authentication;
//! Google's clients send no token, so theirs runs with `--no-auth`.

use crate::{
    Result, Workspace,
    conformance::server::{self, Server},
    peers::{self, Adk},
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Drives ADK's web page in a browser, before and after a restart of the server.
pub(crate) fn page(workspace: &Workspace) -> Result<bool> {
    let (Some(adk), Some(browser)) = (peers::adk(workspace)?, peers::browser(workspace)?) else {
        return Ok(true);
    };
    let folder = workspace.target.join("page");
    recreate(&folder)?;
    let drive = |server: &Server| -> Result<bool> {
        let mut node = Command::new("node");
        node.arg(workspace.root.join("xtask/peers/page.mjs")).arg(&server.link);
        node.args([&browser.chromium, &browser.modules, &folder]);
        Ok(node.stdin(Stdio::null()).status()?.success())
    };
    let server = serve(workspace, server::home(workspace, "page")?, &adk)?;
    Ok(drive(&server)? && drive(&serve(workspace, server.stop()?, &adk)?)?)
}

fn recreate(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    Ok(fs::create_dir_all(folder)?)
}

/// Runs the Python clients and Google's own clients.
pub(crate) fn clients(workspace: &Workspace) -> Result<bool> {
    let adk = peers::adk(workspace)?;
    let python = adk.as_ref().map_or(Ok(true), |adk| python_clients(workspace, adk))?;
    Ok(python && google_clients(workspace, adk.as_ref())?)
}

fn python_clients(workspace: &Workspace, adk: &Adk) -> Result<bool> {
    let server = serve(workspace, server::home(workspace, "clients")?, adk)?;
    let mut python = Command::new(&adk.python);
    python.arg(workspace.root.join("xtask/peers/clients.py")).arg(&server.url);
    python.arg(server.home.join("server-token")).env("no_proxy", "127.0.0.1");
    Ok(python.stdin(Stdio::null()).status()?.success())
}

fn google_clients(workspace: &Workspace, adk: Option<&Adk>) -> Result<bool> {
    let config = workspace.root.join("fixtures/canned/lango.toml");
    let home = server::home(workspace, "google-clients")?;
    let server = Server::start_in(workspace, home, &config, &["--no-auth"])?;
    let mut commands = Vec::new();
    if let Some(adk) = adk {
        let mut python = Command::new(&adk.python);
        python.arg(workspace.root.join("xtask/peers/adk_client.py")).arg(&server.url);
        commands.push(python);
    }
    if let Some(modules) = peers::js_client(workspace)? {
        let mut node = Command::new("node");
        node.arg(workspace.root.join("xtask/peers/adk_client.mjs")).arg(&server.url).arg(modules);
        commands.push(node);
    }
    for mut command in commands {
        if !command.env("no_proxy", "127.0.0.1").stdin(Stdio::null()).status()?.success() {
            return Ok(false);
        }
    }
    Ok(true)
}

fn serve(workspace: &Workspace, home: PathBuf, adk: &Adk) -> Result<Server> {
    let config = workspace.root.join("fixtures/canned/lango.toml");
    let dev_ui = format!("--dev-ui={}", adk.page.display());
    Server::start_in(workspace, home, &config, &[&dev_ui])
}
