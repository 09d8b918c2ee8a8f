//! Malformed HTTP, slow clients and floods.

use super::{
    engine::{Attack, Expect, Seen, TIMEOUT, connect, others_are_served, receive},
    request::request,
    world::{World, message},
};
use serde_json::json;
use std::{
    io::Write,
    net::{IpAddr, SocketAddr, TcpStream},
    time::Duration,
};

/// Short limits, so that slow clients are cut off within the test.
pub(super) const SETTINGS: &str = "headTimeoutSeconds = 1\nbodyTimeoutSeconds = 2\nstallTimeoutSeconds = 1\n\
    maxHeadBytes = 16384\nmaxConnections = 256\nconnectionsPerAddress = 32\n";
const MAX_HEAD: usize = 16384;

pub(super) fn rows(world: &World) -> Vec<Attack> {
    let mut rows = heads(world);
    rows.extend(lines(world));
    rows.extend(bodies(world));
    rows.extend(smuggled(world));
    rows.extend(slow(world));
    rows.extend(floods());
    rows
}

/// A head of exactly `size` bytes.
fn head(world: &World, size: usize) -> Vec<u8> {
    let base = request("GET", "/health").header("x-long", "").bytes(&world.address()).len();
    request("GET", "/health").header("x-long", &"x".repeat(size - base)).bytes(&world.address())
}

fn heads(world: &World) -> Vec<Attack> {
    let too_large = Expect::Is(&[0, 400, 414, 431]);
    let many = |count: usize| {
        let all = (0..count)
            .fold(request("GET", "/health"), |request, number| request.header(&format!("x{number}"), "y"));
        all.bytes(&world.address())
    };
    let long = "a".repeat(MAX_HEAD);
    vec![
        Attack::bytes("head at the limit", head(world, MAX_HEAD), Expect::Is(&[200])),
        Attack::bytes("head one byte above the limit", head(world, MAX_HEAD + 1), too_large),
        Attack::bytes("head twice the limit", head(world, 2 * MAX_HEAD), too_large),
        Attack::bytes("head of 1 MB", head(world, 1 << 20), too_large),
        Attack::bytes("head of 10 MB", head(world, 10 << 20), too_large),
        Attack::bytes("1,000 headers", many(1000), Expect::Is(&[0, 200, 400, 431])),
        Attack::bytes("10,000 headers", many(10_000), too_large),
        Attack::http("long path", world, &request("GET", &format!("/{long}")), too_large),
        Attack::http("long query", world, &request("GET", &format!("/health?{long}")), too_large),
        Attack::http("long method", world, &request(&long, "/health"), too_large),
        Attack::http("long header name", world, &request("GET", "/health").header(&long, "x"), too_large),
        Attack::bytes("only newlines", "\r\n".repeat(10_000), Expect::Dropped),
        Attack::bytes("only text", "a".repeat(100_000), Expect::Dropped),
    ]
}

/// Request lines and headers that are not HTTP/1.1.
fn lines(world: &World) -> Vec<Attack> {
    let own = world.address();
    let raw = |id: &str, head: &str, expect: Expect| Attack::bytes(id, format!("{head}\r\n\r\n"), expect);
    let host = format!("\r\nhost: {own}\r\nconnection: close");
    let line = |id: &str, line: &str| raw(id, &format!("{line}{host}"), Expect::Dropped);
    let header =
        |id: &str, header: &str| raw(id, &format!("GET /health HTTP/1.1{host}\r\n{header}"), Expect::Dropped);
    vec![
        raw("HTTP/0.9", "GET /list-apps", Expect::Dropped),
        line("HTTP/1.0 without a token", "GET /list-apps HTTP/1.0"),
        line("HTTP/2.0", "GET /health HTTP/2.0"),
        line("HTTP/9.9", "GET /health HTTP/9.9"),
        line("lower case version", "GET /health http/1.1"),
        raw("HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM", Expect::Dropped),
        line("two spaces", "GET  /health HTTP/1.1"),
        line("tabs", "GET\t/health\tHTTP/1.1"),
        line("space in the path", "GET /he alth HTTP/1.1"),
        line("fragment without a token", "GET /list-apps#x HTTP/1.1"),
        line("relative path", "GET list-apps HTTP/1.1"),
        line("asterisk", "OPTIONS * HTTP/1.1"),
        line("CONNECT", &format!("CONNECT {own} HTTP/1.1")),
        line("CONNECT to another host", "CONNECT evil.example:443 HTTP/1.1"),
        line("TRACE", "TRACE /whoami HTTP/1.1"),
        line("TRACE of a public route", "TRACE /health HTTP/1.1"),
        line("lower case method", "get /list-apps HTTP/1.1"),
        line("unknown method", "BREW /list-apps HTTP/1.1"),
        line("method with NUL", "G\0T /health HTTP/1.1"),
        line("absolute URI of another host", "GET http://evil.example/health HTTP/1.1"),
        line("absolute URI of another scheme", "GET file:///etc/passwd HTTP/1.1"),
        raw("no Host", "GET /health HTTP/1.1\r\nconnection: close", Expect::Dropped),
        header("space before the colon", "x-a : b"),
        header("header without a colon", "x-a"),
        header("empty name", ": b"),
        header("NUL in a value", "x-a: b\0c"),
        header("bare CR in a value", "x-a: b\rx-b: c"),
        header("folded header", "x-a: b\r\n c"),
        header("control character in a name", "x\u{1}: b"),
        header("two Hosts", "host: evil.example"),
        Attack::bytes(
            "TLS hello",
            [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".as_slice(), &[0; 512]].concat(),
            Expect::Dropped,
        ),
        Attack::bytes("zeros", vec![0; 4096], Expect::Dropped),
    ]
}

/// Upgrades, expectations and bodies whose length is wrong. None of them carries a valid request.
fn bodies(world: &World) -> Vec<Attack> {
    let own = world.address();
    let body = message("bob", &json!([{"text": "hello"}])).to_string();
    let post = |headers: &str, body: &str| {
        let bob = &world.bob;
        format!(
            "POST /run HTTP/1.1\r\nhost: {own}\r\nconnection: close\r\nauthorization: {bob}\r\n\
             content-type: application/json\r\n{headers}\r\n\r\n{body}"
        )
    };
    let chunked = |body: &str| post("transfer-encoding: chunked", body);
    let length = body.len();
    let bad = |id: &str, bytes: String| Attack::cut(id, bytes, Expect::Dropped);
    vec![
        bad("chunk size is not hex", chunked("zz\r\n{}\r\n0\r\n\r\n")),
        bad("chunk size is negative", chunked("-1\r\n{}\r\n0\r\n\r\n")),
        bad("chunk size overflows", chunked("ffffffffffffffffff\r\n{}\r\n0\r\n\r\n")),
        bad("chunk is longer than its size", chunked(&format!("1\r\n{body}\r\n0\r\n\r\n"))),
        bad("chunk is shorter than its size", chunked(&format!("fff\r\n{body}\r\n0\r\n\r\n"))),
        bad("chunk without an end", chunked(&format!("{length:x}\r\n{body}\r\n"))),
        bad("chunk extension of 100 KB", chunked(&format!("1;{}\r\n{{\r\n0\r\n\r\n", "a".repeat(100_000)))),
        bad("trailers of 100 KB", chunked(&format!("1\r\n{{\r\n0\r\nx: {}\r\n\r\n", "a".repeat(100_000)))),
        bad("length above the body", post(&format!("content-length: {}", length + 1), &body)),
        bad("length below the body", post(&format!("content-length: {}", length - 1), &body)),
        bad("length is negative", post("content-length: -1", &body)),
        bad("length has a sign", post(&format!("content-length: +{length}"), &body)),
        bad("length overflows", post("content-length: 99999999999999999999999", &body)),
        bad("length above the limit", post("content-length: 9999999999", &body)),
        bad("length is a list", post(&format!("content-length: {length}, {}", length + 1), &body)),
        bad("two lengths", post(&format!("content-length: {length}\r\ncontent-length: 1"), &body)),
        bad("no length", post("x-a: b", "")),
        bad("unknown expectation", post("expect: 200-ok\r\ncontent-length: 0", "")),
        bad("expects to continue without a body", post("expect: 100-continue\r\ncontent-length: 100", "")),
        bad(
            "upgrade to HTTP/2",
            post("upgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAAP__\r\ncontent-length: 0", ""),
        ),
        bad(
            "upgrade to a socket",
            post("upgrade: websocket\r\nsec-websocket-key: x\r\ncontent-length: 0", ""),
        ),
    ]
}

/// A second request inside of the first, which must not be answered. `/list-apps` needs Bob's token and names an app.
fn smuggled(world: &World) -> Vec<Attack> {
    let own = world.address();
    let bob = &world.bob;
    let inner = format!(
        "GET /list-apps HTTP/1.1\r\nhost: {own}\r\nauthorization: {bob}\r\nconnection: close\r\n\r\n"
    );
    let length = inner.len();
    let outer = |headers: &str, body: &str| {
        format!(
            "POST /config/telemetry HTTP/1.1\r\nhost: {own}\r\ncontent-type: application/json\r\n{headers}\r\n\r\n{body}"
        )
    };
    let chunked = format!("0\r\n\r\n{inner}");
    let cases = [
        (
            "TE and CL",
            outer(&format!("content-length: {}\r\ntransfer-encoding: chunked", chunked.len()), &chunked),
        ),
        (
            "CL and TE",
            outer(&format!("transfer-encoding: chunked\r\ncontent-length: {}", chunked.len()), &chunked),
        ),
        (
            "TE with a space",
            outer(&format!("transfer-encoding : chunked\r\ncontent-length: {}", chunked.len()), &chunked),
        ),
        (
            "TE with a tab",
            outer(&format!("transfer-encoding:\tchunked\r\ncontent-length: {}", chunked.len()), &chunked),
        ),
        (
            "TE xchunked",
            outer(&format!("transfer-encoding: xchunked\r\ncontent-length: {}", chunked.len()), &chunked),
        ),
        (
            "TE identity",
            outer(&format!("transfer-encoding: identity\r\ncontent-length: {}", chunked.len()), &chunked),
        ),
        ("TE chunked, identity", outer("transfer-encoding: chunked, identity", &chunked)),
        ("TE chunked, chunked", outer("transfer-encoding: chunked, chunked", &chunked)),
        ("TE gzip, chunked", outer("transfer-encoding: gzip, chunked", &chunked)),
        ("TE chunked twice", outer("transfer-encoding: chunked\r\ntransfer-encoding: chunked", &chunked)),
        ("TE with a vertical tab", outer("transfer-encoding: \u{b}chunked", &chunked)),
        ("CL with a sign", outer(&format!("content-length: +{length}"), &inner)),
        ("CL as a list", outer("content-length: 0, 0", &inner)),
        ("TE twice", outer("transfer-encoding: chunked\r\ntransfer-encoding: x", &chunked)),
        ("two CL", outer(&format!("content-length: {length}\r\ncontent-length: 0"), &inner)),
        ("CL of a body", outer(&format!("content-length: {length}"), &inner)),
        ("bare LF", outer(&format!("x: y\ncontent-length: {length}"), &inner)),
        ("GET with a body", outer(&format!("content-length: {length}"), &inner).replacen("POST", "GET", 1)),
    ];
    let mut rows: Vec<Attack> = cases
        .into_iter()
        .map(|(id, bytes)| {
            Attack::cut(format!("smuggled: {id}"), bytes, Expect::Dropped).without(&["[\"lango\"]"])
        })
        .collect();
    rows.extend(pipelined(world));
    rows.extend(chunks(world));
    rows
}

/// Chunked bodies that are not well-formed, and trailers that pose as headers.
fn chunks(world: &World) -> Vec<Attack> {
    let head = format!(
        "POST /config/telemetry HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n",
        world.address()
    );
    let trailers =
        (0..500).fold(String::new(), |all, number| format!("{all}x{number}: {}\r\n", "y".repeat(1000)));
    let cases = [
        ("size is no number", "zz\r\n{}\r\n0\r\n\r\n".to_owned()),
        ("size overflows", "ffffffffffffffff1\r\n{}\r\n0\r\n\r\n".to_owned()),
        ("negative size", "-2\r\n{}\r\n0\r\n\r\n".to_owned()),
        ("size with a prefix", "0x2\r\n{}\r\n0\r\n\r\n".to_owned()),
        ("chunk without its end", "2\r\n{}XX0\r\n\r\n".to_owned()),
        ("extension with a bare LF", "2;\n{}\r\n0\r\n\r\n".to_owned()),
        ("extension of 200 KB", format!("2;{}\r\n{{}}\r\n0\r\n\r\n", "a".repeat(200_000))),
        ("trailer with a token", format!("2\r\n{{}}\r\n0\r\nauthorization: {}\r\n\r\n", world.bob)),
        ("trailers of 500 KB", format!("2\r\n{{}}\r\n0\r\n{trailers}\r\n")),
    ];
    let row = |(id, body): (&str, String)| {
        Attack::cut(format!("chunks: {id}"), format!("{head}\r\n{body}"), Expect::Dropped)
    };
    cases.into_iter().map(row).collect()
}

/// Pipelined requests are separate: the token of the first does not count for the second.
fn pipelined(world: &World) -> Vec<Attack> {
    let own = world.address();
    let first = format!("GET /health HTTP/1.1\r\nhost: {own}\r\nauthorization: {}\r\n\r\n", world.ann);
    let second = format!("GET /list-apps HTTP/1.1\r\nhost: {own}\r\nconnection: close\r\n\r\n");
    let row = |id: &str, count: usize| {
        let bytes = format!("{}{second}", first.repeat(count));
        Attack::bytes(id, bytes, Expect::Says("401 Unauthorized")).without(&["[\"lango\"]"])
    };
    vec![row("pipelined without a token", 1), row("500 pipelined requests", 500)]
}

/// Clients that stop. The server cuts them off; others are served meanwhile.
fn slow(world: &World) -> Vec<Attack> {
    let own = world.address();
    let bob = &world.bob;
    let post = format!(
        "POST /run HTTP/1.1\r\nhost: {own}\r\nauthorization: {bob}\r\ncontent-type: application/json\r\n\
         content-length: 100000\r\n\r\n"
    );
    let chunked = post.replace("content-length: 100000", "transfer-encoding: chunked");
    let drip = |prefix: String| {
        move |world: &World| {
            let mut stream = connect(world);
            let _ = stream.write_all(prefix.as_bytes());
            // One byte for each request of another client, until the server closes the connection.
            while stream.write_all(b"a").is_ok() && !is_closed(&stream) {
                if let Err(fault) = others_are_served(world) {
                    return broken(fault);
                }
            }
            receive(&mut stream).unwrap_or_else(broken)
        }
    };
    let cut = Expect::Is(&[0, 408]);
    vec![
        Attack::bytes("slow: nothing", "", cut),
        Attack::bytes("slow: one byte", "G", cut),
        Attack::bytes("slow: half a head", format!("GET /health HTTP/1.1\r\nhost: {own}\r\n"), cut),
        Attack::bytes("slow: head without a body", post.clone(), cut),
        Attack::bytes("slow: half a body", format!("{post}{{"), cut),
        Attack::bytes("slow: half a chunk", format!("{chunked}fff\r\n{{"), cut),
        Attack::bytes("slow: chunk without a size", format!("{chunked}f"), cut),
        Attack::act("slow: dripping head", drip(format!("GET /health HTTP/1.1\r\nhost: {own}\r\nx: ")), cut),
        Attack::act("slow: dripping body", drip(post), cut),
    ]
}

/// A failed check inside of an attack, as a response that no row accepts.
fn broken(fault: String) -> Seen {
    Seen { status: 999, text: fault }
}

/// Whether the server closes or answers before the next byte is due.
fn is_closed(stream: &TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let closed = match stream.peek(&mut [0]) {
        Ok(_) => true,
        Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
    };
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    closed
}

fn floods() -> Vec<Attack> {
    let silent = |addresses: u8, each: usize, first: &'static str| {
        move |world: &World| {
            let mut held = Vec::new();
            for last in 2..2 + addresses {
                held.extend(connect_from([127, 0, 0, last].into(), world.server.address, each).unwrap());
            }
            for stream in &mut held {
                let _ = stream.write_all(first.as_bytes());
            }
            match others_are_served(world) {
                Ok(()) => Seen { status: 200, text: String::new() },
                Err(fault) => broken(fault),
            }
        }
    };
    let served = Expect::Is(&[200]);
    vec![
        Attack::act("flood: 300 silent connections of one address", silent(1, 300, ""), served),
        Attack::act("flood: 600 silent connections of six addresses", silent(6, 100, ""), served),
        Attack::act("flood: 600 connections of 60 addresses", silent(60, 10, ""), served),
        Attack::act("flood: 400 half heads", silent(8, 50, "GET /health HTTP/1.1\r\nx: "), served),
        Attack::act("flood: 400 wrong requests", silent(8, 50, "\0\0\0\0"), served),
    ]
}

/// Connections from another loopback address.
fn connect_from(from: IpAddr, to: SocketAddr, count: usize) -> std::io::Result<Vec<TcpStream>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let one = async || {
        let socket = tokio::net::TcpSocket::new_v4()?;
        socket.bind(SocketAddr::new(from, 0))?;
        let stream = socket.connect(to).await?.into_std()?;
        stream.set_nonblocking(false)?;
        Ok(stream)
    };
    (0..count).map(|_| runtime.block_on(one())).collect()
}
