//! `cargo xtask bench`: builds and runs the package `bench` in release. It is a separate package so that xtask builds fast.

use crate::{Result, Workspace};

pub(crate) fn run(workspace: &Workspace, args: &[&str]) -> Result<bool> {
    if !workspace.cargo(&["build", "--release", "--quiet", "--package", "lango"]).status()?.success() {
        return Ok(false);
    }
    let files = workspace.target.join("bench-files");
    let binary = workspace.target.join("release/lango");
    let mut cargo = workspace.cargo(&["run", "--release", "--quiet", "--package", "bench", "--", "--files"]);
    Ok(cargo.arg(files).arg("--binary").arg(binary).args(args).status()?.success())
}
