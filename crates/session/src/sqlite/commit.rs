//! Commits: all conditions are checked before the first change.

use super::{
    drafts,
    encoded_commit::{EncodedCommit, EncodedMessage},
    fault::{JobError, JobResult},
    idempotency_keys, recipes,
    runs::{self, RunRow, SeqRangeUpdate, StartAdmission},
    sessions::{self, SessionHead},
    settled::{self, SettledRuns},
    state, usage,
};
use crate::{
    Committed, Error, Lease, NewRun, PendingEntryChange, Seq, SessionKey, Start, StartedTurn, StateChange,
    TurnChange, clock,
    lifecycle::{self, NextState, Transition},
    run::{AcceptedAs, SUPERSEDED},
};
use rusqlite::{Connection, OptionalExtension};

/// The effect of an admitted commit on runs and the lease.
enum Admitted<'a> {
    Untouched,
    Step(&'a Lease),
    Start {
        start: &'a Start,
        number: u64,
        is_new: bool,
        next: NextState<String>,
        superseded: Vec<RunRow>,
        /// The ids of messages that belong to earlier runs, with the numbers of those runs.
        settled: SettledRuns<'a>,
    },
    /// The run of this number leaves `running` or `waiting`.
    Finish {
        number: u64,
        next: NextState<String>,
        error: Option<&'a str>,
    },
}

impl Admitted<'_> {
    /// The number of the run of a message, or 0.
    fn run_of(&self, message: &str) -> u64 {
        match self {
            Self::Untouched => 0,
            Self::Step(lease) => lease.run,
            Self::Start { number, settled, .. } => {
                let run = settled.iter().find(|(id, _)| *id == message);
                run.map_or(*number, |(_, number)| number.unwrap_or(0))
            }
            Self::Finish { number, .. } => *number,
        }
    }

    fn epoch(&self) -> Option<u64> {
        match self {
            Self::Untouched | Self::Step(_) => None,
            Self::Start { next, .. } | Self::Finish { next, .. } => Some(next.epoch),
        }
    }
}

/// The page of the table that receives new messages. All sessions share the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placement {
    /// The last page.
    End,
    /// The first page, because the last one is damaged. Rows are found by session and sequence number, so their position in the
    /// table does not matter.
    Front,
}

impl Placement {
    /// The rowid of the next row; `None` if SQLite assigns it.
    fn row(self, conn: &Connection) -> rusqlite::Result<Option<i64>> {
        match self {
            Self::End => Ok(None),
            Self::Front => conn.query_row("SELECT MIN(rowid) - 1 FROM messages", [], |row| row.get(0)),
        }
    }
}

pub(super) fn commit(conn: &Connection, job: &EncodedCommit) -> JobResult<Committed> {
    commit_at(conn, job, Placement::End)
}

pub(super) fn commit_at(
    conn: &Connection,
    job: &EncodedCommit,
    placement: Placement,
) -> JobResult<Committed> {
    let head = sessions::head(conn, &job.key)?;
    let admitted = match admit(conn, &head, job) {
        Ok(admitted) => admitted,
        // The first attempt of the same commit may be the cause of the refusal.
        Err(refusal) => return repeated(conn, &head, job)?.ok_or(refusal),
    };
    // The last message first: its id decides whether the commit is a retry, before any change.
    for (index, text) in job.messages.iter().enumerate().rev() {
        let seq = head.last_seq + 1 + index as u64;
        let row = placement.row(conn)?;
        let recipe = job.recipe.as_ref().filter(|recipe| recipe.message == text.message.id);
        let recipe = recipe.map(|recipe| recipe.recipe.as_str());
        let run = admitted.run_of(&text.message.id);
        if !insert(conn, row, (head.session_key, seq, run), (text, recipe))? {
            let id = text.message.id.clone();
            let is_last = index + 1 == job.messages.len();
            let repeated = if is_last { repeated(conn, &head, job)? } else { None };
            return repeated.ok_or_else(|| Error::DuplicateMessage { key: job.key.clone(), id }.into());
        }
    }
    let seq = head.last_seq + job.sequence_numbers;
    update(conn, &head, (seq, admitted.epoch()), job)?;
    state::change(
        conn,
        state::LogPosition { key: &job.key, session_key: head.session_key, seq },
        &job.state,
    )?;
    change_pending(conn, head.session_key, &job.pending)?;
    if job.discards_draft {
        drafts::discard(conn, head.session_key)?;
    }
    if let Some(recipe) = &job.recipe {
        recipes::add_texts(conn, head.session_key, &recipe.texts)?;
    }
    if let Admitted::Start { settled, .. } = &admitted {
        let ids = job.messages.iter().map(|text| text.message.id.as_str());
        settled::extend_runs(conn, &head, ids, settled)?;
    }
    let epoch = admitted.epoch().unwrap_or(head.lease_epoch);
    let started = change_runs(conn, &job.key, &head, seq, admitted)?;
    Ok(Committed { seq: Seq(seq), repeated: false, started, epoch })
}

fn admit<'a>(conn: &Connection, head: &SessionHead, job: &'a EncodedCommit) -> JobResult<Admitted<'a>> {
    let refused = |refusal, id: &str| JobError::from(runs::refused(refusal, &job.key, id));
    let admitted = match &job.turn {
        TurnChange::None => Admitted::Untouched,
        TurnChange::Step(lease) | TurnChange::Finish { lease, .. } if lease.key != job.key => {
            return Err(Error::Fenced(job.key.clone()).into());
        }
        TurnChange::Step(lease) => {
            lifecycle::fence(&head.turns(), lease.epoch).map_err(|refusal| refused(refusal, ""))?;
            Admitted::Step(lease)
        }
        TurnChange::Finish { lease, status, error } => {
            let run = runs::by_number(conn, head.session_key, lease.run)?;
            let change = Transition::Finish { epoch: lease.epoch, to: *status };
            let state = run.as_ref().map(|run| &run.state);
            let next = lifecycle::transition(&head.turns(), state, &change);
            let next = next.map_err(|refusal| refused(refusal, run.as_ref().map_or("", |run| &run.id)))?;
            Admitted::Finish { number: lease.run, next, error: error.as_deref() }
        }
        TurnChange::Cancel { run: id, error } => {
            let run = runs::by_id(conn, head.session_key, id)?;
            let (turns, state) = (runs::turns(conn, head)?, run.as_ref().map(|run| &run.state));
            let next = lifecycle::transition(&turns, state, &Transition::Cancel);
            let next = next.map_err(|refusal| refused(refusal, id))?;
            let number = run.as_ref().map_or(0, |run| run.number);
            Admitted::Finish { number, next, error: error.as_deref() }
        }
        TurnChange::Start(start) => admit_start(conn, head, job, start)?,
    };
    if job.expected_seq.is_some_and(|expected| expected.0 != head.last_seq) {
        return Err(conflict(head, job).into());
    }
    Ok(admitted)
}

/// The error for a session that changed since the caller read it.
fn conflict(head: &SessionHead, job: &EncodedCommit) -> Error {
    let found = Seq(head.last_seq);
    Error::Conflict { key: job.key.clone(), expected: job.expected_seq.unwrap_or(found), found }
}

fn admit_start<'a>(
    conn: &Connection,
    head: &SessionHead,
    job: &EncodedCommit,
    start: &'a Start,
) -> JobResult<Admitted<'a>> {
    let NewRun { id, owner, .. } = &start.run;
    idempotency_keys::check(conn, &job.key, &start.run, AcceptedAs::Start)?;
    let StartAdmission { turns, run, next_number, has_draft } = runs::admission(conn, head, id)?;
    start.run.admit(&job.key, run.is_some())?;
    let superseded = start.supersedes.iter().filter(|other| *other != id);
    let superseded = superseded.filter_map(|id| runs::by_id(conn, head.session_key, id).transpose());
    let superseded = superseded.collect::<rusqlite::Result<Vec<_>>>()?;
    let change = Transition::Start { owner: owner.clone(), if_epoch: start.if_epoch };
    let next = lifecycle::transition(&turns, run.as_ref().map(|run| &run.state), &change)
        .map_err(|refusal| runs::refused(refusal, &job.key, id))?;
    if has_draft && !job.discards_draft {
        return Err(conflict(head, job).into());
    }
    let (number, is_new) = run.map_or((next_number, true), |run| (run.number, false));
    let settled = settled::runs_of(conn, head, start)?;
    Ok(Admitted::Start { start, number, is_new, next, superseded, settled })
}

/// The result of a commit whose last message is in the log already, with the same content.
fn repeated(conn: &Connection, head: &SessionHead, job: &EncodedCommit) -> JobResult<Option<Committed>> {
    let Some(EncodedMessage { message, tool_calls }) = job.messages.last() else { return Ok(None) };
    let seq = conn
        .prepare_cached(
            "SELECT seq FROM messages WHERE session_key = ?1 AND message_id = ?2
                 AND content = ?3 AND tool_calls IS ?4 AND meta IS ?5 AND timestamp = ?6",
        )?
        .query_row(
            (head.session_key, &message.id, &message.content, tool_calls, &message.meta, message.timestamp),
            |row| row.get(0).map(Seq),
        )
        .optional()?;
    Ok(seq.map(|seq| Committed { seq, repeated: true, started: None, epoch: head.lease_epoch }))
}

/// Returns `false` if the session has a message with this id.
fn insert(
    conn: &Connection,
    row: Option<i64>,
    (session_key, seq, run): (i64, u64, u64),
    (text, recipe): (&EncodedMessage, Option<&str>),
) -> rusqlite::Result<bool> {
    let EncodedMessage { message, tool_calls } = text;
    let inserted = conn
        .prepare_cached(
            "INSERT INTO messages (session_key, seq, tokens, timestamp, counted_by, message_id, role, author,
                 tool_calls, meta, content, run, rowid, recipe)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
             ON CONFLICT (session_key, message_id) DO NOTHING",
        )?
        .execute((
            session_key,
            seq,
            message.tokens,
            message.timestamp,
            &message.counted_by,
            &message.id,
            &message.role,
            &message.author,
            tool_calls,
            &message.meta,
            &message.content,
            run,
            row,
            recipe,
        ))?;
    Ok(inserted == 1)
}

/// Updates the row of the session.
fn update(
    conn: &Connection,
    head: &SessionHead,
    (seq, epoch): (u64, Option<u64>),
    job: &EncodedCommit,
) -> rusqlite::Result<()> {
    let tokens: u64 = job.messages.iter().map(|text| u64::from(text.message.tokens)).sum();
    let usage = usage::add(conn, &job.key, head.session_key, &job.usage)?;
    conn.prepare_cached(
        "UPDATE sessions SET last_seq = ?2, total_tokens = total_tokens + ?3, updated_at = ?4,
             title = COALESCE(title, ?5), lease_epoch = COALESCE(?6, lease_epoch), usage = COALESCE(?7, usage)
         WHERE session_key = ?1",
    )?
    .execute((head.session_key, seq, tokens, clock::now(), &job.title, epoch, usage))
    .map(drop)
}

fn change_runs(
    conn: &Connection,
    key: &SessionKey,
    head: &SessionHead,
    seq: u64,
    admitted: Admitted<'_>,
) -> JobResult<Option<StartedTurn>> {
    match admitted {
        Admitted::Untouched | Admitted::Step(_) => Ok(None),
        Admitted::Finish { number, next, error } => {
            let range = SeqRangeUpdate { before: None, last: Some(seq) };
            runs::update(conn, (head.session_key, number), &next.run, (range, error, None))?;
            Ok(None)
        }
        Admitted::Start { start, number, is_new, next, superseded, .. } => {
            for run in superseded {
                supersede(conn, head, &run)?;
            }
            let options = start.options.as_deref();
            if is_new {
                let range = (head.last_seq, seq);
                runs::insert(conn, (head.session_key, number), &start.run, (&next.run, range, options))?;
            } else {
                let range = SeqRangeUpdate { before: Some(head.last_seq), last: Some(seq) };
                runs::update(conn, (head.session_key, number), &next.run, (range, None, options))?;
            }
            if let Some(request) = &start.run.idempotency_key {
                idempotency_keys::insert(conn, key, (head.session_key, number), request)?;
            }
            let lease = Lease { key: key.clone(), run: number, epoch: next.epoch };
            Ok(Some(StartedTurn { lease, shared: shared(conn, key, start)? }))
        }
    }
}

/// Cancels a superseded run. A run that ended meanwhile is unchanged.
fn supersede(conn: &Connection, head: &SessionHead, run: &RunRow) -> rusqlite::Result<()> {
    let Ok(next) = lifecycle::transition(&head.turns(), Some(&run.state), &Transition::Supersede) else {
        return Ok(());
    };
    runs::update(
        conn,
        (head.session_key, run.number),
        &next.run,
        (SeqRangeUpdate::default(), Some(SUPERSEDED), None),
    )
}

fn shared(conn: &Connection, key: &SessionKey, start: &Start) -> rusqlite::Result<Vec<StateChange>> {
    let mut shared = Vec::new();
    if start.if_epoch.is_some() {
        state::shared(conn, key, &mut shared)?;
    }
    Ok(shared)
}

fn change_pending(
    conn: &Connection,
    session_key: i64,
    changes: &[PendingEntryChange],
) -> rusqlite::Result<()> {
    for change in changes {
        match change {
            PendingEntryChange::Set(entry) => conn
                .prepare_cached(
                    "INSERT INTO facts (session_key, kind, id, value, carried) VALUES (?1, ?2, ?3, ?4, ?5)
                     ON CONFLICT (session_key, kind, id)
                     DO UPDATE SET value = excluded.value, carried = excluded.carried",
                )?
                .execute((session_key, &entry.kind, &entry.id, &entry.value, entry.carried))?,
            PendingEntryChange::Clear { kind, id } => conn
                .prepare_cached("DELETE FROM facts WHERE session_key = ?1 AND kind = ?2 AND id = ?3")?
                .execute((session_key, kind, id))?,
        };
    }
    Ok(())
}
