//! One tool call: it ends with its result or by timeout. A call that is dropped is cancelled at the server.

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
        ClientCapabilities, ClientConfig, ClientNotification, ClientRequest, ElicitRequestParams,
        ElicitResult, ElicitationAction, ElicitationCapability, ErrorData, FormElicitationCapability,
        Implementation, InputRequest, InputRequiredResult, InputResponses, ProgressNotificationParam,
        ProgressToken, RequestId, ServerResult,
    },
    service::{NotificationContext, PeerRequestOptions, RequestContext},
};
use serde_json::{Value, json};
use tokio::{
    runtime::Handle,
    sync::mpsc,
    time::{Instant, sleep_until},
};

use super::{
    elicitation::{CallLink, Elicitation},
    failure::{request_failure, server_message},
    http_transport,
    received::ReceivedResult,
};

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
    /// The server returned an error.
    Refused(String),
}

/// How often a call is repeated with input that its server requires.
const MAX_ROUNDS: usize = 20;

#[derive(Debug, Clone, Copy)]
pub(super) struct CallTimeouts {
    /// Since the start or the last progress notification.
    pub(super) idle: Duration,
    /// Since the start.
    pub(super) total: Duration,
}

/// Makes a call, and repeats its request with the user's input as often as the server requires it.
pub(super) async fn call(
    client: (&Peer<RoleClient>, &NotificationHandler),
    mut request: CallToolRequestParams,
    timeouts: CallTimeouts,
    link: &Arc<CallLink>,
) -> Result<ReceivedResult, McpCallError> {
    for _ in 0..MAX_ROUNDS {
        let required = match call_once(client, request.clone(), timeouts, link).await? {
            CallReply::Result(result) => return Ok(result),
            CallReply::InputRequired(required) => required,
        };
        let mut responses = InputResponses::new();
        for (key, asked) in required.input_requests.unwrap_or_default() {
            responses.insert(key, input_response(client.1.elicitation(), asked, link).await?);
        }
        (request.input_responses, request.request_state) = (Some(responses), required.request_state);
    }
    Err(McpCallError::Refused(format!("it asked for input more than {MAX_ROUNDS} times")))
}

/// The response to one input that a server requires.
async fn input_response(
    elicitation: &Arc<Elicitation>,
    asked: InputRequest,
    link: &Arc<CallLink>,
) -> Result<Value, McpCallError> {
    let unsupported =
        |what: &str| McpCallError::Refused(format!("it asked for {what}, which lango does not do"));
    match asked {
        InputRequest::Elicitation(request) => {
            let answer = elicitation.answer_for(Ok(Arc::clone(link)), request.params).await;
            serde_json::to_value(answer)
                .map_err(|_| McpCallError::Refused("the user's input cannot be sent".to_owned()))
        }
        InputRequest::ListRoots(_) => Ok(json!({"roots": []})),
        InputRequest::CreateMessage(_) => Err(unsupported("a call of the model")),
        _ => Err(unsupported("an unknown kind of input")),
    }
}

/// The deadlines of a call, which are suspended while the user is asked.
struct CallClock {
    timeouts: CallTimeouts,
    idle: Instant,
    total: Instant,
    suspended: Option<Instant>,
}

impl CallClock {
    fn start(timeouts: CallTimeouts) -> Self {
        let now = Instant::now();
        Self { timeouts, idle: now + timeouts.idle, total: now + timeouts.total, suspended: None }
    }

    fn deadline(&self) -> Instant {
        self.idle.min(self.total)
    }

    fn reset_idle(&mut self) {
        self.idle = Instant::now() + self.timeouts.idle;
    }

    fn set_asking(&mut self, is_asking: bool) {
        if is_asking {
            self.suspended.get_or_insert_with(Instant::now);
        } else if let Some(since) = self.suspended.take() {
            self.total += since.elapsed();
            self.reset_idle();
        }
    }
}

/// The answer to one request of a call.
enum CallReply {
    Result(ReceivedResult),
    /// The request must be repeated with the user's input.
    InputRequired(InputRequiredResult),
}

async fn call_once(
    (peer, handler): (&Peer<RoleClient>, &NotificationHandler),
    request: CallToolRequestParams,
    timeouts: CallTimeouts,
    link: &Arc<CallLink>,
) -> Result<CallReply, McpCallError> {
    let _registered = handler.elicitation().register(link);
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(request));
    let sent = peer.send_request_with_option(request, PeerRequestOptions::no_options()).await;
    let mut waiting = sent.map_err(|_| McpCallError::NotSent)?;
    let mut cancel_on_drop = CancelRequestOnDrop { peer: peer.clone(), id: Some(waiting.id.clone()) };
    let mut progress = handler.subscribe(&waiting.progress_token);
    let mut questions = link.open_questions();
    let mut clock = CallClock::start(timeouts);
    let answer = loop {
        tokio::select! {
            biased;
            answer = &mut waiting.rx => break answer,
            Some(text) = progress.receiver.recv() => {
                link.progress(&text);
                clock.reset_idle();
            }
            Ok(()) = questions.changed() => clock.set_asking(*questions.borrow_and_update() > 0),
            () = sleep_until(clock.deadline()), if clock.suspended.is_none() => {
                return Err(McpCallError::TimedOut(timeouts.idle));
            }
        }
    };
    cancel_on_drop.id = None;
    // Progress that was sent before the result may be delivered right after it.
    tokio::task::yield_now().await;
    while let Ok(text) = progress.receiver.try_recv() {
        link.progress(&text);
    }
    match answer {
        Ok(Ok(ServerResult::CallToolResult(result))) => Ok(CallReply::Result(result.into())),
        Ok(Ok(ServerResult::InputRequiredResult(result))) => Ok(CallReply::InputRequired(result)),
        // A result with a part of an unknown type is not parsed by the library.
        Ok(Ok(ServerResult::CustomResult(value))) => ReceivedResult::parse(&value.0)
            .map(CallReply::Result)
            .ok_or_else(|| McpCallError::Refused("the response is not a tool result".to_owned())),
        Ok(Ok(_)) => Err(McpCallError::Refused("the response is not a tool result".to_owned())),
        Ok(Err(ServiceError::McpError(error))) => Err(McpCallError::Refused(server_message(&error))),
        Ok(Err(ServiceError::TransportSend(error))) if http_transport::was_not_delivered(&*error.error) => {
            Err(McpCallError::NotSent)
        }
        Ok(Err(error)) => Err(McpCallError::Lost(request_failure(&error))),
        Err(_) => Err(McpCallError::Lost(request_failure(&ServiceError::TransportClosed))),
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

/// Receives notifications and questions of a server. Clones share their state.
#[derive(Clone)]
pub(super) struct NotificationHandler {
    notifications: Arc<ServerNotifications>,
    elicitation: Arc<Elicitation>,
}

#[derive(Default)]
struct ServerNotifications {
    tool_list_changed: AtomicBool,
    progress: Mutex<HashMap<ProgressToken, mpsc::UnboundedSender<String>>>,
}

impl NotificationHandler {
    pub(super) fn new(elicitation: Elicitation) -> Self {
        Self { notifications: Arc::default(), elicitation: Arc::new(elicitation) }
    }

    pub(super) fn elicitation(&self) -> &Arc<Elicitation> {
        &self.elicitation
    }

    /// Whether the server has sent `tools/list_changed` since the last call of this function.
    pub(super) fn take_tool_list_changed(&self) -> bool {
        self.notifications.tool_list_changed.swap(false, Ordering::Relaxed)
    }

    fn subscribe(&self, token: &ProgressToken) -> ProgressSubscription {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.notifications.progress().insert(token.clone(), sender);
        ProgressSubscription {
            token: token.clone(),
            notifications: Arc::clone(&self.notifications),
            receiver,
        }
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
        if let Some(sender) = self.notifications.progress().get(&params.progress_token) {
            let _ = sender.send(text);
        }
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.notifications.tool_list_changed.store(true, Ordering::Relaxed);
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        tokio::select! {
            answer = self.elicitation.answer(request) => Ok(answer),
            () = context.ct.cancelled() => Ok(ElicitResult::new(ElicitationAction::Cancel)),
        }
    }

    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        if self.elicitation.can_ask() {
            let form = FormElicitationCapability::new().with_schema_validation(true);
            capabilities.elicitation = Some(ElicitationCapability::new().with_form(form));
        }
        ClientConfig::new(capabilities, Implementation::new("lango", env!("CARGO_PKG_VERSION")))
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
