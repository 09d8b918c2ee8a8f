//! A blocking HTTP client that reads responses and event streams while they arrive. A truncated response is an error.

use serde_json::Value;
use std::{
    io::{self, BufRead, BufReader, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

#[derive(Clone, Copy, Debug)]
pub(crate) struct HttpRequest<'a> {
    pub(crate) method: &'static str,
    pub(crate) path: &'a str,
    pub(crate) headers: &'a [(&'static str, &'a str)],
    pub(crate) body: Option<&'a Value>,
}

impl<'a> HttpRequest<'a> {
    pub(crate) fn get(path: &'a str) -> Self {
        Self { method: "GET", path, headers: &[], body: None }
    }

    pub(crate) fn post(path: &'a str, body: &'a Value) -> Self {
        Self { method: "POST", path, headers: &[], body: Some(body) }
    }

    pub(crate) fn with(self, headers: &'a [(&'static str, &'a str)]) -> Self {
        Self { headers, ..self }
    }

    /// Sends the request and reads the head of the answer. `timeout` limits the connection and each read.
    pub(crate) fn send(&self, address: SocketAddr, timeout: Duration) -> io::Result<Answer> {
        let mut stream = TcpStream::connect_timeout(&address, timeout)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        stream.set_nodelay(true)?;
        let body = self.body.map(Value::to_string).unwrap_or_default();
        let mut head =
            format!("{} {} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n", self.method, self.path);
        head.extend(self.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")));
        if self.body.is_some() {
            let length = body.len().to_string();
            head.extend(["content-type: application/json\r\ncontent-length: ", &length, "\r\n"]);
        }
        head += "\r\n";
        stream.write_all((head + &body).as_bytes())?;
        Answer::read_head(BufReader::new(stream))
    }
}

fn truncated() -> io::Error {
    io::ErrorKind::UnexpectedEof.into()
}

fn malformed(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

/// An answer whose body has not been read.
#[derive(Debug)]
pub(crate) struct Answer<R = BufReader<TcpStream>> {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    rest: R,
}

impl<R: BufRead> Answer<R> {
    fn read_head(mut rest: R) -> io::Result<Self> {
        let status_line = read_line(&mut rest)?;
        let status = status_line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| malformed(status_line))?;
        let mut headers = Vec::new();
        loop {
            let line = read_line(&mut rest)?;
            if line.is_empty() {
                return Ok(Self { status, headers, rest });
            }
            let (name, value) = line.split_once(':').ok_or_else(|| malformed(line.clone()))?;
            headers.push((name.to_lowercase(), value.trim().to_owned()));
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn is_chunked(&self) -> bool {
        self.header("transfer-encoding") == Some("chunked")
    }

    /// The next chunk; `None` after the last one.
    fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let line = read_line(&mut self.rest)?;
        let size = usize::from_str_radix(line.trim(), 16).map_err(|_| malformed(line))?;
        let mut chunk = vec![0; size + 2];
        self.rest.read_exact(&mut chunk)?;
        chunk.truncate(size);
        Ok((size > 0).then_some(chunk))
    }

    /// The whole body.
    pub(crate) fn bytes(mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        if self.is_chunked() {
            while let Some(chunk) = self.chunk()? {
                body.extend(chunk);
            }
            return Ok(body);
        }
        let length = self.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        body.resize(length, 0);
        self.rest.read_exact(&mut body)?;
        Ok(body)
    }

    pub(crate) fn json(self) -> io::Result<Value> {
        serde_json::from_slice(&self.bytes()?).map_err(|error| malformed(error.to_string()))
    }

    pub(crate) fn events(self) -> EventStream<R> {
        EventStream { answer: self, read: Vec::new(), is_over: false }
    }
}

fn read_line(from: &mut impl BufRead) -> io::Result<String> {
    let mut line = Vec::new();
    from.read_until(b'\n', &mut line)?;
    if line.pop() != Some(b'\n') {
        return Err(truncated());
    }
    let line = String::from_utf8(line).map_err(|error| malformed(error.to_string()))?;
    Ok(line.trim_end_matches('\r').to_owned())
}

/// A server-sent event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StreamedEvent {
    pub(crate) id: Option<String>,
    pub(crate) data: Value,
}

#[derive(Debug)]
pub(crate) struct EventStream<R = BufReader<TcpStream>> {
    answer: Answer<R>,
    read: Vec<u8>,
    is_over: bool,
}

impl<R: BufRead> EventStream<R> {
    /// The next event; `None` at the end of the stream.
    pub(crate) fn next(&mut self) -> io::Result<Option<StreamedEvent>> {
        loop {
            while let Some(end) = self.read.windows(2).position(|pair| pair == b"\n\n") {
                let block: Vec<u8> = self.read.drain(..end + 2).collect();
                if let Some(event) = parse(&block)? {
                    return Ok(Some(event));
                }
            }
            if self.is_over {
                return if self.read.is_empty() { Ok(None) } else { Err(malformed("an incomplete event")) };
            }
            match self.answer.chunk()? {
                Some(chunk) => self.read.extend(chunk),
                None => self.is_over = true,
            }
        }
    }
}

/// `None` for a comment.
fn parse(block: &[u8]) -> io::Result<Option<StreamedEvent>> {
    let block = str::from_utf8(block).map_err(|error| malformed(error.to_string()))?;
    let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).map(str::trim_start);
    let Some(data) = field("data:") else { return Ok(None) };
    let data = serde_json::from_str(data).map_err(|error| malformed(error.to_string()))?;
    Ok(Some(StreamedEvent { id: field("id:").map(str::to_owned), data }))
}

/// Iterates to the end of the stream.
impl<R: BufRead> Iterator for EventStream<R> {
    type Item = io::Result<StreamedEvent>;

    fn next(&mut self) -> Option<Self::Item> {
        Self::next(self).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const CHUNKED: &str = "HTTP/1.1 200 OK\r\nX-Run-Id: r1\r\ntransfer-encoding: chunked\r\n\r\n";

    fn answer(text: &str) -> io::Result<Answer<&[u8]>> {
        Answer::read_head(text.as_bytes())
    }

    #[test]
    fn events_are_read_across_chunks() {
        let text =
            format!("{CHUNKED}c\r\nid: 1\ndata: \r\n9\r\n{{\"a\":1}}\n\n\r\n5\r\n: x\n\n\r\n0\r\n\r\n");
        let answer = answer(&text).unwrap();
        assert_eq!((answer.status, answer.header("x-run-id")), (200, Some("r1")));
        let events: Vec<_> = answer.events().map(Result::unwrap).collect();
        assert_eq!(events, [StreamedEvent { id: Some("1".to_owned()), data: json!({"a": 1}) }]);
    }

    #[test]
    fn truncated_response_is_an_error() {
        let streamed = format!("{CHUNKED}11\r\nid: 1\ndata: \"a\"\n\n\r\n");
        let mut events = answer(&streamed).unwrap().events();
        assert_eq!(events.next().unwrap().map(|event| event.data), Some(json!("a")));
        assert!(events.next().is_err());
        assert!(answer("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n[1").unwrap().bytes().is_err());
        assert!(answer("HTTP/1.1 200 OK\r\ncontent-le").is_err());
        assert!(answer("").is_err());
    }

    #[test]
    fn body_has_the_announced_length() {
        let body = answer("HTTP/1.1 202 Accepted\r\ncontent-length: 8\r\n\r\n{\"a\": 1}").unwrap();
        assert_eq!((body.status, body.json().unwrap()), (202, json!({"a": 1})));
    }
}
