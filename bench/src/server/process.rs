//! A server as a process of its own: started, waited for, looked at, ended.

use super::wire::Connection;
use crate::{Result, measure::milliseconds};
use std::{
    fs,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    process::{Child, Command},
    time::{Duration, Instant},
};

const STARTS_WITHIN: Duration = Duration::from_mins(2);
/// How long Linux counts CPU time at once, everywhere.
const TICK: Duration = Duration::from_millis(10);

/// Ends with its value.
pub(super) struct Process {
    child: Child,
    pub(super) address: SocketAddr,
    /// From the first instruction to the first answer, in milliseconds.
    pub(super) start: f64,
}

impl Process {
    /// Starts what `command` makes for a port, and waits until it says that it is well.
    pub(super) async fn start(command: impl FnOnce(u16) -> Command) -> Result<Self> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut command = command(port);
        let begun = Instant::now();
        let mut process = Self { child: command.spawn()?, address, start: 0.0 };
        while healthy(address).await.is_err() {
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

    /// CPU that it has spent so far, in milliseconds.
    pub(super) fn cpu(&self) -> Result<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The name may have any characters; behind it come numbers.
        let numbers = stat.rsplit(')').next().unwrap_or_default();
        let ticks = numbers.split_whitespace().skip(11).take(2).map(str::parse::<u32>);
        let ticks = ticks.sum::<std::result::Result<u32, _>>()?;
        Ok(milliseconds(TICK * ticks))
    }

    /// Memory that it holds, in megabytes.
    pub(super) fn memory(&self) -> Result<f64> {
        self.status("VmRSS:")
    }

    /// The most that it has held since it began, or since the last [`forget_peak`](Self::forget_peak).
    pub(super) fn peak(&self) -> Result<f64> {
        self.status("VmHWM:")
    }

    pub(super) fn forget_peak(&self) -> Result<()> {
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

async fn healthy(address: SocketAddr) -> Result<()> {
    let mut connection = Connection::open(address).await?;
    connection.ask("GET", "/health", None).await?.well().map(drop)
}
