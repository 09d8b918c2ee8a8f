//! Stress of our server alone: 10,000 readers, 1,000 concurrent runs, and a session of a million events.

use super::{
    process::Process,
    sides::long,
    wire::{BenchSession, Connection},
};
use crate::{
    Result,
    figure::{Figure, Target},
    measure::milliseconds,
};
use futures::{StreamExt, TryStreamExt, future::join_all, stream};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use std::time::Instant;

const READERS: usize = 10_000;
/// Runs that the readers subscribe to.
const SUBSCRIBED_RUNS: usize = 100;
const RUNS: usize = 1_000;
/// Connections that are opened concurrently.
const CONCURRENCY: usize = 64;

/// Memory of readers whose runs send no events.
pub(super) async fn readers(server: &Process) -> Result<Vec<Figure>> {
    raise_file_limit()?;
    let mut connection = Connection::open(server.address).await?;
    let mut paths = Vec::with_capacity(SUBSCRIBED_RUNS);
    for number in 0..SUBSCRIBED_RUNS {
        let session = BenchSession::new(format!("r{number}"), "hangs");
        connection.create_session(&session).await?;
        let body = json!({"newMessage": {"role": "user", "parts": [{"text": "hang"}]}, "streaming": true});
        let path = format!("{}/runs", session.path());
        let begun: Value =
            serde_json::from_str(&connection.request("POST", &path, Some(&body)).await?.success()?)?;
        paths.push(format!("{path}/{}/events", begun["id"].as_str().unwrap_or_default()));
    }
    let before = server.memory()?;
    let open = |number: usize| {
        let path = &paths[number % SUBSCRIBED_RUNS];
        async move {
            let mut reader = Connection::open(server.address).await?;
            reader.open_stream(path).await?;
            Ok::<_, Box<dyn std::error::Error>>(reader)
        }
    };
    let readers: Vec<Connection> =
        stream::iter(0..READERS).map(open).buffer_unordered(CONCURRENCY).try_collect().await?;
    let with = server.memory()?;
    let each = (with - before) * 1024.0 / f64::from(u32::try_from(readers.len())?);
    Ok(vec![
        Figure::new("server/readers/10k", with, "MB").target(Target::AtMost(200.0)),
        Figure::new("server/readers/each", each, "kB"),
    ])
}

/// Raises the limit of open files: each reader is a socket.
fn raise_file_limit() -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let wanted = READERS as u64 + 256;
    if limit.current.is_some_and(|now| now < wanted) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..limit })?;
    }
    Ok(())
}

/// 1,000 runs in as many sessions, started at the same time.
pub(super) async fn runs(server: &Process) -> Result<Vec<Figure>> {
    let sessions: Vec<BenchSession> = (0..RUNS)
        .map(|number| BenchSession::new(format!("m{}", number % 50), format!("m{number}")))
        .collect();
    let mut connections = Vec::with_capacity(RUNS);
    for session in &sessions {
        let mut connection = Connection::open(server.address).await?;
        connection.create_session(session).await?;
        connections.push(connection);
    }
    server.reset_peak()?;
    let begun = Instant::now();
    let turns = connections.iter_mut().zip(&sessions).map(|(connection, session)| connection.turn(session));
    let failed = join_all(turns).await.into_iter().filter_map(std::result::Result::err);
    let failed = failed.inspect(|error| eprintln!("bench: a run failed: {error}")).count();
    let seconds = begun.elapsed().as_secs_f64();
    Ok(vec![
        Figure::new("server/runs/1k/failed", f64::from(u32::try_from(failed)?), "runs")
            .target(Target::AtMost(0.0)),
        Figure::new("server/runs/1k/all", seconds, "s"),
        Figure::new("server/runs/1k/peak", server.peak()?, "MB"),
    ])
}

/// A session of a million events: the whole session, and a page at its end.
pub(super) async fn million(server: &Process) -> Result<Vec<Figure>> {
    let mut connection = Connection::open(server.address).await?;
    let path = long().path();
    // The first request initialises the server.
    connection.request("GET", &format!("{path}?limit=10"), None).await?.success()?;
    server.reset_peak()?;
    let before = server.memory()?;
    let (begun, cpu) = (Instant::now(), server.cpu()?);
    let length = connection.body_length(&path).await?;
    let (seconds, cpu) = (begun.elapsed().as_secs_f64(), server.cpu()? - cpu);
    let more = server.peak()? - before;
    let begun = Instant::now();
    connection.request("GET", &format!("{path}?limit=100&after=999000"), None).await?.success()?;
    Ok(vec![
        Figure::new("server/million/more_memory", more, "MB").target(Target::AtMost(60.0)),
        Figure::new("server/million/body", f64::from(u32::try_from(length >> 20)?), "MB"),
        Figure::new("server/million/all", seconds, "s"),
        Figure::new("server/million/cpu", cpu / 1e3, "s"),
        Figure::new("server/million/last_page", milliseconds(begun.elapsed()), "ms"),
    ])
}
