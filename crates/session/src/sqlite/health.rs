//! Tells whoever operates the process when the file fails, and when it works again.
//!
//! Callers get an error each; a log gets a line for the first failure of each kind, then at most one in [`REPEAT`], and one
//! when an access of the same direction succeeds again. So a log stays readable, whatever the load.

use super::Reporter;
use crate::{Error, SessionKey};
use std::{
    collections::HashMap,
    mem::{Discriminant, discriminant},
    path::PathBuf,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// Between two lines about the same kind of fault.
const REPEAT: Duration = Duration::from_secs(10);
/// How many damaged sessions are remembered; of more of them, some are named again.
const REMEMBERED: usize = 256;
/// A damaged session is named again after this time.
const NAMED_FOR: Duration = Duration::from_hours(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Access {
    Read,
    Write,
}

#[derive(Debug)]
pub(super) struct Health {
    path: PathBuf,
    report: Option<Reporter>,
    /// Whether anything in the book is open: an access that succeeds looks no further in a healthy store.
    is_faulty: AtomicBool,
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    faults: HashMap<(Access, Discriminant<Error>), Entry>,
    damaged: HashMap<SessionKey, Instant>,
}

#[derive(Debug)]
struct Entry {
    reported: Instant,
    /// Since the last line.
    unreported: u64,
    /// It was reported and has not ended.
    is_open: bool,
}

impl Health {
    pub(super) fn new(path: PathBuf, report: Option<Reporter>) -> Self {
        Self { path, report, is_faulty: AtomicBool::new(false), book: Mutex::default() }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn record<T>(&self, access: Access, result: &Result<T, Error>) {
        match result {
            Ok(_) => self.succeeded(access),
            Err(error) => self.failed(access, error),
        }
    }

    pub(super) fn succeeded(&self, access: Access) {
        if self.is_faulty.load(Ordering::Relaxed)
            && let Some(report) = self.report
            && self.book().close(access, &self.is_faulty)
        {
            let what = match access {
                Access::Read => "can be read",
                Access::Write => "can be written",
            };
            report(&format!("store: {} {what} again", self.path.display()));
        }
    }

    pub(super) fn failed(&self, access: Access, error: &Error) {
        let Some(report) = self.report else { return };
        // A file that is gone cannot be read either; one line is enough.
        let is_gone =
            matches!(error, Error::Deleted { .. } | Error::Replaced { .. } | Error::Detached { .. });
        let access = if is_gone { Access::Write } else { access };
        if let Error::DamagedSession { key, .. } = error {
            if self.book().is_news(key) {
                report(&format!("store: {}: {}", self.path.display(), error.with_causes()));
            }
        } else if error.is_storage_fault()
            && let Some(unreported) = self.book().open(access, error, &self.is_faulty)
        {
            let more = if unreported > 0 {
                format!(" ({unreported} more since the last line)")
            } else {
                String::new()
            };
            report(&format!("store: {}{more}", error.with_causes()));
        }
    }

    /// Tells something that is no failure.
    pub(super) fn note(&self, text: &str) {
        if let Some(report) = self.report {
            report(&format!("store: {} {text}", self.path.display()));
        }
    }
}

impl Book {
    /// How many failures of this kind were not reported since the last line; `None` if this is another of them.
    fn open(&mut self, access: Access, error: &Error, is_faulty: &AtomicBool) -> Option<u64> {
        let (now, kind) = (Instant::now(), (access, discriminant(error)));
        let before = self.faults.get_mut(&kind);
        if let Some(entry) = before.filter(|entry| now - entry.reported < REPEAT) {
            entry.unreported += 1;
            return None;
        }
        // Another page that can be read does not mend a damaged one.
        let is_open = !matches!(error, Error::Damaged { .. });
        is_faulty.fetch_or(is_open, Ordering::Relaxed);
        let entry = Entry { reported: now, unreported: 0, is_open };
        Some(self.faults.insert(kind, entry).map_or(0, |before| before.unreported))
    }

    /// Whether a reported fault has ended with this.
    fn close(&mut self, access: Access, is_faulty: &AtomicBool) -> bool {
        let mut has_ended = false;
        for ((direction, _), entry) in &mut self.faults {
            if *direction == access {
                has_ended |= std::mem::take(&mut entry.is_open);
            }
        }
        is_faulty.store(self.faults.values().any(|entry| entry.is_open), Ordering::Relaxed);
        has_ended
    }

    fn is_news(&mut self, key: &SessionKey) -> bool {
        let now = Instant::now();
        if self.damaged.get(key).is_some_and(|named| now - *named < NAMED_FOR) {
            return false;
        }
        if self.damaged.len() >= REMEMBERED {
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

    fn health() -> Health {
        Health::new("lango.db".into(), Some(report))
    }

    fn full() -> Error {
        Error::DiskFull { path: "lango.db".into(), source: "no space".into() }
    }

    #[test]
    fn a_fault_is_reported_once_and_its_end_too() {
        let health = health();
        for _ in 0..1000 {
            health.failed(Access::Write, &full());
            health.succeeded(Access::Read);
        }
        assert_eq!(lines(), ["store: there is no space left to write lango.db: no space"]);
        for _ in 0..1000 {
            health.succeeded(Access::Write);
        }
        assert_eq!(lines(), ["store: lango.db can be written again"]);
    }

    #[test]
    fn a_fault_that_comes_and_goes_does_not_fill_the_log() {
        let health = health();
        for _ in 0..1000 {
            health.failed(Access::Write, &full());
            health.succeeded(Access::Write);
        }
        assert_eq!(lines().len(), 2);
    }

    #[test]
    fn each_kind_has_its_line() {
        let health = health();
        health.failed(Access::Write, &full());
        health.failed(Access::Write, &Error::Deleted { path: "lango.db".into() });
        health.failed(Access::Read, &Error::Deleted { path: "lango.db".into() });
        health.failed(Access::Read, &Error::Io { path: "lango.db".into(), source: "bad sector".into() });
        assert_eq!(lines().len(), 3);
    }

    #[test]
    fn a_refusal_is_no_fault() {
        let health = health();
        health.failed(Access::Write, &Error::NotFound(SessionKey::new("app", "user", "s")));
        assert!(lines().is_empty());
    }

    #[test]
    fn each_damaged_session_is_named_once() {
        let health = health();
        for name in ["a", "b", "a"] {
            let key = SessionKey::new("app", "user", name);
            health.failed(Access::Read, &Error::DamagedSession { key, source: "bad page".into() });
        }
        assert_eq!(lines().len(), 2);
    }
}
