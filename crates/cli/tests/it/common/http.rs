//! A `lango serve` process with authentication, and its responses to raw requests.

use super::TestEnv;
use serde_json::Value;
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    process::{Child, ChildStderr, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

/// `lango serve` on a free port. Dropping it kills the process.
pub(crate) struct AuthServer {
    child: Child,
    pub(crate) address: SocketAddr,
    /// The path of the printed login link.
    pub(crate) link: String,
    log: Arc<Mutex<String>>,
}

impl AuthServer {
    pub(crate) fn start(env: &TestEnv, more: &[&str]) -> Self {
        Self::start_with(env, more, &[])
    }

    /// Like [`start`](Self::start), with further environment variables.
    pub(crate) fn start_with(env: &TestEnv, more: &[&str], variables: &[(&str, &str)]) -> Self {
        let port = if more.contains(&"--port") { vec![] } else { vec!["--port", "0"] };
        // Without a web page there is no login link.
        env.file("page/index.html", "a page");
        let mut command = env.command(["serve", "--dev-ui", "page"].iter().chain(&port).chain(more));
        command.envs(variables.iter().copied());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let (mut address, mut link) = (None, None);
        let mut log = String::new();
        while link.is_none() {
            let begin = log.len();
            assert!(lines.read_line(&mut log).unwrap() > 0, "it ended: {log}");
            let line = log[begin..].trim();
            let url = |line: &str| line.split_once("://").unwrap().1.split(' ').next().unwrap().to_owned();
            match line.split_once(' ') {
                Some(("listening", _)) => address = Some(url(line).parse().unwrap()),
                Some(("open", _)) => link = url(line).split_once('/').map(|(_, path)| format!("/{path}")),
                Some(_) | None => {}
            }
        }
        let log = Arc::new(Mutex::new(log));
        listen(lines, Arc::clone(&log));
        Self { child, address: address.unwrap(), link: link.unwrap(), log }
    }

    /// The log since the start.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// The resident memory of the process, in bytes; `None` if it has ended.
    pub(crate) fn memory(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
    }

    /// Waits until the log contains `text`, and returns the log.
    #[track_caller]
    pub(crate) fn wait_for_log(&self, text: &str) -> String {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let log = self.log();
            if log.contains(text) {
                return log;
            }
            assert!(Instant::now() < deadline, "{text:?} was not log; this was:\n{log}");
            std::thread::yield_now();
        }
    }

    pub(crate) fn get(&self, path: &str, headers: &[(&str, &str)]) -> HttpResponse {
        self.request("GET", path, headers, b"")
    }

    pub(crate) fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> HttpResponse {
        let mut head = vec![format!("{method} {path} HTTP/1.1"), "connection: close".to_owned()];
        if !headers.iter().any(|(name, _)| *name == "host") {
            head.push(format!("host: {}", self.address));
        }
        if !body.is_empty() {
            head.push(format!("content-type: application/json\r\ncontent-length: {}", body.len()));
        }
        head.extend(headers.iter().map(|(name, value)| format!("{name}: {value}")));
        self.raw(&[head.join("\r\n").as_bytes(), b"\r\n\r\n", body].concat())
    }

    /// Sends raw bytes and reads the response to its end.
    pub(crate) fn raw(&self, request: &[u8]) -> HttpResponse {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        // The server may close the connection before it has read the whole request.
        let _ = stream.write_all(request);
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        HttpResponse::parse(&bytes)
    }
}

fn listen(mut lines: BufReader<ChildStderr>, log: Arc<Mutex<String>>) {
    std::thread::spawn(move || {
        let mut line = String::new();
        while lines.read_line(&mut line).is_ok_and(|count| count > 0) {
            log.lock().unwrap().push_str(&line);
            line.clear();
        }
    });
}

impl Drop for AuthServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Debug)]
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl HttpResponse {
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        let response = Self { status, head: head.to_owned(), body: body.to_owned() };
        match response.header("transfer-encoding") {
            Some("chunked") => Self { body: join_chunks(body.as_bytes()), ..response },
            _ => response,
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let pairs = self.head.lines().filter_map(|line| line.split_once(':'));
        pairs.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn detail(&self) -> String {
        self.json()["detail"].as_str().unwrap_or_default().to_owned()
    }
}

/// The content of a chunked body, up to its last complete chunk.
fn join_chunks(mut rest: &[u8]) -> String {
    let mut content = Vec::new();
    while let Some(end) = rest.windows(2).position(|pair| pair == b"\r\n") {
        let size =
            std::str::from_utf8(&rest[..end]).ok().and_then(|size| usize::from_str_radix(size, 16).ok());
        let Some(chunk) = size.filter(|size| *size > 0).and_then(|size| rest.get(end + 2..end + 2 + size))
        else {
            break;
        };
        content.extend_from_slice(chunk);
        rest = rest.get(end + 2 + chunk.len() + 2..).unwrap_or_default();
    }
    String::from_utf8_lossy(&content).into_owned()
}
