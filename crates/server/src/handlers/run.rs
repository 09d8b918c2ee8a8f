//! ADK's two ways to send a message: wait for all events, or read them as they happen. Either way the run is the server's.

use crate::{
    app_registry::ServedApp,
    error::ApiError,
    input::{Fields, RequestBody, bodies},
    principal::Principal,
    sse::{self, ArtifactSplit},
    state::ServerState,
};
use adk::{
    content::Content,
    error::{RunError, ServiceError},
    event::Event,
    runner::{Input, RunConfig, RunRequest, StreamingMode},
    session::SessionKey,
    trace::Trace,
};
use axum::{
    extract::{FromRequestParts, State},
    http::{HeaderName, HeaderValue, StatusCode, request::Parts},
    response::Response,
};
use bridge::{
    guard::GUEST,
    runs::{End, Reader, RunPermit, StartError, StartOptions},
};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Which run a request became.
pub(crate) const RUN_ID: HeaderName = HeaderName::from_static("x-run-id");
/// A repeated request with this key is the same run.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Waits for all events of the run.
pub(crate) async fn run(
    State(server): State<ServerState>,
    caller: Principal,
    origin: RunHeaders,
    sent: RequestBody,
) -> Result<Response, ApiError> {
    let mut asked = RunCommand::new(&server, &caller, sent).await?;
    asked.request.config.streaming = StreamingMode::None;
    let key = asked.request.key.clone();
    let mut reader = start(&server, asked, origin).await?;
    let id = reader.id().to_owned();
    let mut body = b"[".to_vec();
    let mut last: Option<Arc<Event>> = None;
    let end = loop {
        match reader.next().await? {
            Ok(entry) if entry.event.is_partial() => {}
            Ok(entry) => {
                if last.is_some() {
                    body.push(b',');
                }
                body.extend(entry.json.as_bytes());
                last = Some(entry.event);
            }
            Err(end) => break end,
        }
    };
    body.push(b']');
    match end {
        End::Done => Ok(named(super::json(body), &id)),
        End::NotFound => Err(no_session(&key.session_id)),
        End::Cancelled => Err(ApiError::conflict("the run was cancelled")),
        End::Unasked { message } => Err(ApiError::conflict(message)),
        End::Failed { message, .. } => {
            let (kind, message) = sse::failure(last.as_deref(), message);
            Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, format!("{kind}: {message}")))
        }
    }
}

/// Shows the events of the run as they happen.
pub(crate) async fn run_sse(
    State(server): State<ServerState>,
    caller: Principal,
    origin: RunHeaders,
    sent: RequestBody,
) -> Result<Response, ApiError> {
    let asked = RunCommand::new(&server, &caller, sent).await?;
    let splits = asked.splits;
    let reader = start(&server, asked, origin).await?;
    let id = reader.id().to_owned();
    Ok(named(sse::answer(reader, splits, &server), &id))
}

pub(crate) fn named(mut response: Response, id: &str) -> Response {
    if let Ok(id) = HeaderValue::from_str(id) {
        response.headers_mut().insert(RUN_ID, id);
    }
    response
}

pub(crate) async fn exists(server: &ServerState, key: &SessionKey) -> Result<(), ApiError> {
    let head = server.archive.head(key).await?;
    head.map(drop).ok_or_else(|| no_session(&key.session_id))
}

fn no_session(id: &str) -> ApiError {
    ApiError::not_found(format!("Session not found: {id}"))
}

/// A message that was asked to be sent.
pub(crate) struct RunCommand {
    app: Arc<ServedApp>,
    pub(crate) request: RunRequest,
    splits: ArtifactSplit,
    permit: Option<RunPermit>,
}

impl RunCommand {
    async fn new(server: &ServerState, caller: &Principal, sent: RequestBody) -> Result<Self, ApiError> {
        let mut fields = sent.required(&bodies::RUN)?;
        let app = fields.text("appName").filter(|name| !name.is_empty());
        let app = app.ok_or_else(|| {
            ApiError::bad_request("app_name is required when ADK_DEFAULT_APP_NAME is not set")
        })?;
        let user = fields.text("userId").unwrap_or_default();
        let session = fields.text("sessionId").unwrap_or_default();
        if !caller.may_be(&user) {
            return Err(no_session(&session));
        }
        Self::of(server, caller, SessionKey::new(app, user, session), fields).await
    }

    pub(crate) async fn of(
        server: &ServerState,
        caller: &Principal,
        key: SessionKey,
        mut fields: Fields,
    ) -> Result<Self, ApiError> {
        let app = server.app(&key.app_name)?;
        let state_delta = fields.map("stateDelta").unwrap_or_default();
        let state_delta = signed(server, caller, &key, state_delta).await?;
        let permit = server.run_permit(caller)?;
        let message: Option<Content> = fields.read("newMessage")?;
        let streaming = if fields.flag("streaming") { StreamingMode::Sse } else { StreamingMode::None };
        let config =
            RunConfig { streaming, custom_metadata: fields.map("customMetadata"), ..RunConfig::default() };
        let splits = if fields.text("functionCallEventId").is_some() {
            ArtifactSplit::Keep
        } else {
            ArtifactSplit::Split
        };
        let (input, content) = match message {
            Some(mut content) => {
                content.role.get_or_insert_with(|| "user".to_owned());
                (None, content)
            }
            None => (Some(Input::Again), Content::default()),
        };
        let mut request = RunRequest { state_delta, config, ..RunRequest::message(key, content) };
        if let Some(input) = input {
            request.input = input;
        }
        Ok(Self { app, request, splits, permit })
    }
}

/// What the caller may change of the state, and that it is no administrator who speaks, if it is none.
async fn signed(
    server: &ServerState,
    caller: &Principal,
    key: &SessionKey,
    delta: Map<String, Value>,
) -> Result<Map<String, Value>, ApiError> {
    let mut delta = if delta.keys().any(|name| caller.reads_only(name).is_some()) {
        let head = server.archive.head(key).await?;
        caller.changes(delta, &head.map(|head| head.state).unwrap_or_default())?
    } else {
        delta
    };
    if !caller.admin {
        delta.insert(GUEST.to_owned(), Value::Bool(true));
    }
    Ok(delta)
}

/// What a request says beside its body.
pub(crate) struct RunHeaders {
    trace: Trace,
    idempotency_key: Option<String>,
}

impl<S: Sync> FromRequestParts<S> for RunHeaders {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let key = parts.headers.get(IDEMPOTENCY_KEY).map(|key| key.to_str().map(str::to_owned));
        let key = key.transpose().map_err(|_| ApiError::bad_request("Idempotency-Key is not text"))?;
        let trace = parts.extensions.get::<Trace>().cloned().unwrap_or_default();
        Ok(Self { trace, idempotency_key: key })
    }
}

/// In the shape of all answers with this status: a list of what is wrong.
fn key_reused() -> ApiError {
    let message = "the Idempotency-Key was used for another session, message or options; use a new key";
    let wrong = json!({
        "type": "idempotency_key_reused",
        "loc": ["header", IDEMPOTENCY_KEY.as_str()],
        "msg": message,
        "input": null,
    });
    ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, json!([wrong]))
}

/// Begins the run. The message is stored when this returns.
pub(crate) async fn start(
    server: &ServerState,
    mut asked: RunCommand,
    origin: RunHeaders,
) -> Result<Reader, ApiError> {
    let session = asked.request.key.session_id.clone();
    asked.request.config.trace = origin.trace;
    let options = StartOptions { idempotency_key: origin.idempotency_key, permit: asked.permit };
    let started = server.runs.start(&asked.app.agent, asked.request, options).await;
    started.map_err(|error| match error {
        StartError::KeyReused => key_reused(),
        StartError::Run(error) => match error {
            RunError::SessionNotFound(_) | RunError::Service(ServiceError::NotFound(_)) => {
                no_session(&session)
            }
            RunError::UnknownCall { .. } => ApiError::conflict(error.to_string()),
            RunError::Cancelled => ApiError::conflict("the run was cancelled"),
            RunError::Service(error) => error.into(),
            other => ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, other.to_string()),
        },
    })
}
