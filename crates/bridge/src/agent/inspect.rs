//! Inspection of model calls: rebuilds the request of a stored answer from the log, and verifies it by its hash.

mod semconv;

use super::Agent;
use crate::{
    model::rebuild_request,
    store::{
        recipe::{self, RecordedCall},
        session_handle::SessionHandle,
    },
};
use adk::{error::ServiceError, event::Event, model::Llm, session::SessionKey};
use provider::{MessagePart, ModelRequest};
use session::RecipeQuery;
use std::sync::Arc;

/// Selects the model calls to rebuild.
#[derive(Clone, Copy, Debug)]
pub enum CallSelection<'a> {
    /// The call that the event with this id answers.
    Event(&'a str),
    /// The newest ones, at most this many.
    Newest(usize),
}

/// Whether a rebuilt body equals the one that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyCheck {
    /// The hashes are equal.
    Verified,
    /// The hashes differ: the program builds or encodes requests in another way now.
    Differs,
    /// There is no body to compare: the model has no wire format, its provider is not configured any more, or nothing
    /// was sent.
    Unknown,
}

/// The request of a model call, rebuilt from the log.
#[derive(Clone, Debug)]
pub struct RebuiltCall {
    pub agent: String,
    /// The event that holds the answer or the error.
    pub answer: Event,
    /// The request as the model got it.
    pub request: ModelRequest,
    /// The body in the provider's wire format, with the names of variables in place of their values.
    pub body: Option<Vec<u8>>,
    /// The SHA-256 of the body that was sent, in hexadecimal digits.
    pub sha256: Option<String>,
    pub check: BodyCheck,
    /// Whether this program has the version of the view that built the request.
    pub same_view: bool,
}

impl RebuiltCall {
    /// The approximate size in bytes.
    pub fn size(&self) -> usize {
        let parts = self.request.messages.iter().flat_map(|message| &message.parts);
        let tools = self.request.tools.iter().map(|tool| tool.description.len() + 512);
        parts.map(part_size).sum::<usize>() + tools.sum::<usize>()
    }
}

fn part_size(part: &MessagePart) -> usize {
    const OVERHEAD: usize = 64;
    OVERHEAD
        + match part {
            MessagePart::Text { text, .. } | MessagePart::Thought { text, .. } => text.len(),
            MessagePart::Call(call) => serde_json::to_string(&call.args).map_or(0, |args| args.len()),
            MessagePart::Result(result) => result.response.to_string().len(),
            MessagePart::Media(_) => 0,
        }
}

impl Agent {
    /// Rebuilds the requests of model calls, newest first. Calls without a readable recipe are left out: those of
    /// earlier versions, and answers that a crash interrupted.
    pub async fn model_calls(
        &self,
        key: &SessionKey,
        selection: CallSelection<'_>,
    ) -> Result<Vec<RebuiltCall>, ServiceError> {
        let session = SessionHandle::new(self.turns.store(), key);
        let query = match selection {
            CallSelection::Event(id) => RecipeQuery::Message(id.to_owned()),
            CallSelection::Newest(limit) => RecipeQuery::Newest(limit),
        };
        let mut calls = Vec::new();
        for stored in session.recipes(query).await? {
            let recorded = recipe::read_call(&session, stored).await?;
            calls.extend(recorded.and_then(|recorded| self.rebuild(recorded)));
        }
        Ok(calls)
    }

    fn rebuild(&self, recorded: RecordedCall) -> Option<RebuiltCall> {
        let RecordedCall { answer, recipe, events, same_view } = recorded;
        let request = recipe.request(&events).ok()?;
        let sent = recipe.sent?;
        let model: Option<&Arc<dyn Llm>> = self.tree.find(&recipe.agent).map(|node| &node.agent.model);
        let encoded = model.and_then(|model| model.encode(&request, &sent));
        let check = match (&sent.sha256, &encoded) {
            (Some(hash), Some(encoded)) if *hash == encoded.sha256 => BodyCheck::Verified,
            (Some(_), Some(_)) => BodyCheck::Differs,
            (None, _) | (_, None) => BodyCheck::Unknown,
        };
        let request = rebuild_request(&request, &sent);
        Some(RebuiltCall {
            answer,
            agent: recipe.agent,
            request,
            body: encoded.map(|encoded| encoded.body),
            sha256: sent.sha256,
            check,
            same_view,
        })
    }
}
