//! The port to the session store, and a session as the runner sees it.

use crate::{
    content::{Content, Part},
    error::ServiceError,
    event::Event,
    pending::PendingWork,
    recipe::CallRecipe,
    window::LoadedLog,
};
use serde_json::{Map, Value};
use std::{future::Future, sync::Arc};

pub use session_key::SessionKey;

/// A session in memory. Its events may be the tail of a longer log; [`PendingWork`] covers the rest.
pub trait Session: Send + Sync {
    fn key(&self) -> &SessionKey;
    fn events(&self) -> &[Arc<Event>];
    /// The events with what is known of the log before them.
    fn loaded(&self) -> LoadedLog<'_> {
        LoadedLog::whole(self.events())
    }
    fn pending(&self) -> &PendingWork;
    /// A flat map; keys have the prefixes of [`Scope`](crate::state::Scope).
    fn state(&self) -> &Map<String, Value>;
    /// The draft that a crashed process left, merged into the interrupted event that it becomes. `None` after the next append.
    fn draft(&self) -> Option<&Event>;
}

/// An event to append, with the effect of its commit on the run.
#[derive(Clone, Debug)]
pub struct LogEntry {
    pub event: Event,
    pub effect: RunEffect,
    /// The recipe of the request that the event answers.
    pub recipe: Option<Box<CallRecipe>>,
}

impl LogEntry {
    pub fn continues(event: Event) -> Self {
        Self { event, effect: RunEffect::Continues, recipe: None }
    }

    /// An event that settles what an earlier run left open.
    pub fn settles(event: Event) -> Self {
        Self { event, effect: RunEffect::Settles, recipe: None }
    }

    pub fn ends(event: Event, end: RunEnd) -> Self {
        Self { event, effect: RunEffect::Ends(end), recipe: None }
    }

    #[must_use]
    pub(crate) fn with_recipe(self, recipe: Option<Box<CallRecipe>>) -> Self {
        Self { recipe, ..self }
    }
}

/// The log decides whether the run ends.
impl From<Event> for LogEntry {
    fn from(event: Event) -> Self {
        Self { event, effect: RunEffect::ByLog, recipe: None }
    }
}

/// Whether a commit ends the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEffect {
    /// The run continues, regardless of the log.
    Continues,
    /// As `Continues`, and the event belongs to an earlier run: it settles what that run left open.
    Settles,
    /// The run ends if [`next_step`](crate::flow::step::next_step) is `Done` after the event.
    ByLog,
    /// The run ends with this event.
    Ends(RunEnd),
}

/// Why a run ended without a final answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnd {
    Cancelled,
    Failed,
}

/// Stores sessions.
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

    /// Stores events in one atomic commit. When the future completes, they are durable and visible in the session object.
    /// Returns the events as stored, one per entry, in order. The pending work is updated event by event: an entry may depend
    /// on the one before it. No event is partial. The same commit discards the draft of the session.
    fn append_all(
        &self,
        session: &mut Self::Session,
        entries: Vec<LogEntry>,
    ) -> impl Future<Output = Result<Vec<Arc<Event>>, ServiceError>> + Send;

    /// [`append_all`](Self::append_all) for one event.
    fn append(
        &self,
        session: &mut Self::Session,
        entry: impl Into<LogEntry> + Send,
    ) -> impl Future<Output = Result<Arc<Event>, ServiceError>> + Send {
        let entries = vec![entry.into()];
        async move {
            let stored = self.append_all(session, entries).await?.pop();
            let invalid = || ServiceError::Invalid {
                key: session.key().clone(),
                message: "the service returned no event".to_owned(),
            };
            stored.ok_or_else(invalid)
        }
    }

    fn delete(&self, key: &SessionKey) -> impl Future<Output = Result<(), ServiceError>> + Send;
}

/// The session service of one turn: the runner's operations besides storing events.
pub trait TurnService: SessionService {
    /// The first commit of a turn that starts with a message or with [`Input::Again`](crate::runner::Input::Again): the
    /// events that settle open work, then the user's event. It is called exactly once for such a turn, also if `opening` is
    /// empty, and never for [`Input::Resume`](crate::runner::Input::Resume). Otherwise it equals
    /// [`append_all`](SessionService::append_all).
    fn begin_turn(
        &self,
        session: &mut Self::Session,
        opening: Vec<LogEntry>,
    ) -> impl Future<Output = Result<Vec<Arc<Event>>, ServiceError>> + Send;

    /// Appends emitted text to the draft of the running answer. The text is durable when the future completes. `frame` is the
    /// event that the draft becomes, without its content; its timestamp is that of the save.
    ///
    /// The future may be dropped before it completes. Then the text may or may not be saved, but never after a later append.
    fn save_draft(
        &self,
        session: &Self::Session,
        frame: &Event,
        text: Content,
    ) -> impl Future<Output = Result<(), ServiceError>> + Send;

    /// Looks up an acknowledged call in the whole log and adds it to [`PendingWork::deferred`]. `false` if there is none.
    fn recall(
        &self,
        session: &mut Self::Session,
        id: &str,
    ) -> impl Future<Output = Result<bool, ServiceError>> + Send;

    /// The events at the end of the log that belong to one invocation, including those that are not in memory.
    fn invocation_events(
        &self,
        session: &Self::Session,
        invocation: &str,
    ) -> impl Future<Output = Result<Vec<Arc<Event>>, ServiceError>> + Send;
}

/// Stores the artifacts of a session.
pub trait ArtifactService: Send + Sync {
    /// Saves a new version and returns its number, counted from 0.
    fn save(
        &self,
        session: &SessionKey,
        name: &str,
        part: Part,
    ) -> futures::future::BoxFuture<'_, Result<u64, ServiceError>>;

    /// The given version, or the newest.
    fn load(
        &self,
        session: &SessionKey,
        name: &str,
        version: Option<u64>,
    ) -> futures::future::BoxFuture<'_, Result<Option<Part>, ServiceError>>;
}
