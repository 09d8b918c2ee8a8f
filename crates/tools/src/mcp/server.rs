//! One MCP server: it is started by its first use, restarted when it dies (by the next call, with backoff), and its tool list is
//! refreshed.

use lock::LockExt;
use std::{
    collections::HashSet,
    sync::{Arc, MutexGuard},
    time::Duration,
};

use rmcp::{
    Peer, RoleClient,
    model::CallToolRequestParams,
    service::{ClientInitializeError, RunningService, serve_client},
};
use serde_json::{Map, Value};
use tokio::{
    sync::Mutex,
    time::{Instant, sleep, timeout},
};

use super::{
    McpServerConfig, McpTransport, ServerEnv,
    call::{CallTimeouts, McpCallError, NotificationHandler, call},
    elicitation::{CallLink, Elicitation},
    failure::{request_failure, start_failure},
    http_transport,
    offers::{McpOffer, list_offers},
    received::ReceivedResult,
    spill::{SpillReader, SpilledStrings},
    stdio::StdioProgram,
    tool_list,
    tool_name::unique_name,
};
use crate::{Effect, ToolsError};

/// Backoff after a failed start: during this time no start is attempted.
const MIN_START_BACKOFF: Duration = Duration::from_secs(1);
const MAX_START_BACKOFF: Duration = Duration::from_mins(1);
/// Delay of a restart after the server has died repeatedly.
const MIN_RESTART_DELAY: Duration = Duration::from_millis(250);
const MAX_RESTART_DELAY: Duration = Duration::from_secs(30);
/// How long to wait for standard error after the death of a server.
const STDERR_TIME: Duration = Duration::from_millis(100);

/// How long a turn waits for a server that failed before.
const FAILED_SERVER_WAIT: Duration = Duration::from_millis(500);

pub(super) struct McpServer {
    pub(super) config: McpServerConfig,
    pub(super) env: ServerEnv,
    /// Held while the server is started or listed, which may take long.
    state: Arc<Mutex<ConnectionState>>,
    /// Held only for short reads and writes, so that it never blocks a turn.
    snapshot: std::sync::Mutex<ServerSnapshot>,
    /// The long strings of its results.
    pub(super) spilled: SpilledStrings,
}

#[derive(Default)]
struct ConnectionState {
    connection: Option<Arc<ServerConnection>>,
    /// Failed starts and lost connections since the last success.
    failures: u32,
    /// The last start error, and the time before which no start is attempted.
    backoff: Option<(String, Instant)>,
    is_listed: bool,
}

/// The last known state, readable without waiting.
#[derive(Clone, Default)]
pub(super) struct ServerSnapshot {
    pub(super) tools: Vec<rmcp::model::Tool>,
    /// Incremented with each change of the tool list.
    pub(super) version: u64,
    pub(super) problem: Option<String>,
    /// The last start failed.
    has_failed: bool,
}

impl ConnectionState {
    /// Whether `tools/list` must be called: never listed, or the server sent `tools/list_changed`. After the death of a
    /// server its tools stay known, and a call restarts it.
    fn needs_listing(&self) -> bool {
        let open = self.connection.as_ref().filter(|connection| connection.is_open());
        let list_changed = open.is_some_and(|open| open.service.service().take_tool_list_changed());
        !self.is_listed || list_changed
    }
}

/// An initialized connection to a server.
pub(super) struct ServerConnection {
    service: RunningService<RoleClient, NotificationHandler>,
    program: Option<StdioProgram>,
}

impl ServerConnection {
    pub(super) fn peer(&self) -> &Peer<RoleClient> {
        self.service.peer()
    }

    fn is_open(&self) -> bool {
        !self.service.peer().is_transport_closed()
    }

    /// The end of standard error, to be appended to an error.
    async fn stderr_suffix(&self) -> String {
        sleep(STDERR_TIME).await;
        stderr_suffix(self.program.as_ref())
    }
}

fn stderr_suffix(program: Option<&StdioProgram>) -> String {
    program.and_then(StdioProgram::stderr).map(|text| format!("; standard error: {text}")).unwrap_or_default()
}

impl McpServer {
    pub(super) fn new(config: McpServerConfig, env: ServerEnv) -> Self {
        let outputs = if config.trusted { env.outputs } else { env.outputs.untrusted() };
        let env = ServerEnv { outputs, ..env };
        Self {
            config,
            env,
            state: Arc::default(),
            snapshot: std::sync::Mutex::default(),
            spilled: SpilledStrings::default(),
        }
    }

    /// Whether a tool of that name may belong to the server.
    pub(super) fn may_have(&self, tool: &str) -> bool {
        tool.starts_with(&unique_name(&self.config.name, "", &HashSet::new()))
    }

    pub(super) fn snapshot(&self) -> MutexGuard<'_, ServerSnapshot> {
        self.snapshot.locked()
    }

    /// Lists the tools of the server if needed, and waits for the result. The wait is short if the server failed before, so
    /// that it does not delay every turn; the start continues in the background.
    pub(super) async fn refresh(self: &Arc<Self>) {
        let (has_failed, state) = (self.snapshot().has_failed, Arc::clone(&self.state));
        let mut state = match state.try_lock_owned() {
            Ok(state) => state,
            // Another task is already starting it.
            Err(_) if has_failed => return,
            Err(_) => Arc::clone(&self.state).lock_owned().await,
        };
        if !state.needs_listing() {
            return;
        }
        let server = Arc::clone(self);
        let listing = tokio::spawn(async move {
            let listed = server.list_tools(&mut state).await;
            server.report(listed.err());
        });
        let wait = if has_failed { FAILED_SERVER_WAIT } else { Duration::MAX };
        let _ = timeout(wait, listing).await;
    }

    async fn list_tools(&self, state: &mut ConnectionState) -> Result<(), String> {
        let connection = self.connect(state).await?;
        let limit = self.config.start_time;
        let list = match timeout(limit, tool_list::list_tools(connection.service.peer())).await {
            Ok(Ok(list)) => list,
            Ok(Err(error)) => {
                let (why, stderr) = (request_failure(&error), connection.stderr_suffix().await);
                return Err(self.back_off(state, &format!("does not list its tools: {why}{stderr}")));
            }
            Err(_) => {
                let why = format!("did not list its tools within {} s", limit.as_secs_f64());
                return Err(self.back_off(state, &why));
            }
        };
        let mut snapshot = self.snapshot();
        if !state.is_listed || list.tools != snapshot.tools {
            snapshot.tools = list.tools;
            snapshot.version += 1;
        }
        drop(snapshot);
        state.is_listed = true;
        if list.errors.is_empty() {
            return Ok(());
        }
        let problem = self.describe(&format!("has tools that cannot be used: {}", list.errors.join(", ")));
        Err(self.env.mask.apply(problem))
    }

    /// The resources and prompts of the server. A server that cannot list them is reported.
    pub(super) async fn offers(&self) -> Vec<McpOffer> {
        let Ok(connection) = self.connection().await else { return Vec::new() };
        let limit = self.config.start_time;
        let listed = timeout(limit, list_offers(connection.service.peer(), &self.config.name)).await;
        let why = match listed {
            Ok(Ok(offers)) => return offers,
            Ok(Err(error)) => format!("does not list its resources and prompts: {}", request_failure(&error)),
            Err(_) => format!("did not list its resources and prompts within {} s", limit.as_secs_f64()),
        };
        self.report(Some(self.env.mask.apply(self.describe(&why))));
        Vec::new()
    }

    /// Makes a call, and repeats it on a new connection if that is safe.
    pub(super) async fn call(
        &self,
        (tool, effect): (&str, Effect),
        args: Map<String, Value>,
        link: &Arc<CallLink>,
    ) -> Result<ReceivedResult, McpCallError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let connection = self.connection().await.map_err(McpCallError::NoServer)?;
            let request = CallToolRequestParams::new(tool.to_owned()).with_arguments(args.clone());
            let timeouts = CallTimeouts { idle: self.config.call_time, total: self.env.max_time };
            let client = (connection.service.peer(), connection.service.service());
            match call(client, request, timeouts, link).await {
                Ok(result) => {
                    self.state.lock().await.failures = 0;
                    return Ok(result);
                }
                Err(McpCallError::NotSent) if attempts < 3 => self.disconnect(&connection).await,
                Err(McpCallError::Lost(_)) if effect != Effect::Once && attempts < 2 => {
                    self.disconnect(&connection).await;
                }
                Err(McpCallError::Lost(why)) => {
                    let stderr = connection.stderr_suffix().await;
                    self.disconnect(&connection).await;
                    return Err(McpCallError::Lost(format!("{why}{stderr}")));
                }
                Err(other) => return Err(other),
            }
        }
    }

    pub(super) async fn connection(&self) -> Result<Arc<ServerConnection>, String> {
        let connected = self.connect(&mut *self.state.lock().await).await;
        if let Err(problem) = &connected {
            self.report(Some(problem.clone()));
        }
        connected
    }

    /// Drops a broken connection, which terminates its program.
    async fn disconnect(&self, broken: &Arc<ServerConnection>) {
        let mut state = self.state.lock().await;
        if state.connection.as_ref().is_some_and(|current| Arc::ptr_eq(current, broken)) {
            state.connection = None;
            state.failures += 1;
        }
    }

    /// Returns the open connection, or starts the server.
    async fn connect(&self, state: &mut ConnectionState) -> Result<Arc<ServerConnection>, String> {
        if let Some(open) = state.connection.as_ref().filter(|connection| connection.is_open()) {
            return Ok(Arc::clone(open));
        }
        if let Some((why, until)) = &state.backoff
            && *until > Instant::now()
        {
            return Err(why.clone());
        }
        if state.connection.take().is_some() {
            state.failures += 1;
        }
        sleep(restart_delay(state.failures)).await;
        match self.start().await {
            Ok(connection) => {
                let connection = Arc::new(connection);
                state.connection = Some(Arc::clone(&connection));
                // A restarted server may have other tools.
                state.is_listed = false;
                state.backoff = None;
                self.snapshot().has_failed = false;
                Ok(connection)
            }
            Err(why) => Err(self.back_off(state, &why)),
        }
    }

    /// Starts the backoff after a failure, and returns the error text.
    fn back_off(&self, state: &mut ConnectionState, why: &str) -> String {
        let why = self.env.mask.apply(self.describe(why));
        state.connection = None;
        state.failures += 1;
        state.backoff = Some((why.clone(), Instant::now() + start_backoff(state.failures)));
        self.snapshot().has_failed = true;
        why
    }

    fn handler(&self) -> NotificationHandler {
        NotificationHandler::new(Elicitation::new(&self.config.name, self.env.can_ask))
    }

    async fn start(&self) -> Result<ServerConnection, String> {
        let limit = self.config.start_time;
        match &self.config.transport {
            McpTransport::Unavailable(why) => Err(format!("is not used: {why}")),
            McpTransport::Http { url, headers } => {
                let transport =
                    http_transport::transport((url, headers), self.env.outputs.clone(), self.spilled.clone())
                        .map_err(|why| format!("cannot be reached: {why}"))?;
                let served = timeout(limit, serve_client(self.handler(), transport)).await;
                let service =
                    served.map_err(|_| start_timeout(limit))?.map_err(|error| http_error(&error))?;
                Ok(ServerConnection { service, program: None })
            }
            McpTransport::Stdio { command, args, env, cwd } => {
                let started = if self.config.sandboxed {
                    StdioProgram::start_sandboxed((command, args), env, cwd, &self.env).await
                } else {
                    StdioProgram::start((command, args), env, cwd, &self.env)
                };
                let (mut program, output, input) = started.map_err(|why| format!("does not start: {why}"))?;
                let output = SpillReader::new(output, self.env.outputs.clone(), self.spilled.clone());
                let why = match timeout(limit, serve_client(self.handler(), (output, input))).await {
                    Ok(Ok(service)) => return Ok(ServerConnection { service, program: Some(program) }),
                    Ok(Err(error)) => match program.failure().await {
                        Some(why) => format!("does not start: {why}"),
                        None => stdio_error(command, &error),
                    },
                    Err(_) => start_timeout(limit),
                };
                sleep(STDERR_TIME).await;
                Err(format!("{why}{}", stderr_suffix(Some(&program))))
            }
        }
    }

    /// A sentence about the server, with its name and origin as the subject.
    pub(super) fn describe(&self, predicate: &str) -> String {
        format!("the MCP server `{}` ({}) {predicate}", self.config.name, self.config.origin)
    }

    /// Records the current problem, and calls `on_problem` if it is a new one.
    fn report(&self, problem: Option<String>) {
        let before = std::mem::replace(&mut self.snapshot().problem, problem.clone());
        if let Some(problem) = problem.filter(|problem| before.as_ref() != Some(problem)) {
            (self.env.on_problem)(&problem);
        }
    }

    /// The error of a call without a result, for the model.
    pub(super) fn to_tools_error(&self, error: McpCallError, effect: Effect) -> ToolsError {
        let advice = match effect {
            Effect::Once => ", so its outcome is unknown: check it before you repeat the call",
            Effect::ReadOnly | Effect::Idempotent => "; the call may be repeated",
        };
        match error {
            McpCallError::NotSent => ToolsError::Failed(self.describe("could not be sent the call")),
            McpCallError::NoServer(why) => ToolsError::Failed(why),
            McpCallError::Refused(why) => {
                ToolsError::Failed(self.describe(&format!("returned an error: {why}")))
            }
            McpCallError::Lost(why) => {
                ToolsError::Failed(self.describe(&format!("was lost during the call{advice} ({why})")))
            }
            McpCallError::TimedOut(time) => {
                let time = time.as_secs_f64();
                ToolsError::Failed(self.describe(&format!("did not answer within {time} s{advice}")))
            }
        }
    }
}

fn start_timeout(limit: Duration) -> String {
    format!("does not start: no response within {} s", limit.as_secs_f64())
}

/// Why a connection over HTTP failed.
fn http_error(error: &ClientInitializeError) -> String {
    format!("cannot be reached: {}", start_failure(error))
}

/// Why a program did not initialize as a server.
fn stdio_error(command: &str, error: &ClientInitializeError) -> String {
    match error {
        // The exit of the program shows up as a read error or as a write error.
        ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. } => {
            format!("does not start: `{command}` exited before it responded")
        }
        other => format!("does not start: {}", start_failure(other)),
    }
}

fn start_backoff(failures: u32) -> Duration {
    (MIN_START_BACKOFF * 2_u32.saturating_pow(failures.saturating_sub(1).min(16))).min(MAX_START_BACKOFF)
}

/// The first restart is immediate.
fn restart_delay(failures: u32) -> Duration {
    match failures {
        0 | 1 => Duration::ZERO,
        more => (MIN_RESTART_DELAY * 2_u32.saturating_pow((more - 2).min(16))).min(MAX_RESTART_DELAY),
    }
}
