//! The most frequent commits, steps of a turn, in one statement and one round trip.
//!
//! The statement verifies in the row of the session what [`lifecycle::fence`](crate::lifecycle::fence) would: the epoch is the one of
//! the lease. If it stores nothing, the commit is decided in the usual way, which also finds the reason.

use super::{
    batch::{Batch, parameters},
    commit::{PendingRows, recipe_of},
    fault::JobResult,
    sessions::{key_of, now, recent},
    text::{Text, integer, number},
    write::Transaction,
};
use crate::{Commit, Committed, Seq, SessionKey, SessionMessage, TurnChange};
use tokio_postgres::Row;

/// A lost attempt that was committed left its id in the row.
const STEP: &str = concat!(
    "WITH clock AS (SELECT ",
    now!(),
    " AS now), step AS (
         UPDATE sessions SET last_seq = last_seq + $4, total_tokens = total_tokens + $5, title = COALESCE(title, $6),
             updated_at = now, updated_minute = floor(now / 60)::bigint, ",
    recent!("$3"),
    " FROM clock
         WHERE session_key = $1 AND ($2::bigint IS NULL OR lease_epoch = $2) AND NOT $3 = ANY (recent_writes)
         RETURNING last_seq, lease_epoch
     ), added AS (
         INSERT INTO messages (session_key, seq, tokens, timestamp, run, counted_by, message_id, role, author, tool_calls,
             meta, recipe, content)
         SELECT $1, last_seq - $4 + place, tokens, timestamp, $7, counted_by, message_id, role, author, tool_calls, meta, recipe,
             content
         FROM step, unnest($8::bigint[], $9::float8[], $10::text[], $11::text[], $12::text[], $13::text[], $14::text[],
             $15::text[], $16::text[], $17::text[]) WITH ORDINALITY AS message (tokens, timestamp, counted_by, message_id,
             role, author, tool_calls, meta, recipe, content, place)
     ), cleared AS (
         DELETE FROM facts USING step, unnest($18::text[], $19::text[]) AS fact (kind, id)
         WHERE session_key = $1 AND facts.kind = fact.kind AND facts.id = fact.id
     ), set AS (
         INSERT INTO facts (session_key, kind, id, value, carried)
         SELECT $1, fact.* FROM step, unnest($20::text[], $21::text[], $22::text[], $23::boolean[]) AS fact
         ON CONFLICT (session_key, kind, id) DO UPDATE SET value = excluded.value, carried = excluded.carried
     ), discarded AS (
         DELETE FROM drafts USING step WHERE $24::boolean AND session_key = $1
     )
     SELECT last_seq, lease_epoch FROM step"
);

/// Whether the commit depends on its epoch only, and changes no row that sessions share.
fn is_plain(key: &SessionKey, commit: &Commit) -> bool {
    let is_plain_turn = match &commit.turn {
        TurnChange::None => true,
        TurnChange::Step(lease) => lease.key == *key,
        TurnChange::Start(_) | TurnChange::Finish { .. } | TurnChange::Cancel { .. } => false,
    };
    let shares_texts = commit.recipe.as_ref().is_some_and(|recipe| !recipe.texts.is_empty());
    is_plain_turn && !shares_texts && commit.state.is_empty() && commit.expected_seq.is_none()
}

/// Stores a plain commit. `None` if it is not plain, or if nothing was stored.
pub(super) async fn commit(
    transaction: &Transaction,
    (key, commit): (&SessionKey, &Commit),
    calls: &[Option<String>],
) -> JobResult<Option<Committed>> {
    if !is_plain(key, commit) {
        return Ok(None);
    }
    let mut batch = Batch::default();
    add(&mut batch, (key, commit), (calls, transaction.write_id));
    match transaction.statement(batch).await {
        Ok(rows) => {
            let committed = |row: &Row| -> JobResult<Committed> {
                let (seq, epoch) = (Seq(number(row, 0)?), number(row, 1)?);
                Ok(Committed { seq, repeated: false, started: None, epoch })
            };
            rows.first().map(committed).transpose()
        }
        // A message of the commit is in the log.
        Err(error) if error.violates("messages_by_id") => Ok(None),
        Err(error) => Err(error),
    }
}

fn add<'a>(
    batch: &mut Batch<'a>,
    (key, commit): (&SessionKey, &'a Commit),
    (calls, write_id): (&'a [Option<String>], i64),
) {
    let (epoch, run) = match &commit.turn {
        TurnChange::Step(lease) => (Some(integer(lease.epoch)), integer(lease.run)),
        _ => (None, 0),
    };
    let messages = &commit.messages;
    let texts = |text: fn(&SessionMessage) -> &str| -> Vec<Text<'a>> {
        messages.iter().map(|message| Text(text(message))).collect()
    };
    let tokens: u64 = messages.iter().map(|message| u64::from(message.tokens)).sum();
    let pending = PendingRows::of(&commit.pending);
    let mut values = parameters![
        key_of(key),
        epoch,
        write_id,
        integer(commit.sequence_numbers()),
        integer(tokens),
        commit.title.as_deref().map(Text),
        run,
        messages.iter().map(|message| i64::from(message.tokens)).collect::<Vec<_>>(),
        messages.iter().map(|message| message.timestamp).collect::<Vec<_>>(),
        texts(|message| &message.counted_by),
        texts(|message| &message.id),
        texts(|message| &message.role),
        texts(|message| &message.author),
        calls.iter().map(|calls| calls.as_deref().map(Text)).collect::<Vec<_>>(),
        messages.iter().map(|message| message.meta.as_deref().map(Text)).collect::<Vec<_>>(),
        messages.iter().map(|message| recipe_of(commit, &message.id)).collect::<Vec<_>>(),
        texts(|message| &message.content),
    ];
    values.extend(parameters![pending.cleared.0, pending.cleared.1]);
    values.extend(parameters![pending.kinds, pending.ids, pending.values, pending.carried]);
    values.extend(parameters![commit.discards_draft]);
    batch.add(STEP, values);
}
