//! The ledger: a write-ahead record (intent log) of tool calls. A call is recorded before it runs; the commit of its
//! outcome removes the record.

use crate::{
    store::{pending, service::service_error},
    turns::TurnHandle,
};
use adk::{error::ServiceError, pending::PendingCall, session::SessionKey, tool::Ledger};
use failpoint::Point;
use futures::future::BoxFuture;
use session::{Commit, PendingEntry};
use std::sync::Arc;

/// Calls that have begun and have no outcome: running, or interrupted.
pub fn begun_calls(pending: &[PendingEntry]) -> impl Iterator<Item = PendingCall> {
    pending::from_rows(pending).open_calls.into_iter().filter(|call| call.begun)
}

/// The ledger of one turn. A turn that has lost its lease cannot record a call, and therefore cannot begin one.
pub(crate) struct LedgerAdapter(pub(crate) Arc<TurnHandle>);

impl Ledger for LedgerAdapter {
    fn begin(&self, session: &SessionKey, call_id: &str) -> BoxFuture<'_, Result<(), ServiceError>> {
        let (session, pending) = (session.clone(), vec![pending::call_begins(call_id)]);
        Box::pin(async move {
            let stored = self.0.step(Commit { pending, ..Commit::default() });
            let stored = failpoint::around([Point::BeforeLedger, Point::AfterLedger], stored).await;
            stored.map(drop).map_err(|error| service_error(error, &session))
        })
    }
}
