//! A session as the runner sees it, and the port behind which it is kept.

use crate::{content::Part, error::ServiceError, event::Event, facts::Facts};
use serde_json::{Map, Value};
use std::{fmt, future::Future, sync::Arc};
use text::Text;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SessionKey {
    pub app_name: String,
    pub user_id: String,
    pub session_id: String,
}

impl SessionKey {
    pub fn new(
        app_name: impl Into<String>,
        user_id: impl Into<String>,
        session_id: impl Into<String>,
    ) -> Self {
        Self { app_name: app_name.into(), user_id: user_id.into(), session_id: session_id.into() }
    }
}

impl fmt::Display for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.app_name, self.user_id, self.session_id)
    }
}

/// A session in memory. Its events may be the end of a longer history: [`Facts`] say what must be known of the rest.
pub trait Session: Send + Sync {
    fn key(&self) -> &SessionKey;
    fn events(&self) -> &[Arc<Event>];
    /// What the user asked for before the events, if none of those that were read says it.
    fn task(&self) -> Option<&Text>;
    fn facts(&self) -> &Facts;
    /// One flat map with the prefixes of [`Scope`](crate::state::Scope).
    fn state(&self) -> &Map<String, Value>;
    fn last_update_time(&self) -> f64;
}

/// An event on its way into the log.
#[derive(Debug)]
pub struct Entry {
    pub event: Event,
    /// Its turn does more, whatever the log looks like: the run is not over with it.
    pub goes_on: bool,
}

impl Entry {
    pub fn on_the_way(event: Event) -> Self {
        Self { event, goes_on: true }
    }
}

/// Whether the run is over, the log says.
impl From<Event> for Entry {
    fn from(event: Event) -> Self {
        Self { event, goes_on: false }
    }
}

/// Where sessions live. An appended event is durable, and visible in the session object, when the future is done.
pub trait SessionService: Send + Sync + 'static {
    type Session: Session + 'static;

    fn create(
        &self,
        key: SessionKey,
        state: Map<String, Value>,
    ) -> impl Future<Output = Result<Self::Session, ServiceError>> + Send;

    /// The session, if there is one.
    fn get(
        &self,
        key: &SessionKey,
    ) -> impl Future<Output = Result<Option<Self::Session>, ServiceError>> + Send;

    /// Stores an event that is not partial and shows it in the session; answers with the event as stored.
    fn append(
        &self,
        session: &mut Self::Session,
        entry: impl Into<Entry> + Send,
    ) -> impl Future<Output = Result<Arc<Event>, ServiceError>> + Send;

    /// Looks for a call that was answered for now, wherever in the history it is, and makes it known in
    /// [`Facts::deferred`]. `false` if there is none.
    fn recall(
        &self,
        session: &mut Self::Session,
        id: &str,
    ) -> impl Future<Output = Result<bool, ServiceError>> + Send;

    /// The events of the session's end that belong to one invocation, also those that are not in memory.
    fn end_of(
        &self,
        session: &Self::Session,
        invocation: &str,
    ) -> impl Future<Output = Result<Vec<Arc<Event>>, ServiceError>> + Send;

    fn delete(&self, key: &SessionKey) -> impl Future<Output = Result<(), ServiceError>> + Send;
}

/// Files of a session.
pub trait ArtifactService: Send + Sync {
    /// Saves a new version and answers with its number, counted from 0.
    fn save(
        &self,
        session: &SessionKey,
        name: &str,
        part: Part,
    ) -> futures::future::BoxFuture<'_, Result<u64, ServiceError>>;

    /// The newest version, or the one asked for.
    fn load(
        &self,
        session: &SessionKey,
        name: &str,
        version: Option<u64>,
    ) -> futures::future::BoxFuture<'_, Result<Option<Part>, ServiceError>>;
}
