//! `cargo xtask deny`: checks licences, bans, sources and advisories of dependencies with `deny.toml`. The advisory database needs
//! the network, so this is not part of `check`, and advisories are checked last.

use crate::{Result, Workspace, peers};
use std::process::Command;

const CHECKS: [&[&str]; 2] = [&["bans", "licenses", "sources"], &["advisories"]];

pub(crate) fn run(workspace: &Workspace) -> Result<bool> {
    let Some(deny) = peers::cargo_deny(workspace)? else { return Ok(false) };
    for checks in CHECKS {
        let mut command = Command::new(&deny);
        command.current_dir(&workspace.root).args(["--workspace", "check"]).args(checks);
        if !command.status()?.success() {
            return Ok(false);
        }
    }
    Ok(true)
}
