//! The trace that `xtask/c/storage.c` writes: all operations that change the disk, and all syncs, in order.

use crate::Result;
use std::ops::Range;

const MAGIC: u32 = 0x3154_5344;
const HEADER: usize = 32;

/// An offset in the trace, in bytes.
pub(super) type Position = u64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Create {
        path: String,
        inode: u64,
    },
    Write {
        inode: u64,
        offset: u64,
        /// The range of its bytes in the trace.
        data: Range<usize>,
    },
    Truncate {
        inode: u64,
        length: u64,
    },
    /// Operations that were recorded before `begun` are durable.
    Sync {
        inode: u64,
        begun: Position,
    },
    SyncDirectory {
        path: String,
        begun: Position,
    },
    Unlink {
        path: String,
    },
    Rename {
        from: String,
        to: String,
    },
    MakeDirectory {
        path: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// The offsets at which the record begins and ends.
    pub(super) begin: Position,
    pub(super) end: Position,
    pub(super) operation: Operation,
}

/// Parses all complete records. A killed process may have left an incomplete one at the end.
pub(super) fn parse(trace: &[u8]) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    let mut begin = 0;
    while let Some(header) = trace.get(begin..begin + HEADER) {
        let header = Header::read(header);
        if header.magic != MAGIC {
            return Err(format!("the trace has no record at byte {begin}").into());
        }
        let path = begin + HEADER..begin + HEADER + header.path_length;
        let data = path.end..path.end + header.data_length;
        let end = data.end;
        if end > trace.len() {
            break;
        }
        let path = String::from_utf8(trace[path].to_vec())?;
        let operation = operation(&header, path, data, trace)?;
        records.push(Record { begin: begin as u64, end: end as u64, operation });
        begin = end;
    }
    Ok(records)
}

struct Header {
    magic: u32,
    operation: u32,
    inode: u64,
    offset: u64,
    path_length: usize,
    data_length: usize,
}

impl Header {
    fn read(bytes: &[u8]) -> Self {
        let number = |range: Range<usize>| {
            bytes[range].iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte))
        };
        let small = |range| u32::try_from(number(range)).unwrap_or(u32::MAX);
        let length = |range| usize::try_from(number(range)).unwrap_or(usize::MAX);
        Self {
            magic: small(0..4),
            operation: small(4..8),
            inode: number(8..16),
            offset: number(16..24),
            path_length: length(24..28),
            data_length: length(28..32),
        }
    }
}

fn operation(header: &Header, path: String, data: Range<usize>, trace: &[u8]) -> Result<Operation> {
    let (inode, offset) = (header.inode, header.offset);
    Ok(match header.operation {
        1 => Operation::Create { path, inode },
        2 => Operation::Write { inode, offset, data },
        3 => Operation::Truncate { inode, length: offset },
        4 => Operation::Sync { inode, begun: offset },
        5 => Operation::SyncDirectory { path, begun: offset },
        6 => Operation::Unlink { path },
        7 => Operation::Rename { from: path, to: String::from_utf8(trace[data].to_vec())? },
        8 => Operation::MakeDirectory { path },
        other => return Err(format!("the trace has an unknown operation {other}").into()),
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A record as the library writes it.
    pub(in super::super) fn record(
        operation: u32,
        inode: u64,
        offset: u64,
        path: &str,
        data: &[u8],
    ) -> Vec<u8> {
        let length = |text: usize| u32::try_from(text).unwrap().to_le_bytes();
        let mut bytes = [MAGIC.to_le_bytes(), operation.to_le_bytes()].concat();
        bytes.extend(inode.to_le_bytes());
        bytes.extend(offset.to_le_bytes());
        bytes.extend(length(path.len()));
        bytes.extend(length(data.len()));
        bytes.extend(path.as_bytes());
        bytes.extend(data);
        bytes
    }

    #[test]
    fn incomplete_last_record_is_ignored() {
        let mut trace = record(1, 7, 0, "/d/a", b"");
        trace.extend(record(2, 7, 3, "", b"xyz"));
        let whole = trace.len() as u64;
        trace.extend(&record(2, 7, 6, "", b"lost")[..35]);
        let records = parse(&trace).unwrap();
        assert_eq!(records.len(), 2);
        assert_eq!(records[0].operation, Operation::Create { path: "/d/a".to_owned(), inode: 7 });
        let Operation::Write { inode: 7, offset: 3, data } = &records[1].operation else {
            panic!("{records:?}")
        };
        assert_eq!(&trace[data.clone()], b"xyz");
        assert_eq!((records[0].begin, records[1].end), (0, whole));
        assert_eq!(records[0].end, records[1].begin);
    }

    #[test]
    fn every_operation_of_the_library_is_known() {
        let trace = [
            record(3, 1, 9, "", b""),
            record(4, 1, 5, "", b""),
            record(5, 2, 6, "/d", b""),
            record(6, 0, 0, "/d/a", b""),
            record(7, 0, 0, "/d/a", b"/d/b"),
            record(8, 0, 0, "/d/e", b""),
        ];
        let operations: Vec<Operation> =
            parse(&trace.concat()).unwrap().into_iter().map(|record| record.operation).collect();
        let text = str::to_owned;
        assert_eq!(
            operations,
            [
                Operation::Truncate { inode: 1, length: 9 },
                Operation::Sync { inode: 1, begun: 5 },
                Operation::SyncDirectory { path: text("/d"), begun: 6 },
                Operation::Unlink { path: text("/d/a") },
                Operation::Rename { from: text("/d/a"), to: text("/d/b") },
                Operation::MakeDirectory { path: text("/d/e") },
            ]
        );
        assert!(parse(&record(9, 0, 0, "", b"")).is_err());
        assert!(parse(&[1; 64]).is_err());
    }
}
