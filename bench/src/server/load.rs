//! The load that both servers are measured under: sequential turns, concurrent clients, a new and a long session.

use super::{
    process::Process,
    sides::long,
    wire::{BenchSession, Connection},
};
use crate::{
    Result,
    measure::{Samples, milliseconds},
};
use futures::future::try_join_all;
use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

const CLIENTS: usize = 64;
const TURNS: usize = 20;
const SEQUENTIAL: usize = 20;
/// Time before the memory of an idle server is read.
const SETTLE: Duration = Duration::from_secs(1);

/// The number of turns, which is smaller for the slower server.
#[derive(Clone, Copy)]
pub(super) struct Effort {
    /// Turns in the long session, and as many turns in new sessions.
    pub(super) long_turns: usize,
}

/// The measurements of one server process.
pub(super) struct Run {
    pub(super) start: f64,
    pub(super) idle: f64,
    pub(super) peak: f64,
    /// Latencies of sequential turns, in milliseconds.
    pub(super) sequential: Vec<f64>,
    /// CPU time of a turn in a new session and in the long one, in milliseconds.
    pub(super) new: f64,
    pub(super) long: f64,
    pub(super) concurrent: ConcurrentLoad,
}

/// Concurrent clients, each with its own session and connection.
pub(super) struct ConcurrentLoad {
    pub(super) failed: usize,
    pub(super) seconds: f64,
    /// CPU time of all turns, in milliseconds.
    pub(super) cpu: f64,
    pub(super) latencies: Vec<f64>,
}

impl Run {
    /// Combines runs of one server: the minimum of start and idle memory, the maximum of peak memory, and all turns.
    pub(super) fn combine(runs: Vec<Self>) -> Option<Self> {
        let number = f64::from(u32::try_from(runs.len()).ok()?);
        let sum = runs.into_iter().reduce(|one, other| Self {
            start: one.start.min(other.start),
            idle: one.idle.min(other.idle),
            peak: one.peak.max(other.peak),
            sequential: [one.sequential, other.sequential].concat(),
            new: one.new + other.new,
            long: one.long + other.long,
            concurrent: one.concurrent.merge(other.concurrent),
        })?;
        Some(Self { new: sum.new / number, long: sum.long / number, ..sum })
    }
}

pub(super) async fn run(server: &Process, effort: Effort) -> Result<Run> {
    tokio::time::sleep(SETTLE).await;
    let idle = server.memory()?;
    let sequential = sequential_turns(server).await?;
    let concurrent = concurrent_turns(server).await?;
    let peak = server.peak()?;
    let (new, long) = new_and_long(server, effort.long_turns).await?;
    Ok(Run { start: server.start, idle, peak, sequential, new, long, concurrent })
}

async fn sequential_turns(server: &Process) -> Result<Vec<f64>> {
    let mut connection = Connection::open(server.address).await?;
    let session = BenchSession::new("alone", "alone");
    connection.create_session(&session).await?;
    // The first turn loads the agent.
    connection.turn(&session).await?;
    let mut latencies = Vec::with_capacity(SEQUENTIAL);
    for _ in 0..SEQUENTIAL {
        let begun = Instant::now();
        connection.turn(&session).await?;
        latencies.push(milliseconds(begun.elapsed()));
    }
    Ok(latencies)
}

async fn concurrent_turns(server: &Process) -> Result<ConcurrentLoad> {
    let sessions: Vec<BenchSession> =
        (0..CLIENTS).map(|client| BenchSession::new(format!("u{client}"), format!("c{client}"))).collect();
    for session in &sessions {
        Connection::open(server.address).await?.create_session(session).await?;
    }
    let (begun, before) = (Instant::now(), server.cpu()?);
    let clients = sessions.iter().map(|session| client(server.address, session));
    let (latencies, failures): (Vec<Vec<f64>>, Vec<Option<String>>) =
        try_join_all(clients).await?.into_iter().unzip();
    if let Some(failure) = failures.into_iter().flatten().next() {
        eprintln!("bench: a turn failed: {failure:.160}");
    }
    let latencies = latencies.concat();
    let (seconds, cpu) = (begun.elapsed().as_secs_f64(), server.cpu()? - before);
    Ok(ConcurrentLoad { failed: CLIENTS * TURNS - latencies.len(), seconds, cpu, latencies })
}

/// Returns the latencies of the successful turns of one client, and the last failure.
async fn client(address: SocketAddr, session: &BenchSession) -> Result<(Vec<f64>, Option<String>)> {
    let mut connection = Connection::open(address).await?;
    let (mut latencies, mut failure) = (Vec::with_capacity(TURNS), None);
    for _ in 0..TURNS {
        let begun = Instant::now();
        match connection.turn(session).await {
            Ok(()) => latencies.push(milliseconds(begun.elapsed())),
            Err(error) => {
                failure = Some(error.to_string());
                connection = Connection::open(address).await?;
            }
        }
    }
    Ok((latencies, failure))
}

/// Returns the CPU time of a turn in a new session and in the long one.
async fn new_and_long(server: &Process, turns: usize) -> Result<(f64, f64)> {
    let mut connection = Connection::open(server.address).await?;
    let news: Vec<BenchSession> =
        (0..turns).map(|number| BenchSession::new("new", format!("n{number}"))).collect();
    for session in &news {
        connection.create_session(session).await?;
    }
    let before = server.cpu()?;
    for session in &news {
        connection.turn(session).await?;
    }
    let new = server.cpu()? - before;
    let long = long();
    // The first turn loads the session.
    connection.turn(&long).await?;
    let before = server.cpu()?;
    for _ in 0..turns {
        connection.turn(&long).await?;
    }
    let long = server.cpu()? - before;
    let each = |cpu: f64| cpu / f64::from(u32::try_from(turns).unwrap_or(u32::MAX));
    Ok((each(new), each(long)))
}

impl ConcurrentLoad {
    fn merge(mut self, other: Self) -> Self {
        self.failed += other.failed;
        self.seconds += other.seconds;
        self.cpu += other.cpu;
        self.latencies.extend(other.latencies);
        self
    }

    pub(super) fn failures(&self) -> f64 {
        u32::try_from(self.failed).map_or(f64::NAN, f64::from)
    }

    fn number(&self) -> f64 {
        u32::try_from(self.latencies.len()).map_or(f64::NAN, f64::from)
    }

    pub(super) fn rate(&self) -> f64 {
        self.number() / self.seconds
    }

    /// CPU time per turn. Failed turns count: they cost as much.
    pub(super) fn cpu_each(&self) -> f64 {
        self.cpu / (self.number() + self.failures())
    }

    pub(super) fn samples(&self) -> Samples {
        Samples::new(self.latencies.clone())
    }
}
