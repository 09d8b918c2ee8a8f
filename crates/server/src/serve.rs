//! The accept loop and the connections. Each connection has a task; a graceful shutdown lets requests finish.

use crate::{access::PeerAddr, limits::ServerLimits};
use axum::Router;
use hyper::{
    Request,
    body::Incoming,
    server::conn::http1,
    service::{Service, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use std::{net::SocketAddr, pin::pin, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Delay after `accept` fails, for example because no file descriptors are left.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);
/// hyper panics with a smaller buffer.
const MIN_HEAD_BYTES: usize = 8192;
/// The maximum number of connections above the limit that get a 429 at a time; further ones are closed.
const MAX_REJECTIONS: usize = 64;
const CONNECTION_LIMIT: &str = r#"{"detail":"connection limit of the server reached; retry later"}"#;

/// Stops a server in two stages.
#[derive(Clone, Debug, Default)]
pub struct ShutdownSignal {
    /// Accepts no new connections; active requests finish.
    pub graceful: CancellationToken,
    /// Closes all connections.
    pub immediate: CancellationToken,
}

/// The socket that the server accepts connections on.
pub struct ServerListener {
    pub listener: TcpListener,
    pub tls: Option<TlsAcceptor>,
    pub limits: ServerLimits,
}

impl std::fmt::Debug for ServerListener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerListener").field("listener", &self.listener).finish_non_exhaustive()
    }
}

/// Serves connections until the shutdown signal, and returns when all of them are closed.
pub async fn serve(listener: ServerListener, router: Router, shutdown: ShutdownSignal) {
    let ServerListener { listener, tls, limits } = listener;
    let connections = TaskTracker::new();
    let slots = Arc::new(Semaphore::new(limits.connections.min(Semaphore::MAX_PERMITS)));
    let rejection_slots = Arc::new(Semaphore::new(MAX_REJECTIONS));
    let handler = Arc::new(ConnectionHandler { tls, limits, router, shutdown: shutdown.clone() });
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shutdown.graceful.cancelled() => break,
            () = shutdown.immediate.cancelled() => break,
        };
        let Ok((stream, peer)) = accepted else {
            tokio::time::sleep(ACCEPT_BACKOFF).await;
            continue;
        };
        if let Ok(slot) = Arc::clone(&slots).try_acquire_owned() {
            let handler = Arc::clone(&handler);
            connections.spawn(async move {
                handler.handle(stream, peer).await;
                drop(slot);
            });
        } else if let (None, Ok(slot)) = (&handler.tls, Arc::clone(&rejection_slots).try_acquire_owned()) {
            connections.spawn(async move {
                let _ = timeout(Duration::from_secs(1), reject(stream)).await;
                drop(slot);
            });
        }
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

/// Answers 429, then reads to the end of the input: closing a socket with unread input would reset it and lose the response.
async fn reject(mut stream: TcpStream) -> std::io::Result<()> {
    let head = "HTTP/1.1 429 Too Many Requests\r\nretry-after: 1\r\nconnection: close\r\ncontent-type: application/json";
    let response = format!("{head}\r\ncontent-length: {}\r\n\r\n{CONNECTION_LIMIT}", CONNECTION_LIMIT.len());
    stream.write_all(response.as_bytes()).await?;
    stream.shutdown().await?;
    let mut rest = [0; 1024];
    while stream.read(&mut rest).await? > 0 {}
    Ok(())
}

/// What all connections share.
struct ConnectionHandler {
    tls: Option<TlsAcceptor>,
    limits: ServerLimits,
    router: Router,
    shutdown: ShutdownSignal,
}

impl ConnectionHandler {
    async fn handle(&self, stream: TcpStream, peer: SocketAddr) {
        // Events are small writes, which Nagle's algorithm would delay.
        let _ = stream.set_nodelay(true);
        let Some(tls) = &self.tls else { return self.serve_http(stream, peer).await };
        let handshake = tokio::select! {
            handshake = timeout(self.limits.head_timeout, tls.accept(stream)) => handshake,
            () = self.shutdown.graceful.cancelled() => return,
            () = self.shutdown.immediate.cancelled() => return,
        };
        if let Ok(Ok(stream)) = handshake {
            self.serve_http(stream, peer).await;
        }
    }

    async fn serve_http(&self, stream: impl AsyncRead + AsyncWrite + Unpin, peer: SocketAddr) {
        let routes = TowerToHyperService::new(self.router.clone());
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(PeerAddr(peer));
            routes.call(request)
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.head_timeout)
            .max_buf_size(self.limits.head.max(MIN_HEAD_BYTES))
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        tokio::select! {
            _ = connection.as_mut() => return,
            () = self.shutdown.immediate.cancelled() => return,
            () = self.shutdown.graceful.cancelled() => connection.as_mut().graceful_shutdown(),
        }
        tokio::select! {
            _ = connection => {}
            () = self.shutdown.immediate.cancelled() => {}
        }
    }
}
