//! A handle to one session of the store, which maps the store's errors in one place.

use crate::store::service::service_error;
use adk::{error::ServiceError, session::SessionKey};
use session::{
    Artifact, ArtifactKey, Commit, Committed, NewArtifact, PageRequest, RecipeQuery, RecipeText, RunRecord,
    Snapshot, Store, StoredMessage, StoredRecipe, TailBudget,
};
use std::{future::Future, sync::Arc};

pub(crate) struct SessionHandle<'a> {
    store: &'a dyn Store,
    key: &'a SessionKey,
}

impl<'a> SessionHandle<'a> {
    pub(crate) fn new(store: &'a Arc<dyn Store>, key: &'a SessionKey) -> Self {
        Self { store: &**store, key }
    }

    async fn mapped<T>(&self, call: impl Future<Output = session::Result<T>>) -> Result<T, ServiceError> {
        call.await.map_err(|error| service_error(error, self.key))
    }

    fn artifact_key(&self, name: &str) -> ArtifactKey {
        ArtifactKey { session: self.key.clone(), name: name.to_owned() }
    }

    pub(crate) async fn load(&self, tail: TailBudget) -> Result<Option<Snapshot>, ServiceError> {
        self.mapped(self.store.load(self.key, tail)).await
    }

    pub(crate) async fn commit(&self, commit: Commit) -> Result<Committed, ServiceError> {
        self.mapped(self.store.commit(self.key, commit)).await
    }

    pub(crate) async fn delete(&self) -> Result<bool, ServiceError> {
        self.mapped(self.store.delete(self.key)).await
    }

    pub(crate) async fn read(&self, page: PageRequest) -> Result<Vec<StoredMessage>, ServiceError> {
        self.mapped(self.store.read(self.key, page)).await
    }

    /// The rows of one run, by the run's number.
    pub(crate) async fn read_run(
        &self,
        run: u64,
        page: PageRequest,
    ) -> Result<Vec<StoredMessage>, ServiceError> {
        self.mapped(self.store.read_run(self.key, run, page)).await
    }

    pub(crate) async fn run(&self, id: &str) -> Result<Option<RunRecord>, ServiceError> {
        self.mapped(self.store.run(self.key, id)).await
    }

    pub(crate) async fn runs(&self, limit: usize) -> Result<Vec<RunRecord>, ServiceError> {
        self.mapped(self.store.runs(self.key, limit)).await
    }

    /// The recipes of model calls, newest first.
    pub(crate) async fn recipes(&self, query: RecipeQuery) -> Result<Vec<StoredRecipe>, ServiceError> {
        self.mapped(self.store.recipes(self.key, query)).await
    }

    pub(crate) async fn recipe_texts(&self, hashes: Vec<String>) -> Result<Vec<RecipeText>, ServiceError> {
        self.mapped(self.store.recipe_texts(self.key, hashes)).await
    }

    pub(crate) async fn artifact_names(&self) -> Result<Vec<String>, ServiceError> {
        self.mapped(self.store.names(self.key)).await
    }

    pub(crate) async fn save_artifact(&self, name: &str, artifact: NewArtifact) -> Result<u64, ServiceError> {
        self.mapped(self.store.save(&self.artifact_key(name), artifact)).await
    }

    /// One version of an artifact, by default the newest.
    pub(crate) async fn artifact(
        &self,
        name: &str,
        version: Option<u64>,
    ) -> Result<Option<Artifact>, ServiceError> {
        self.mapped(self.store.artifact(&self.artifact_key(name), version)).await
    }

    /// Like [`artifact`](Self::artifact), with an empty part.
    pub(crate) async fn artifact_metadata(
        &self,
        name: &str,
        version: Option<u64>,
    ) -> Result<Option<Artifact>, ServiceError> {
        self.mapped(self.store.metadata(&self.artifact_key(name), version)).await
    }

    pub(crate) async fn artifact_versions(&self, name: &str) -> Result<Vec<u64>, ServiceError> {
        self.mapped(self.store.versions(&self.artifact_key(name))).await
    }

    pub(crate) async fn remove_artifact(&self, name: &str) -> Result<bool, ServiceError> {
        self.mapped(self.store.remove(&self.artifact_key(name))).await
    }
}
