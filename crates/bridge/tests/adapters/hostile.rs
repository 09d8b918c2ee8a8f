//! Answers of servers that deviate from their format: every turn ends in the answer or in one clear error, the streamed text is in the
//! log, and the next request is legal.
//!
//! `hostile/<format>.txt` has the rows of a format: a name, one frame per line, and the expected end. The rows of the transport apply to
//! all formats.

use crate::mutated_streams::{Bench, ObservedTurn, unclear};
use adk::error::RunError;
use testkit::{
    ProviderApi, fakeprov,
    mutated_streams::{self, MutatedStream},
};

const ROWS: [(ProviderApi, &str); 5] = [
    (ProviderApi::OpenAi, include_str!("hostile/openai.txt")),
    (ProviderApi::Responses, include_str!("hostile/responses.txt")),
    (ProviderApi::Anthropic, include_str!("hostile/anthropic.txt")),
    (ProviderApi::Gemini, include_str!("hostile/gemini.txt")),
    (ProviderApi::Ollama, include_str!("hostile/ollama.txt")),
];

struct DeviatingRow<'a> {
    name: &'a str,
    frames: Vec<&'a str>,
    expected: &'a str,
}

fn rows(text: &str) -> Vec<DeviatingRow<'_>> {
    text.split("\n\n")
        .map(|block| {
            let lines: Vec<&str> = block.lines().filter(|line| !line.is_empty()).collect();
            let [name, frames @ .., expected] = &lines[..] else { panic!("a row has three lines: {block}") };
            DeviatingRow { name: &name[2..], frames: frames.to_vec(), expected }
        })
        .collect()
}

fn stream(api: ProviderApi, chunks: Vec<Vec<u8>>) -> MutatedStream {
    MutatedStream { chunks, ..mutated_streams::unchanged(api, "text") }
}

fn frame(api: ProviderApi, line: &str) -> Vec<u8> {
    match api {
        ProviderApi::Ollama => format!("{line}\n").into_bytes(),
        ProviderApi::OpenAi | ProviderApi::Responses | ProviderApi::Anthropic | ProviderApi::Gemini => {
            format!("data: {line}\n\n").into_bytes()
        }
    }
}

/// The end of a turn in one line.
fn end(turn: &ObservedTurn) -> String {
    let mut line = match &turn.error {
        Some(RunError::Model(error)) => format!("! {}", error.code),
        Some(other) => format!("! {other:?}"),
        None => "=".to_owned(),
    };
    if let Some(code) = turn.error_code.as_ref().filter(|_| turn.error.is_none()) {
        line = format!("= {code}");
    }
    if !turn.stored.is_empty() {
        line = format!("{line} {:?}", turn.stored);
    }
    if !turn.thoughts.is_empty() {
        line = format!("{line} thought {:?}", turn.thoughts);
    }
    for call in &turn.calls {
        line = format!("{line} call {call}");
    }
    match turn.usage {
        Some(counts) => format!("{line} usage {counts:?}"),
        None => line,
    }
}

/// What is wrong with a turn, whatever its end is.
fn fault(bench: &Bench, api: ProviderApi, turn: &ObservedTurn) -> Option<String> {
    if turn.shown != turn.stored && !turn.shown.trim().is_empty() {
        return Some(format!("shown {:?}, stored {:?}", turn.shown, turn.stored));
    }
    let fault = match &turn.error {
        // A filter's code is the server's own.
        Some(RunError::Model(error)) => unclear(&error.code.to_ascii_uppercase(), &error.to_string()),
        Some(other) => Some(format!("not an error of the model: {other:?}")),
        None if turn.stored.trim().is_empty() && turn.error_code.is_none() => Some("a silent end".to_owned()),
        None => None,
    };
    fault.or_else(|| bench.next_request_fault(api, turn))
}

#[tokio::test]
async fn deviating_answer_of_a_format_ends_as_expected() {
    let bench = Bench::start();
    let mut failures = Vec::new();
    for (api, text) in ROWS {
        let rows = rows(text);
        assert!(rows.len() >= 40, "{api:?} has {} rows", rows.len());
        for DeviatingRow { name, frames, expected } in rows {
            let chunks = frames.iter().map(|line| frame(api, line)).collect();
            let turn = bench.turn(&stream(api, chunks)).await;
            let (end, fault) = (end(&turn), fault(&bench, api, &turn));
            if end != expected || fault.is_some() {
                let message = turn.error.as_ref().map(ToString::to_string).unwrap_or_default();
                failures.push(format!("{api:?} # {name}\n{end}\n  {message} {}", fault.unwrap_or_default()));
            }
        }
    }
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
}

/// A body with its head.
struct DeviatingResponse {
    name: &'static str,
    head: &'static str,
    body: Vec<u8>,
    /// The code of the error; `None` for the recorded answer.
    code: Option<&'static str>,
}

/// `{"error":{"message":"bad key","type":"authentication_error"}}`, compressed.
const GZIP_ERROR: &[u8] = include_bytes!("hostile/error.json.gz");

const STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream";
const JSON: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json";
const TEXT: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/plain";
const HTML: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/html; charset=utf-8";

#[expect(clippy::too_many_lines, reason = "a table")]
fn answers(api: ProviderApi) -> Vec<DeviatingResponse> {
    let recorded = || fakeprov::recorded_events(api, "text").concat();
    let text = || String::from_utf8(recorded()).unwrap();
    let ok = |name, head, body: Vec<u8>| DeviatingResponse { name, head, body, code: None };
    let error = |name, head, body: &str, code| DeviatingResponse {
        name,
        head,
        body: body.as_bytes().to_vec(),
        code: Some(code),
    };
    // A line of JSON may be followed by others.
    let unknown = if api == ProviderApi::Ollama { "TRUNCATED" } else { "PROTOCOL" };
    let unfinished = if api == ProviderApi::OpenAi { "EMPTY_ANSWER" } else { "TRUNCATED" };
    let mut all = vec![
        ok("byte order mark", STREAM, ["\u{feff}".as_bytes(), &recorded()].concat()),
        ok("CRLF", STREAM, text().replace('\n', "\r\n").into_bytes()),
        ok("blank lines first", STREAM, [b"\n\n\n".as_slice(), &recorded()].concat()),
        ok("content type without a type", "HTTP/1.1 200 OK\r\ncontent-type: ", recorded()),
        ok("no content type", "HTTP/1.1 200 OK\r\nx-a: b", recorded()),
        ok("status 201", "HTTP/1.1 201 Created\r\ncontent-type: text/event-stream", recorded()),
        ok("trailing garbage", STREAM, [&recorded(), b"\n\ngarbage".as_slice()].concat()),
        ok("trailing zero bytes", STREAM, [&recorded(), [0; 64].as_slice()].concat()),
        error("no content", "HTTP/1.1 204 No Content", "", "TRUNCATED"),
        error("empty body", STREAM, "", "TRUNCATED"),
        error("white space only", STREAM, " \n\n \n", "TRUNCATED"),
        error("HTML", HTML, "<html><body>Sign in</body></html>", "PROTOCOL"),
        error("HTML as a stream", STREAM, "\n<!doctype html><p>Sign in", "PROTOCOL"),
        error("null", JSON, "null", "TRUNCATED"),
        error("a JSON text", JSON, "\"upstream error\"", "TRUNCATED"),
        error("plain text", TEXT, "upstream error", "TRUNCATED"),
        error("an empty object", JSON, "{}", unknown),
        error("an empty list", JSON, "[]", "TRUNCATED"),
        error("an error list", JSON, r#"[{"error":{"code":401,"message":"bad key"}}]"#, "AUTH"),
        error("an error text", JSON, r#"{"error":"slow down","code":429}"#, "TRANSIENT"),
        error("an error in detail", JSON, r#"{"detail":"Not Found"}"#, unknown),
        error("an error that is cut", JSON, r#"{"error":{"message":"slow"#, "TRUNCATED"),
        error("redirect", "HTTP/1.1 302 Found\r\nlocation: http://other.example/v1?key=s", "", "SETUP"),
        error("redirect without a target", "HTTP/1.1 308 Permanent Redirect", "", "SETUP"),
        error(
            "HTML with an error status",
            "HTTP/1.1 502 Bad Gateway\r\ncontent-type: text/html",
            "<html>502",
            "TRANSIENT",
        ),
        error("an error status without a body", "HTTP/1.1 500 Internal Server Error", "", "TRANSIENT"),
        error(
            "an error list with a status",
            "HTTP/1.1 400 Bad Request",
            r#"[{"error":{"code":400,"message":"no"}}]"#,
            "BAD_REQUEST",
        ),
        error(
            "errors in a list",
            "HTTP/1.1 400 Bad Request",
            r#"{"errors":[{"message":"no"}]}"#,
            "BAD_REQUEST",
        ),
        error("status 418", "HTTP/1.1 418 X", "teapot", "BAD_REQUEST"),
        error("a binary body", STREAM, "\u{0}\u{1}\u{2}\u{3}", "TRUNCATED"),
    ];
    let gzip = |status: &str| {
        format!("HTTP/1.1 {status}\r\ncontent-encoding: gzip\r\ncontent-type: application/json")
    };
    all.push(DeviatingResponse {
        name: "compressed error",
        head: leak(gzip("401 Unauthorized")),
        body: GZIP_ERROR.to_vec(),
        code: Some("AUTH"),
    });
    all.push(DeviatingResponse {
        name: "compressed error with status 200",
        head: leak(gzip("200 OK")),
        body: GZIP_ERROR.to_vec(),
        code: Some("AUTH"),
    });
    if api != ProviderApi::Ollama {
        all.extend([
            ok("CR", STREAM, text().replace('\n', "\r").into_bytes()),
            ok("comments", STREAM, text().replace("\n\n", "\n\n: x\n\n:\n\n").into_bytes()),
            ok(
                "a comment of a megabyte",
                STREAM,
                [format!(": {}\n\n", "x".repeat(1 << 20)).as_bytes(), &recorded()].concat(),
            ),
            ok(
                "unknown fields",
                STREAM,
                text().replace("data:", "id: 7\nretry: 1\nfuture: x\ndata:").into_bytes(),
            ),
            error("only an end marker", STREAM, "data: [DONE]\n\n", unfinished),
            error("an event without data", STREAM, "event: error\n\n", "TRUNCATED"),
            error("an error event of plain text", STREAM, "event: error\ndata: worker lost\n\n", "TRANSIENT"),
        ]);
    }
    all
}

fn leak(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

#[tokio::test]
async fn deviating_transport_ends_in_the_answer_or_in_one_clear_error() {
    let bench = Bench::start();
    let mut failures = Vec::new();
    for api in ProviderApi::ALL {
        let recorded = bench.turn(&mutated_streams::unchanged(api, "text")).await;
        for DeviatingResponse { name, head, body, code } in answers(api) {
            let played = MutatedStream { head: Some(head.to_owned()), ..stream(api, vec![body]) };
            let turn = bench.turn(&played).await;
            let found = turn.error.as_ref().map(|error| match error {
                RunError::Model(error) => error.code.clone(),
                other => format!("{other:?}"),
            });
            let is_expected = found.as_deref() == code && (code.is_some() || turn.stored == recorded.stored);
            let fault = fault(&bench, api, &turn);
            if !is_expected || fault.is_some() {
                failures.push(format!(
                    "{api:?} {name}: {} {:?} {fault:?}",
                    end(&turn),
                    turn.error.map(|error| error.to_string())
                ));
            }
        }
    }
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
}
