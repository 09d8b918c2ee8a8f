//! A test server that sends scripted bytes.

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// An action of the server after a request.
#[derive(Clone, Debug)]
pub(crate) enum ServerAction {
    Send(String),
    SendBytes(Vec<u8>),
    /// Closes the connection with RST.
    Reset,
    /// Sends nothing and waits until the client closes the connection.
    UntilClosed,
}

pub(crate) struct FakeServer {
    pub(crate) url: String,
    /// The requests, head and body; available when all actions are done.
    pub(crate) requests: JoinHandle<Vec<String>>,
}

/// Serves one connection per list of actions, sequentially.
pub(crate) async fn serve(connections: Vec<Vec<ServerAction>>) -> FakeServer {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let requests = tokio::spawn(async move {
        let mut requests = Vec::new();
        for actions in connections {
            let (mut socket, _) = listener.accept().await.unwrap();
            requests.push(read_request(&mut socket).await);
            for action in actions {
                perform(&mut socket, action).await;
            }
        }
        requests
    });
    FakeServer { url, requests }
}

pub(crate) async fn perform(socket: &mut TcpStream, action: ServerAction) {
    match action {
        // The client may have closed the connection already.
        ServerAction::Send(text) => drop(socket.write_all(text.as_bytes()).await),
        ServerAction::SendBytes(bytes) => drop(socket.write_all(&bytes).await),
        ServerAction::Reset => socket.set_zero_linger().unwrap(),
        ServerAction::UntilClosed => while !matches!(socket.read(&mut [0; 64]).await, Ok(0) | Err(_)) {},
    }
}

/// Reads one request with its body, or as much as the client sends before it disconnects.
pub(crate) async fn read_request(socket: &mut TcpStream) -> String {
    let mut text = String::new();
    loop {
        let mut buffer = [0; 4096];
        let count = socket.read(&mut buffer).await.unwrap();
        if count == 0 {
            return text;
        }
        text += str::from_utf8(&buffer[..count]).unwrap();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
            return text;
        }
    }
}

/// A response head whose body ends with the connection.
pub(crate) fn head(status: &str, headers: &[(&str, &str)]) -> ServerAction {
    let lines: Vec<String> = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    ServerAction::Send(format!("HTTP/1.1 {status}\r\n{}connection: close\r\n\r\n", lines.concat()))
}

/// The head of a chunked event stream.
pub(crate) fn stream_head() -> ServerAction {
    ServerAction::Send(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n".to_owned(),
    )
}

pub(crate) fn chunk(data: impl AsRef<[u8]>) -> ServerAction {
    let data = data.as_ref();
    ServerAction::SendBytes([format!("{:x}\r\n", data.len()).as_bytes(), data, b"\r\n"].concat())
}

pub(crate) fn last_chunk() -> ServerAction {
    ServerAction::Send("0\r\n\r\n".to_owned())
}
