//! Archive: stored sessions and files as people and programs outside look at them, page by page.

use crate::store::{
    artifacts::mime_type_of,
    facts,
    row::{Restorer, save},
    service::{service_error, store_failed, store_key},
    state::{self, StateAdapter},
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
    ArtifactKey, Commit, ListQuery, NewArtifact, NewSession, OnConflict, PageRequest, Seq, Snapshot, Store,
    TailBudget,
};
use std::{fmt, sync::Arc};

/// Sessions of a list that are read at a time.
const PAGE: usize = 256;

/// The key in the state of a listed session that says that it cannot be read.
const DAMAGED: &str = "lango:damaged";

#[derive(Clone)]
pub struct Archive {
    store: Arc<dyn Store>,
}

/// A session without its events.
#[derive(Clone, Debug)]
pub struct SessionSummary {
    pub key: SessionKey,
    pub state: Map<String, Value>,
    pub title: Option<String>,
    pub last_update_time: f64,
    /// Where its log ends.
    pub last_seq: u64,
}

impl SessionSummary {
    /// Of a session that is there and cannot be read.
    fn damaged(key: SessionKey) -> Self {
        let state = Map::from_iter([(DAMAGED.to_owned(), Value::Bool(true))]);
        Self { key, state, title: None, last_update_time: 0.0, last_seq: 0 }
    }
}

/// The sessions of a user, read one by one: of all of them only their names are in memory.
#[derive(Clone, Debug)]
pub struct SessionSummaries {
    archive: Archive,
    app: String,
    user: String,
    /// The next one is the last.
    ids: Vec<String>,
}

impl SessionSummaries {
    pub async fn next(&mut self) -> Result<Option<SessionSummary>, ServiceError> {
        while let Some(id) = self.ids.pop() {
            let key = SessionKey::new(&self.app, &self.user, id);
            match self.archive.head(&key).await {
                // One that was deleted since is left out.
                Ok(None) => {}
                // One that cannot be read does not hide the others.
                Err(ServiceError::Damaged { .. }) => return Ok(Some(SessionSummary::damaged(key))),
                head => return head,
            }
        }
        Ok(None)
    }
}

/// One version of a file, without the file.
#[derive(Clone, Debug)]
pub struct ArtifactVersion {
    pub number: u64,
    pub mime_type: Option<String>,
    pub custom_metadata: Map<String, Value>,
    pub created_at: f64,
}

impl Archive {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    pub async fn head(&self, key: &SessionKey) -> Result<Option<SessionSummary>, ServiceError> {
        let loaded = self.store.load(&store_key(key), TailBudget::NONE).await;
        Ok(loaded.map_err(|error| service_error(error, key))?.map(head))
    }

    /// Whether the store takes a write and answers a read, both small. The write is the heartbeat of this process, which
    /// replaces the one before it.
    pub async fn check(&self) -> Result<(), ServiceError> {
        self.store.heartbeat().await.map_err(store_failed)?;
        self.head(&SessionKey::new("", "", "")).await.map(drop)
    }

    /// The events of a session behind a place in its log, oldest first.
    pub fn events(&self, key: &SessionKey, root_agent: &str, after: u64) -> EventPages {
        EventPages {
            store: Arc::clone(&self.store),
            key: key.clone(),
            restorer: Restorer::new(root_agent),
            after: Seq(after),
        }
    }

    /// The sessions of a user as they are now, the one that was changed last at the end.
    pub async fn list(&self, app: &str, user: &str) -> Result<SessionSummaries, ServiceError> {
        let (mut ids, mut after) = (Vec::new(), None);
        loop {
            let (of_app, of_user) = (Some(app.to_owned()), Some(user.to_owned()));
            let query = ListQuery { app: of_app, user: of_user, after, limit: PAGE };
            let rows = self.store.list(query).await.map_err(store_failed)?;
            after = rows.last().cloned();
            ids.extend(rows.into_iter().map(|row| row.key.session));
            if after.is_none() {
                return Ok(SessionSummaries {
                    archive: self.clone(),
                    app: app.to_owned(),
                    user: user.to_owned(),
                    ids,
                });
            }
        }
    }

    /// A new session, with what was said in it elsewhere: all of it, or nothing. What those events did to a state is in `state`.
    pub async fn create(
        &self,
        key: &SessionKey,
        state: &Map<String, Value>,
        events: &[Event],
    ) -> Result<SessionSummary, ServiceError> {
        let invalid =
            |error: serde_json::Error| ServiceError::Invalid { key: key.clone(), message: error.to_string() };
        let steps = events.iter().map(told).collect::<Result<_, _>>().map_err(invalid)?;
        let new = NewSession {
            key: store_key(key),
            state: state::changes(&without_temp(state)),
            steps,
            on_conflict: OnConflict::Fail,
        };
        self.store.create(new).await.map_err(|error| service_error(error, key))?;
        self.head(key).await?.ok_or_else(|| ServiceError::NotFound(key.clone()))
    }

    /// Changes the state of a session that no run is changing: `Stale` if it moved on since `seen`.
    pub async fn change_state(
        &self,
        key: &SessionKey,
        delta: &Map<String, Value>,
        seen: Option<u64>,
    ) -> Result<(), ServiceError> {
        let state = state::changes(&without_temp(delta));
        let step = Commit { state, expected_seq: seen.map(Seq), ..Commit::default() };
        let appended = self.store.commit(&store_key(key), step).await;
        appended.map(drop).map_err(|error| service_error(error, key))
    }

    /// `false` if there was none.
    pub async fn delete(&self, key: &SessionKey) -> Result<bool, ServiceError> {
        self.store.delete(&store_key(key)).await.map_err(|error| service_error(error, key))
    }

    pub async fn files(&self, key: &SessionKey) -> Result<Vec<String>, ServiceError> {
        self.store.names(&store_key(key)).await.map_err(|error| service_error(error, key))
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
        let saved = self.store.save(&file_key(key, name), artifact).await;
        saved.map_err(|error| service_error(error, key))
    }

    /// A version of a file, or the newest.
    pub async fn file(
        &self,
        key: &SessionKey,
        name: &str,
        version: Option<u64>,
    ) -> Result<Option<(Part, ArtifactVersion)>, ServiceError> {
        let found = self.store.artifact(&file_key(key, name), version).await;
        let Some(file) = found.map_err(|error| service_error(error, key))? else { return Ok(None) };
        let part = serde_json::from_str(&file.part)
            .map_err(|error| ServiceError::Invalid { key: key.clone(), message: error.to_string() })?;
        let version = ArtifactVersion {
            number: file.version,
            mime_type: file.mime_type,
            custom_metadata: serde_json::from_str(&file.custom_metadata).unwrap_or_default(),
            created_at: file.created_at,
        };
        Ok(Some((part, version)))
    }

    pub async fn versions(&self, key: &SessionKey, name: &str) -> Result<Vec<u64>, ServiceError> {
        self.store.versions(&file_key(key, name)).await.map_err(|error| service_error(error, key))
    }

    /// `false` if there was none.
    pub async fn remove_file(&self, key: &SessionKey, name: &str) -> Result<bool, ServiceError> {
        self.store.remove(&file_key(key, name)).await.map_err(|error| service_error(error, key))
    }
}

/// An event that happened elsewhere. Who spoke has the word; but what it calls or asks here was called and asked there, and
/// waits for nobody: else whoever gives events could answer a question that no agent has put.
fn told(event: &Event) -> Result<Commit, serde_json::Error> {
    let mut changes = PendingWork::default().changes(event);
    changes.retain(|change| matches!(change, PendingChange::Active(_)));
    let facts = facts::to_rows(&changes, Seq::START, None)?;
    Ok(Commit { facts, ..Commit::message(save(event)?) })
}

fn head(snapshot: Snapshot) -> SessionSummary {
    let Snapshot { row, state, .. } = snapshot;
    SessionSummary {
        key: SessionKey::new(&row.key.app, &row.key.user, &row.key.session),
        state: StateAdapter::new(state).all().clone(),
        title: row.title,
        last_update_time: row.updated_at,
        last_seq: row.last_seq.0,
    }
}

fn file_key(key: &SessionKey, name: &str) -> ArtifactKey {
    ArtifactKey { session: store_key(key), name: name.to_owned() }
}

/// The events of a session, a page at a time: a session of a million events is never in memory.
#[derive(Clone)]
pub struct EventPages {
    store: Arc<dyn Store>,
    key: SessionKey,
    restorer: Restorer,
    after: Seq,
}

impl EventPages {
    /// The next events with their places; none at the end.
    pub async fn next(&mut self, limit: usize) -> Result<Vec<(u64, Event)>, ServiceError> {
        let page = PageRequest { after: self.after, limit };
        let rows = self.store.read(&store_key(&self.key), page).await;
        let rows = rows.map_err(|error| service_error(error, &self.key))?;
        self.after = rows.last().map_or(self.after, |row| row.seq);
        Ok(rows.iter().map(|row| (row.seq.0, self.restorer.restore(row))).collect())
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
