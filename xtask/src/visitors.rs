//! Programs of others at our door, unchanged: ADK's own web page in Chromium, and Python's HTTP clients with ADK's own types.
//!
//! What they do and see is in `xtask/peers`; here they get the real binary with the canned agents, and auth as it is by default.

use crate::{
    Result, Workspace,
    conformance::server::{self, Server},
    peers::{self, Adk},
};
use std::process::{Command, Stdio};

/// A person at the page.
pub(crate) fn page(workspace: &Workspace) -> Result<bool> {
    let (Some(adk), Some(browser)) = (peers::adk(workspace)?, peers::browser(workspace)?) else {
        return Ok(true);
    };
    let server = serve(workspace, "page", &adk)?;
    let mut node = Command::new("node");
    node.arg(workspace.root.join("xtask/peers/page.mjs")).arg(&server.link);
    node.args([browser.chromium, browser.modules, workspace.target.join("page.png")]);
    Ok(node.stdin(Stdio::null()).status()?.success())
}

/// A program that knows ADK's API.
pub(crate) fn clients(workspace: &Workspace) -> Result<bool> {
    let Some(adk) = peers::adk(workspace)? else { return Ok(true) };
    let server = serve(workspace, "clients", &adk)?;
    let mut python = Command::new(adk.python);
    python.arg(workspace.root.join("xtask/peers/clients.py")).arg(&server.url);
    python.arg(server.home.join("server-token")).env("no_proxy", "127.0.0.1");
    Ok(python.stdin(Stdio::null()).status()?.success())
}

fn serve(workspace: &Workspace, name: &str, adk: &Adk) -> Result<Server> {
    let config = workspace.root.join("fixtures/canned/lango.toml");
    let dev_ui = format!("--dev-ui={}", adk.page.display());
    Server::start_in(workspace, server::home(workspace, name)?, &config, &[&dev_ui])
}
