//! Idempotency keys in memory.

use crate::{IdempotencyKey, NewRun, SessionKey};
use std::collections::HashMap;

/// Maps user and idempotency key to the fingerprint, session and run of the request.
#[derive(Debug, Default)]
pub(super) struct IdempotencyKeys(HashMap<(String, String), (String, SessionKey, String)>);

impl IdempotencyKeys {
    /// The fingerprint, session and run of a known request.
    pub(super) fn find(
        &self,
        key: &SessionKey,
        request: &IdempotencyKey,
    ) -> Option<&(String, SessionKey, String)> {
        self.0.get(&(key.user_id.clone(), request.key.clone()))
    }

    pub(super) fn insert(&mut self, key: &SessionKey, run: &NewRun) {
        if let Some(IdempotencyKey { key: name, fingerprint }) = &run.idempotency_key {
            let request = (fingerprint.clone(), key.clone(), run.id.clone());
            self.0.entry((key.user_id.clone(), name.clone())).or_insert(request);
        }
    }

    pub(super) fn forget(&mut self, session: &SessionKey) {
        self.0.retain(|_, (_, key, _)| key != session);
    }
}
