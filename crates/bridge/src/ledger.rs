//! The ledger: that a call begins is a fact of its session before it does, and is gone with the commit of its outcome.

use crate::{
    facts,
    service::{TurnMark, service_error, store_key},
};
use adk::{error::ServiceError, facts::Call, session::SessionKey, tool::Ledger};
use futures::future::BoxFuture;
use session::{Append, Fact, Store};
use std::sync::{Arc, Mutex, PoisonError};

/// The calls that have begun and have no outcome yet: they are running, or were cut off.
pub fn begun_calls(facts: &[Fact]) -> impl Iterator<Item = Call> {
    facts::from_rows(facts).open_calls.into_iter().filter(|call| call.begun)
}

/// The ledger of one turn. Who has lost the turn can write nothing into it, and so begins nothing.
pub(crate) struct LedgerAdapter {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) mark: Arc<Mutex<TurnMark>>,
}

impl Ledger for LedgerAdapter {
    fn begin(&self, session: &SessionKey, call_id: &str) -> BoxFuture<'_, Result<(), ServiceError>> {
        let (session, facts) = (session.clone(), vec![facts::begun(call_id)]);
        Box::pin(async move {
            let epoch = self.mark.lock().unwrap_or_else(PoisonError::into_inner).epoch;
            let step = Append { facts, epoch, ..Append::default() };
            let stored = self.store.append(&store_key(&session), step).await;
            stored.map(drop).map_err(|error| service_error(error, &session))
        })
    }
}
