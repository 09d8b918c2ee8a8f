//! FakeProvider servers for the providers' HTTP APIs on loopback, with injected faults, exact to the byte.
//!
//! The scenario is part of the base URL, `http://127.0.0.1:PORT/s/<scenario>`; the suffix of the path selects the API
//! (see [`ProviderApi::path`]). All requests are recorded: [`FakeProvider::requests`] or `GET /log` returns them.
//! If a request ends with a tool result, scenarios with tool calls answer with text, so that a run can end.
//!
//! | scenario | response |
//! |---|---|
//! | `ok` | a complete answer: thinking with its signature, text, two parallel calls with split arguments, usage |
//! | `text`, `think` | only text; thinking with its signature, then text |
//! | `two` | `ok`, and `think` after the tool results: for round trips |
//! | `slowtext` | text in a hundred small deltas, 10 ms apart; `slowtext-250` has 250 ms between them |
//! | `bytes1`, `crlf`, `nospace` | `ok` with one byte per write and HTTP chunk; with CRLF; with `data:{` |
//! | `comment` | `ok` with `: keep-alive` between the events; in NDJSON blank lines |
//! | `noblank` | `ok` without the blank line after the last event; in NDJSON without the last line break |
//! | `big` | `ok` with a 4 MB delta in one line, sent in chunks of 16 KB |
//! | `sameidx` | both calls at one index, one after the other; Gemini: both in one chunk |
//! | `gapidx` | calls at indexes with gaps before and between; Gemini: an empty part between them |
//! | `noid`, `sameid` | calls without ids; both calls with the same id |
//! | `nodone` | the end marker is missing. OpenAI chat and Anthropic send the finish reason before it, so the answer is complete; in the other APIs the marker carries the finish reason, so the answer is truncated after complete calls |
//! | `trunc`, `trunctext` | the HTTP body ends regularly inside the arguments (Gemini, Ollama: after the first call); after the text |
//! | `cut`, `drop` | as `trunc`, but the connection is closed, or reset, before the last chunk |
//! | `errmid` | an error event in the middle of the stream |
//! | `badjson` | a line that is not JSON, then the rest of `ok` |
//! | `badargs` | arguments that are not JSON, in a complete stream; Gemini: `MALFORMED_FUNCTION_CALL`; Ollama: a string |
//! | `length` | truncated by the token limit inside the arguments; Gemini, Ollama: after the text |
//! | `refuse`, `refuse0` | a refusal after some text; before any text |
//! | `empty`, `html`, `json200` | status 200 without events; with an HTML page; with a JSON error |
//! | `hang`, `hanghead` | sends nothing more after some events; not even the head; until the client disconnects |
//! | `r429`, `r429ms`, `r429date` | rate limit with `Retry-After: 7`; with `retry-after-ms: 1500` (Gemini: in the body); with a date 7 s after `Date`, both in the past |
//! | `quota`, `ctx400`, `auth401`, `bad400`, `r500`, `r503`, `o529` | quota exceeded, context too long, invalid key, invalid request, the statuses 500, 503 and 529 |
//! | `flaky` | 429, then 503, then `ok`; counted per path |
//! | `ctxonce` | context too long, then `ok`; counted per path |
//! | `echokey`, `echokey200` | status 401 with the API key in the message; the same as an error event in the stream |
//! | `nothing`, `thinkonly`, `length0` | a complete answer without content; with reasoning only; the token limit before any content |
//! | `oddtypes` | `ok` with token counts as floats, texts or negative numbers, and indexes as texts |
//! | `badbyte`, `surrogates` | `text` with a byte that is not UTF-8; with a surrogate pair split over two deltas |
//! | `choices` | `text` with a second choice or candidate |
//! | `eof1` | the body ends inside the first line |
//! | `errthought`, `bareerror` | an error event after reasoning; an error object without an object around it |
//! | `redirect` | status 302 to another host name of this server, so that the log records a followed redirect |

mod anthropic;
mod failure;
mod gemini;
mod http;
mod log;
mod models;
mod odd;
mod ollama;
mod openai;
mod play;
mod responses;
mod script;
mod server;

pub use log::{Received, Rejection};

use self::log::RequestLog;
use crate::ProviderApi;
use std::{io, net::TcpListener as StdListener, sync::Arc, thread};
use tokio::{net::TcpListener, runtime, sync::oneshot};

/// Every scenario, by its name in the URL.
pub const SCENARIOS: &[&str] = &[
    "ok",
    "text",
    "think",
    "two",
    "slowtext",
    "bytes1",
    "crlf",
    "nospace",
    "comment",
    "noblank",
    "big",
    "sameidx",
    "gapidx",
    "noid",
    "sameid",
    "nodone",
    "trunc",
    "trunctext",
    "cut",
    "drop",
    "errmid",
    "badjson",
    "badargs",
    "length",
    "refuse",
    "refuse0",
    "empty",
    "html",
    "json200",
    "hang",
    "hanghead",
    "r429",
    "r429ms",
    "r429date",
    "quota",
    "ctx400",
    "auth401",
    "bad400",
    "r500",
    "r503",
    "o529",
    "flaky",
    "ctxonce",
    "echokey",
    "echokey200",
    "redirect",
    "nothing",
    "thinkonly",
    "length0",
    "oddtypes",
    "badbyte",
    "surrogates",
    "choices",
    "eof1",
    "errthought",
    "bareerror",
];

/// Scenarios that an API cannot express: Ollama sends index 0 for every call, has no `data:` prefix and no refusals.
const SERVED_AS_OK: &[(ProviderApi, &str)] = &[
    (ProviderApi::Ollama, "sameidx"),
    (ProviderApi::Ollama, "nospace"),
    (ProviderApi::Ollama, "refuse"),
    (ProviderApi::Ollama, "refuse0"),
    (ProviderApi::Ollama, "bareerror"),
    (ProviderApi::Gemini, "bareerror"),
    (ProviderApi::Anthropic, "choices"),
    (ProviderApi::Responses, "choices"),
    (ProviderApi::Ollama, "choices"),
];

/// Whether the response to the scenario differs from `ok` in this API.
pub fn differs(api: ProviderApi, scenario: &str) -> bool {
    scenario != "ok" && !SERVED_AS_OK.contains(&(api, scenario))
}

/// The events of a scenario, as the bytes that the server sends for each.
pub fn recorded_events(api: ProviderApi, scenario: &str) -> Vec<Vec<u8>> {
    script::script(api, scenario, "").iter().map(|event| play::encode(api, scenario, event)).collect()
}

/// A running server on its own port. Dropping it stops the server and closes its connections.
#[derive(Debug)]
pub struct FakeProvider {
    port: u16,
    log: Arc<RequestLog>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

#[expect(clippy::expect_used, reason = "a test cannot run without its server")]
impl FakeProvider {
    /// Starts a server on the caller's runtime, with its clock.
    pub async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port on loopback");
        let port = listener.local_addr().expect("an address that was bound").port();
        let (log, (stop, stopped)) = (Arc::default(), oneshot::channel());
        tokio::spawn(server::serve(listener, Arc::clone(&log), stopped));
        Self { port, log, stop: Some(stop), thread: None }
    }

    /// Starts a server in its own thread, for tests that are not async.
    pub fn start_blocking() -> Self {
        Self::on_port(0).expect("a free port on loopback")
    }

    /// Like [`until`](Self::until), for tests that are not async.
    pub fn until_blocking(&self, wanted: impl FnMut(&[Received]) -> bool) {
        let runtime = runtime::Builder::new_current_thread().build().expect("a runtime without drivers");
        runtime.block_on(self.until(wanted));
    }
}

impl FakeProvider {
    /// Starts a server in its own thread on the given port; 0 selects a free one.
    pub fn on_port(port: u16) -> io::Result<Self> {
        let listener = StdListener::bind(("127.0.0.1", port))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let (log, (stop, stopped)) = (Arc::default(), oneshot::channel());
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _inside = runtime.enter();
            TcpListener::from_std(listener)?
        };
        let served = server::serve(listener, Arc::clone(&log), stopped);
        let thread = thread::spawn(move || runtime.block_on(served));
        Ok(Self { port, log, stop: Some(stop), thread: Some(thread) })
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The base URL of the scenario.
    pub fn url(&self, scenario: &str) -> String {
        format!("http://127.0.0.1:{}/s/{scenario}", self.port)
    }

    /// Adds a scenario that rejects some requests and answers all others like `text`.
    pub fn reject(&self, scenario: &str, rejection: Rejection) {
        self.log.reject(scenario, rejection);
    }

    /// The requests received so far, oldest first.
    pub fn requests(&self) -> Vec<Received> {
        self.log.requests()
    }

    /// Clears the requests and the counts of `flaky` and `ctxonce`.
    pub fn clear(&self) {
        self.log.clear();
    }

    /// Waits until the received requests satisfy `wanted`.
    pub async fn until(&self, wanted: impl FnMut(&[Received]) -> bool) {
        self.log.until(wanted).await;
    }
}

impl Drop for FakeProvider {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread is already printed and has closed the connection, so the test fails anyway.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
