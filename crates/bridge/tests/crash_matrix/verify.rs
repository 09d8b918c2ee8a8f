//! The properties that every case must have, however its process ended.

use crate::{
    case::{Case, Clock, Fault, FaultStage},
    report::{ClientState, Line, LogRow, ReceivedEvent, RunRow},
};
use failpoint::{Point, Site};
use std::collections::BTreeMap;

/// The outcome of a conversation without a fault.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expected {
    /// Rendered rows of the log without interrupted answers, each with the name of its run.
    pub(crate) rows: Vec<(String, String)>,
    pub(crate) statuses: BTreeMap<String, String>,
}

/// Everything that the processes of a case reported.
pub(crate) struct Evidence<'a> {
    pub(crate) case: &'a Case,
    pub(crate) lines: &'a [Line],
    /// Abort times of processes.
    pub(crate) aborted_at: &'a [u64],
}

/// The model's answers; an interrupted answer is a prefix of one of them.
const ANSWERS: [&str; 6] =
    [crate::model::LONG_TEXT, "Let me see. ", "Ask the helper. ", "May I? ", "It is done.", "On and on "];
/// Tools that run at most once per call.
const ONCE: [&str; 2] = ["act", "danger"];

struct End<'a> {
    rows: &'a [LogRow],
    runs: &'a [RunRow],
    draft: Option<&'a String>,
    /// The first message of each run.
    names: BTreeMap<String, String>,
}

impl End<'_> {
    fn name(&self, run: Option<&String>) -> String {
        run.and_then(|run| self.names.get(run)).cloned().unwrap_or_else(|| "?".to_owned())
    }

    fn whole_rows(&self) -> Vec<(String, String)> {
        let whole = self.rows.iter().filter(|row| !row.interrupted);
        whole.map(|row| (self.name(row.run.as_ref()), row.shape.clone())).collect()
    }

    fn statuses(&self) -> BTreeMap<String, String> {
        self.runs.iter().map(|run| (self.name(Some(&run.id)), run.status.clone())).collect()
    }
}

fn end(lines: &[Line]) -> Option<End<'_>> {
    let mut names = BTreeMap::new();
    for line in lines {
        if let Line::Accepted { name, run } = line {
            names.entry(run.clone()).or_insert_with(|| name.clone());
        }
    }
    lines.iter().rev().find_map(|line| match line {
        Line::Final { rows, runs, draft } => {
            Some(End { rows, runs, draft: draft.as_ref(), names: names.clone() })
        }
        _ => None,
    })
}

/// The outcome of a conversation, for comparison.
pub(crate) fn outcome(lines: &[Line]) -> Option<Expected> {
    let end = end(lines)?;
    Some(Expected { rows: end.whole_rows(), statuses: end.statuses() })
}

/// The violations; empty if there are none.
pub(crate) fn problems(evidence: &Evidence<'_>, expected: &Expected) -> Vec<String> {
    let lines = evidence.lines;
    let mut problems: Vec<String> = lines
        .iter()
        .filter_map(|line| match line {
            Line::Problem(problem) => Some(problem.clone()),
            _ => None,
        })
        .collect();
    let Some(end) = end(lines) else {
        problems.push("the conversation did not finish".to_owned());
        return problems;
    };
    problems.extend(found_problems(lines, expected));
    problems.extend(log_problems(evidence.case, &end, expected));
    problems.extend(end.draft.map(|draft| format!("a draft is left: {draft:?}")));
    problems.extend(reader_problems(lines, &end));
    problems.extend(draft_problems(lines, &end));
    problems.extend(lost_text_problems(evidence, &end));
    problems.extend(tool_problems(lines));
    problems.extend(refusal_problems(evidence.case, lines));
    problems
}

/// A process that resumes finds a prefix of the expected log.
fn found_problems(lines: &[Line], expected: &Expected) -> Vec<String> {
    let shapes: Vec<&String> = expected.rows.iter().map(|(_, shape)| shape).collect();
    let found = lines.iter().filter_map(|line| match line {
        Line::Found { rows, .. } => Some(rows),
        _ => None,
    });
    let mut problems = Vec::new();
    for rows in found {
        let stored: Vec<&String> = rows.iter().filter(|row| !row.interrupted).map(|row| &row.shape).collect();
        if !shapes.starts_with(&stored) {
            problems
                .push(format!("the log is no prefix of the expected one: {stored:?}, expected {shapes:?}"));
        }
    }
    problems
}

/// Whether a fault may change the outcome of one run: its model or its tool has failed.
fn may_change_a_run(case: &Case) -> bool {
    case.trial.is_some_and(|trial| {
        let fails = matches!(trial.fault, Fault::Error | Fault::DiskFull);
        let is_answer = matches!(trial.point.site(), Site::Model | Site::Tool);
        fails && (is_answer || matches!(trial.point, Point::BeforeLedger | Point::AfterLedger))
    })
}

fn log_problems(case: &Case, end: &End<'_>, expected: &Expected) -> Vec<String> {
    let (rows, statuses) = (end.whole_rows(), end.statuses());
    let mut problems = Vec::new();
    for run in end.runs {
        if !["done", "failed", "cancelled", "interrupted"].contains(&run.status.as_str()) {
            problems.push(format!("the run of {} is {}", end.name(Some(&run.id)), run.status));
        }
    }
    if rows == expected.rows && statuses == expected.statuses {
        return problems;
    }
    if may_change_a_run(case) {
        problems.extend(changed_problems((&rows, &statuses), expected));
        return problems;
    }
    if rows != expected.rows {
        problems.push(format!("the log is {rows:?}, expected {:?}", expected.rows));
    }
    if statuses != expected.statuses {
        let errors: Vec<&RunRow> = end.runs.iter().filter(|run| run.error.is_some()).collect();
        problems.push(format!("the runs are {statuses:?} {errors:?}, expected {:?}", expected.statuses));
    }
    problems
}

type Rows = [(String, String)];

/// If the model or a tool of one run has failed, that run may have failed, and later messages may be answered by
/// another agent or without a question; all messages are nevertheless in the log, in order and answered.
fn changed_problems(
    (rows, statuses): (&Rows, &BTreeMap<String, String>),
    expected: &Expected,
) -> Vec<String> {
    // A question that was not asked is not answered, and a run queued behind a failed one may start before it can be
    // cancelled.
    let optional = ["user: ←adk_request_confirmation", "user: ←job", "user: <c>"];
    let messages = |rows: &Rows| -> Vec<String> {
        let users = rows.iter().map(|(_, shape)| shape).filter(|shape| shape.starts_with("user: "));
        users.filter(|shape| !optional.contains(&shape.as_str())).cloned().collect()
    };
    let mut problems = Vec::new();
    if messages(rows) != messages(&expected.rows) {
        problems.push(format!(
            "the messages are {:?}, expected {:?}",
            messages(rows),
            messages(&expected.rows)
        ));
    }
    for optional in optional {
        if rows.iter().filter(|(_, shape)| shape == optional).count() > 1 {
            problems.push(format!("{optional:?} is there more than once"));
        }
    }
    let failed: Vec<&String> =
        statuses.iter().filter(|(_, status)| *status == "failed").map(|(name, _)| name).collect();
    if failed.len() > 1 {
        problems.push(format!("{failed:?} have failed"));
    }
    let unanswered = statuses.iter().filter(|(name, status)| {
        let last = rows.iter().rev().find(|(run, _)| run == *name);
        *status == "done" && last.is_none_or(|(_, shape)| shape.starts_with("user: "))
    });
    problems.extend(unanswered.map(|(name, _)| format!("the run of {name} is done without an answer")));
    problems
}

/// Each reader saw each stored event of its run once, in order, and none of another run.
fn reader_problems(lines: &[Line], end: &End<'_>) -> Vec<String> {
    let known = ClientState::from_lines(lines);
    let mut problems = Vec::new();
    for (name, run) in &known.accepted {
        let own = |row: &&LogRow| row.run.as_ref() == Some(run) && !row.is_users;
        let stored: Vec<&str> = end.rows.iter().filter(own).map(|row| row.event.as_str()).collect();
        let seen: Vec<&str> =
            seen_by(lines, name).filter(|seen| !seen.partial).map(|seen| &*seen.event).collect();
        let is_first = end.names.get(run) == Some(name);
        let start = seen.first().map_or(0, |first| stored.iter().position(|id| id == first).unwrap_or(0));
        // A resumed run is read from its stored end; a question ends the reading of the run that asked.
        let is_window = stored.get(start..start + seen.len()) == Some(&seen);
        let reaches_end = start + seen.len() == stored.len();
        let is_continued = known.accepted.iter().any(|(other, id)| id == run && other != name);
        // A later message withdraws the question after the reader of the asking run has reached its end.
        let last = end.rows.iter().rfind(own).map(|row| row.shape.as_str());
        let is_cancelled = end.runs.iter().any(|row| &row.id == run && row.status == "cancelled");
        let is_withdrawn = is_cancelled
            && last == Some("root: ←adk_request_confirmation")
            && start + seen.len() + 1 == stored.len();
        let has_ended = reaches_end || is_withdrawn || (is_first && is_continued);
        let good = is_window && (!is_first || start == 0) && has_ended;
        if !good {
            problems.push(format!("the reader of {name} saw {seen:?} of {stored:?}"));
        }
        if !known.ended.contains_key(name) {
            problems.push(format!("the reader of {name} saw no end"));
        }
    }
    problems
}

fn seen_by<'a>(lines: &'a [Line], name: &'a str) -> impl Iterator<Item = &'a ReceivedEvent> {
    lines.iter().filter_map(move |line| match line {
        Line::Received(seen) if seen.name == name => Some(seen),
        _ => None,
    })
}

/// The draft of a dead process is in the log, and every interrupted answer is a prefix of an answer.
fn draft_problems(lines: &[Line], end: &End<'_>) -> Vec<String> {
    let interrupted: Vec<&String> =
        end.rows.iter().filter(|row| row.interrupted).map(|row| &row.text).collect();
    let drafts = lines.iter().filter_map(|line| match line {
        Line::Found { draft, .. } => draft.as_ref(),
        _ => None,
    });
    let lost = drafts
        .filter(|draft| !interrupted.contains(draft))
        .map(|draft| format!("the draft {draft:?} is lost"));
    let is_beginning = |text: &str| {
        ANSWERS.iter().any(|answer| answer.starts_with(text))
            || "It finished.".starts_with(text)
            || text.starts_with("re ")
    };
    let strange = interrupted.iter().filter(|text| !is_beginning(text));
    lost.chain(strange.map(|text| format!("{text:?} is interrupted text that no model produced"))).collect()
}

/// Text that was streamed more than a second before the process aborted is in the log.
fn lost_text_problems(evidence: &Evidence<'_>, end: &End<'_>) -> Vec<String> {
    let setting = evidence.case.setting;
    if setting.clock == Clock::Virtual || setting.stage == FaultStage::Recovery {
        return Vec::new();
    }
    let Some(aborted_at) = evidence.aborted_at.first() else { return Vec::new() };
    let known = ClientState::from_lines(evidence.lines);
    let mut problems = Vec::new();
    for (name, run) in &known.accepted {
        let seen: Vec<&ReceivedEvent> =
            seen_by(evidence.lines, name).filter(|seen| seen.at + 1_000 < *aborted_at).collect();
        let after_stored = seen.iter().rposition(|seen| !seen.partial).map_or(0, |at| at + 1);
        let text: String = seen[after_stored..].iter().map(|seen| seen.text.as_str()).collect();
        let own = |row: &&LogRow| row.run.as_ref() == Some(run) && !row.is_users;
        if !end.rows.iter().filter(own).any(|row| row.text.starts_with(&text)) {
            problems.push(format!(
                "{text:?} was shown by the run of {name} a second before the end, and is lost"
            ));
        }
    }
    problems
}

fn tool_problems(lines: &[Line]) -> Vec<String> {
    let mut ran = BTreeMap::new();
    for line in lines {
        if let Line::ToolRan { tool, call } = line
            && ONCE.contains(&tool.as_str())
        {
            *ran.entry(call).or_insert(0) += 1;
        }
    }
    let repeated = ran.into_iter().filter(|(_, times)| *times > 1);
    repeated.map(|(call, times)| format!("the call {call} ran {times} times")).collect()
}

/// A refused message is not stored, unless only the acknowledgement was lost.
fn refusal_problems(case: &Case, lines: &[Line]) -> Vec<String> {
    let loses_answers = case.trial.is_some_and(|trial| {
        matches!(trial.point, Point::AfterStart | Point::AfterEnqueue | Point::AfterCommit)
    });
    let stored = lines.iter().filter_map(|line| match line {
        Line::Refused { name, error, stored: true } if !loses_answers => {
            Some(format!("{name} was refused ({error}), and is stored"))
        }
        _ => None,
    });
    stored.collect()
}
