//! Runs the processes of a case, one after the other, until one of them comes to its end.

use crate::{
    case::{Case, Fault, Stage, StoreKind},
    life::{self, Job},
    report::{Line, now},
};
use std::{
    env,
    io::Write,
    os::unix::process::ExitStatusExt,
    process::{self, Command, Stdio},
    thread,
    time::Duration,
};
use tempfile::TempDir;

const SIGABRT: i32 = 6;
/// A process that takes longer hangs.
const LONGEST: Duration = Duration::from_mins(6);

/// What the processes of a case told.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) lines: Vec<Line>,
    pub(crate) aborted_at: Vec<u64>,
    /// Whether the fault happened.
    pub(crate) fired: bool,
}

impl Told {
    fn problem(&mut self, problem: String) {
        self.lines.push(Line::Problem(problem));
    }
}

pub(crate) fn run(case: &Case) -> Told {
    let dir = TempDir::new().unwrap();
    let mut told = Told::default();
    let Case { setting, earlier, trial } = *case;
    let job = |trials, dies, before| Job { setting, dir: dir.path().to_owned(), trials, dies, before };
    if setting.store == StoreKind::Sqlite && setting.stage == Stage::Recovery {
        let exit = start(&job(Vec::new(), true, Vec::new()), &mut told);
        if exit != Exit::Aborted(None) {
            told.problem(format!("the first process was to die: {exit:?}"));
        }
    }
    let exit = start(&job(earlier.into_iter().chain(trial).collect(), false, told.lines.clone()), &mut told);
    match (exit, trial) {
        (Exit::Clean, _) => {}
        (Exit::Aborted(Some(point)), Some(trial))
            if trial.fault == Fault::Abort && point == trial.point.name() =>
        {
            told.fired = true;
            let exit = start(&job(Vec::new(), false, told.lines.clone()), &mut told);
            if exit != Exit::Clean {
                told.problem(format!("the process that continues ended: {exit:?}"));
            }
        }
        (exit, _) => told.problem(format!("the process ended: {exit:?}")),
    }
    told.fired |= told.lines.iter().any(|line| matches!(line, Line::Hits { fired, .. } if *fired > 0));
    told
}

#[derive(Debug, PartialEq, Eq)]
enum Exit {
    Clean,
    /// At this fail point, if it was one.
    Aborted(Option<String>),
    Failed(String),
}

fn start(job: &Job, told: &mut Told) -> Exit {
    let mut child = Command::new(env::current_exe().unwrap())
        .arg(CHILD)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&serde_json::to_vec(job).unwrap()).unwrap();
    let output = child.wait_with_output().unwrap();
    let at = now();
    // A line that was cut off was not told.
    let lines = output.stdout.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
    for line in lines {
        match serde_json::from_slice(line) {
            Ok(line) => told.lines.push(line),
            Err(error) => told.problem(format!("{error}: {}", String::from_utf8_lossy(line))),
        }
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    match output.status.signal() {
        Some(SIGABRT) => {
            told.aborted_at.push(at);
            let point = stderr.lines().find_map(|line| line.strip_prefix("fail point: abort at "));
            Exit::Aborted(point.map(str::to_owned))
        }
        None if output.status.success() => Exit::Clean,
        _ => Exit::Failed(format!("{}: {stderr}", output.status)),
    }
}

pub(crate) const CHILD: &str = "--child";

/// The life of a process that [`start`] started.
pub(crate) fn be_child() {
    thread::spawn(|| {
        thread::sleep(LONGEST);
        process::exit(3);
    });
    let job = std::io::read_to_string(std::io::stdin()).unwrap();
    life::run(serde_json::from_str(&job).unwrap());
}
