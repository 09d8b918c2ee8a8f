//! One server: started when it is needed, started again when it died, and asked for its tools again when they change.

use std::{
    sync::{Arc, MutexGuard, PoisonError},
    time::Duration,
};

use rmcp::{
    RoleClient,
    model::{CallToolRequestParams, CallToolResult},
    service::{ClientInitializeError, RunningService, serve_client},
};
use serde_json::{Map, Value};
use tokio::{
    sync::Mutex,
    time::{Instant, sleep, timeout},
};

use super::{
    Ground, Link, ServerConfig,
    call::{Ears, Times, Trouble, call},
    http, list,
    stdio::Program,
    thin::{Shelf, Thin},
};
use crate::{Effect, ToolHost, ToolsError};

/// How long a server that does not start is left alone, at first and at most.
const FIRST_REST: Duration = Duration::from_secs(1);
const LONGEST_REST: Duration = Duration::from_mins(1);
/// The same for one that starts and dies.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A server that dies gets a moment to say why.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// For a server that was in trouble, and may be well again.
const SECOND_LOOK: Duration = Duration::from_millis(500);

pub(super) struct Server {
    pub(super) config: ServerConfig,
    pub(super) ground: Ground,
    /// Whoever holds it starts the server, or asks it.
    state: Arc<Mutex<State>>,
    known: std::sync::Mutex<Known>,
    /// What its answers leave out.
    pub(super) shelf: Shelf,
}

#[derive(Default)]
struct State {
    connection: Option<Arc<Connection>>,
    /// Of starts that failed, and of deaths, since something went well.
    failures: u32,
    /// What is wrong, and until when nothing else is tried.
    rests: Option<(String, Instant)>,
    is_listed: bool,
}

/// What can be told of it without waiting.
#[derive(Clone, Default)]
pub(super) struct Known {
    pub(super) tools: Vec<rmcp::model::Tool>,
    /// Grows with each list of tools.
    pub(super) version: u64,
    pub(super) problem: Option<String>,
    /// It was asked, in vain.
    is_away: bool,
}

impl State {
    /// Whether its tools are not known, or not any more. One that died keeps its tools, and a call of one starts it again.
    fn is_due(&self) -> bool {
        let open = self.connection.as_ref().filter(|connection| connection.is_open());
        let has_news = open.is_some_and(|open| open.service.service().takes_note_of_other_tools());
        !self.is_listed || has_news
    }
}

struct Connection {
    service: RunningService<RoleClient, Ears>,
    program: Option<Program>,
}

impl Connection {
    fn is_open(&self) -> bool {
        !self.service.peer().is_transport_closed()
    }

    async fn last_words(&self) -> String {
        sleep(LAST_WORDS).await;
        said(self.program.as_ref())
    }
}

fn said(program: Option<&Program>) -> String {
    program.and_then(Program::last_words).map(|words| format!("; it said: {words}")).unwrap_or_default()
}

impl Server {
    pub(super) fn new(config: ServerConfig, ground: Ground) -> Self {
        Self {
            config,
            ground,
            state: Arc::default(),
            known: std::sync::Mutex::default(),
            shelf: Shelf::default(),
        }
    }

    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for its tools if that is due, and waits for it. One that was asked in vain before is hardly waited for: it must not
    /// slow down each turn. A start goes on when nobody waits for it any more.
    pub(super) async fn ask(self: &Arc<Self>) {
        let (is_away, state) = (self.known().is_away, Arc::clone(&self.state));
        let mut state = match state.try_lock_owned() {
            Ok(state) => state,
            // Somebody is at it.
            Err(_) if is_away => return,
            Err(_) => Arc::clone(&self.state).lock_owned().await,
        };
        if !state.is_due() {
            return;
        }
        let server = Arc::clone(self);
        let looking = tokio::spawn(async move {
            let listed = server.list(&mut state).await;
            server.note(listed.err());
        });
        let patience = if is_away { SECOND_LOOK } else { Duration::MAX };
        let _ = timeout(patience, looking).await;
    }

    async fn list(&self, state: &mut State) -> Result<(), String> {
        let connection = self.connected(state).await?;
        let limit = self.config.start_time;
        let list = match timeout(limit, list::list(connection.service.peer())).await {
            Ok(Ok(list)) => list,
            Ok(Err(error)) => {
                let words = connection.last_words().await;
                return Err(self.rest(state, &format!("does not list its tools: {error}{words}")));
            }
            Err(_) => {
                let why = format!("has not listed its tools within {} s", limit.as_secs_f64());
                return Err(self.rest(state, &why));
            }
        };
        let mut known = self.known();
        if !state.is_listed || list.tools != known.tools {
            known.tools = list.tools;
            known.version += 1;
        }
        drop(known);
        state.is_listed = true;
        if list.faults.is_empty() {
            return Ok(());
        }
        let faults = self.named(&format!("has tools that cannot be used: {}", list.faults.join(", ")));
        Err(self.ground.mask.apply(faults))
    }

    /// Makes a call, again if that is safe.
    pub(super) async fn call(
        &self,
        (tool, effect): (&str, Effect),
        args: Map<String, Value>,
        host: &dyn ToolHost,
    ) -> Result<CallToolResult, Trouble> {
        let mut tries = 0;
        loop {
            tries += 1;
            let connection = self.connection().await.map_err(Trouble::NoServer)?;
            let request = CallToolRequestParams::new(tool.to_owned()).with_arguments(args.clone());
            let times = Times { idle: self.config.call_time, most: self.ground.max_time };
            let way = (connection.service.peer(), connection.service.service());
            let outcome = call(way, request, times, host).await;
            match outcome {
                Ok(result) => {
                    self.state.lock().await.failures = 0;
                    return Ok(result);
                }
                Err(Trouble::NotSent) if tries < 3 => self.lose(&connection).await,
                Err(Trouble::Lost(_)) if effect != Effect::Once && tries < 2 => self.lose(&connection).await,
                Err(Trouble::Lost(why)) => {
                    let words = connection.last_words().await;
                    self.lose(&connection).await;
                    return Err(Trouble::Lost(format!("{why}{words}")));
                }
                Err(other) => return Err(other),
            }
        }
    }

    async fn connection(&self) -> Result<Arc<Connection>, String> {
        let made = self.connected(&mut *self.state.lock().await).await;
        if let Err(problem) = &made {
            self.note(Some(problem.clone()));
        }
        made
    }

    /// Forgets a connection that is of no use, and with it ends its program.
    async fn lose(&self, lost: &Arc<Connection>) {
        let mut state = self.state.lock().await;
        if state.connection.as_ref().is_some_and(|known| Arc::ptr_eq(known, lost)) {
            state.connection = None;
            state.failures += 1;
        }
    }

    async fn connected(&self, state: &mut State) -> Result<Arc<Connection>, String> {
        if let Some(open) = state.connection.as_ref().filter(|connection| connection.is_open()) {
            return Ok(Arc::clone(open));
        }
        if let Some((why, until)) = &state.rests
            && *until > Instant::now()
        {
            return Err(why.clone());
        }
        if state.connection.take().is_some() {
            state.failures += 1;
        }
        sleep(pause(state.failures)).await;
        match self.start().await {
            Ok(connection) => {
                let connection = Arc::new(connection);
                state.connection = Some(Arc::clone(&connection));
                // Another program may have another list.
                state.is_listed = false;
                state.rests = None;
                self.known().is_away = false;
                Ok(connection)
            }
            Err(why) => Err(self.rest(state, &why)),
        }
    }

    /// Leaves the server alone for a while, and says why.
    fn rest(&self, state: &mut State, why: &str) -> String {
        let why = self.ground.mask.apply(self.named(why));
        state.connection = None;
        state.failures += 1;
        state.rests = Some((why.clone(), Instant::now() + rest(state.failures)));
        self.known().is_away = true;
        why
    }

    async fn start(&self) -> Result<Connection, String> {
        let limit = self.config.start_time;
        match &self.config.link {
            Link::None(why) => Err(format!("is not used: {why}")),
            Link::Http { url, headers } => {
                let transport =
                    http::transport((url, headers), self.ground.outputs.clone(), self.shelf.clone())
                        .map_err(|why| format!("cannot be reached: {why}"))?;
                let served = timeout(limit, serve_client(Ears::default(), transport)).await;
                let service = served.map_err(|_| late(limit))?.map_err(|error| not_reached(&error))?;
                Ok(Connection { service, program: None })
            }
            Link::Stdio { command, args, env, cwd } => {
                let started = Program::start((command, args), env, cwd, &self.ground);
                let (program, output, input) = started.map_err(|why| format!("does not start: {why}"))?;
                let output = Thin::new(output, self.ground.outputs.clone(), self.shelf.clone());
                let why = match timeout(limit, serve_client(Ears::default(), (output, input))).await {
                    Ok(Ok(service)) => return Ok(Connection { service, program: Some(program) }),
                    Ok(Err(error)) => not_served(command, &error),
                    Err(_) => late(limit),
                };
                sleep(LAST_WORDS).await;
                Err(format!("{why}{}", said(Some(&program))))
            }
        }
    }

    fn named(&self, what: &str) -> String {
        format!("the MCP server `{}` ({}) {what}", self.config.name, self.config.origin)
    }

    /// Remembers what is wrong, and tells it if it is news.
    fn note(&self, problem: Option<String>) {
        let before = std::mem::replace(&mut self.known().problem, problem.clone());
        if let Some(problem) = problem.filter(|problem| before.as_ref() != Some(problem)) {
            (self.ground.tell)(&problem);
        }
    }

    /// What a model is told of a call without an answer.
    pub(super) fn told(&self, trouble: Trouble, effect: Effect) -> ToolsError {
        let unknown = match effect {
            Effect::Once => ", so its outcome is unknown: find out before you repeat it",
            Effect::ReadOnly | Effect::Idempotent => "; it may be repeated",
        };
        match trouble {
            Trouble::Cancelled => ToolsError::Cancelled,
            Trouble::NotSent => ToolsError::Failed(self.named("did not hear of the call")),
            Trouble::NoServer(why) => ToolsError::Failed(why),
            Trouble::Refused(why) => ToolsError::Failed(self.named(&format!("says: {why}"))),
            Trouble::Lost(why) => {
                ToolsError::Failed(self.named(&format!("was lost during the call{unknown} ({why})")))
            }
            Trouble::TooLate(time) => {
                let time = time.as_secs_f64();
                ToolsError::Failed(self.named(&format!("did not answer within {time} s{unknown}")))
            }
        }
    }
}

fn late(limit: Duration) -> String {
    format!("does not start: it said nothing within {} s", limit.as_secs_f64())
}

/// Why a server at an address is none.
fn not_reached(error: &ClientInitializeError) -> String {
    let why = match error {
        _ if error.is_authorization_required() => {
            "it wants another Authorization; set it in its `headers`".to_owned()
        }
        ClientInitializeError::TransportError { error, .. } => http::innermost(&*error.error),
        other => other.to_string(),
    };
    format!("cannot be reached: {why}")
}

/// Why a program is no server.
fn not_served(command: &str, error: &ClientInitializeError) -> String {
    match error {
        // Whether it is gone is noticed by listening or by speaking.
        ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. } => {
            format!("does not start: `{command}` ended before it said anything")
        }
        other => format!("does not start: {other}"),
    }
}

fn rest(failures: u32) -> Duration {
    (FIRST_REST * 2_u32.saturating_pow(failures.saturating_sub(1).min(16))).min(LONGEST_REST)
}

/// The first death is forgiven.
fn pause(failures: u32) -> Duration {
    match failures {
        0 | 1 => Duration::ZERO,
        more => (FIRST_PAUSE * 2_u32.saturating_pow((more - 2).min(16))).min(LONGEST_PAUSE),
    }
}
