//! Runs the processes of a case, one after the other, until one exits normally.

use crate::{
    case::{Case, Fault, FaultStage, StoreKind},
    process_main::{self, Job},
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

/// The reports of the processes of a case.
#[derive(Debug, Default)]
pub(crate) struct CaseReports {
    pub(crate) lines: Vec<Line>,
    pub(crate) aborted_at: Vec<u64>,
    /// Whether the fault occurred.
    pub(crate) fired: bool,
}

impl CaseReports {
    fn problem(&mut self, problem: String) {
        self.lines.push(Line::Problem(problem));
    }
}

pub(crate) fn run(case: &Case) -> CaseReports {
    let dir = TempDir::new().unwrap();
    let mut reports = CaseReports::default();
    let Case { setting, earlier, trial } = *case;
    let job = |trials, aborts, before| Job { setting, dir: dir.path().to_owned(), trials, aborts, before };
    if setting.store == StoreKind::Sqlite && setting.stage == FaultStage::Recovery {
        let exit = start(&job(Vec::new(), true, Vec::new()), &mut reports);
        if exit != Exit::Aborted(None) {
            reports.problem(format!("the first process did not abort: {exit:?}"));
        }
    }
    let exit =
        start(&job(earlier.into_iter().chain(trial).collect(), false, reports.lines.clone()), &mut reports);
    match (exit, trial) {
        (Exit::Clean, _) => {}
        (Exit::Aborted(Some(point)), Some(trial))
            if trial.fault == Fault::Abort && point == trial.point.name() =>
        {
            reports.fired = true;
            let exit = start(&job(Vec::new(), false, reports.lines.clone()), &mut reports);
            if exit != Exit::Clean {
                reports.problem(format!("the process that continues ended: {exit:?}"));
            }
        }
        (exit, _) => reports.problem(format!("the process ended: {exit:?}")),
    }
    reports.fired |= reports.lines.iter().any(|line| matches!(line, Line::Hits { fired, .. } if *fired > 0));
    reports
}

#[derive(Debug, PartialEq, Eq)]
enum Exit {
    Clean,
    /// The fail point at which it exited, if any.
    Aborted(Option<String>),
    Failed(String),
}

fn start(job: &Job, reports: &mut CaseReports) -> Exit {
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
    // An incomplete line was not reported.
    let lines = output.stdout.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
    for line in lines {
        match serde_json::from_slice(line) {
            Ok(line) => reports.lines.push(line),
            Err(error) => reports.problem(format!("{error}: {}", String::from_utf8_lossy(line))),
        }
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    match output.status.signal() {
        Some(SIGABRT) => {
            reports.aborted_at.push(at);
            let point = stderr.lines().find_map(|line| line.strip_prefix("fail point: abort at "));
            Exit::Aborted(point.map(str::to_owned))
        }
        None if output.status.success() => Exit::Clean,
        _ => Exit::Failed(format!("{}: {stderr}", output.status)),
    }
}

pub(crate) const CHILD: &str = "--child";

/// The entry point of a process that [`start`] spawned.
pub(crate) fn be_child() {
    thread::spawn(|| {
        thread::sleep(LONGEST);
        process::exit(3);
    });
    let job = std::io::read_to_string(std::io::stdin()).unwrap();
    process_main::run(serde_json::from_str(&job).unwrap());
}
