//! The window that the next request of a session would show, and one that advances now.

use crate::content::Content;
use crate::{
    agent::Node,
    error::RunError,
    event::Event,
    flow::request::WindowedRequest,
    model::{LlmRequest, RequestSize},
    pending::PendingWork,
    runner::{RunRequest, Runner},
    session::{Session, SessionKey, SessionService},
    turn::Turn,
    window::{Front, LoadBudget, LoadedLog, LogRow},
};
use serde_json::{Map, Value};
use std::sync::Arc;

/// Events of a log, and their tokens as the store counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogShare {
    pub events: usize,
    pub tokens: u64,
}

impl LogShare {
    fn of(rows: &[LogRow]) -> Self {
        Self { events: rows.len(), tokens: rows.iter().map(|row| u64::from(row.tokens)).sum() }
    }
}

/// What the next request would show.
#[derive(Clone, Debug)]
pub struct WindowView {
    pub agent: String,
    pub model: String,
    pub request: LlmRequest,
    /// `None` if the model does not know it.
    pub size: Option<RequestSize>,
    /// The sequence number of the first event in the window.
    pub first: Option<u64>,
    pub shown: LogShare,
    /// The loaded events that an advance leaves out.
    pub left_out: LogShare,
    /// The new front, if the request would advance it.
    pub advanced: Option<Front>,
}

impl<S: SessionService> Runner<S> {
    /// The window of the next message. Stores nothing and moves no front.
    pub async fn window(&self, key: &SessionKey) -> Result<WindowView, RunError> {
        let turn = self.turn_of(key).await?;
        let node = turn.next_node();
        turn.view(node, &turn.session).await
    }

    /// The window after an advance now, with its new front, and the session that it belongs to. The caller stores the front. The
    /// window retains the configured share of what it shows, and its newest exchange in any case.
    pub async fn advanced_window(&self, key: &SessionKey) -> Result<(WindowView, S::Session), RunError> {
        let turn = self.turn_of(key).await?;
        let node = turn.next_node();
        let current = turn.view(node, &turn.session).await?;
        let (log, shown) = (turn.session.loaded(), current.shown);
        let part = |whole: u64, share: u64, of: u64| {
            let part = u128::from(whole) * u128::from(share) / u128::from(of.max(1));
            u64::try_from(part).unwrap_or(u64::MAX)
        };
        let retained = LoadBudget {
            tokens: part(shown.tokens, log.retained.tokens, log.budget.tokens),
            rows: log.retained.rows,
        };
        let view = turn.view(node, &AdvancingSession { session: &turn.session, retained }).await?;
        Ok((view, turn.session))
    }

    async fn turn_of(&self, key: &SessionKey) -> Result<Turn<'_, S>, RunError> {
        let request = RunRequest::message(key.clone(), Content::default());
        self.load(&request, &|_| {}).await
    }
}

impl<S: SessionService> Turn<'_, S> {
    async fn view(&self, node: &Node, session: &impl Session) -> Result<WindowView, RunError> {
        let WindowedRequest { request, window } = self.request_with(node, session).await?;
        let rows = session.loaded().rows;
        let start = window.start.min(rows.len());
        let from = self.session.loaded().fronts.get(&node.agent.name);
        let before = from.map_or(0, |front| rows.partition_point(|row| row.seq < front.first)).min(start);
        Ok(WindowView {
            agent: node.agent.name.clone(),
            model: node.agent.model.name().to_owned(),
            size: node.agent.model.size(&request),
            request,
            first: rows.get(start).map(|row| row.seq),
            shown: LogShare::of(&rows[start..]),
            left_out: LogShare::of(&rows[before..start]),
            advanced: window.advanced,
        })
    }
}

/// A session whose window exceeds its budget.
struct AdvancingSession<'a, S> {
    session: &'a S,
    retained: LoadBudget,
}

impl<S: Session> Session for AdvancingSession<'_, S> {
    fn key(&self) -> &SessionKey {
        self.session.key()
    }

    fn events(&self) -> &[Arc<Event>] {
        self.session.events()
    }

    fn loaded(&self) -> LoadedLog<'_> {
        LoadedLog {
            budget: LoadBudget { tokens: 0, rows: 0 },
            retained: self.retained,
            prefixes: None,
            ..self.session.loaded()
        }
    }

    fn pending(&self) -> &PendingWork {
        self.session.pending()
    }

    fn draft(&self) -> Option<&Event> {
        self.session.draft()
    }

    fn state(&self) -> &Map<String, Value> {
        self.session.state()
    }
}
