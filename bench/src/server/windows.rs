//! Our server on sessions with full windows, beside new sessions and beside the minimal server.

use super::{
    fake_model, minimal,
    process::Process,
    sides::Side,
    wire::{APP, BenchSession, Connection},
};
use crate::{
    BenchEnv, Result,
    figure::{Figure, Target},
    measure::Samples,
    raw, turn,
};
use futures::future::try_join_all;
use session::SessionKey;
use std::{fs, path::Path, time::Instant};
use tokio::runtime::Runtime;

const CLIENTS: usize = 64;
/// Turns of each client. They fill half of a window, which an advance left.
const TURNS: usize = 200;
/// Clients of the model over HTTP.
const HTTP_CLIENTS: usize = 16;
const ROTATING: usize = 1_000;
/// A window holds 32,000 tokens. A session has more, so that the first turn advances its front.
const LOGGED_TOKENS: i64 = 40_000;
/// Bytes of a message of 30 tokens and of one of 300.
const SHORT: usize = 130;
const LONG: usize = 1_350;

/// The turns of all clients.
struct Throughput {
    rate: f64,
    /// CPU time of a turn, in milliseconds.
    cpu: f64,
    /// Resident memory afterwards, in megabytes.
    memory: f64,
    p99: f64,
}

pub(super) fn run(env: &BenchEnv, ours: &Side, runtime: &Runtime) -> Result<Vec<Figure>> {
    let minimal = runtime.block_on(beside(env))?;
    let new = on_sessions(env, ours, runtime, None)?;
    let [short, long] = [SHORT, LONG].map(|bytes| on_sessions(env, ours, runtime, Some(bytes)));
    let (short, long) = (short?, long?);
    let rotation = rotation(env, ours, runtime)?;
    let over_http = over_http(env, ours, runtime)?;
    let mut figures = vec![
        Figure::new("server/minimal/turns", minimal.rate, "turns/s"),
        Figure::new("server/minimal/cpu", minimal.cpu, "ms"),
        Figure::new("server/new/turns", new.rate, "turns/s"),
        Figure::new("server/new/to_minimal", new.rate / minimal.rate, "ratio").target(Target::AtLeast(0.4)),
    ];
    for (name, full) in [("short", short), ("long", long)] {
        let named = |what: &str| format!("server/full/{name}/{what}");
        figures.extend([
            Figure::new(named("turns"), full.rate, "turns/s"),
            Figure::new(named("cpu"), full.cpu, "ms"),
            Figure::new(named("p99"), full.p99, "ms"),
            Figure::new(named("memory"), full.memory, "MB").target(Target::AtMost(120.0)),
            Figure::new(named("to_new"), full.rate / new.rate, "ratio").target(Target::AtLeast(0.8)),
        ]);
    }
    figures.push(Figure::new("server/uncached/cpu", rotation.cpu, "ms").target(Target::AtMost(2.0)));
    figures.push(Figure::new("server/uncached/memory", rotation.memory, "MB"));
    figures.push(Figure::new("server/http/cpu", over_http.cpu, "ms").target(Target::AtMost(0.6)));
    figures.push(Figure::new("server/http/p99", over_http.p99, "ms"));
    Ok(figures)
}

/// The minimal server with the same clients.
async fn beside(env: &BenchEnv) -> Result<Throughput> {
    let home = env.directory()?;
    let server = Process::start_with(|port| minimal::command(home.path(), port)).await?;
    throughput(&server, CLIENTS, TURNS).await
}

/// Clients with a session each: a new one, or one with messages of `bytes`.
fn on_sessions(env: &BenchEnv, ours: &Side, runtime: &Runtime, bytes: Option<usize>) -> Result<Throughput> {
    let home = env.directory()?;
    ours.prepare(home.path(), 0)?;
    fill(home.path(), CLIENTS, bytes)?;
    runtime.block_on(async {
        let server = ours.start(home.path()).await?;
        // The first turns load the sessions, advance their fronts and keep the prefixes.
        throughput(&server, CLIENTS, 2).await?;
        throughput(&server, CLIENTS, TURNS).await
    })
}

/// Clients on sessions with full windows of long messages, with a model over HTTP.
fn over_http(env: &BenchEnv, ours: &Side, runtime: &Runtime) -> Result<Throughput> {
    let home = env.directory()?;
    ours.prepare(home.path(), 0)?;
    let provider = format!("\n[providers.team]\nbaseUrl = \"http://{}/v1\"\n", fake_model::start()?);
    let config = home.path().join("lango.toml");
    fs::write(&config, fs::read_to_string(&config)? + &provider)?;
    let agent = "name: bench\nmodel: team/m\ninstruction: Be fast.\n";
    fs::write(home.path().join("agents").join(APP).join("root_agent.yaml"), agent)?;
    fill(home.path(), HTTP_CLIENTS, Some(LONG))?;
    runtime.block_on(async {
        let server = ours.start(home.path()).await?;
        throughput(&server, HTTP_CLIENTS, 2).await?;
        throughput(&server, HTTP_CLIENTS, TURNS).await
    })
}

fn rotation(env: &BenchEnv, ours: &Side, runtime: &Runtime) -> Result<Throughput> {
    let home = env.directory()?;
    ours.prepare(home.path(), 0)?;
    fill(home.path(), ROTATING, Some(SHORT))?;
    runtime.block_on(async { rotate(&ours.start(home.path()).await?).await })
}

/// One client that goes through more sessions than are cached.
async fn rotate(server: &Process) -> Result<Throughput> {
    let before = server.cpu()?;
    let mut connection = Connection::open(server.address).await?;
    // The first round advances the fronts.
    let (mut spent, mut begun) = (before, Instant::now());
    for round in 0..2 {
        (spent, begun) = (server.cpu()?, Instant::now());
        for client in 0..ROTATING {
            connection.turn(&session_of(client)).await.map_err(|error| format!("round {round}: {error}"))?;
        }
    }
    let turns = count(ROTATING);
    let rate = turns / begun.elapsed().as_secs_f64();
    Ok(Throughput { rate, cpu: (server.cpu()? - spent) / turns, memory: server.peak()?, p99: 0.0 })
}

fn session_of(client: usize) -> BenchSession {
    BenchSession::new(format!("u{client}"), format!("c{client}"))
}

fn count(number: usize) -> f64 {
    u32::try_from(number).map_or(f64::NAN, f64::from)
}

/// Creates the sessions of the clients, with a full window of messages of `bytes`.
fn fill(home: &Path, clients: usize, bytes: Option<usize>) -> Result<()> {
    let keys = (0..clients).map(session_of).map(|session| SessionKey::new(APP, &session.user, &session.id));
    let keys: Vec<SessionKey> = keys.collect();
    let database = home.join("lango.db");
    drop(raw::create(&database, &keys)?);
    let Some(bytes) = bytes else { return Ok(()) };
    let sizes = [bytes];
    let mut history = turn::history(&sizes)?;
    let tokens = i64::from(history().tokens);
    raw::grow_all(&database, &mut history, LOGGED_TOKENS / tokens)
}

async fn throughput(server: &Process, clients: usize, turns: usize) -> Result<Throughput> {
    let (begun, before) = (Instant::now(), server.cpu()?);
    let clients = (0..clients).map(|client| async move {
        let mut connection = Connection::open(server.address).await?;
        let session = session_of(client);
        let mut latencies = Vec::with_capacity(turns);
        for _ in 0..turns {
            let begun = Instant::now();
            connection.turn(&session).await?;
            latencies.push(crate::measure::milliseconds(begun.elapsed()));
        }
        Ok::<_, Box<dyn std::error::Error>>(latencies)
    });
    let latencies = try_join_all(clients).await?.concat();
    let turns = count(latencies.len());
    Ok(Throughput {
        rate: turns / begun.elapsed().as_secs_f64(),
        cpu: (server.cpu()? - before) / turns,
        memory: server.memory()?,
        p99: Samples::new(latencies).percentile(99),
    })
}
