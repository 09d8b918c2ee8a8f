//! The model memory: what servers said about their models (unsupported parts of a request, the context size), remembered for a
//! week in a file that all processes share.
//!
//! The file is read before each model call, so that what one process learns holds for all. A file that cannot be read or
//! written is reported once; what this process learns then holds for it alone.

mod file;

use lock::LockExt;
use provider::Omission;
use serde::{Deserialize, Serialize};
use std::{
    path::PathBuf,
    sync::Mutex,
    time::{Duration, SystemTime},
};

/// How long a fact is remembered: servers are updated, and a wrong conclusion must not last.
const LIFETIME: Duration = Duration::from_hours(7 * 24);
/// Limits of the file: the entries that expire first are dropped.
const MAX_ENTRIES: usize = 200;
const MAX_OMISSIONS: usize = 32;

/// A model at an address. The address has no user name and no query.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelAddress {
    pub address: String,
    /// The wire format, whose field names differ.
    pub api: String,
    pub model: String,
}

/// What is known of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownLimits {
    pub omitted: Vec<Omission>,
    /// The context size that a message stated.
    pub context: Option<u32>,
    pub estimate: Option<ContextEstimate>,
}

impl KnownLimits {
    /// The context size within which requests are built.
    pub fn size(&self) -> Option<u32> {
        self.context.into_iter().chain(self.estimate.and_then(ContextEstimate::limit)).min()
    }
}

/// A context size that no message states: at least the largest request that was accepted, and less than the smallest one that was
/// too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextEstimate {
    pub accepted: u32,
    pub rejected: u32,
}

impl ContextEstimate {
    /// The size to try: the middle of the range, and its lower end once the range is narrow. `None` if the server accepts what it
    /// rejected before.
    pub fn limit(self) -> Option<u32> {
        let range = self.rejected.checked_sub(self.accepted).filter(|range| *range > 0)?;
        Some(if range <= self.rejected / 8 { self.accepted } else { self.accepted + range / 2 })
    }

    /// The estimate after a request of this size was accepted; `None` if that adds little.
    pub(super) fn accept(self, size: u32) -> Option<Self> {
        let is_new = size > self.accepted.saturating_add(self.accepted / 16);
        is_new.then_some(Self { accepted: size, ..self })
    }
}

/// A remembered model, with the time until which its newest fact holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RememberedModel {
    pub at: ModelAddress,
    pub limits: KnownLimits,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct MemoryEntry {
    #[serde(flatten)]
    at: ModelAddress,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    omitted: Vec<Expiring<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    context: Option<Expiring<u32>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    estimate: Option<Expiring<ContextEstimate>>,
}

/// A fact with its expiry, in seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Expiring<T> {
    value: T,
    until: u64,
}

/// Facts about models. Cheap to create; one per process.
#[derive(Debug)]
pub struct ModelMemory {
    file: Option<PathBuf>,
    /// What the file could not store.
    unsaved: Mutex<Vec<MemoryEntry>>,
    now: fn() -> SystemTime,
}

impl Default for ModelMemory {
    /// A memory of this process.
    fn default() -> Self {
        Self { file: None, unsaved: Mutex::default(), now: SystemTime::now }
    }
}

impl ModelMemory {
    pub fn in_file(path: PathBuf) -> Self {
        Self { file: Some(path), ..Self::default() }
    }

    /// What is known of a model, and a warning if the file is damaged.
    pub(super) fn known(&self, at: &ModelAddress) -> (KnownLimits, Option<String>) {
        let (entries, warning) = self.entries();
        let known = entries.into_iter().find(|entry| entry.at == *at);
        (known.map(|entry| entry.limits()).unwrap_or_default(), warning)
    }

    /// All remembered models, and a warning if the file is damaged.
    pub fn list(&self) -> (Vec<RememberedModel>, Option<String>) {
        let (entries, warning) = self.entries();
        let models =
            entries.into_iter().map(|entry| RememberedModel { limits: entry.limits(), at: entry.at });
        (models.collect(), warning)
    }

    /// Forgets the models that `is_forgotten` selects, and returns their number.
    pub fn forget(&self, is_forgotten: impl Fn(&ModelAddress) -> bool) -> std::io::Result<usize> {
        let mut forgotten = 0;
        self.unsaved.locked().retain(|entry| !is_forgotten(&entry.at));
        self.change(|entries| {
            let before = entries.len();
            entries.retain(|entry| !is_forgotten(&entry.at));
            forgotten = before - entries.len();
        })?;
        Ok(forgotten)
    }

    /// Remembers facts about a model. A warning is returned if the file cannot be written.
    pub(super) fn learn(&self, at: &ModelAddress, learned: &KnownLimits) -> Option<String> {
        let until = self.seconds() + LIFETIME.as_secs();
        let saved = self.change(|entries| merge(entries, at, learned, until));
        if self.file.is_none() || saved.is_err() {
            merge(&mut self.unsaved.locked(), at, learned, until);
        }
        saved.err().map(|error| format!("what the server does not support cannot be remembered: {error}"))
    }

    fn change(&self, change: impl FnOnce(&mut Vec<MemoryEntry>)) -> std::io::Result<()> {
        let Some(path) = &self.file else { return Ok(()) };
        let now = self.seconds();
        file::update(path, |entries| {
            drop_expired(entries, now);
            change(entries);
            shorten(entries);
        })
    }

    fn entries(&self) -> (Vec<MemoryEntry>, Option<String>) {
        let (mut entries, warning) = match self.file.as_deref().map(file::read) {
            Some(Ok(entries)) => (entries, None),
            Some(Err(warning)) => (Vec::new(), Some(warning)),
            None => (Vec::new(), None),
        };
        for unsaved in self.unsaved.locked().iter() {
            match entries.iter_mut().find(|entry| entry.at == unsaved.at) {
                Some(entry) => {
                    entry.omitted.extend(unsaved.omitted.iter().cloned());
                    entry.context = unsaved.context.clone().or(entry.context.take());
                    entry.estimate = unsaved.estimate.clone().or(entry.estimate.take());
                }
                None => entries.push(unsaved.clone()),
            }
        }
        drop_expired(&mut entries, self.seconds());
        (entries, warning)
    }

    fn seconds(&self) -> u64 {
        (self.now)().duration_since(SystemTime::UNIX_EPOCH).map(|time| time.as_secs()).unwrap_or_default()
    }
}

impl MemoryEntry {
    fn limits(&self) -> KnownLimits {
        // A newer version may know further kinds.
        let mut omitted: Vec<Omission> =
            self.omitted.iter().filter_map(|fact| fact.value.parse().ok()).collect();
        omitted.sort();
        omitted.dedup();
        let context = self.context.as_ref().map(|fact| fact.value);
        KnownLimits { omitted, context, estimate: self.estimate.as_ref().map(|fact| fact.value) }
    }

    fn expires(&self) -> u64 {
        let omitted = self.omitted.iter().map(|fact| fact.until);
        let sizes = self.context.iter().map(|fact| fact.until);
        let estimates = self.estimate.iter().map(|fact| fact.until);
        omitted.chain(sizes).chain(estimates).max().unwrap_or_default()
    }
}

fn merge(entries: &mut Vec<MemoryEntry>, at: &ModelAddress, learned: &KnownLimits, until: u64) {
    let position = entries.iter().position(|entry| entry.at == *at).unwrap_or_else(|| {
        entries.push(MemoryEntry { at: at.clone(), omitted: Vec::new(), context: None, estimate: None });
        entries.len() - 1
    });
    let entry = &mut entries[position];
    for omission in &learned.omitted {
        let value = omission.key();
        entry.omitted.retain(|fact| fact.value != value);
        entry.omitted.push(Expiring { value, until });
    }
    // A stated size replaces an estimate.
    if learned.context.is_some() {
        entry.estimate = None;
    }
    entry.context = learned.context.map(|value| Expiring { value, until }).or(entry.context.take());
    entry.estimate = learned.estimate.map(|value| Expiring { value, until }).or(entry.estimate.take());
}

/// A fact that seems to hold longer than facts do is from a clock that was wrong.
fn drop_expired(entries: &mut Vec<MemoryEntry>, now: u64) {
    let holds = |until: u64| until > now && until <= now + LIFETIME.as_secs();
    for entry in entries.iter_mut() {
        entry.omitted.retain(|fact| holds(fact.until));
        entry.context.take_if(|fact| !holds(fact.until));
        entry.estimate.take_if(|fact| !holds(fact.until));
    }
    entries.retain(|entry| entry.context.is_some() || entry.estimate.is_some() || !entry.omitted.is_empty());
}

fn shorten(entries: &mut Vec<MemoryEntry>) {
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.expires()));
    entries.truncate(MAX_ENTRIES);
    for entry in entries {
        let excess = entry.omitted.len().saturating_sub(MAX_OMISSIONS);
        entry.omitted.drain(..excess);
    }
}

#[cfg(test)]
mod tests;
