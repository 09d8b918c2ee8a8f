//! The file format of a recorded exchange: request line, headers, body, `=== RESPONSE`, and the response or the word `withheld`.

use crate::Result;
use serde_json::{Map, Value};
use std::{fs, path::Path};

const DIVIDER: &str = "\n=== RESPONSE\n";

#[derive(Debug)]
pub(crate) struct Exchange {
    /// The file name, which begins with the number of the exchange.
    pub(crate) name: String,
    pub(crate) request: Request,
    /// `None` if it is withheld.
    pub(crate) answer: Option<Answer>,
}

#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<Header>,
    pub(crate) body: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<Header>,
    pub(crate) body: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Header {
    pub(crate) name: String,
    pub(crate) value: String,
}

/// Reads all transcripts of a directory, in the order of their numbers.
pub(crate) fn read_all(dir: &Path) -> Result<Vec<Exchange>> {
    let unreadable = |error| format!("the transcripts in {}: {error}", dir.display());
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir).map_err(unreadable)? {
        paths.push(entry?.path());
    }
    paths.retain(|path| path.extension().is_some_and(|end| end == "txt"));
    paths.sort();
    if paths.is_empty() {
        return Err(format!("{} contains no transcripts", dir.display()).into());
    }
    paths.iter().map(|path| read(path)).collect()
}

fn read(path: &Path) -> Result<Exchange> {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let text = fs::read_to_string(path)?;
    Exchange::parse(&name, &text).ok_or_else(|| format!("{} is not a transcript", path.display()).into())
}

impl Exchange {
    pub(crate) fn parse(name: &str, text: &str) -> Option<Self> {
        let (request, answer) = text.split_once(DIVIDER)?;
        let answer = match answer.trim() {
            "withheld" => None,
            _ => Some(Answer::parse(answer)?),
        };
        Some(Self { name: name.to_owned(), request: Request::parse(request)?, answer })
    }

    /// The number that identifies the exchange in the rules.
    pub(crate) fn number(&self) -> &str {
        self.name.split('-').next().unwrap_or_default()
    }
}

impl Request {
    fn parse(text: &str) -> Option<Self> {
        let (head, body) = match text.split_once("\n\n") {
            Some((head, body)) => (head, Some(body.to_owned())),
            None => (text, None),
        };
        let mut lines = head.lines();
        let (method, path) = lines.next()?.split_once(' ')?;
        let headers = lines.filter_map(Header::parse).collect();
        Some(Self { method: method.to_owned(), path: path.to_owned(), headers, body })
    }
}

impl Answer {
    fn parse(text: &str) -> Option<Self> {
        let (head, body) = text.split_once("\r\n\r\n").or_else(|| text.split_once("\n\n"))?;
        let mut lines = head.lines();
        let status = status(lines.next()?)?;
        Some(Self { status, headers: lines.filter_map(Header::parse).collect(), body: body.to_owned() })
    }

    /// The compared parts as one value: status, content type, location and body.
    pub(crate) fn snapshot(&self) -> Value {
        let mut snapshot = Map::new();
        snapshot.insert("status".to_owned(), self.status.into());
        let kind = self.header("content-type").map(|kind| kind.split(';').next().unwrap_or_default().trim());
        snapshot.insert("type".to_owned(), kind.into());
        snapshot.insert("location".to_owned(), self.header("location").into());
        snapshot.insert("body".to_owned(), self.content(kind.unwrap_or_default()));
        snapshot.into()
    }

    fn content(&self, kind: &str) -> Value {
        match kind {
            "text/event-stream" => stream(&self.body),
            "application/json" => json_or_text(&self.body),
            _ => self.body.trim_end().into(),
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
        found.map(|header| header.value.as_str())
    }
}

impl Header {
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let (name, value) = line.split_once(':')?;
        Some(Self { name: name.trim().to_owned(), value: value.trim().to_owned() })
    }
}

/// The status in a line such as `HTTP/1.1 200 OK`.
pub(crate) fn status(line: &str) -> Option<u16> {
    line.split(' ').nth(1)?.trim().parse().ok()
}

/// The `data:` of each event. Ids, comments and the lengths of chunks are ignored.
fn stream(body: &str) -> Value {
    let mut events = Vec::new();
    let mut data: Vec<&str> = Vec::new();
    for line in body.lines().chain([""]) {
        match line.strip_prefix("data:") {
            Some(more) => data.push(more.strip_prefix(' ').unwrap_or(more)),
            None if line.is_empty() && !data.is_empty() => {
                events.push(json_or_text(&data.join("\n")));
                data.clear();
            }
            None => {}
        }
    }
    events.into()
}

fn json_or_text(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn answer(head: &str, body: &str) -> Value {
        let text = format!("GET /x\n=== RESPONSE\n{head}\r\n\r\n{body}");
        Exchange::parse("001-x", &text).unwrap().answer.unwrap().snapshot()
    }

    #[test]
    fn request_is_parsed_to_the_last_byte() {
        let text = "POST /run?a=b\nContent-Type: application/json\nHost: a.example:1\n\n{\"a\":\n=== RESPONSE\nwithheld\n";
        let exchange = Exchange::parse("017-bad-json", text).unwrap();
        assert_eq!(exchange.number(), "017");
        assert!(exchange.answer.is_none());
        let request = exchange.request;
        assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/run?a=b"));
        assert_eq!(request.headers[1].value, "a.example:1");
        assert_eq!(request.body.as_deref(), Some("{\"a\":"));
    }

    #[test]
    fn snapshot_has_status_type_location_and_body() {
        let json = answer("HTTP/1.1 404 Not Found\r\ndate: x\r\ncontent-type: application/json", "{\"a\":1}");
        let expected = json!({"status": 404, "type": "application/json", "location": null, "body": {"a": 1}});
        assert_eq!(json, expected);
        let moved = answer("HTTP/1.1 307 Temporary Redirect\r\nlocation: /dev-ui/", "");
        assert_eq!(moved, json!({"status": 307, "type": null, "location": "/dev-ui/", "body": ""}));
    }

    #[test]
    fn stream_is_the_list_of_its_events_without_comments_and_chunk_lengths() {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8";
        let plain = answer(head, "data: {\"a\": 1}\n\ndata: [2]\n\n");
        assert_eq!(plain["body"], json!([{"a": 1}, [2]]));
        let ours =
            answer(head, ": hello\n\nid: 1\ndata: {\"a\":\ndata: 1}\n\n: alive\n\nid: 2\ndata:[2]\n\n");
        assert_eq!(ours, plain);
        let chunked = answer(head, "11\r\ndata: {\"a\": 1}\n\n\r\n0c\r\ndata: [2]\n\n\r\n0\r\n\r\n");
        assert_eq!(chunked, plain);
    }

    #[test]
    fn malformed_transcript_is_refused() {
        for text in ["", "GET /x\n", "GET\n=== RESPONSE\nwithheld", "GET /x\n=== RESPONSE\nHTTP/1.1 200 OK"] {
            assert!(Exchange::parse("001", text).is_none(), "{text}");
        }
    }
}
