//! The one way in which a session changes. Whether a step is admitted is decided before its first change is made, but for a
//! run that does not exist.

use super::{
    fault::{Failure, Outcome},
    inbox, runs,
    sessions::{self, Head},
    state,
};
use crate::{
    Append, Appended, Enter, Entered, Error, FactChange, Message, NewRun, Result, RunUpdate, Seq, SessionKey,
    clock,
};
use rusqlite::{Connection, OptionalExtension};

/// A step as the writer gets it: all JSON is text by now.
#[derive(Debug)]
pub(super) struct Step {
    key: SessionKey,
    message: Option<MessageText>,
    state: Vec<state::Text>,
    facts: Vec<FactChange>,
    enters: Option<Enter>,
    starts: Option<NewRun>,
    run: Option<RunUpdate>,
    takes: Option<u64>,
    expected_seq: Option<Seq>,
    epoch: Option<u64>,
    release: bool,
    title: Option<String>,
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

impl Step {
    pub(super) fn new(key: SessionKey, step: Append) -> Result<Self> {
        let Append { message, state, facts, enters, starts, run, takes, expected_seq, epoch, release, title } =
            step;
        let message = message.map(MessageText::new).transpose()?;
        let state = state::Text::all(state)?;
        // Without an epoch nobody knows whose lease it is.
        let release = release && epoch.is_some();
        Ok(Self {
            key,
            message,
            state,
            facts,
            enters,
            starts,
            run,
            takes,
            expected_seq,
            epoch,
            release,
            title,
        })
    }

    /// About how many bytes it keeps in the queue.
    pub(super) fn size(&self) -> usize {
        let message = self.message.as_ref().map_or(0, |text| text.message.size());
        let state: usize = self.state.iter().map(state::Text::size).sum();
        let fact = |change: &FactChange| match change {
            FactChange::Set(fact) => fact.kind.len() + fact.id.len() + fact.value.len(),
            FactChange::Clear { kind, id } => kind.len() + id.len(),
        };
        size_of::<Self>() + message + state + self.facts.iter().map(fact).sum::<usize>()
    }

    fn takes_place(&self) -> bool {
        self.message.is_some() || !self.state.is_empty()
    }
}

pub(super) fn append(conn: &Connection, step: &Step) -> Outcome<Appended> {
    let head = sessions::head(conn, &step.key)?;
    if let Err(refusal) = admit(conn, &head, step) {
        // The first attempt of this very step may be the reason why it is refused now.
        return place(conn, &head, step)?.map(repeated).ok_or(refusal);
    }
    let seq = head.last_seq + u64::from(step.takes_place());
    if let Some(text) = &step.message
        && !insert(conn, (head.session_key, seq), text)?
    {
        return place(conn, &head, step)?
            .map(repeated)
            .ok_or_else(|| Error::NotFound(step.key.clone()).into());
    }
    update(conn, &head, seq, step)?;
    state::change(conn, state::Place { key: &step.key, session_key: head.session_key, seq }, &step.state)?;
    change_facts(conn, head.session_key, &step.facts)?;
    if let Some(number) = step.takes {
        inbox::take(conn, head.session_key, number)?;
    }
    if let Some(run) = &step.starts {
        runs::begin(conn, head.session_key, run, (head.last_seq, seq))?;
    }
    // Only a mistake names a run that is not there: it is found out here, and undoes what came before.
    if let Some(run) = &step.run
        && !runs::update(conn, head.session_key, run, step.takes_place().then_some(seq))?
    {
        return Err(Error::NoRun { key: step.key.clone(), id: run.id.clone() }.into());
    }
    let entered = step.enters.as_ref().map(|enter| entered(conn, &step.key, &head, enter));
    Ok(Appended { seq: Seq(seq), repeated: false, entered: entered.transpose()? })
}

fn repeated(seq: Seq) -> Appended {
    Appended { seq, repeated: true, entered: None }
}

fn admit(conn: &Connection, head: &Head, step: &Step) -> Outcome<()> {
    let key = || step.key.clone();
    if step.epoch.is_some_and(|epoch| epoch != head.lease_epoch) {
        return Err(Error::Fenced(key()).into());
    }
    if step.enters.is_some() && (head.is_leased || inbox::count(conn, head.session_key)? > 0) {
        return Err(Error::Busy(key()).into());
    }
    let follows = step.enters.as_ref().and_then(|enter| enter.follows);
    if follows.is_some_and(|epoch| epoch != head.lease_epoch) {
        return Err(Error::Fenced(key()).into());
    }
    if let Some(expected) = step.expected_seq
        && expected.0 != head.last_seq
    {
        return Err(Error::Conflict { key: key(), expected, found: Seq(head.last_seq) }.into());
    }
    if let Some(number) = step.takes
        && !inbox::holds(conn, head.session_key, number)?
    {
        return Err(Error::TicketGone { key: key(), number }.into());
    }
    // Without a key it is nobody else's.
    if let Some(new) = step.starts.as_ref().filter(|new| new.idempotency_key.is_some())
        && runs::run(conn, &step.key, &new.id)?.is_some_and(|run| run.is_begun_before(new))
    {
        return Err(Error::RunBegun { key: key(), id: new.id.clone() }.into());
    }
    Ok(())
}

/// Where the step's message stands, if it does.
fn place(conn: &Connection, head: &Head, step: &Step) -> Outcome<Option<Seq>> {
    let Some(MessageText { message, .. }) = &step.message else { return Ok(None) };
    conn.prepare_cached("SELECT seq FROM messages WHERE session_key = ?1 AND message_id = ?2")?
        .query_row((head.session_key, &message.id), |row| row.get(0).map(Seq))
        .optional()
        .map_err(Failure::from)
}

/// `false` if the session has a message of this id.
fn insert(conn: &Connection, (session_key, seq): (i64, u64), text: &MessageText) -> rusqlite::Result<bool> {
    let MessageText { message, tool_calls } = text;
    let inserted = conn
        .prepare_cached(
            "INSERT INTO messages (session_key, seq, tokens, timestamp, counted_by, message_id, role, author,
                 tool_calls, meta, content)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
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
        ))?;
    Ok(inserted == 1)
}

/// All that a step changes in the session's own row, at once.
fn update(conn: &Connection, head: &Head, seq: u64, step: &Step) -> rusqlite::Result<()> {
    let tokens = step.message.as_ref().map_or(0, |text| text.message.tokens);
    let now = clock::now();
    let enters = step.enters.as_ref();
    conn.prepare_cached(
        "UPDATE sessions SET last_seq = ?2, total_tokens = total_tokens + ?3, updated_at = ?4,
             title = COALESCE(title, ?5), lease_owner = CASE WHEN ?6 THEN NULL ELSE COALESCE(?7, lease_owner) END,
             lease_epoch = COALESCE(?8, lease_epoch), lease_until = COALESCE(?9, lease_until)
         WHERE session_key = ?1",
    )?
    .execute((
        head.session_key,
        seq,
        tokens,
        now,
        &step.title,
        step.release,
        enters.map(|enter| &enter.owner),
        enters.map(|_| head.next_epoch()),
        enters.map(|enter| now + enter.ttl.as_secs_f64()),
    ))
    .map(drop)
}

fn entered(conn: &Connection, key: &SessionKey, head: &Head, enter: &Enter) -> rusqlite::Result<Entered> {
    let mut shared = Vec::new();
    if enter.follows.is_some() {
        state::shared(conn, key, &mut shared)?;
    }
    Ok(Entered { epoch: head.next_epoch(), shared })
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
