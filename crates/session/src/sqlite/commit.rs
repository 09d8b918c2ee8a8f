//! The one way in which a session changes. A commit is admitted or refused before its first change is made.

use super::{
    drafts,
    fault::{Failure, Outcome},
    runs::{self, Admission, Places, RunRow},
    sessions::{self, Head},
    state,
};
use crate::{
    Commit, Committed, Error, FactChange, Lease, Message, NewRun, Result, Seq, SessionKey, Start, Started,
    StateChange, TurnChange, clock,
    lifecycle::{self, Next, Transition},
    run::{Acceptance, SUPERSEDED},
};
use rusqlite::{Connection, OptionalExtension};

/// A commit as the writer gets it: all JSON is text by now.
#[derive(Debug)]
pub(super) struct Job {
    key: SessionKey,
    messages: Vec<MessageText>,
    state: Vec<state::Text>,
    facts: Vec<FactChange>,
    turn: TurnChange,
    expected_seq: Option<Seq>,
    title: Option<String>,
    discards_draft: bool,
    places: u64,
}

#[derive(Debug)]
struct MessageText {
    message: Message,
    tool_calls: Option<String>,
}

impl MessageText {
    fn new(message: Message) -> Result<Self> {
        let calls = (!message.tool_calls.is_empty()).then(|| serde_json::to_string(&message.tool_calls));
        let tool_calls = calls.transpose().map_err(|error| Error::Backend(error.into()))?;
        Ok(Self { message, tool_calls })
    }
}

impl Job {
    pub(super) fn new(key: SessionKey, commit: Commit) -> Result<Self> {
        let places = commit.places();
        let Commit { messages, state, facts, turn, expected_seq, title, discards_draft } = commit;
        let messages = messages.into_iter().map(MessageText::new).collect::<Result<_>>()?;
        let state = state::Text::all(state)?;
        Ok(Self { key, messages, state, facts, turn, expected_seq, title, discards_draft, places })
    }

    /// About how many bytes it keeps in the queue.
    pub(super) fn size(&self) -> usize {
        let messages: usize = self.messages.iter().map(|text| text.message.size()).sum();
        let state: usize = self.state.iter().map(state::Text::size).sum();
        let fact = |change: &FactChange| match change {
            FactChange::Set(fact) => fact.kind.len() + fact.id.len() + fact.value.len(),
            FactChange::Clear { kind, id } => kind.len() + id.len(),
        };
        size_of::<Self>() + messages + state + self.facts.iter().map(fact).sum::<usize>()
    }
}

/// What an admitted commit does to runs and to the lease.
enum Admitted<'a> {
    Untouched,
    Step(&'a Lease),
    Start {
        start: &'a Start,
        number: u64,
        is_new: bool,
        next: Next<String>,
        superseded: Vec<RunRow>,
    },
    /// The run of this number leaves `running` or `waiting`.
    Finish {
        number: u64,
        next: Next<String>,
        error: Option<&'a str>,
    },
}

impl Admitted<'_> {
    /// The number of the run that the commit's messages belong to, 0 if they belong to none.
    fn run(&self) -> u64 {
        match self {
            Self::Untouched => 0,
            Self::Step(lease) => lease.run,
            Self::Start { number, .. } | Self::Finish { number, .. } => *number,
        }
    }

    fn epoch(&self) -> Option<u64> {
        match self {
            Self::Untouched | Self::Step(_) => None,
            Self::Start { next, .. } | Self::Finish { next, .. } => Some(next.epoch),
        }
    }
}

/// Which page of the table new messages go to. All sessions share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placement {
    /// The last one.
    End,
    /// The first one, because the last one is damaged. Nothing depends on it: rows are found by session and place.
    Front,
}

impl Placement {
    /// The number of the next row of the table; `None` if SQLite gives it.
    fn row(self, conn: &Connection) -> rusqlite::Result<Option<i64>> {
        match self {
            Self::End => Ok(None),
            Self::Front => conn.query_row("SELECT MIN(rowid) - 1 FROM messages", [], |row| row.get(0)),
        }
    }
}

pub(super) fn commit(conn: &Connection, job: &Job) -> Outcome<Committed> {
    commit_at(conn, job, Placement::End)
}

pub(super) fn commit_at(conn: &Connection, job: &Job, placement: Placement) -> Outcome<Committed> {
    let head = sessions::head(conn, &job.key)?;
    let admitted = match admit(conn, &head, job) {
        Ok(admitted) => admitted,
        // The first attempt of this very commit may be the reason why it is refused now.
        Err(refusal) => return place(conn, &head, job)?.ok_or(refusal),
    };
    // The last one first: it decides whether the commit is repeated, and nothing is changed by then.
    for (index, text) in job.messages.iter().enumerate().rev() {
        let seq = head.last_seq + 1 + index as u64;
        let row = placement.row(conn)?;
        if !insert(conn, row, (head.session_key, seq, admitted.run()), text)? {
            let id = text.message.id.clone();
            let is_last = index + 1 == job.messages.len();
            let repeated = if is_last { place(conn, &head, job)? } else { None };
            return repeated.ok_or_else(|| Error::DuplicateMessage { key: job.key.clone(), id }.into());
        }
    }
    let seq = head.last_seq + job.places;
    update(conn, &head, (seq, admitted.epoch()), job)?;
    state::change(conn, state::Place { key: &job.key, session_key: head.session_key, seq }, &job.state)?;
    change_facts(conn, head.session_key, &job.facts)?;
    if job.discards_draft {
        drafts::discard(conn, head.session_key)?;
    }
    let epoch = admitted.epoch().unwrap_or(head.lease_epoch);
    let started = change_runs(conn, &job.key, &head, seq, admitted)?;
    Ok(Committed { seq: Seq(seq), repeated: false, started, epoch })
}

fn admit<'a>(conn: &Connection, head: &Head, job: &'a Job) -> Outcome<Admitted<'a>> {
    let refused = |refusal, id: &str| Failure::from(runs::refused(refusal, &job.key, id));
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

/// The session is not as the caller has read it.
fn conflict(head: &Head, job: &Job) -> Error {
    let found = Seq(head.last_seq);
    Error::Conflict { key: job.key.clone(), expected: job.expected_seq.unwrap_or(found), found }
}

fn admit_start<'a>(conn: &Connection, head: &Head, job: &Job, start: &'a Start) -> Outcome<Admitted<'a>> {
    let NewRun { id, owner, .. } = &start.run;
    runs::check_request_key(conn, &job.key, &start.run, Acceptance::Start)?;
    let Admission { turns, run, next_number, has_draft } = runs::admission(conn, head, id)?;
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
    Ok(Admitted::Start { start, number, is_new, next, superseded })
}

/// The answer to a commit whose messages are in the log already.
fn place(conn: &Connection, head: &Head, job: &Job) -> Outcome<Option<Committed>> {
    let Some(MessageText { message, .. }) = job.messages.last() else { return Ok(None) };
    let seq = conn
        .prepare_cached("SELECT seq FROM messages WHERE session_key = ?1 AND message_id = ?2")?
        .query_row((head.session_key, &message.id), |row| row.get(0).map(Seq))
        .optional()?;
    Ok(seq.map(|seq| Committed { seq, repeated: true, started: None, epoch: head.lease_epoch }))
}

/// `false` if the session has a message of this id.
fn insert(
    conn: &Connection,
    row: Option<i64>,
    (session_key, seq, run): (i64, u64, u64),
    text: &MessageText,
) -> rusqlite::Result<bool> {
    let MessageText { message, tool_calls } = text;
    let inserted = conn
        .prepare_cached(
            "INSERT INTO messages (session_key, seq, tokens, timestamp, counted_by, message_id, role, author,
                 tool_calls, meta, content, run, rowid)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
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
        ))?;
    Ok(inserted == 1)
}

/// All that a commit changes in the session's own row, at once.
fn update(
    conn: &Connection,
    head: &Head,
    (seq, epoch): (u64, Option<u64>),
    job: &Job,
) -> rusqlite::Result<()> {
    let tokens: u64 = job.messages.iter().map(|text| u64::from(text.message.tokens)).sum();
    conn.prepare_cached(
        "UPDATE sessions SET last_seq = ?2, total_tokens = total_tokens + ?3, updated_at = ?4,
             title = COALESCE(title, ?5), lease_epoch = COALESCE(?6, lease_epoch)
         WHERE session_key = ?1",
    )?
    .execute((head.session_key, seq, tokens, clock::now(), &job.title, epoch))
    .map(drop)
}

fn change_runs(
    conn: &Connection,
    key: &SessionKey,
    head: &Head,
    seq: u64,
    admitted: Admitted<'_>,
) -> Outcome<Option<Started>> {
    match admitted {
        Admitted::Untouched | Admitted::Step(_) => Ok(None),
        Admitted::Finish { number, next, error } => {
            let places = Places { before: None, last: Some(seq) };
            runs::update(conn, (head.session_key, number), &next.run, (places, error, None))?;
            Ok(None)
        }
        Admitted::Start { start, number, is_new, next, superseded } => {
            for run in superseded {
                supersede(conn, head, &run)?;
            }
            let options = start.options.as_deref();
            if is_new {
                let places = (head.last_seq, seq);
                runs::insert(conn, (head.session_key, number), &start.run, (&next.run, places, options))?;
            } else {
                let places = Places { before: Some(head.last_seq), last: Some(seq) };
                runs::update(conn, (head.session_key, number), &next.run, (places, None, options))?;
            }
            if let Some(request) = &start.run.request_key {
                runs::insert_request_key(conn, key, (head.session_key, number), request)?;
            }
            let lease = Lease { key: key.clone(), run: number, epoch: next.epoch };
            Ok(Some(Started { lease, shared: shared(conn, key, start)? }))
        }
    }
}

/// A run that has ended meanwhile stays as it is.
fn supersede(conn: &Connection, head: &Head, run: &RunRow) -> rusqlite::Result<()> {
    let Ok(next) = lifecycle::transition(&head.turns(), Some(&run.state), &Transition::Supersede) else {
        return Ok(());
    };
    runs::update(conn, (head.session_key, run.number), &next.run, (Places::default(), Some(SUPERSEDED), None))
}

fn shared(conn: &Connection, key: &SessionKey, start: &Start) -> rusqlite::Result<Vec<StateChange>> {
    let mut shared = Vec::new();
    if start.if_epoch.is_some() {
        state::shared(conn, key, &mut shared)?;
    }
    Ok(shared)
}

fn change_facts(conn: &Connection, session_key: i64, changes: &[FactChange]) -> rusqlite::Result<()> {
    for change in changes {
        match change {
            FactChange::Set(fact) => conn
                .prepare_cached(
                    "INSERT INTO facts (session_key, kind, id, value, carried) VALUES (?1, ?2, ?3, ?4, ?5)
                     ON CONFLICT (session_key, kind, id)
                     DO UPDATE SET value = excluded.value, carried = excluded.carried",
                )?
                .execute((session_key, &fact.kind, &fact.id, &fact.value, fact.carried))?,
            FactChange::Clear { kind, id } => conn
                .prepare_cached("DELETE FROM facts WHERE session_key = ?1 AND kind = ?2 AND id = ?3")?
                .execute((session_key, kind, id))?,
        };
    }
    Ok(())
}
