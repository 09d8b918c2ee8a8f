//! The providers' HTTP APIs on loopback, with faults: every answer that a client must survive, byte for byte as asked.
//!
//! The scenario is part of the base URL, `http://127.0.0.1:PORT/s/<scenario>`; the API is picked by how the path ends
//! (see [`ProviderApi::path`]). Every request is kept and can be read by [`Fake::requests`] or `GET /log`.
//! A request that ends with a tool's result gets text in the scenarios that otherwise call tools, so that a run can end.
//!
//! | scenario | what is served |
//! |---|---|
//! | `ok` | a whole answer: thinking with its signature, text, two parallel calls with split arguments, usage |
//! | `text`, `think` | text alone; thinking with its signature, then text |
//! | `two` | `ok`, and `think` once the calls are answered: for round trips |
//! | `slowtext` | text in a hundred small deltas, 10 ms apart; `slowtext-250` has 250 ms between them |
//! | `bytes1`, `crlf`, `nospace` | `ok` with one byte per write and HTTP chunk; with CRLF; with `data:{` |
//! | `comment` | `ok` with `: keep-alive` between the events; in NDJSON blank lines |
//! | `noblank` | `ok` without the blank line after the last event; in NDJSON without the last line's end |
//! | `big` | `ok` with a 4 MB delta in one line, sent in pieces of 16 KB |
//! | `sameidx` | both calls at one index, one after the other; Gemini: both in one chunk |
//! | `gapidx` | calls at indexes with gaps before and between; Gemini: an empty part between them |
//! | `noid`, `sameid` | calls without ids; both calls with the same id |
//! | `nodone` | the end mark never comes. OpenAI chat and Anthropic have given the reason by then, so the answer is whole; in the other APIs the mark is the reason, so whole calls are cut off |
//! | `trunc`, `trunctext` | a clean HTTP end inside the arguments (Gemini, Ollama: after the first call); after the text |
//! | `cut`, `drop` | as `trunc`, but the connection is closed, or reset, inside the chunked body |
//! | `errmid` | an error event in mid-stream |
//! | `badjson` | a line that is not JSON, then the rest of `ok` |
//! | `badargs` | arguments that are not JSON in a whole stream; Gemini: `MALFORMED_FUNCTION_CALL`; Ollama: a string |
//! | `length` | cut by the token limit inside the arguments; Gemini, Ollama: after the text |
//! | `refuse`, `refuse0` | the provider refuses to go on after some text; before the first word |
//! | `empty`, `html`, `json200` | 200 without events; with a web page; with a JSON error |
//! | `hang`, `hanghead` | silence after some events; no head at all: until the client goes away |
//! | `r429`, `r429ms`, `r429date` | rate limit with `Retry-After: 7`; with `retry-after-ms: 1500` (Gemini: in the body); with a date 7 s after `Date`, long ago |
//! | `quota`, `ctx400`, `auth401`, `bad400`, `r500`, `r503`, `o529` | the failure of that name |
//! | `flaky` | 429, then 503, then `ok`; counted per path |
//! | `ctxonce` | context too long, then `ok`; counted per path |
//! | `echokey`, `echokey200` | 401 that repeats the key it got; the same as an error in mid-stream |
//! | `redirect` | 302 to another host name, which is this server too: what follows is seen in the log |

mod anthropic;
mod failure;
mod gemini;
mod http;
mod log;
mod models;
mod ollama;
mod openai;
mod play;
mod responses;
mod script;
mod server;

pub use log::Received;

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
];

/// Scenarios that have no meaning in an API: Ollama gives every call the index 0, has no `data:` and refuses nothing.
const SERVED_AS_OK: &[(ProviderApi, &str)] = &[
    (ProviderApi::Ollama, "sameidx"),
    (ProviderApi::Ollama, "nospace"),
    (ProviderApi::Ollama, "refuse"),
    (ProviderApi::Ollama, "refuse0"),
];

/// Whether the scenario is anything but `ok` in this API.
pub fn differs(api: ProviderApi, scenario: &str) -> bool {
    scenario != "ok" && !SERVED_AS_OK.contains(&(api, scenario))
}

/// A running server on its own port. It ends when this is dropped, with every connection that it holds.
#[derive(Debug)]
pub struct Fake {
    port: u16,
    log: Arc<RequestLog>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

#[expect(clippy::expect_used, reason = "a test without its server cannot go on")]
impl Fake {
    /// Runs in the caller's runtime, and by its clock.
    pub async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port on loopback");
        let port = listener.local_addr().expect("an address that was bound").port();
        let (log, (stop, stopped)) = (Arc::default(), oneshot::channel());
        tokio::spawn(server::serve(listener, Arc::clone(&log), stopped));
        Self { port, log, stop: Some(stop), thread: None }
    }

    /// Runs in a thread of its own, for tests that are not async.
    pub fn start_blocking() -> Self {
        Self::on_port(0).expect("a free port on loopback")
    }

    /// As [`until`](Self::until), for tests that are not async.
    pub fn until_blocking(&self, wanted: impl FnMut(&[Received]) -> bool) {
        let runtime = runtime::Builder::new_current_thread().build().expect("a runtime without drivers");
        runtime.block_on(self.until(wanted));
    }
}

impl Fake {
    /// Runs in a thread of its own on the given port; 0 picks one.
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

    /// The base URL under which the scenario is served.
    pub fn url(&self, scenario: &str) -> String {
        format!("http://127.0.0.1:{}/s/{scenario}", self.port)
    }

    /// What was received so far, oldest first.
    pub fn requests(&self) -> Vec<Received> {
        self.log.requests()
    }

    /// Forgets the requests and the counts of `flaky` and `ctxonce`.
    pub fn clear(&self) {
        self.log.clear();
    }

    /// Waits until the requests are as wanted, such as one that the client has left.
    pub async fn until(&self, wanted: impl FnMut(&[Received]) -> bool) {
        self.log.until(wanted).await;
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // A panic in it was printed, and has ended the connection of the test that now fails.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
