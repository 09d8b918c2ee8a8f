//! The context of a session: what its next request would show, and advancing its window now.

use super::Agent;
use crate::store::{
    artifacts::ArtifactAdapter, pending, service::service_error, session_handle::SessionHandle,
};
use adk::{
    error::{RunError, ServiceError},
    model::RequestSize,
    runner::Runner,
    session::SessionKey,
    window_view::{LogShare, WindowView},
};
use serde::{Deserialize, Serialize};
use session::{Commit, Scope, StateChange};
use std::sync::Arc;

/// Session state with the sequence number of the front that a person advanced. The change takes a sequence number, by which other
/// processes notice that their copy of the session is out of date.
const COMPACTED: &str = "lango:compactedTo";

/// What the next request of a session would show, in tokens of the estimate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContextReport {
    pub agent: String,
    pub model: String,
    /// The context size of the model, if it is known.
    pub context: Option<u32>,
    /// The budget of the conversation.
    pub budget: u32,
    pub system: u32,
    pub tools: u32,
    pub history: u32,
    pub notes: u32,
    /// The sequence number of the first event that the request shows.
    pub front: Option<u64>,
    /// The number of events that the request shows.
    pub events: usize,
    /// Whether the next request will advance the window.
    pub advances: bool,
}

impl ContextReport {
    fn new(view: &WindowView) -> Self {
        let RequestSize { context, budget, system, tools, history, notes } = view.size.unwrap_or_default();
        Self {
            agent: view.agent.clone(),
            model: view.model.clone(),
            context,
            budget,
            system,
            tools,
            history,
            notes,
            front: view.first,
            events: view.shown.events,
            advances: view.advanced.is_some(),
        }
    }
}

/// The effect of advancing the window of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Compaction {
    /// The number of events that requests no longer show, and their tokens.
    pub left_out_events: usize,
    pub left_out_tokens: u64,
    /// What requests still show.
    pub shown_events: usize,
    pub shown_tokens: u64,
    /// The sequence number of the first event that requests show.
    pub front: Option<u64>,
}

impl Agent {
    /// What the next request would show. Stores nothing and moves no front.
    pub async fn context(&self, key: &SessionKey) -> Result<ContextReport, RunError> {
        Ok(ContextReport::new(&self.reader().window(key).await?))
    }

    /// Advances the window now, and stores the front. Nothing is left out if the window shows one exchange.
    /// [`ServiceError::Stale`] while a run holds the session.
    pub async fn compact(&self, key: &SessionKey) -> Result<Compaction, RunError> {
        let handle = SessionHandle::new(self.turns.store(), key);
        let activity = self.turns.store().activity(key).await;
        if activity.map_err(|error| service_error(error, key))?.running.is_some() {
            return Err(ServiceError::Stale(key.clone()).into());
        }
        let (view, session) = self.reader().advanced_window(key).await?;
        if let Some(front) = &view.advanced {
            let row = pending::front_row(&view.agent, front);
            let invalid = |error: serde_json::Error| ServiceError::Invalid {
                key: key.clone(),
                message: error.to_string(),
            };
            let mark =
                StateChange { scope: Scope::Session, key: COMPACTED.to_owned(), value: front.first.into() };
            let commit = Commit {
                pending: vec![row.map_err(invalid)?],
                state: vec![mark],
                expected_seq: Some(session.last_seq),
                ..Commit::default()
            };
            handle.commit(commit).await?;
            self.sessions.evict(key);
        }
        let WindowView { first, shown, left_out, .. } = view;
        let LogShare { events: shown_events, tokens: shown_tokens } = shown;
        let LogShare { events: left_out_events, tokens: left_out_tokens } = left_out;
        Ok(Compaction { left_out_events, left_out_tokens, shown_events, shown_tokens, front: first })
    }

    fn reader(&self) -> Runner<crate::SessionServiceAdapter> {
        let artifacts: Arc<ArtifactAdapter> = Arc::clone(&self.artifacts);
        Runner::new(Arc::clone(&self.tree), self.sessions.clone(), artifacts)
    }
}
