//! A server process: start, health check, CPU time and memory.

use super::wire::Connection;
use crate::{Result, measure::milliseconds};
use std::{
    fs,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    process::{Child, Command},
    time::{Duration, Instant},
};

const STARTS_WITHIN: Duration = Duration::from_mins(2);
/// The unit of CPU time in `/proc`: 1/100 s on Linux.
const TICK: Duration = Duration::from_millis(10);

/// A server process that is killed when it is dropped.
pub(super) struct Process {
    child: Child,
    pub(super) address: SocketAddr,
    /// Time from spawning the process to its first answer, in milliseconds.
    pub(super) start: f64,
}

impl Process {
    /// Spawns `command` on a free port and waits until `/health` succeeds.
    pub(super) async fn start(command: impl FnOnce(u16) -> Command) -> Result<Self> {
        Self::start_with(|port| Ok(command(port))).await
    }

    /// As [`start`](Self::start), with a command that may not be known.
    pub(super) async fn start_with(command: impl FnOnce(u16) -> std::io::Result<Command>) -> Result<Self> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut command = command(port)?;
        let begun = Instant::now();
        let mut process = Self { child: command.spawn()?, address, start: 0.0 };
        while check_health(address).await.is_err() {
            if let Some(status) = process.child.try_wait()? {
                return Err(format!("the server ended with {status}").into());
            }
            if begun.elapsed() > STARTS_WITHIN {
                return Err("the server does not answer".into());
            }
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
        process.start = milliseconds(begun.elapsed());
        Ok(process)
    }

    /// CPU time so far, in milliseconds.
    pub(super) fn cpu(&self) -> Result<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The name of the program may contain blanks and parentheses; only numbers follow it.
        let numbers = stat.rsplit(')').next().unwrap_or_default();
        let ticks = numbers.split_whitespace().skip(11).take(2).map(str::parse::<u32>);
        let ticks = ticks.sum::<std::result::Result<u32, _>>()?;
        Ok(milliseconds(TICK * ticks))
    }

    /// Resident memory, in megabytes.
    pub(super) fn memory(&self) -> Result<f64> {
        self.status("VmRSS:")
    }

    /// Peak resident memory since the start or the last [`reset_peak`](Self::reset_peak), in megabytes.
    pub(super) fn peak(&self) -> Result<f64> {
        self.status("VmHWM:")
    }

    pub(super) fn reset_peak(&self) -> Result<()> {
        Ok(fs::write(format!("/proc/{}/clear_refs", self.child.id()), "5")?)
    }

    fn status(&self, name: &str) -> Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(name)).ok_or("no such line")?;
        let kilobytes: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
        Ok(kilobytes / 1024.0)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn check_health(address: SocketAddr) -> Result<()> {
    let mut connection = Connection::open(address).await?;
    connection.request("GET", "/health", None).await?.success().map(drop)
}
