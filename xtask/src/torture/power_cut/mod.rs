//! The power-cut test: every write and sync of a database under load is recorded; then the state of the disk after a power cut
//! is reconstructed for many moments. A server on such a disk must have everything that was acknowledged before the cut, finish
//! interrupted runs, and accept the next message.
//!
//! | module | contents |
//! |---|---|
//! | [`load`] | the recorded load |
//! | [`trace`] | the operations that the preloaded library recorded |
//! | [`mod@replay`] | the state of the disk after a cut |
//!
//! The verification is that of the torture test. A moment is a length of the trace, and so is the position of a cut.

mod load;
mod replay;
mod trace;

use super::{
    damage,
    journal::{Moment, Record, text},
    stage::Round,
    stored_state::StoredState,
    verify,
};
use crate::{
    Result, Workspace,
    harness::{
        self,
        http::HttpRequest,
        interrupt,
        machine::{self, APP, Machine, USER, sessions_path},
        preload::Library,
        random::Random,
        script::{Kind, Pace},
    },
};
use lock::LockExt;
use replay::{Cut, Fate, replay};
use serde_json::json;
use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};
use trace::Operation;

const USAGE: &str = "\
cargo xtask power-cut [--cuts N] [--seed S]

Records all writes and syncs of a database under load, reconstructs the disk that a power cut could have left at N moments
(default: 40), and opens it with the real binary: everything acknowledged must be stored, and the next message must be answered.
On a violation, exits with code 1 and keeps a directory with the evidence.";

const DEFAULT_CUTS: u64 = 40;
/// Cuts that are verified concurrently.
const WORKERS: usize = 3;
/// Cuts whose disks are kept until SQLite has checked all of them in one call.
const BATCH: usize = 40;
const SETTLES_WITHIN: Duration = Duration::from_mins(1);
const REQUEST: Duration = Duration::from_secs(30);
const PRINTED: usize = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Options {
    cuts: u64,
    seed: u64,
}

/// The test with a fixed seed, for `check`.
pub(crate) fn check(workspace: &Workspace, cuts: u64) -> Result<bool> {
    go(workspace, Options { cuts, seed: 20_261_118 })
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
    let Some(numbers) = harness::options::parse(args, &["--cuts", "--seed"], USAGE)? else { return Ok(None) };
    let mut options = Options { cuts: DEFAULT_CUTS, seed: 1 };
    for (name, number) in numbers {
        match name {
            "--cuts" => options.cuts = number,
            _ => options.seed = number,
        }
    }
    Ok(Some(options))
}

/// A recorded load.
struct Recording {
    machine: Machine,
    trace: Vec<u8>,
    operations: Vec<trace::Record>,
    record: Record,
    round: Round,
}

fn go(workspace: &Workspace, options: Options) -> Result<bool> {
    interrupt::listen()?;
    let Some(library) = Library::build(workspace)? else { return Ok(true) };
    let begun = Instant::now();
    let root =
        workspace.target.join("power-cut").join(format!("seed-{}-{}", options.seed, std::process::id()));
    let recording = Recording::make(&root, &machine::build(workspace)?, library, options.seed)?;
    println!("power-cut: {}", recording.line());
    let mut violations = recording.record.problems.clone();
    let cuts = cuts(&recording.operations, options);
    for (number, batch) in cuts.chunks(BATCH).enumerate() {
        violations.extend(recording.verify_all(number * BATCH, batch)?);
    }
    let done = if interrupt::is_set() { ", interrupted" } else { "" };
    for violation in violations.iter().take(PRINTED) {
        println!("violation: {violation}");
    }
    let lost = violations.iter().filter(|violation| violation.contains("lost")).count();
    let seconds = begun.elapsed().as_secs();
    let (number, found, seed) = (cuts.len(), violations.len(), options.seed);
    if violations.is_empty() {
        fs::remove_dir_all(&root)?;
    } else {
        fs::write(root.join("violations.txt"), violations.join("\n") + "\n")?;
        fs::write(root.join("journal.jsonl"), recording.record.lines())?;
    }
    let evidence =
        if violations.is_empty() { String::new() } else { format!(", evidence in {}", root.display()) };
    println!(
        "power-cut: {number} cuts, {lost} lost, {found} violations, {seconds} s, seed {seed}{done}{evidence}"
    );
    Ok(violations.is_empty() && !interrupt::is_set())
}

impl Recording {
    fn make(root: &Path, binary: &Path, library: Library, seed: u64) -> Result<Self> {
        let machine = Machine::new(root.to_owned(), binary, Some(library))?.with_seed(seed);
        let path = root.join("trace");
        let machine = machine.with_trace(path.clone());
        machine.configure(Pace::Quick)?;
        let round = Round { seed, number: 0 };
        let record = load::record(&machine, &path, round)?;
        let trace = fs::read(&path)?;
        let operations = trace::parse(&trace)?;
        Ok(Self { machine, trace, operations, record, round })
    }

    fn line(&self) -> String {
        let is_sync = |record: &&trace::Record| {
            matches!(record.operation, Operation::Sync { .. } | Operation::SyncDirectory { .. })
        };
        let syncs = self.operations.iter().filter(is_sync).count();
        let messages = self.record.messages.iter().filter(|message| message.accepted.is_some()).count();
        let events: usize = self.record.readings.iter().map(|reading| reading.seen.len()).sum();
        let (writes, megabytes) = (self.operations.len() - syncs, self.trace.len() / 1_000_000);
        format!("{writes} writes and {syncs} syncs in {megabytes} MB, {messages} messages, {events} events")
    }

    fn verify_all(&self, first: usize, cuts: &[Cut]) -> Result<Vec<String>> {
        let (next, found) = (Mutex::new(cuts.iter().zip(first..)), Mutex::new(Vec::new()));
        let work = || {
            let take = || next.locked().next().filter(|_| !interrupt::is_set());
            while let Some((cut, number)) = take() {
                let violations = self.verify(*cut, number);
                let violations = violations.unwrap_or_else(|error| vec![error.to_string()]);
                let named = |violation| format!("cut {number} {cut:?}: {violation}");
                found.locked().extend(violations.into_iter().map(named));
            }
        };
        thread::scope(|scope| {
            for _ in 0..WORKERS {
                scope.spawn(work);
            }
        });
        let mut found = found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let roots: Vec<PathBuf> = (first..first + cuts.len()).map(|number| self.directory(number)).collect();
        let databases = roots.iter().map(|root| root.join("data/lango.db")).filter(|path| path.exists());
        found.extend(damage(&databases.collect::<Vec<PathBuf>>()));
        for root in roots.iter().filter(|root| root.exists() && found.is_empty()) {
            fs::remove_dir_all(root)?;
        }
        Ok(found)
    }

    /// The directory of the reconstructed disk of a cut.
    fn directory(&self, number: usize) -> PathBuf {
        self.machine.root().join(format!("cut-{number}"))
    }

    /// Reconstructs the disk of a cut, opens it, and compares it with what was acknowledged before the cut.
    fn verify(&self, cut: Cut, number: usize) -> Result<Vec<String>> {
        let machine = self.machine.beside(self.directory(number))?;
        self.restore(cut, &machine)?;
        let server = machine.serve("server")?;
        let stored_state =
            StoredState::read(server.address, &self.round.session(""), Instant::now() + SETTLES_WITHIN)?;
        let mut violations = verify::verify(&self.record.until(Moment::from_nanos(cut.at)), &stored_state);
        violations.extend(next_message(server.address, &stored_state)?);
        Ok(violations)
    }

    fn restore(&self, cut: Cut, machine: &Machine) -> Result<()> {
        let data = self.machine.data().display().to_string();
        let disk = replay(&self.trace, &self.operations, &data, cut);
        let place = |path: &str| -> Result<PathBuf> {
            let name = path.strip_prefix(&data).ok_or("a path outside the data directory was recorded")?;
            Ok(machine.data().join(name.trim_start_matches('/')))
        };
        for directory in &disk.directories {
            fs::create_dir_all(place(directory)?)?;
        }
        for (path, bytes) in &disk.files {
            fs::write(place(path)?, bytes)?;
        }
        Ok(())
    }
}

/// Random cuts; half of them right before or after a sync, where the durable state changes.
fn cuts(operations: &[trace::Record], options: Options) -> Vec<Cut> {
    let mut random = Random::of(options.seed, "cuts");
    let is_sync = |record: &trace::Record| {
        matches!(record.operation, Operation::Sync { .. } | Operation::SyncDirectory { .. })
    };
    let syncs: Vec<usize> = (0..operations.len()).filter(|index| is_sync(&operations[*index])).collect();
    let cut = |_| {
        let index = match random.below(4) {
            0 | 1 => random.index(operations.len()),
            2 => random.pick(&syncs).unwrap_or(0),
            // The sync has begun but is not recorded.
            _ => random.pick(&syncs).unwrap_or(0).saturating_sub(1),
        };
        let at = operations.get(index).map_or(0, |record| record.end);
        Cut { at, fate: Fate::random(&mut random), seed: random.next() }
    };
    (0..options.cuts).map(cut).collect()
}

/// Sends a message to every session and to a new one, and checks the answers.
fn next_message(server: SocketAddr, stored_state: &StoredState) -> Result<Vec<String>> {
    let (path, body) = (sessions_path(), json!({"sessionId": "after"}));
    HttpRequest::post(&path, &body).send(server, REQUEST)?.bytes()?;
    let mut violations = Vec::new();
    for session in stored_state.sessions.keys().map(String::as_str).chain(["after"]) {
        let token = format!("{session}-next");
        let message = json!({"role": "user", "parts": [{"text": Kind::Look.message(&token)}]});
        let body = json!({"appName": APP, "userId": USER, "sessionId": session, "newMessage": message});
        let answer = HttpRequest::post("/run", &body).send(server, REQUEST)?;
        let (status, events) = (answer.status, answer.json()?);
        let answered = events.as_array().and_then(|events| events.last()).map(text).unwrap_or_default();
        if status != 200 || answered != Kind::Look.answer(&token) {
            violations.push(format!("the next message of {session} is answered {status} {events}"));
        }
    }
    Ok(violations)
}

impl Record {
    /// The part of the record that was acknowledged by then.
    fn until(&self, moment: Moment) -> Self {
        let messages = self.messages.iter().cloned().map(|mut message| {
            if message.accepted.is_none_or(|accepted| accepted > moment) {
                (message.accepted, message.accepted_by) = (None, None);
                message.runs.clear();
            }
            message.runs.truncate(1);
            message
        });
        let readings = self.readings.iter().cloned().filter_map(|mut reading| {
            reading.seen.retain(|seen| seen.at <= moment);
            reading.is_complete = false;
            (!reading.seen.is_empty()).then_some(reading)
        });
        // The times of the lines that a terminal printed are unknown.
        Self { messages: messages.collect(), readings: readings.collect(), ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_default_to_40_cuts() {
        assert_eq!(options(&[]).unwrap(), Some(Options { cuts: 40, seed: 1 }));
        assert_eq!(options(&["--cuts", "9", "--seed", "4"]).unwrap(), Some(Options { cuts: 9, seed: 4 }));
        assert_eq!(options(&["--help"]).unwrap(), None);
        assert!(options(&["--cuts"]).is_err() && options(&["--kills", "1"]).is_err());
    }

    #[test]
    fn cuts_are_at_the_ends_of_records_and_many_are_near_a_sync() {
        let write = |end| trace::Record {
            begin: end - 10,
            end,
            operation: Operation::Write { inode: 1, offset: 0, data: 0..0 },
        };
        let mut operations: Vec<trace::Record> = (1..1000).map(|number| write(number * 10)).collect();
        operations[500].operation = Operation::Sync { inode: 1, begun: 0 };
        let all = cuts(&operations, Options { cuts: 200, seed: 1 });
        assert!(all.iter().all(|cut| cut.at % 10 == 0 && cut.at > 0));
        let near = all.iter().filter(|cut| [operations[499].end, operations[500].end].contains(&cut.at));
        assert!(near.count() > 50);
        assert_eq!(all, cuts(&operations, Options { cuts: 200, seed: 1 }));
    }
}
