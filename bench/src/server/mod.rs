//! Our server and google-adk's, driven by the same client in the same run, in turns.
//!
//! | read | for |
//! |---|---|
//! | [`mod@load`] | what is measured of both |
//! | [`crowds`] | what is measured of ours alone |
//! | [`sides`] | how each is started |
//! | [`process`], [`wire`] | a server as a process; a client that costs little |

mod crowds;
mod load;
mod process;
mod sides;
mod wire;

use crate::{
    Lab, Result,
    figure::{Aim, Figure},
    measure::Samples,
    reference,
};
use load::{Effort, Run};
use sides::Side;
use tokio::runtime::{Builder, Runtime};

/// Each server is started so often; they take turns in who goes first.
const ROUNDS: usize = 2;
const EVENTS: i64 = 5_000;
const MILLION: i64 = 1_000_000;
const OURS: Effort = Effort { long_turns: 300 };
const THEIRS: Effort = Effort { long_turns: 8 };

/// Both servers under the same load.
pub(crate) fn load(lab: &Lab) -> Result<Vec<Figure>> {
    let (ours, runtime) = (ours(lab)?, client()?);
    let theirs = reference::installed(lab).map(Side::Theirs);
    if theirs.is_none() {
        reference::tell_how_to_install();
    }
    let once = |side: &Side, effort: Effort| -> Result<Run> {
        let home = lab.directory()?;
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
    let ours = Run::all(our_runs).ok_or("nothing was measured")?;
    let mut figures = ours_alone(&ours);
    if let Some(theirs) = Run::all(their_runs) {
        figures.extend(compared(&ours, &theirs));
    }
    Ok(figures)
}

/// Ours with more than anybody else would be asked for.
pub(crate) fn scale(lab: &Lab) -> Result<Vec<Figure>> {
    let (ours, runtime) = (ours(lab)?, client()?);
    let mut figures = Vec::new();
    let home = lab.directory()?;
    ours.prepare(home.path(), 0)?;
    figures.extend(runtime.block_on(async { crowds::runs(&ours.start(home.path()).await?).await })?);
    figures.extend(runtime.block_on(async { crowds::readers(&ours.start(home.path()).await?).await })?);
    let home = lab.directory()?;
    ours.prepare(home.path(), MILLION)?;
    figures.extend(runtime.block_on(async { crowds::million(&ours.start(home.path()).await?).await })?);
    Ok(figures)
}

fn ours(lab: &Lab) -> Result<Side> {
    let binary = lab.binary.clone();
    Ok(Side::Ours(binary.ok_or("the server is measured by `cargo xtask bench`, which builds it")?))
}

/// One thread: it leaves the other cores to the server.
fn client() -> Result<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}

fn ours_alone(ours: &Run) -> Vec<Figure> {
    let latencies = ours.crowd.samples();
    vec![
        Figure::new("server/start", ours.start, "ms").aim(Aim::AtMost(15.0)),
        Figure::new("server/idle", ours.idle, "MB").aim(Aim::AtMost(12.0)),
        Figure::new("server/peak", ours.peak, "MB"),
        Figure::new("server/turns", ours.crowd.rate(), "turns/s"),
        Figure::new("server/failed", ours.crowd.failures(), "turns").aim(Aim::AtMost(0.0)),
        Figure::new("server/p50", latencies.median(), "ms"),
        Figure::new("server/p99", latencies.percentile(99), "ms"),
        // A sixth of what adk-server 2.3 took.
        Figure::new("server/cpu", ours.crowd.cpu_each(), "ms").aim(Aim::AtMost(0.62)),
        Figure::median("server/alone", &Samples::new(ours.alone.clone()), "ms"),
        Figure::new("server/new/cpu", ours.new, "ms"),
        Figure::new("server/5k/cpu", ours.long, "ms"),
        Figure::new("server/5k/to_new", ours.long / ours.new, "ratio").aim(Aim::AtMost(1.25)),
    ]
}

fn compared(ours: &Run, theirs: &Run) -> Vec<Figure> {
    let latencies = theirs.crowd.samples();
    let named = |what: &str| format!("server/google-adk/{what}");
    vec![
        Figure::new(named("start"), theirs.start, "ms"),
        Figure::new(named("idle"), theirs.idle, "MB"),
        Figure::new(named("peak"), theirs.peak, "MB"),
        Figure::new(named("turns"), theirs.crowd.rate(), "turns/s"),
        Figure::new(named("failed"), theirs.crowd.failures(), "turns"),
        Figure::new(named("p50"), latencies.median(), "ms"),
        Figure::new(named("p99"), latencies.percentile(99), "ms"),
        Figure::new(named("cpu"), theirs.crowd.cpu_each(), "ms"),
        Figure::median(named("alone"), &Samples::new(theirs.alone.clone()), "ms"),
        Figure::new(named("new/cpu"), theirs.new, "ms"),
        Figure::new(named("5k/cpu"), theirs.long, "ms"),
        Figure::new("server/turns/ratio", ours.crowd.rate() / theirs.crowd.rate(), "times")
            .aim(Aim::AtLeast(100.0)),
        Figure::new("server/cpu/ratio", theirs.crowd.cpu_each() / ours.crowd.cpu_each(), "times")
            .aim(Aim::AtLeast(100.0)),
    ]
}
