//! The library that is preloaded into the binary, compiled from `xtask/c/storage.c` by the system's C compiler.

use crate::{Result, Workspace};
use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// How often syncs of the database fail or are slow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SyncFaults {
    /// Failing syncs per thousand.
    pub(crate) failing: u64,
    /// Slow syncs per thousand.
    pub(crate) slow: u64,
    pub(crate) delay_us: u64,
}

impl SyncFaults {
    pub(crate) fn is_none(self) -> bool {
        self.failing == 0 && self.slow == 0
    }

    fn line(self) -> String {
        // Fixed length, so that overwriting a line replaces it completely.
        format!("{:>4} {:>4} {:>10}\n", self.failing, self.slow, self.delay_us)
    }
}

/// The compiled library.
#[derive(Clone, Debug)]
pub(crate) struct Library(PathBuf);

impl Library {
    /// `None` where libraries cannot be preloaded; the test then runs without faults.
    pub(crate) fn build(workspace: &Workspace) -> Result<Option<Self>> {
        if !cfg!(target_os = "linux") {
            println!("skipped: injected storage faults, because they need LD_PRELOAD on Linux");
            return Ok(None);
        }
        let folder = workspace.target.join("harness");
        fs::create_dir_all(&folder)?;
        let library = folder.join("libstorage.so");
        // Another process may have loaded the library, so it is replaced by a rename.
        let fresh = folder.join(format!("libstorage-{}.so", std::process::id()));
        let compiler = std::env::var_os("CC").unwrap_or_else(|| OsString::from("cc"));
        let mut command = Command::new(&compiler);
        command.args(["-shared", "-fPIC", "-O1", "-Wall", "-o"]).arg(&fresh);
        command.arg(workspace.root.join("xtask/c/storage.c")).args(["-ldl", "-pthread"]);
        crate::peers::run(&mut command)?;
        fs::rename(&fresh, &library)?;
        Ok(Some(Self(library)))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

/// The control file of the library: faults begin and end while programs run.
#[derive(Debug)]
pub(crate) struct Control(PathBuf);

impl Control {
    pub(crate) fn new(path: PathBuf) -> Result<Self> {
        let control = Self(path);
        control.set(SyncFaults::default())?;
        Ok(control)
    }

    pub(crate) fn set(&self, faults: SyncFaults) -> Result<()> {
        use std::io::Write;
        // In one write: a reader sees the old line or the new one.
        let mut file = fs::OpenOptions::new().write(true).create(true).truncate(false).open(&self.0)?;
        Ok(file.write_all(faults.line().as_bytes())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lines_of_the_control_file_have_the_same_length() {
        let many = SyncFaults { failing: 1000, slow: 999, delay_us: 10_000_000 };
        assert_eq!(SyncFaults::default().line().len(), many.line().len());
        let numbers: Vec<u64> =
            many.line().split_whitespace().map(|number| number.parse().unwrap()).collect();
        assert_eq!(numbers, [1000, 999, 10_000_000]);
        assert!(SyncFaults::default().is_none() && !many.is_none());
    }
}
