//! ArtifactAdapter: ADK's artifact service on top of the session store.

use crate::store::session_handle::SessionHandle;
use adk::{
    content::{Data, Part},
    error::ServiceError,
    session::{ArtifactService, SessionKey},
};
use futures::future::BoxFuture;
use session::{NewArtifact, Store};
use std::{fmt, sync::Arc};

#[derive(Clone)]
pub struct ArtifactAdapter {
    store: Arc<dyn Store>,
}

impl ArtifactAdapter {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }
}

impl ArtifactService for ArtifactAdapter {
    fn save(&self, session: &SessionKey, name: &str, part: Part) -> BoxFuture<'_, Result<u64, ServiceError>> {
        let (session, name) = (session.clone(), name.to_owned());
        Box::pin(async move {
            let mime_type = mime_type_of(&part);
            let part = serde_json::to_string(&part).map_err(|error| unreadable(&session, &error))?;
            let artifact = NewArtifact { part, mime_type, custom_metadata: "{}".to_owned() };
            SessionHandle::new(&self.store, &session).save_artifact(&name, artifact).await
        })
    }

    fn load(
        &self,
        session: &SessionKey,
        name: &str,
        version: Option<u64>,
    ) -> BoxFuture<'_, Result<Option<Part>, ServiceError>> {
        let (session, name) = (session.clone(), name.to_owned());
        Box::pin(async move {
            let found = SessionHandle::new(&self.store, &session).artifact(&name, version).await?;
            found
                .map(|artifact| {
                    serde_json::from_str(&artifact.part).map_err(|error| unreadable(&session, &error))
                })
                .transpose()
        })
    }
}

pub(crate) fn mime_type_of(part: &Part) -> Option<String> {
    match &part.data {
        Data::InlineData(blob) => blob.mime_type.clone(),
        Data::FileData(file) => file.mime_type.clone(),
        Data::Text(_) => Some("text/plain".to_owned()),
        Data::FunctionCall(_) | Data::FunctionResponse(_) | Data::Unknown => None,
    }
}

fn unreadable(session: &SessionKey, error: &serde_json::Error) -> ServiceError {
    ServiceError::Invalid { key: session.clone(), message: error.to_string() }
}

impl fmt::Debug for ArtifactAdapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArtifactAdapter").finish_non_exhaustive()
    }
}
