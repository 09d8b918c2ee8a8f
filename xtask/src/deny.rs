//! `cargo xtask deny`: licences, advisories, bans and sources of dependencies, as `deny.toml` has them. It needs the network for
//! the database of advisories, so it is no part of `check`.

use crate::{Result, Workspace, peers};
use std::process::Command;

pub(crate) fn run(workspace: &Workspace) -> Result<bool> {
    let Some(deny) = peers::cargo_deny(workspace)? else { return Ok(false) };
    Ok(Command::new(deny).current_dir(&workspace.root).args(["--workspace", "check"]).status()?.success())
}
