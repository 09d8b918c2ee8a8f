//! The benches are a package of their own, built in release, so that this one stays quick to build.

use crate::{Result, Workspace};

pub(crate) fn run(workspace: &Workspace, args: &[&str]) -> Result<bool> {
    let files = workspace.target.join("bench-files");
    let mut cargo = workspace.cargo(&["run", "--release", "--quiet", "--package", "bench", "--", "--files"]);
    Ok(cargo.arg(files).args(args).status()?.success())
}
