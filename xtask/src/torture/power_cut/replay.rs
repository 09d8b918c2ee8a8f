//! The state of the disk after a power cut. Pure: the same trace, cut and seed give the same disk.
//!
//! The model has only the guarantees of POSIX. Writes that the last sync of a file covers are durable. Each later write is on the
//! disk, is lost, or is torn (only some of its sectors are written), independently of other writes. The creation or removal of a
//! name is durable only if its directory was synced afterwards.

use super::trace::{Operation, Position, Record};
use crate::harness::random::Random;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Range,
};

/// Files and directories by their paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Disk {
    pub(super) files: BTreeMap<String, Vec<u8>>,
    pub(super) directories: BTreeSet<String>,
}

/// The outcome of writes that no sync covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    AllLost,
    AllWritten,
    /// Each write is written or lost.
    Some,
    /// Each sector of this many bytes is written or lost.
    Torn(usize),
}

impl Fate {
    pub(super) fn random(random: &mut Random) -> Self {
        match random.below(10) {
            0 | 1 => Self::AllLost,
            2 => Self::AllWritten,
            3..6 => Self::Some,
            6..8 => Self::Torn(4096),
            _ => Self::Torn(512),
        }
    }

    fn happens(self, random: &mut Random) -> bool {
        match self {
            Self::AllLost => false,
            Self::AllWritten => true,
            Self::Some | Self::Torn(_) => random.chance(500),
        }
    }
}

/// A power cut: its moment, and what happens to the writes that no sync covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// Records that end here or earlier are executed.
    pub(super) at: Position,
    pub(super) fate: Fate,
    pub(super) seed: u64,
}

/// The contents of one file, independent of its names.
#[derive(Default)]
struct Contents<'a> {
    changes: Vec<(Position, FileChange<'a>)>,
    /// Changes before this position are durable.
    synced: Position,
}

enum FileChange<'a> {
    Write { offset: usize, bytes: &'a [u8] },
    Truncate(usize),
}

enum NameChange<'a> {
    Link { path: &'a str, file: usize },
    Unlink { path: &'a str },
    Rename { from: &'a str, to: &'a str },
    MakeDirectory { path: &'a str },
}

impl NameChange<'_> {
    fn directory(&self) -> &str {
        let path = match self {
            Self::Link { path, .. } | Self::Unlink { path } | Self::MakeDirectory { path } => path,
            Self::Rename { to, .. } => to,
        };
        path.rsplit_once('/').map_or("", |(directory, _)| directory)
    }
}

/// The operations before the power cut.
#[derive(Default)]
struct History<'a> {
    files: Vec<Contents<'a>>,
    /// The newest file of each inode number: numbers are reused.
    inodes: HashMap<u64, usize>,
    names: Vec<(Position, NameChange<'a>)>,
    /// Changes of names in a directory before this position are durable.
    synced: HashMap<&'a str, Position>,
}

pub(super) fn replay(trace: &[u8], records: &[Record], root: &str, cut: Cut) -> Disk {
    let history = History::new(trace, records.iter().take_while(|record| record.end <= cut.at));
    let mut random = Random::new(cut.seed);
    let contents: Vec<Vec<u8>> =
        history.files.iter().map(|file| file.after_power_cut(cut.fate, &mut random)).collect();
    history.names_after_power_cut(root, &contents, (cut.fate, &mut random))
}

impl<'a> History<'a> {
    fn new(trace: &'a [u8], records: impl Iterator<Item = &'a Record>) -> Self {
        let mut history = Self::default();
        for Record { begin, operation, .. } in records {
            history.add(*begin, operation, trace);
        }
        history
    }

    fn add(&mut self, at: Position, operation: &'a Operation, trace: &'a [u8]) {
        match operation {
            Operation::Create { path, inode } => {
                let file = self.files.len();
                self.files.push(Contents::default());
                self.inodes.insert(*inode, file);
                self.names.push((at, NameChange::Link { path, file }));
            }
            Operation::Write { inode, offset, data } => {
                let bytes = &trace[data.clone()];
                let offset = usize::try_from(*offset).unwrap_or(usize::MAX);
                self.change(*inode, at, FileChange::Write { offset, bytes });
            }
            Operation::Truncate { inode, length } => {
                self.change(*inode, at, FileChange::Truncate(usize::try_from(*length).unwrap_or(usize::MAX)));
            }
            Operation::Sync { inode, begun } => {
                if let Some(file) = self.inodes.get(inode) {
                    // Syncs may overlap: an earlier one can be recorded after a later one.
                    let synced = &mut self.files[*file].synced;
                    *synced = (*synced).max(*begun);
                }
            }
            Operation::SyncDirectory { path, begun } => {
                let synced = self.synced.entry(path).or_insert(*begun);
                *synced = (*synced).max(*begun);
            }
            Operation::Unlink { path } => self.names.push((at, NameChange::Unlink { path })),
            Operation::Rename { from, to } => self.names.push((at, NameChange::Rename { from, to })),
            Operation::MakeDirectory { path } => self.names.push((at, NameChange::MakeDirectory { path })),
        }
    }

    fn change(&mut self, inode: u64, at: Position, change: FileChange<'a>) {
        if let Some(file) = self.inodes.get(&inode) {
            self.files[*file].changes.push((at, change));
        }
    }

    /// Applies the changes of names. The root directory always exists.
    fn names_after_power_cut(
        &self,
        root: &str,
        contents: &[Vec<u8>],
        (fate, random): (Fate, &mut Random),
    ) -> Disk {
        let mut directories = BTreeSet::from([root.to_owned()]);
        let mut names: BTreeMap<&str, usize> = BTreeMap::new();
        for (at, change) in &self.names {
            let is_durable = self.synced.get(change.directory()).is_some_and(|synced| at < synced);
            if !is_durable && !fate.happens(random) {
                continue;
            }
            match change {
                NameChange::Link { path, file } => drop(names.insert(path, *file)),
                NameChange::Unlink { path } => drop(names.remove(path)),
                NameChange::Rename { from, to } => {
                    if let Some(file) = names.remove(from) {
                        names.insert(to, file);
                    }
                }
                NameChange::MakeDirectory { path } => drop(directories.insert((*path).to_owned())),
            }
        }
        let has_directory = |path: &str| {
            directories.iter().any(|directory| path.strip_prefix(directory.as_str()).is_some_and(is_name))
        };
        let files = names.iter().filter(|(path, _)| has_directory(path));
        let files = files.map(|(path, file)| ((*path).to_owned(), contents[*file].clone())).collect();
        Disk { files, directories }
    }
}

/// Whether the rest of a path, after a directory, is the name of a file in it.
fn is_name(rest: &str) -> bool {
    rest.strip_prefix('/').is_some_and(|name| !name.contains('/'))
}

impl Contents<'_> {
    fn after_power_cut(&self, fate: Fate, random: &mut Random) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (at, change) in &self.changes {
            let fate = if *at < self.synced { Fate::AllWritten } else { fate };
            match (change, fate) {
                (FileChange::Write { offset, bytes: written }, Fate::Torn(sector)) => {
                    let chunks = sectors(*offset, written.len(), sector);
                    for chunk in chunks.filter(|_| random.chance(500)) {
                        write(&mut bytes, offset + chunk.start, &written[chunk]);
                    }
                }
                _ if !fate.happens(random) => {}
                (FileChange::Write { offset, bytes: written }, _) => write(&mut bytes, *offset, written),
                (FileChange::Truncate(length), _) => bytes.resize(*length, 0),
            }
        }
        bytes
    }
}

/// Writes at an offset. Bytes in gaps are zero.
fn write(bytes: &mut Vec<u8>, offset: usize, written: &[u8]) {
    let end = offset + written.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[offset..end].copy_from_slice(written);
}

/// The parts of a write that are in different sectors of the file.
fn sectors(offset: usize, length: usize, sector: usize) -> impl Iterator<Item = Range<usize>> {
    let mut begin = 0;
    std::iter::from_fn(move || {
        let end = (begin + sector - (offset + begin) % sector).min(length);
        let chunk = begin..end;
        begin = end;
        (!chunk.is_empty()).then_some(chunk)
    })
}

#[cfg(test)]
mod tests {
    use super::{
        super::trace::{parse, tests::record},
        *,
    };

    /// A file that is created, written, synced with its directory, and written again.
    fn trace() -> Vec<u8> {
        let mut trace = record(1, 7, 0, "/d/a", b"");
        trace.extend(record(2, 7, 0, "", b"first"));
        let begun = trace.len() as u64;
        trace.extend(record(4, 7, begun, "", b""));
        trace.extend(record(5, 1, begun, "/d", b""));
        trace.extend(record(2, 7, 0, "", b"SEC"));
        trace.extend(record(2, 7, 3, "", b"OND"));
        trace
    }

    fn disk(trace: &[u8], fate: Fate, seed: u64) -> Disk {
        let at = trace.len() as u64;
        replay(trace, &parse(trace).unwrap(), "/d", Cut { at, fate, seed })
    }

    fn file(disk: &Disk) -> Option<&str> {
        disk.files.get("/d/a").map(|bytes| str::from_utf8(bytes).unwrap())
    }

    #[test]
    fn synced_writes_survive_and_later_ones_may_be_lost() {
        let trace = trace();
        assert_eq!(file(&disk(&trace, Fate::AllLost, 0)), Some("first"));
        assert_eq!(file(&disk(&trace, Fate::AllWritten, 0)), Some("SECOND"));
        let mut seen: Vec<String> =
            (0..100).map(|seed| file(&disk(&trace, Fate::Some, seed)).unwrap().to_owned()).collect();
        seen.sort();
        seen.dedup();
        // A later write may survive without an earlier one.
        assert_eq!(
            seen,
            ["SECOND", "SECst", "first", "firOND"]
                .map(str::to_owned)
                .as_slice()
                .iter()
                .cloned()
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect::<Vec<_>>()
        );
        assert_eq!(disk(&trace, Fate::Some, 5), disk(&trace, Fate::Some, 5));
    }

    #[test]
    fn cut_before_the_end_of_a_sync_may_lose_its_writes() {
        let trace = trace();
        let records = parse(&trace).unwrap();
        // Before the record of the file's own sync.
        let at = records[1].end;
        let cut = Cut { at, fate: Fate::AllLost, seed: 0 };
        assert_eq!(replay(&trace, &records, "/d", cut).files, BTreeMap::new());
        // The contents are durable, but the name is not.
        let cut = Cut { at: records[2].end, ..cut };
        assert_eq!(replay(&trace, &records, "/d", cut).files, BTreeMap::new());
        let cut = Cut { at: records[3].end, ..cut };
        assert_eq!(file(&replay(&trace, &records, "/d", cut)), Some("first"));
    }

    #[test]
    fn a_write_during_a_sync_is_not_covered_by_it() {
        let mut trace = record(1, 7, 0, "/d/a", b"");
        trace.extend(record(5, 1, 1, "/d", b""));
        let begun = trace.len() as u64;
        trace.extend(record(2, 7, 0, "", b"late"));
        trace.extend(record(4, 7, begun, "", b""));
        assert_eq!(file(&disk(&trace, Fate::AllLost, 0)), Some(""));
    }

    #[test]
    fn recreated_file_has_new_contents() {
        let mut trace = trace();
        trace.extend(record(6, 0, 0, "/d/a", b""));
        trace.extend(record(1, 7, 0, "/d/a", b""));
        trace.extend(record(2, 7, 0, "", b"new"));
        assert_eq!(file(&disk(&trace, Fate::AllWritten, 0)), Some("new"));
        assert_eq!(file(&disk(&trace, Fate::AllLost, 0)), Some("first"));
    }

    #[test]
    fn torn_write_has_only_some_of_its_sectors() {
        let mut trace = record(1, 7, 0, "/d/a", b"");
        trace.extend(record(5, 1, 1, "/d", b""));
        trace.extend(record(2, 7, 100, "", &[1; 2000]));
        let torn = (0..50).map(|seed| disk(&trace, Fate::Torn(512), seed)).any(|disk| {
            let bytes = &disk.files["/d/a"];
            bytes.contains(&1) && bytes[100..].contains(&0)
        });
        assert!(torn);
        let chunks: Vec<_> = sectors(100, 2000, 512).collect();
        assert_eq!(chunks, [0..412, 412..924, 924..1436, 1436..1948, 1948..2000]);
    }

    #[test]
    fn files_of_a_lost_directory_are_lost() {
        let mut trace = record(8, 0, 0, "/d/e", b"");
        trace.extend(record(1, 7, 0, "/d/e/a", b""));
        let begun = trace.len() as u64;
        trace.extend(record(5, 1, begun, "/d/e", b""));
        assert!(disk(&trace, Fate::AllLost, 0).files.is_empty());
        assert_eq!(disk(&trace, Fate::AllWritten, 0).files.len(), 1);
    }
}
