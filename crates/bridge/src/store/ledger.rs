//! The ledger: records that a call begins before it runs. The commit of the call's outcome removes the record.

use crate::{
    store::{facts, service::service_error},
    turns::TurnHandle,
};
use adk::{error::ServiceError, pending::PendingCall, session::SessionKey, tool::Ledger};
use failpoint::Point;
use futures::future::BoxFuture;
use session::{Commit, Fact};
use std::sync::Arc;

/// Calls that have begun and have no outcome: running, or interrupted.
pub fn begun_calls(facts: &[Fact]) -> impl Iterator<Item = PendingCall> {
    facts::from_rows(facts).open_calls.into_iter().filter(|call| call.begun)
}

/// The ledger of one turn. A turn that has lost its lease cannot record a call, and therefore cannot begin one.
pub(crate) struct LedgerAdapter(pub(crate) Arc<TurnHandle>);

impl Ledger for LedgerAdapter {
    fn begin(&self, session: &SessionKey, call_id: &str) -> BoxFuture<'_, Result<(), ServiceError>> {
        let (session, facts) = (session.clone(), vec![facts::call_begins(call_id)]);
        Box::pin(async move {
            let stored = self.0.step(Commit { facts, ..Commit::default() });
            let stored = failpoint::around([Point::BeforeLedger, Point::AfterLedger], stored).await;
            stored.map(drop).map_err(|error| service_error(error, &session))
        })
    }
}
