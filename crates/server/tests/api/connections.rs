//! Connections over a loopback socket: limits, deadlines of slow clients, and the graceful shutdown.

use super::test_app::{HOST, TestApp, message};
use serde_json::json;
use server::{ServerListener, ShutdownSignal, limits::ServerLimits, serve};
use std::{net::Ipv4Addr, time::Duration};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpSocket, TcpStream},
    task::JoinHandle,
    time::Instant,
};

struct ServedSocket {
    address: std::net::SocketAddr,
    shutdown: ShutdownSignal,
    task: JoinHandle<()>,
    app: TestApp,
}

type Client = BufReader<TcpStream>;

impl ServedSocket {
    async fn start(change: impl Fn(&mut ServerLimits)) -> Self {
        let mut limits = ServerLimits::default();
        change(&mut limits);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = ShutdownSignal::default();
        let app = TestApp::builder().limits(change).build();
        let listener = ServerListener { listener, tls: None, limits, proxies: Vec::new() };
        let task = tokio::spawn(serve(listener, app.router.clone(), shutdown.clone()));
        Self { address, shutdown, task, app }
    }

    async fn connect(&self) -> Client {
        self.connect_from(1).await
    }

    /// Connects from the loopback address `127.0.0.N`.
    async fn connect_from(&self, number: u8) -> Client {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((Ipv4Addr::new(127, 0, 0, number), 0).into()).unwrap();
        BufReader::new(socket.connect(self.address).await.unwrap())
    }
}

async fn send(connection: &mut Client, method: &str, path: &str, rest: &str) {
    let request = format!("{method} {path} HTTP/1.1\r\nhost: {HOST}\r\n{rest}");
    connection.write_all(request.as_bytes()).await.unwrap();
}

/// Reads the head of a response, and returns its status and content length.
async fn read_head(connection: &mut Client) -> (String, usize) {
    let (mut status, mut length) = (String::new(), 0);
    connection.read_line(&mut status).await.unwrap();
    loop {
        let mut line = String::new();
        connection.read_line(&mut line).await.unwrap();
        if line.trim().is_empty() {
            return (status.trim_start_matches("HTTP/1.1 ").trim().to_owned(), length);
        }
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.trim().parse().unwrap();
        }
    }
}

/// Sends a GET and returns the status of the response and its body. The connection stays open.
async fn get(connection: &mut Client, path: &str) -> (String, String) {
    send(connection, "GET", path, "\r\n").await;
    let (status, length) = read_head(connection).await;
    let mut body = vec![0; length];
    connection.read_exact(&mut body).await.unwrap();
    (status, String::from_utf8(body).unwrap())
}

async fn get_health(connection: &mut Client) -> String {
    get(connection, "/health").await.0
}

/// Starts a run that hangs, and reads the head of its stream.
async fn open_stream(server: &ServedSocket, number: u8) -> Client {
    let mut connection = server.connect_from(number).await;
    let body = message("hang").to_string();
    let rest = format!("content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    send(&mut connection, "POST", "/run_sse", &rest).await;
    assert_eq!(read_head(&mut connection).await.0, "200 OK");
    connection
}

async fn is_closed(connection: &mut Client) -> bool {
    matches!(connection.read(&mut [0]).await, Ok(0) | Err(_))
}

/// Checks that connections are closed long before the timeout of a head closes them.
async fn assert_evicted(connections: &mut [Client]) {
    tokio::time::pause();
    let began = Instant::now();
    for connection in connections {
        assert!(is_closed(connection).await);
    }
    assert!(began.elapsed() < ServerLimits::default().head_timeout / 2, "{:?}", began.elapsed());
    tokio::time::resume();
}

#[tokio::test]
async fn above_the_limit_only_health_is_answered_and_others_stay_open() {
    let server = ServedSocket::start(|limits| limits.connections = 1).await;
    server.app.create_session().await;
    let mut stream = open_stream(&server, 1).await;
    let mut health = server.connect().await;
    assert_eq!(get_health(&mut health).await, "200 OK");
    assert!(is_closed(&mut health).await, "a connection above the limit has one request");
    for path in ["/list-apps", "/readyz", "/apps/echo/users/u/sessions/health", "/none/health"] {
        let (status, body) = get(&mut server.connect().await, path).await;
        assert_eq!(status, "429 Too Many Requests", "{path}");
        assert_eq!(body, r#"{"detail":"connection limit of the server reached; retry later"}"#);
    }
    tokio::time::pause();
    let mut line = String::new();
    stream.read_line(&mut line).await.unwrap();
    assert!(!line.is_empty(), "the stream is still served");
}

#[tokio::test]
async fn an_idle_connection_makes_room_at_the_limit() {
    let server = ServedSocket::start(|limits| limits.connections = 1).await;
    let mut first = server.connect().await;
    assert_eq!(get_health(&mut first).await, "200 OK");
    let mut second = server.connect_from(2).await;
    assert_eq!(get(&mut second, "/list-apps").await.0, "200 OK");
    assert_evicted(&mut [first]).await;
}

#[tokio::test]
async fn idle_connections_do_not_block_new_ones() {
    let server = ServedSocket::start(|limits| {
        (limits.connections, limits.connections_per_address) = (16, 4);
    })
    .await;
    let mut used = server.connect_from(9).await;
    assert_eq!(get_health(&mut used).await, "200 OK");
    let mut silent = Vec::new();
    for _ in 0..40 {
        silent.push(server.connect_from(1).await);
    }
    assert_eq!(get_health(&mut used).await, "200 OK", "another address keeps its connection");
    for number in [1, 2] {
        assert_eq!(get(&mut server.connect_from(number).await, "/list-apps").await.0, "200 OK", "{number}");
    }
    assert_evicted(&mut silent[..35]).await;
    // The flood comes from more addresses than the server has connections.
    for number in 10..40 {
        silent.push(server.connect_from(number).await);
    }
    assert_eq!(get(&mut server.connect_from(3).await, "/list-apps").await.0, "200 OK");
}

#[tokio::test]
async fn a_slow_body_is_answered_408() {
    for per_second in [0, 100] {
        let server = ServedSocket::start(|limits| limits.body_timeout = Duration::from_mins(3)).await;
        let mut client = server.connect().await;
        let head = "content-type: application/json\r\ncontent-length: 100000\r\nexpect: 100-continue\r\n\r\n";
        send(&mut client, "POST", "/run", head).await;
        assert_eq!(read_head(&mut client).await.0, "100 Continue");
        tokio::time::pause();
        let (read, mut write) = client.into_inner().into_split();
        let sender = tokio::spawn(async move {
            while write.write_all(&vec![b' '; per_second]).await.is_ok() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
        let mut response = String::new();
        let mut read = BufReader::new(read);
        while !response.ends_with('}') && read.read_line(&mut response).await.is_ok_and(|read| read > 0) {}
        assert!(response.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{response}");
        assert!(response.contains("connection: close"), "{response}");
        assert!(response.ends_with(r#"{"detail":"the body arrives too slowly"}"#), "{response}");
        assert!(read.read(&mut [0]).await.is_ok_and(|read| read == 0), "the connection is closed");
        sender.abort();
        tokio::time::resume();
    }
}

#[tokio::test]
async fn a_response_that_is_not_read_is_cut_off() {
    let server = ServedSocket::start(|_| ()).await;
    let text = "x".repeat(50_000);
    let event = json!({"author": "user", "content": {"role": "user", "parts": [{"text": text}]}});
    let events = vec![event; 300];
    let body = json!({"sessionId": "long", "events": events});
    server.app.post("/apps/echo/users/u/sessions").json(&body).send().await.expect_status(200);
    let path = "/apps/echo/users/u/sessions/long";
    for is_read in [true, false] {
        let mut client = server.connect().await;
        send(&mut client, "GET", path, "connection: close\r\n\r\n").await;
        assert_eq!(read_head(&mut client).await.0, "200 OK");
        if !is_read {
            tokio::time::pause();
            for _ in 0..100 {
                tokio::time::sleep(Duration::from_secs(10)).await;
            }
            tokio::time::resume();
        }
        let mut body = Vec::new();
        let _ = client.read_to_end(&mut body).await;
        assert_eq!(body.ends_with(b"0\r\n\r\n"), is_read, "{} bytes", body.len());
    }
}

#[tokio::test]
async fn an_idle_event_stream_is_not_cut_off() {
    let server = ServedSocket::start(|_| ()).await;
    server.app.create_session().await;
    let mut stream = open_stream(&server, 1).await;
    tokio::time::pause();
    let mut line = String::new();
    let mut keep_alives = 0;
    while keep_alives < 40 {
        line.clear();
        assert!(stream.read_line(&mut line).await.unwrap() > 0, "after {keep_alives} comments");
        keep_alives += usize::from(line.starts_with(": keep-alive"));
    }
}

#[tokio::test]
async fn a_head_above_the_limit_is_answered_431() {
    const LIMIT: usize = 10_000;
    let server = ServedSocket::start(|limits| limits.head = LIMIT).await;
    for (size, status) in [
        (LIMIT, "200 OK"),
        (LIMIT + 1, "431 Request Header Fields Too Large"),
        (LIMIT * 6, "431 Request Header Fields Too Large"),
    ] {
        let mut client = server.connect().await;
        let fixed = format!("GET /health HTTP/1.1\r\nhost: {HOST}\r\nx: \r\n\r\n").len();
        let header = format!("x: {}\r\n\r\n", "a".repeat(size - fixed));
        send(&mut client, "GET", "/health", &header).await;
        assert_eq!(read_head(&mut client).await.0, status, "{size}");
    }
}

#[tokio::test]
async fn a_graceful_shutdown_closes_idle_connections() {
    let server = ServedSocket::start(|_| ()).await;
    let mut connection = server.connect().await;
    get_health(&mut connection).await;
    server.shutdown.graceful.cancel();
    assert_eq!(connection.read(&mut [0]).await.unwrap(), 0, "the connection is closed");
    server.task.await.unwrap();
    assert!(TcpStream::connect(server.address).await.is_err(), "the socket is closed");
}
