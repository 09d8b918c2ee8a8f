//! Reports to the operator when the file or the database fails and when it works again.
//!
//! Every caller gets its error. The log gets one line for the first failure of each kind, then at most one per
//! [`REPEAT_AFTER`], and one when an access of the same kind succeeds again. This limits the log under any load.

use crate::{Error, SessionKey};
use lock::LockExt;
use std::{
    collections::HashMap,
    mem::{Discriminant, discriminant},
    path::PathBuf,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// Writes a line to the operator's log.
pub type Reporter = fn(&str);

/// Minimum time between two lines about the same kind of fault.
const REPEAT_AFTER: Duration = Duration::from_secs(10);
/// Maximum number of damaged sessions to remember. Beyond it, sessions may be reported again.
const MAX_DAMAGED: usize = 256;
/// A damaged session is reported again after this time.
const DAMAGED_REPEAT_AFTER: Duration = Duration::from_hours(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum AccessKind {
    Read,
    Write,
}

#[derive(Debug)]
pub(crate) struct StoreHealth {
    path: PathBuf,
    report: Option<Reporter>,
    /// Whether the log has an open fault. In a healthy store a successful access checks only this flag.
    is_faulty: AtomicBool,
    faults: Mutex<FaultLog>,
}

#[derive(Debug, Default)]
struct FaultLog {
    faults: HashMap<(AccessKind, Discriminant<Error>), FaultRecord>,
    damaged: HashMap<SessionKey, Instant>,
}

#[derive(Debug)]
struct FaultRecord {
    reported: Instant,
    /// Failures since the last line.
    unreported: u64,
    /// Reported and not ended.
    is_open: bool,
}

impl StoreHealth {
    pub(crate) fn new(path: PathBuf, report: Option<Reporter>) -> Self {
        Self { path, report, is_faulty: AtomicBool::new(false), faults: Mutex::default() }
    }

    fn faults(&self) -> MutexGuard<'_, FaultLog> {
        self.faults.locked()
    }

    pub(crate) fn record<T>(&self, access: AccessKind, result: &Result<T, Error>) {
        match result {
            Ok(_) => self.succeeded(access),
            Err(error) => self.failed(access, error),
        }
    }

    pub(crate) fn succeeded(&self, access: AccessKind) {
        if self.is_faulty.load(Ordering::Relaxed)
            && let Some(report) = self.report
            && self.faults().close(access, &self.is_faulty)
        {
            let what = match access {
                AccessKind::Read => "can be read",
                AccessKind::Write => "can be written",
            };
            report(&format!("store: {} {what} again", self.path.display()));
        }
    }

    pub(crate) fn failed(&self, access: AccessKind, error: &Error) {
        let Some(report) = self.report else { return };
        // A missing file fails reads and writes; one line is enough.
        let is_gone = matches!(
            error,
            Error::Deleted { .. }
                | Error::Replaced { .. }
                | Error::Detached { .. }
                | Error::Unreachable { .. }
        );
        let access = if is_gone { AccessKind::Write } else { access };
        if let Error::DamagedSession { key, .. } = error {
            if self.faults().is_damage_due(key) {
                report(&format!("store: {}: {}", self.path.display(), error.with_causes()));
            }
        } else if error.is_storage_fault()
            && let Some(unreported) = self.faults().open(access, error, &self.is_faulty)
        {
            let more = if unreported > 0 {
                format!(" ({unreported} more since the last line)")
            } else {
                String::new()
            };
            report(&format!("store: {}{more}", error.with_causes()));
        }
    }

    /// Reports an event that is not a failure.
    pub(crate) fn note(&self, text: &str) {
        if let Some(report) = self.report {
            report(&format!("store: {} {text}", self.path.display()));
        }
    }
}

impl FaultLog {
    /// Records a failure. Returns the number of unreported failures of this kind if a line is due.
    fn open(&mut self, access: AccessKind, error: &Error, is_faulty: &AtomicBool) -> Option<u64> {
        let (now, kind) = (Instant::now(), (access, discriminant(error)));
        let before = self.faults.get_mut(&kind);
        if let Some(entry) = before.filter(|entry| now - entry.reported < REPEAT_AFTER) {
            entry.unreported += 1;
            return None;
        }
        // A successful access to another page does not repair a damaged one.
        let is_open = !matches!(error, Error::Damaged { .. });
        is_faulty.fetch_or(is_open, Ordering::Relaxed);
        let entry = FaultRecord { reported: now, unreported: 0, is_open };
        Some(self.faults.insert(kind, entry).map_or(0, |before| before.unreported))
    }

    /// Closes the faults of an access kind. Returns whether one was open.
    fn close(&mut self, access: AccessKind, is_faulty: &AtomicBool) -> bool {
        let mut has_ended = false;
        for ((kind, _), entry) in &mut self.faults {
            if *kind == access {
                has_ended |= std::mem::take(&mut entry.is_open);
            }
        }
        is_faulty.store(self.faults.values().any(|entry| entry.is_open), Ordering::Relaxed);
        has_ended
    }

    fn is_damage_due(&mut self, key: &SessionKey) -> bool {
        let now = Instant::now();
        if self.damaged.get(key).is_some_and(|reported| now - *reported < DAMAGED_REPEAT_AFTER) {
            return false;
        }
        if self.damaged.len() >= MAX_DAMAGED {
            self.damaged.clear();
        }
        self.damaged.insert(key.clone(), now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    thread_local! {
        static LINES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    }

    fn report(line: &str) {
        LINES.with_borrow_mut(|lines| lines.push(line.to_owned()));
    }

    fn lines() -> Vec<String> {
        LINES.take()
    }

    fn health() -> StoreHealth {
        StoreHealth::new("lango.db".into(), Some(report))
    }

    fn full() -> Error {
        Error::DiskFull { path: "lango.db".into(), source: "no space".into() }
    }

    #[test]
    fn a_fault_and_its_end_are_reported_once() {
        let health = health();
        for _ in 0..1000 {
            health.failed(AccessKind::Write, &full());
            health.succeeded(AccessKind::Read);
        }
        assert_eq!(lines(), ["store: there is no space left to write lango.db: no space"]);
        for _ in 0..1000 {
            health.succeeded(AccessKind::Write);
        }
        assert_eq!(lines(), ["store: lango.db can be written again"]);
    }

    #[test]
    fn an_intermittent_fault_does_not_fill_the_log() {
        let health = health();
        for _ in 0..1000 {
            health.failed(AccessKind::Write, &full());
            health.succeeded(AccessKind::Write);
        }
        assert_eq!(lines().len(), 2);
    }

    #[test]
    fn each_kind_of_fault_is_reported() {
        let health = health();
        health.failed(AccessKind::Write, &full());
        health.failed(AccessKind::Write, &Error::Deleted { path: "lango.db".into() });
        health.failed(AccessKind::Read, &Error::Deleted { path: "lango.db".into() });
        health.failed(AccessKind::Read, &Error::Io { path: "lango.db".into(), source: "bad sector".into() });
        assert_eq!(lines().len(), 3);
    }

    #[test]
    fn a_refused_call_is_not_reported() {
        let health = health();
        health.failed(AccessKind::Write, &Error::NotFound(SessionKey::new("app", "user", "s")));
        assert!(lines().is_empty());
    }

    #[test]
    fn each_damaged_session_is_reported_once() {
        let health = health();
        for name in ["a", "b", "a"] {
            let key = SessionKey::new("app", "user", name);
            health.failed(AccessKind::Read, &Error::DamagedSession { key, source: "bad page".into() });
        }
        assert_eq!(lines().len(), 2);
    }
}
