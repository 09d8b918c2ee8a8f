//! One server: started when it is needed, started again when it died, and asked for its tools again when they change.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
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
    http,
    stdio::Program,
};
use crate::{Effect, Error, Host};

/// How long a server that does not start is left alone, at first and at most.
const FIRST_REST: Duration = Duration::from_secs(1);
const LONGEST_REST: Duration = Duration::from_mins(1);
/// The same for one that starts and dies.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A server that dies gets a moment to say why.
const LAST_WORDS: Duration = Duration::from_millis(100);

pub(super) struct Server {
    pub(super) config: ServerConfig,
    pub(super) ground: Ground,
    state: Mutex<State>,
    /// Grows with each list of tools.
    version: AtomicU64,
}

#[derive(Default)]
struct State {
    connection: Option<Arc<Connection>>,
    /// Of starts that failed, and of deaths, since something went well.
    failures: u32,
    /// What is wrong, and until when nothing else is tried.
    rests: Option<(String, Instant)>,
    problem: Option<String>,
    tools: Vec<rmcp::model::Tool>,
    is_listed: bool,
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
        Self { config, ground, state: Mutex::default(), version: AtomicU64::new(0) }
    }

    /// Which list of tools is the newest.
    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    /// The tools that it has, as far as it can be asked: one that died keeps its tools, and a call of one starts it again.
    pub(super) async fn tools(&self) -> Vec<rmcp::model::Tool> {
        let mut state = self.state.lock().await;
        let open = state.connection.clone().filter(|connection| connection.is_open());
        let has_news = open.is_some_and(|open| open.service.service().takes_note_of_other_tools());
        if !state.is_listed || has_news {
            let problem = self.list(&mut state).await.err();
            self.note(&mut state, problem);
        }
        state.tools.clone()
    }

    /// What is wrong with it now.
    pub(super) async fn problem(&self) -> Option<String> {
        self.state.lock().await.problem.clone()
    }

    async fn list(&self, state: &mut State) -> Result<(), String> {
        let connection = self.connected(state).await?;
        let limit = self.config.start_time;
        let listed = timeout(limit, connection.service.peer().list_all_tools()).await;
        let tools = match listed {
            Ok(Ok(tools)) => tools,
            Ok(Err(error)) => {
                let words = connection.last_words().await;
                return Err(self.named(&format!("does not list its tools: {error}{words}")));
            }
            Err(_) => {
                return Err(self.named(&format!("has not listed its tools within {} s", limit.as_secs())));
            }
        };
        if !state.is_listed || tools != state.tools {
            state.tools = tools;
            self.version.fetch_add(1, Ordering::Relaxed);
        }
        state.is_listed = true;
        Ok(())
    }

    /// Makes a call, again if that is safe.
    pub(super) async fn call(
        &self,
        (tool, effect): (&str, Effect),
        args: Map<String, Value>,
        host: &dyn Host,
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
        let mut state = self.state.lock().await;
        let made = self.connected(&mut state).await;
        let problem = made.as_ref().err().cloned();
        self.note(&mut state, problem);
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
                Ok(connection)
            }
            Err(why) => {
                let why = self.ground.mask.text(self.named(&why));
                state.failures += 1;
                state.rests = Some((why.clone(), Instant::now() + rest(state.failures)));
                Err(why)
            }
        }
    }

    async fn start(&self) -> Result<Connection, String> {
        let limit = self.config.start_time;
        match &self.config.link {
            Link::None(why) => Err(format!("is not used: {why}")),
            Link::Http { url, headers } => {
                let transport =
                    http::transport(url, headers).map_err(|why| format!("cannot be reached: {why}"))?;
                let served = timeout(limit, serve_client(Ears::default(), transport)).await;
                let service = served.map_err(|_| late(limit))?.map_err(|error| not_reached(&error))?;
                Ok(Connection { service, program: None })
            }
            Link::Stdio { command, args, env, cwd } => {
                let started = Program::start((command, args), env, cwd, &self.ground);
                let (program, output, input) = started.map_err(|why| format!("does not start: {why}"))?;
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
    fn note(&self, state: &mut State, problem: Option<String>) {
        let is_news = |problem: &String| state.problem.as_ref() != Some(problem);
        if let Some(problem) = problem.as_ref().filter(|problem| is_news(problem)) {
            (self.ground.tell)(problem);
        }
        state.problem = problem;
    }

    /// What a model is told of a call without an answer.
    pub(super) fn told(&self, trouble: Trouble, effect: Effect) -> Error {
        let unknown = match effect {
            Effect::Once => ", so its outcome is unknown: find out before you repeat it",
            Effect::ReadOnly | Effect::Idempotent => "; it may be repeated",
        };
        match trouble {
            Trouble::Cancelled => Error::Cancelled,
            Trouble::NotSent => Error::Failed(self.named("did not hear of the call")),
            Trouble::NoServer(why) => Error::Failed(why),
            Trouble::Refused(why) => Error::Failed(self.named(&format!("says: {why}"))),
            Trouble::Lost(why) => {
                Error::Failed(self.named(&format!("was lost during the call{unknown} ({why})")))
            }
            Trouble::TooLate(time) => {
                let time = time.as_secs_f64();
                Error::Failed(self.named(&format!("did not answer within {time} s{unknown}")))
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
