//! Messages of a start that settle what earlier runs left open: they belong to those runs.

use super::{runs, sessions::SessionHead};
use crate::{SettledMessage, Start};
use rusqlite::Connection;

/// The ids of settled messages, with the numbers of the runs that they belong to.
pub(super) type SettledRuns<'a> = Vec<(&'a str, Option<u64>)>;

/// The settled messages of a start, with the numbers of the runs that they belong to.
pub(super) fn runs_of<'a>(
    conn: &Connection,
    head: &SessionHead,
    start: &'a Start,
) -> rusqlite::Result<SettledRuns<'a>> {
    let run = |settled: &'a SettledMessage| {
        let row = match &settled.run {
            Some(id) => runs::by_id(conn, head.session_key, id)?,
            None => None,
        };
        Ok((settled.id.as_str(), row.map(|row| row.number)))
    };
    start.settled.iter().map(run).collect()
}

/// Extends the ranges of earlier runs to the messages that settle them.
pub(super) fn extend_runs<'a>(
    conn: &Connection,
    head: &SessionHead,
    messages: impl Iterator<Item = &'a str>,
    settled: &SettledRuns<'_>,
) -> rusqlite::Result<()> {
    for (message, seq) in messages.zip(head.last_seq + 1..) {
        if let Some((_, Some(number))) = settled.iter().find(|(id, _)| *id == message) {
            runs::extend_range(conn, (head.session_key, *number), seq)?;
        }
    }
    Ok(())
}
