//! A `lango serve` process, and an HTTP client on plain TCP.

use crate::common::TestEnv;
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};
use testkit::sse::SseBuffer;
pub(crate) use testkit::sse::SseEvent;

/// Timeout, far longer than any step takes.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// A `lango serve --no-auth` process. Dropping it kills the process.
pub(crate) struct TestServer {
    process: Child,
    address: String,
    log: Arc<Mutex<String>>,
}

impl TestServer {
    pub(crate) fn start(env: &TestEnv) -> Self {
        Self::with(env, &[])
    }

    pub(crate) fn with(env: &TestEnv, args: &[&str]) -> Self {
        Self::spawn(env.command(["serve", "--port", "0", "--no-auth"]).args(args))
    }

    /// Starts the command and waits until it listens.
    pub(crate) fn spawn(command: &mut Command) -> Self {
        let mut process = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let mut log = String::new();
        let address = loop {
            let line = lines.next().unwrap().unwrap();
            log.extend([&line, "\n"]);
            if let Some(address) = line.strip_prefix("listening on http://") {
                break address.to_owned();
            }
        };
        let log = Arc::new(Mutex::new(log));
        let shared = Arc::clone(&log);
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let mut log = shared.lock().unwrap();
                log.push_str(&line);
                log.push('\n');
            }
        });
        Self { process, address, log }
    }

    /// Whether the script printed that it cannot start the server.
    pub(crate) fn could_not_mount(&self) -> bool {
        self.address == "nowhere"
    }

    /// The log since the start.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Waits until the log contains `text`.
    #[track_caller]
    pub(crate) fn wait_for_log(&self, text: &str) {
        let deadline = Instant::now() + TIMEOUT;
        while !self.log().contains(text) {
            assert!(Instant::now() < deadline, "{text:?} is not in the log:\n{}", self.log());
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// `kill -9`.
    pub(crate) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Sends SIGTERM.
    pub(crate) fn terminate(&self) {
        let pid = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    }

    /// Waits until the server accepts no more connections, after a signal to stop.
    #[track_caller]
    pub(crate) fn wait_closed(&self) {
        let deadline = Instant::now() + TIMEOUT;
        while TcpStream::connect(&self.address).is_ok() {
            assert!(Instant::now() < deadline, "it still listens");
            thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn wait(mut self) -> ExitStatus {
        self.process.wait().unwrap()
    }

    fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Option<&str>) -> Wire {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", self.address);
        head.extend(headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")));
        if let Some(body) = body {
            let length = body.len().to_string();
            head.extend(["Content-Type: application/json\r\nContent-Length: ", &length, "\r\n"]);
        }
        head += "\r\n";
        head += body.unwrap_or_default();
        stream.write_all(head.as_bytes()).unwrap();
        Wire::read_head(stream)
    }

    /// Sends a GET and reads nothing.
    pub(crate) fn get_unread(&self, path: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.address).unwrap();
        stream
    }

    pub(crate) fn request(&self, method: &str, path: &str, body: &Value) -> HttpResponse {
        self.request_with(method, path, &[], body)
    }

    pub(crate) fn request_with(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> HttpResponse {
        let body = if body.is_null() { None } else { Some(body.to_string()) };
        self.send(method, path, headers, body.as_deref()).answer()
    }

    pub(crate) fn request_raw(&self, method: &str, path: &str, body: &str) -> HttpResponse {
        self.send(method, path, &[], Some(body)).answer()
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        self.request("GET", path, &Value::Null).success()
    }

    /// The length of a large response body, and the number of occurrences of `what` in it.
    pub(crate) fn measure(&self, path: &str, what: &str) -> (usize, usize) {
        let mut wire = self.send("GET", path, &[], None);
        assert_eq!(wire.status, 200);
        let (mut bytes, mut count) = (0, 0);
        while let Some(chunk) = wire.chunk().unwrap() {
            bytes += chunk.len();
            count += chunk.matches(what).count();
        }
        (bytes, count)
    }

    /// The peak memory of the server, in bytes.
    pub(crate) fn peak_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }

    /// Creates a session and returns its path.
    pub(crate) fn create_session(&self, app: &str, id: &str) -> String {
        let sessions = format!("/apps/{app}/users/u/sessions");
        self.request("POST", &sessions, &json!({"sessionId": id})).success();
        format!("{sessions}/{id}")
    }

    /// Sends a message and returns all its events.
    pub(crate) fn send_message(&self, app: &str, session: &str, text: &str) -> HttpResponse {
        self.request("POST", "/run", &message(app, session, text))
    }

    /// Opens a stream of events.
    pub(crate) fn read_events(&self, path: &str, after: Option<&str>) -> Events {
        let headers: Vec<(&str, &str)> = after.iter().map(|id| ("Last-Event-ID", *id)).collect();
        Events::new(self.send("GET", path, &headers, None))
    }

    pub(crate) fn stream(&self, body: &Value) -> Events {
        Events::new(self.send("POST", "/run_sse", &[], Some(&body.to_string())))
    }

    /// Starts a run without waiting for its end, and returns its path.
    pub(crate) fn start_run(&self, session: &str, text: &str) -> String {
        let body = json!({"newMessage": {"role": "user", "parts": [{"text": text}]}, "streaming": true});
        let response = self.request("POST", &format!("{session}/runs"), &body);
        assert_eq!(response.status, 202, "{response:?}");
        format!("{session}/runs/{}", response.body["id"].as_str().unwrap())
    }

    /// Polls a path until `wanted` holds.
    #[track_caller]
    pub(crate) fn wait_until(&self, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let seen = self.get(path);
            if wanted(&seen) {
                return seen;
            }
            assert!(Instant::now() < deadline, "{path} stays {seen}");
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub(crate) fn message(app: &str, session: &str, text: &str) -> Value {
    json!({
        "appName": app, "userId": "u", "sessionId": session,
        "newMessage": {"role": "user", "parts": [{"text": text}]},
    })
}

/// One line for each event of a session.
pub(crate) fn lines(events: &Value) -> Vec<String> {
    let line = |event: &Value| {
        let parts = event["content"]["parts"].as_array().cloned().unwrap_or_default();
        let part = |part: &Value| match part {
            part if part["text"].is_string() => part["text"].as_str().unwrap().to_owned(),
            part if part["functionCall"].is_object() => {
                format!("→ {}", part["functionCall"]["name"].as_str().unwrap())
            }
            part => format!("← {}", part["functionResponse"]["name"].as_str().unwrap_or("?")),
        };
        let parts: Vec<String> = parts.iter().map(part).collect();
        format!("{}: {}", event["author"].as_str().unwrap(), parts.join(" | "))
    };
    events.as_array().unwrap().iter().map(line).collect()
}

/// A response whose body is being received.
struct Wire {
    status: u16,
    headers: Vec<(String, String)>,
    rest: BufReader<TcpStream>,
}

impl Wire {
    fn read_head(stream: TcpStream) -> Self {
        let mut rest = BufReader::new(stream);
        let mut line = || {
            let mut line = String::new();
            rest.read_line(&mut line).unwrap();
            line.trim_end().to_owned()
        };
        let status = line().split(' ').nth(1).unwrap().parse().unwrap();
        let mut headers = Vec::new();
        loop {
            let line = line();
            let Some((name, value)) = line.split_once(": ") else { break };
            headers.push((name.to_lowercase(), value.to_owned()));
        }
        Self { status, headers, rest }
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The next chunk of a chunked body; `None` at its end. A missing last chunk is an error.
    fn chunk(&mut self) -> std::io::Result<Option<String>> {
        let mut size = String::new();
        self.rest.read_line(&mut size)?;
        let size = usize::from_str_radix(size.trim(), 16)
            .map_err(|_| std::io::Error::from(std::io::ErrorKind::UnexpectedEof))?;
        let mut chunk = vec![0; size + 2];
        self.rest.read_exact(&mut chunk)?;
        chunk.truncate(size);
        Ok((size > 0).then(|| String::from_utf8(chunk).unwrap()))
    }

    fn answer(mut self) -> HttpResponse {
        let mut text = String::new();
        if self.header("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = self.chunk().unwrap() {
                text.push_str(&chunk);
            }
        } else {
            self.rest.read_to_string(&mut text).unwrap();
        }
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        HttpResponse { status: self.status, headers: self.headers, body }
    }
}

#[derive(Debug)]
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Value,
}

impl HttpResponse {
    #[track_caller]
    pub(crate) fn success(self) -> Value {
        assert_eq!(self.status, 200, "{self:?}");
        self.body
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// A stream of server-sent events. Dropping it closes the connection.
pub(crate) struct Events {
    pub(crate) status: u16,
    pub(crate) run: String,
    wire: Wire,
    read: SseBuffer,
}

impl Events {
    fn new(wire: Wire) -> Self {
        let run = wire.header("x-run-id").unwrap_or_default().to_owned();
        Self { status: wire.status, run, wire, read: SseBuffer::default() }
    }

    /// The next event; `None` at the end, or if the connection is lost.
    pub(crate) fn next(&mut self) -> Option<SseEvent> {
        if self.status != 200 {
            return None;
        }
        loop {
            if let Some(block) = self.read.next_block() {
                let Some(event) = SseEvent::parse(&block).unwrap() else { continue };
                return Some(event);
            }
            self.read.push(&self.wire.chunk().ok().flatten()?);
        }
    }

    pub(crate) fn all(mut self) -> Vec<SseEvent> {
        std::iter::from_fn(|| self.next()).collect()
    }
}
