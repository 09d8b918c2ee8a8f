//! Our server and google-adk's, measured alternately with the same client in the same run.
//!
//! | module | contents |
//! |---|---|
//! | [`mod@load`] | measurements of both servers |
//! | [`windows`], [`minimal`], [`fake_model`] | sessions with full windows, beside a minimal server, and with a model over HTTP |
//! | [`stress`] | measurements of our server only |
//! | [`sides`] | how each server is started |
//! | [`process`], [`wire`] | the process of a server; a client with little overhead |

mod fake_model;
mod load;
pub(crate) mod minimal;
mod process;
mod sides;
mod stress;
mod windows;
mod wire;

use crate::{
    BenchEnv, Result,
    figure::{Figure, Target},
    measure::Samples,
    reference,
};
use load::{Effort, Run};
use sides::Side;
use tokio::runtime::{Builder, Runtime};

/// Number of times that each server is started. The server that runs first alternates.
const ROUNDS: usize = 2;
const EVENTS: i64 = 5_000;
const MILLION: i64 = 1_000_000;
const OURS: Effort = Effort { long_turns: 300 };
const THEIRS: Effort = Effort { long_turns: 8 };

/// Both servers under the same load.
pub(crate) fn load(env: &BenchEnv) -> Result<Vec<Figure>> {
    let (ours, runtime) = (ours(env)?, client()?);
    let theirs = reference::installed(env).map(Side::Theirs);
    if theirs.is_none() {
        reference::print_install_hint();
    }
    let once = |side: &Side, effort: Effort| -> Result<Run> {
        let home = env.directory()?;
        side.prepare(home.path(), EVENTS)?;
        runtime.block_on(async { load::run(&side.start(home.path()).await?, effort).await })
    };
    let (mut our_runs, mut their_runs) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        if round % 2 == 0 {
            our_runs.push(once(&ours, OURS)?);
        }
        if let Some(theirs) = &theirs {
            their_runs.push(once(theirs, THEIRS)?);
        }
        if round % 2 == 1 {
            our_runs.push(once(&ours, OURS)?);
        }
    }
    let ours = Run::combine(our_runs).ok_or("nothing was measured")?;
    let mut figures = ours_alone(&ours);
    if let Some(theirs) = Run::combine(their_runs) {
        figures.extend(compared(&ours, &theirs));
    }
    Ok(figures)
}

/// Our server under [`stress`].
pub(crate) fn scale(env: &BenchEnv) -> Result<Vec<Figure>> {
    let (ours, runtime) = (ours(env)?, client()?);
    let mut figures = Vec::new();
    let home = env.directory()?;
    ours.prepare(home.path(), 0)?;
    figures.extend(runtime.block_on(async { stress::runs(&ours.start(home.path()).await?).await })?);
    figures.extend(runtime.block_on(async { stress::readers(&ours.start(home.path()).await?).await })?);
    let home = env.directory()?;
    ours.prepare(home.path(), MILLION)?;
    figures.extend(runtime.block_on(async { stress::million(&ours.start(home.path()).await?).await })?);
    Ok(figures)
}

/// Our server on sessions with full windows.
pub(crate) fn full(env: &BenchEnv) -> Result<Vec<Figure>> {
    let (ours, runtime) = (ours(env)?, client()?);
    windows::run(env, &ours, &runtime)
}

fn ours(env: &BenchEnv) -> Result<Side> {
    let binary = env.binary.clone();
    Ok(Side::Ours(binary.ok_or("no binary to measure; `cargo xtask bench` builds it and passes its path")?))
}

/// A single-threaded runtime, which leaves the other cores to the server.
fn client() -> Result<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}

fn ours_alone(ours: &Run) -> Vec<Figure> {
    let latencies = ours.concurrent.samples();
    vec![
        Figure::new("server/start", ours.start, "ms").target(Target::AtMost(15.0)),
        Figure::new("server/idle", ours.idle, "MB").target(Target::AtMost(12.0)),
        Figure::new("server/peak", ours.peak, "MB"),
        Figure::new("server/turns", ours.concurrent.rate(), "turns/s"),
        Figure::new("server/failed", ours.concurrent.failures(), "turns").target(Target::AtMost(0.0)),
        Figure::new("server/p50", latencies.median(), "ms"),
        Figure::new("server/p99", latencies.percentile(99), "ms"),
        // A sixth of the CPU time of adk-server 2.3.
        Figure::new("server/cpu", ours.concurrent.cpu_each(), "ms").target(Target::AtMost(0.62)),
        Figure::median("server/alone", &Samples::new(ours.sequential.clone()), "ms"),
        Figure::new("server/new/cpu", ours.new, "ms"),
        Figure::new("server/5k/cpu", ours.long, "ms"),
        Figure::new("server/5k/to_new", ours.long / ours.new, "ratio").target(Target::AtMost(1.25)),
    ]
}

fn compared(ours: &Run, theirs: &Run) -> Vec<Figure> {
    let latencies = theirs.concurrent.samples();
    let named = |what: &str| format!("server/google-adk/{what}");
    vec![
        Figure::new(named("start"), theirs.start, "ms"),
        Figure::new(named("idle"), theirs.idle, "MB"),
        Figure::new(named("peak"), theirs.peak, "MB"),
        Figure::new(named("turns"), theirs.concurrent.rate(), "turns/s"),
        Figure::new(named("failed"), theirs.concurrent.failures(), "turns"),
        Figure::new(named("p50"), latencies.median(), "ms"),
        Figure::new(named("p99"), latencies.percentile(99), "ms"),
        Figure::new(named("cpu"), theirs.concurrent.cpu_each(), "ms"),
        Figure::median(named("alone"), &Samples::new(theirs.sequential.clone()), "ms"),
        Figure::new(named("new/cpu"), theirs.new, "ms"),
        Figure::new(named("5k/cpu"), theirs.long, "ms"),
        Figure::new("server/turns/ratio", ours.concurrent.rate() / theirs.concurrent.rate(), "times")
            .target(Target::AtLeast(100.0)),
        Figure::new("server/cpu/ratio", theirs.concurrent.cpu_each() / ours.concurrent.cpu_each(), "times")
            .target(Target::AtLeast(100.0)),
    ]
}
