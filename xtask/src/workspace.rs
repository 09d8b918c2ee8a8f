//! The workspace: its root, packages and files, from cargo metadata and git. Works in any directory of the workspace.

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
    /// Path of the manifest, relative to the root.
    pub(crate) manifest: String,
    /// Dependencies on crates of this workspace.
    pub(crate) dependencies: Vec<Dependency>,
}

pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// Features that the manifest enables.
    pub(crate) features: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Normal and build dependencies.
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

    /// Cargo in the root directory, without standard input. Output streams are inherited.
    pub(crate) fn cargo(&self, args: &[&str]) -> Command {
        let mut command = cargo();
        command.current_dir(&self.root).args(args).stdin(Stdio::null());
        command
    }

    /// The files that are valid UTF-8, with their contents.
    pub(crate) fn texts(&self) -> Result<Vec<(String, String)>> {
        let mut texts = Vec::new();
        for path in self.files()? {
            if let Ok(text) = String::from_utf8(fs::read(self.root.join(&path))?) {
                texts.push((path, text));
            }
        }
        Ok(texts)
    }

    /// The files of the working tree that are tracked or not ignored, relative to the root.
    pub(crate) fn files(&self) -> Result<Vec<String>> {
        // In a container the clone often belongs to another user, and git would refuse to read it.
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
    /// `None` for an external crate: only crates of this workspace have a path.
    fn read(dependency: &Value) -> Option<Self> {
        dependency["path"].as_str()?;
        let kind = if dependency["kind"] == "dev" { Kind::Dev } else { Kind::Shipped };
        let features = list(&dependency["features"]).iter().map(|name| text(name).to_owned()).collect();
        Some(Self { name: text(&dependency["name"]).to_owned(), kind, features })
    }
}

/// The cargo that runs this program, so that `cargo +toolchain xtask` keeps its toolchain. The variables of this package are removed:
/// build scripts depend on them, and crates would be rebuilt when cargo is called directly.
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
