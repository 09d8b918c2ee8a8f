//! One tool call: it ends with its result, with the cancellation of the turn, or by timeout. An abandoned call is cancelled
//! at the server.

use lock::LockExt;
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rmcp::{
    ClientHandler, Peer, RoleClient, ServiceError,
    model::{
        CallToolRequest, CallToolRequestParams, CancelledNotification, CancelledNotificationParam,
        ClientCapabilities, ClientConfig, ClientNotification, ClientRequest, Implementation,
        ProgressNotificationParam, ProgressToken, RequestId, ServerResult,
    },
    service::{NotificationContext, PeerRequestOptions},
};
use tokio::{
    runtime::Handle,
    sync::mpsc,
    time::{Instant, sleep_until},
};

use super::{http_transport, received::ReceivedResult};
use crate::ToolHost;

/// Why a call has no result.
#[derive(Debug)]
pub(super) enum McpCallError {
    /// The server is unavailable, with the reason.
    NoServer(String),
    /// The request did not reach the server.
    NotSent,
    /// The connection was lost after the request was sent.
    Lost(String),
    TimedOut(Duration),
    Cancelled,
    /// The server returned an error.
    Refused(String),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct CallTimeouts {
    /// Since the start or the last progress notification.
    pub(super) idle: Duration,
    /// Since the start.
    pub(super) total: Duration,
}

pub(super) async fn call(
    (peer, handler): (&Peer<RoleClient>, &NotificationHandler),
    request: CallToolRequestParams,
    timeouts: CallTimeouts,
    host: &dyn ToolHost,
) -> Result<ReceivedResult, McpCallError> {
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(request));
    let sent = peer.send_request_with_option(request, PeerRequestOptions::no_options()).await;
    let mut waiting = sent.map_err(|_| McpCallError::NotSent)?;
    let mut cancel_on_drop = CancelRequestOnDrop { peer: peer.clone(), id: Some(waiting.id.clone()) };
    let mut progress = handler.subscribe(&waiting.progress_token);
    let deadline = Instant::now() + timeouts.total;
    let mut idle_deadline = Instant::now() + timeouts.idle;
    let answer = loop {
        tokio::select! {
            biased;
            () = host.cancelled() => return Err(McpCallError::Cancelled),
            answer = &mut waiting.rx => break answer,
            Some(text) = progress.receiver.recv() => {
                host.progress(&text);
                idle_deadline = Instant::now() + timeouts.idle;
            }
            () = sleep_until(idle_deadline.min(deadline)) => return Err(McpCallError::TimedOut(timeouts.idle)),
        }
    };
    cancel_on_drop.id = None;
    // Progress that was sent before the result may be delivered right after it.
    tokio::task::yield_now().await;
    while let Ok(text) = progress.receiver.try_recv() {
        host.progress(&text);
    }
    match answer {
        Ok(Ok(ServerResult::CallToolResult(result))) => Ok(result.into()),
        // A result with a part of an unknown type is not parsed by the library.
        Ok(Ok(ServerResult::CustomResult(value))) => ReceivedResult::parse(&value.0)
            .ok_or_else(|| McpCallError::Refused("the response is not a tool result".to_owned())),
        Ok(Ok(_)) => Err(McpCallError::Refused("the response is not a tool result".to_owned())),
        Ok(Err(ServiceError::McpError(error))) => Err(McpCallError::Refused(error.message.into_owned())),
        Ok(Err(ServiceError::TransportSend(error))) if http_transport::was_not_delivered(&*error.error) => {
            Err(McpCallError::NotSent)
        }
        Ok(Err(ServiceError::TransportSend(error))) => {
            Err(McpCallError::Lost(crate::http::root_cause(&*error.error)))
        }
        Ok(Err(ServiceError::TransportClosed)) | Err(_) => {
            Err(McpCallError::Lost("the connection was closed".to_owned()))
        }
        Ok(Err(error)) => Err(McpCallError::Lost(error.to_string())),
    }
}

/// Sends `notifications/cancelled` when the call is abandoned.
struct CancelRequestOnDrop {
    peer: Peer<RoleClient>,
    id: Option<RequestId>,
}

impl Drop for CancelRequestOnDrop {
    fn drop(&mut self) {
        let (Some(id), Ok(runtime)) = (self.id.take(), Handle::try_current()) else { return };
        let peer = self.peer.clone();
        runtime.spawn(async move {
            let params = CancelledNotificationParam::new(Some(id), Some("the call was abandoned".to_owned()));
            let notification = ClientNotification::from(CancelledNotification::new(params));
            let _ = peer.send_notification(notification).await;
        });
    }
}

/// Receives notifications of a server. Clones share their state.
#[derive(Clone, Default)]
pub(super) struct NotificationHandler(Arc<ServerNotifications>);

#[derive(Default)]
struct ServerNotifications {
    tool_list_changed: AtomicBool,
    progress: Mutex<HashMap<ProgressToken, mpsc::UnboundedSender<String>>>,
}

impl NotificationHandler {
    /// Whether the server has sent `tools/list_changed` since the last call of this function.
    pub(super) fn take_tool_list_changed(&self) -> bool {
        self.0.tool_list_changed.swap(false, Ordering::Relaxed)
    }

    fn subscribe(&self, token: &ProgressToken) -> ProgressSubscription {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.0.progress().insert(token.clone(), sender);
        ProgressSubscription { token: token.clone(), notifications: Arc::clone(&self.0), receiver }
    }
}

impl ServerNotifications {
    fn progress(&self) -> MutexGuard<'_, HashMap<ProgressToken, mpsc::UnboundedSender<String>>> {
        self.progress.locked()
    }
}

/// The progress of one call. Dropping it unsubscribes.
struct ProgressSubscription {
    token: ProgressToken,
    notifications: Arc<ServerNotifications>,
    receiver: mpsc::UnboundedReceiver<String>,
}

impl Drop for ProgressSubscription {
    fn drop(&mut self) {
        self.notifications.progress().remove(&self.token);
    }
}

impl ClientHandler for NotificationHandler {
    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let text = format_progress(&params);
        if let Some(sender) = self.0.progress().get(&params.progress_token) {
            let _ = sender.send(text);
        }
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.0.tool_list_changed.store(true, Ordering::Relaxed);
    }

    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(
            ClientCapabilities::default(),
            Implementation::new("lango", env!("CARGO_PKG_VERSION")),
        )
    }
}

fn format_progress(progress: &ProgressNotificationParam) -> String {
    let done = progress.progress;
    let so_far = progress.total.map_or_else(|| done.to_string(), |total| format!("{done} of {total}"));
    match &progress.message {
        Some(message) => format!("{so_far}: {message}\n"),
        None => format!("{so_far}\n"),
    }
}
