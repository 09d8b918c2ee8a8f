//! One call: it ends with its answer, with the turn, or with its time, and the server is told if nobody waits any more.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rmcp::{
    ClientHandler, Peer, RoleClient, ServiceError,
    model::{
        CallToolRequest, CallToolRequestParams, CallToolResult, CancelledNotification,
        CancelledNotificationParam, ClientCapabilities, ClientConfig, ClientNotification, ClientRequest,
        Implementation, ProgressNotificationParam, ProgressToken, RequestId, ServerResult,
    },
    service::{NotificationContext, PeerRequestOptions},
};
use tokio::{
    runtime::Handle,
    sync::mpsc,
    time::{Instant, sleep_until},
};

use super::http;
use crate::ToolHost;

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Trouble {
    /// There is no server to call, and why.
    NoServer(String),
    /// The server never heard of the call.
    NotSent,
    /// It heard of it and went away.
    Lost(String),
    TooLate(Duration),
    Cancelled,
    /// It answered that it does not.
    Refused(String),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    /// From the beginning, or from the last progress on.
    pub(super) idle: Duration,
    pub(super) most: Duration,
}

pub(super) async fn call(
    (peer, ears): (&Peer<RoleClient>, &Ears),
    request: CallToolRequestParams,
    times: Times,
    host: &dyn ToolHost,
) -> Result<CallToolResult, Trouble> {
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(request));
    let sent = peer.send_request_with_option(request, PeerRequestOptions::no_options()).await;
    let mut waiting = sent.map_err(|_| Trouble::NotSent)?;
    let mut unless_done = CancelOnDrop { peer: peer.clone(), id: Some(waiting.id.clone()) };
    let mut progress = ears.listen(&waiting.progress_token);
    let end = Instant::now() + times.most;
    let mut patience = Instant::now() + times.idle;
    let answer = loop {
        tokio::select! {
            biased;
            () = host.cancelled() => return Err(Trouble::Cancelled),
            answer = &mut waiting.rx => break answer,
            Some(text) = progress.heard.recv() => {
                host.progress(&text);
                patience = Instant::now() + times.idle;
            }
            () = sleep_until(patience.min(end)) => return Err(Trouble::TooLate(times.idle)),
        }
    };
    unless_done.id = None;
    // What was said before the answer may be heard right after it.
    tokio::task::yield_now().await;
    while let Ok(text) = progress.heard.try_recv() {
        host.progress(&text);
    }
    match answer {
        Ok(Ok(ServerResult::CallToolResult(result))) => Ok(result),
        Ok(Ok(_)) => Err(Trouble::Refused("it answered with something that is no result".to_owned())),
        Ok(Err(ServiceError::McpError(error))) => Err(Trouble::Refused(error.message.into_owned())),
        Ok(Err(ServiceError::TransportSend(error))) if http::never_arrived(&*error.error) => {
            Err(Trouble::NotSent)
        }
        Ok(Err(ServiceError::TransportSend(error))) => Err(Trouble::Lost(http::innermost(&*error.error))),
        Ok(Err(ServiceError::TransportClosed)) | Err(_) => Err(Trouble::Lost("it ended".to_owned())),
        Ok(Err(error)) => Err(Trouble::Lost(error.to_string())),
    }
}

/// Tells the server that nobody waits for the call any more.
struct CancelOnDrop {
    peer: Peer<RoleClient>,
    id: Option<RequestId>,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let (Some(id), Ok(runtime)) = (self.id.take(), Handle::try_current()) else { return };
        let peer = self.peer.clone();
        runtime.spawn(async move {
            let told =
                CancelledNotificationParam::new(Some(id), Some("nobody waits for it any more".to_owned()));
            let told = ClientNotification::from(CancelledNotification::new(told));
            let _ = peer.send_notification(told).await;
        });
    }
}

/// What is heard of a server that was not asked for.
#[derive(Clone, Default)]
pub(super) struct Ears(Arc<Heard>);

#[derive(Default)]
struct Heard {
    has_other_tools: AtomicBool,
    progress: Mutex<HashMap<ProgressToken, mpsc::UnboundedSender<String>>>,
}

impl Ears {
    /// Whether its list of tools has changed since this was asked last.
    pub(super) fn takes_note_of_other_tools(&self) -> bool {
        self.0.has_other_tools.swap(false, Ordering::Relaxed)
    }

    fn listen(&self, token: &ProgressToken) -> Progress {
        let (sender, heard) = mpsc::unbounded_channel();
        self.0.progress().insert(token.clone(), sender);
        Progress { token: token.clone(), all: Arc::clone(&self.0), heard }
    }
}

impl Heard {
    fn progress(&self) -> MutexGuard<'_, HashMap<ProgressToken, mpsc::UnboundedSender<String>>> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Progress {
    token: ProgressToken,
    all: Arc<Heard>,
    heard: mpsc::UnboundedReceiver<String>,
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.all.progress().remove(&self.token);
    }
}

impl ClientHandler for Ears {
    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let text = told(&params);
        if let Some(sender) = self.0.progress().get(&params.progress_token) {
            let _ = sender.send(text);
        }
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.0.has_other_tools.store(true, Ordering::Relaxed);
    }

    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(
            ClientCapabilities::default(),
            Implementation::new("lango", env!("CARGO_PKG_VERSION")),
        )
    }
}

fn told(progress: &ProgressNotificationParam) -> String {
    let done = progress.progress;
    let so_far = progress.total.map_or_else(|| done.to_string(), |total| format!("{done} of {total}"));
    match &progress.message {
        Some(message) => format!("{so_far}: {message}\n"),
        None => format!("{so_far}\n"),
    }
}
