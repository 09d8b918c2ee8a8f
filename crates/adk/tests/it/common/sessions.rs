//! Sessions and files in memory. Every append has an await before and one behind it, so that a turn can be cut at both.

use adk::{
    content::Part,
    error::ServiceError,
    event::Event,
    facts::Facts,
    limits::end_of,
    session::{ArtifactService, Entry, Session, SessionKey, SessionService},
    state::without_temp,
};
use futures::future::BoxFuture;
use serde_json::{Map, Value};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};
use tokio::task::yield_now;

#[derive(Clone)]
pub(crate) struct MemorySession {
    key: SessionKey,
    events: Vec<Arc<Event>>,
    facts: Facts,
    state: Map<String, Value>,
}

impl Session for MemorySession {
    fn key(&self) -> &SessionKey {
        &self.key
    }

    fn events(&self) -> &[Arc<Event>] {
        &self.events
    }

    fn task(&self) -> Option<&text::Text> {
        None
    }

    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn state(&self) -> &Map<String, Value> {
        &self.state
    }

    fn last_update_time(&self) -> f64 {
        self.events.last().map_or(0.0, |event| event.timestamp)
    }
}

impl MemorySession {
    fn take(&mut self, event: &Arc<Event>, delta: Map<String, Value>) {
        for change in self.facts.changes(event) {
            self.facts.apply(&change);
        }
        self.state.extend(delta);
        if !event.is_state_only() {
            self.events.push(Arc::clone(event));
        }
    }
}

#[derive(Default)]
pub(crate) struct Memory {
    sessions: Mutex<HashMap<SessionKey, MemorySession>>,
}

impl Memory {
    pub(crate) fn events(&self, key: &SessionKey) -> Vec<Arc<Event>> {
        self.sessions.lock().unwrap()[key].events.clone()
    }

    pub(crate) fn state(&self, key: &SessionKey) -> Map<String, Value> {
        self.sessions.lock().unwrap()[key].state.clone()
    }

    pub(crate) fn facts(&self, key: &SessionKey) -> Facts {
        self.sessions.lock().unwrap()[key].facts.clone()
    }

    fn keep(&self, key: &SessionKey, event: &Arc<Event>) -> Result<(), ServiceError> {
        let mut sessions = self.sessions.lock().unwrap();
        let stored = sessions.get_mut(key).ok_or(ServiceError::NotFound(key.clone()))?;
        stored.take(event, event.actions.state_delta.clone());
        Ok(())
    }

    /// Puts an event into the log, as a run that was cut off would have left it.
    pub(crate) fn leave(&self, key: &SessionKey, event: Event) {
        self.keep(key, &Arc::new(event)).unwrap();
    }
}

impl SessionService for Memory {
    type Session = MemorySession;

    async fn create(
        &self,
        key: SessionKey,
        state: Map<String, Value>,
    ) -> Result<MemorySession, ServiceError> {
        let session = MemorySession { key: key.clone(), events: Vec::new(), facts: Facts::default(), state };
        self.sessions.lock().unwrap().insert(key, session.clone());
        Ok(session)
    }

    async fn get(&self, key: &SessionKey) -> Result<Option<MemorySession>, ServiceError> {
        yield_now().await;
        Ok(self.sessions.lock().unwrap().get(key).cloned())
    }

    async fn append(
        &self,
        session: &mut MemorySession,
        entry: impl Into<Entry> + Send,
    ) -> Result<Arc<Event>, ServiceError> {
        yield_now().await;
        let Entry { mut event, .. } = entry.into();
        let delta = event.actions.state_delta.clone();
        event.actions.state_delta = without_temp(&delta);
        let event = Arc::new(event);
        session.take(&event, delta);
        self.keep(&session.key, &event)?;
        yield_now().await;
        Ok(event)
    }

    async fn recall(&self, _: &mut MemorySession, _: &str) -> Result<bool, ServiceError> {
        Ok(false)
    }

    async fn end_of(
        &self,
        session: &MemorySession,
        invocation: &str,
    ) -> Result<Vec<Arc<Event>>, ServiceError> {
        Ok(end_of(&session.events, invocation).to_vec())
    }

    async fn delete(&self, key: &SessionKey) -> Result<(), ServiceError> {
        self.sessions.lock().unwrap().remove(key);
        Ok(())
    }
}

#[derive(Default)]
pub(crate) struct Artifacts {
    files: Mutex<HashMap<String, Vec<Part>>>,
}

impl ArtifactService for Artifacts {
    fn save(&self, _: &SessionKey, name: &str, part: Part) -> BoxFuture<'_, Result<u64, ServiceError>> {
        let mut files = self.files.lock().unwrap();
        let versions = files.entry(name.to_owned()).or_default();
        versions.push(part);
        let version = versions.len() as u64 - 1;
        Box::pin(async move { Ok(version) })
    }

    fn load(
        &self,
        _: &SessionKey,
        name: &str,
        version: Option<u64>,
    ) -> BoxFuture<'_, Result<Option<Part>, ServiceError>> {
        let files = self.files.lock().unwrap();
        let versions = files.get(name).cloned().unwrap_or_default();
        let part = match version {
            Some(version) => versions.into_iter().nth(usize::try_from(version).unwrap()),
            None => versions.into_iter().last(),
        };
        Box::pin(async move { Ok(part) })
    }
}
