//! ArtifactAdapter: ADK's artifact service on top of the durable store.

use crate::store::service::{service_error, store_key};
use adk::{
    content::{Data, Part},
    error::ServiceError,
    session::{ArtifactService, SessionKey},
};
use futures::future::BoxFuture;
use session::{ArtifactKey, NewArtifact, Store};
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
            let key = ArtifactKey { session: store_key(&session), name };
            self.store.save(&key, artifact).await.map_err(|error| service_error(error, &session))
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
            let key = ArtifactKey { session: store_key(&session), name };
            let found =
                self.store.artifact(&key, version).await.map_err(|error| service_error(error, &session))?;
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
