//! The release binary: time and peak memory until the first prompt of `lango chat`, and the time of one `lango run`.

use crate::{
    BenchEnv, Result,
    figure::{Figure, Target},
    measure::{Samples, milliseconds, repeat},
};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::{
    fs::{self, File, OpenOptions},
    io::{Read, Write},
    path::Path,
    process::{Child, Command, Stdio},
    time::Instant,
};

const WARM_UP: u32 = 3;
const TIMES: u32 = 20;
const PROMPT: &str = "›";
/// Ctrl-D.
const END_OF_INPUT: &[u8] = &[4];

pub(crate) fn run(env: &BenchEnv) -> Result<Vec<Figure>> {
    let binary = env
        .binary
        .as_deref()
        .ok_or("no binary to measure; `cargo xtask bench` builds it and passes its path")?;
    let home = env.directory()?;
    let (mut start, mut memory) = (Vec::new(), Vec::new());
    for round in 0..WARM_UP + TIMES {
        let (milliseconds, megabytes) = start_to_prompt(binary, home.path())?;
        if round >= WARM_UP {
            start.push(milliseconds);
            memory.push(megabytes);
        }
    }
    let turn = repeat(WARM_UP, TIMES, || {
        let mut turn = Command::new(binary);
        turn.args(["run", "--session", "bench", "what is 17 * 23?"]).current_dir(home.path());
        let output = turn.env("LANGO_HOME", home.path()).stdin(Stdio::null()).output()?;
        let answer = String::from_utf8_lossy(&output.stdout);
        if answer.contains("391") { Ok(()) } else { Err(format!("the answer is {answer:?}").into()) }
    })?;
    Ok(vec![
        Figure::median("binary/start", &Samples::new(start), "ms").target(Target::AtMost(15.0)),
        Figure::median("binary/memory", &Samples::new(memory), "MB").target(Target::AtMost(12.0)),
        Figure::median("binary/turn", &turn, "ms"),
    ])
}

/// Starts `lango chat` on a pseudoterminal and exits at the first prompt. Returns milliseconds and megabytes.
fn start_to_prompt(binary: &Path, home: &Path) -> Result<(f64, f64)> {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let name = ptsname(&master, Vec::new())?;
    let slave = OpenOptions::new().read(true).write(true).open(name.to_str()?)?;
    let mut master = File::from(master);
    let start = Instant::now();
    let mut chat = Command::new(binary)
        .arg("chat")
        .current_dir(home)
        .env("LANGO_HOME", home)
        .stdin(slave.try_clone()?)
        .stdout(slave.try_clone()?)
        .stderr(slave)
        .spawn()?;
    let prompt = read_until(&mut master, PROMPT);
    let elapsed = milliseconds(start.elapsed());
    let memory = peak_megabytes(&chat);
    master.write_all(END_OF_INPUT)?;
    let ended = chat.wait()?;
    prompt?;
    if !ended.success() {
        return Err(format!("chat ended with {ended}").into());
    }
    Ok((elapsed, memory?))
}

fn read_until(from: &mut File, wanted: &str) -> Result<()> {
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    while !String::from_utf8_lossy(&seen).contains(wanted) {
        let length = from.read(&mut buffer)?;
        if length == 0 {
            return Err("chat ended before its first prompt".into());
        }
        seen.extend_from_slice(&buffer[..length]);
    }
    Ok(())
}

/// The peak resident memory of the process.
fn peak_megabytes(process: &Child) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{}/status", process.id()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM")?;
    let kilobytes: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kilobytes / 1024.0)
}
