//! Where the workspace is and what it holds, as cargo and git tell it, from any directory inside it.

use crate::Result;
use serde_json::Value;
use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) target: PathBuf,
    pub(crate) packages: Vec<Package>,
}

pub(crate) struct Package {
    pub(crate) name: String,
    /// Relative to the root.
    pub(crate) manifest: String,
    /// On crates of this workspace only.
    pub(crate) dependencies: Vec<Dependency>,
}

pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// Those that the manifest asks for.
    pub(crate) features: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Part of what ships: normal and build dependencies.
    Shipped,
    Dev,
}

impl Workspace {
    pub(crate) fn load() -> Result<Self> {
        let output = cargo().args(["metadata", "--no-deps", "--format-version", "1"]).output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).trim().into());
        }
        let metadata: Value = serde_json::from_slice(&output.stdout)?;
        let root = PathBuf::from(text(&metadata["workspace_root"]));
        let packages =
            list(&metadata["packages"]).iter().map(|package| Package::read(package, &root)).collect();
        Ok(Self { target: text(&metadata["target_directory"]).into(), root, packages })
    }

    /// Cargo at the root, without a keyboard. It ends with the caller's own output streams.
    pub(crate) fn cargo(&self, args: &[&str]) -> Command {
        let mut command = cargo();
        command.current_dir(&self.root).args(args).stdin(Stdio::null());
        command
    }

    /// Those that are text, with what is in them.
    pub(crate) fn texts(&self) -> Result<Vec<(String, String)>> {
        let mut texts = Vec::new();
        for path in self.files()? {
            if let Ok(text) = String::from_utf8(fs::read(self.root.join(&path))?) {
                texts.push((path, text));
            }
        }
        Ok(texts)
    }

    /// The files of the working tree that git tracks or would, relative to the root.
    pub(crate) fn files(&self) -> Result<Vec<String>> {
        // In a container the clone often belongs to somebody else, and git would refuse to look at it.
        let output = Command::new("git")
            .current_dir(&self.root)
            .args(["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .output()
            .map_err(|error| format!("git is needed to list the files: {error}"))?;
        if !output.status.success() {
            return Err(format!("git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim()).into());
        }
        let names = String::from_utf8(output.stdout)?;
        let present = |name: &&str| !name.is_empty() && self.root.join(name).is_file();
        Ok(names.split('\0').filter(present).map(str::to_owned).collect())
    }
}

impl Package {
    fn read(package: &Value, root: &Path) -> Self {
        let manifest = Path::new(text(&package["manifest_path"]));
        Self {
            name: text(&package["name"]).to_owned(),
            manifest: manifest.strip_prefix(root).unwrap_or(manifest).display().to_string(),
            dependencies: list(&package["dependencies"]).iter().filter_map(Dependency::read).collect(),
        }
    }
}

impl Dependency {
    /// `None` for a crate from elsewhere: only a crate of this workspace has a path.
    fn read(dependency: &Value) -> Option<Self> {
        dependency["path"].as_str()?;
        let kind = if dependency["kind"] == "dev" { Kind::Dev } else { Kind::Shipped };
        let features = list(&dependency["features"]).iter().map(|name| text(name).to_owned()).collect();
        Some(Self { name: text(&dependency["name"]).to_owned(), kind, features })
    }
}

/// The cargo that runs us, so that a `cargo +toolchain xtask` stays with its toolchain; without what it told us of our own package:
/// build scripts look at these variables, and crates would be built anew whenever somebody else calls cargo.
fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    let is_ours = |name: &str| ["CARGO_MANIFEST_", "CARGO_PKG_"].iter().any(|begin| name.starts_with(begin));
    for (name, _) in env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_ours)) {
        command.env_remove(name);
    }
    command
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}
