//! Connections: each has a task of its own, and a server that stops lets them finish what they are at.

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

/// Rest after a fault of the machine, such as no file descriptors left.
const PAUSE: Duration = Duration::from_millis(50);
/// hyper panics if it is given less room for a head.
const SMALLEST_HEAD: usize = 8192;
/// So many of those who come when the server is full are told so; more are cut off without a word.
const TURNED_AWAY: usize = 64;
const FULL: &str = r#"{"detail":"the server has no room for more connections"}"#;

/// Ends a server: at first no more connections, then all of them.
#[derive(Clone, Debug, Default)]
pub struct ShutdownSignal {
    /// Nobody new comes in; requests that are being answered go on.
    pub graceful: CancellationToken,
    /// What still goes on ends.
    pub immediate: CancellationToken,
}

/// Where clients come in.
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

/// Answers whoever comes, until it is stopped and all connections are closed.
pub async fn serve(door: ServerListener, router: Router, stop: ShutdownSignal) {
    let connections = TaskTracker::new();
    let room = Arc::new(Semaphore::new(door.limits.connections.min(Semaphore::MAX_PERMITS)));
    let turned_away = Arc::new(Semaphore::new(TURNED_AWAY));
    let host = Arc::new(ConnectionHandler { tls: door.tls, limits: door.limits, router, stop: stop.clone() });
    loop {
        let accepted = tokio::select! {
            accepted = door.listener.accept() => accepted,
            () = stop.graceful.cancelled() => break,
            () = stop.immediate.cancelled() => break,
        };
        let Ok((stream, peer)) = accepted else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        if let Ok(place) = Arc::clone(&room).try_acquire_owned() {
            let host = Arc::clone(&host);
            connections.spawn(async move {
                host.receive(stream, peer).await;
                drop(place);
            });
        } else if let (None, Ok(place)) = (&host.tls, Arc::clone(&turned_away).try_acquire_owned()) {
            connections.spawn(async move {
                let _ = timeout(Duration::from_secs(1), turn_away(stream)).await;
                drop(place);
            });
        }
    }
    drop(door.listener);
    connections.close();
    connections.wait().await;
}

/// Says that there is no room, and listens to the end so that the answer is not lost.
async fn turn_away(mut stream: TcpStream) -> std::io::Result<()> {
    let head = "HTTP/1.1 429 Too Many Requests\r\nretry-after: 1\r\nconnection: close\r\ncontent-type: application/json";
    let answer = format!("{head}\r\ncontent-length: {}\r\n\r\n{FULL}", FULL.len());
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    let mut rest = [0; 1024];
    while stream.read(&mut rest).await? > 0 {}
    Ok(())
}

/// What all connections have in common.
struct ConnectionHandler {
    tls: Option<TlsAcceptor>,
    limits: ServerLimits,
    router: Router,
    stop: ShutdownSignal,
}

impl ConnectionHandler {
    async fn receive(&self, stream: TcpStream, peer: SocketAddr) {
        // An event leaves when it happens.
        let _ = stream.set_nodelay(true);
        let Some(tls) = &self.tls else { return self.converse(stream, peer).await };
        let greeted = tokio::select! {
            greeted = timeout(self.limits.head_timeout, tls.accept(stream)) => greeted,
            () = self.stop.graceful.cancelled() => return,
            () = self.stop.immediate.cancelled() => return,
        };
        if let Ok(Ok(stream)) = greeted {
            self.converse(stream, peer).await;
        }
    }

    async fn converse(&self, stream: impl AsyncRead + AsyncWrite + Unpin, peer: SocketAddr) {
        let routes = TowerToHyperService::new(self.router.clone());
        let answer = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(PeerAddr(peer));
            routes.call(request)
        });
        let served = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.head_timeout)
            .max_buf_size(self.limits.head.max(SMALLEST_HEAD))
            .serve_connection(TokioIo::new(stream), answer);
        let mut served = pin!(served);
        tokio::select! {
            _ = served.as_mut() => return,
            () = self.stop.immediate.cancelled() => return,
            () = self.stop.graceful.cancelled() => served.as_mut().graceful_shutdown(),
        }
        tokio::select! {
            _ = served => {}
            () = self.stop.immediate.cancelled() => {}
        }
    }
}
