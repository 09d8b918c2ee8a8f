//! Runs blocking work on its own thread and cancels it with its call.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use futures::future::BoxFuture;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{ToolHost, ToolReply, ToolRequest, ToolsError, args};

/// Tells blocking work that its call was cancelled or dropped.
#[derive(Debug, Clone, Default)]
pub(crate) struct CancelFlag(Arc<AtomicBool>);

impl CancelFlag {
    /// Fails if the flag is set. Loops call this once per iteration.
    pub(crate) fn check(&self) -> Result<(), ToolsError> {
        if self.0.load(Ordering::Relaxed) { Err(ToolsError::Cancelled) } else { Ok(()) }
    }
}

/// Sets the flag when the call's future is dropped.
struct SetFlagOnDrop(CancelFlag);

impl Drop for SetFlagOnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// One call of `tool`: parses its arguments and runs `work` on a blocking thread.
pub(crate) fn call<'a, A, F>(
    tool: &'static str,
    request: ToolRequest,
    work: F,
) -> BoxFuture<'a, Result<ToolReply, ToolsError>>
where
    A: DeserializeOwned + Send + 'static,
    F: FnOnce(&A, &CancelFlag) -> Result<Value, ToolsError> + Send + 'static,
{
    Box::pin(async move {
        let args: A = args::parse(tool, request.args)?;
        run(&*request.host, move |cancel| work(&args, cancel)).await.map(ToolReply::Done)
    })
}

/// Runs `job` on a blocking thread until it returns or the turn is cancelled.
pub(crate) async fn run<T, F>(host: &dyn ToolHost, job: F) -> Result<T, ToolsError>
where
    T: Send + 'static,
    F: FnOnce(&CancelFlag) -> Result<T, ToolsError> + Send + 'static,
{
    let cancel = CancelFlag::default();
    let _guard = SetFlagOnDrop(cancel.clone());
    let work = tokio::task::spawn_blocking(move || job(&cancel));
    tokio::select! {
        // Cancellation is polled first: a turn that was cancelled before the call began gets no result.
        biased;
        () = host.cancelled() => Err(ToolsError::Cancelled),
        done = work => done.unwrap_or_else(|error| Err(ToolsError::Failed(format!("the tool crashed: {error}")))),
    }
}
