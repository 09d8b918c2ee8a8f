//! A server that does what a test tells it, byte by byte.

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// What a server does after it has read a request.
#[derive(Clone, Debug)]
pub(crate) enum ServerAction {
    Say(String),
    Bytes(Vec<u8>),
    /// The connection is not closed but cut.
    Reset,
    /// Nothing more is said; the act is over when the client has closed the connection.
    UntilClosed,
}

pub(crate) struct FakeServer {
    pub(crate) url: String,
    /// The requests, head and body, once all acts are done.
    pub(crate) heard: JoinHandle<Vec<String>>,
}

/// A server for as many connections as there are lists of acts, one after the other.
pub(crate) async fn serve(connections: Vec<Vec<ServerAction>>) -> FakeServer {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let heard = tokio::spawn(async move {
        let mut heard = Vec::new();
        for acts in connections {
            let (mut socket, _) = listener.accept().await.unwrap();
            heard.push(request(&mut socket).await);
            for act in acts {
                play(&mut socket, act).await;
            }
        }
        heard
    });
    FakeServer { url, heard }
}

pub(crate) async fn play(socket: &mut TcpStream, act: ServerAction) {
    match act {
        // A client that has heard enough may be gone.
        ServerAction::Say(text) => drop(socket.write_all(text.as_bytes()).await),
        ServerAction::Bytes(bytes) => drop(socket.write_all(&bytes).await),
        ServerAction::Reset => socket.set_zero_linger().unwrap(),
        ServerAction::UntilClosed => while !matches!(socket.read(&mut [0; 64]).await, Ok(0) | Err(_)) {},
    }
}

/// Reads one request with its body, or what there is of it before the client goes.
pub(crate) async fn request(socket: &mut TcpStream) -> String {
    let mut text = String::new();
    loop {
        let mut piece = [0; 4096];
        let count = socket.read(&mut piece).await.unwrap();
        if count == 0 {
            return text;
        }
        text += str::from_utf8(&piece[..count]).unwrap();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
            return text;
        }
    }
}

/// The head of a response that ends with its connection.
pub(crate) fn head(status: &str, headers: &[(&str, &str)]) -> ServerAction {
    let lines: Vec<String> = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    ServerAction::Say(format!("HTTP/1.1 {status}\r\n{}connection: close\r\n\r\n", lines.concat()))
}

/// The head of a stream whose body has an end of its own.
pub(crate) fn stream_head() -> ServerAction {
    ServerAction::Say(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n".to_owned(),
    )
}

pub(crate) fn chunk(data: impl AsRef<[u8]>) -> ServerAction {
    let data = data.as_ref();
    ServerAction::Bytes([format!("{:x}\r\n", data.len()).as_bytes(), data, b"\r\n"].concat())
}

pub(crate) fn last_chunk() -> ServerAction {
    ServerAction::Say("0\r\n\r\n".to_owned())
}
