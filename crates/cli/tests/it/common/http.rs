//! A server that is running, and what it answers to bytes as they are.

use super::Place;
use serde_json::Value;
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    process::{Child, ChildStderr, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

/// `lango serve` on a port of its own; it ends with the test.
pub(crate) struct Running {
    child: Child,
    pub(crate) address: SocketAddr,
    /// The path of the link that it printed.
    pub(crate) link: String,
    said: Arc<Mutex<String>>,
}

impl Running {
    pub(crate) fn start(place: &Place, more: &[&str]) -> Self {
        let port = if more.contains(&"--port") { vec![] } else { vec!["--port", "0"] };
        let mut command = place.command(["serve"].iter().chain(&port).chain(more));
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let (mut address, mut link) = (None, None);
        let mut said = String::new();
        while link.is_none() {
            let begin = said.len();
            assert!(lines.read_line(&mut said).unwrap() > 0, "it ended: {said}");
            let line = said[begin..].trim();
            let url = |line: &str| line.split_once("://").unwrap().1.split(' ').next().unwrap().to_owned();
            match line.split_once(' ') {
                Some(("listening", _)) => address = Some(url(line).parse().unwrap()),
                Some(("open", _)) => link = url(line).split_once('/').map(|(_, path)| format!("/{path}")),
                Some(_) | None => {}
            }
        }
        let said = Arc::new(Mutex::new(said));
        listen(lines, Arc::clone(&said));
        Self { child, address: address.unwrap(), link: link.unwrap(), said }
    }

    /// All that it has written since it began.
    pub(crate) fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    /// Waits until it has said this, and answers with all that it has said by then.
    #[track_caller]
    pub(crate) fn says(&self, text: &str) -> String {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let said = self.said();
            if said.contains(text) {
                return said;
            }
            assert!(Instant::now() < deadline, "{text:?} was not said; this was:\n{said}");
            std::thread::yield_now();
        }
    }

    pub(crate) fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.ask("GET", path, headers, b"")
    }

    pub(crate) fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
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

    /// Sends bytes and reads to the end.
    pub(crate) fn raw(&self, request: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        // A server that has heard enough may close its ear before all is said.
        let _ = stream.write_all(request);
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        Answer::parse(&bytes)
    }
}

fn listen(mut lines: BufReader<ChildStderr>, said: Arc<Mutex<String>>) {
    std::thread::spawn(move || {
        let mut line = String::new();
        while lines.read_line(&mut line).is_ok_and(|count| count > 0) {
            said.lock().unwrap().push_str(&line);
            line.clear();
        }
    });
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Self { status, head: head.to_owned(), body: body.to_owned() }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let pairs = self.head.lines().filter_map(|line| line.split_once(':'));
        pairs.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next()
    }

    /// Its body, which may have come in pieces.
    pub(crate) fn json(&self) -> Value {
        let begin = self.body.find(['{', '[', '"', 'n']).unwrap_or(0);
        let mut values = serde_json::Deserializer::from_str(&self.body[begin..]).into_iter();
        values
            .next()
            .unwrap_or_else(|| panic!("{self:?}"))
            .unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn detail(&self) -> String {
        self.json()["detail"].as_str().unwrap_or_default().to_owned()
    }
}
