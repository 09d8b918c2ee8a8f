//! The ledger: that a call begins is a fact of its session before it does, and is gone with the commit of its outcome.

use crate::{
    store::{facts, service::service_error},
    turns::TurnHandle,
};
use adk::{error::ServiceError, pending::PendingCall, session::SessionKey, tool::Ledger};
use failpoint::Point;
use futures::future::BoxFuture;
use session::{Commit, Fact};
use std::sync::Arc;

/// The calls that have begun and have no outcome yet: they are running, or were cut off.
pub fn begun_calls(facts: &[Fact]) -> impl Iterator<Item = PendingCall> {
    facts::from_rows(facts).open_calls.into_iter().filter(|call| call.begun)
}

/// The ledger of one turn. A turn that has lost its lease can write nothing into it, and so begins nothing.
pub(crate) struct LedgerAdapter(pub(crate) Arc<TurnHandle>);

impl Ledger for LedgerAdapter {
    fn begin(&self, session: &SessionKey, call_id: &str) -> BoxFuture<'_, Result<(), ServiceError>> {
        let (session, facts) = (session.clone(), vec![facts::begun(call_id)]);
        Box::pin(async move {
            let stored = self.0.step(Commit { facts, ..Commit::default() });
            let stored = failpoint::around([Point::BeforeLedger, Point::AfterLedger], stored).await;
            stored.map(drop).map_err(|error| service_error(error, &session))
        })
    }
}
