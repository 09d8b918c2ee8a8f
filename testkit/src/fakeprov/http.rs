//! A minimal HTTP/1.1 server connection: fault injection needs control over every byte and the end of the connection.

use serde_json::{Value, json};
use std::{fmt::Write as _, io, time::Duration};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time,
};

#[derive(Debug)]
pub(super) struct FakeRequest {
    pub(super) method: String,
    /// Path and query.
    pub(super) target: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl FakeRequest {
    pub(super) fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn json(&self) -> Value {
        match serde_json::from_slice(&self.body) {
            Ok(value) => value,
            Err(_) if self.body.is_empty() => Value::Null,
            Err(_) => json!({"_raw": String::from_utf8_lossy(&self.body)}),
        }
    }

    /// The API key of the request: from a header, or from the query.
    pub(super) fn key(&self) -> &str {
        let in_header = ["authorization", "x-api-key", "x-goog-api-key", "api-key"];
        let in_query = || self.target.split(['?', '&']).find_map(|pair| pair.strip_prefix("key="));
        let key = in_header.into_iter().find_map(|name| self.header(name)).or_else(in_query);
        let key = key.unwrap_or("(none)");
        key.strip_prefix("Bearer ").unwrap_or(key)
    }
}

/// A response that is sent at once, not streamed.
pub(super) struct FakeReply {
    pub(super) status: u16,
    pub(super) content_type: &'static str,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: String,
}

impl FakeReply {
    pub(super) fn json(status: u16, body: &Value) -> Self {
        Self { status, content_type: "application/json", headers: Vec::new(), body: body.to_string() }
    }

    pub(super) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.retain(|(other, _)| *other != name);
        self.headers.push((name, value.into()));
        self
    }
}

#[derive(Debug)]
pub(super) struct FakeConnection {
    stream: TcpStream,
    unread: Vec<u8>,
}

impl FakeConnection {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream, unread: Vec::new() }
    }

    /// Reads the next request; an error once the client has closed the connection.
    pub(super) async fn request(&mut self) -> io::Result<FakeRequest> {
        let head = self.take_through(b"\r\n\r\n").await?;
        let head = String::from_utf8_lossy(&head);
        let mut lines = head.split("\r\n");
        let mut words = lines.next().unwrap_or_default().split(' ').map(str::to_owned);
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let header = |line: &str| {
            line.split_once(':').map(|(name, value)| (name.trim().to_lowercase(), value.trim().to_owned()))
        };
        let mut request =
            FakeRequest { method, target, headers: lines.filter_map(header).collect(), body: Vec::new() };
        let length = request.header("content-length").and_then(|length| length.parse().ok());
        if let Some(length) = length {
            request.body = self.take(length).await?;
        } else if request.header("transfer-encoding") == Some("chunked") {
            request.body = self.take_chunks().await?;
        }
        Ok(request)
    }

    async fn take_chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.take_through(b"\r\n").await?;
            let length = usize::from_str_radix(String::from_utf8_lossy(&line).trim(), 16);
            let length = length.map_err(|_| io::ErrorKind::InvalidData)?;
            body.extend(self.take(length).await?);
            self.take(2).await?;
            if length == 0 {
                return Ok(body);
            }
        }
    }

    async fn take_through(&mut self, mark: &[u8]) -> io::Result<Vec<u8>> {
        loop {
            if let Some(at) = self.unread.windows(mark.len()).position(|window| window == mark) {
                return self.take(at + mark.len()).await;
            }
            self.read_more().await?;
        }
    }

    async fn take(&mut self, length: usize) -> io::Result<Vec<u8>> {
        while self.unread.len() < length {
            self.read_more().await?;
        }
        let rest = self.unread.split_off(length);
        Ok(std::mem::replace(&mut self.unread, rest))
    }

    async fn read_more(&mut self) -> io::Result<()> {
        match self.stream.read_buf(&mut self.unread).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    pub(super) async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    pub(super) async fn reply(&mut self, reply: &FakeReply) -> io::Result<()> {
        let mut head = format!(
            "HTTP/1.1 {} X\r\ncontent-type: {}\r\ncontent-length: {}\r\n",
            reply.status,
            reply.content_type,
            reply.body.len()
        );
        for (name, value) in &reply.headers {
            // Writing to a string cannot fail.
            let _ = write!(head, "{name}: {value}\r\n");
        }
        self.send(format!("{head}\r\n{}", reply.body).as_bytes()).await
    }

    /// Sends one chunk in one write.
    pub(super) async fn chunk(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.send(&[format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()).await
    }

    /// Sends nothing for `length`. Fails if the client disconnects meanwhile.
    pub(super) async fn pause(&mut self, length: Duration) -> io::Result<()> {
        time::timeout(length, self.until_disconnected()).await.unwrap_or(Ok(()))
    }

    /// Waits until the client disconnects, and returns that error.
    pub(super) async fn until_disconnected(&mut self) -> io::Result<()> {
        loop {
            self.read_more().await?;
        }
    }

    /// Makes closing the connection send a reset.
    pub(super) fn reset(&self) -> io::Result<()> {
        self.stream.set_zero_linger()
    }
}
