//! A turn of google-adk and a turn of ours, measured in the same run if google-adk is installed.

use crate::{BenchEnv, Result, figure::Figure, turn};
use serde_json::Value;
use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

const LENGTHS: [(i64, &str); 2] = [(0, "0"), (1_000, "1k")];

pub(crate) fn run(env: &BenchEnv) -> Result<Vec<Figure>> {
    let Some(python) = installed(env) else {
        print_install_hint();
        return Ok(Vec::new());
    };
    let directory = env.directory()?;
    let theirs = measure(&python, directory.path())?;
    let mut figures = Vec::new();
    for (length, name) in LENGTHS {
        let Some(cpu) = cpu_after(&theirs, length) else { continue };
        let ours = turn::cpu_after_short(env, length)?;
        figures.push(Figure::new(format!("google-adk/turn/{name}/cpu"), cpu, "ms"));
        figures.push(Figure::median(format!("google-adk/turn/{name}/ours"), &ours, "ms"));
        let ratio = ours.median() / cpu;
        figures.push(Figure::new(format!("google-adk/turn/{name}/ratio"), ratio, "ratio"));
    }
    Ok(figures)
}

pub(crate) fn print_install_hint() {
    eprintln!("bench: google-adk is not installed; to install it: `python3 -m venv target/google-adk` and");
    eprintln!("bench: `target/google-adk/bin/pip install 'google-adk[db]==2.13.0'`");
}

/// A Python with google-adk: the one in the build directory, or `python3`.
pub(crate) fn installed(env: &BenchEnv) -> Option<PathBuf> {
    let own = env.files.parent().map(|target| target.join("google-adk/bin/python"));
    own.into_iter().chain([PathBuf::from("python3")]).find(|python| {
        let mut probe = Command::new(python);
        probe
            .args(["-c", "import google.adk"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        probe.status().is_ok_and(|status| status.success())
    })
}

/// Runs google-adk's bench, which prints one JSON object per line.
fn measure(python: &Path, directory: &Path) -> Result<Vec<Value>> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/google-adk/bench_turn.py");
    let database = format!("sqlite+aiosqlite:///{}", directory.join("adk.db").display());
    let output = Command::new(python)
        .args([script, "db", &database, "google-adk"])
        .env("HISTS", "0,1000")
        .env("HOME", directory)
        .stdin(Stdio::null())
        .output()?;
    if !output.status.success() {
        return Err(format!("google-adk's bench failed: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let lines = String::from_utf8_lossy(&output.stdout);
    Ok(lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// The CPU time of a turn without a tool call, in milliseconds.
fn cpu_after(lines: &[Value], length: i64) -> Option<f64> {
    let wanted = |line: &&Value| {
        line["bench"] == "turn" && line["tool"] == false && line["history"].as_i64() == Some(length)
    };
    lines.iter().find(wanted)?["cpu_ms"].as_f64()
}
