//! A server of a model on loopback: it answers every request at once with the same stream in OpenAI's format.

use crate::Result;
use hyper::{Request, Response, body::Body, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use std::{
    fmt::Write,
    future::poll_fn,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    pin::Pin,
    thread,
};
use tokio::runtime::Builder;

const ANSWER: &str = "Sunny, with a light wind from the west, and no rain before the evening.";

/// Starts the server on a thread of this process, which serves until the process ends.
pub(super) fn start() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    listener.set_nonblocking(true)?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    thread::spawn(move || runtime.block_on(serve(listener)).map_err(|error| eprintln!("bench: {error}")));
    Ok(address)
}

async fn serve(listener: TcpListener) -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer)));
    }
}

async fn answer(request: Request<Incoming>) -> std::result::Result<Response<String>, hyper::Error> {
    let mut body = request.into_body();
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        frame?;
    }
    let mut response = Response::new(stream());
    let kind = hyper::header::HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert(hyper::header::CONTENT_TYPE, kind);
    Ok(response)
}

/// One event per word of the answer.
fn stream() -> String {
    let mut stream = String::new();
    let mut push = |delta: serde_json::Value, finish: Option<&str>| {
        let choice = serde_json::json!({"index": 0, "delta": delta, "finish_reason": finish});
        let _ = write!(stream, "data: {}\n\n", serde_json::json!({"model": "m", "choices": [choice]}));
    };
    for word in ANSWER.split_inclusive(' ') {
        push(serde_json::json!({"content": word}), None);
    }
    push(serde_json::json!({}), Some("stop"));
    stream.push_str("data: [DONE]\n\n");
    stream
}
