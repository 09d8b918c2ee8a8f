//! A fake MCP server over HTTP that can stop, restart, and drop its sessions.

use serde_json::{Value, json};
use std::{
    collections::HashSet,
    io::{BufRead, BufReader, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

pub(super) struct FakeMcpServer {
    pub(super) address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    is_closed: AtomicBool,
    /// Whether requests get no response.
    is_silent: AtomicBool,
    /// Whether an unknown session gets a custom error instead of 404.
    has_custom_session_error: AtomicBool,
    /// The required `Authorization` header, if any.
    authorization: Mutex<Option<String>>,
    sessions: Mutex<HashSet<String>>,
    made: AtomicUsize,
    tools: Mutex<Vec<Value>>,
    requests: Mutex<Vec<String>>,
    streams: Mutex<Vec<TcpStream>>,
    /// The open event streams for notifications.
    listeners: Mutex<Vec<TcpStream>>,
}

struct McpRequest {
    method: String,
    head: String,
    body: Value,
}

impl McpRequest {
    fn header(&self, name: &str) -> Option<&str> {
        let pairs = self.head.lines().filter_map(|line| line.split_once(':'));
        pairs.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next()
    }
}

impl FakeMcpServer {
    pub(super) fn start() -> Self {
        let names = ["echo", "hang", "die", "half", "who", "big", "stream"];
        let tool = |name| json!({"name": name, "inputSchema": {"type": "object"}});
        let shared = Shared { tools: Mutex::new(names.into_iter().map(tool).collect()), ..Shared::default() };
        let mut web = Self { address: ([127, 0, 0, 1], 0).into(), shared: Arc::new(shared), accepting: None };
        web.restart();
        web
    }

    /// A server that requires this `Authorization` header.
    pub(super) fn with_authorization(authorization: &str) -> Self {
        let web = Self::start();
        *web.shared.authorization.lock().unwrap() = Some(authorization.to_owned());
        web
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Closes all connections, like a killed process.
    pub(super) fn stop(&mut self) {
        self.shared.is_closed.store(true, Ordering::SeqCst);
        // Wakes the accepting thread.
        drop(TcpStream::connect(self.address));
        if let Some(accepting) = self.accepting.take() {
            accepting.join().unwrap();
        }
        self.shared.cut();
        self.drop_sessions();
    }

    /// Listens at the same address, without sessions.
    pub(super) fn restart(&mut self) {
        let listener = TcpListener::bind(self.address).unwrap();
        self.address = listener.local_addr().unwrap();
        self.shared.is_closed.store(false, Ordering::SeqCst);
        let shared = Arc::clone(&self.shared);
        self.accepting = Some(thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if shared.is_closed.load(Ordering::SeqCst) {
                    return;
                }
                shared.streams.lock().unwrap().push(stream.try_clone().unwrap());
                let shared = Arc::clone(&shared);
                thread::spawn(move || shared.serve(stream));
            }
        }));
    }

    /// Drops all sessions.
    pub(super) fn drop_sessions(&self) {
        self.shared.sessions.lock().unwrap().clear();
    }

    pub(super) fn set_silent(&self, silent: bool) {
        self.shared.is_silent.store(silent, Ordering::SeqCst);
    }

    pub(super) fn use_custom_session_error(&self) {
        self.shared.has_custom_session_error.store(true, Ordering::SeqCst);
    }

    pub(super) fn add_tool(&self, name: &str) {
        self.shared.tools.lock().unwrap().push(json!({"name": name, "inputSchema": {"type": "object"}}));
    }

    /// Sends `list_changed` to all event streams.
    pub(super) fn notify_tools_changed(&self) {
        let notification = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
        for listener in self.shared.listeners.lock().unwrap().iter_mut() {
            let _ = write!(listener, "data: {notification}\n\n");
        }
    }

    /// Waits until a request was received.
    #[track_caller]
    pub(super) fn wait_for_request(&self, what: &str) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while self.request_count(what) == 0 {
            assert!(Instant::now() < deadline, "{what} was not heard");
            thread::yield_now();
        }
    }

    /// The number of received requests of this kind.
    pub(super) fn request_count(&self, what: &str) -> usize {
        self.shared.requests.lock().unwrap().iter().filter(|request| *request == what).count()
    }
}

impl Drop for FakeMcpServer {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn cut(&self) {
        for stream in self.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn serve(&self, stream: TcpStream) {
        let mut reader = BufReader::new(stream);
        while let Some(request) = read(&mut reader) {
            let what = request.body["method"].as_str().unwrap_or(&request.method);
            let name = request.body["params"]["name"].as_str().unwrap_or_default();
            self.requests.lock().unwrap().push(format!("{what} {name}").trim_end().to_owned());
            if self.is_silent.load(Ordering::SeqCst) {
                continue;
            }
            let Some(answer) = self.answer(&request) else {
                return self.cut();
            };
            let sent = reader.get_mut().write_all(answer.as_bytes());
            if answer == STREAM {
                self.listeners.lock().unwrap().push(reader.get_mut().try_clone().unwrap());
            }
            if sent.is_err() || answer.contains("connection: close") {
                let _ = reader.get_mut().shutdown(Shutdown::Both);
                return;
            }
        }
    }

    /// Returns `None` to close all connections.
    fn answer(&self, request: &McpRequest) -> Option<String> {
        let wanted = self.authorization.lock().unwrap().clone();
        if wanted.is_some() && request.header("authorization") != wanted.as_deref() {
            return Some(status("401 Unauthorized\r\nwww-authenticate: Bearer"));
        }
        if request.method == "DELETE" {
            return Some(status("200 OK"));
        }
        let method = request.body["method"].as_str().unwrap_or_default();
        if method == "initialize" {
            let id = format!("s-{}", self.made.fetch_add(1, Ordering::SeqCst));
            self.sessions.lock().unwrap().insert(id.clone());
            let result = json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {"listChanged": true}}, "serverInfo": {"name": "web", "version": "1"}});
            return Some(result_of(request, &result, &format!("mcp-session-id: {id}\r\n")));
        }
        let is_known = |id: &str| self.sessions.lock().unwrap().contains(id);
        if !request.header("mcp-session-id").is_some_and(is_known) {
            let wordy = self.has_custom_session_error.load(Ordering::SeqCst);
            return Some(if wordy { no_session() } else { status("404 Not Found") });
        }
        if request.method == "GET" {
            return Some(STREAM.to_owned());
        }
        if request.body.get("id").is_none() {
            return Some(status("202 Accepted"));
        }
        let text = |text: &str| json!({"content": [{"type": "text", "text": text}]});
        let arguments = &request.body["params"]["arguments"];
        let result = match request.body["params"]["name"].as_str().unwrap_or_default() {
            "" => json!({"tools": *self.tools.lock().unwrap()}),
            "echo" => text(arguments["text"].as_str().unwrap_or_default()),
            "who" => text(request.header("authorization").unwrap_or("nobody")),
            "big" => text(&"a line\n".repeat(3_000_000)),
            "stream" => {
                let result = text(&"a line\n".repeat(3_000_000));
                let body = json!({"jsonrpc": "2.0", "id": request.body["id"], "result": result});
                return Some(format!("{EVENTS}: I begin\n\ndata: {body}\n\n"));
            }
            "hang" => return Some(String::new()),
            "half" => return Some(format!("{EVENTS}: I begin\n\n")),
            _ => return None,
        };
        Some(result_of(request, &result, ""))
    }
}

const STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
const EVENTS: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

/// The error of servers that use the TypeScript SDK.
fn no_session() -> String {
    let error = json!({"code": -32000, "message": "Bad Request: No valid session ID provided"});
    let body = json!({"jsonrpc": "2.0", "error": error, "id": null}).to_string();
    let head = "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json";
    format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

fn status(line: &str) -> String {
    format!("HTTP/1.1 {line}\r\ncontent-length: 0\r\n\r\n")
}

fn result_of(request: &McpRequest, result: &Value, headers: &str) -> String {
    let body = json!({"jsonrpc": "2.0", "id": request.body["id"], "result": result}).to_string();
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n{headers}content-length: {length}\r\n\r\n{body}"
    )
}

fn read(reader: &mut impl BufRead) -> Option<McpRequest> {
    let mut head = String::new();
    while reader.read_line(&mut head).ok()? > 2 {}
    let method = head.split(' ').next()?.to_owned();
    let mut request = McpRequest { method, head, body: Value::Null };
    if let Some(length) = request.header("content-length") {
        let mut body = vec![0; length.parse().ok()?];
        reader.read_exact(&mut body).ok()?;
        request.body = serde_json::from_slice(&body).ok()?;
    }
    Some(request)
}
