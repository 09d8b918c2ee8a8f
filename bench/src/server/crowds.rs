//! What only our server is asked for: very many who listen, very many runs at once, and a very long session.

use super::{
    process::Process,
    sides::long,
    wire::{Connection, Session},
};
use crate::{
    Result,
    figure::{Aim, Figure},
    measure::milliseconds,
};
use futures::{StreamExt, TryStreamExt, future::join_all, stream};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use std::time::Instant;

const READERS: usize = 10_000;
/// Runs that the readers listen to.
const LISTENED_TO: usize = 100;
const RUNS: usize = 1_000;
/// How many connections are opened at a time.
const AT_ONCE: usize = 64;

/// Readers of runs in which nothing happens.
pub(super) async fn readers(server: &Process) -> Result<Vec<Figure>> {
    make_room()?;
    let mut connection = Connection::open(server.address).await?;
    let mut paths = Vec::with_capacity(LISTENED_TO);
    for number in 0..LISTENED_TO {
        let session = Session::new(format!("r{number}"), "hangs");
        connection.make(&session).await?;
        let body = json!({"newMessage": {"role": "user", "parts": [{"text": "hang"}]}, "streaming": true});
        let path = format!("{}/runs", session.path());
        let begun: Value = serde_json::from_str(&connection.ask("POST", &path, Some(&body)).await?.well()?)?;
        paths.push(format!("{path}/{}/events", begun["id"].as_str().unwrap_or_default()));
    }
    let before = server.memory()?;
    let open = |number: usize| {
        let path = &paths[number % LISTENED_TO];
        async move {
            let mut reader = Connection::open(server.address).await?;
            reader.listen(path).await?;
            Ok::<_, Box<dyn std::error::Error>>(reader)
        }
    };
    let readers: Vec<Connection> =
        stream::iter(0..READERS).map(open).buffer_unordered(AT_ONCE).try_collect().await?;
    let with = server.memory()?;
    let each = (with - before) * 1024.0 / f64::from(u32::try_from(readers.len())?);
    Ok(vec![
        Figure::new("server/readers/10k", with, "MB").aim(Aim::AtMost(200.0)),
        Figure::new("server/readers/each", each, "kB"),
    ])
}

/// Each reader is an open file.
fn make_room() -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let wanted = READERS as u64 + 256;
    if limit.current.is_some_and(|now| now < wanted) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..limit })?;
    }
    Ok(())
}

/// Runs of as many sessions, all begun at the same time.
pub(super) async fn runs(server: &Process) -> Result<Vec<Figure>> {
    let sessions: Vec<Session> =
        (0..RUNS).map(|number| Session::new(format!("m{}", number % 50), format!("m{number}"))).collect();
    let mut connections = Vec::with_capacity(RUNS);
    for session in &sessions {
        let mut connection = Connection::open(server.address).await?;
        connection.make(session).await?;
        connections.push(connection);
    }
    server.forget_peak()?;
    let begun = Instant::now();
    let turns = connections.iter_mut().zip(&sessions).map(|(connection, session)| connection.turn(session));
    let failed = join_all(turns).await.into_iter().filter_map(std::result::Result::err);
    let failed = failed.inspect(|error| eprintln!("bench: a run failed: {error}")).count();
    let seconds = begun.elapsed().as_secs_f64();
    Ok(vec![
        Figure::new("server/runs/1k/failed", f64::from(u32::try_from(failed)?), "runs").aim(Aim::AtMost(0.0)),
        Figure::new("server/runs/1k/all", seconds, "s"),
        Figure::new("server/runs/1k/peak", server.peak()?, "MB"),
    ])
}

/// A session of a million events, read whole and by a page at its end.
pub(super) async fn million(server: &Process) -> Result<Vec<Figure>> {
    let mut connection = Connection::open(server.address).await?;
    let path = long().path();
    // The first request of all is not what is measured.
    connection.ask("GET", &format!("{path}?limit=10"), None).await?.well()?;
    server.forget_peak()?;
    let before = server.memory()?;
    let (begun, cpu) = (Instant::now(), server.cpu()?);
    let length = connection.measure(&path).await?;
    let (seconds, cpu) = (begun.elapsed().as_secs_f64(), server.cpu()? - cpu);
    let more = server.peak()? - before;
    let begun = Instant::now();
    connection.ask("GET", &format!("{path}?limit=100&after=999000"), None).await?.well()?;
    Ok(vec![
        Figure::new("server/million/more_memory", more, "MB").aim(Aim::AtMost(60.0)),
        Figure::new("server/million/body", f64::from(u32::try_from(length >> 20)?), "MB"),
        Figure::new("server/million/all", seconds, "s"),
        Figure::new("server/million/cpu", cpu / 1e3, "s"),
        Figure::new("server/million/last_page", milliseconds(begun.elapsed()), "ms"),
    ])
}
