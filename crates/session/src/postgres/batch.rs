//! Pipelined statements: all are sent at once and cost one round trip.

use super::fault::JobResult;
use deadpool_postgres::Object;
use futures::future::BoxFuture;
use std::{
    future::poll_fn,
    task::{Context, Poll},
};
use tokio_postgres::{Row, Statement, types::ToSql};

/// A parameter of a statement.
pub(super) type Parameter<'a> = Box<dyn ToSql + Sync + Send + 'a>;

/// Builds the parameters of a statement.
macro_rules! parameters {
    ($($value:expr),* $(,)?) => { vec![$(Box::new($value) as $crate::postgres::batch::Parameter<'_>),*] };
}
pub(super) use parameters;

/// How a batch begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// Statements of an open transaction.
    Inside,
    /// Begins a transaction that stays open.
    Begin,
    /// Ends the open transaction.
    Commit,
    /// A transaction of its own, which reads one snapshot.
    Snapshot,
}

impl Frame {
    fn first(self) -> Option<&'static str> {
        match self {
            Self::Inside | Self::Commit => None,
            Self::Begin => Some("BEGIN"),
            Self::Snapshot => Some("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"),
        }
    }

    fn last(self) -> Option<&'static str> {
        match self {
            Self::Inside | Self::Begin => None,
            Self::Commit | Self::Snapshot => Some("COMMIT"),
        }
    }
}

/// Statements that are sent together.
#[derive(Default)]
pub(super) struct Batch<'a>(Vec<(&'a str, Vec<Parameter<'a>>)>);

impl<'a> Batch<'a> {
    /// Adds a statement and returns the index of its rows.
    pub(super) fn add(&mut self, sql: &'a str, parameters: Vec<Parameter<'a>>) -> usize {
        self.0.push((sql, parameters));
        self.0.len() - 1
    }

    /// Sends all statements and returns the rows of each. If one fails, the server skips the rest of the transaction, and the
    /// COMMIT rolls it back.
    pub(super) async fn send(self, connection: &Object, frame: Frame) -> JobResult<Vec<Vec<Row>>> {
        // A statement that is not prepared yet would be sent after the ones behind it.
        let mut prepared: Vec<(Statement, Vec<Parameter<'a>>)> = Vec::with_capacity(self.0.len());
        for (sql, parameters) in self.0 {
            prepared.push((connection.prepare_cached(sql).await?, parameters));
        }
        let mut sent: Vec<BoxFuture<'_, Result<Vec<Row>, tokio_postgres::Error>>> = Vec::new();
        let simple = |sql| -> BoxFuture<'_, _> {
            Box::pin(async move { connection.batch_execute(sql).await.map(|()| Vec::new()) })
        };
        sent.extend(frame.first().map(simple));
        for (statement, parameters) in &prepared {
            sent.push(Box::pin(async move {
                let parameters: Vec<&(dyn ToSql + Sync)> =
                    parameters.iter().map(|parameter| &**parameter as &(dyn ToSql + Sync)).collect();
                connection.query(statement, &parameters).await
            }));
        }
        sent.extend(frame.last().map(simple));
        let mut rows = in_order(sent).await?;
        if frame.last().is_some() {
            rows.pop();
        }
        if frame.first().is_some() {
            rows.remove(0);
        }
        Ok(rows)
    }
}

/// Polls all futures in order, so that their messages are sent in order. Fails with the first error in that order.
async fn in_order<T, E>(futures: Vec<BoxFuture<'_, Result<T, E>>>) -> Result<Vec<T>, E> {
    let mut slots: Vec<_> = futures.into_iter().map(|future| (Some(future), None)).collect();
    poll_fn(|context: &mut Context<'_>| {
        let mut is_pending = false;
        for (future, output) in &mut slots {
            let Some(polled) = future else { continue };
            match polled.as_mut().poll(context) {
                Poll::Ready(result) => {
                    *future = None;
                    *output = Some(result);
                }
                Poll::Pending => is_pending = true,
            }
        }
        if is_pending { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    slots.into_iter().filter_map(|(_, output)| output).collect()
}
