//! A commit with its JSON encoded by the caller, so that the writer thread only binds values.

use super::state::EncodedStateChange;
use crate::{
    Commit, Error, NewRecipe, PendingEntryChange, Result, Seq, SessionKey, SessionMessage, TurnChange,
    UsageEntry,
};

/// A commit with its JSON encoded, ready for the writer.
#[derive(Debug)]
pub(super) struct EncodedCommit {
    pub(super) key: SessionKey,
    pub(super) messages: Vec<EncodedMessage>,
    pub(super) state: Vec<EncodedStateChange>,
    pub(super) pending: Vec<PendingEntryChange>,
    pub(super) turn: TurnChange,
    pub(super) expected_seq: Option<Seq>,
    pub(super) title: Option<String>,
    pub(super) discards_draft: bool,
    pub(super) recipe: Option<NewRecipe>,
    pub(super) usage: Vec<UsageEntry>,
    pub(super) sequence_numbers: u64,
}

#[derive(Debug)]
pub(super) struct EncodedMessage {
    pub(super) message: SessionMessage,
    pub(super) tool_calls: Option<String>,
}

impl EncodedMessage {
    fn new(message: SessionMessage) -> Result<Self> {
        let calls = (!message.tool_calls.is_empty()).then(|| serde_json::to_string(&message.tool_calls));
        let tool_calls = calls.transpose().map_err(|error| Error::Backend(error.into()))?;
        Ok(Self { message, tool_calls })
    }
}

impl EncodedCommit {
    pub(super) fn new(key: SessionKey, commit: Commit) -> Result<Self> {
        let sequence_numbers = commit.sequence_numbers();
        let Commit { messages, state, pending, turn, expected_seq, title, discards_draft, recipe, usage } =
            commit;
        let messages = messages.into_iter().map(EncodedMessage::new).collect::<Result<_>>()?;
        let state = EncodedStateChange::all(state)?;
        Ok(Self {
            key,
            messages,
            state,
            pending,
            turn,
            expected_seq,
            title,
            discards_draft,
            recipe,
            usage,
            sequence_numbers,
        })
    }

    /// Its approximate size in the queue, in bytes.
    pub(super) fn size(&self) -> usize {
        let messages: usize = self.messages.iter().map(|text| text.message.size()).sum();
        let state: usize = self.state.iter().map(EncodedStateChange::size).sum();
        let entry = |change: &PendingEntryChange| match change {
            PendingEntryChange::Set(entry) => entry.kind.len() + entry.id.len() + entry.value.len(),
            PendingEntryChange::Clear { kind, id } => kind.len() + id.len(),
        };
        let texts = self.recipe.iter().flat_map(|recipe| &recipe.texts).map(|text| text.content.len());
        size_of::<Self>()
            + messages
            + state
            + self.pending.iter().map(entry).sum::<usize>()
            + texts.sum::<usize>()
    }
}
