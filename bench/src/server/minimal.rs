//! A minimal server for comparison: hyper and rusqlite, with the two durable commits of a turn and nothing else. Commits that
//! arrive together share one transaction, as in our store.

use crate::Result;
use hyper::{
    Request, Response,
    body::{Body, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use rusqlite::Connection;
use serde_json::Value;
use std::{
    future::poll_fn,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    pin::Pin,
    process::{Command, Stdio},
    sync::mpsc,
    thread,
};
use tokio::{net::TcpListener, runtime::Runtime, sync::oneshot};

/// The first argument of the process.
pub(crate) const COMMAND: &str = "minimal-server";
/// Commits per transaction.
const MAX_BATCH: usize = 256;
const ANSWER: &str = "Sunny, with a light wind from the west, and no rain before the evening.";

/// A message to store, and whom to tell.
struct Insert {
    session: String,
    text: String,
    stored: oneshot::Sender<()>,
}

/// The command that starts this program as the minimal server.
pub(super) fn command(home: &Path, port: u16) -> std::io::Result<Command> {
    let mut serve = Command::new(std::env::current_exe()?);
    serve.args([COMMAND, &port.to_string()]).arg(home.join("minimal.db")).stdin(Stdio::null());
    Ok(serve)
}

/// Serves until the process is killed.
pub(crate) fn main(mut args: impl Iterator<Item = String>) -> Result<()> {
    let port: u16 = args.next().ok_or("no port")?.parse()?;
    let path = PathBuf::from(args.next().ok_or("no database")?);
    let (inserts, received) = mpsc::channel();
    let mut conn = open(&path)?;
    thread::spawn(move || while write_batch(&mut conn, &received).is_ok() {});
    Runtime::new()?.block_on(serve(port, inserts))
}

fn open(path: &Path) -> Result<Connection> {
    let conn = Connection::open(path)?;
    conn.pragma_update(None, "journal_mode", "WAL")?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.execute_batch("CREATE TABLE messages (id INTEGER PRIMARY KEY, session TEXT, content TEXT)")?;
    Ok(conn)
}

fn write_batch(conn: &mut Connection, received: &mpsc::Receiver<Insert>) -> Result<()> {
    let first = received.recv()?;
    let batch: Vec<Insert> = [first].into_iter().chain(received.try_iter().take(MAX_BATCH)).collect();
    let transaction = conn.transaction()?;
    for insert in &batch {
        let mut row =
            transaction.prepare_cached("INSERT INTO messages (session, content) VALUES (?1, ?2)")?;
        row.execute((&insert.session, &insert.text))?;
    }
    transaction.commit()?;
    for insert in batch {
        let _ = insert.stored.send(());
    }
    Ok(())
}

async fn serve(port: u16, inserts: mpsc::Sender<Insert>) -> Result<()> {
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let inserts = inserts.clone();
        let service = service_fn(move |request| answer(request, inserts.clone()));
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

async fn answer(
    request: Request<Incoming>,
    inserts: mpsc::Sender<Insert>,
) -> std::result::Result<Response<String>, hyper::Error> {
    if request.uri().path() != "/run_sse" {
        return Ok(Response::new(String::new()));
    }
    let mut body = request.into_body();
    let mut bytes = Vec::new();
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        bytes.extend_from_slice(frame?.data_ref().map(AsRef::as_ref).unwrap_or_default());
    }
    let message: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let session = message["sessionId"].as_str().unwrap_or_default();
    let text = message["newMessage"]["parts"][0]["text"].as_str().unwrap_or_default();
    for text in [text, ANSWER] {
        let (stored, done) = oneshot::channel();
        let _ = inserts.send(Insert { session: session.to_owned(), text: text.to_owned(), stored });
        let _ = done.await;
    }
    let event = serde_json::json!({"content": {"parts": [{"text": ANSWER}], "role": "model"}});
    Ok(Response::new(format!("data: {event}\n\n")))
}
