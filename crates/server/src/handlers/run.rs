//! ADK's endpoints for messages: `/run` returns all events at once, `/run_sse` streams them. The server owns the run in both
//! cases; it continues if the client disconnects.

use crate::{
    app_registry::ServedApp,
    error::ApiError,
    input::{
        RequestBody,
        bodies::{RunBody, SessionRunBody},
    },
    principal::Principal,
    run_json::EventList,
    sse::{self, ArtifactSplit, SseFraming},
    state::ServerState,
    state_limit::check_state_size,
};
use adk::{
    content::Content,
    error::{RunError, ServiceError},
    runner::{Input, RunConfig, RunRequest, StreamingMode},
    session::SessionKey,
    trace::Trace,
};
use axum::{
    extract::{FromRequestParts, State},
    http::{HeaderName, HeaderValue, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use bridge::{
    runs::{Reader, ReaderItem, RunOutcome, RunPermit, StartError, StartOptions},
    tools::guard::GUEST,
};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Response header with the id of the run.
pub(crate) const RUN_ID: HeaderName = HeaderName::from_static("x-run-id");
/// The maximum length of an invocation id in bytes.
const MAX_INVOCATION_ID: usize = 128;
/// The maximum length of an idempotency key, which is stored.
const MAX_KEY_LENGTH: usize = 256;
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Starts a run and returns its events when it ends.
pub(crate) async fn run(
    State(server): State<ServerState>,
    caller: Principal,
    headers: RunHeaders,
    body: RequestBody,
) -> Result<Response, ApiError> {
    let (body, charge) = body.required()?;
    let mut command = RunCommand::new(&server, &caller, body).await?;
    command.request.config.streaming = StreamingMode::None;
    let key = command.request.key.clone();
    let mut reader = start(&server, command, headers).await?;
    drop(charge);
    let (id, begin) = (reader.id().to_owned(), reader.cursor());
    let mut events = EventList::default();
    let mut last_error = None;
    let end = loop {
        match reader.next().await? {
            ReaderItem::Entry(entry) if entry.event.is_partial() => {}
            ReaderItem::Entry(entry) => {
                events.push(&entry.json);
                last_error = sse::error_of(&entry.event);
            }
            ReaderItem::End(end) => break end,
        }
    };
    match end {
        RunOutcome::Done => {
            let again = || server.runs.reader(&key, &id, begin);
            Ok(with_run_id(events.respond(&server.response_budget, again).await?, &id))
        }
        RunOutcome::NotFound => Err(session_not_found(&key.session_id)),
        RunOutcome::Cancelled => Err(ApiError::conflict("the run was cancelled")),
        RunOutcome::UnknownCall { message } => Err(ApiError::conflict(message)),
        RunOutcome::InvalidAnswer { message } => Err(ApiError::bad_request(message)),
        RunOutcome::Failed { message, .. } => {
            let (kind, message) = sse::failure_details(last_error, message);
            Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, format!("{kind}: {message}")))
        }
    }
}

/// Starts a run and streams its events. A client that accepts only event streams gets an error as an event: ADK's page reads
/// nothing else, whatever the status.
pub(crate) async fn run_sse(
    State(server): State<ServerState>,
    caller: Principal,
    headers: RunHeaders,
    body: RequestBody,
) -> Response {
    let accepts_events = headers.accepts_only_events;
    match stream_run(server, caller, headers, body).await {
        Ok(response) => response,
        Err(error) if accepts_events => sse::error_response(error),
        Err(error) => error.into_response(),
    }
}

async fn stream_run(
    server: ServerState,
    caller: Principal,
    headers: RunHeaders,
    body: RequestBody,
) -> Result<Response, ApiError> {
    let (body, _charge) = body.required()?;
    let command = RunCommand::new(&server, &caller, body).await?;
    let framing = SseFraming::Adk(command.split);
    let reader = match start(&server, command, headers).await {
        Ok(reader) => reader,
        Err(StartRefusal::Response(error)) => return Err(error),
        Err(StartRefusal::Input { message, .. }) => return Ok(sse::failed_stream("ValueError", &message)),
    };
    let id = reader.id().to_owned();
    Ok(with_run_id(sse::stream_events(reader, framing, &server), &id))
}

pub(crate) fn with_run_id(mut response: Response, id: &str) -> Response {
    if let Ok(id) = HeaderValue::from_str(id) {
        response.headers_mut().insert(RUN_ID, id);
    }
    response
}

pub(crate) async fn require_session(server: &ServerState, key: &SessionKey) -> Result<(), ApiError> {
    let head = server.archive.head(key).await?;
    head.map(drop).ok_or_else(|| session_not_found(&key.session_id))
}

fn session_not_found(id: &str) -> ApiError {
    ApiError::not_found(format!("Session not found: {id}"))
}

/// A validated request to start a run, with the permit for it.
pub(crate) struct RunCommand {
    app: Arc<ServedApp>,
    pub(crate) request: RunRequest,
    split: ArtifactSplit,
    permit: Option<RunPermit>,
}

impl RunCommand {
    async fn new(server: &ServerState, caller: &Principal, body: RunBody) -> Result<Self, ApiError> {
        let app = body.app_name.filter(|name| !name.is_empty());
        let app = app.ok_or_else(|| {
            ApiError::bad_request("app_name is required when ADK_DEFAULT_APP_NAME is not set")
        })?;
        if !caller.may_access(&body.user_id) {
            return Err(session_not_found(&body.session_id));
        }
        let key = SessionKey::new(app, body.user_id, body.session_id);
        let split = match body.function_call_event_id {
            Some(_) => ArtifactSplit::Keep,
            None => ArtifactSplit::Split,
        };
        let body = SessionRunBody {
            new_message: body.new_message,
            streaming: body.streaming,
            state_delta: body.state_delta,
            invocation_id: body.invocation_id,
            custom_metadata: body.custom_metadata,
        };
        Ok(Self { split, ..Self::in_session(server, caller, key, body).await? })
    }

    pub(crate) async fn in_session(
        server: &ServerState,
        caller: &Principal,
        key: SessionKey,
        body: SessionRunBody,
    ) -> Result<Self, ApiError> {
        let app = server.app(caller, &key.app_name)?;
        let state_delta = body.state_delta.unwrap_or_default();
        let state_delta = authorize_delta(server, caller, &key, state_delta).await?;
        let invocation_id = requested_invocation(body.invocation_id, body.new_message.as_ref())?;
        let permit = server.run_permit(caller)?;
        let streaming = if body.streaming { StreamingMode::Sse } else { StreamingMode::None };
        let config = RunConfig { streaming, custom_metadata: body.custom_metadata, ..RunConfig::default() };
        let (input, content) = match body.new_message {
            Some(mut content) => {
                content.role.get_or_insert_with(|| "user".to_owned());
                (None, content)
            }
            None => (Some(Input::Again), Content::default()),
        };
        let mut request =
            RunRequest { state_delta, config, invocation_id, ..RunRequest::message(key, content) };
        if let Some(input) = input {
            request.input = input;
        }
        Ok(Self { app, request, split: ArtifactSplit::Keep, permit })
    }
}

/// The id that the client chose for the run; an empty one counts as absent. It is ignored for a response to a call, which
/// belongs to the invocation of that call.
fn requested_invocation(id: Option<String>, message: Option<&Content>) -> Result<Option<String>, ApiError> {
    let responds = message.is_some_and(|content| content.responses().next().is_some());
    let Some(id) = id.filter(|id| !id.is_empty() && !responds) else { return Ok(None) };
    // It is the run id: part of paths and of a header.
    let is_valid = id.len() <= MAX_INVOCATION_ID
        && id.starts_with(|first: char| first.is_ascii_alphanumeric())
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte));
    if is_valid {
        return Ok(Some(id));
    }
    Err(ApiError::bad_request(format!(
        "invocationId must begin with a letter or digit and have at most {MAX_INVOCATION_ID} letters, digits, '-', '_', '.' \
         and ':'"
    )))
}

/// The part of the delta that the caller may write. Unless the caller is an administrator, it also sets the guest key, with which
/// the tool guard refuses calls that need approval.
async fn authorize_delta(
    server: &ServerState,
    caller: &Principal,
    key: &SessionKey,
    delta: Map<String, Value>,
) -> Result<Map<String, Value>, ApiError> {
    let mut delta = if delta.is_empty() {
        delta
    } else {
        let state = server.archive.head(key).await?.map(|head| head.state).unwrap_or_default();
        let delta = caller.writable_delta(delta, &state)?;
        check_state_size(&state, &delta)?;
        delta
    };
    if !caller.admin {
        delta.insert(GUEST.to_owned(), Value::Bool(true));
    }
    Ok(delta)
}

/// The headers of a request that concern its run.
pub(crate) struct RunHeaders {
    trace: Trace,
    idempotency_key: Option<String>,
    /// Whether `Accept` is `text/event-stream`.
    accepts_only_events: bool,
}

impl<S: Sync> FromRequestParts<S> for RunHeaders {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let mut keys = parts.headers.get_all(IDEMPOTENCY_KEY).iter();
        let key = keys.next().map(|key| key.to_str().map(str::to_owned));
        if keys.next().is_some() {
            return Err(ApiError::bad_request("there is more than one Idempotency-Key; send one"));
        }
        let key = key
            .transpose()
            .map_err(|_| ApiError::bad_request("Idempotency-Key has characters other than visible ASCII"))?;
        match key.as_deref() {
            Some("") => {
                let detail = "Idempotency-Key is empty; send a unique key or omit the header";
                return Err(ApiError::bad_request(detail));
            }
            Some(key) if key.len() > MAX_KEY_LENGTH => {
                let detail = format!("Idempotency-Key is longer than {MAX_KEY_LENGTH} characters");
                return Err(ApiError::bad_request(detail));
            }
            Some(_) | None => {}
        }
        let trace = parts.extensions.get::<Trace>().cloned().unwrap_or_default();
        let mut accepted = parts.headers.get_all(header::ACCEPT).iter();
        let accepts_only_events = match (accepted.next(), accepted.next()) {
            (Some(value), None) => value.as_bytes().eq_ignore_ascii_case(b"text/event-stream"),
            _ => false,
        };
        Ok(Self { trace, idempotency_key: key, accepts_only_events })
    }
}

/// A validation error, as every response with this status.
fn key_reused() -> ApiError {
    let message = "the Idempotency-Key was used for another session, message or options; use a new key";
    let error = json!({
        "type": "idempotency_key_reused",
        "loc": ["header", IDEMPOTENCY_KEY.as_str()],
        "msg": message,
        "input": null,
    });
    ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, json!([error]))
}

/// Why a message was not accepted. Nothing is stored.
pub(crate) enum StartRefusal {
    Response(ApiError),
    /// The message is invalid. ADK's `/run_sse` sends the error as the only item of its stream.
    Input {
        status: StatusCode,
        message: String,
    },
}

impl From<StartRefusal> for ApiError {
    fn from(refusal: StartRefusal) -> Self {
        match refusal {
            StartRefusal::Response(error) => error,
            StartRefusal::Input { status, message } => Self::new(status, message),
        }
    }
}

/// Starts the run. When this returns, the message is stored.
pub(crate) async fn start(
    server: &ServerState,
    mut command: RunCommand,
    headers: RunHeaders,
) -> Result<Reader, StartRefusal> {
    let key = command.request.key.clone();
    command.request.config.trace = headers.trace;
    let options = StartOptions { idempotency_key: headers.idempotency_key, permit: command.permit };
    let started = server.runs.start(&command.app.agent, command.request, options).await;
    let error = match started {
        Ok(reader) => return Ok(reader),
        Err(error) => error,
    };
    // ADK checks the session before the message.
    if matches!(error, StartError::Run(RunError::CallInMessage)) {
        require_session(server, &key).await.map_err(StartRefusal::Response)?;
    }
    Err(refusal(error, &key))
}

fn refusal(error: StartError, key: &SessionKey) -> StartRefusal {
    let invalid =
        |status, error: &dyn std::error::Error| StartRefusal::Input { status, message: error.to_string() };
    let error = match error {
        StartError::KeyReused => key_reused(),
        StartError::InvocationExists { .. } => ApiError::bad_request(error.to_string()),
        StartError::Run(error) => match error {
            RunError::SessionNotFound(_) | RunError::Service(ServiceError::NotFound(_)) => {
                session_not_found(&key.session_id)
            }
            RunError::CallInMessage
            | RunError::UnresolvedReference { .. }
            | RunError::InvalidAnswer { .. } => {
                return invalid(StatusCode::BAD_REQUEST, &error);
            }
            RunError::UnknownCall { .. } => return invalid(StatusCode::CONFLICT, &error),
            RunError::Cancelled => ApiError::conflict("the run was cancelled"),
            RunError::Service(error) => error.into(),
            other => ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, other.to_string()),
        },
    };
    StartRefusal::Response(error)
}
