//! Commits: one batch locks the session and reads what the conditions need, [`lifecycle::transition`] decides, and one batch
//! stores the changes and commits.

use super::{
    admission::{AdmittedCommit, CommitRows},
    batch::{Batch, parameters},
    fault::JobResult,
    idempotency_keys, recipes,
    runs::{self, RunUpdate},
    sessions::{SessionHead, now, recent},
    state::{self, EncodedChange},
    step,
    text::{Text, integer},
    write::{Transaction, WriteJob},
};
use crate::{
    Commit, Committed, Error, Lease, PendingEntryChange, Seq, SessionKey, SessionMessage, StartedTurn,
    lifecycle::{self, NextState, Transition},
    run::SUPERSEDED,
};
use std::collections::BTreeMap;
use uuid::Uuid;

/// A commit to a session.
pub(super) struct CommitJob {
    pub(super) key: SessionKey,
    pub(super) commit: Commit,
}

impl WriteJob for CommitJob {
    type Output = Committed;

    async fn run(&self, transaction: &Transaction) -> JobResult<Committed> {
        change(transaction, (&self.key, &self.commit), End::Commit).await
    }
}

/// Applies several commits to one session in one transaction.
#[cfg(feature = "import")]
pub(super) struct CommitAll {
    pub(super) key: SessionKey,
    pub(super) steps: Vec<Commit>,
}

#[cfg(feature = "import")]
impl WriteJob for CommitAll {
    type Output = Vec<Committed>;

    async fn run(&self, transaction: &Transaction) -> JobResult<Vec<Committed>> {
        let mut all = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            all.push(apply(transaction, &self.key, step).await?);
        }
        transaction.commit(Batch::default()).await?;
        Ok(all)
    }
}

/// Applies a commit within a transaction that stays open.
pub(super) async fn apply(
    transaction: &Transaction,
    key: &SessionKey,
    commit: &Commit,
) -> JobResult<Committed> {
    change(transaction, (key, commit), End::StayOpen).await
}

/// Whether the transaction ends with the changes of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    StayOpen,
    Commit,
}

async fn change(
    transaction: &Transaction,
    (key, commit): (&SessionKey, &Commit),
    end: End,
) -> JobResult<Committed> {
    let calls = tool_calls(&commit.messages)?;
    if end == End::Commit
        && let Some(committed) = step::commit(transaction, (key, commit), &calls).await?
    {
        return Ok(committed);
    }
    let mut batch = Batch::default();
    let rows = CommitRows::add(&mut batch, (key, commit), (&calls, transaction.write_id));
    let found = rows.read(transaction.send(batch).await?, key)?;
    if end == End::Commit && transaction.is_uncertain && found.head.is_written {
        return found.committed_earlier(transaction, (key, commit)).await;
    }
    let repeated = found.repeated();
    let admitted = match found.admit(key, commit) {
        Ok(admitted) => admitted,
        // The first attempt of the same commit may be the cause of the refusal.
        Err(refusal) => return repeated.ok_or(refusal),
    };
    if let Some(id) = found.duplicate_id(commit) {
        return repeated
            .ok_or_else(|| Error::DuplicateMessage { key: key.clone(), id: id.to_owned() }.into());
    }
    let head = &found.head;
    let seq = head.last_seq + commit.sequence_numbers();
    let state = state::encode(&commit.state)?;
    let mut batch = Batch::default();
    add_session(&mut batch, head, (seq, admitted.epoch()), (commit, transaction.write_id));
    add_messages(&mut batch, head, commit, (&calls, &admitted));
    add_details(&mut batch, (key, head.session_key, seq), commit, &state);
    let lease = add_runs(&mut batch, (key, head, seq), &admitted);
    let shared = match &admitted {
        AdmittedCommit::Start { start, .. } if start.if_epoch.is_some() => state::add_shared(&mut batch, key),
        _ => Vec::new(),
    };
    let rows = match end {
        End::Commit => transaction.commit(batch).await,
        End::StayOpen => transaction.send(batch).await,
    };
    let rows = rows.map_err(idempotency_keys::contended)?;
    let started = match lease {
        Some(lease) => Some(StartedTurn { lease, shared: state::merged(&rows, &shared)? }),
        None => None,
    };
    let epoch = admitted.epoch().unwrap_or(head.lease_epoch);
    Ok(Committed { seq: Seq(seq), repeated: false, started, epoch })
}

/// The tool calls of each message as JSON text.
fn tool_calls(messages: &[SessionMessage]) -> JobResult<Vec<Option<String>>> {
    let encode = |message: &SessionMessage| {
        let calls = &message.tool_calls;
        let encoded = (!calls.is_empty()).then(|| serde_json::to_string(calls)).transpose();
        Ok(encoded.map_err(|error| Error::Backend(error.into()))?)
    };
    messages.iter().map(encode).collect()
}

const UPDATE_SESSION: &str = concat!(
    "UPDATE sessions SET last_seq = $2, total_tokens = total_tokens + $3, title = COALESCE(title, $4),
         lease_epoch = COALESCE($5, lease_epoch), updated_at = now, updated_minute = floor(now / 60)::bigint, ",
    recent!("$6"),
    " FROM (SELECT ",
    now!(),
    " AS now) AS clock WHERE session_key = $1"
);

fn add_session<'a>(
    batch: &mut Batch<'a>,
    head: &SessionHead,
    (seq, epoch): (u64, Option<u64>),
    (commit, write_id): (&'a Commit, i64),
) {
    let tokens: u64 = commit.messages.iter().map(|message| u64::from(message.tokens)).sum();
    batch.add(
        UPDATE_SESSION,
        parameters![
            head.session_key,
            integer(seq),
            integer(tokens),
            commit.title.as_deref().map(Text),
            epoch.map(integer),
            write_id,
        ],
    );
}

/// The recipe of a message.
pub(super) fn recipe_of<'a>(commit: &'a Commit, message: &str) -> Option<Text<'a>> {
    let own = commit.recipe.as_ref().filter(|recipe| recipe.message == message);
    own.map(|recipe| Text(&recipe.recipe))
}

const INSERT_MESSAGES: &str = "INSERT INTO messages (session_key, seq, tokens, timestamp, run, counted_by, message_id, role,
         author, tool_calls, meta, recipe, content)
     SELECT $1, message.* FROM unnest($2::bigint[], $3::bigint[], $4::float8[], $5::bigint[], $6::text[], $7::text[],
         $8::text[], $9::text[], $10::text[], $11::text[], $12::text[], $13::text[]) AS message";

fn add_messages<'a>(
    batch: &mut Batch<'a>,
    head: &SessionHead,
    commit: &'a Commit,
    (calls, admitted): (&'a [Option<String>], &AdmittedCommit<'_>),
) {
    let messages = &commit.messages;
    if messages.is_empty() {
        return;
    }
    let first = integer(head.last_seq + 1);
    let texts = |text: fn(&SessionMessage) -> &str| -> Vec<Text<'a>> {
        messages.iter().map(|message| Text(text(message))).collect()
    };
    batch.add(
        INSERT_MESSAGES,
        parameters![
            head.session_key,
            (first..).take(messages.len()).collect::<Vec<i64>>(),
            messages.iter().map(|message| i64::from(message.tokens)).collect::<Vec<_>>(),
            messages.iter().map(|message| message.timestamp).collect::<Vec<_>>(),
            messages.iter().map(|message| integer(admitted.run_of(&message.id))).collect::<Vec<_>>(),
            texts(|message| &message.counted_by),
            texts(|message| &message.id),
            texts(|message| &message.role),
            texts(|message| &message.author),
            calls.iter().map(|calls| calls.as_deref().map(Text)).collect::<Vec<_>>(),
            messages.iter().map(|message| message.meta.as_deref().map(Text)).collect::<Vec<_>>(),
            messages.iter().map(|message| recipe_of(commit, &message.id)).collect::<Vec<_>>(),
            texts(|message| &message.content),
        ],
    );
}

const SET_FACTS: &str = "INSERT INTO facts (session_key, kind, id, value, carried)
     SELECT $1, fact.* FROM unnest($2::text[], $3::text[], $4::text[], $5::boolean[]) AS fact
     ON CONFLICT (session_key, kind, id) DO UPDATE SET value = excluded.value, carried = excluded.carried";
const CLEAR_FACTS: &str = "DELETE FROM facts USING unnest($2::text[], $3::text[]) AS fact (kind, id)
     WHERE session_key = $1 AND facts.kind = fact.kind AND facts.id = fact.id";
const DISCARD_DRAFT: &str = "DELETE FROM drafts WHERE session_key = $1";

/// Adds the statements for state, pending work, draft and recipe texts.
fn add_details<'a>(
    batch: &mut Batch<'a>,
    (key, session_key, seq): (&'a SessionKey, Uuid, u64),
    commit: &'a Commit,
    state: &'a [EncodedChange<'a>],
) {
    add_pending(batch, session_key, &commit.pending);
    if commit.discards_draft {
        batch.add(DISCARD_DRAFT, parameters![session_key]);
    }
    state::add_changes(batch, key, (session_key, integer(seq)), state);
    if let Some(recipe) = &commit.recipe {
        recipes::add_texts(batch, session_key, &recipe.texts);
    }
}

/// The last change of each entry of the pending work, because a statement cannot change a row twice.
#[derive(Default)]
pub(super) struct PendingRows<'a> {
    /// Kinds and ids.
    pub(super) cleared: (Vec<Text<'a>>, Vec<Text<'a>>),
    pub(super) kinds: Vec<Text<'a>>,
    pub(super) ids: Vec<Text<'a>>,
    pub(super) values: Vec<Text<'a>>,
    pub(super) carried: Vec<bool>,
}

impl<'a> PendingRows<'a> {
    pub(super) fn of(changes: &'a [PendingEntryChange]) -> Self {
        let mut last = BTreeMap::new();
        for change in changes {
            let (place, entry) = match change {
                PendingEntryChange::Set(entry) => ((entry.kind.as_str(), entry.id.as_str()), Some(entry)),
                PendingEntryChange::Clear { kind, id } => ((kind.as_str(), id.as_str()), None),
            };
            last.insert(place, entry);
        }
        let mut rows = Self::default();
        for ((kind, id), entry) in last {
            let Some(entry) = entry else {
                rows.cleared.0.push(Text(kind));
                rows.cleared.1.push(Text(id));
                continue;
            };
            rows.kinds.push(Text(kind));
            rows.ids.push(Text(id));
            rows.values.push(Text(&entry.value));
            rows.carried.push(entry.carried);
        }
        rows
    }
}

fn add_pending<'a>(batch: &mut Batch<'a>, session_key: Uuid, changes: &'a [PendingEntryChange]) {
    let PendingRows { cleared, kinds, ids, values, carried } = PendingRows::of(changes);
    if !cleared.0.is_empty() {
        batch.add(CLEAR_FACTS, parameters![session_key, cleared.0, cleared.1]);
    }
    if !kinds.is_empty() {
        batch.add(SET_FACTS, parameters![session_key, kinds, ids, values, carried]);
    }
}

/// Adds the changes of runs. Returns the lease of a started run.
fn add_runs<'a>(
    batch: &mut Batch<'a>,
    (key, head, seq): (&'a SessionKey, &'a SessionHead, u64),
    admitted: &'a AdmittedCommit<'a>,
) -> Option<Lease> {
    match admitted {
        AdmittedCommit::Untouched | AdmittedCommit::Step(_) => None,
        AdmittedCommit::Finish { number, next, error } => {
            let update = RunUpdate { last: Some(seq), error: *error, ..RunUpdate::default() };
            runs::add_update(batch, (head.session_key, *number), &next.run, update);
            None
        }
        AdmittedCommit::Start { start, number, is_new, is_known_request, next, superseded, settled } => {
            for (run, next) in superseded {
                let update = RunUpdate { error: Some(SUPERSEDED), ..RunUpdate::default() };
                runs::add_update(batch, (head.session_key, *run), next, update);
            }
            if !settled.extended.is_empty() {
                let (numbers, seqs) = settled.extended.iter().copied().unzip::<i64, i64, Vec<_>, Vec<_>>();
                batch.add(runs::EXTEND, parameters![head.session_key, numbers, seqs]);
            }
            let (place, options) = ((head.session_key, *number), start.options.as_deref());
            if *is_new {
                let range = (head.last_seq, seq);
                runs::add_insert(batch, place, (&start.run.id, &next.run), (range, options));
            } else {
                let before = Some(head.last_seq);
                let update = RunUpdate { before, last: Some(seq), error: None, options };
                runs::add_update(batch, place, &next.run, update);
            }
            if let Some(request) = start.run.idempotency_key.as_ref().filter(|_| !is_known_request) {
                idempotency_keys::add_insert(batch, key, place, request);
            }
            Some(Lease { key: key.clone(), run: *number, epoch: next.epoch })
        }
    }
}

/// The next state of a run that a start supersedes; `None` if it ended meanwhile.
pub(super) fn superseded(head: &SessionHead, run: &runs::StoredRun) -> Option<NextState<String>> {
    lifecycle::transition(&head.turns(), Some(&run.state), &Transition::Supersede).ok()
}
