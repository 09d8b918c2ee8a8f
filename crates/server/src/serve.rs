//! Connections: each has a task of its own, and a server that stops lets them finish what they are at.

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use std::{pin::pin, time::Duration};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// How long a client may take to say what it wants.
const HEADERS: Duration = Duration::from_secs(30);
/// Rest after a fault of the machine, such as no file descriptors left.
const PAUSE: Duration = Duration::from_millis(50);

/// Ends a server: at first no more connections, then all of them.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    /// Nobody new comes in; requests that are being answered go on.
    pub gently: CancellationToken,
    /// What still goes on ends.
    pub at_once: CancellationToken,
}

/// Answers whoever comes, until it is stopped and all connections are closed.
pub async fn serve(listener: TcpListener, router: Router, stop: Stop) {
    let connections = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.gently.cancelled() => break,
            () = stop.at_once.cancelled() => break,
        };
        match accepted {
            Ok((stream, _)) => {
                connections.spawn(connection(stream, router.clone(), stop.clone()));
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

async fn connection(stream: TcpStream, router: Router, stop: Stop) {
    // An event leaves when it happens.
    let _ = stream.set_nodelay(true);
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut served = pin!(served);
    tokio::select! {
        _ = served.as_mut() => return,
        () = stop.at_once.cancelled() => return,
        () = stop.gently.cancelled() => served.as_mut().graceful_shutdown(),
    }
    tokio::select! {
        _ = served => {}
        () = stop.at_once.cancelled() => {}
    }
}
