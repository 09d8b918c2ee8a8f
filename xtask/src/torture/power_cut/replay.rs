//! What the disk holds after the power failed. Pure: the same trace, cut and seed are the same disk.
//!
//! The model is what POSIX promises and no more. What a file's last sync covered is there. Of what was written later, each
//! write is there, is not there, or is there in some of its sectors, whatever became of the writes before and after it. A name
//! is there for certain only if its directory was synced after it was created, and gone for certain only if it was synced
//! after it was removed.

use super::trace::{Operation, Position, Record};
use crate::rig::random::Random;
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

/// What becomes of writes that no sync covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    AllLost,
    AllWritten,
    /// Each is written or lost.
    Some,
    /// Each sector of so many bytes is written or lost.
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

/// A moment at which the power fails, and what becomes of the writes that were under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// Records that end here or before have happened.
    pub(super) at: Position,
    pub(super) fate: Fate,
    pub(super) seed: u64,
}

/// One file: it keeps its contents whatever its names are.
#[derive(Default)]
struct Contents<'a> {
    changes: Vec<(Position, Change<'a>)>,
    /// Changes before this place are durable.
    synced: Position,
}

enum Change<'a> {
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

/// What had happened when the power failed.
#[derive(Default)]
struct History<'a> {
    files: Vec<Contents<'a>>,
    /// The newest file of each inode: numbers are used again.
    inodes: HashMap<u64, usize>,
    names: Vec<(Position, NameChange<'a>)>,
    /// Changes of names in a directory before this place are durable.
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
                self.change(*inode, at, Change::Write { offset, bytes });
            }
            Operation::Truncate { inode, length } => {
                self.change(*inode, at, Change::Truncate(usize::try_from(*length).unwrap_or(usize::MAX)));
            }
            Operation::Sync { inode, begun } => {
                if let Some(file) = self.inodes.get(inode) {
                    self.files[*file].synced = *begun;
                }
            }
            Operation::SyncDirectory { path, begun } => drop(self.synced.insert(path, *begun)),
            Operation::Unlink { path } => self.names.push((at, NameChange::Unlink { path })),
            Operation::Rename { from, to } => self.names.push((at, NameChange::Rename { from, to })),
            Operation::MakeDirectory { path } => self.names.push((at, NameChange::MakeDirectory { path })),
        }
    }

    fn change(&mut self, inode: u64, at: Position, change: Change<'a>) {
        if let Some(file) = self.inodes.get(&inode) {
            self.files[*file].changes.push((at, change));
        }
    }

    /// The directory that everything is in is there from the beginning.
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
        let is_there = |path: &str| {
            directories.iter().any(|directory| path.strip_prefix(directory.as_str()).is_some_and(is_name))
        };
        let files = names.iter().filter(|(path, _)| is_there(path));
        let files = files.map(|(path, file)| ((*path).to_owned(), contents[*file].clone())).collect();
        Disk { files, directories }
    }
}

/// Whether the rest of a path, behind its directory, names a file in it.
fn is_name(rest: &str) -> bool {
    rest.strip_prefix('/').is_some_and(|name| !name.contains('/'))
}

impl Contents<'_> {
    fn after_power_cut(&self, fate: Fate, random: &mut Random) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (at, change) in &self.changes {
            let fate = if *at < self.synced { Fate::AllWritten } else { fate };
            match (change, fate) {
                (Change::Write { offset, bytes: written }, Fate::Torn(sector)) => {
                    let pieces = sectors(*offset, written.len(), sector);
                    for piece in pieces.filter(|_| random.chance(500)) {
                        write(&mut bytes, offset + piece.start, &written[piece]);
                    }
                }
                _ if !fate.happens(random) => {}
                (Change::Write { offset, bytes: written }, _) => write(&mut bytes, *offset, written),
                (Change::Truncate(length), _) => bytes.resize(*length, 0),
            }
        }
        bytes
    }
}

/// What was never written is zero.
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
        let piece = begin..end;
        begin = end;
        (!piece.is_empty()).then_some(piece)
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
    fn what_was_synced_is_there_and_the_rest_may_be() {
        let trace = trace();
        assert_eq!(file(&disk(&trace, Fate::AllLost, 0)), Some("first"));
        assert_eq!(file(&disk(&trace, Fate::AllWritten, 0)), Some("SECOND"));
        let mut seen: Vec<String> =
            (0..100).map(|seed| file(&disk(&trace, Fate::Some, seed)).unwrap().to_owned()).collect();
        seen.sort();
        seen.dedup();
        // The later of two writes may be there without the earlier.
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
    fn a_cut_before_a_sync_undoes_it() {
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
    fn a_file_that_was_removed_and_made_again_is_another_one() {
        let mut trace = trace();
        trace.extend(record(6, 0, 0, "/d/a", b""));
        trace.extend(record(1, 7, 0, "/d/a", b""));
        trace.extend(record(2, 7, 0, "", b"new"));
        assert_eq!(file(&disk(&trace, Fate::AllWritten, 0)), Some("new"));
        assert_eq!(file(&disk(&trace, Fate::AllLost, 0)), Some("first"));
    }

    #[test]
    fn a_torn_write_is_there_in_some_of_its_sectors() {
        let mut trace = record(1, 7, 0, "/d/a", b"");
        trace.extend(record(5, 1, 1, "/d", b""));
        trace.extend(record(2, 7, 100, "", &[1; 2000]));
        let torn = (0..50).map(|seed| disk(&trace, Fate::Torn(512), seed)).any(|disk| {
            let bytes = &disk.files["/d/a"];
            bytes.contains(&1) && bytes[100..].contains(&0)
        });
        assert!(torn);
        let pieces: Vec<_> = sectors(100, 2000, 512).collect();
        assert_eq!(pieces, [0..412, 412..924, 924..1436, 1436..1948, 1948..2000]);
    }

    #[test]
    fn a_directory_that_is_lost_takes_its_files_along() {
        let mut trace = record(8, 0, 0, "/d/e", b"");
        trace.extend(record(1, 7, 0, "/d/e/a", b""));
        let begun = trace.len() as u64;
        trace.extend(record(5, 1, begun, "/d/e", b""));
        assert!(disk(&trace, Fate::AllLost, 0).files.is_empty());
        assert_eq!(disk(&trace, Fate::AllWritten, 0).files.len(), 1);
    }
}
