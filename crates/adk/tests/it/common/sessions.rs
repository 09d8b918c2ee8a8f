//! In-memory sessions and artifacts. Every append awaits before and after the commit, so that a turn can be dropped there.

use adk::{
    content::{Content, Part},
    draft::AnswerDraft,
    error::ServiceError,
    event::Event,
    limits::invocation_tail,
    pending::PendingWork,
    session::{ArtifactService, LogEntry, RunEffect, Session, SessionKey, SessionService, TurnService},
    state::without_temp,
};
use futures::future::BoxFuture;
use serde_json::{Map, Value};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::task::yield_now;

#[derive(Clone)]
pub(crate) struct MemorySession {
    key: SessionKey,
    events: Vec<Arc<Event>>,
    pending: PendingWork,
    state: Map<String, Value>,
    draft: Option<Event>,
}

impl Session for MemorySession {
    fn key(&self) -> &SessionKey {
        &self.key
    }

    fn events(&self) -> &[Arc<Event>] {
        &self.events
    }

    fn pending(&self) -> &PendingWork {
        &self.pending
    }

    fn state(&self) -> &Map<String, Value> {
        &self.state
    }

    fn draft(&self) -> Option<&Event> {
        self.draft.as_ref()
    }
}

impl MemorySession {
    fn take(&mut self, event: &Arc<Event>, delta: Map<String, Value>) {
        for change in self.pending.changes(event) {
            self.pending.apply(&change);
        }
        self.state.extend(delta);
        self.draft = None;
        if !event.is_state_only() {
            self.events.push(Arc::clone(event));
        }
    }
}

#[derive(Default)]
pub(crate) struct Memory {
    sessions: Mutex<HashMap<SessionKey, MemorySession>>,
    commits: Mutex<Vec<String>>,
    drafts: Mutex<HashMap<SessionKey, (Event, AnswerDraft)>>,
    /// How many more saves of a draft fail.
    pub(crate) failing_saves: AtomicU32,
}

/// `begin: root continues, user continues`
fn commit_shape(entries: &[LogEntry], begins: bool) -> String {
    let name = if begins { "begin" } else { "append" };
    let entries = entries.iter().map(|LogEntry { event, effect, .. }| match effect {
        RunEffect::Continues => format!("{} continues", event.author),
        RunEffect::Settles => format!("{} settles", event.author),
        RunEffect::ByLog => format!("{} by log", event.author),
        RunEffect::Ends(end) => format!("{} ends {end:?}", event.author),
    });
    format!("{name}: {}", entries.collect::<Vec<_>>().join(", ")).trim_end().to_owned()
}

impl Memory {
    pub(crate) fn events(&self, key: &SessionKey) -> Vec<Arc<Event>> {
        self.sessions.lock().unwrap()[key].events.clone()
    }

    pub(crate) fn state(&self, key: &SessionKey) -> Map<String, Value> {
        self.sessions.lock().unwrap()[key].state.clone()
    }

    pub(crate) fn pending(&self, key: &SessionKey) -> PendingWork {
        self.sessions.lock().unwrap()[key].pending.clone()
    }

    /// The commits so far, one line per commit.
    pub(crate) fn commits(&self) -> Vec<String> {
        self.commits.lock().unwrap().clone()
    }

    fn keep(&self, key: &SessionKey, event: &Arc<Event>) -> Result<(), ServiceError> {
        let mut sessions = self.sessions.lock().unwrap();
        let stored = sessions.get_mut(key).ok_or(ServiceError::NotFound(key.clone()))?;
        stored.take(event, event.actions.state_delta.clone());
        self.drafts.lock().unwrap().remove(key);
        Ok(())
    }

    /// Atomic: there is no await between two events.
    async fn commit(
        &self,
        session: &mut MemorySession,
        entries: Vec<LogEntry>,
        begins: bool,
    ) -> Result<Vec<Arc<Event>>, ServiceError> {
        yield_now().await;
        self.commits.lock().unwrap().push(commit_shape(&entries, begins));
        let mut stored = Vec::new();
        for LogEntry { mut event, .. } in entries {
            let delta = event.actions.state_delta.clone();
            event.actions.state_delta = without_temp(&delta);
            let event = Arc::new(event);
            session.take(&event, delta);
            self.keep(&session.key, &event)?;
            stored.push(event);
        }
        yield_now().await;
        Ok(stored)
    }

    /// The text of the agent's events and of the draft.
    pub(crate) fn stored_text(&self, key: &SessionKey) -> String {
        let sessions = self.sessions.lock().unwrap();
        let events = sessions[key].events.iter().filter(|event| event.author != "user");
        let mut text: String = events.filter_map(|event| event.content.as_ref()).map(Content::text).collect();
        if let Some((frame, draft)) = self.drafts.lock().unwrap().get(key).cloned() {
            text.extend(
                draft.into_event(frame).and_then(|event| event.content).map(|content| content.text()),
            );
        }
        text
    }

    /// Appends an event directly, as a crashed run would have left it.
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
        let session = MemorySession {
            key: key.clone(),
            events: Vec::new(),
            pending: PendingWork::default(),
            state,
            draft: None,
        };
        self.sessions.lock().unwrap().insert(key, session.clone());
        Ok(session)
    }

    async fn get(&self, key: &SessionKey) -> Result<Option<MemorySession>, ServiceError> {
        yield_now().await;
        let mut session = self.sessions.lock().unwrap().get(key).cloned();
        if let Some(session) = &mut session {
            let draft = self.drafts.lock().unwrap().get(key).cloned();
            session.draft = draft.and_then(|(frame, draft)| draft.into_event(frame));
        }
        Ok(session)
    }

    async fn append_all(
        &self,
        session: &mut MemorySession,
        entries: Vec<LogEntry>,
    ) -> Result<Vec<Arc<Event>>, ServiceError> {
        self.commit(session, entries, false).await
    }

    async fn delete(&self, key: &SessionKey) -> Result<(), ServiceError> {
        self.sessions.lock().unwrap().remove(key);
        Ok(())
    }
}

impl TurnService for Memory {
    async fn begin_turn(
        &self,
        session: &mut MemorySession,
        opening: Vec<LogEntry>,
    ) -> Result<Vec<Arc<Event>>, ServiceError> {
        self.commit(session, opening, true).await
    }

    async fn save_draft(
        &self,
        session: &MemorySession,
        frame: &Event,
        shown: Content,
    ) -> Result<(), ServiceError> {
        let text = shown.text();
        if self.failing_saves.load(Relaxed) > 0 {
            self.failing_saves.fetch_sub(1, Relaxed);
            self.commits.lock().unwrap().push(format!("failed draft: {text}"));
            return Err(ServiceError::NotFound(session.key.clone()));
        }
        // Slower than the chunks arrive.
        tokio::time::sleep(Duration::from_millis(250)).await;
        self.commits.lock().unwrap().push(format!("draft: {text}"));
        let mut drafts = self.drafts.lock().unwrap();
        let (stored, draft) = drafts.entry(session.key.clone()).or_default();
        *stored = frame.clone();
        draft.push(&shown);
        Ok(())
    }

    async fn recall(&self, _: &mut MemorySession, _: &str) -> Result<bool, ServiceError> {
        Ok(false)
    }

    async fn invocation_events(
        &self,
        session: &MemorySession,
        invocation: &str,
    ) -> Result<Vec<Arc<Event>>, ServiceError> {
        Ok(invocation_tail(&session.events, invocation).to_vec())
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
