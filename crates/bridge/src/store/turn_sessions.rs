//! TurnSessions: the session service of one turn. Its first commit starts the run, every other one is fenced by the lease,
//! and the commit of the run's last event ends it.

use crate::{
    store::{
        draft,
        entries::{CommittedView, PreparedCommit, RunEnding},
        service::{SessionServiceAdapter, service_error},
        session::SessionAdapter,
    },
    turns::{StartTerms, TurnHandle, parked},
};
use adk::{
    content::Content,
    error::ServiceError,
    event::Event,
    session::{LogEntry, SessionKey, SessionService, TurnService},
};
use serde_json::{Map, Value};
use session::Committed;
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};
use tools::mcp::ParkedCalls;

/// The session service that the runner of one turn uses. It adds the turn to every commit: start, lease, or end of the run.
pub(crate) struct TurnSessions {
    sessions: SessionServiceAdapter,
    turn: Arc<TurnHandle>,
    /// The options of the run, stored when it starts.
    options: Option<String>,
    parked: ParkedCalls,
    /// Whether the store holds a draft of this session.
    has_draft: AtomicBool,
    /// How many chunks of the draft were stored.
    chunks: AtomicU64,
}

impl TurnSessions {
    pub(crate) fn new(
        sessions: SessionServiceAdapter,
        turn: Arc<TurnHandle>,
        options: Option<String>,
        parked: ParkedCalls,
    ) -> Self {
        Self { sessions, turn, options, parked, has_draft: AtomicBool::new(false), chunks: AtomicU64::new(0) }
    }

    /// The session of an earlier turn, from the cache. The commit that starts this turn detects a stale copy.
    fn cached(&self, key: &SessionKey) -> Option<SessionAdapter> {
        let cached = self.sessions.cache().remove(key, self.sessions.budget())?;
        let cached_epoch = Some(cached.epoch);
        self.turn.is_unstarted().then_some(SessionAdapter { cached_epoch, ..cached.session })
    }

    async fn store(
        &self,
        session: &SessionAdapter,
        mut prepared: PreparedCommit,
    ) -> Result<(Committed, CommittedView, bool), ServiceError> {
        let ending = prepared.take_ending();
        let (mut commit, view) = prepared.into_commit();
        // A commit without messages leaves the draft in place for the event that it becomes.
        commit.discards_draft = !commit.messages.is_empty() && self.has_draft.load(Ordering::Relaxed);
        let (discards, ends) = (commit.discards_draft, ending.is_some());
        let committed = match ending {
            Some(RunEnding { status, error }) => self.turn.finish(commit, status, error).await,
            None => self.turn.step(commit).await,
        };
        let committed = committed.map_err(|error| service_error(error, &session.key))?;
        if discards {
            self.has_draft.store(false, Ordering::Relaxed);
        }
        Ok((committed, view, ends))
    }
}

impl SessionService for TurnSessions {
    type Session = SessionAdapter;

    async fn create(
        &self,
        key: SessionKey,
        state: Map<String, Value>,
    ) -> Result<SessionAdapter, ServiceError> {
        self.sessions.create(key, state).await
    }

    async fn get(&self, key: &SessionKey) -> Result<Option<SessionAdapter>, ServiceError> {
        if let Some(session) = self.cached(key) {
            return Ok(Some(session));
        }
        let mut attempts = self.turn.read_attempts();
        let session = loop {
            match self.sessions.read(key).await {
                Err(ServiceError::Store(_)) if attempts.again().await => {}
                session => break session?,
            }
        };
        let has_draft = session.as_ref().is_some_and(|session| session.draft.is_some());
        self.has_draft.store(has_draft, Ordering::Relaxed);
        Ok(session)
    }

    async fn append_all(
        &self,
        session: &mut SessionAdapter,
        entries: Vec<LogEntry>,
    ) -> Result<Vec<Arc<Event>>, ServiceError> {
        let prepared = PreparedCommit::new(session, entries, Some(self.turn.run_id()))?;
        let (committed, view, ends) = self.store(session, prepared).await?;
        let epoch = committed.epoch;
        session.draft = None;
        let events = view.apply(session, committed);
        parked::reconcile(&self.parked, &session.key, &session.pending);
        if ends && let Some(cached) = session.to_cached(epoch) {
            self.sessions.cache().insert(cached);
        }
        Ok(events)
    }

    async fn delete(&self, key: &SessionKey) -> Result<(), ServiceError> {
        self.sessions.delete(key).await
    }
}

impl TurnService for TurnSessions {
    async fn begin_turn(
        &self,
        session: &mut SessionAdapter,
        opening: Vec<LogEntry>,
    ) -> Result<Vec<Arc<Event>>, ServiceError> {
        if !self.turn.is_unstarted() {
            // A correction continues a run that has started.
            return self.append_all(session, opening).await;
        }
        let mut prepared = PreparedCommit::new(session, opening, Some(self.turn.run_id()))?;
        let settled = prepared.take_settled();
        let supersedes = prepared.superseded(session, self.turn.run_id());
        let (if_epoch, options) = (session.cached_epoch, self.options.clone());
        let terms = StartTerms { if_epoch, supersedes, settled, options };
        let (mut commit, view) = prepared.into_commit();
        // The lease is acquired by this commit: nothing may have been appended since the read.
        commit.expected_seq = Some(session.last_seq);
        commit.discards_draft = session.draft.is_some();
        let committed = self.turn.start(commit, terms).await;
        let committed = committed.map_err(|error| service_error(error, &session.key))?;
        self.has_draft.store(false, Ordering::Relaxed);
        (session.draft, session.cached_epoch) = (None, None);
        let events = view.apply(session, committed);
        parked::reconcile(&self.parked, &session.key, &session.pending);
        Ok(events)
    }

    async fn save_draft(
        &self,
        session: &SessionAdapter,
        frame: &Event,
        content: Content,
    ) -> Result<(), ServiceError> {
        // Set before the write: whether the write succeeds or not, the next commit discards the draft.
        self.has_draft.store(true, Ordering::Relaxed);
        let chunk = draft::encode_chunk(self.chunks.load(Ordering::Relaxed), frame, content);
        self.turn.extend_draft(chunk).await.map_err(|error| service_error(error, &session.key))?;
        self.chunks.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    async fn recall(&self, session: &mut SessionAdapter, id: &str) -> Result<bool, ServiceError> {
        let mut attempts = self.turn.read_attempts();
        loop {
            match self.sessions.recall(session, id).await {
                Err(ServiceError::Store(_)) if attempts.again().await => {}
                found => return found,
            }
        }
    }

    async fn invocation_events(
        &self,
        session: &SessionAdapter,
        invocation: &str,
    ) -> Result<Vec<Arc<Event>>, ServiceError> {
        let mut attempts = self.turn.read_attempts();
        loop {
            match self.sessions.end_of(session, invocation).await {
                Err(ServiceError::Store(_)) if attempts.again().await => {}
                events => return events,
            }
        }
    }
}
