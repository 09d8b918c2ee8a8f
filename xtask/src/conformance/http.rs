//! A minimal HTTP/1.1 client: one request per connection, and its complete response.

use super::transcript::{Answer, Header, Request, status};
use crate::Result;
use std::{
    fmt::Write as _,
    io::{BufRead, BufReader, Read, Write as _},
    net::TcpStream,
    time::Duration,
};

/// The read timeout, longer than any response takes, so that a hanging server is an error.
const READ_TIMEOUT: Duration = Duration::from_mins(1);

/// The base URL of a server: `http://127.0.0.1:8000`, with or without a path prefix.
#[derive(Debug)]
pub(crate) struct Base {
    authority: String,
    prefix: String,
}

impl Base {
    pub(super) fn parse(url: &str) -> Result<Self> {
        let Some(rest) = url.strip_prefix("http://") else {
            return Err(format!("`{url}` is not a base URL; it must start with http://").into());
        };
        let (authority, prefix) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let port = if authority.contains(':') { "" } else { ":80" };
        Ok(Self { authority: format!("{authority}{port}"), prefix: prefix.trim_end_matches('/').to_owned() })
    }

    pub(crate) fn send(&self, request: &Request) -> Result<Answer> {
        let stream = TcpStream::connect(&self.authority)?;
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        (&stream).write_all(self.wire(request).as_bytes())?;
        read(BufReader::new(stream))
    }

    fn wire(&self, request: &Request) -> String {
        let Request { method, path, headers, body } = request;
        let mut wire = format!("{method} {}{path} HTTP/1.1\r\nConnection: close\r\n", self.prefix);
        let mut header = |name: &str, value: &str| {
            let _ = write!(wire, "{name}: {value}\r\n");
        };
        if !headers.iter().any(|header| header.name.eq_ignore_ascii_case("host")) {
            header("Host", &self.authority);
        }
        for Header { name, value } in headers {
            header(name, value);
        }
        if let Some(body) = body {
            header("Content-Length", &body.len().to_string());
        }
        wire + "\r\n" + body.as_deref().unwrap_or_default()
    }
}

fn read(mut from: impl BufRead) -> Result<Answer> {
    let first = line(&mut from)?;
    let status = status(&first).ok_or_else(|| format!("not HTTP: `{first}`"))?;
    let mut answer = Answer { status, headers: Vec::new(), body: String::new() };
    loop {
        let line = line(&mut from)?;
        if line.is_empty() {
            break;
        }
        answer.headers.extend(Header::parse(&line));
    }
    let body = body(&answer, from)?;
    answer.body = String::from_utf8_lossy(&body).into_owned();
    Ok(answer)
}

fn body(answer: &Answer, mut from: impl BufRead) -> Result<Vec<u8>> {
    let chunked = answer.header("transfer-encoding").is_some_and(|how| how.eq_ignore_ascii_case("chunked"));
    if chunked {
        return chunks(from);
    }
    let mut body = Vec::new();
    match answer.header("content-length") {
        Some(length) => from.take(length.parse()?).read_to_end(&mut body)?,
        None => from.read_to_end(&mut body)?,
    };
    Ok(body)
}

fn chunks(mut from: impl BufRead) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let size = line(&mut from)?;
        let size = usize::from_str_radix(size.split(';').next().unwrap_or_default().trim(), 16)
            .map_err(|_| format!("`{size}` is not the size of a chunk; the response was truncated"))?;
        if size == 0 {
            return Ok(body);
        }
        let begin = body.len();
        body.resize(begin + size, 0);
        from.read_exact(&mut body[begin..])?;
        line(&mut from)?;
    }
}

fn line(from: &mut impl BufRead) -> Result<String> {
    let mut line = String::new();
    from.read_line(&mut line)?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(headers: Vec<Header>, body: Option<&str>) -> Request {
        let body = body.map(str::to_owned);
        Request { method: "POST".to_owned(), path: "/run".to_owned(), headers, body }
    }

    #[test]
    fn host_header_is_that_of_the_server_unless_recorded() {
        let base = Base::parse("http://127.0.0.1:8000/api/").unwrap();
        let wire = base.wire(&request(Vec::new(), Some("{}")));
        assert_eq!(
            wire,
            "POST /api/run HTTP/1.1\r\nConnection: close\r\nHost: 127.0.0.1:8000\r\nContent-Length: 2\r\n\r\n{}"
        );
        let foreign = base.wire(&request(vec![Header::parse("Host: evil.example").unwrap()], None));
        assert_eq!(foreign, "POST /api/run HTTP/1.1\r\nConnection: close\r\nHost: evil.example\r\n\r\n");
        assert!(Base::parse("https://a.example").is_err());
    }

    #[test]
    fn response_ends_by_length_chunks_or_connection() {
        let heads = [
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "hello and more"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n"),
            ("HTTP/1.1 200 OK\r\n\r\n", "hello"),
        ];
        for (head, body) in heads {
            let answer = read(format!("{head}{body}").as_bytes()).unwrap();
            assert_eq!((answer.status, answer.body.as_str()), (200, "hello"), "{head}");
        }
    }

    #[test]
    fn truncated_response_is_an_error() {
        let cut = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n";
        assert!(read(cut.as_bytes()).is_err());
        assert!(read("".as_bytes()).is_err());
    }
}
