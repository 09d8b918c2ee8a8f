//! The report of a process to its parent, line by line and flushed before the process continues.

use lock::LockExt;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    io::Write,
    sync::Mutex,
    time::{SystemTime, UNIX_EPOCH},
};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Line {
    /// `Runs::start` returned for the message of this name.
    Accepted {
        name: String,
        run: String,
    },
    /// `Runs::start` failed; `stored` says whether the message is in the store nevertheless.
    Refused {
        name: String,
        error: String,
        stored: bool,
    },
    Received(ReceivedEvent),
    /// The reader of the message received the end of the run.
    Ended {
        name: String,
        end: String,
    },
    /// A reader got an error and reconnected with its cursor.
    Reconnected {
        name: String,
        error: String,
    },
    ToolRan {
        tool: String,
        call: String,
    },
    /// The log that a resuming process found.
    Found {
        rows: Vec<LogRow>,
        draft: Option<String>,
    },
    Final {
        rows: Vec<LogRow>,
        runs: Vec<RunRow>,
        draft: Option<String>,
    },
    Hits {
        hits: BTreeMap<String, u64>,
        fired: u64,
    },
    Problem(String),
    /// Information for a person who reads the lines of a case.
    Note(String),
}

/// An event received by a reader.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ReceivedEvent {
    /// The message of the reader.
    pub(crate) name: String,
    pub(crate) cursor: String,
    pub(crate) event: String,
    pub(crate) partial: bool,
    pub(crate) text: String,
    /// Milliseconds since the epoch.
    pub(crate) at: u64,
}

/// A row of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LogRow {
    /// The id of its run.
    pub(crate) run: Option<String>,
    pub(crate) event: String,
    /// Author and content without ids.
    pub(crate) shape: String,
    pub(crate) text: String,
    pub(crate) is_users: bool,
    pub(crate) interrupted: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunRow {
    pub(crate) id: String,
    pub(crate) status: String,
    pub(crate) error: Option<String>,
}

/// The output of the lines, which are also retained for a second [`ProcessRun`](crate::process_main) in the same process.
#[derive(Debug, Default)]
pub(crate) struct Reporter(Mutex<Vec<Line>>);

impl Reporter {
    pub(crate) fn new(before: Vec<Line>) -> Self {
        Self(Mutex::new(before))
    }

    pub(crate) fn report(&self, line: Line) {
        let mut lines = self.0.locked();
        let text = serde_json::to_string(&line).unwrap();
        let mut out = std::io::stdout().lock();
        writeln!(out, "{text}").unwrap();
        out.flush().unwrap();
        lines.push(line);
    }

    pub(crate) fn lines(&self) -> Vec<Line> {
        self.0.locked().clone()
    }
}

pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}

/// The state of a client, restored from the reports of an aborted process.
#[derive(Debug, Default)]
pub(crate) struct ClientState {
    /// The run of each accepted message.
    pub(crate) accepted: BTreeMap<String, String>,
    /// The last cursor of each reader.
    pub(crate) cursors: BTreeMap<String, String>,
    /// How each reader's run ended.
    pub(crate) ended: BTreeMap<String, String>,
}

impl ClientState {
    pub(crate) fn from_lines(lines: &[Line]) -> Self {
        let mut known = Self::default();
        for line in lines {
            match line {
                Line::Accepted { name, run } => _ = known.accepted.insert(name.clone(), run.clone()),
                Line::Received(seen) => _ = known.cursors.insert(seen.name.clone(), seen.cursor.clone()),
                Line::Ended { name, end } => _ = known.ended.insert(name.clone(), end.clone()),
                _ => {}
            }
        }
        known
    }
}
