//! Archive: stored sessions and artifacts for listings, exports and the HTTP API, one page at a time.

use crate::{
    memory::Memory,
    store::{
        artifacts::mime_type_of,
        pending,
        row::{Restorer, save},
        service::{service_error, store_failed},
        session_handle::SessionHandle,
        state::{self, StateAdapter},
        usage_report::{self, PriceBook, SessionUsage, UsageReport},
    },
};
use adk::{
    content::Part,
    error::ServiceError,
    event::Event,
    pending::{PendingChange, PendingWork},
    session::SessionKey,
    state::without_temp,
};
use serde_json::{Map, Value};
use session::{
    Artifact, Commit, ListQuery, NewArtifact, NewSession, OnConflict, PageRequest, Seq, Snapshot, Store,
    TailBudget, UsageQuery,
};
use std::{fmt, sync::Arc};

/// State key that marks a listed session whose rows cannot be read.
const DAMAGED: &str = "lango:damaged";

#[derive(Clone)]
pub struct Archive {
    pub(super) store: Arc<dyn Store>,
}

/// A session without its events.
#[derive(Clone, Debug)]
pub struct SessionSummary {
    pub key: SessionKey,
    pub state: Map<String, Value>,
    pub title: Option<String>,
    pub last_update_time: f64,
    /// Sequence number of the last log row.
    pub last_seq: u64,
}

impl SessionSummary {
    /// The summary of a session that exists and cannot be read.
    pub(super) fn damaged(key: SessionKey) -> Self {
        let state = Map::from_iter([(DAMAGED.to_owned(), Value::Bool(true))]);
        Self { key, state, title: None, last_update_time: 0.0, last_seq: 0 }
    }
}

/// Metadata of one artifact version.
#[derive(Clone, Debug)]
pub struct ArtifactVersion {
    pub number: u64,
    pub mime_type: Option<String>,
    pub custom_metadata: Map<String, Value>,
    pub created_at: f64,
}

impl ArtifactVersion {
    fn new(artifact: Artifact) -> Self {
        Self {
            number: artifact.version,
            mime_type: artifact.mime_type,
            custom_metadata: serde_json::from_str(&artifact.custom_metadata).unwrap_or_default(),
            created_at: artifact.created_at,
        }
    }
}

impl Archive {
    /// The memory of the users of the same store.
    pub fn memory(&self) -> Memory {
        Memory::new(Arc::clone(&self.store))
    }

    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    fn stored<'a>(&'a self, key: &'a SessionKey) -> SessionHandle<'a> {
        SessionHandle::new(&self.store, key)
    }

    pub async fn head(&self, key: &SessionKey) -> Result<Option<SessionSummary>, ServiceError> {
        Ok(self.stored(key).load(TailBudget::NONE).await?.map(summary))
    }

    /// Health check: one small write and one small read. The write is the heartbeat of this process, which overwrites
    /// the previous heartbeat.
    pub async fn check(&self) -> Result<(), ServiceError> {
        self.store.heartbeat().await.map_err(store_failed)?;
        self.head(&SessionKey::new("", "", "")).await.map(drop)
    }

    /// Iterates over the events of a session with a sequence number above `after`, oldest first.
    pub fn events(&self, key: &SessionKey, root_agent: &str, after: u64) -> EventPages {
        EventPages {
            store: Arc::clone(&self.store),
            key: key.clone(),
            restorer: Restorer::new(root_agent),
            after: Seq(after),
            has_begun: after == 0,
            has_ended: false,
        }
    }

    /// The users who have a session with this id in an app, at most `limit`.
    pub async fn users_of(
        &self,
        app: &str,
        session: &str,
        limit: usize,
    ) -> Result<Vec<String>, ServiceError> {
        let (app, session) = (Some(app.to_owned()), Some(session.to_owned()));
        let query = ListQuery { app, session, limit, ..ListQuery::default() };
        let rows = self.store.list(query).await.map_err(store_failed)?;
        Ok(rows.into_iter().map(|row| row.key.user_id).collect())
    }

    /// Sums of usage with their cost. Models are told apart if `by_model` is set.
    pub async fn usage(
        &self,
        query: UsageQuery,
        by_model: bool,
        prices: &PriceBook,
    ) -> Result<UsageReport, ServiceError> {
        usage_report::report(&*self.store, query, by_model, prices).await
    }

    /// The usage of the newest run of a session, of the session, and of its user today.
    pub async fn session_usage(
        &self,
        key: &SessionKey,
        prices: &PriceBook,
    ) -> Result<SessionUsage, ServiceError> {
        usage_report::of_session(&self.store, key, prices).await
    }

    /// Creates a session with an imported history, in one transaction. `state` holds the result of the events' state
    /// deltas, which are not applied again. `quota` is the maximum number of sessions of the user.
    pub async fn create(
        &self,
        key: &SessionKey,
        state: &Map<String, Value>,
        events: &[Event],
        quota: Option<u64>,
    ) -> Result<SessionSummary, ServiceError> {
        let invalid =
            |error: serde_json::Error| ServiceError::Invalid { key: key.clone(), message: error.to_string() };
        let steps = events.iter().map(imported_commit).collect::<Result<_, _>>().map_err(invalid)?;
        let new = NewSession {
            key: key.clone(),
            state: state::changes(&without_temp(state)),
            steps,
            on_conflict: OnConflict::Fail,
            quota,
        };
        self.store.create(new).await.map_err(|error| service_error(error, key))?;
        self.head(key).await?.ok_or_else(|| ServiceError::NotFound(key.clone()))
    }

    /// Commits a state delta outside of any turn. Returns `Stale` if the log has grown beyond `seen`.
    pub async fn change_state(
        &self,
        key: &SessionKey,
        delta: &Map<String, Value>,
        seen: Option<u64>,
    ) -> Result<(), ServiceError> {
        let state = state::changes(&without_temp(delta));
        let step = Commit { state, expected_seq: seen.map(Seq), ..Commit::default() };
        self.stored(key).commit(step).await.map(drop)
    }

    /// Returns `false` if there was no such session.
    pub async fn delete(&self, key: &SessionKey) -> Result<bool, ServiceError> {
        self.stored(key).delete().await
    }

    pub async fn files(&self, key: &SessionKey) -> Result<Vec<String>, ServiceError> {
        self.stored(key).artifact_names().await
    }

    pub async fn save_file(
        &self,
        key: &SessionKey,
        name: &str,
        part: &Part,
        custom_metadata: &Map<String, Value>,
    ) -> Result<u64, ServiceError> {
        let invalid =
            |error: serde_json::Error| ServiceError::Invalid { key: key.clone(), message: error.to_string() };
        let artifact = NewArtifact {
            part: serde_json::to_string(part).map_err(invalid)?,
            mime_type: mime_type_of(part),
            custom_metadata: serde_json::to_string(custom_metadata).map_err(invalid)?,
        };
        self.stored(key).save_artifact(name, artifact).await
    }

    /// Loads one version of a file, by default the newest.
    pub async fn file(
        &self,
        key: &SessionKey,
        name: &str,
        version: Option<u64>,
    ) -> Result<Option<(Part, ArtifactVersion)>, ServiceError> {
        let Some(file) = self.stored(key).artifact(name, version).await? else { return Ok(None) };
        let part = serde_json::from_str(&file.part)
            .map_err(|error| ServiceError::Invalid { key: key.clone(), message: error.to_string() })?;
        let version = ArtifactVersion::new(file);
        Ok(Some((part, version)))
    }

    /// The metadata of one version of a file, by default of the newest. The content is not loaded.
    pub async fn file_metadata(
        &self,
        key: &SessionKey,
        name: &str,
        version: Option<u64>,
    ) -> Result<Option<ArtifactVersion>, ServiceError> {
        Ok(self.stored(key).artifact_metadata(name, version).await?.map(ArtifactVersion::new))
    }

    pub async fn versions(&self, key: &SessionKey, name: &str) -> Result<Vec<u64>, ServiceError> {
        self.stored(key).artifact_versions(name).await
    }

    /// Returns `false` if there was no such file.
    pub async fn remove_file(&self, key: &SessionKey, name: &str) -> Result<bool, ServiceError> {
        self.stored(key).remove_artifact(name).await
    }
}

/// The commit of an imported event. It sets the active agent but opens no calls and no questions: otherwise an import
/// could plant a question, and a client could answer a question that no agent asked.
fn imported_commit(event: &Event) -> Result<Commit, serde_json::Error> {
    let mut changes = PendingWork::default().changes(event);
    changes.retain(|change| matches!(change, PendingChange::Active(_)));
    let pending = pending::to_rows(&changes, Seq::START, None)?;
    Ok(Commit { pending, ..Commit::message(save(event)?) })
}

fn summary(snapshot: Snapshot) -> SessionSummary {
    let Snapshot { row, state, .. } = snapshot;
    SessionSummary {
        key: row.key,
        state: StateAdapter::new(state).all().clone(),
        title: row.title,
        last_update_time: row.updated_at,
        last_seq: row.last_seq.0,
    }
}

/// Pages through the events of a session, so that long sessions are never in memory as a whole.
#[derive(Clone)]
pub struct EventPages {
    store: Arc<dyn Store>,
    key: SessionKey,
    restorer: Restorer,
    after: Seq,
    /// Whether the restorer knows the rows before the next page.
    has_begun: bool,
    has_ended: bool,
}

/// How many rows before a page are read first, if a row of the page answers an earlier call by position.
const FIRST_LOOK_BACK: u64 = 64;

impl EventPages {
    /// The next events with their sequence numbers; empty at the end. The page ends with the event that reaches
    /// `max_bytes` of stored text.
    pub async fn next(&mut self, limit: usize, max_bytes: usize) -> Result<Vec<(u64, Event)>, ServiceError> {
        let page = PageRequest { after: self.after, limit, max_bytes };
        let rows = SessionHandle::new(&self.store, &self.key).read(page).await?;
        let bytes: usize = rows.iter().map(|row| row.message.size()).sum();
        self.has_ended = rows.len() < limit && bytes < max_bytes;
        if !std::mem::replace(&mut self.has_begun, true) && Restorer::depends_on_earlier(&rows) {
            self.look_back(self.after).await?;
        }
        self.after = rows.last().map_or(self.after, |row| row.seq);
        Ok(rows.iter().map(|row| (row.seq.0, self.restorer.restore(row))).collect())
    }

    /// Reads the rows up to `end` from the last one that holds calls.
    async fn look_back(&mut self, end: Seq) -> Result<(), ServiceError> {
        let mut distance = FIRST_LOOK_BACK;
        loop {
            let after = Seq(end.0.saturating_sub(distance));
            let page = PageRequest {
                after,
                limit: usize::try_from(distance).unwrap_or(usize::MAX),
                max_bytes: usize::MAX,
            };
            let mut rows = SessionHandle::new(&self.store, &self.key).read(page).await?;
            rows.truncate(rows.partition_point(|row| row.seq <= end));
            if self.restorer.skip_all(&rows) || after == Seq::START {
                return Ok(());
            }
            distance = distance.saturating_mul(4);
        }
    }

    /// Whether the last page was shorter than requested, so that no event followed it.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }
}

impl fmt::Debug for Archive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Archive").finish_non_exhaustive()
    }
}

impl fmt::Debug for EventPages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventPages").field("after", &self.after).finish_non_exhaustive()
    }
}
