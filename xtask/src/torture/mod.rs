//! The torture test: many clients send messages to several servers on one database, over HTTP and with `lango run`, while servers
//! are killed with SIGKILL again and again, one is stopped, and syncs of the database fail or are slow. Afterwards everything
//! that was acknowledged must be stored, once and unchanged.
//!
//! A test is a number of rounds, each with new sessions on the same database. At the end of a round no server is killed until all
//! clients have finished; then all servers are killed, a new one is started, and its state is compared with what the clients
//! received.
//!
//! | module | contents |
//! |---|---|
//! | [`plan`] | the messages, kills and faults, made from the seed |
//! | [`fleet`], [`failover`] | the servers, their kills, the faults of the disk; the server that is stopped |
//! | [`client`], [`reader`], [`terminal`] | clients that send messages, read runs, and record the answers |
//! | [`journal`], [`stored_state`], [`verify`] | the record of the clients, the stored state, and their comparison |
//! | [`power_cut`] | another test with the same clients: the state that a power cut leaves on the disk |
//!
//! The plan is reproducible; the interleaving of processes is not. A violation therefore keeps its evidence: the database, the
//! logs of the servers and the journal of the clients.

mod client;
mod failover;
mod fleet;
mod journal;
mod plan;
pub(crate) mod power_cut;
mod reader;
mod stage;
mod stored_state;
mod terminal;
mod verify;

use crate::{
    Result, Workspace,
    harness::{
        self, interrupt,
        machine::{self, Machine},
        preload::{Control, Library},
    },
};
use client::LoadClient;
use failover::StopPoint;
use fleet::{Fleet, Until};
use journal::Record;
use stage::{Clock, Round, Stage, Tally};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};
use stored_state::StoredState;
use terminal::TerminalClient;

const USAGE: &str = "\
cargo xtask torture [--minutes N] [--kills K] [--seed S]

Kills `lango serve` with SIGKILL repeatedly while clients send messages, and verifies that nothing acknowledged is lost. Once in
every 100 kills it stops a server (SIGSTOP) at several stop points at once and continues it after another server has taken its
runs over. Ends after N minutes or K kills, whichever comes first; without either, after 60 kills. The same seed sends the same
messages and plans the same kills. On a violation, exits with code 1 and keeps a directory with the evidence.";

const CLIENTS: u64 = 12;
const TERMINALS: u64 = 1;
/// Kills of one round.
const ROUND: u64 = 100;
const DEFAULT_KILLS: u64 = 60;
/// A test with this many kills must stop a server at every stop point.
const FAILOVER_KILLS: u64 = 60;
/// How long a new server may take to finish the runs of the killed ones.
const SETTLES_WITHIN: Duration = Duration::from_mins(3);
const PROGRESS: Duration = Duration::from_secs(5);
/// The number of violations that are printed; all of them are in the evidence.
const PRINTED: usize = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Options {
    minutes: Option<u64>,
    kills: Option<u64>,
    seed: u64,
}

/// The test with a fixed seed, for `check`.
pub(crate) fn check(workspace: &Workspace, kills: u64) -> Result<bool> {
    go(workspace, Options { minutes: None, kills: Some(kills), seed: 20_261_118 })
}

pub(crate) fn run(workspace: &Workspace, args: &[&str]) -> Result<bool> {
    let Some(options) = options(args)? else {
        println!("{USAGE}");
        return Ok(true);
    };
    go(workspace, options)
}

/// `None` if help is requested.
fn options(args: &[&str]) -> Result<Option<Options>> {
    let known = ["--minutes", "--kills", "--seed"];
    let Some(numbers) = harness::options::parse(args, &known, USAGE)? else { return Ok(None) };
    let mut options = Options { minutes: None, kills: None, seed: 1 };
    for (name, number) in numbers {
        match name {
            "--minutes" => options.minutes = Some(number),
            "--kills" => options.kills = Some(number),
            _ => options.seed = number,
        }
    }
    if options.minutes.is_none() && options.kills.is_none() {
        options.kills = Some(DEFAULT_KILLS);
    }
    Ok(Some(options))
}

fn go(workspace: &Workspace, options: Options) -> Result<bool> {
    interrupt::listen()?;
    let binary = machine::build(workspace)?;
    let root = workspace.target.join("torture").join(format!("seed-{}-{}", options.seed, std::process::id()));
    let machine = Machine::new(root, &binary, Library::build(workspace)?)?.with_seed(options.seed);
    let control = machine.control()?;
    let (tally, begun) = (Tally::default(), Instant::now());
    let is_over = AtomicBool::new(false);
    let result = thread::scope(|scope| {
        scope.spawn(|| report_progress(&tally, begun, &is_over));
        let result = rounds(&machine, control.as_ref(), &tally, options);
        is_over.store(true, Ordering::Relaxed);
        result
    });
    let Outcome { violations, runs } = result?;
    let interrupted = if interrupt::is_set() { ", interrupted" } else { "" };
    let lost = violations.iter().filter(|violation| violation.contains("lost")).count();
    let seconds = begun.elapsed().as_secs();
    let evidence = if violations.is_empty() {
        String::new()
    } else {
        format!(", evidence in {}", machine.root().display())
    };
    println!(
        "torture: {}, {runs} runs, {lost} lost, {} violations, {seconds} s, seed {}{interrupted}{evidence}",
        tally.line(),
        violations.len(),
        options.seed
    );
    if violations.is_empty() {
        fs::remove_dir_all(machine.root())?;
    }
    Ok(violations.is_empty() && !interrupt::is_set())
}

fn report_progress(tally: &Tally, begun: Instant, is_over: &AtomicBool) {
    let mut next = PROGRESS;
    while !is_over.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(50));
        if begun.elapsed() >= next {
            next += PROGRESS;
            println!("torture: {:>4} s, {}", begun.elapsed().as_secs(), tally.line());
        }
    }
}

#[derive(Debug, Default)]
struct Outcome {
    violations: Vec<String>,
    runs: usize,
}

/// Plays rounds until the limit of kills or time is reached, or one of them has a violation.
fn rounds(machine: &Machine, control: Option<&Control>, tally: &Tally, options: Options) -> Result<Outcome> {
    let begun = Instant::now();
    let minutes = options.minutes.unwrap_or(24 * 60);
    let time = begun + Duration::from_mins(minutes);
    let kills = options.kills.unwrap_or(u64::MAX);
    let mut outcome = Outcome::default();
    for number in 0.. {
        let done = tally.kills.load(Ordering::Relaxed);
        if done >= kills || Instant::now() >= time || interrupt::is_set() || !outcome.violations.is_empty() {
            break;
        }
        let planned = kills.min(done + ROUND);
        let until = Until { kills: planned, time, needs_failover: planned - done >= FAILOVER_KILLS };
        let round = Round { seed: options.seed, number };
        let stage = Stage::new(machine, round, tally, Clock::Time(Instant::now()));
        play(&stage, control, until)?;
        let mut record = stage.journal.into_record();
        record.executions = machine.held_calls()?;
        let server = machine.serve("stored-state")?;
        let deadline = Instant::now() + SETTLES_WITHIN;
        let stored_state = StoredState::read(server.address, &round.session(""), deadline)?;
        outcome.violations = verify::verify(&record, &stored_state);
        outcome.violations.extend(missing_stops(tally));
        outcome.violations.extend(damage(&[machine.database()]));
        outcome.runs += stored_state.sessions.values().map(|session| session.runs.len()).sum::<usize>();
        keep_evidence(machine.root(), &record, &stored_state, &outcome.violations)?;
    }
    Ok(outcome)
}

/// Plays one round: clients, terminals and servers, until enough servers were killed and the clients have finished.
fn play(stage: &Stage<'_>, control: Option<&Control>, until: Until) -> Result<()> {
    thread::scope(|scope| {
        let spawn = |work: Box<dyn FnOnce() + Send>| {
            stage.enter();
            scope.spawn(move || {
                work();
                stage.leave();
            });
        };
        for number in 0..CLIENTS {
            spawn(Box::new(move || LoadClient::new(stage, number).run()));
        }
        for number in 0..TERMINALS {
            spawn(Box::new(move || TerminalClient::new(stage, number).run()));
        }
        let result = Fleet::new(stage, control).run(until);
        stage.close();
        result
    })
}

/// The stop points at which no server was stopped, although the test was long enough for a failover test.
fn missing_stops(tally: &Tally) -> Vec<String> {
    if tally.kills.load(Ordering::Relaxed) < FAILOVER_KILLS || interrupt::is_set() {
        return Vec::new();
    }
    let is_missing = |stop_point: &StopPoint| tally.stops_in(*stop_point).load(Ordering::Relaxed) == 0;
    let missing = StopPoint::ALL.into_iter().filter(is_missing);
    missing
        .map(|stop_point| format!("no server was stopped at the stop point {}", stop_point.name()))
        .collect()
}

/// Checks the integrity of databases with the SQLite of Python, if Python is installed.
fn damage(databases: &[PathBuf]) -> Vec<String> {
    let check = "\
import sqlite3, sys
for path in sys.argv[1:]:
    verdict = sqlite3.connect(path).execute('PRAGMA integrity_check').fetchone()[0]
    if verdict != 'ok': print(path + ' is damaged: ' + verdict)
";
    let Ok(output) = Command::new("python3").args(["-c", check]).args(databases).output() else {
        return Vec::new();
    };
    if !output.status.success() {
        return vec![format!(
            "the integrity check failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        )];
    }
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

fn keep_evidence(
    root: &Path,
    record: &Record,
    stored_state: &StoredState,
    violations: &[String],
) -> Result<()> {
    if violations.is_empty() {
        return Ok(());
    }
    for violation in violations.iter().take(PRINTED) {
        println!("violation: {violation}");
    }
    fs::write(root.join("violations.txt"), violations.join("\n") + "\n")?;
    fs::write(root.join("journal.jsonl"), record.lines())?;
    fs::write(root.join("stored_state.txt"), format!("{stored_state:#?}\n"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_default_to_sixty_kills() {
        let default = options(&[]).unwrap().unwrap();
        assert_eq!(default, Options { minutes: None, kills: Some(60), seed: 1 });
        let given = options(&["--minutes", "2", "--seed", "7"]).unwrap().unwrap();
        assert_eq!(given, Options { minutes: Some(2), kills: None, seed: 7 });
        assert_eq!(options(&["--kills", "3", "--help"]).unwrap(), None);
    }

    #[test]
    fn test_without_a_stop_in_every_stop_point_has_a_violation() {
        let tally = Tally::default();
        assert_eq!(missing_stops(&tally), Vec::<String>::new());
        tally.kills.store(FAILOVER_KILLS, Ordering::Relaxed);
        assert_eq!(missing_stops(&tally).len(), StopPoint::ALL.len());
        for stop_point in [StopPoint::Streaming, StopPoint::IdempotentCall, StopPoint::FirstByte] {
            stage::count(tally.stops_in(stop_point));
        }
        assert_eq!(missing_stops(&tally), ["no server was stopped at the stop point once-call"]);
    }

    #[test]
    fn invalid_options_are_refused() {
        for wrong in [&["--kills"][..], &["--kills", "many"], &["--hours", "1"]] {
            assert!(options(wrong).is_err(), "{wrong:?}");
        }
    }
}
