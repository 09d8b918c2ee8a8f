//! An HTTP server that sends one mutated stream and answers every later request correctly.

use super::MutatedStream;
use crate::{ProviderApi, fakeprov};
use serde_json::Value;
use std::{
    io::{self, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};

/// A server on its own port of the loopback interface. Its thread ends with the process.
#[derive(Debug)]
pub struct StreamServer {
    port: u16,
    state: Arc<Mutex<ServerState>>,
}

#[derive(Debug)]
struct ServerState {
    next: Option<MutatedStream>,
    api: ProviderApi,
    requests: Vec<Value>,
}

impl StreamServer {
    pub fn start() -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let port = listener.local_addr()?.port();
        let state = ServerState { next: None, api: ProviderApi::OpenAi, requests: Vec::new() };
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                // A client that closes its connection ends only that connection.
                drop(answer(socket, &shared));
            }
        });
        Ok(Self { port, state })
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Sets the answer to the next request. Requests after it get a text in the same format.
    pub fn play(&self, stream: MutatedStream) {
        let mut state = lock(&self.state);
        state.api = stream.api;
        state.next = Some(stream);
        state.requests.clear();
    }

    /// The bodies of the requests since [`play`](Self::play).
    pub fn requests(&self) -> Vec<Value> {
        lock(&self.state).requests.clone()
    }
}

fn lock(state: &Mutex<ServerState>) -> MutexGuard<'_, ServerState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn answer(mut socket: TcpStream, state: &Mutex<ServerState>) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let body = read_body(&mut socket)?;
    let (api, next) = {
        let mut state = lock(state);
        state.requests.push(serde_json::from_slice(&body).unwrap_or_default());
        (state.api, state.next.take())
    };
    let (chunks, closes, head) = match next {
        Some(stream) => (stream.chunks, stream.closes, stream.head),
        None => (fakeprov::recorded_events(api, "think"), false, None),
    };
    let content_type = if api == ProviderApi::Ollama { "application/x-ndjson" } else { "text/event-stream" };
    let head = head.unwrap_or_else(|| format!("HTTP/1.1 200 OK\r\ncontent-type: {content_type}"));
    if head.starts_with("HTTP/1.1 204") {
        return socket.write_all(format!("{head}\r\nconnection: close\r\n\r\n").as_bytes());
    }
    let mut response =
        format!("{head}\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n").into_bytes();
    for chunk in chunks.iter().filter(|chunk| !chunk.is_empty()) {
        response.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
        response.extend(chunk);
        response.extend(b"\r\n");
    }
    if !closes {
        response.extend(b"0\r\n\r\n");
    }
    socket.write_all(&response)
}

/// Reads a request and returns its body, of the length that the head states.
fn read_body(socket: &mut TcpStream) -> io::Result<Vec<u8>> {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 16 << 10]);
    loop {
        let head_end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        if let Some(end) = head_end {
            let length = content_length(&bytes[..end]);
            let body = &bytes[end + 4..];
            if body.len() >= length {
                return Ok(body.to_vec());
            }
        }
        match socket.read(&mut buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => bytes.extend(&buffer[..count]),
        }
    }
}

fn content_length(head: &[u8]) -> usize {
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    length.and_then(|length| length.trim().parse().ok()).unwrap_or_default()
}
