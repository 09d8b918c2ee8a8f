//! Connections over a loopback socket: the connection limit and the graceful shutdown.

use super::test_app::{HOST, TestApp};
use server::{ServerListener, ShutdownSignal, limits::ServerLimits, serve};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

struct ServedSocket {
    address: std::net::SocketAddr,
    shutdown: ShutdownSignal,
    task: JoinHandle<()>,
}

impl ServedSocket {
    async fn start(limits: ServerLimits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = ShutdownSignal::default();
        let listener = ServerListener { listener, tls: None, limits };
        let task = tokio::spawn(serve(listener, TestApp::new().router, shutdown.clone()));
        Self { address, shutdown, task }
    }

    async fn connect(&self) -> BufReader<TcpStream> {
        BufReader::new(TcpStream::connect(self.address).await.unwrap())
    }
}

/// Sends `GET /health` and returns the status line of the response and its body. The connection stays open.
async fn get_health(connection: &mut BufReader<TcpStream>) -> (String, String) {
    let request = format!("GET /health HTTP/1.1\r\nhost: {HOST}\r\n\r\n");
    connection.write_all(request.as_bytes()).await.unwrap();
    let (mut status, mut length) = (String::new(), 0);
    connection.read_line(&mut status).await.unwrap();
    loop {
        let mut line = String::new();
        connection.read_line(&mut line).await.unwrap();
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    connection.read_exact(&mut body).await.unwrap();
    (status.trim().to_owned(), String::from_utf8(body).unwrap())
}

#[tokio::test]
async fn a_connection_above_the_limit_is_refused_and_others_stay_open() {
    let server = ServedSocket::start(ServerLimits { connections: 1, ..ServerLimits::default() }).await;
    let mut first = server.connect().await;
    assert_eq!(get_health(&mut first).await.0, "HTTP/1.1 200 OK");
    let mut second = server.connect().await;
    let (status, body) = get_health(&mut second).await;
    assert_eq!(status, "HTTP/1.1 429 Too Many Requests");
    assert_eq!(body, r#"{"detail":"connection limit of the server reached; retry later"}"#);
    drop(second);
    assert_eq!(get_health(&mut first).await.0, "HTTP/1.1 200 OK", "the first connection is still served");
}

#[tokio::test]
async fn a_graceful_shutdown_closes_idle_connections() {
    let server = ServedSocket::start(ServerLimits::default()).await;
    let mut connection = server.connect().await;
    get_health(&mut connection).await;
    server.shutdown.graceful.cancel();
    assert_eq!(connection.read(&mut [0]).await.unwrap(), 0, "the connection is closed");
    server.task.await.unwrap();
    assert!(TcpStream::connect(server.address).await.is_err(), "the socket is closed");
}
