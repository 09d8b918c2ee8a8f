//! SessionServiceAdapter: ADK's session service on top of the session store.

use crate::{
    store::{
        cache::SessionCache,
        entries::PreparedCommit,
        pending,
        row::{LegacyKind, Restorer},
        session::SessionAdapter,
        session_handle::SessionHandle,
        state, user_request,
    },
    view::budget::Budget,
};
use adk::{
    error::{ServiceError, StoreError, StoreFault},
    event::Event,
    limits::invocation_tail,
    session::{LogEntry, SessionKey, SessionService},
};
use failpoint::Point;
use serde_json::{Map, Value};
use session::{NewSession, OnConflict, Seq, Snapshot, Store, TailBudget};
use std::{fmt, sync::Arc};

#[derive(Clone)]
pub struct SessionServiceAdapter {
    store: Arc<dyn Store>,
    root_agent: String,
    budget: Budget,
    cache: Arc<SessionCache>,
}

impl SessionServiceAdapter {
    pub fn new(store: Arc<dyn Store>, root_agent: impl Into<String>, budget: Budget) -> Self {
        Self { store, root_agent: root_agent.into(), budget, cache: Arc::default() }
    }

    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    pub fn budget(&self) -> Budget {
        self.budget
    }

    /// Loads the session, or creates it. Concurrent callers with a new key all get the same session.
    pub async fn get_or_create(&self, key: &SessionKey) -> Result<SessionAdapter, ServiceError> {
        if let Some(session) = self.get(key).await? {
            return Ok(session);
        }
        self.make(key.clone(), Map::new(), OnConflict::Keep).await
    }

    async fn make(
        &self,
        key: SessionKey,
        state: Map<String, Value>,
        on_conflict: OnConflict,
    ) -> Result<SessionAdapter, ServiceError> {
        let (stored, state) = (key.clone(), state::changes(&state));
        let new = NewSession { key: stored, state, steps: Vec::new(), on_conflict, quota: None };
        self.store.create(new).await.map_err(|error| service_error(error, &key))?;
        self.get(&key).await?.ok_or(ServiceError::NotFound(key))
    }

    /// Whether the next turn of this session can start from the cache.
    pub fn is_cached(&self, key: &SessionKey) -> bool {
        self.cache.contains(key)
    }

    /// Drops the cached copy, because it is known to be out of date.
    pub fn evict(&self, key: &SessionKey) {
        self.cache.evict(key);
    }

    pub(crate) fn cache(&self) -> &SessionCache {
        &self.cache
    }

    /// The cached session with the stored state and pending work, if its events are up to date.
    async fn load_cached(&self, key: &SessionKey) -> Result<Option<SessionAdapter>, ServiceError> {
        let Some(cached) = self.cache.get(key, self.budget) else { return Ok(None) };
        let snapshot = self.snapshot(key, TailBudget::NONE).await?;
        let Some(snapshot) = snapshot.filter(|snapshot| cached.matches(&snapshot.row)) else {
            self.cache.evict(key);
            return Ok(None);
        };
        Ok(Some(SessionAdapter::with_events(key.clone(), snapshot, cached.session.events, self.budget)))
    }

    /// Loads the session from the store.
    pub(crate) async fn read(&self, key: &SessionKey) -> Result<Option<SessionAdapter>, ServiceError> {
        let Some(snapshot) = self.load(key).await? else { return Ok(None) };
        let cut = snapshot.tail.first().filter(|_| snapshot.truncated).map(|first| first.seq);
        let mut session = SessionAdapter::new(key.clone(), snapshot, &self.root_agent, self.budget);
        // A front in the loaded part has the request before it.
        let has_front = |cut: Seq| session.fronts.values().any(|front| front.first >= cut.0);
        if let Some(cut) = cut.filter(|&cut| session.events.lacks_user_request() && !has_front(cut)) {
            session
                .events
                .set_user_request(user_request::find_before(cut, &self.store, key, &self.root_agent).await?);
        }
        Ok(Some(session))
    }

    async fn snapshot(&self, key: &SessionKey, tail: TailBudget) -> Result<Option<Snapshot>, ServiceError> {
        let loaded = self.store.load(key, tail);
        let loaded = failpoint::around([Point::BeforeLoad, Point::AfterLoad], loaded).await;
        loaded.map_err(|error| service_error(error, key))
    }

    /// Doubles the tail until it contains more than tool results: a result larger than the budget needs its call.
    async fn load(&self, key: &SessionKey) -> Result<Option<Snapshot>, ServiceError> {
        let mut tail = self.budget.tail();
        loop {
            let Some(snapshot) = self.snapshot(key, tail).await? else { return Ok(None) };
            let only_answers =
                snapshot.tail.iter().all(|row| LegacyKind::from_row(&row.message) == LegacyKind::Tool);
            if !(snapshot.truncated && only_answers) {
                return Ok(Some(snapshot));
            }
            tail = TailBudget { tokens: u64::MAX, rows: snapshot.tail.len() * 2 + 8 };
        }
    }

    /// Looks up a deferred call in the whole history and adds it to the session's pending work. Returns whether it exists.
    pub(crate) async fn recall(&self, session: &mut SessionAdapter, id: &str) -> Result<bool, ServiceError> {
        let row = self.store.pending_entry(&session.key, pending::call_kind(), id);
        let row = failpoint::around([Point::BeforeLoad, Point::AfterLoad], row).await;
        let row = row.map_err(|error| service_error(error, &session.key))?;
        let call = row.as_ref().and_then(pending::deferred);
        let found = call.is_some();
        session.pending.deferred.extend(call);
        Ok(found)
    }

    /// The trailing events of one invocation, including those before the window.
    pub(crate) async fn end_of(
        &self,
        session: &SessionAdapter,
        invocation: &str,
    ) -> Result<Vec<Arc<Event>>, ServiceError> {
        let known = session.events.all();
        let own = invocation_tail(known, invocation);
        let begins = |event: &Arc<Event>| event.is_user_message();
        if own.len() < known.len() || own.first().is_some_and(begins) {
            return Ok(own.to_vec());
        }
        self.read_end_of(&session.key, invocation, known.len()).await
    }

    /// As [`end_of`](Self::end_of), for a run that is longer than the window.
    async fn read_end_of(
        &self,
        key: &SessionKey,
        invocation: &str,
        known: usize,
    ) -> Result<Vec<Arc<Event>>, ServiceError> {
        let mut rows = known;
        loop {
            rows = rows * 2 + 64;
            let snapshot = self.snapshot(key, TailBudget { tokens: u64::MAX, rows }).await?;
            let snapshot = snapshot.ok_or_else(|| ServiceError::NotFound(key.clone()))?;
            let mut restorer = Restorer::new(&self.root_agent);
            let events: Vec<Arc<Event>> =
                snapshot.tail.iter().map(|row| Arc::new(restorer.restore(row))).collect();
            let own = invocation_tail(&events, invocation);
            if own.len() < events.len() || !snapshot.truncated {
                return Ok(own.to_vec());
            }
        }
    }
}

impl SessionService for SessionServiceAdapter {
    type Session = SessionAdapter;

    async fn create(
        &self,
        key: SessionKey,
        state: Map<String, Value>,
    ) -> Result<SessionAdapter, ServiceError> {
        self.make(key, state, OnConflict::Fail).await
    }

    async fn get(&self, key: &SessionKey) -> Result<Option<SessionAdapter>, ServiceError> {
        match self.load_cached(key).await? {
            Some(session) => Ok(Some(session)),
            None => self.read(key).await,
        }
    }

    /// Appends events outside of any turn, for programs that write their own history.
    async fn append_all(
        &self,
        session: &mut SessionAdapter,
        entries: Vec<LogEntry>,
    ) -> Result<Vec<Arc<Event>>, ServiceError> {
        let prepared = PreparedCommit::new(session, entries, None)?;
        let (commit, view) = prepared.into_commit();
        let committed = SessionHandle::new(&self.store, &session.key).commit(commit).await?;
        Ok(view.apply(session, committed))
    }

    async fn delete(&self, key: &SessionKey) -> Result<(), ServiceError> {
        SessionHandle::new(&self.store, key).delete().await.map(drop)
    }
}

pub(crate) fn service_error(error: session::Error, key: &SessionKey) -> ServiceError {
    match error {
        session::Error::NotFound(_) => ServiceError::NotFound(key.clone()),
        session::Error::Exists(_) => ServiceError::Exists(key.clone()),
        session::Error::QuotaReached { user, quota } => ServiceError::QuotaReached { user, quota },
        session::Error::Conflict { .. }
        | session::Error::Fenced(_)
        | session::Error::Busy(_)
        | session::Error::RunMoved { .. }
        | session::Error::RunExists { .. }
        | session::Error::Duplicate { .. }
        | session::Error::KeyReused => ServiceError::Stale(key.clone()),
        error @ session::Error::DamagedSession { .. } => {
            ServiceError::Damaged { key: key.clone(), source: Box::new(error) }
        }
        other => store_failed(other),
    }
}

/// Maps a store error that concerns no session.
pub(crate) fn store_failed(error: session::Error) -> ServiceError {
    let fault = match &error {
        session::Error::DiskFull { .. } => StoreFault::DiskFull,
        session::Error::ReadOnly { .. } => StoreFault::ReadOnly,
        session::Error::Locked { .. } => StoreFault::Locked,
        session::Error::QueueFull { .. } | session::Error::PoolExhausted { .. } => StoreFault::Overloaded,
        session::Error::Unreachable { .. } => StoreFault::Unreachable,
        session::Error::Io { .. } => StoreFault::Io,
        session::Error::Damaged { .. } => StoreFault::Damaged,
        session::Error::Deleted { .. } => StoreFault::Deleted,
        session::Error::Replaced { .. } => StoreFault::Replaced,
        session::Error::Detached { .. } => StoreFault::Detached,
        session::Error::Closed => StoreFault::Closed,
        _ => StoreFault::Other,
    };
    StoreError::new(fault, error).into()
}

impl fmt::Debug for SessionServiceAdapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionServiceAdapter")
            .field("root_agent", &self.root_agent)
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}
