//! The accept loop and the connections. Each connection has a task; a graceful shutdown lets requests finish.

use crate::{
    access::{AccessDenied, HEALTH, PeerAddr},
    connection::{
        address::AddressKey,
        paced_io::PacedIo,
        table::{AddressLoad, BURST_TIME, Connection, ConnectionTable},
    },
    error::ApiError,
    guarded_body::GuardedBody,
    limits::ServerLimits,
    proxy::{IpNetwork, is_trusted},
};
use axum::{
    Router,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use hyper::{
    Request,
    body::Incoming,
    header::{CONNECTION, HeaderValue, TRANSFER_ENCODING},
    server::conn::http1,
    service::{Service, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use std::{
    convert::Infallible,
    future::pending,
    io,
    net::{self, SocketAddr},
    os::fd::AsFd,
    pin::pin,
    sync::Arc,
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite},
    net::{TcpListener, TcpSocket, TcpStream},
    time::timeout,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Delay after `accept` fails, for example because no file descriptors are left.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);
/// The size of hyper's buffers, unless heads may be larger: what a connection holds besides the current chunk of its response.
const BUFFER_BYTES: usize = 64 * 1024;
/// The send buffer of a socket, which Linux doubles. The kernel reports progress of a client in steps of about this size, so it
/// must be small in relation to the minimum rate.
const SEND_BUFFER_BYTES: u32 = 128 * 1024;
/// How long a connection above the limit may take in all, unless it has a principal.
const ABOVE_LIMIT_TIME: Duration = Duration::from_secs(5);
/// How long the server reads what a client still sends after the last response.
const LINGER_TIME: Duration = Duration::from_secs(1);

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
    /// Proxies, whose connections are not limited by address.
    pub proxies: Vec<IpNetwork>,
}

impl std::fmt::Debug for ServerListener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerListener").field("listener", &self.listener).finish_non_exhaustive()
    }
}

/// Serves connections until the shutdown signal, and returns when all of them are closed.
pub async fn serve(listener: ServerListener, router: Router, shutdown: ShutdownSignal) {
    let ServerListener { listener, tls, limits, proxies } = listener;
    // Best effort: a larger buffer only makes the deadline of responses less exact.
    let _ = limit_send_buffer(&listener);
    let connections = TaskTracker::new();
    let table = ConnectionTable::new(&limits);
    let handler = Arc::new(ConnectionHandler { tls, limits, router, shutdown: shutdown.clone() });
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shutdown.graceful.cancelled() => break,
            () = shutdown.immediate.cancelled() => break,
        };
        let Ok((stream, peer)) = accepted else {
            table.evict_oldest();
            tokio::time::sleep(ACCEPT_BACKOFF).await;
            continue;
        };
        let address = (!is_trusted(peer.ip(), &proxies)).then(|| AddressKey::new(peer.ip()));
        if let Some(connection) = table.admit(address) {
            let handler = Arc::clone(&handler);
            connections.spawn(async move { handler.handle(stream, peer, connection).await });
        }
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

/// Accepted sockets inherit the option of the listening socket.
fn limit_send_buffer(listener: &TcpListener) -> io::Result<()> {
    let duplicate = net::TcpStream::from(listener.as_fd().try_clone_to_owned()?);
    TcpSocket::from_std_stream(duplicate).set_send_buffer_size(SEND_BUFFER_BYTES)
}

/// State shared by all connections.
struct ConnectionHandler {
    tls: Option<TlsAcceptor>,
    limits: ServerLimits,
    router: Router,
    shutdown: ShutdownSignal,
}

impl ConnectionHandler {
    async fn handle(&self, stream: TcpStream, peer: SocketAddr, connection: Arc<Connection>) {
        // Events are small writes, which Nagle's algorithm would delay.
        let _ = stream.set_nodelay(true);
        tokio::select! {
            () = self.serve(stream, peer, &connection) => {}
            () = end_above_limit(&connection) => {}
            () = connection.evicted() => {}
            () = trim_after_burst(&connection) => {}
            () = self.shutdown.immediate.cancelled() => {}
        }
    }

    async fn serve(&self, stream: TcpStream, peer: SocketAddr, connection: &Arc<Connection>) {
        let Some(tls) = &self.tls else { return self.serve_http(stream, peer, connection).await };
        let handshake = tokio::select! {
            handshake = timeout(self.limits.head_timeout, tls.accept(stream)) => handshake,
            () = self.shutdown.graceful.cancelled() => return,
        };
        if let Ok(Ok(stream)) = handshake {
            self.serve_http(stream, peer, connection).await;
        }
    }

    async fn serve_http(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        peer: SocketAddr,
        connection: &Arc<Connection>,
    ) {
        let mut stream = PacedIo::new(stream, self.limits.min_rate);
        let service = service_fn(|request| self.respond(request, peer, connection));
        let served = {
            let http = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(self.limits.head_timeout)
                .max_header_size(self.limits.head)
                .max_buf_size(self.limits.head.max(BUFFER_BYTES))
                .keep_alive(!connection.is_above_limit())
                .serve_connection(TokioIo::new(&mut stream), service);
            let mut http = pin!(http);
            let served = tokio::select! {
                served = http.as_mut() => Some(served),
                () = self.shutdown.graceful.cancelled() => None,
            };
            if let Some(served) = served {
                served
            } else {
                http.as_mut().graceful_shutdown();
                http.await
            }
        };
        if served.is_ok() && !self.shutdown.graceful.is_cancelled() {
            let _ = timeout(LINGER_TIME, linger(stream)).await;
        }
    }

    async fn respond(
        &self,
        mut request: Request<Incoming>,
        peer: SocketAddr,
        connection: &Arc<Connection>,
    ) -> Result<Response, Infallible> {
        let Some(guard) = connection.begin_request() else {
            // The task of the connection is about to close it.
            return Ok(closing(AccessDenied::ConnectionLimit.into_response()));
        };
        if !is_known_coding(request.headers()) {
            let detail = "the only transfer coding is chunked";
            return Ok(closing(ApiError::new(StatusCode::NOT_IMPLEMENTED, detail).into_response()));
        }
        let is_health = request.uri().path() == HEALTH;
        request.extensions_mut().insert(PeerAddr(peer));
        request.extensions_mut().insert(Arc::clone(connection));
        let response = TowerToHyperService::new(self.router.clone()).call(request).await?;
        let response = match connection.address_load() {
            AddressLoad::Normal => response,
            AddressLoad::Close => closing(response),
            AddressLoad::Refuse if is_health => closing(response),
            AddressLoad::Refuse => closing(AccessDenied::ConnectionLimit.into_response()),
        };
        Ok(response.map(|body| GuardedBody::wrap(body, guard)))
    }
}

/// Whether the body is chunked once or not at all. A proxy could see the end of another coding elsewhere.
fn is_known_coding(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => true,
        (Some(coding), None) => coding.as_bytes().eq_ignore_ascii_case(b"chunked"),
        (Some(_), Some(_)) => false,
    }
}

/// Applies the limit of the address once, after the time in which many connections may be opened.
async fn trim_after_burst(connection: &Connection) {
    tokio::time::sleep(BURST_TIME).await;
    connection.trim_address();
    pending::<()>().await;
}

/// Resolves when the time of a connection above the limit is over.
async fn end_above_limit(connection: &Connection) {
    if connection.is_above_limit() {
        tokio::time::sleep(ABOVE_LIMIT_TIME).await;
        if connection.is_above_limit() {
            return;
        }
    }
    pending::<()>().await;
}

/// The response with which the connection ends.
fn closing(mut response: Response) -> Response {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// Reads to the end of the input: closing a socket with unread input would reset it, and the client would lose the response.
async fn linger(mut stream: impl AsyncRead + Unpin) -> io::Result<()> {
    let mut rest = [0; 1024];
    while stream.read(&mut rest).await? > 0 {}
    Ok(())
}
