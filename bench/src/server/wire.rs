//! An HTTP client with little overhead: one keep-alive connection, no library.

use crate::Result;
use serde_json::{Value, json};
use std::net::SocketAddr;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};

/// The app of every session that is measured.
pub(super) const APP: &str = "bench";

#[derive(Clone, Debug)]
pub(super) struct BenchSession {
    pub(super) user: String,
    pub(super) id: String,
}

impl BenchSession {
    pub(super) fn new(user: impl Into<String>, id: impl Into<String>) -> Self {
        Self { user: user.into(), id: id.into() }
    }

    pub(super) fn path(&self) -> String {
        format!("/apps/{APP}/users/{}/sessions/{}", self.user, self.id)
    }

    pub(super) fn message(&self, text: &str) -> Value {
        json!({
            "appName": APP, "userId": self.user, "sessionId": self.id,
            "newMessage": {"role": "user", "parts": [{"text": text}]},
        })
    }
}

pub(super) struct Connection {
    address: SocketAddr,
    stream: BufReader<TcpStream>,
}

#[derive(Debug)]
pub(super) struct HttpAnswer {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

/// The framing of a body, from the head of the response.
enum Length {
    Known(usize),
    Chunked,
}

impl Connection {
    pub(super) async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { address, stream: BufReader::with_capacity(1024, stream) })
    }

    pub(super) async fn request(
        &mut self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<HttpAnswer> {
        let (status, length) = self.begin(method, path, body).await?;
        let mut answer = HttpAnswer { status, body: Vec::new() };
        match length {
            Length::Known(length) => {
                answer.body.resize(length, 0);
                self.stream.read_exact(&mut answer.body).await?;
            }
            Length::Chunked => while self.chunk(&mut answer.body).await? {},
        }
        Ok(answer)
    }

    /// Reads and discards a chunked body, and returns its length.
    pub(super) async fn body_length(&mut self, path: &str) -> Result<usize> {
        let (status, length) = self.begin("GET", path, None).await?;
        let (Length::Chunked, 200) = (length, status) else {
            return Err(format!("{path} answered {status}, or without chunked encoding").into());
        };
        let (mut total, mut buffer) = (0, Vec::new());
        while self.chunk(&mut buffer).await? {
            total += buffer.len();
            buffer.clear();
        }
        Ok(total)
    }

    /// Requests an event stream and reads only the head of the response.
    pub(super) async fn open_stream(&mut self, path: &str) -> Result<()> {
        match self.begin("GET", path, None).await?.0 {
            200 => Ok(()),
            status => Err(format!("{path} answered {status}").into()),
        }
    }

    async fn begin(&mut self, method: &str, path: &str, body: Option<&Value>) -> Result<(u16, Length)> {
        let body = body.map(ToString::to_string).unwrap_or_default();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        self.stream.write_all(request.as_bytes()).await?;
        self.head().await
    }

    async fn head(&mut self) -> Result<(u16, Length)> {
        let status = self.line().await?.split(' ').nth(1).and_then(|code| code.parse().ok());
        let mut length = Length::Known(0);
        loop {
            let line = self.line().await?.to_ascii_lowercase();
            match line.split_once(':') {
                Some(("content-length", number)) => length = Length::Known(number.trim().parse()?),
                Some(("transfer-encoding", _)) => length = Length::Chunked,
                Some(_) => {}
                None => return Ok((status.ok_or("no status")?, length)),
            }
        }
    }

    /// Appends the next chunk of a body; returns `false` for the last chunk, which is empty.
    async fn chunk(&mut self, body: &mut Vec<u8>) -> Result<bool> {
        let length = usize::from_str_radix(self.line().await?.trim(), 16)?;
        let before = body.len();
        body.resize(before + length + 2, 0);
        self.stream.read_exact(&mut body[before..]).await?;
        body.truncate(before + length);
        Ok(length > 0)
    }

    async fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line).await? == 0 {
            return Err("the server closed the connection".into());
        }
        line.truncate(line.trim_end().len());
        Ok(line)
    }

    pub(super) async fn create_session(&mut self, session: &BenchSession) -> Result<()> {
        let path = format!("/apps/{APP}/users/{}/sessions", session.user);
        self.request("POST", &path, Some(&json!({"sessionId": session.id}))).await?.success().map(drop)
    }

    /// Sends one message and reads the events of its run.
    pub(super) async fn turn(&mut self, session: &BenchSession) -> Result<()> {
        let message = session.message("What is the weather like in Paris?");
        let answer = self.request("POST", "/run_sse", Some(&message)).await?;
        let events = answer.success()?;
        if events.contains("\"error\"") || !events.contains("no rain before the evening") {
            return Err(format!("the answer is {events}").into());
        }
        Ok(())
    }
}

impl HttpAnswer {
    pub(super) fn success(self) -> Result<String> {
        let body = String::from_utf8(self.body)?;
        if self.status < 300 { Ok(body) } else { Err(format!("{}: {body}", self.status).into()) }
    }
}
